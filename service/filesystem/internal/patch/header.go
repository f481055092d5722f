package patch

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/bluekeyes/go-gitdiff/gitdiff"
)

const nowhere = "/dev/null"

// namesBytes is how long a line with two names that are not quoted is at most: two of
// the longest paths, and what stands around them. The library takes a time that is
// quadratic in it to tell where the first name ends.
const namesBytes = 2*4096 + 64

// A reader reads by calling itself.
type reader func(p []byte) (int, error)

func (r reader) Read(p []byte) (int, error) { return r(p) }

// whileLasts reads a text up to the end of ctx.
func whileLasts(ctx context.Context, text string) io.Reader {
	from := strings.NewReader(text)
	return reader(func(p []byte) (int, error) {
		if ctx.Err() != nil {
			return 0, context.Cause(ctx)
		}
		return from.Read(p)
	})
}

// close ends a section, and adds its file.
func (p *parser) close(ctx context.Context, s section) error {
	if s.line == 0 || !s.git && len(s.hunks) == 0 {
		return nil
	}
	text, err := s.normal()
	if err != nil {
		return err
	}
	parsed, _, err := gitdiff.Parse(whileLasts(ctx, text))
	if err != nil {
		return wrong(s.line, "cannot be read: %s", reason(err))
	}
	if len(parsed) != 1 {
		return wrong(s.line, "cannot be read as a change of one file")
	}
	f := File{Line: s.line, Old: parsed[0].OldName, New: parsed[0].NewName}
	if err := f.classify(parsed[0]); err != nil {
		return err
	}
	if len(parsed[0].TextFragments) != len(s.hunks) {
		return wrong(s.line, "cannot be read: %d hunks became %d", len(s.hunks), len(parsed[0].TextFragments))
	}
	for i, fragment := range parsed[0].TextFragments {
		h := Hunk{Line: s.hunks[i].line, Numbered: true, At: s.hunks[i].r.old.at}
		for _, l := range fragment.Lines {
			line := Line{Op: Keep, Text: strings.TrimSuffix(l.Line, "\n"), Bare: l.NoEOL()}
			switch l.Op {
			case gitdiff.OpAdd:
				line.Op = Insert
			case gitdiff.OpDelete:
				line.Op = Remove
			}
			h.Lines = append(h.Lines, line)
		}
		f.Hunks = append(f.Hunks, h)
	}
	if f.Kind == Add && len(f.Hunks) > 1 {
		return wrong(s.line, "a new file has one hunk")
	}
	return p.add(f)
}

// normal writes a section as git would, so that one parser reads all of them: with
// the line "diff --git", with prefixes, and with a mode where a file is made or
// deleted.
func (s section) normal() (string, error) {
	var out strings.Builder
	head := []string{"diff --git "}
	if s.git {
		head = s.header
	}
	out.WriteString(head[0] + "\n")
	if s.named {
		s.nothing()
		before, after := prefixed(s.old, "a/"), prefixed(s.new, "b/")
		fromNothing, toNothing := name(s.old) == nowhere, name(s.new) == nowhere
		switch {
		case fromNothing && toNothing:
			return "", wrong(s.line, "both names are %s", nowhere)
		case (before || fromNothing) && (after || toNothing):
		case s.git:
			return "", wrong(s.line, `after "diff --git", names have the prefixes a/ and b/`)
		default:
			if !fromNothing {
				s.old = prefix(s.old, "a/")
			}
			if !toNothing {
				s.new = prefix(s.new, "b/")
			}
		}
		if fromNothing && !mentions(head, "new file mode ") {
			out.WriteString("new file mode 100644\n")
		}
		if toNothing && !mentions(head, "deleted file mode ") {
			out.WriteString("deleted file mode 100644\n")
		}
	}
	for _, line := range head[1:] {
		out.WriteString(line + "\n")
	}
	if s.named {
		fmt.Fprintf(&out, "--- %s\n+++ %s\n", s.old, s.new)
	}
	for _, h := range s.hunks {
		fmt.Fprintf(&out, "@@ -%d,%d +%d,%d @@\n", h.r.old.at, h.r.old.count, h.r.new.at, h.r.new.count)
		for _, line := range h.lines {
			out.WriteString(line + "\n")
		}
	}
	return out.String(), nil
}

// nothing gives a side that is not there the name that says so: diff with -N gives
// it the file's name, and a time that no file has.
func (s *section) nothing() {
	if len(s.hunks) != 1 {
		return
	}
	if s.hunks[0].r.old == (lineRange{}) && timeless(s.old) {
		s.old = nowhere
	}
	if s.hunks[0].r.new == (lineRange{}) && timeless(s.new) {
		s.new = nowhere
	}
}

// timeless says that the time in what stands after "--- " is where times begin, in
// any zone.
func timeless(s string) bool {
	_, time, _ := strings.Cut(s, "\t")
	return strings.HasPrefix(time, "1970-01-01 ") || strings.HasPrefix(time, "1969-12-31 ")
}

// name is the name in what stands after "--- ", without a time. What is quoted is
// not looked at.
func name(s string) string {
	n, _, _ := strings.Cut(s, "\t")
	return strings.TrimRight(n, " ")
}

func prefixed(s, prefix string) bool {
	return strings.HasPrefix(s, prefix) || strings.HasPrefix(s, `"`+prefix)
}

func prefix(s, prefix string) string {
	if rest, ok := strings.CutPrefix(s, `"`); ok {
		return `"` + prefix + rest
	}
	return prefix + s
}

func mentions(lines []string, prefix string) bool {
	for _, line := range lines {
		if strings.HasPrefix(line, prefix) {
			return true
		}
	}
	return false
}

// classify says what is done with the file, and refuses what is not done at all.
func (f *File) classify(parsed *gitdiff.File) error {
	const (
		kinds   = 0o170000
		regular = 0o100000
		plain   = 0o100644
	)
	for _, mode := range []os.FileMode{parsed.OldMode, parsed.NewMode} {
		if mode != 0 && mode&kinds != regular {
			return wrong(f.Line, "is about a file of mode %o, which is no regular file; leave it out", mode)
		}
	}
	switch {
	case parsed.IsBinary:
		return wrong(f.Line, "changes a binary file, and only text can be changed; leave that file out")
	case parsed.IsCopy:
		return wrong(f.Line, "copies a file, which a patch cannot do here; add a new file")
	case parsed.IsNew && parsed.NewMode != 0 && parsed.NewMode != plain:
		return wrong(f.Line, `makes a file of mode %o, and only files of mode 100644 can be made`, parsed.NewMode)
	case parsed.IsNew:
		f.Kind, f.Old = Add, ""
	case parsed.IsDelete:
		f.Kind, f.New = Delete, ""
	case parsed.NewMode != 0 && parsed.NewMode != parsed.OldMode:
		return wrong(f.Line, `changes the mode of the file, which cannot be done; leave out the lines "old mode" and "new mode"`)
	case parsed.IsRename && f.Old != f.New:
		f.Kind = Move
	case f.Old != f.New:
		return wrong(f.Line, `the names %q and %q differ; to move a file, write "diff --git", "rename from" and "rename to", or %q`, f.Old, f.New, moveTo)
	case len(parsed.TextFragments) == 0:
		return wrong(f.Line, "there is no change for this file")
	default:
		f.Kind = Update
	}
	return nil
}

// reason is what the parser says, without its name and the line, which is not one
// of the patch's.
func reason(err error) string {
	said := strings.TrimPrefix(err.Error(), "gitdiff: ")
	if rest, ok := strings.CutPrefix(said, "line "); ok {
		if _, after, ok := strings.Cut(rest, ": "); ok {
			return after
		}
	}
	return said
}
