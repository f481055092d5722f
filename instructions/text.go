package instructions

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/toolhost/toolhost/service"
)

// bounded is the text of a file's first page without control characters, cut to
// the bound. Every cut has a mark. It is empty when there is nothing to read.
func bounded(page service.Page) string {
	text := visible(markCutLines(page))
	if strings.TrimSpace(text) == "" {
		return ""
	}
	mark := fmt.Sprintf("\n[cut here: the file has %d bytes]\n", page.Size)
	if page.More {
		text = strings.TrimSuffix(text, "\n")
		return cutAt(text, FileBytes-len(mark)) + mark
	}
	if len(text) > FileBytes {
		return cutAt(text, FileBytes-len(mark)) + mark
	}
	return text
}

// sequence is an escape sequence of a terminal, to the end of its line where it has
// no end. It begins with ESC or with the control character that stands for ESC and
// another.
var sequence = regexp.MustCompile(`(?:\x1b\[|\x{9b})[\x30-\x3f]*[\x20-\x2f]*[\x40-\x7e]?` +
	`|(?:\x1b[\]PX^_]|[\x{90}\x{98}\x{9d}-\x{9f}])[^\x07\x18\x1a\x1b\x{9c}\n]*(?:[\x07\x18\x1a\x{9c}]|\x1b\\)?` +
	`|\x1b[\x20-\x2f]*[\x30-\x7e]?`)

// visible is a text as a person would see all of it: it goes to a model, and to a
// terminal. A lone carriage return, behind which a line would be overwritten, ends
// it; tabs stay.
func visible(text string) string {
	isHidden := func(r rune) bool { return unicode.IsControl(r) && r != '\n' && r != '\t' }
	if !strings.ContainsFunc(text, isHidden) {
		return text
	}
	text = strings.ReplaceAll(strings.ReplaceAll(text, "\r\n", "\n"), "\r", "\n")
	return strings.Map(func(r rune) rune {
		if isHidden(r) {
			return -1
		}
		return r
	}, sequence.ReplaceAllString(text, ""))
}

// markCutLines puts a mark behind each line that is too long for a page.
func markCutLines(page service.Page) string {
	if len(page.CutLines) == 0 {
		return page.Text
	}
	var text strings.Builder
	number := page.First
	for line := range strings.Lines(page.Text) {
		if slices.Contains(page.CutLines, number) {
			body := strings.TrimRight(line, "\r\n")
			line = body + " [line cut here]" + line[len(body):]
		}
		text.WriteString(line)
		number++
	}
	return text.String()
}

// cutAt cuts a text to at most n bytes, at the border of a character.
func cutAt(text string, n int) string {
	if len(text) <= n {
		return text
	}
	for n > 0 && !utf8.RuneStart(text[n]) {
		n--
	}
	return text[:n]
}
