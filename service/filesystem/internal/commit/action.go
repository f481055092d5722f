package commit

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/toolhost/toolhost/service"
	"github.com/toolhost/toolhost/service/filesystem/internal/beneath"
)

// look opens the file that has a name, and sees that it holds what the step expects.
// The caller closes it.
func (a *action) look(ctx context.Context, dir int, name string) (int, error) {
	fd, err := openFile(dir, name)
	if err != nil {
		return -1, err
	}
	info, err := beneath.Stat(fd)
	if err == nil {
		err = a.holds(ctx, fd)
	}
	if err != nil {
		beneath.Close(fd)
		return -1, err
	}
	a.old = info
	return fd, nil
}

// openFile opens a regular file, and nothing else: it is looked at before, for
// opening a device or a pipe is an act of its own.
func openFile(dir int, name string) (int, error) {
	before, err := beneath.LstatName(dir, name)
	if err != nil {
		return -1, err
	}
	if before.Kind != service.RegularFile {
		return -1, changed("", otherFile)
	}
	fd, err := beneath.Open(dir, name, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_NOCTTY)
	if err != nil {
		return -1, err
	}
	after, err := beneath.Stat(fd)
	if err == nil && !after.Same(before) {
		err = changed("", otherFile)
	}
	if err != nil {
		beneath.Close(fd)
		return -1, err
	}
	return fd, nil
}

// holds compares the bytes of an open file with those that are expected.
func (a *action) holds(ctx context.Context, fd int) error {
	digest, err := Digest(ctx, fd)
	if err != nil {
		return err
	}
	if digest != a.Before.Digest {
		return changed("", otherFile)
	}
	return nil
}

// Digest is the SHA-256 of an open file, from its beginning to its end. ctx ends it
// within some megabytes, with the context's cause. A file over [service.MaxContent]
// is an error of the kind FileTooLarge.
func Digest(ctx context.Context, fd int) (digest [sha256.Size]byte, err error) {
	hash := sha256.New()
	buffer := make([]byte, 256<<10)
	for at := int64(0); ; {
		if ctx.Err() != nil {
			return digest, context.Cause(ctx)
		}
		n, err := unix.Pread(fd, buffer, at)
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case err != nil:
			return digest, err
		case n == 0:
			return [sha256.Size]byte(hash.Sum(nil)), nil
		}
		if at += int64(n); at > service.MaxContent {
			return digest, tooLarge()
		}
		_, _ = hash.Write(buffer[:n]) // it never fails
	}
}

// check sees that what has a name is what the step expects.
func (a *action) check(ctx context.Context, dir int, name string) error {
	info, err := beneath.LstatName(dir, name)
	if err != nil {
		return err
	}
	if !info.Same(a.Before.Info) || info.Kind != a.Before.Info.Kind {
		return changed("", otherFile)
	}
	switch info.Kind {
	case service.Symlink:
		target, err := beneath.ReadlinkName(dir, name)
		if err != nil {
			return err
		}
		if target != a.Before.Target {
			return changed("", otherFile)
		}
	case service.Directory:
		if a.Kind != Remove {
			break // it is moved with whatever is in it
		}
		tree, err := Tree(ctx, dir, name, len(a.Before.Tree))
		more := IsTooLarge(err)
		if err != nil && !more {
			return err
		}
		if more || !slices.EqualFunc(tree, a.Before.Tree, sameEntry) {
			return changed("", otherTree)
		}
	case service.RegularFile:
		if a.Kind == Move {
			break
		}
		if a.Before.Unread {
			if !info.Unwritten(a.Before.Info) {
				return changed("", otherFile)
			}
			break
		}
		fd, err := a.look(ctx, dir, name)
		if err != nil {
			return err
		}
		beneath.Close(fd)
	}
	a.old = info
	return nil
}

// create gives the new file its name, if nobody else did.
func (a *action) create(dir int, name string) (err error) {
	if a.ours, err = beneath.Stat(a.fd); err != nil {
		return err
	}
	if a.beside == "" {
		err = beneath.Link(a.fd, dir, name)
	} else if err = beneath.Move(dir, a.beside, dir, name); err == nil {
		a.beside = ""
	}
	a.applied = err == nil
	return err
}

// exchange puts the new file in the place of the old one, and looks at what came out.
func (a *action) exchange(dir int, name string) (err error) {
	if a.beside == "" {
		if err := beneath.Link(a.fd, dir, a.aside); err != nil {
			return err
		}
		a.beside = a.aside
	}
	if a.ours, err = beneath.Stat(a.fd); err != nil {
		return err
	}
	now, err := beneath.LstatName(dir, name)
	if err != nil {
		return err
	}
	if !now.Untouched(a.old) { // the bytes are looked at after the exchange too
		return changed("", otherFile)
	}
	err = beneath.Exchange(dir, a.beside, name)
	if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOSYS) {
		if err = beneath.Replace(dir, a.beside, name); err == nil {
			a.beside, a.applied = "", true
		}
		return err
	}
	if err != nil {
		return err
	}
	a.applied = true
	// The exchange took whatever had the name at that moment.
	came, err := a.look(context.Background(), dir, a.beside)
	if err != nil {
		return err
	}
	beneath.Close(came)
	return nil
}

// remove takes the name away and looks at what had it.
func (a *action) remove(dir int, name string) error {
	err := beneath.Move(dir, name, dir, a.aside)
	if errors.Is(err, unix.EXDEV) && a.Before.Info.Kind == service.Directory {
		return nil // a layer below cannot be renamed, only removed: in the end, where it is
	}
	if err != nil {
		return err
	}
	a.beside, a.applied = a.aside, true
	return a.check(context.Background(), dir, a.beside)
}

func (a *action) move(dir int, name string, toDir int, to string) error {
	if err := beneath.Move(dir, name, toDir, to); err != nil {
		return err
	}
	a.applied = true
	info, err := beneath.LstatName(toDir, to)
	if err != nil {
		return err
	}
	if !info.Same(a.old) {
		return changed("", otherFile)
	}
	return nil
}

// forget removes what was taken out of its place. It says by itself what it could not.
func (a *action) forget(dir int) error {
	if a.Kind == Remove && a.Before.Info.Kind == service.Directory {
		return a.forgetTree(dir)
	}
	if a.beside == "" {
		return nil
	}
	if err := beneath.Unlink(dir, a.beside); err != nil {
		return &service.FileError{
			Kind: service.FileIO, Path: path.Join(dirOf(a.Path), a.beside),
			Detail: fmt.Sprintf("the change of %s was made, and what it replaced could not be removed from here: %v", a.Path, err),
		}
	}
	return nil
}

// forgetTree removes a directory with what is in it. If that ends in the middle, the
// rest gets its name back.
func (a *action) forgetTree(dir int) error {
	name, rest := path.Base(a.Path), a.Path
	if a.beside != "" {
		name = a.beside
	}
	removal := newRemoval(a.Before.Tree)
	err := removal.run(dir, name)
	if err == nil {
		return nil
	}
	if a.beside != "" && beneath.Move(dir, a.beside, dir, path.Base(a.Path)) != nil {
		rest = path.Join(dirOf(a.Path), a.beside)
	}
	e := service.FileError{Kind: service.FileIO, Detail: err.Error()}
	if known, ok := errors.AsType[*service.FileError](err); ok {
		e = *known
		e.Detail = fmt.Sprintf("%q %s", known.Path, known.Detail)
	}
	e.Path = a.Path
	e.Detail = fmt.Sprintf("was not removed as a whole: %d of %d files and directories in it are gone, and the rest is at %q, because %s",
		removal.gone, len(a.Before.Tree), rest, e.Detail)
	return &e
}

// undo takes the step back. What is no longer there, or is somebody else's by now, is
// left.
func (a *action) undo(r *run) error {
	dir, ok := r.open[dirOf(a.Path)]
	if !ok {
		return nil // it did not begin
	}
	name := path.Base(a.Path)
	if !a.applied {
		if a.beside != "" && a.Kind != Remove {
			return unlessGone(beneath.Unlink(dir, a.beside))
		}
		return nil
	}
	switch a.Kind {
	case MakeDirectory:
		if !a.created || !a.isOurs(dir, name) {
			return nil
		}
		err := beneath.Rmdir(dir, name)
		if errors.Is(err, unix.ENOTEMPTY) {
			return nil // somebody uses it
		}
		return unlessGone(err)
	case Create:
		if !a.isOurs(dir, name) {
			return nil
		}
		return unlessGone(beneath.Unlink(dir, name))
	case Replace:
		return a.exchangeBack(dir, name)
	case Remove:
		if a.beside == "" {
			return nil // it is still there
		}
		return beneath.Move(dir, a.beside, dir, name)
	default:
		return beneath.Move(r.open[dirOf(a.To)], path.Base(a.To), dir, name)
	}
}

func (a *action) isOurs(dir int, name string) bool {
	info, err := beneath.LstatName(dir, name)
	return err == nil && info.Same(a.ours)
}

// exchanges is how often an exchange is taken back in the face of somebody who
// replaces the file each time in between.
const exchanges = 16

// exchangeBack puts back what the exchange took out. If somebody replaced the new file
// in the meantime, what they put there stays.
func (a *action) exchangeBack(dir int, name string) error {
	if a.beside == "" {
		return errors.New("this filesystem cannot exchange two files, and what was replaced is gone")
	}
	if a.isOurs(dir, name) {
		for range exchanges {
			if err := beneath.Exchange(dir, a.beside, name); err != nil {
				return err
			}
			if a.isOurs(dir, a.beside) {
				break
			}
			// Somebody was faster, and what they put there is in our hands now.
		}
	}
	return unlessGone(beneath.Unlink(dir, a.beside))
}

func unlessGone(err error) error {
	if errors.Is(err, unix.ENOENT) {
		return nil
	}
	return err
}

// IsTooLarge says whether an error is of the kind FileTooLarge.
func IsTooLarge(err error) bool {
	e, ok := errors.AsType[*service.FileError](err)
	return ok && e.Kind == service.FileTooLarge
}

// Read gives the content of an open file. A file over [service.MaxContent] is an error
// of the kind FileTooLarge.
func Read(ctx context.Context, fd int, size int64) ([]byte, error) {
	if size > service.MaxContent {
		return nil, tooLarge()
	}
	content := make([]byte, size+1)
	n, err := beneath.ReadFull(ctx, fd, content)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	if n == len(content) { // it grew
		return nil, changed("", "is being written to; try again")
	}
	return content[:n], nil
}

func tooLarge() error {
	return &service.FileError{Kind: service.FileTooLarge, Detail: "is too large to be changed: at most 64 MiB"}
}
