package shown

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf16"

	"github.com/toolhost/toolhost/internal/unseen"
	"github.com/toolhost/toolhost/service"
	"github.com/toolhost/toolhost/service/permission"
)

// Columns is the width for who shows a request where the width is not known.
const Columns = 80

// Text is all that a person must see of the request, and what "always" would save, a
// line each, which is wrapped to a width in columns, unless that is 0; changes are
// wrapped all the same. What a plugin wrote stands under a label that says so; nothing of
// it can move the cursor, begin a line, or look like what it is not.
func (p *Request) Text(width int) string {
	var text strings.Builder
	line := func(name string, values ...string) {
		for _, value := range values {
			if width > 0 { // no line begins where a label does, or one of the changes
				value = strings.Join(wrap(value, width-indent), "\n"+strings.Repeat(" ", indent))
			}
			fmt.Fprintf(&text, "  %-8s %s\n", name, value)
			name = ""
		}
	}
	line("tool", Exact(p.Tool))
	line("project", Exact(p.Root))
	line("agent", Exact(p.Agent))
	line("session", Exact(p.Session))
	line("action", Exact(p.Action))
	line("on", Exactly(p.Resources)...)
	if p.Directory != "" {
		line("in", place(p.Directory))
	}
	line("judged", p.parts()...)
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
		for _, shown := range Changes(p.Diff, cmp.Or(width, Columns)-indent) {
			fmt.Fprintf(&text, "%*s%s\n", indent, "", shown)
		}
	}
	for _, key := range slices.Sorted(maps.Keys(p.Metadata)) {
		if key == service.MetadataDirectory && p.Directory != "" {
			continue // it is what is judged, and shown above
		}
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
		switch {
		case pattern == "*":
			pattern += "  (that is whatever it is asked about)"
		case p.savesLine(p.Save[i]):
			pattern += "  (that is exactly this command line, in " + place(p.Directory) + ")"
		}
		line([]string{"always", ""}[min(i, 1)], pattern)
	}
	return text.String()
}

// place is a directory for a person.
func place(directory string) string {
	if directory == "." {
		return "the project's root"
	}
	return Exact(directory)
}

// parts are what the parts of command lines were judged to be, a line each. The answer
// stands first, where no text can be taken for it; and two spaces, which nothing exact
// has in it, stand before its ground. They are nothing for a line that is one part, of
// which the reason says as much.
func (p *Request) parts() []string {
	if len(p.Judged) == 1 && p.Unlisted == 0 && len(p.Resources) == 1 {
		return nil
	}
	var lines []string
	for _, j := range p.Judged {
		text, why := Exact(j.Text), words(j.Why)
		switch {
		case j.Text == "":
			text = "the line as a whole"
		case j.Kind == string(permission.PartWrite):
			text, why = "> "+text, words(j.Action)+": "+why
		}
		if j.Cut {
			why += "; cut, since it is too long"
		}
		lines = append(lines, fmt.Sprintf("%-5s  %s  (%s)", words(j.Effect), text, why))
	}
	if p.Unlisted > 0 {
		lines = append(lines, fmt.Sprintf("and %d more, for which there is no room", p.Unlisted))
	}
	return lines
}

// savesLine reports whether the pattern is that of one of the command lines themselves.
func (p *Request) savesLine(pattern string) bool {
	return p.Directory != "" && slices.ContainsFunc(p.Resources, func(line string) bool {
		return permission.SavePattern(line, p.Directory) == pattern
	})
}

// Changes are the lines of a diff as the host makes it, each within so many columns. In
// them whatever could not be seen is escaped, and a tab is an arrow. Of a line that is
// in a file, its mark and a space come first; what goes on from the line before begins
// with an arrow. So the first column says what a line is, and nothing in a file
// can look like a line of the diff, or like the name of another file.
func Changes(diff string, columns int) []string {
	var lines []string
	inside := false // what follows is the lines of files
	for line := range strings.Lines(diff) {
		line = visible(strings.ReplaceAll(strings.TrimSuffix(line, "\n"), "\t", "→   "))
		switch mark := line[:min(1, len(line))]; {
		case strings.HasPrefix(line, "@@ "):
			inside = true
		case !inside:
		case mark == " " || mark == "+" || mark == "-":
			line = mark + " " + line[1:]
		case mark != `\` && mark != "[":
			inside = false // another file, before which there is an empty line
		}
		lines = append(lines, wrap(line, columns)...)
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
	case text == "" || strings.TrimSpace(text) != text || strings.Contains(text, "  ") || strings.HasPrefix(text, `"`) ||
		strings.ContainsFunc(text, func(r rune) bool { return r == unicode.ReplacementChar || unseen.Is(r) }):
		return unseen.Quote(text)
	default:
		return text
	}
}

// visible is text on one line in which whatever could not be seen is escaped, as JSON
// does it.
func visible(text string) string {
	var out strings.Builder
	for _, r := range text {
		if !unseen.Is(r) {
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
		case unicode.In(r, unicode.Mn, unicode.Me) && !unicode.In(r, unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector):
			if marks++; marks > 2 {
				return -1
			}
			return r
		case unseen.Is(r) && !unicode.IsSpace(r):
			r = unicode.ReplacementChar
		}
		marks = 0
		return r
	}, text)), " ")
}

// indent is how many columns stand before what is on a line.
const indent = 11

// narrow is the fewest columns of text. Nobody reads what is narrower.
const narrow = 8

// goesOn stands before what goes on from the line before. It takes no more columns than
// it has bytes.
const goesOn = "↳ "

// wrap breaks a text into lines of so many columns, and marks those after the first.
func wrap(text string, columns int) []string {
	columns = max(columns, narrow)
	var lines []string
	begin, at, mark := 0, 0, ""
	for i, r := range text {
		wide := 1
		if r > unicode.MaxASCII { // it may be
			wide = 2
		}
		if at+wide > columns {
			lines = append(lines, mark+text[begin:i])
			mark = goesOn
			begin, at = i, len(mark)
		}
		at += wide
	}
	return append(lines, mark+text[begin:])
}
