package filesystem

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/toolhost/toolhost/service/filesystem/ignore"
	"github.com/toolhost/toolhost/service/filesystem/internal/commit"
	"github.com/toolhost/toolhost/service/filesystem/internal/evidence"
)

// Options are how a FileSystem works. The zero value is useful.
type Options struct {
	// Workers is the number of goroutines of one glob or grep: 0 means one for each
	// processor, and at least two.
	Workers int
	// Evidence keeps what sessions read; nil keeps it for as long as the FileSystem lives.
	Evidence Evidence
	// Changes is a directory of the user's state in which changes are recorded while they
	// are made, so that [FileSystem.Recover] finds what a killed process left of one. It is
	// made when it is needed. A change that cannot be recorded there is not made. Empty is
	// nowhere.
	Changes string
	// Excludes is the text of the user's own ignore file, as [UserExcludes] reads it;
	// empty is none. Its patterns come after all others.
	Excludes string
}

// Evidence is what sessions saw of files, which is what they may replace (law 28). It
// is called concurrently, and must not wait for long: every reading waits for it. An
// error is its own to report; nothing that is read fails for it.
type Evidence interface {
	// Saw records the SHA-256 of the content that a session saw of the file at a path,
	// which is relative to the root and resolved, in place of what it saw before.
	Saw(ctx context.Context, session, path string, content [32]byte) error
	// Seen gives the SHA-256 of what the session last saw of the file at a path, and
	// whether that is known.
	Seen(ctx context.Context, session, path string) (content [32]byte, ok bool, err error)
}

// A FileSystem reads what lies below one directory. It is safe for concurrent
// use.
type FileSystem struct {
	declared string // the root as it was declared, absolute and cleaned
	real     string // the root with every link resolved
	dir      *os.File
	workers  int
	evidence *evidence.Book
	records  commit.Records
	rules    *ignore.Level // those that hold in the root from outside
	lease    lease
	turns    turns
	staged   budget

	mu    sync.Mutex // guards roots
	roots map[*Root]struct{}
}

// Open opens the directory at path, once: later changes of its name, or of links
// on the way to it, change nothing. A path may be spelled afterwards as it was
// declared here and with its links resolved (case A03).
func Open(path string, options Options) (*FileSystem, error) {
	declared, err := filepath.Abs(path)
	if err != nil {
		return nil, fmt.Errorf("root %s: %w", path, err)
	}
	dir, err := os.OpenFile(declared, os.O_RDONLY|unix.O_DIRECTORY, 0)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("root %s does not exist; create it, or name another directory in the config: %w", declared, fs.ErrNotExist)
	case errors.Is(err, unix.ENOTDIR):
		return nil, fmt.Errorf("root %s is not a directory: %w", declared, unix.ENOTDIR)
	case err != nil:
		return nil, fmt.Errorf("root %s: %w", declared, err)
	}
	real, err := filepath.EvalSymlinks(declared)
	if err != nil {
		dir.Close()
		return nil, fmt.Errorf("root %s: %w", declared, err)
	}
	workers := options.Workers
	if workers <= 0 {
		workers = max(2, runtime.GOMAXPROCS(0))
	}
	return &FileSystem{
		declared: declared, real: real, dir: dir, workers: workers, evidence: evidence.NewBook(options.Evidence),
		records: commit.Records{Dir: options.Changes, Root: real},
		roots:   map[*Root]struct{}{}, rules: rulesOutside(real, options.Excludes),
	}, nil
}

// Path is the root directory with every link resolved, as it was when it was
// opened.
func (f *FileSystem) Path() string { return f.real }

// Close closes the root and every handle that is still open; what is going on
// with them ends with an error of the kind FileStaleHandle. It returns when
// nothing of it is left. Closing again does nothing.
func (f *FileSystem) Close() error {
	if !f.lease.end() {
		return nil
	}
	var errs []error
	for _, r := range f.open() {
		errs = append(errs, r.Close())
	}
	return errors.Join(append(errs, f.dir.Close())...)
}

func (f *FileSystem) open() []*Root {
	f.mu.Lock()
	defer f.mu.Unlock()
	var open []*Root
	for r := range f.roots {
		open = append(open, r)
	}
	return open
}

func (f *FileSystem) add(r *Root) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.roots[r] = struct{}{}
}

func (f *FileSystem) forget(r *Root) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.roots, r)
}

// A lease lets what is going on with a descriptor end before it is closed.
type lease struct {
	mu     sync.Mutex // guards what follows
	ended  bool
	active sync.WaitGroup
	next   int
	cancel map[int]context.CancelCauseFunc // of what is going on
}

// begin gives a context that ends when the lease does. The caller calls done.
func (l *lease) begin(ctx context.Context) (inner context.Context, done func(), err error) {
	if ctx.Err() != nil {
		return nil, nil, context.Cause(ctx)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ended {
		return nil, nil, errStale()
	}
	inner, cancel := context.WithCancelCause(ctx)
	if l.cancel == nil {
		l.cancel = map[int]context.CancelCauseFunc{}
	}
	key := l.next
	l.next++
	l.cancel[key] = cancel
	l.active.Add(1)
	return inner, func() {
		l.mu.Lock()
		delete(l.cancel, key)
		l.mu.Unlock()
		cancel(nil)
		l.active.Done()
	}, nil
}

// end cancels what is going on and waits for it. It says whether it is the first
// to do so; later calls wait too.
func (l *lease) end() bool {
	l.mu.Lock()
	first := !l.ended
	l.ended = true
	for _, cancel := range l.cancel {
		cancel(errStale())
	}
	l.mu.Unlock()
	l.active.Wait()
	return first
}
