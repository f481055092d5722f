package commit

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/toolhost/toolhost/service"
	"github.com/toolhost/toolhost/service/filesystem/internal/beneath"
)

// Records is where changes are recorded while they are made, so that [Recover] finds
// the names that a killed host left. The zero value is nowhere.
type Records struct {
	// Dir is a directory of the user's state. It is made, for nobody else, when it is
	// needed; of another that others can write to nothing is believed.
	Dir string
	// Root is the path of the root, without links. The records of other roots in the
	// directory are none of its.
	Root string
}

// prefix is how the names of a root's records begin.
func (r Records) prefix() string {
	sum := sha256.Sum256([]byte(r.Root))
	return hex.EncodeToString(sum[:8]) + "-"
}

// A record is a file that says which names a run may leave. It is locked for as long as
// the run lives: the kernel takes the lock away with the process. Nothing waits for it to be
// on the disk, so that after a power failure it may be missing.
type record struct{ file *os.File }

// recordVersion is the first word of a record. A host that does not know it leaves the
// record to one that does.
const recordVersion = 1

// The marks that follow what a run is about, each in a line of its own.
const (
	// readyMark: all that is new is written, and nothing of it is seen yet.
	readyMark = "ready\n"
	// doneMark: the change is made, and what it replaced is to be removed.
	doneMark = "done\n"
)

// An intent is what is written of a plan.
type intent struct {
	Version int
	Root    []byte // paths need not be text
	Steps   []intended
}

// intended is a step as it is written.
type intended struct {
	Kind     Kind
	Path, To []byte
	Aside    []byte // the name beside that may stand for something
	Content  []byte // the digest of the new
	Info     beneath.Info
	Digest   []byte
	Unread   bool
	Target   []byte
	Tree     []intendedEntry
}

// intendedEntry is an [Entry] as it is written.
type intendedEntry struct {
	Path []byte
	Info beneath.Info
}

// intend makes an action one that can be written.
func intend(a *action) intended {
	i := intended{
		Kind: a.Kind, Path: []byte(a.Path), To: []byte(a.To), Aside: []byte(a.aside),
		Info: a.Before.Info, Digest: a.Before.Digest[:], Unread: a.Before.Unread, Target: []byte(a.Before.Target),
	}
	if a.Kind == Create || a.Kind == Replace {
		content := sha256.Sum256(a.Content)
		i.Content = content[:]
	}
	if a.Kind == Remove {
		for _, e := range a.Before.Tree {
			i.Tree = append(i.Tree, intendedEntry{[]byte(e.Path), e.Info})
		}
	}
	return i
}

// begin writes what a run is about to do. Nil is that it is recorded nowhere.
func (r Records) begin(actions []*action) (*record, error) {
	if r.Dir == "" {
		return nil, nil
	}
	what := intent{Version: recordVersion, Root: []byte(r.Root)}
	for _, a := range actions {
		what.Steps = append(what.Steps, intend(a))
	}
	line, err := json.Marshal(what)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(r.Dir, 0o700); err != nil {
		return nil, err
	}
	for {
		file, err := os.OpenFile(filepath.Join(r.Dir, r.prefix()+rand.Text()), os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
		if err != nil {
			return nil, err
		}
		made := &record{file}
		free, err := made.lock()
		if err == nil && (!free || !made.linked()) {
			_ = file.Close()
			continue // somebody swept it before it was locked
		}
		if err == nil {
			_, err = file.Write(append(line, '\n'))
		}
		if err != nil {
			return nil, errors.Join(err, made.remove())
		}
		return made, nil
	}
}

// mark says how far a run is.
func (r *record) mark(mark string) error {
	if r == nil {
		return nil
	}
	_, err := r.file.WriteString(mark)
	return err
}

// remove removes the record, and then releases it, so that nobody finds it unlocked.
func (r *record) remove() error {
	if r == nil {
		return nil
	}
	err := os.Remove(r.file.Name())
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return errors.Join(err, r.file.Close())
}

// release leaves the record to the next who recovers.
func (r *record) release() error {
	if r == nil {
		return nil
	}
	return r.file.Close()
}

// lock does not wait, and says whether nobody else has it locked.
func (r *record) lock() (free bool, err error) {
	for {
		err := unix.Flock(int(r.file.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		switch {
		case err == nil:
			return true, nil
		case errors.Is(err, unix.EWOULDBLOCK):
			return false, nil
		case !errors.Is(err, unix.EINTR):
			return false, &fs.PathError{Op: "lock", Path: r.file.Name(), Err: err}
		}
	}
}

// linked says whether the file still has its name.
func (r *record) linked() bool {
	var st unix.Stat_t
	return unix.Fstat(int(r.file.Fd()), &st) == nil && st.Nlink > 0
}

// unrecorded says of a change that it is not made, since it could not be recorded.
func unrecorded(err error) error {
	return &service.FileError{Kind: service.FileIO, Detail: "is not changed, since that could not be recorded in the user's state before: " + err.Error()}
}

// maxRecord bounds a record that is read: the paths of a directory that is removed, and
// what is known of each.
const maxRecord = 256 << 20

// abandoned takes the records of this root whose hosts are dead, and locks them. Of one
// that cannot be read the error says why.
func (r Records) abandoned(most int) (records []*record, err error) {
	dir, err := os.OpenFile(r.Dir, os.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	var info unix.Stat_t
	if err := unix.Fstat(int(dir.Fd()), &info); err != nil {
		return nil, err
	}
	if int(info.Uid) != os.Geteuid() || info.Mode&0o022 != 0 {
		return nil, fmt.Errorf("%s belongs to user %d and has mode %04o, so that what is in it is not believed: it must be yours, and writable by nobody else",
			r.Dir, info.Uid, info.Mode&0o777)
	}
	var errs []error
	for len(records) < most {
		names, err := dir.Readdirnames(1024)
		if err != nil {
			if !errors.Is(err, io.EOF) {
				errs = append(errs, err)
			}
			break
		}
		for _, name := range names {
			if !strings.HasPrefix(name, r.prefix()) || len(records) >= most {
				continue
			}
			claimed, err := claim(filepath.Join(r.Dir, name))
			if claimed != nil {
				records = append(records, claimed)
			}
			errs = append(errs, err)
		}
	}
	return records, errors.Join(errs...)
}

// claim locks a record whose host is dead; nil is that it lives, or that another one was
// faster.
func claim(path string) (*record, error) {
	file, err := os.OpenFile(path, os.O_RDWR|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	r := &record{file}
	free, err := r.lock()
	if err != nil || !free || !r.linked() {
		return nil, errors.Join(err, r.release())
	}
	return r, nil
}

// progress is how far a run got.
type progress struct {
	begun, ready, done bool
}

// read gives what a record says. One whose first line is not whole is of a run that had
// not begun.
func (r *record) read() (what intent, at progress, err error) {
	text, err := io.ReadAll(io.LimitReader(r.file, maxRecord))
	if err != nil {
		return intent{}, progress{}, err
	}
	line, marks, whole := bytes.Cut(text, []byte("\n"))
	if !whole {
		return intent{}, progress{}, nil
	}
	if err := json.Unmarshal(line, &what); err != nil {
		return intent{}, progress{}, fmt.Errorf("record %s is damaged, remove it: %w", r.file.Name(), err)
	}
	if what.Version != recordVersion {
		return intent{}, progress{}, fmt.Errorf("record %s has version %d, and this program knows %d: upgrade toolhost", r.file.Name(), what.Version, recordVersion)
	}
	for _, i := range what.Steps {
		if aside := string(i.Aside); !strings.HasPrefix(aside, asidePrefix) || strings.Contains(aside, "/") {
			return intent{}, progress{}, fmt.Errorf("record %s is damaged: %q is no name that stands beside; remove the record", r.file.Name(), aside)
		}
	}
	at = progress{begun: true, ready: bytes.HasPrefix(marks, []byte(readyMark)), done: bytes.HasPrefix(marks, []byte(readyMark+doneMark))}
	return what, at, nil
}
