package client

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// ErrDigest is wrapped by the error of a file that is not the pinned one.
var ErrDigest = errors.New("the file is not the one that was pinned")

// stage verifies what the spec pins and gives the command to run. A pinned file
// is opened once and hashed while it is copied into dir, and the copy is what
// runs, so that there is no gap between check and use. What is not pinned is run
// where it is.
func stage(spec Spec, dir string) (command []string, err error) {
	command = slices.Clone(spec.Command)
	if err := runnable(command[0]); err != nil {
		return nil, err
	}
	if spec.SHA256 != "" && !spec.runsCopy() {
		if command[0], err = copyVerified(command[0], spec.SHA256, filepath.Join(dir, "0"), 0o500); err != nil {
			return nil, err
		}
	}
	for n, path := range slices.Sorted(maps.Keys(spec.Files)) {
		copied, err := copyVerified(path, spec.Files[path], filepath.Join(dir, strconv.Itoa(n+1)), 0o400)
		if err != nil {
			return nil, err
		}
		for i, arg := range command[1:] {
			if arg == path {
				command[i+1] = copied
			}
		}
	}
	return command, nil
}

// CheckPins reports the first pinned file that is not what was pinned, or cannot be read.
func (s Spec) CheckPins() error {
	pins := maps.Clone(s.Files)
	if pins == nil {
		pins = map[string]string{}
	}
	if s.SHA256 != "" {
		pins[s.Command[0]] = s.SHA256
	}
	for _, path := range slices.Sorted(maps.Keys(pins)) {
		if err := checkPin(path, pins[path]); err != nil {
			return err
		}
	}
	return nil
}

func checkPin(path, digest string) error {
	file, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0) // a pipe must not hold this up
	if err != nil {
		return err
	}
	defer file.Close()
	if info, err := file.Stat(); err != nil {
		return err
	} else if !info.Mode().IsRegular() {
		return fmt.Errorf("%s is not a regular file", path)
	}
	hash := sha256.New()
	if _, err := io.Copy(hash, file); err != nil {
		return err
	}
	if got := hex.EncodeToString(hash.Sum(nil)); !strings.EqualFold(got, digest) {
		return wrongDigest(path, got, digest)
	}
	return nil
}

// runnable gives the plain reason why a path is no executable.
func runnable(path string) error {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return fmt.Errorf("%s does not exist", path)
	case err != nil:
		return err
	case info.IsDir():
		return fmt.Errorf("%s is a directory, not an executable", path)
	case !info.Mode().IsRegular():
		return fmt.Errorf("%s is not a regular file", path)
	case info.Size() == 0:
		return fmt.Errorf("%s is empty", path)
	case unix.Access(path, unix.X_OK) != nil:
		return fmt.Errorf("%s is not executable: chmod +x it", path)
	}
	return nil
}

// copyVerified copies a file into a new directory, under its own name, and
// compares its digest. A file that is not the pinned one leaves no copy.
func copyVerified(path, digest, dir string, mode os.FileMode) (string, error) {
	source, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0) // a pipe must not hold this up
	if err != nil {
		return "", err
	}
	defer source.Close()
	if info, err := source.Stat(); err != nil {
		return "", err
	} else if !info.Mode().IsRegular() {
		return "", fmt.Errorf("%s is not a regular file", path)
	}
	if err := os.Mkdir(dir, 0o700); err != nil {
		return "", fmt.Errorf("copy %s: %w", path, err)
	}
	target := filepath.Join(dir, copyName(path))
	out, err := os.OpenFile(target, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return "", fmt.Errorf("copy %s: %w", path, err)
	}
	hash := sha256.New()
	_, err = io.Copy(io.MultiWriter(out, hash), source)
	if err = errors.Join(err, out.Close()); err != nil {
		_ = os.Remove(target)
		return "", fmt.Errorf("copy %s: %w", path, err)
	}
	if got := hex.EncodeToString(hash.Sum(nil)); !strings.EqualFold(got, digest) {
		_ = os.Remove(target)
		return "", wrongDigest(path, got, digest)
	}
	return target, nil
}

func wrongDigest(path, got, pinned string) error {
	return fmt.Errorf("%s: %w: its sha256 is %s, pinned is %s: if you trust the new file, pin that one",
		path, ErrDigest, got, strings.ToLower(pinned))
}

// copyName keeps the name of a file, as far as a name may be long.
func copyName(path string) string {
	name := filepath.Base(path)
	return name[:min(len(name), 64)]
}

// searchPath is where a plugin's programs are looked for.
const searchPath = "/usr/local/bin:/usr/bin:/bin"

// environment is everything that a plugin sees of the environment: what is
// needed to run programs and to make temporary files, what was passed through,
// and what go-plugin says to its other side. Of two settings of one variable the
// later one counts, so that neither the passed ones can break the protocol nor
// the first ones be forced on a plugin.
func environment(tmp string, passed, protocol []string) []string {
	all := slices.Concat([]string{"PATH=" + searchPath, "LANG=C.UTF-8", "TMPDIR=" + tmp}, promptExit(), passed, protocol)
	place := map[string]int{}
	var env []string
	for _, entry := range all {
		name, _, _ := strings.Cut(entry, "=")
		if at, twice := place[name]; twice {
			env[at] = entry
			continue
		}
		place[name] = len(env)
		env = append(env, entry)
	}
	return env
}
