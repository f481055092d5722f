// Package near says where in a text stands what comes nearest to a text that is
// not in it, and how the two differ. It only describes: nothing is ever changed at
// a place that is merely near. Everything is a function of its arguments, and takes
// time linear in them.
package near

import (
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
)

// Describe says what in content comes nearest to wanted, with line numbers and
// quoted lines, in less than 1 KiB; both are plain texts. It gives "" when nothing
// is near.
func Describe(content []byte, wanted string) string {
	if said := alike(content, wanted); said != "" {
		return said
	}
	lines := split(wanted)
	if said := lined(content, lines); said != "" {
		return said
	}
	return similar(content, lines)
}

// alike finds what differs only in white space, letter case and typography.
func alike(content []byte, wanted string) string {
	key := fold([]byte(wanted))
	if len(key) == 0 {
		return ""
	}
	folded := fold(content)
	first, others := -1, 0
	for at := range document.Find(folded, string(key)) {
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
	start, end := unfold(content, first, first+len(key))
	from, to := document.LineAt(content, start), document.LineAt(content, end)
	said := fmt.Sprintf("%s differ%s from it only in %s", lineNumbers(from, to), s(from == to), strings.Join(differences(content, start, end, wanted), " and "))
	said += fmt.Sprintf("; line %d is %s", from, quote(lineOf(content, start)))
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
