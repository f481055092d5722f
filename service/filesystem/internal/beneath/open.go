package beneath

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/toolhost/toolhost/service"
)

// Info is what the system says of a file. Two that are equal are of one file that did
// not change in between, as far as its times are fine enough to say so.
type Info struct {
	Kind     service.FileKind
	Size     int64
	Modified int64 // nanoseconds since 1970
	// Names is how many names the file has.
	Names int
	// ReadOnly says that its mode does not let its owner write it.
	ReadOnly bool
	// RunsAs says that it is a program that runs as its owner, or its group.
	RunsAs   bool
	dev, ino uint64
	ctime    int64 // nanoseconds since 1970
}

// Changed is when the file, or what is said of it, last changed.
func (i Info) Changed() time.Time { return time.Unix(0, i.ctime) }

// ID is what the file is, whatever its name: the device, and its number there.
func (i Info) ID() (device, inode uint64) { return i.dev, i.ino }

// Same says whether both are one file.
func (i Info) Same(other Info) bool { return i.dev == other.dev && i.ino == other.ino }

// Untouched says that both are one file, and that nothing was done to it between the
// two looks, as far as the clock of its filesystem tells.
func (i Info) Untouched(other Info) bool { return i == other }

// Unwritten says that both are one file, of one size and one time of its last write.
func (i Info) Unwritten(other Info) bool {
	return i.Same(other) && i.Size == other.Size && i.Modified == other.Modified
}

// attempts is how often the kernel may find that something was renamed while it
// looked before the names are opened one by one.
const attempts = 16

// Open opens the file at path, relative and slash-separated, below the directory
// dir; "." is the directory itself. The flags are those of open(2); the
// descriptor is closed on exec and the caller's to close. A link on the way is
// ELOOP or ENOTDIR, ".." is EXDEV. Nothing is bounded by a context: give
// O_NONBLOCK for what may be a pipe.
func Open(dir int, path string, flags int) (fd int, err error) {
	how := unix.OpenHow{
		Flags:   uint64(flags | unix.O_CLOEXEC | unix.O_NOFOLLOW),
		Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS,
	}
	if outside(path) {
		return -1, unix.EXDEV
	}
	for range attempts {
		fd, err := unix.Openat2(dir, path, &how)
		switch {
		case errors.Is(err, unix.EINTR), errors.Is(err, unix.EAGAIN):
			continue
		case errors.Is(err, unix.ENOSYS), errors.Is(err, unix.EPERM):
			return openStepwise(dir, path, flags)
		}
		return fd, err
	}
	return openStepwise(dir, path, flags)
}

// Vanished says whether an error is that a name that was seen a moment ago is gone,
// or is a link now. In a walk that is not worth a word: a moment later it would not
// have been seen.
func Vanished(err error) bool {
	return errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ELOOP) || errors.Is(err, unix.ENOTDIR)
}

func outside(path string) bool {
	return strings.HasPrefix(path, "/") || path == ".." || strings.HasPrefix(path, "../") ||
		strings.HasSuffix(path, "/..") || strings.Contains(path, "/../")
}

// openStepwise opens each name below the one before.
func openStepwise(dir int, path string, flags int) (int, error) {
	at := dir
	for {
		name, rest, more := strings.Cut(path, "/")
		step := unix.O_PATH | unix.O_DIRECTORY
		if !more {
			step = flags
		}
		fd, err := openat(at, name, step|unix.O_NOFOLLOW|unix.O_CLOEXEC)
		if at != dir {
			Close(at)
		}
		if err != nil || !more {
			return fd, err
		}
		at, path = fd, rest
	}
}

func openat(dir int, name string, flags int) (int, error) {
	for {
		fd, err := unix.Openat(dir, name, flags, 0)
		if !errors.Is(err, unix.EINTR) {
			return fd, err
		}
	}
}

// Stat describes an open file.
func Stat(fd int) (Info, error) {
	var st unix.Stat_t
	for {
		err := unix.Fstat(fd, &st)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return Info{}, err
		}
		return info(&st), nil
	}
}

// Lstat describes the file at path below dir; a link describes itself.
func Lstat(dir int, path string) (Info, error) {
	fd, err := Open(dir, path, unix.O_PATH)
	if err != nil {
		return Info{}, err
	}
	defer Close(fd)
	return Stat(fd)
}

// LstatName describes the file called name in the directory dir, without the
// cost of opening it; name has no slash. A link describes itself.
func LstatName(dir int, name string) (Info, error) {
	var st unix.Stat_t
	for {
		err := unix.Fstatat(dir, name, &st, unix.AT_SYMLINK_NOFOLLOW)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return Info{}, err
		}
		return info(&st), nil
	}
}

// Readlink gives what the link at path below dir says.
func Readlink(dir int, path string) (string, error) {
	fd, err := Open(dir, path, unix.O_PATH)
	if err != nil {
		return "", err
	}
	defer Close(fd)
	return ReadlinkName(fd, "")
}

// ReadlinkName gives what the link called name in the directory dir says; name
// has no slash. With "" dir is a descriptor of the link itself.
func ReadlinkName(dir int, name string) (string, error) {
	buf := make([]byte, unix.PathMax)
	for {
		n, err := unix.Readlinkat(dir, name, buf)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		return string(buf[:max(n, 0)]), err
	}
}

// Close closes a descriptor that Open gave. What was only read from has nothing to
// report.
func Close(fd int) { _ = unix.Close(fd) }

func info(st *unix.Stat_t) Info {
	i := Info{
		Size: st.Size, Names: int(st.Nlink), dev: uint64(st.Dev), ino: st.Ino, //nolint:unconvert // their width depends on the machine
		Modified: st.Mtim.Nano(), ctime: st.Ctim.Nano(), ReadOnly: st.Mode&unix.S_IWUSR == 0,
		RunsAs: st.Mode&unix.S_IFMT == unix.S_IFREG && st.Mode&(unix.S_ISUID|unix.S_ISGID) != 0,
	}
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFREG:
		i.Kind = service.RegularFile
	case unix.S_IFDIR:
		i.Kind = service.Directory
	case unix.S_IFLNK:
		i.Kind = service.Symlink
	default:
		i.Kind = service.SpecialFile
	}
	return i
}

// ReadAt reads a file from a position on, wherever the descriptor stands: what one
// system call gives, and 0 at the end.
func ReadAt(fd int, b []byte, at int64) (int, error) {
	for {
		n, err := unix.Pread(fd, b, at)
		if !errors.Is(err, unix.EINTR) {
			return max(n, 0), err
		}
	}
}

// readStep is how much is read between two looks at the context.
const readStep = 4 << 20

// ReadFull reads from the beginning of a file until b is full or the file ends,
// wherever the descriptor stands. ctx ends it within some megabytes, with the
// context's cause.
func ReadFull(ctx context.Context, fd int, b []byte) (int, error) {
	n := 0
	for n < len(b) {
		if ctx.Err() != nil {
			return n, context.Cause(ctx)
		}
		m, err := ReadAt(fd, b[n:min(len(b), n+readStep)], int64(n))
		if err != nil {
			return n, err
		}
		if m == 0 {
			break
		}
		n += m
	}
	return n, nil
}

// written is an Info as it is written down.
type written struct {
	Kind                    service.FileKind
	Size, Modified, Changed int64
	Names                   int
	Device, Inode           uint64
	ReadOnly, RunsAs        bool
}

// MarshalJSON makes an Info that another process can compare. After the machine was
// started anew a filesystem may have another number, and is another one then.
func (i Info) MarshalJSON() ([]byte, error) {
	return json.Marshal(written{
		Kind: i.Kind, Size: i.Size, Modified: i.Modified, Changed: i.ctime, Names: i.Names, Device: i.dev, Inode: i.ino,
		ReadOnly: i.ReadOnly, RunsAs: i.RunsAs,
	})
}

// UnmarshalJSON reads what MarshalJSON made.
func (i *Info) UnmarshalJSON(text []byte) error {
	var w written
	if err := json.Unmarshal(text, &w); err != nil {
		return err
	}
	*i = Info{
		Kind: w.Kind, Size: w.Size, Modified: w.Modified, ctime: w.Changed, Names: w.Names, dev: w.Device, ino: w.Inode,
		ReadOnly: w.ReadOnly, RunsAs: w.RunsAs,
	}
	return nil
}
