package state

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// auditPatience is how long an entry waits for others that append. They need
	// microseconds, except a process that was stopped meanwhile.
	auditPatience = 100 * time.Millisecond
	// auditRemembers is how long nobody waits any more for a lock that could not be had.
	auditRemembers = 5 * time.Second
	// maxUnrotated is how long the file gets where no next one can begin.
	maxUnrotated = 4 * MaxAuditFile
)

// auditName is the name of the n-th file: 0 is the one that is written, and the
// higher, the older.
func auditName(n int) string {
	if n == 0 {
		return "audit.jsonl"
	}
	return fmt.Sprintf("audit.%d.jsonl", n)
}

// An auditFile is the file that is appended to. Whoever appends, or begins the next
// file, holds its lock (flock), and looks then whether the file still has its name:
// so nothing is appended to a file that is not the newest. Who cannot have the lock
// appends without it, since a write is whole either way.
type auditFile struct {
	path string
	file *os.File // nil while it is not open
	info os.FileInfo
	size int64     // as this process left it
	busy time.Time // until then nobody waits for the lock
	odd  error     // what was wrong with the last rotation
}

// open opens, and where there is none makes, the file with the name.
func (f *auditFile) open() error {
	if err := prepareDir(filepath.Dir(f.path)); err != nil {
		return err
	}
	// Not to wait for the other end, if it is a pipe.
	file, err := os.OpenFile(f.path, os.O_RDWR|os.O_APPEND|os.O_CREATE|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0o600)
	if err != nil {
		return err
	}
	info, err := file.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%s is not a regular file", f.path)
	}
	if err == nil && info.Mode().Perm() != 0o600 {
		err = file.Chmod(0o600)
	}
	if err != nil {
		file.Close()
		return err
	}
	f.file, f.info, f.size = file, info, -1
	return nil
}

func (f *auditFile) close() error {
	if f.file == nil {
		return nil
	}
	err := f.file.Close()
	f.file = nil
	return err
}

// append appends a line, in one write, and waits until the deadline at most for
// others. An error may say also what is wrong with rotating, once: then there is a line.
func (f *auditFile) append(line []byte, deadline time.Time) error {
	odd := f.odd
	for {
		var done bool
		var err error
		if f.file == nil {
			err = f.open()
		}
		if err == nil {
			done, err = f.try(line, deadline)
		}
		if err != nil {
			return errors.Join(err, f.close())
		}
		if done {
			break
		}
		if err := f.close(); err != nil {
			return err
		}
	}
	if f.odd != nil && (odd == nil || odd.Error() != f.odd.Error()) {
		return f.odd
	}
	return nil
}

// try appends to the file unless another one is the newest, or has to be.
func (f *auditFile) try(line []byte, deadline time.Time) (done bool, err error) {
	locked, err := f.lock(deadline)
	if err != nil {
		return false, err
	}
	if locked {
		defer func() { err = errors.Join(err, f.unlock()) }()
	}
	size, current, err := f.look()
	if err != nil || !current {
		return false, err
	}
	if after := size + int64(len(line)); size > 0 && after > MaxAuditFile {
		why := errors.New("another process keeps its lock; end that process, or move the file away")
		if locked {
			var rotated bool
			if rotated, f.odd = f.rotate(); rotated {
				return false, nil
			}
			why = f.odd
		}
		if after > maxUnrotated {
			return false, fmt.Errorf("%s is full, and cannot be followed by the next: %w", f.path, why)
		}
	}
	return true, f.write(line, size)
}

// look says how long the file is, and whether it still has its name.
func (f *auditFile) look() (size int64, current bool, err error) {
	info, err := os.Lstat(f.path)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, false, nil
	}
	if err != nil {
		return 0, false, err
	}
	return info.Size(), os.SameFile(info, f.info), nil
}

// write appends to a file that is so long. A line that somebody could not finish is
// ended first, so that only that one is lost.
func (f *auditFile) write(line []byte, size int64) error {
	if size != f.size && size > 0 {
		var last [1]byte
		if _, err := f.file.ReadAt(last[:], size-1); err != nil {
			return err
		}
		if last[0] != '\n' {
			line = append([]byte{'\n'}, line...)
		}
	}
	f.size = -1
	if _, err := f.file.Write(line); err != nil {
		return err
	}
	f.size = size + int64(len(line))
	return nil
}

// rotate makes place for the next file, unless there is no room for this one: then the
// error says why. It needs the lock. Only as many files move as must, so that one who
// died in the middle of it costs none of them; each that moves gets a higher number, so
// that who looks from the newest on misses none. What is no regular file stays where it
// is, which is an error too.
func (f *auditFile) rotate() (rotated bool, err error) {
	dir := filepath.Dir(f.path)
	names := []string{f.path}
	for n := 1; n < MaxAuditFiles; n++ {
		path := filepath.Join(dir, auditName(n))
		info, statErr := os.Lstat(path)
		if statErr == nil && !info.Mode().IsRegular() {
			err = errors.Join(err, fmt.Errorf("%s is in the way of older entries, and no regular file; move it away", path))
			continue
		}
		if names = append(names, path); errors.Is(statErr, fs.ErrNotExist) {
			break
		}
	}
	for n := len(names) - 1; n > 0; n-- {
		if err := os.Rename(names[n-1], names[n]); err != nil {
			return false, err
		}
	}
	return len(names) > 1, err
}

// lock takes the lock until unlock, or says that it could not: who holds it that long
// was stopped, and must stop nobody else.
func (f *auditFile) lock(deadline time.Time) (bool, error) {
	began := time.Now()
	for pause := 20 * time.Microsecond; ; pause = min(2*pause, 2*time.Millisecond) {
		err := unix.Flock(int(f.file.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		now := time.Now()
		switch {
		case err == nil:
			f.busy = time.Time{}
			return true, nil
		case !errors.Is(err, unix.EWOULDBLOCK) && !errors.Is(err, unix.EINTR):
			return false, fmt.Errorf("lock %s: %w", f.path, err)
		case now.Before(f.busy):
			return false, nil
		case !now.Before(deadline):
			// Not if most of the time went by before, in this process.
			if now.Sub(began) >= auditPatience/2 {
				f.busy = now.Add(auditRemembers)
			}
			return false, nil
		}
		<-time.After(pause)
	}
}

// unlock is explicit: a child that is being started may hold the descriptor too, for
// a moment.
func (f *auditFile) unlock() error {
	for {
		err := unix.Flock(int(f.file.Fd()), unix.LOCK_UN)
		if !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

// auditAdvice is what to do about an error, to stand behind it.
func auditAdvice(err error) string {
	switch {
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return "; free some space on its disk"
	case errors.Is(err, fs.ErrPermission), errors.Is(err, syscall.EROFS):
		return "; its directory must be writable"
	default:
		return ""
	}
}
