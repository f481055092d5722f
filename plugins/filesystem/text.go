package filesystem

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/toolhost/toolhost/plugin/sdk"
)

// What the block of text holds at most. The notes, which are a few lines with a
// few names, take less than what is left of 50 KiB and 2,000 lines.
const (
	textBytes = 47 << 10
	textLines = 1990
	nameBytes = 150 // of a name or a pattern within a note
	noteNames = 5   // names in a note
)

// A sheet is a block of lines that is bounded.
type sheet struct {
	text  strings.Builder
	lines int
	odd   int // names that were not valid UTF-8
}

// name is a path as a line shows it.
func (s *sheet) name(path string) string {
	if !utf8.ValidString(path) {
		s.odd++
	}
	return quoted(path)
}

// oddNote says what cannot be done with the names that no JSON can hold.
func (s *sheet) oddNote() string {
	if s.odd == 0 {
		return ""
	}
	return "a name with \ufffd is not valid UTF-8, and cannot be given to a tool"
}

// add writes lines if all of them fit, and reports whether they did.
func (s *sheet) add(lines ...string) bool {
	size := 0
	for _, line := range lines {
		size += len(line) + 1
	}
	if s.text.Len()+size > textBytes || s.lines+len(lines) > textLines {
		return false
	}
	for _, line := range lines {
		s.text.WriteString(line)
		s.text.WriteByte('\n')
	}
	s.lines += len(lines)
	return true
}

// said are the notes that say something. An answer without any has nil.
func said(notes ...string) []string {
	var out []string
	for _, note := range notes {
		if note != "" {
			out = append(out, note)
		}
	}
	return out
}

// blocks are the content of an answer: the text if there is one, and the notes.
func blocks(text string, notes []string) []sdk.Content {
	var content []sdk.Content
	if text != "" {
		content = append(content, sdk.Text(text))
	}
	if len(notes) > 0 {
		content = append(content, sdk.Text("["+strings.Join(notes, "]\n[")+"]"))
	}
	return content
}

// cutNote says what is missing at the end of a list: how many of the items that
// there are the text shows, and whether there are more than those. It is empty
// when nothing is missing.
func cutNote(items string, shown, there int, more bool, advice string) string {
	switch {
	case shown < there && more:
		return fmt.Sprintf("%s shown: %d; left out: more than %d; %s", items, shown, there-shown, advice)
	case shown < there:
		return fmt.Sprintf("%s shown: %d of %d; left out: %d; %s", items, shown, there, there-shown, advice)
	case more:
		return fmt.Sprintf("%s shown: %d; there are more; %s", items, shown, advice)
	default:
		return ""
	}
}

// skipped counts what an answer leaves out, by reason.
type skipped struct {
	Ignored    int `json:"ignored,omitempty" jsonschema:"hidden by ignore files such as .gitignore; for list, directories that were not entered for that"`
	Hidden     int `json:"hidden,omitempty" jsonschema:"names that begin with a dot"`
	Links      int `json:"links,omitempty" jsonschema:"symbolic links, which are not followed"`
	Binary     int `json:"binary,omitempty" jsonschema:"binary files, not searched or not to the end"`
	Denied     int `json:"denied,omitempty" jsonschema:"left out because the permission rules do not allow them"`
	Unreadable int `json:"unreadable,omitempty" jsonschema:"could not be opened, or are special files"`
	TooLarge   int `json:"too_large,omitempty" jsonschema:"too large to be searched"`
}

// note lists the reasons that there are; it is empty when nothing was left out.
func (s skipped) note() string {
	var parts []string
	add := func(n int, what string) {
		if n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, what))
		}
	}
	add(s.Ignored, "hidden by ignore rules")
	add(s.Hidden, "hidden by a leading dot")
	add(s.Links, plural(s.Links, "symbolic link", "symbolic links"))
	add(s.Binary, "binary")
	add(s.TooLarge, "too large")
	add(s.Denied, "not allowed by the permission rules")
	add(s.Unreadable, "unreadable")
	if len(parts) == 0 {
		return ""
	}
	return "left out: " + strings.Join(parts, ", ")
}

// plural chooses between one and many.
func plural(n int, one, many string) string {
	if n == 1 {
		return one
	}
	return many
}

// quoted is a path as a line of text shows it: as it is, or as a JSON string
// where it could be misread or would be lost in copying. That is so for what
// cannot be seen (control characters, spaces other than the common one, what may be
// ignored), at the
// edges for a space and a quote, and for what a line puts after a path. A byte that
// is no UTF-8 is shown as U+FFFD, in quotes too.
func quoted(path string) string {
	plain := path != "" && utf8.ValidString(path) && !strings.HasPrefix(path, `"`) && strings.TrimSpace(path) == path &&
		!strings.Contains(path, "  ") && !strings.Contains(path, " -> ") && !strings.Contains(path, ": ")
	for _, r := range path {
		plain = plain && seen(r)
	}
	if plain {
		return path
	}
	var b strings.Builder
	b.WriteByte('"')
	for _, r := range path {
		switch {
		case r == '"' || r == '\\':
			b.WriteByte('\\')
			b.WriteRune(r)
		case r == '\n':
			b.WriteString(`\n`)
		case r == '\r':
			b.WriteString(`\r`)
		case r == '\t':
			b.WriteString(`\t`)
		case seen(r):
			b.WriteRune(r)
		case r > 0xffff:
			high, low := utf16.EncodeRune(r)
			fmt.Fprintf(&b, `\u%04x\u%04x`, high, low)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
	}
	b.WriteByte('"')
	return b.String()
}

// seen reports a character that is shown, by itself or with the one before it.
func seen(r rune) bool {
	return unicode.IsPrint(r) && !unicode.In(r, unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector)
}

// pattern is a pattern as a note shows it: in quotes, as it was given if that can
// be read.
func pattern(text string) string {
	if q := quoted(text); q != text {
		return short(text)
	}
	return `"` + short(text) + `"`
}

// short is a path as a note shows it: quoted if it must be, and cut.
func short(path string) string {
	name := quoted(path)
	if len(name) <= nameBytes {
		return name
	}
	end := nameBytes
	for !utf8.RuneStart(name[end]) {
		end--
	}
	return name[:end] + "…"
}

// several lists what fits into a note, and counts the rest.
func several(items []string) string {
	if len(items) <= noteNames {
		return strings.Join(items, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(items[:noteNames], ", "), len(items)-noteNames)
}
