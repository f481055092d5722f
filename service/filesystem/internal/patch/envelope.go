package patch

import (
	"context"
	"strings"
)

// The lines of the form that stands between them.
const (
	beginPatch = "*** Begin Patch"
	endPatch   = "*** End Patch"
	addFile    = "*** Add File:"
	updateFile = "*** Update File:"
	deleteFile = "*** Delete File:"
	moveTo     = "*** Move to:"
	endOfFile  = "*** End of File"
)

// envelope reads the form between beginPatch and endPatch.
func (p *parser) envelope(ctx context.Context) ([]File, error) {
	p.pairs = strings.HasSuffix(p.lines[p.next], "\r")
	p.next++
	for {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		if p.next == len(p.lines) {
			return nil, wrong(len(p.lines), "the patch does not end with %q; it may have been cut off", endPatch)
		}
		line := p.line(p.next)
		switch {
		case strings.TrimSpace(line) == "":
			p.next++
		case is(line, endPatch):
			if err := p.ended(); err != nil {
				return nil, err
			}
			return p.files, nil
		default:
			if err := p.section(ctx, line); err != nil {
				return nil, err
			}
		}
	}
}

// ended refuses what stands after the end.
func (p *parser) ended() error {
	for i := p.next + 1; i < len(p.lines); i++ {
		if strings.TrimSpace(p.lines[i]) != "" {
			return wrong(i+1, "stands after %q; send one patch", endPatch)
		}
	}
	if len(p.files) == 0 {
		return wrong(p.next+1, "the patch changes no file")
	}
	return nil
}

// section reads what is to be done with one file.
func (p *parser) section(ctx context.Context, line string) error {
	f := File{Line: p.next + 1}
	name := ""
	for _, header := range []struct {
		prefix string
		kind   Kind
	}{{addFile, Add}, {updateFile, Update}, {deleteFile, Delete}} {
		if rest, ok := strings.CutPrefix(line, header.prefix); ok {
			f.Kind, name = header.kind, strings.Trim(rest, " \t")
			if name == "" {
				return wrong(f.Line, "%q needs a path", header.prefix)
			}
		}
	}
	p.next++
	var err error
	switch f.Kind {
	case Add:
		f.New = name
		f.Hunks, err = p.added(ctx)
	case Update:
		f.Old, f.New = name, name
		if to, ok := strings.CutPrefix(p.line(p.next), moveTo); ok {
			p.next++
			f.Kind, f.New = Move, strings.Trim(to, " \t")
			if f.New == "" || f.New == f.Old {
				return wrong(p.next, "%q needs another path", moveTo)
			}
		}
		f.Hunks, err = p.updated(ctx)
		if err == nil && f.Kind == Update && len(f.Hunks) == 0 {
			err = wrong(f.Line, "there is no change for this file")
		}
	case Delete:
		f.Old = name
	default:
		return wrong(f.Line, "expected %q, %q, %q or %q", addFile+" path", updateFile+" path", deleteFile+" path", endPatch)
	}
	if err != nil {
		return err
	}
	return p.add(f)
}

// added reads the lines of a new file, as one hunk.
func (p *parser) added(ctx context.Context) ([]Hunk, error) {
	h := Hunk{Line: p.next + 1}
	for ; p.next < len(p.lines) && ctx.Err() == nil; p.next++ {
		line := p.line(p.next)
		switch {
		case strings.HasPrefix(line, "+"):
			h.Lines = append(h.Lines, Line{Op: Insert, Text: line[1:]})
		case bareMark(line) && len(h.Lines) > 0:
			h.Lines[len(h.Lines)-1].Bare = true
		case heading(line):
			return []Hunk{h}, nil
		case strings.TrimSpace(line) == "" && p.blankUntilHeading(p.next):
			return []Hunk{h}, nil
		default:
			return nil, wrong(p.next+1, `each line of a new file begins with "+", an empty one too`)
		}
	}
	return []Hunk{h}, nil
}

// updated reads the hunks of a file.
func (p *parser) updated(ctx context.Context) ([]Hunk, error) {
	var hunks []Hunk
	var h Hunk
	var empty int // how many lines at the end of the hunk have not even a space
	finish := func() error {
		if !h.AtEnd { // they only keep it apart from what follows
			h.Lines = h.Lines[:len(h.Lines)-empty]
		}
		empty = 0
		if h.Line == 0 {
			return nil
		}
		if !h.changes() {
			return wrong(h.Line, `the hunk changes nothing: it has no line that begins with "+" or "-"`)
		}
		hunks = append(hunks, h)
		h = Hunk{}
		return nil
	}
	for ; p.next < len(p.lines) && ctx.Err() == nil && !heading(p.line(p.next)); p.next++ {
		line := p.line(p.next)
		if h.AtEnd || strings.HasPrefix(line, "@@") && len(h.Lines) > 0 {
			if err := finish(); err != nil {
				return nil, err
			}
		}
		if h.Line == 0 && line != "" {
			h.Line = p.next + 1
		}
		switch {
		case strings.HasPrefix(line, "@@"):
			h.place(line)
			continue
		case is(line, endOfFile):
			h.AtEnd = true
			continue
		case bareMark(line) && len(h.Lines) > empty:
			h.Lines[len(h.Lines)-1].Bare = true
			continue
		case line == "":
			if h.Line != 0 {
				h.Lines = append(h.Lines, Line{Op: Keep})
				empty++
			}
			continue
		case line[0] == ' ', line[0] == '+', line[0] == '-':
			h.Lines = append(h.Lines, Line{Op: Op(line[0]), Text: line[1:]})
			empty = 0
		default:
			return nil, wrong(p.next+1,
				`a line of a hunk begins with "+", with "-", or, if it stays as it is, with a space; a hunk begins with "@@"`)
		}
	}
	if err := finish(); err != nil {
		return nil, err
	}
	return hunks, nil
}

// place reads a line that begins with "@@": line numbers, or an anchor.
func (h *Hunk) place(line string) {
	if r, ok := ranges(line); ok {
		h.Numbered, h.At = true, r.old.at
		return
	}
	if anchor := strings.TrimSpace(strings.TrimPrefix(line, "@@")); anchor != "" && anchor != "@@" {
		h.Anchors = append(h.Anchors, anchor)
	}
}

func (h Hunk) changes() bool {
	for _, l := range h.Lines {
		if l.Op != Keep {
			return true
		}
	}
	return false
}

func is(line, want string) bool { return strings.TrimRight(line, " \t") == want }

// heading says that a line begins another file, or ends the patch.
func heading(line string) bool {
	return strings.HasPrefix(line, addFile) || strings.HasPrefix(line, updateFile) ||
		strings.HasPrefix(line, deleteFile) || is(line, endPatch)
}

func (p *parser) blankUntilHeading(i int) bool {
	for ; i < len(p.lines); i++ {
		if line := p.line(i); heading(line) {
			return true
		} else if strings.TrimSpace(line) != "" {
			return false
		}
	}
	return true
}
