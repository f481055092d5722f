package broker

import (
	"context"
	"fmt"
	"strings"
	"sync"

	"github.com/toolhost/toolhost/plugin/internal/wire"
	"github.com/toolhost/toolhost/service"
	"github.com/toolhost/toolhost/service/filesystem"
)

// maxStages is how many changes one call may have staged at once.
const maxStages = 64

// Stages are the changes that a call staged, and that were not made. Their methods may
// be called concurrently; a nil one is empty.
type Stages struct {
	mu       sync.Mutex
	ended    bool                         // under mu: they were discarded
	order    []uint64                     // under mu
	byNumber map[uint64]*filesystem.Stage // under mu
}

// Diff is what the host knows that the changes would do: the diff of each, in the
// order in which they were staged, with an empty line between them, which no line of a
// file is.
func (s *Stages) Diff() string {
	var diffs []string
	for _, stage := range s.all() {
		if diff := stage.Staged().Diff; diff != "" {
			diffs = append(diffs, diff)
		}
	}
	return strings.Join(diffs, "\n")
}

// Irreversible says whether one of the changes cannot be undone.
func (s *Stages) Irreversible() bool {
	for _, stage := range s.all() {
		if stage.Staged().Irreversible {
			return true
		}
	}
	return false
}

// Yield lets changes of the same files by other calls go first; see
// [filesystem.Stage.Yield].
func (s *Stages) Yield() {
	for _, stage := range s.all() {
		stage.Yield()
	}
}

// Discard gives them all up.
func (s *Stages) Discard() {
	if s == nil {
		return
	}
	all := s.all()
	s.mu.Lock()
	s.ended, s.order, s.byNumber = true, nil, nil
	s.mu.Unlock()
	for _, stage := range all {
		stage.Discard()
	}
}

func (s *Stages) all() []*filesystem.Stage {
	if s == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	all := make([]*filesystem.Stage, 0, len(s.order))
	for _, number := range s.order {
		if stage, ok := s.byNumber[number]; ok {
			all = append(all, stage)
		}
	}
	return all
}

// add keeps a stage. On an error it is still the caller's.
func (s *Stages) add(number uint64, stage *filesystem.Stage) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.ended:
		return refused()
	case len(s.byNumber) >= maxStages:
		return &service.FileError{Kind: service.FileBadQuery, Detail: fmt.Sprintf("the call has %d changes staged, which is the most", maxStages)}
	case s.byNumber == nil:
		s.byNumber = map[uint64]*filesystem.Stage{}
	}
	s.byNumber[number] = stage
	s.order = append(s.order, number)
	return nil
}

// take gives a stage to the caller, if there is one.
func (s *Stages) take(number uint64) *filesystem.Stage {
	s.mu.Lock()
	defer s.mu.Unlock()
	stage := s.byNumber[number]
	delete(s.byNumber, number)
	return stage
}

// TakeStages gives what was staged under the lease to the caller, who discards it, or
// gives it to the lease of the commit. Nothing can be staged under this one any more.
func (l *Lease) TakeStages() *Stages {
	l.mu.Lock()
	defer l.mu.Unlock()
	taken := l.stages
	l.stages = &Stages{ended: true}
	return taken
}

func (l *Lease) staged() *Stages {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.stages
}

var _ wire.FileSystemWrite = (*changes)(nil)

// changes answers from the engine. A stage is looked up in the call that staged it, or
// that commits what was prepared with it.
type changes struct{ broker *Broker }

func (c *changes) Stage(ctx context.Context, change service.Change) (uint64, service.Staged, error) {
	l, ctx, done, err := c.broker.use(ctx, stage)
	if err != nil {
		return 0, service.Staged{}, err
	}
	defer done()
	made, err := c.broker.options.FileSystem.Stage(ctx, l.caller(), change)
	if err != nil {
		return 0, service.Staged{}, err
	}
	number := c.broker.lastStage.Add(1)
	if err := l.staged().add(number, made); err != nil {
		made.Discard()
		return 0, service.Staged{}, err
	}
	return number, made.Revealed(), nil
}

func (c *changes) Commit(ctx context.Context, number uint64) error {
	l, ctx, done, err := c.broker.use(ctx, commit)
	if err != nil {
		return err
	}
	defer done()
	made := l.staged().take(number)
	if made == nil {
		return &service.FileError{Kind: service.FileStaleHandle, Detail: "this change was made or discarded, or belongs to another call"}
	}
	return made.Commit(ctx, l.caller())
}

func (c *changes) Unstage(ctx context.Context, number uint64) error {
	l, _, done, err := c.broker.use(ctx, unstage)
	if err != nil {
		return err
	}
	defer done()
	if made := l.staged().take(number); made != nil {
		made.Discard()
	}
	return nil
}
