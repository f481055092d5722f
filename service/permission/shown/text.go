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
)

// Text is all that a person must see of the request, and what "always" would save, a
// line each. What a plugin wrote stands under a label that says so; nothing of it can
// move the cursor, begin a line, or look like what it is not.
func (p *Request) Text() string {
	var text strings.Builder
	line := func(name string, values ...string) {
		for _, value := range values {
			fmt.Fprintf(&text, "  %-8s %s\n", name, value)
			name = ""
		}
	}
	line("tool", Exact(p.Tool))
	line("project", Exact(p.Root))
	line("agent", Exact(p.Agent)+", session "+Exact(p.Session))
	line("action", Exact(p.Action))
	line("on", Exactly(p.Resources)...)
	if len(p.Input) > 0 {
		input := words(compact(p.Input))
		if p.InputCut {
			input += " (cut)"
		}
		line("input", input)
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
	line("always", Exactly(p.Save)...)
	return text.String()
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
	if text == "" || strings.TrimSpace(text) != text || strings.Contains(text, "  ") || strings.HasPrefix(text, `"`) ||
		strings.ContainsFunc(text, func(r rune) bool { return r == unicode.ReplacementChar || !unicode.IsPrint(r) }) {
		return strconv.Quote(text)
	}
	return text
}

// words is text on one line, without control characters.
func words(text string) string {
	return strings.Join(strings.Fields(strings.Map(func(r rune) rune {
		if r != '\n' && r != '\t' && (unicode.IsControl(r) || unicode.Is(unicode.Cf, r)) {
			return unicode.ReplacementChar
		}
		return r
	}, text)), " ")
}
