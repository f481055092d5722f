package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/toolhost/toolhost/control"
)

// described is all that a person must see of a request, and what "always" would save,
// a line each. What a plugin wrote stands under a label that says so; nothing of it can
// move the cursor, begin a line, or look like what it is not.
func described(p control.Pending) string {
	var text strings.Builder
	line := func(name string, values ...string) {
		for _, value := range values {
			fmt.Fprintf(&text, "  %-8s %s\n", name, value)
			name = ""
		}
	}
	line("tool", exact(p.Tool))
	line("project", exact(p.Root))
	line("agent", exact(p.Agent)+", session "+exact(p.Session))
	line("action", exact(p.Action))
	line("on", exactly(p.Resources)...)
	if len(p.Input) > 0 {
		input := cell(compact(p.Input))
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
	line("because", cell(p.Why))
	if p.Review != "" {
		line("it says", cell(p.Review))
	}
	for _, key := range slices.Sorted(maps.Keys(p.Metadata)) {
		line("it says", cell(key)+": "+exact(p.Metadata[key]))
	}
	if len(p.Cut) > 0 {
		line("cut", "too long to be shown whole: "+strings.Join(p.Cut, ", "))
	}
	if p.Behind > 0 {
		line("waiting", counted(p.Behind, "identical request")+" more")
	}
	line("always", exactly(p.Save)...)
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

// exactly is exact for each text.
func exactly(texts []string) []string {
	shown := make([]string, len(texts))
	for i, text := range texts {
		shown[i] = exact(text)
	}
	return shown
}

// exact is a text in which nothing is hidden: as it is, or quoted, when it has what
// cannot be seen or could be taken for something else, such as the end of a line.
func exact(text string) string {
	if text == "" || strings.TrimSpace(text) != text || strings.Contains(text, "  ") || strings.HasPrefix(text, `"`) ||
		strings.ContainsFunc(text, func(r rune) bool { return r == unicode.ReplacementChar || !unicode.IsPrint(r) }) {
		return strconv.Quote(text)
	}
	return text
}
