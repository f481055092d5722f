package filesystem

import (
	"bufio"
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/toolhost/toolhost/service/filesystem/ignore"
	"github.com/toolhost/toolhost/service/filesystem/internal/beneath"
	"github.com/toolhost/toolhost/service/filesystem/internal/walk"
)

const (
	// excludesBytes is the size up to which the user's ignore file is used.
	excludesBytes = 1 << 20
	// maxAbove is how many directories above a root are looked at.
	maxAbove = 64
)

// UserExcludes reads the ignore file that is the user's own for all repositories: the
// one that core.excludesFile in ~/.gitconfig or git's config directory names, else
// the file ignore in that directory, which is $XDG_CONFIG_HOME/git or ~/.config/git.
// Of git's configuration nothing else is read, and no file that it includes. Where
// there is none, or none that can be read, the text is empty.
func UserExcludes() string {
	home, err := os.UserHomeDir()
	if err != nil {
		return ""
	}
	config := os.Getenv("XDG_CONFIG_HOME")
	if config == "" {
		config = filepath.Join(home, ".config")
	}
	return userExcludes(home, filepath.Join(config, "git"))
}

func userExcludes(home, git string) string {
	path := filepath.Join(git, "ignore")
	for _, config := range []string{filepath.Join(git, "config"), filepath.Join(home, ".gitconfig")} { // the last one wins
		if named, ok := excludesFile(readText(config)); ok {
			path = named
		}
	}
	if rest, ok := strings.CutPrefix(path, "~/"); ok {
		path = filepath.Join(home, rest)
	}
	if !filepath.IsAbs(path) {
		return ""
	}
	return readText(path)
}

// readText reads a regular file that is not too large.
func readText(path string) string {
	file, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return ""
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil || !info.Mode().IsRegular() || info.Size() > excludesBytes {
		return ""
	}
	text := make([]byte, info.Size())
	n, _ := beneath.ReadFull(context.Background(), int(file.Fd()), text)
	return string(text[:n])
}

// excludesFile finds core.excludesFile in the text of a git configuration.
func excludesFile(text string) (path string, ok bool) {
	section := ""
	lines := bufio.NewScanner(strings.NewReader(text))
	for lines.Scan() {
		line := strings.TrimSpace(lines.Text())
		if rest, isSection := strings.CutPrefix(line, "["); isSection {
			name, after, _ := strings.Cut(rest, "]")
			section, line = strings.ToLower(strings.TrimSpace(name)), strings.TrimSpace(after)
		}
		key, value, _ := strings.Cut(line, "=")
		if section == "core" && strings.EqualFold(strings.TrimSpace(key), "excludesfile") {
			path, ok = configValue(value), true
		}
	}
	return path, ok
}

// configValue is a value of git's configuration without quotes and comment.
func configValue(written string) string {
	var value strings.Builder
	quoted, end := false, 0 // end is where a space may not be cut off
	written = strings.TrimSpace(written)
	for i := 0; i < len(written); i++ {
		c := written[i]
		switch {
		case c == '"':
			quoted = !quoted
			end = value.Len()
			continue
		case c == '\\' && i+1 < len(written):
			i++
			c = written[i]
			value.WriteByte(c)
			end = value.Len()
			continue
		case !quoted && (c == '#' || c == ';'):
			return value.String()[:max(end, len(strings.TrimRight(value.String(), " \t")))]
		}
		value.WriteByte(c)
		if quoted {
			end = value.Len()
		}
	}
	return value.String()
}

// rulesOutside are the rules that hold in a root from outside of it: the user's own,
// and, where the root lies within a repository, those of the directories from the top
// of that down to the root. They are read once.
func rulesOutside(root, excludes string) *ignore.Level {
	var level *ignore.Level
	if excludes != "" {
		level = ignore.Global(ignore.Parse([]byte(excludes)))
	}
	for _, path := range slices.Backward(directoriesAbove(root)) {
		dir, err := os.OpenFile(path, os.O_RDONLY|unix.O_DIRECTORY, 0)
		if err != nil {
			continue
		}
		fd := int(dir.Fd())
		files := walk.ReadIgnoreFiles(context.Background(), walk.Top{FD: fd}, "", fd, walk.IgnoreFilesIn(fd))
		level = level.EnterAbove(strings.TrimPrefix(root, strings.TrimSuffix(path, "/")+"/")+"/", files)
		dir.Close()
	}
	return level
}

// directoriesAbove are those above a root as far as the top of the repository that it
// lies in, the nearest first; none if it is the top of one, or lies in none.
func directoriesAbove(root string) []string {
	var above []string
	for dir := root; len(above) < maxAbove; dir = filepath.Dir(dir) {
		if dir != root {
			above = append(above, dir)
		}
		if _, err := os.Lstat(filepath.Join(dir, ".git")); err == nil {
			return above
		}
		if filepath.Dir(dir) == dir {
			break
		}
	}
	return nil
}

// top is the root as the walk and the ignore rules know it.
func (f *FileSystem) top() walk.Top {
	return walk.Top{FD: int(f.dir.Fd()), Path: f.real, Rules: f.rules}
}
