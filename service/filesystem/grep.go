package filesystem

import (
	"bytes"
	"context"
	"math"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/toolhost/toolhost/service"
	"github.com/toolhost/toolhost/service/filesystem/internal/beneath"
	"github.com/toolhost/toolhost/service/filesystem/internal/glob"
	"github.com/toolhost/toolhost/service/filesystem/internal/search"
	"github.com/toolhost/toolhost/service/filesystem/internal/text"
	"github.com/toolhost/toolhost/service/filesystem/internal/walk"
)

// Grep gives the lines that match the pattern, of the file, or of the files below
// the directory, or the files that have some; see [service.GrepQuery]. A file that was
// named is searched whatever Include, Type and the ignore files say. The gate is asked for the pattern,
// and for reading a file that was named; other files that it does not allow to be
// read are counted and left out. Errors are
// [*service.FileError]s, those of the gate, or the context's cause, which ends
// the search at once.
//
// The answer is the same each time: which matches are kept and how many are
// counted follows from the order of the paths alone.
func (r *Root) Grep(ctx context.Context, query service.GrepQuery) (service.GrepResult, error) {
	ctx, done, err := r.begin(ctx, service.ActionGrep, query.Pattern)
	if err != nil {
		return service.GrepResult{}, describe(r.info.Resource, err)
	}
	defer done()
	g, err := r.newGrep(query)
	if err == nil {
		err = g.run(ctx)
	}
	if err != nil {
		return service.GrepResult{}, describe(r.info.Resource, err)
	}
	return g.result, nil
}

func (r *Root) newGrep(query service.GrepQuery) (*grep, error) {
	g := &grep{root: r, large: make(chan struct{}, 1)}
	otherwise := service.DefaultEntries
	switch query.Mode {
	case "", service.GrepContent:
		otherwise = service.DefaultMatches
	case service.GrepFiles, service.GrepCount:
		g.files = true
	default:
		return nil, badQuery("mode %q is none of %q, %q and %q", query.Mode, service.GrepContent, service.GrepFiles, service.GrepCount)
	}
	limit, err := limitOf(query.Limit, otherwise)
	if err != nil {
		return nil, err
	}
	if query.Context < 0 || query.Context > service.MaxContext {
		return nil, badQuery("context %d is not between 0 and %d", query.Context, service.MaxContext)
	}
	g.limit = limit
	switch query.Mode {
	case service.GrepFiles:
		g.each = search.Limits{Count: 1}
	case service.GrepCount:
		g.each = search.Limits{Count: math.MaxInt}
	default:
		g.each = search.Limits{Context: query.Context, Matches: limit, Bytes: service.GrepBytes, Count: limit + service.MaxEntries}
	}
	g.counts = query.Mode == service.GrepCount
	if query.Include != "" {
		if g.choice.Pattern, err = glob.Compile(query.Include); err != nil {
			return nil, err
		}
	}
	if query.Type != "" {
		if g.choice.Type, err = glob.TypeOf(query.Type); err != nil {
			return nil, err
		}
	}
	g.matcher, err = search.Compile(query.Pattern, search.Options{
		Literal: query.Literal, IgnoreCase: query.IgnoreCase, Across: query.Multiline,
	})
	return g, err
}

// A grep is one search that is going on.
type grep struct {
	root    *Root
	matcher *search.Matcher
	choice  glob.Choice
	files   bool // files are wanted, not lines
	counts  bool // and how many lines each has
	limit   int
	each    search.Limits // of one file: as much as there may be of all
	buffers sync.Pool     // of *[]byte
	large   chan struct{} // full while a large file is held

	result service.GrepResult
	bytes  int  // what the matches in the result hold
	full   bool // nothing more fits
}

// largeBytes is the size from which on one file at a time is held in memory.
const largeBytes = 16 << 20

// What came of a file.
type outcome uint8

const (
	searched outcome = iota
	partly           // as far as the byte that shows that it is binary
	binary
	denied
	unreadable
	vanished
	tooLarge
)

// A finding is what came of a file.
type finding struct {
	outcome outcome
	search.Result
}

func (g *grep) run(ctx context.Context) error {
	if g.root.info.Kind == service.RegularFile {
		// To search a file that was named is to read it.
		if err := g.root.caller.Gate.Permit(ctx, service.ActionRead, g.root.spellings()...); err != nil {
			return err
		}
		f := finding{outcome: denied}
		if g.root.allows(service.ActionRead, ".") {
			f = g.search(ctx, int(g.root.file.Fd()))
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		g.add(g.root.info.Resource, f)
		return nil
	}
	return walk.Files(ctx, g.root.walk(ctx, g.choice), g.file, func(f walk.Found[finding]) bool {
		if f.Reason != walk.Taken {
			skip(&g.result.Skipped, f.Reason)
			return true
		}
		return g.add(under(g.root.info.Resource, f.Path), f.Result)
	})
}

// file searches a file below the handle; several goroutines call it.
func (g *grep) file(ctx context.Context, below string) (f finding, held int) {
	if !g.root.allows(service.ActionRead, below) {
		return finding{outcome: denied}, 0
	}
	fd, err := beneath.Open(int(g.root.file.Fd()), below, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_NOCTTY)
	switch {
	case err == nil:
	case beneath.Vanished(err):
		return finding{outcome: vanished}, 0
	default:
		return finding{outcome: unreadable}, 0
	}
	defer beneath.Close(fd)
	f = g.search(ctx, fd)
	return f, f.Bytes + len(f.Matches)*matchOverhead
}

// matchOverhead is roughly what a match takes beside its text.
const matchOverhead = 200

// search searches an open file. When ctx is done, what it gives is of no use.
func (g *grep) search(ctx context.Context, fd int) finding {
	info, err := beneath.Stat(fd)
	switch {
	case err != nil || info.Kind != service.RegularFile:
		return finding{outcome: unreadable}
	case info.Size > service.GrepFileBytes:
		return finding{outcome: tooLarge}
	case info.Size > largeBytes:
		select {
		case g.large <- struct{}{}:
			defer func() { <-g.large }()
		case <-ctx.Done():
			return finding{}
		}
	}
	buffer := g.buffer(int(info.Size))
	defer g.release(buffer)
	n, err := beneath.ReadFull(ctx, fd, *buffer)
	if err != nil {
		return finding{outcome: unreadable}
	}
	raw := (*buffer)[:n]
	if info.Size == 0 { // or its content is made up while it is read
		var ended bool
		if raw, ended, err = readUnsized(ctx, fd); err != nil {
			return finding{outcome: unreadable}
		}
		if !ended {
			return finding{outcome: tooLarge}
		}
	}
	content, o := plainText(raw)
	if o == binary {
		return finding{outcome: binary}
	}
	result, err := g.matcher.Lines(ctx, content, g.each)
	if err != nil {
		return finding{}
	}
	return finding{outcome: o, Result: result}
}

// buffer gives room for size bytes.
func (g *grep) buffer(size int) *[]byte {
	b, _ := g.buffers.Get().(*[]byte)
	if b == nil {
		b = new([]byte)
	}
	if cap(*b) < size {
		*b = make([]byte, size, max(size, 64<<10))
	}
	*b = (*b)[:size]
	return b
}

func (g *grep) release(b *[]byte) {
	if cap(*b) <= largeBytes {
		g.buffers.Put(b)
	}
}

// plainText gives the text of a file: without its mark, decoded, and as far as it
// is text. A zero byte behind the part that tells text from other bytes is where
// text ends; whole lines before it are searched (case A26).
func plainText(content []byte) ([]byte, outcome) {
	nature := text.Probe(content[:min(len(content), text.ProbeBytes)])
	switch {
	case nature.Binary:
		return nil, binary
	case nature.Encoding == text.UTF16LE, nature.Encoding == text.UTF16BE:
		return text.FromUTF16(content[nature.BOM:], nature.Encoding), searched
	}
	content = content[nature.BOM:]
	if zero := bytes.IndexByte(content, 0); zero >= 0 {
		return content[:bytes.LastIndexByte(content[:zero], '\n')+1], partly
	}
	return content, searched
}

// add takes in what came of a file, in the order of the paths, and says whether
// more is wanted.
func (g *grep) add(name string, f finding) bool {
	skipped := &g.result.Skipped
	switch f.outcome {
	case denied:
		skipped.Denied++
	case unreadable:
		skipped.Unreadable++
	case binary:
		skipped.Binary++
	case tooLarge:
		skipped.TooLarge++
		g.incomplete(name)
	case partly:
		skipped.Binary++
		g.result.Searched++
		if f.Lines > 0 {
			g.incomplete(name)
		}
	case searched:
		g.result.Searched++
	}
	if g.files {
		return g.count(name, f.Lines)
	}
	kept := g.keep(name, f.Result)
	if kept > 0 {
		g.result.Files++
	}
	g.result.Omitted = min(g.result.Omitted+f.Lines-kept, service.MaxEntries)
	g.result.Truncated = g.result.Omitted > 0
	return g.result.Omitted < service.MaxEntries
}

// count takes in a file that matches, and says whether more is wanted.
func (g *grep) count(name string, lines int) bool {
	switch {
	case lines == 0:
		return true
	case len(g.result.Counts) == g.limit:
		g.result.Truncated = true
		return false
	case !g.counts:
		lines = 0
	}
	g.result.Counts = append(g.result.Counts, service.FileCount{Path: name, Lines: lines})
	g.result.Files++
	return true
}

// keep takes matches into the result, as many as fit; when one does not, none
// that comes later does.
func (g *grep) keep(name string, r search.Result) int {
	for i, m := range r.Matches {
		m.Path = name
		size := search.Size(m)
		if g.full = g.full || len(g.result.Matches) == g.limit || g.bytes+size > service.GrepBytes; g.full {
			return i
		}
		g.bytes += size
		g.result.Matches = append(g.result.Matches, m)
	}
	g.full = g.full || r.Lines > len(r.Matches)
	return len(r.Matches)
}

func (g *grep) incomplete(name string) {
	if len(g.result.Incomplete) < service.MaxIncomplete {
		g.result.Incomplete = append(g.result.Incomplete, name)
	}
}
