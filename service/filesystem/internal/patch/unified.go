package patch

import (
	"context"
	"strings"
)

// unified reads unified diffs. What stands between files is skipped, as git does;
// what could be a lost line of a hunk is not.
func (p *parser) unified(ctx context.Context) ([]File, error) {
	var s section
	for p.next < len(p.lines) && ctx.Err() == nil {
		line := p.lines[p.next]
		switch {
		case strings.HasPrefix(line, "diff --git "):
			if err := p.close(ctx, s); err != nil {
				return nil, err
			}
			if len(line) > namesBytes && !strings.Contains(line, `"`) {
				return nil, wrong(p.next+1, "is too long for two paths")
			}
			p.pairs = strings.HasSuffix(line, "\r")
			s = section{line: p.next + 1, git: true, header: []string{p.line(p.next)}}
		case strings.HasPrefix(line, "--- ") && p.next+1 < len(p.lines) && strings.HasPrefix(p.lines[p.next+1], "+++ "):
			if s.named || len(s.hunks) > 0 || !s.git {
				if err := p.close(ctx, s); err != nil {
					return nil, err
				}
				s = section{line: p.next + 1}
			}
			p.pairs = strings.HasSuffix(line, "\r")
			s.named = true
			s.old, s.new = p.line(p.next)[4:], p.line(p.next + 1)[4:]
			p.next++
		case strings.HasPrefix(line, "@@"):
			h, err := p.hunk(ctx, s)
			if err != nil {
				return nil, err
			}
			s.hunks = append(s.hunks, h)
			continue
		case binaryMark(line):
			return nil, wrong(p.next+1, "changes a binary file, and only text can be changed; leave that file out")
		case len(s.hunks) > 0 && lost(line):
			return nil, wrong(p.next+1, "there are more lines than the hunk at line %d says; correct the counts after its \"@@\"",
				s.hunks[len(s.hunks)-1].line)
		case s.git && len(s.hunks) == 0 && extended(line):
			s.header = append(s.header, p.line(p.next))
		}
		p.next++
	}
	if err := p.close(ctx, s); err != nil {
		return nil, err
	}
	if len(p.files) == 0 {
		return nil, wrong(1, `there is no change in it; a patch is a unified diff ("--- a/path", "+++ b/path", "@@ -1,3 +1,4 @@"), or begins with %q`, beginPatch)
	}
	return p.files, nil
}

func binaryMark(line string) bool {
	return strings.HasPrefix(line, "GIT binary patch") ||
		strings.HasPrefix(line, "Binary files ") && strings.HasSuffix(strings.TrimSpace(line), " differ")
}

// lost says that a line looks as if it belonged to a hunk. "-- " is how git begins
// what it writes below a diff.
func lost(line string) bool {
	return strings.TrimSpace(line) != "" && strings.ContainsRune(" +-\\", rune(line[0])) && strings.TrimRight(line, " \r") != "--"
}

// extended says that a line is one of git's about the file.
func extended(line string) bool {
	for _, prefix := range []string{
		"old mode ", "new mode ", "deleted file mode ", "new file mode ", "copy from ", "copy to ", "rename from ",
		"rename to ", "similarity index ", "dissimilarity index ", "index ",
	} {
		if strings.HasPrefix(line, prefix) {
			return true
		}
	}
	return false
}

// A section is what a unified diff says of one file.
type section struct {
	line     int
	git      bool     // it begins with "diff --git"
	header   []string // that line, and those of git's that follow
	named    bool     // the lines with old and new were there
	old, new string   // what stands after "--- " and "+++ "
	hunks    []span
}

// A span is the lines of a hunk, as they stand in the patch.
type span struct {
	line  int
	r     hunkRanges
	lines []string
}

// A lineRange is a line number and a count, as a hunk gives them.
type lineRange struct{ at, count int }

type hunkRanges struct{ old, new lineRange }

// ranges reads the "@@ -1,3 +1,4 @@" of a hunk.
func ranges(line string) (hunkRanges, bool) {
	rest, ok := strings.CutPrefix(line, "@@ -")
	if !ok {
		return hunkRanges{}, false
	}
	inner, _, ok := strings.Cut(rest, " @@")
	if !ok {
		return hunkRanges{}, false
	}
	before, after, ok := strings.Cut(inner, " +")
	if !ok {
		return hunkRanges{}, false
	}
	oldRange, ok := readRange(before)
	newRange, also := readRange(after)
	return hunkRanges{oldRange, newRange}, ok && also
}

func readRange(s string) (lineRange, bool) {
	at, count, counted := strings.Cut(s, ",")
	r := lineRange{count: 1}
	var ok bool
	if r.at, ok = number(at); !ok {
		return r, false
	}
	if counted {
		r.count, ok = number(count)
	}
	return r, ok
}

// number reads a number that is small enough to be that of a line.
func number(s string) (int, bool) {
	if s == "" || len(s) > 9 {
		return 0, false
	}
	n := 0
	for _, c := range []byte(s) {
		if c < '0' || c > '9' {
			return 0, false
		}
		n = n*10 + int(c-'0')
	}
	return n, true
}

// hunk takes as many lines as the hunk says that it has.
func (p *parser) hunk(ctx context.Context, s section) (span, error) {
	h := span{line: p.next + 1}
	head := p.line(p.next)
	if !s.named {
		return h, wrong(h.line, `a hunk without the lines "--- a/path" and "+++ b/path" before it`)
	}
	var ok bool
	if h.r, ok = ranges(head); !ok {
		return h, wrong(h.line, `expected "@@ -line,count +line,count @@"; a patch without line numbers begins with %q`, beginPatch)
	}
	if n := len(s.hunks); n > 0 && h.r.old.at < s.hunks[n-1].r.old.at+s.hunks[n-1].r.old.count {
		return h, wrong(h.line, "the hunk begins before the end of the one before it; hunks are in the order of the file and do not overlap")
	}
	p.next++
	before, after, changed := h.r.old.count, h.r.new.count, false
	for before > 0 || after > 0 || p.next < len(p.lines) && bareMark(p.lines[p.next]) {
		if ctx.Err() != nil {
			return h, context.Cause(ctx)
		}
		var op byte // 0 at the end of the patch
		switch line := p.line(p.next); {
		case p.next == len(p.lines):
		case line == "" || line == "\r":
			op = ' ' // white space at the end of lines gets lost
		default:
			op = line[0]
		}
		switch op {
		case ' ':
			before--
			after--
		case '-':
			before--
			changed = true
		case '+':
			after--
			changed = true
		case '\\':
			if len(h.lines) == 0 {
				before = -1
			}
		default:
			before = -1
		}
		if before < 0 || after < 0 {
			return h, wrong(p.next+1, `the hunk at line %d says that it has %d old and %d new lines, and here they do not add up; `+
				`correct the counts after its "@@", or send a patch that begins with %q, which needs none`,
				h.line, h.r.old.count, h.r.new.count, beginPatch)
		}
		line := p.line(p.next)
		if line == "\r" {
			line = " \r"
		}
		h.lines = append(h.lines, line)
		p.next++
	}
	if !changed {
		return h, wrong(h.line, `the hunk changes nothing: it has no line that begins with "+" or "-"`)
	}
	return h, nil
}
