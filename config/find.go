package config

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/toolhost/toolhost/config/internal/document"
)

// FileName is the name of a project's file.
const FileName = "toolhost.yaml"

// otherFileName is how it may be misspelled.
const otherFileName = "toolhost.yml"

// Discover returns the project's file for a directory, or nothing: the nearest
// toolhost.yaml upward, as far as the directory with .git. Where there is no .git
// in dir or above it, only dir itself is looked in, since what lies above may
// belong to anybody.
func Discover(dir string) (path string, err error) {
	err = discover(dir, FileName, func(found string) (bool, error) {
		path = found
		return true, nil
	})
	return path, err
}

// discover visits the files of a name that a project's could be for a directory, the
// nearest first, until one is what was looked for.
func discover(dir, name string, visit func(path string) (done bool, err error)) error {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return err
	}
	top, err := nearestWith(dir, ".git")
	if err != nil {
		return err
	}
	for at := dir; ; at = filepath.Dir(at) {
		path := filepath.Join(at, name)
		found, err := exists(path)
		if err != nil {
			return err
		}
		if found {
			if done, err := visit(path); done || err != nil {
				return err
			}
		}
		if top == "" || at == top {
			return nil
		}
	}
}

// nearestWith is dir or the nearest directory above it that has an entry of that
// name, or nothing.
func nearestWith(dir, name string) (string, error) {
	for {
		if found, err := exists(filepath.Join(dir, name)); found {
			return dir, nil
		} else if err != nil {
			return "", err
		}
		above := filepath.Dir(dir)
		if above == dir {
			return "", nil
		}
		dir = above
	}
}

// exists says whether there is something of that name, whatever it is. What
// cannot be looked at is an error: a file that is not seen would lose its denies.
func exists(path string) (bool, error) {
	_, err := os.Lstat(path)
	switch {
	case err == nil:
		return true, nil
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ENOTDIR):
		return false, nil
	default:
		return false, fmt.Errorf("look for config: %w", err)
	}
}

// Place is the place of a config file that trust is recorded for: its path, made
// absolute, with the links of its directory resolved. The link that the file itself
// may be is not followed: trust is in a content at its place, or a repository
// could point at a file that is trusted elsewhere. The file need not exist.
func Place(path string) (string, error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return "", fmt.Errorf("place of %s is unknown: %w", path, err)
	}
	return filepath.Join(resolve(filepath.Dir(abs)), filepath.Base(abs)), nil
}

// source is a config file with its content.
type source struct {
	File
	dir  string // the directory that its paths are relative to
	data []byte
	note string // what is said of it beside its name
	root *document.Node
}

// asTrusted is said of a file as it was when it was trusted.
const asTrusted = " (as trusted)"

// readSource reads a regular file of at most [document.MaxBytes] bytes. Anything
// else, such as a pipe, is refused without waiting for it.
func readSource(path string, role Role) (*source, error) {
	file, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, fmt.Errorf("config file %s: %w", path, errors.Unwrap(err))
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return nil, fmt.Errorf("config file %s: %w", path, err)
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("config file %s is not a regular file", path)
	}
	data, err := io.ReadAll(io.LimitReader(file, document.MaxBytes+1))
	if err != nil {
		return nil, fmt.Errorf("config file %s: %w", path, err)
	}
	if len(data) > document.MaxBytes {
		return nil, fmt.Errorf("config file %s has more than %d bytes", path, document.MaxBytes)
	}
	place, err := Place(path)
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(data)
	return &source{
		File: File{Path: place, Digest: hex.EncodeToString(sum[:]), Role: role},
		dir:  filepath.Dir(path),
		data: data,
	}, nil
}

// parse reads the content and holds it against its form.
func (s *source) parse(found *mistakes) {
	root, wrong := document.Parse(s.data)
	if root != nil {
		s.root = root
		f := fileForm()
		if s.Role == UserFile {
			f = userFileForm()
		}
		wrong = append(wrong, f.Check(root)...)
		wrong = append(wrong, checkPrograms(root)...)
		wrong = append(wrong, checkCount(root)...)
	}
	for _, m := range wrong {
		found.add(s.at(m.At), "%s", m.Text)
	}
}

// at is a position in the file.
func (s *source) at(p document.Position) Position { return Position{s.Path, p.Line, p.Column} }

// path makes a path of the file absolute and clean.
func (s *source) path(text, home string) string {
	if rest, ok := strings.CutPrefix(text, "~/"); ok {
		return filepath.Join(home, rest)
	}
	if filepath.IsAbs(text) {
		return filepath.Clean(text)
	}
	return filepath.Join(s.dir, text)
}

// ruleSource names a line of the file in what is shown to a model: short, and
// without the user's directories.
func (s *source) ruleSource(line int) string {
	name := filepath.Base(s.Path)
	if s.Role == UserFile {
		name = filepath.Join(filepath.Base(filepath.Dir(s.Path)), name)
	}
	return fmt.Sprintf("%s%s:%d", name, s.note, line)
}

// resolve follows the links of a path as far as it exists.
func resolve(path string) string {
	if resolved, err := filepath.EvalSymlinks(path); err == nil {
		return resolved
	}
	above := filepath.Dir(path)
	if above == path {
		return path
	}
	return filepath.Join(resolve(above), filepath.Base(path))
}

// shorten is path relative to dir if it is below it.
func shorten(dir, path string) string {
	if rel, err := filepath.Rel(resolve(dir), path); err == nil && filepath.IsLocal(rel) {
		return rel
	}
	return path
}
