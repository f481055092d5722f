package filesystem

import (
	"context"
	"crypto/sha256"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/toolhost/toolhost/service"
	"github.com/toolhost/toolhost/service/filesystem/internal/beneath"
	"github.com/toolhost/toolhost/service/filesystem/internal/commit"
)

// A Stage is a change that is worked out and not yet made. It holds its bytes, and
// nothing of the filesystem. Exactly one of Commit and Discard takes effect, once
// (law 26). Its methods may be called concurrently.
type Stage struct {
	system   *FileSystem
	staged   service.Staged
	revealed bool // the caller may see the diff
	session  string
	judged   []string // every file that is changed, in each of its spellings
	plan     commit.Plan
	saw      []sight // what the session knows afterwards
	size     int64

	used atomic.Bool
	mu   sync.Mutex // guards turn
	turn func()     // gives the turn back; nil when that was done
}

// A sight is what a file holds after a change, for the session that made it.
type sight struct {
	path    string
	content [sha256.Size]byte
}

// Stage works out what a change would do, and changes nothing (law 25): it reads what
// is there, and makes what will be, byte by byte. Nobody is asked, for the change is
// not made.
//
// A change of a file waits while another one of the same file, whatever the spelling,
// is being made, or has been worked out and will be made without asking anybody; five
// seconds at most. ctx bounds the whole. What the gate denies is refused before it is
// looked at, and neither errors nor the diff tell the caller what is in a file that it
// may not read, nor can it give the file a name under which it may. The stage is the
// caller's to commit or to discard. Errors are [*service.FileError]s, those of the gate, or
// the context's cause.
func (f *FileSystem) Stage(ctx context.Context, caller Caller, change service.Change) (*Stage, error) {
	ctx, done, err := f.lease.begin(ctx)
	if err != nil {
		return nil, err
	}
	defer done()
	d := &draft{system: f, caller: caller, directories: map[string]beneath.Info{}, made: map[string]bool{}, revealed: !caller.WriteOnly}
	if err := d.read(ctx, change); err != nil {
		return nil, err
	}
	back, err := f.turns.take(ctx, d.paths())
	if err != nil {
		return nil, err
	}
	s, err := d.stage(ctx)
	if err != nil {
		back()
		f.staged.give(caller.Session, d.size)
		return nil, err
	}
	s.turn = back
	return s, nil
}

// Staged is what will be done. It is for whoever decides about it.
func (s *Stage) Staged() service.Staged { return s.staged }

// Revealed is what the caller may know of it: without the diff and the notes, if it may
// not read what those show.
func (s *Stage) Revealed() service.Staged {
	revealed := s.staged
	if !s.revealed {
		revealed.Diff = ""
		revealed.Files = slices.Clone(revealed.Files)
		for i := range revealed.Files {
			revealed.Files[i].Notes = nil
		}
	}
	return revealed
}

// Yield lets other changes of the same files go first. It is for whoever begins to ask
// a person about this one: what they approve is compared with what is there then.
func (s *Stage) Yield() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.turn != nil {
		s.turn()
		s.turn = nil
	}
}

// Discard gives up the change. After Commit, or a second time, it does nothing.
func (s *Stage) Discard() {
	if !s.used.Swap(true) {
		s.release()
	}
}

func (s *Stage) release() {
	s.Yield()
	s.system.staged.give(s.session, s.size)
}

// Commit makes the change as it was worked out: all of it, which is then on the disk,
// or nothing. It asks the caller's gate about the files before, once. What changed in the
// meantime, be it a file's bytes, a directory or a link, is an error of the kind
// FileStale (law 27); package commit says what remains of a gap. ctx ends it
// before the change is seen, and not afterwards. Errors are [*service.FileError]s, those
// of the gate, or the context's cause.
func (s *Stage) Commit(ctx context.Context, caller Caller) error {
	if s.used.Swap(true) {
		return &service.FileError{Kind: service.FileStaleHandle, Detail: "the change was made or discarded before; prepare it again"}
	}
	defer s.release()
	ctx, done, err := s.system.lease.begin(ctx)
	if err != nil {
		return err
	}
	defer done()
	for _, resource := range s.judged {
		if caller.Gate.Denies(service.ActionEdit, resource) {
			if err := caller.Gate.Permit(ctx, service.ActionEdit, resource); err != nil {
				return err
			}
		}
	}
	if len(s.staged.Resources) > 0 {
		if err := caller.Gate.Permit(ctx, service.ActionEdit, s.staged.Resources...); err != nil {
			return err
		}
	}
	if err := s.again(ctx); err != nil {
		return err
	}
	if err := commit.Run(ctx, int(s.system.dir.Fd()), s.plan); err != nil {
		return err
	}
	for _, sight := range s.saw {
		s.system.saw(context.WithoutCancel(ctx), s.session, sight.path, sight.content)
	}
	return nil
}

// again takes the turn once more, if it was given away.
func (s *Stage) again(ctx context.Context) error {
	s.mu.Lock()
	has := s.turn != nil
	s.mu.Unlock()
	if has {
		return nil
	}
	var paths []string
	for _, step := range s.plan.Steps {
		paths = append(paths, step.Path)
	}
	back, err := s.system.turns.take(ctx, paths)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.turn = back
	return nil
}

// read makes items of a change: what it is about, and what is to become of it.
func (d *draft) read(ctx context.Context, change service.Change) error {
	switch c := change.(type) {
	case service.WriteFile:
		return d.write(ctx, c)
	case service.EditFile:
		return d.edit(ctx, c)
	case service.ApplyPatch:
		return d.patch(ctx, c)
	case service.MoveFile:
		return d.move(ctx, c.From, c.To)
	case service.RemoveFile:
		return d.remove(ctx, c.Path, c.Recursive)
	case service.MakeDirectory:
		return d.makeDirectory(ctx, c.Path)
	default:
		return badQuery("the change is of a kind that does not exist: %T", change)
	}
}

// checkSize bounds what a change is asked for with.
func checkSize(what string, size int) error {
	if size > service.MaxChangeBytes {
		return &service.FileError{
			Kind: service.FileTooLarge, Detail: fmt.Sprintf("%s has %d bytes, and at most %d are taken in one call", what, size, service.MaxChangeBytes),
		}
	}
	return nil
}
