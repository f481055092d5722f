package walk

import (
	"context"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/toolhost/toolhost/service"
	"github.com/toolhost/toolhost/service/filesystem/ignore"
	"github.com/toolhost/toolhost/service/filesystem/internal/beneath"
)

// ignoreFileBytes is the size up to which an ignore file is used.
const ignoreFileBytes = 1 << 20

// ReadIgnoreFiles reads the ignore files of an open directory, given the names in
// it. Like git, it does not follow a link to one; what cannot be read is as if it
// were not there. Where .git is a file, of a worktree or a submodule, the
// directory is the top of a repository, and its info/exclude is not looked for.
func ReadIgnoreFiles(ctx context.Context, fd int, names []beneath.Entry) ignore.Files {
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
			}
		}
	}
	return files
}

// RulesAbove reads the ignore files of the directories above the one at path, as
// far as the directory top, which path is relative to. It ends early where a
// directory cannot be opened.
func RulesAbove(ctx context.Context, top int, path string) *ignore.Level {
	var level *ignore.Level
	for end := 0; path != "."; {
		dir, place := ".", ""
		if end > 0 {
			dir, place = path[:end], path[:end+1]
		}
		fd, err := beneath.Open(top, dir, unix.O_RDONLY|unix.O_DIRECTORY)
		if err != nil {
			break
		}
		level = level.Enter(place, ReadIgnoreFiles(ctx, fd, ignoreFilesIn(fd)))
		beneath.Close(fd)
		next := strings.IndexByte(path[len(place):], '/')
		if next < 0 {
			break
		}
		end = len(place) + next
	}
	return level
}

// ignoreFilesIn looks for the names that ReadIgnoreFiles wants, without reading
// the directory.
func ignoreFilesIn(fd int) []beneath.Entry {
	var names []beneath.Entry
	for _, name := range []string{".ignore", ".gitignore", ".git"} {
		if info, err := beneath.LstatName(fd, name); err == nil {
			names = append(names, beneath.Entry{Name: name, Kind: info.Kind})
		}
	}
	return names
}

func readRules(ctx context.Context, dir int, path string) *ignore.File {
	fd, err := beneath.Open(dir, path, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_NOCTTY)
	if err != nil {
		return nil
	}
	defer beneath.Close(fd)
	info, err := beneath.Stat(fd)
	if err != nil || info.Kind != service.RegularFile {
		return nil
	}
	if info.Size > ignoreFileBytes {
		return ignore.TooLarge()
	}
	text := make([]byte, info.Size)
	n, err := beneath.ReadFull(ctx, fd, text)
	if err != nil && n == 0 {
		return nil
	}
	return ignore.Parse(text[:n])
}
