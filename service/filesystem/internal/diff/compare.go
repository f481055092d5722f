package diff

import (
	"bytes"
	"context"

	"github.com/aymanbagabas/go-udiff/lcs"
)

const (
	// compareLines and compareBytes are up to where the parts of two texts that are
	// left without their common beginning and end are compared line by line.
	compareLines = 20000
	compareBytes = 8 << 20
	// patience is for how many lines comparisons are begun, those that are begun again
	// counted again; each counts for callLines more.
	patience  = 4 << 20
	callLines = 1000
	// sureLines is up to how many changed lines the library finds the fewest.
	sureLines = 50
)

// A lineRange is lines of a text, from one up to another, counted from 0.
type lineRange struct{ from, to int }

func (r lineRange) lines() int { return r.to - r.from }

// A block is lines that became others. Blocks are in order, with lines that stay
// between them.
type block struct{ old, now lineRange }

// A comparison is what changed between two texts.
type comparison struct {
	blocks []block
	coarse bool
	// lines are how many each side has.
	oldLines, nowLines int
	// head is the length in lines of the common beginning.
	head int
}

// compare finds the blocks of two plain texts; some of them, when ctx ends.
func compare(ctx context.Context, old, now []byte) comparison {
	c := comparison{oldLines: countLines(old), nowLines: countLines(now)}
	head := commonHead(old, now)
	c.head = bytes.Count(old[:head], newline)
	old, now = old[head:], now[head:]
	tail := commonTail(old, now)
	old, now = old[:len(old)-tail], now[:len(now)-tail]
	whole := block{
		old: lineRange{c.head, c.head + countLines(old)},
		now: lineRange{c.head, c.head + countLines(now)},
	}
	switch {
	case len(old)+len(now) == 0:
		return c
	case len(old) == 0 || len(now) == 0:
		c.blocks = []block{whole}
	case whole.old.lines() > compareLines || whole.now.lines() > compareLines ||
		len(old) > compareBytes || len(now) > compareBytes:
		c.blocks, c.coarse = []block{whole}, true
	default:
		r := refiner{old: split(old), now: split(now), base: c.head, left: patience}
		r.refine(ctx, block{old: lineRange{0, len(r.old)}, now: lineRange{0, len(r.now)}})
		c.blocks, c.coarse = r.blocks, r.left <= 0
	}
	return c
}

var newline = []byte("\n")

func countLines(b []byte) int {
	n := bytes.Count(b, newline)
	if len(b) > 0 && b[len(b)-1] != '\n' {
		n++
	}
	return n
}

// split gives the lines of a text, with their ends.
func split(b []byte) []string {
	lines := make([]string, 0, countLines(b))
	for line := range bytes.SplitAfterSeq(b, newline) {
		if len(line) > 0 {
			lines = append(lines, string(line))
		}
	}
	return lines
}

const stride = 4 << 10

// commonHead is the length of the whole lines that two texts begin with.
func commonHead(a, b []byte) int {
	n, most := 0, min(len(a), len(b))
	for n+stride <= most && bytes.Equal(a[n:n+stride], b[n:n+stride]) {
		n += stride
	}
	for n < most && a[n] == b[n] {
		n++
	}
	if n == len(a) && n == len(b) {
		return n
	}
	return bytes.LastIndexByte(a[:n], '\n') + 1
}

// commonTail is the length of the whole lines that two texts end with, both of
// which begin with a line.
func commonTail(a, b []byte) int {
	n, most := 0, min(len(a), len(b))
	for n+stride <= most && bytes.Equal(a[len(a)-n-stride:len(a)-n], b[len(b)-n-stride:len(b)-n]) {
		n += stride
	}
	for n < most && a[len(a)-n-1] == b[len(b)-n-1] {
		n++
	}
	begins := func(s []byte) bool { return n == len(s) || s[len(s)-n-1] == '\n' }
	if begins(a) && begins(b) {
		return n
	}
	i := bytes.IndexByte(a[len(a)-n:], '\n')
	if i < 0 {
		return 0
	}
	return n - i - 1
}

// A refiner compares lines. The library gives up on parts that are very different,
// so that they become one block; such a part is compared again by itself, from its
// own beginning and end, as long as that finds more.
type refiner struct {
	old, now []string
	base     int // the number of the first line
	left     int // what is left of the patience
	blocks   []block
}

func (r *refiner) refine(ctx context.Context, whole block) {
	if ctx.Err() != nil {
		return
	}
	r.left -= whole.old.lines() + whole.now.lines() + callLines
	diffs := lcs.DiffLines(r.old[whole.old.from:whole.old.to], r.now[whole.now.from:whole.now.to])
	changed := 0
	for _, d := range diffs {
		changed += d.End - d.Start + d.ReplEnd - d.ReplStart
	}
	for _, d := range diffs {
		b := block{
			old: lineRange{whole.old.from + d.Start, whole.old.from + d.End},
			now: lineRange{whole.now.from + d.ReplStart, whole.now.from + d.ReplEnd},
		}
		if changed > sureLines && b != whole && b.old.lines() > 1 && b.now.lines() > 1 && r.left > 0 {
			r.refine(ctx, b)
			continue
		}
		r.add(b)
	}
}

// add adds a block, as a part of the last one if no line stays between them.
func (r *refiner) add(b block) {
	b.old.from, b.old.to = b.old.from+r.base, b.old.to+r.base
	b.now.from, b.now.to = b.now.from+r.base, b.now.to+r.base
	if n := len(r.blocks); n > 0 && r.blocks[n-1].old.to == b.old.from && r.blocks[n-1].now.to == b.now.from {
		r.blocks[n-1].old.to, r.blocks[n-1].now.to = b.old.to, b.now.to
		return
	}
	r.blocks = append(r.blocks, b)
}
