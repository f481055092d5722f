// Package near says where in a text stands what comes nearest to a text that is
// not in it, and how the two differ. It only describes: nothing is ever changed at
// a place that is merely near. Everything is a function of its arguments, and takes
// a bounded time.
package near

import (
	"bytes"
	"context"
	"fmt"
	"strings"

	"github.com/toolhost/toolhost/service/filesystem/internal/document"
	"github.com/toolhost/toolhost/service/filesystem/internal/text"
)

const (
	// quoteBytes is how much of a line is quoted.
	quoteBytes = 160
	// maxLines is how many lines of what was looked for are compared.
	maxLines = 256
	// maxBytes is how much of a content is looked at, and of what was looked for.
	maxBytes = 4 << 20
	// keyBytes is by how much of a line the part is chosen that is looked at.
	keyBytes = 32
)

// Describe says what in content comes nearest to wanted, with line numbers and
// quoted lines, in less than 1 KiB; both are plain texts. It gives "" when nothing
// is near, and when ctx ends.
//
// Of a content over maxBytes only a part is looked at: around the first place where
// the longest line of wanted stands, or else the beginning. Where nothing is near in
// that part, it says which one it was. Of wanted, lines in as much count. So what a miss costs
// does not grow with the file.
func Describe(ctx context.Context, content []byte, wanted string) string {
	lines := split(wanted)
	w := around(content, lines)
	for _, look := range []func() string{
		func() string { return w.alike(ctx, wanted) },
		func() string { return w.lined(lines) },
		func() string { return w.similar(lines) },
	} {
		if ctx.Err() != nil {
			return ""
		}
		if said := look(); said != "" || ctx.Err() != nil {
			return said
		}
	}
	if len(w.content) == len(content) {
		return ""
	}
	last := w.before + bytes.Count(w.content, newline)
	return fmt.Sprintf("nothing like it stands in %s, and the rest of so large a file was not compared", lineNumbers(w.before+1, max(last, w.before+1)))
}

// A window is the part of a content that is looked at.
type window struct {
	content []byte
	before  int  // how many lines stand before it
	last    bool // it ends where the content does
}

// around is the window of a content for lines that are looked for.
func around(content []byte, lines [][]byte) window {
	if len(content) <= maxBytes {
		return window{content: content, last: true}
	}
	// The standard library finds so short a text in a time linear in the content.
	key := bytes.TrimSpace(longest(lines))
	at := bytes.Index(content, key[:min(len(key), keyBytes)])
	from := max(0, min(at-maxBytes/2, len(content)-maxBytes))
	to := from + maxBytes
	if i := bytes.IndexByte(content[from:to], '\n'); from > 0 && i >= 0 {
		from += i + 1
	}
	if i := bytes.LastIndexByte(content[from:to], '\n'); to < len(content) && i >= 0 {
		to = from + i + 1
	}
	return window{content: content[from:to], before: bytes.Count(content[:from], newline), last: to == len(content)}
}

// longest is the longest of lines.
func longest(lines [][]byte) []byte {
	var most []byte
	for _, line := range lines {
		if len(line) > len(most) {
			most = line
		}
	}
	return most
}

// alike finds what differs only in white space, letter case and typography.
func (w window) alike(ctx context.Context, wanted string) string {
	if len(wanted) > maxBytes {
		return ""
	}
	key := fold([]byte(wanted))
	if len(key) == 0 {
		return ""
	}
	folded := fold(w.content)
	first, others := -1, 0
	for at := range document.Find(ctx, folded, string(key)) {
		if first >= 0 {
			if others++; others == 100 {
				break
			}
			continue
		}
		first = at
	}
	if first < 0 {
		return ""
	}
	start, end := unfold(w.content, first, first+len(key))
	from, to := w.before+document.LineAt(w.content, start), w.before+document.LineAt(w.content, end)
	said := fmt.Sprintf("%s differ%s from it only in %s", lineNumbers(from, to), s(from == to), strings.Join(differences(w.content, start, end, wanted), " and "))
	said += fmt.Sprintf("; line %d is %s", from, quote(lineOf(w.content, start)))
	switch {
	case others == 100:
		said += "; so do 100 other places or more"
	case others == 1:
		said += "; so does 1 other place"
	case others > 1:
		said += fmt.Sprintf("; so do %d other places", others)
	}
	return said
}

// split gives the lines of what was looked for, as many as are compared, without
// the blank ones at its end.
func split(wanted string) [][]byte {
	if len(wanted) > maxBytes { // a part of a line is not like a line
		wanted = wanted[:strings.LastIndexByte(wanted[:maxBytes], '\n')+1]
	}
	var lines [][]byte
	for line := range strings.SplitSeq(strings.TrimRight(wanted, " \t\r\n"), "\n") {
		if len(lines) == maxLines {
			break
		}
		lines = append(lines, []byte(line))
	}
	return lines
}

func lineNumbers(from, to int) string {
	if from == to {
		return fmt.Sprintf("line %d", from)
	}
	return fmt.Sprintf("lines %d to %d", from, to)
}

func s(one bool) string {
	if one {
		return "s"
	}
	return ""
}

// quote quotes a line so that white space can be told apart.
func quote(line []byte) string {
	cut := text.CutEnd(line, quoteBytes)
	quoted := fmt.Sprintf("%q", text.Valid(line[:cut]))
	if cut < len(line) {
		quoted += fmt.Sprintf(" and %d bytes more", len(line)-cut)
	}
	return quoted
}
