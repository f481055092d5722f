package instructions

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/toolhost/toolhost/service"
)

// bounded is the text of a file's first page, cut to the bound. Every cut has a
// mark. It is empty when there is nothing to read.
func bounded(page service.Page) string {
	text := markCutLines(page)
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
