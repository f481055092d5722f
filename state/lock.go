package state

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// runsName is the directory of the locks, beside the database.
const runsName = "runs"

// A lock is a file that is locked for as long as a host lives. The kernel takes
// the lock away when the process is gone.
type lock struct{ file *os.File }

// newLock makes a locked file with a name of its own.
func newLock(dir string) (l *lock, id string, err error) {
	dir = filepath.Join(dir, runsName)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, "", err
	}
	for {
		id = rand.Text()
		file, err := os.OpenFile(filepath.Join(dir, id), os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
		if err != nil {
			return nil, "", err
		}
		l := &lock{file}
		taken, err := l.take()
		if err == nil && taken && l.linked() {
			return l, id, nil
		}
		file.Close()
		if err != nil {
			return nil, "", errors.Join(err, os.Remove(file.Name()))
		}
		// Somebody swept it before it was locked.
	}
}

// claim takes the lock of a run whose host is dead. A host that closed has left
// no file: then there is no lock to take.
func claim(dir, id string) (l *lock, dead bool, err error) {
	file, err := os.OpenFile(filepath.Join(dir, runsName, id), os.O_RDWR, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, true, nil
	}
	if err != nil {
		return nil, false, err
	}
	l = &lock{file}
	taken, err := l.take()
	if err != nil || !taken {
		file.Close()
		return nil, false, err
	}
	return l, true, nil
}

// take locks the file, and says whether it could be: it does not wait.
func (l *lock) take() (bool, error) {
	for {
		err := unix.Flock(int(l.file.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		switch {
		case err == nil:
			return true, nil
		case errors.Is(err, unix.EWOULDBLOCK):
			return false, nil
		case !errors.Is(err, unix.EINTR):
			return false, fmt.Errorf("lock %s: %w", l.file.Name(), err)
		}
	}
}

// linked says whether the file still has its name.
func (l *lock) linked() bool {
	var st unix.Stat_t
	return unix.Fstat(int(l.file.Fd()), &st) == nil && st.Nlink > 0
}

// remove removes the file and releases the lock, in this order, so that nobody
// finds it unlocked.
func (l *lock) remove() error {
	err := os.Remove(l.file.Name())
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return errors.Join(err, l.file.Close())
}

// sweepLocks removes the files of hosts that died without an open call.
func sweepLocks(dir string) error {
	entries, err := os.ReadDir(filepath.Join(dir, runsName))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	for _, entry := range entries {
		l, _, claimed := claim(dir, entry.Name())
		if claimed != nil {
			err = errors.Join(err, claimed)
		}
		if l != nil {
			err = errors.Join(err, l.remove())
		}
	}
	return err
}
