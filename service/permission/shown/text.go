package shown

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf16"
)

// Text is all that a person must see of the request, and what "always" would save, a
// line each, which is wrapped to a width in columns, unless that is 0. What a plugin wrote
// stands under a label that says so; nothing of it can move the cursor, begin a line, or
// look like what it is not.
func (p *Request) Text(width int) string {
	var text strings.Builder
	line := func(name string, values ...string) {
		for _, value := range values {
			fmt.Fprintf(&text, "  %-8s %s\n", name, wrap(value, width-indent))
			name = ""
		}
	}
	line("tool", Exact(p.Tool))
	line("project", Exact(p.Root))
	line("agent", Exact(p.Agent))
	line("session", Exact(p.Session))
	line("action", Exact(p.Action))
	line("on", Exactly(p.Resources)...)
	if len(p.Input) > 0 {
		line("input", visible(compact(p.Input)))
		if p.InputCut {
			line("", "(and more, which is too long to be shown)")
		}
	}
	effects := strings.Join(p.Effects, ",")
	if effects == "" {
		effects = "none"
	}
	if p.Irreversible {
		effects += "; it cannot be undone"
	}
	line("effects", effects)
	line("because", words(p.Why))
	if p.Review != "" {
		line("it says", words(p.Review))
	}
	if p.Diff != "" {
		line("changes", "(worked out by toolhost)")
		line("", Changes(p.Diff)...)
	}
	for _, key := range slices.Sorted(maps.Keys(p.Metadata)) {
		line("it says", words(key)+": "+Exact(p.Metadata[key]))
	}
	if len(p.Cut) > 0 {
		line("cut", "too long to be shown whole: "+strings.Join(p.Cut, ", "))
	}
	if p.Behind == 1 {
		line("waiting", "1 identical request more")
	} else if p.Behind > 1 {
		line("waiting", strconv.Itoa(p.Behind)+" identical requests more")
	}
	for i, pattern := range Exactly(p.Save) {
		if pattern == "*" {
			pattern += "  (that is whatever it is asked about)"
		}
		line([]string{"always", ""}[min(i, 1)], pattern)
	}
	return text.String()
}

// Changes are the lines of a diff, in which whatever could not be seen is escaped, and a
// tab is an arrow.
func Changes(diff string) []string {
	var lines []string
	for line := range strings.Lines(diff) {
		lines = append(lines, visible(strings.ReplaceAll(strings.TrimSuffix(line, "\n"), "\t", "→   ")))
	}
	return lines
}

// compact is JSON without the spaces that mean nothing.
func compact(value json.RawMessage) string {
	var text bytes.Buffer
	if json.Compact(&text, value) != nil {
		return string(value)
	}
	return text.String()
}

// Exactly is Exact for each text.
func Exactly(texts []string) []string {
	shown := make([]string, len(texts))
	for i, text := range texts {
		shown[i] = Exact(text)
	}
	return shown
}

// Exact is a text in which nothing is hidden: as it is, or quoted, when it has what
// cannot be seen or could be taken for something else, such as the end of a line.
func Exact(text string) string {
	switch {
	case strings.ContainsFunc(text, unseen):
		return strconv.QuoteToASCII(text)
	case text == "" || strings.TrimSpace(text) != text || strings.Contains(text, "  ") || strings.HasPrefix(text, `"`) ||
		strings.ContainsFunc(text, func(r rune) bool { return r == unicode.ReplacementChar || !unicode.IsPrint(r) }):
		return strconv.Quote(text)
	default:
		return text
	}
}

// unseen reports letters that are shown as nothing, or on top of others.
func unseen(r rune) bool {
	switch r {
	case '\u115f', '\u1160', '\u3164', '\uffa0', '\u2800':
		return true
	default:
		return unicode.In(r, unicode.Mn, unicode.Me)
	}
}

// visible is text on one line in which whatever could not be seen is escaped, as JSON
// does it.
func visible(text string) string {
	var out strings.Builder
	for _, r := range text {
		if r == ' ' || unicode.IsPrint(r) && !unseen(r) {
			out.WriteRune(r)
			continue
		}
		for _, unit := range utf16.Encode([]rune{r}) {
			fmt.Fprintf(&out, `\u%04x`, unit)
		}
	}
	return out.String()
}

// words is text on one line, without what could not be seen. Of the marks on a letter a
// few are left, which languages need.
func words(text string) string {
	marks := 0
	return strings.Join(strings.Fields(strings.Map(func(r rune) rune {
		switch {
		case unicode.In(r, unicode.Mn, unicode.Me):
			if marks++; marks > 2 {
				return -1
			}
			return r
		case r != '\n' && r != '\t' && (unicode.IsControl(r) || unicode.Is(unicode.Cf, r)) || unseen(r):
			r = unicode.ReplacementChar
		}
		marks = 0
		return r
	}, text)), " ")
}

// indent is how many columns stand before what is on a line.
const indent = 11

// wrap breaks a text into lines of so many columns, if that is enough for any, each but
// the first indented, so that none of them begins where a label does.
func wrap(text string, columns int) string {
	if columns < 20 {
		return text
	}
	var out strings.Builder
	at := 0
	for _, r := range text {
		wide := 1
		if r > unicode.MaxASCII { // it may be
			wide = 2
		}
		if at+wide > columns {
			out.WriteString("\n" + strings.Repeat(" ", indent))
			at = 0
		}
		out.WriteRune(r)
		at += wide
	}
	return out.String()
}
