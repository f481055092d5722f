package beneath

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/toolhost/toolhost/service"
)

// An Entry is a name in a directory.
type Entry struct {
	Name string
	Kind service.FileKind
}

// Where the fields of struct linux_dirent64 begin.
const (
	direntLength = 16
	direntType   = 18
	direntName   = 19
)

const (
	direntBuffer = 32 << 10
	direntUsual  = 32 // bytes that a name takes, mostly
)

// maxNames is how many names a directory may have, for what is held of it is some
// hundred bytes for each.
const maxNames = 1 << 19

// ReadDir reads the names in an open directory, from where its descriptor stands
// to the end, in no order and without "." and "..". ctx ends it between two
// system calls, with the context's cause. A directory with more than half a million
// names is a [*service.FileError].
func ReadDir(ctx context.Context, fd int) ([]Entry, error) { return readDir(ctx, fd, maxNames) }

func readDir(ctx context.Context, fd, most int) ([]Entry, error) {
	entries, err := ReadDirSome(ctx, fd, most+1)
	if err == nil && len(entries) > most {
		return nil, &service.FileError{
			Kind: service.FileIO, Detail: fmt.Sprintf("has more than %d names, and is not read; name a file in it", most),
		}
	}
	return entries, err
}

// ReadDirSome is ReadDir that stops when it has so many names, or some more.
func ReadDirSome(ctx context.Context, fd, most int) ([]Entry, error) {
	var entries []Entry
	buf := make([]byte, direntBuffer)
	for {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		n, err := unix.Getdents(fd, buf)
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case err != nil:
			return nil, err
		case n == 0:
			return entries, nil
		}
		if entries = parseDirents(fd, buf[:n], entries); len(entries) >= most {
			return entries, nil
		}
	}
}

func parseDirents(fd int, buf []byte, entries []Entry) []Entry {
	names := string(buf) // one allocation that all names share
	entries = slices.Grow(entries, len(buf)/direntUsual)
	for at := 0; at < len(buf); {
		length := int(binary.NativeEndian.Uint16(buf[at+direntLength:]))
		start, end := at+direntName, at+length
		if nul := bytes.IndexByte(buf[start:end], 0); nul >= 0 {
			end = start + nul
		}
		name := names[start:end]
		if name != "." && name != ".." {
			entries = append(entries, Entry{Name: name, Kind: direntKind(fd, name, buf[at+direntType])})
		}
		at += length
	}
	return entries
}

// direntKind asks once more where the filesystem does not keep the kind with the
// name.
func direntKind(fd int, name string, kind byte) service.FileKind {
	switch kind {
	case unix.DT_REG:
		return service.RegularFile
	case unix.DT_DIR:
		return service.Directory
	case unix.DT_LNK:
		return service.Symlink
	case unix.DT_UNKNOWN:
		if info, err := LstatName(fd, name); err == nil {
			return info.Kind
		}
	}
	return service.SpecialFile
}
