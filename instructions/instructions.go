package instructions

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/toolhost/toolhost/service"
	"github.com/toolhost/toolhost/service/filesystem"
	"github.com/toolhost/toolhost/tool"
)

// What a call is given at most.
const (
	// FileBytes is the most bytes of one file, with the mark of a cut.
	FileBytes = 32 << 10
	// CallBytes is the most bytes of all files of a call.
	CallBytes = 64 << 10
	// CallFiles is the most files of a call.
	CallFiles = 32
	// MaxDepth is how many directories below the root are looked into on the way to
	// a target.
	MaxDepth = 64
	// MaxDirectories is how many directories are looked into for a call, of the
	// first targets and nearest to the root first.
	MaxDirectories = 256

	// remembered is how many files given to sessions are kept in memory, so that
	// nobody has to be asked about them.
	remembered = 4096
)

// Options are what a Finder works with.
type Options struct {
	// Files reads the Location's files. It is lent, and must not be nil.
	Files *filesystem.FileSystem
	// Root is the root as it was declared, where that is another spelling than
	// Files.Path(): absolute targets may use it. It may be empty.
	Root string
	// Names are the names of the files, without slashes, in the order in which the
	// files of one directory are given. Without any, nothing is found.
	Names []string
	// Seen records that the session is given the files, and returns those that it
	// was not given before, in one act (see state.Store.Seen); with an error nothing
	// is recorded. The paths are relative to the root and resolved. nil remembers in memory, for as long as the Finder
	// lives and not of too many files.
	Seen func(ctx context.Context, session string, paths []string) (unseen []string, err error)
}

// A Finder finds the instructions of one Location. It is safe for concurrent use
// and holds nothing open.
type Finder struct {
	options Options

	mu    sync.Mutex         // guards given
	given map[given]struct{} // bounded: what it forgets, Seen knows
}

// given is a file that a session has been given, under one of its names.
type given struct{ session, path string }

// New makes a Finder.
func New(options Options) *Finder {
	options.Names = slices.Clone(options.Names)
	return &Finder{options: options, given: map[given]struct{}{}}
}

// For gives the instructions near the targets that the session was not given
// before, the root's first. gate is the call's, and is asked only what it answers
// without asking anybody; without one nothing is allowed to be read.
//
// ctx bounds the reading. The error is the context's cause, or says that it is
// not known what was given before. Nothing is recorded as given that is not
// returned: what is returned beside an error was recorded and comes in no later
// call, so the caller uses it all the same.
func (f *Finder) For(ctx context.Context, gate tool.Gate, session string, targets []string) ([]tool.Instruction, error) {
	if len(f.options.Names) == 0 || len(targets) == 0 || gate == nil {
		return nil, nil
	}
	paths, err := f.present(gate, f.directories(targets))
	if err != nil {
		return nil, err
	}
	c := call{finder: f, gate: quiet{gate}, session: session, left: CallBytes}
	for len(paths) > 0 && len(c.files) < CallFiles {
		batch, rest, err := c.read(ctx, paths)
		if err != nil {
			return c.instructions(), err
		}
		if err := c.give(ctx, batch); err != nil {
			return c.instructions(), err
		}
		if len(batch) == 0 {
			break // what is left does not fit
		}
		paths = rest
	}
	return c.instructions(), nil
}

// A file is one that was read.
type file struct {
	path     string // as it is found
	resolved string // what it is, by which it is given once
	text     string
}

// call is one For.
type call struct {
	finder  *Finder
	gate    quiet
	session string
	left    int // of CallBytes
	files   []file
}

// read reads as many files as can still be given, whichever of them are new. It
// leaves the rest.
func (c *call) read(ctx context.Context, paths []string) (batch []file, rest []string, err error) {
	bytes := 0
	for i, path := range paths {
		if len(c.files)+len(batch) == CallFiles {
			return batch, paths[i:], nil
		}
		read, ok, err := c.finder.read(ctx, c.gate, c.session, path)
		if err != nil {
			return nil, nil, err
		}
		twice := func(other file) bool { return other.resolved == read.resolved }
		if !ok || slices.ContainsFunc(batch, twice) {
			continue
		}
		if bytes += len(read.text); bytes > c.left {
			return batch, paths[i:], nil
		}
		batch = append(batch, read)
	}
	return batch, nil, nil
}

// give takes those of the files that are new to the session.
func (c *call) give(ctx context.Context, batch []file) error {
	if len(batch) == 0 {
		return nil
	}
	paths := make([]string, len(batch))
	for i, f := range batch {
		paths[i] = f.resolved
	}
	unseen, err := c.finder.seen(ctx, c.session, paths)
	if err != nil {
		return fmt.Errorf("instructions are not given, since it is not known which were: %w", err)
	}
	for _, f := range batch {
		c.finder.remember(given{c.session, f.path}) // so that it need not be opened again
		if slices.Contains(unseen, f.resolved) {
			c.files = append(c.files, f)
			c.left -= len(f.text)
		}
	}
	return nil
}

func (c *call) instructions() []tool.Instruction {
	var list []tool.Instruction
	for _, f := range c.files {
		list = append(list, tool.Instruction{Path: f.path, Text: f.text})
	}
	return list
}

// seen asks which of the files the session was not given, and records that it
// is given them.
func (f *Finder) seen(ctx context.Context, session string, paths []string) (unseen []string, err error) {
	if f.options.Seen != nil {
		if unseen, err = f.options.Seen(ctx, session, paths); err != nil {
			return nil, err
		}
	}
	for _, path := range paths {
		if f.remember(given{session, path}) && f.options.Seen == nil {
			unseen = append(unseen, path)
		}
	}
	return unseen, nil
}

// remember says whether the file is new to the memory.
func (f *Finder) remember(g given) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if _, known := f.given[g]; known {
		return false
	}
	if len(f.given) >= remembered {
		clear(f.given)
	}
	f.given[g] = struct{}{}
	return true
}

// knows says that the session was given the file, as far as that is remembered.
func (f *Finder) knows(session, path string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	_, known := f.given[given{session, path}]
	return known
}

// read reads a file. ok is false when it cannot be read, has no text, or is known
// to the session.
func (f *Finder) read(ctx context.Context, gate quiet, session, path string) (read file, ok bool, err error) {
	if f.knows(session, path) {
		return file{}, false, nil
	}
	// Of no session: what the host shows is no evidence that the session read the file.
	root, err := f.options.Files.ResolveRoot(ctx, filesystem.Caller{Gate: gate}, path)
	if err != nil {
		return file{}, false, unlessUnreadable(ctx, err)
	}
	defer func() { _ = root.Close() }() // it was only read from
	info := root.Info()
	if info.Kind != service.RegularFile || f.knows(session, info.Resolved) {
		return file{}, false, nil
	}
	page, err := root.Read(ctx, service.ReadQuery{})
	if err != nil {
		return file{}, false, unlessUnreadable(ctx, err)
	}
	text := bounded(page)
	return file{path: path, resolved: info.Resolved, text: text}, text != "", nil
}

// unlessUnreadable is nil for an error that is about the file.
func unlessUnreadable(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	_, isFile := errors.AsType[*service.FileError](err)
	_, isRule := errors.AsType[*tool.Refusal](err)
	if isFile || isRule {
		return nil
	}
	return err
}

// byDepth orders directories from the root down.
func byDepth(a, b directory) int {
	return cmp.Or(cmp.Compare(a.depth, b.depth), cmp.Compare(a.path, b.path))
}
