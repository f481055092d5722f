package walk

import (
	"context"
	"path"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/toolhost/toolhost/service"
	"github.com/toolhost/toolhost/service/filesystem/ignore"
	"github.com/toolhost/toolhost/service/filesystem/internal/beneath"
)

// ignoreFileBytes is the size up to which an ignore file is used.
const ignoreFileBytes = 1 << 20

// A Top is the directory to which every place is relative.
type Top struct {
	// FD is a descriptor of it, and Path its absolute path without links. Where Path is
	// empty nothing is looked for that a .git file names.
	FD   int
	Path string
	// Rules hold in it from outside.
	Rules *ignore.Level
}

// ReadIgnoreFiles reads the ignore files of the open directory at a place, given the
// names in it. Like git, it does not follow a link to one; what cannot be read is as
// if it were not there.
func ReadIgnoreFiles(ctx context.Context, top Top, place string, fd int, names []beneath.Entry) ignore.Files {
	var files ignore.Files
	for _, n := range names {
		switch n.Name {
		case ".ignore":
			files.DotIgnore = readRules(ctx, fd, n.Name)
		case ".gitignore":
			files.GitIgnore = readRules(ctx, fd, n.Name)
		case ".git":
			files.Repository = true
			if n.Kind == service.Directory {
				files.Exclude = readRules(ctx, fd, ".git/info/exclude")
			} else if dir, ok := top.gitDir(ctx, place); ok {
				files.Exclude = readRules(ctx, top.FD, dir+"/info/exclude")
			}
		}
	}
	return files
}

// gitDir is where the repository is kept of a worktree or a submodule, whose .git is
// a file at a place. It is used if it is below the top.
func (t Top) gitDir(ctx context.Context, place string) (dir string, ok bool) {
	line, ok := strings.CutPrefix(readLine(ctx, t.FD, place+".git"), "gitdir: ")
	if !ok || t.Path == "" {
		return "", false
	}
	if dir, ok = t.below(place, line); !ok {
		return "", false
	}
	if common := readLine(ctx, t.FD, dir+"/commondir"); common != "" {
		return t.below(dir, common)
	}
	return dir, true
}

// below is a path as git wrote it, absolute or from a place, relative to the top.
func (t Top) below(place, written string) (string, bool) {
	if inside, ok := strings.CutPrefix(written, t.Path+"/"); ok {
		return path.Clean(inside), true
	}
	clean := path.Join(place, written)
	return clean, !path.IsAbs(written) && clean != ".." && !strings.HasPrefix(clean, "../")
}

// readLine reads a file that has one line, "" if it cannot be.
func readLine(ctx context.Context, dir int, path string) string {
	return strings.TrimRight(string(readSmall(ctx, dir, path, unix.PathMax)), "\r\n")
}

// RulesAbove reads the ignore files of the directories above the one at path, as
// far as the top, which path is relative to. It ends early where a directory cannot
// be opened.
func RulesAbove(ctx context.Context, top Top, path string) *ignore.Level {
	level := top.Rules
	for end := 0; path != "."; {
		dir, place := ".", ""
		if end > 0 {
			dir, place = path[:end], path[:end+1]
		}
		fd, err := beneath.Open(top.FD, dir, unix.O_RDONLY|unix.O_DIRECTORY)
		if err != nil {
			break
		}
		level = level.Enter(place, ReadIgnoreFiles(ctx, top, place, fd, IgnoreFilesIn(fd)))
		beneath.Close(fd)
		next := strings.IndexByte(path[len(place):], '/')
		if next < 0 {
			break
		}
		end = len(place) + next
	}
	return level
}

// IgnoreFilesIn looks for the names that ReadIgnoreFiles wants, without reading
// the directory.
func IgnoreFilesIn(fd int) []beneath.Entry {
	var names []beneath.Entry
	for _, name := range []string{".ignore", ".gitignore", ".git"} {
		if info, err := beneath.LstatName(fd, name); err == nil {
			names = append(names, beneath.Entry{Name: name, Kind: info.Kind})
		}
	}
	return names
}

func readRules(ctx context.Context, dir int, path string) *ignore.File {
	text := readSmall(ctx, dir, path, ignoreFileBytes)
	switch {
	case text == nil:
		return nil
	case len(text) > ignoreFileBytes:
		return ignore.TooLarge()
	}
	return ignore.Parse(text)
}

// readSmall reads a file of most bytes, or the first of them and one more; nil if it
// cannot be read.
func readSmall(ctx context.Context, dir int, path string, most int) []byte {
	fd, err := beneath.Open(dir, path, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_NOCTTY)
	if err != nil {
		return nil
	}
	defer beneath.Close(fd)
	info, err := beneath.Stat(fd)
	if err != nil || info.Kind != service.RegularFile {
		return nil
	}
	text := make([]byte, min(info.Size, int64(most)+1))
	n, err := beneath.ReadFull(ctx, fd, text)
	if err != nil && n == 0 {
		return nil
	}
	return text[:n]
}
