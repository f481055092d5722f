// Package patch reads and applies patches: unified diffs, with the headers that git
// adds, and the form between "*** Begin Patch" and "*** End Patch". A hunk goes
// where its lines stand, exactly: line numbers are a hint, and only the ends of
// lines are taken for one another. What a hunk does not change keeps its bytes, the
// lines of its context too. Everything is a function of its arguments.
//
// What both forms have in common: a line "\ No newline at end of file" after a line
// says that this is the last of the file and has no end. Without one on either
// side, the file ends as it did (case A17).
package patch

import (
	"context"
	"fmt"
	"strings"

	"github.com/toolhost/toolhost/service"
)

const (
	// MaxBytes is the most bytes of a patch.
	MaxBytes = 16 << 20
	// MaxFiles is the most files of a patch.
	MaxFiles = 256
	// MaxHunks is the most hunks of a patch.
	MaxHunks = 10000
)

// A Kind is what a patch does to a file.
type Kind string

// The kinds. A Move may change the file too.
const (
	Add    Kind = "add"
	Update Kind = "update"
	Delete Kind = "delete"
	Move   Kind = "move"
)

// A File is what a patch does to one file. Paths are as the patch spells them,
// without the prefixes a/ and b/ of a diff.
type File struct {
	Kind Kind
	// Old is where the file is; empty for Add.
	Old string
	// New is where it is afterwards; empty for Delete.
	New string
	// Line is the line of the patch where this begins, from 1.
	Line int
	// Hunks are the changes, in the order of the file. A Move may have none; a Delete
	// has none if what is deleted need not be shown.
	Hunks []Hunk
}

// A Hunk is a change in one place of a file.
type Hunk struct {
	// Line is the line of the patch where the hunk begins, from 1.
	Line int
	// Numbered says that At is given.
	Numbered bool
	// At is the line of the file where the hunk is said to begin, from 1; of one that
	// only adds, the line after which it does.
	At int
	// Anchors are lines of the file that stand before the hunk, in order: what follows
	// "@@" where no line numbers do.
	Anchors []string
	// AtEnd says that the hunk ends where the file does.
	AtEnd bool
	Lines []Line
}

// An Op is what a hunk does with a line.
type Op byte

// The operations, as a patch writes them.
const (
	Keep   Op = ' '
	Remove Op = '-'
	Insert Op = '+'
)

// A Line is a line of a hunk, without its "\n".
type Line struct {
	Op   Op
	Text string
	// Bare says that the line is the last of the file, and has no end.
	Bare bool
}

// Parse reads a patch of either form. An error is a [*service.FileError] without a
// path, FileBadQuery or FileTooLarge, that names the line of the patch. A patch that
// asks for what is not done is refused whole: a binary file, another mode, a link,
// a copy. Time is linear in the text. When ctx ends, Parse does too, soon, with the
// cause.
func Parse(ctx context.Context, text string) ([]File, error) {
	files, err := parse(ctx, text)
	if ctx.Err() != nil { // what an error says is not so then
		return nil, context.Cause(ctx)
	}
	return files, err
}

func parse(ctx context.Context, text string) ([]File, error) {
	if len(text) > MaxBytes {
		return nil, &service.FileError{
			Kind: service.FileTooLarge, Detail: fmt.Sprintf("a patch is at most %d MiB", MaxBytes>>20),
		}
	}
	p := parser{lines: split(text)}
	for i, line := range p.lines {
		if strings.TrimSpace(line) == "" {
			continue
		}
		if strings.TrimRight(line, " \t\r") == beginPatch {
			p.next = i
			return p.envelope(ctx)
		}
		break
	}
	return p.unified(ctx)
}

// split gives the lines of a patch, without their ends. The last needs none.
func split(text string) []string {
	lines := strings.Split(text, "\n")
	if lines[len(lines)-1] == "" {
		lines = lines[:len(lines)-1]
	}
	return lines
}

// A parser goes through the lines of a patch.
type parser struct {
	lines []string
	next  int
	// pairs says that the patch itself is written with "\r\n", so that the "\r" at the
	// end of a line is none of the file's.
	pairs bool
	files []File
	hunks int
}

// line is the line at an index, without the end of the patch's own lines.
func (p *parser) line(i int) string {
	if i >= len(p.lines) {
		return ""
	}
	if p.pairs {
		return strings.TrimSuffix(p.lines[i], "\r")
	}
	return p.lines[i]
}

func (p *parser) add(f File) error {
	if len(p.files) == MaxFiles {
		return wrong(f.Line, "a patch is for at most %d files; send the rest in another", MaxFiles)
	}
	if p.hunks += len(f.Hunks); p.hunks > MaxHunks {
		return wrong(f.Line, "a patch has at most %d hunks; send the rest in another", MaxHunks)
	}
	for _, h := range f.Hunks {
		if err := h.check(); err != nil {
			return err
		}
	}
	p.files = append(p.files, f)
	return nil
}

// check refuses a line that has no end and is not the last of its side.
func (h Hunk) check() error {
	bareOld, bareNew := false, false
	for i, l := range h.Lines {
		if bareOld && l.Op != Insert || bareNew && l.Op != Remove {
			return wrong(h.Line, `in this hunk, "\ No newline at end of file" stands after a line that is not the last`)
		}
		if h.Lines[i].Bare {
			bareOld = bareOld || l.Op != Insert
			bareNew = bareNew || l.Op != Remove
		}
	}
	return nil
}

// wrong is an error about a line of the patch.
func wrong(line int, format string, args ...any) error {
	return &service.FileError{
		Kind:   service.FileBadQuery,
		Detail: fmt.Sprintf("line %d of the patch: %s", line, fmt.Sprintf(format, args...)),
	}
}

// bareMark says that a line says that the one before it has no end. Only its
// beginning is fixed: git and diff translate the rest.
func bareMark(line string) bool { return strings.HasPrefix(line, `\ `) }
