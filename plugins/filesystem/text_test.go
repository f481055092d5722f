package filesystem

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/toolhost/toolhost/plugin/sdk"
	"github.com/toolhost/toolhost/service"
)

// texts are the blocks that a model reads.
func texts(t *testing.T, content []sdk.Content) []string {
	t.Helper()
	var out []string
	for _, c := range content {
		if c.Type != sdk.Text("").Type {
			t.Fatalf("a block of %s", c.Type)
		}
		out = append(out, c.Text)
	}
	return out
}

func checkTexts(t *testing.T, content []sdk.Content, want ...string) {
	t.Helper()
	if diff := cmp.Diff(want, texts(t, content)); diff != "" {
		t.Error(diff)
	}
}

// notesAreThoseOf reports whether notes are those of the text, without their brackets.
func notesAreThoseOf(notes, texts []string) bool {
	last := ""
	if len(texts) > 0 {
		last = texts[len(texts)-1]
	}
	if !strings.HasPrefix(last, "[") {
		return len(notes) == 0
	}
	return "["+strings.Join(notes, "]\n[")+"]" == last
}

// What a host shows of a result without cutting it (law 17), and what no text of
// this package may be over.
const (
	hostBytes = 50 << 10
	hostLines = 2000
)

func checkBounded(t *testing.T, content []sdk.Content) {
	t.Helper()
	var bytes, lines int
	for _, text := range texts(t, content) {
		bytes += len(text) + 1
		lines += strings.Count(text, "\n") + 1
	}
	if bytes > hostBytes || lines > hostLines {
		t.Errorf("%d bytes and %d lines: at most %d and %d", bytes, lines, hostBytes, hostLines)
	}
}

func TestBoundsAreThoseOfTheService(t *testing.T) {
	for name, pair := range map[string][2]int{
		"lines of a page": {maxPage, service.PageLines},
		"depth":           {maxDepth, service.MaxDepth},
		"matches":         {maxMatches, service.MaxEntries},
		"context":         {maxContext, service.MaxContext},
		"pattern":         {maxPattern, service.MaxPattern},
	} {
		if pair[0] != pair[1] {
			t.Errorf("%s: at most %d, and the service takes %d", name, pair[0], pair[1])
		}
	}
	if textBytes > service.PageBytes || textLines > service.PageLines {
		t.Error("a page of the service is smaller than a text")
	}
}

func TestQuoted(t *testing.T) {
	for path, want := range map[string]string{
		"a.go":                     `a.go`,
		"dir with space/é ü.txt":   `dir with space/é ü.txt`,
		"ein\u0301es":              "ein\u0301es", // as decomposed as it is
		"日本/語.md":                  `日本/語.md`,
		`back\slash`:               `back\slash`,
		`say "hi"`:                 `say "hi"`,
		`"all"`:                    `"\"all\""`,
		"":                         `""`,
		" lead":                    `" lead"`,
		"trail ":                   `"trail "`,
		"two  spaces":              `"two  spaces"`,
		"a -> b":                   `"a -> b"`,
		"a:1: b":                   `"a:1: b"`,
		"line\nbreak":              `"line\nbreak"`,
		"cr\rtab\t":                `"cr\rtab\t"`,
		"bell\aesc\x1b[31m":        `"bell\u0007esc\u001b[31m"`,
		"back\\slash\n":            `"back\\slash\n"`,
		"shot 9.41\u202fAM.png":    `"shot 9.41\u202fAM.png"`,
		"right\u202eleft":          `"right\u202eleft"`,
		"family \U000e0001 of tag": `"family \udb40\udc01 of tag"`,
	} {
		got := quoted(path)
		if got != want {
			t.Errorf("quoted(%q) = %s, want %s", path, got, want)
		}
		if strings.HasPrefix(got, `"`) {
			var back string
			if err := json.Unmarshal([]byte(got), &back); err != nil || back != path {
				t.Errorf("%s is %q as JSON (%v), want %q", got, back, err, path)
			}
		}
	}
}

// Whatever the path: it is one line of valid UTF-8, and if the path is UTF-8 it
// can be read back.
func FuzzQuoted(f *testing.F) {
	for _, seed := range []string{"a", "a\nb", "\u2028", "\"", "\\", "\U0010ffff", "\x7f", "caf\xe9", "\xff\n"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, path string) {
		got := quoted(path)
		if !utf8.ValidString(got) {
			t.Errorf("%q is not valid UTF-8", got)
		}
		// Byte by byte, as the encoder of JSON does it.
		path = string([]rune(path))
		back := got
		if strings.HasPrefix(got, `"`) {
			if err := json.Unmarshal([]byte(got), &back); err != nil {
				t.Fatalf("%q: %v", got, err)
			}
		}
		if back != path {
			t.Errorf("%q was written as %q, which reads %q", path, got, back)
		}
		if strings.ContainsFunc(got, func(r rune) bool { return r < ' ' || r == '\u2028' || r == '\u2029' || r == 0x7f || r == 0x85 }) {
			t.Errorf("%q has a character that breaks a line", got)
		}
		if s := short(path); len(s) > nameBytes+len("…") || strings.ToValidUTF8(s, "") != s {
			t.Errorf("short(%q) = %q", path, s)
		}
	})
}

func TestSheetIsBounded(t *testing.T) {
	var s sheet
	lines := 0
	for s.add("") {
		lines++
	}
	if lines != textLines {
		t.Errorf("%d lines, want %d", lines, textLines)
	}
	s = sheet{}
	if !s.add(strings.Repeat("x", textBytes-1)) || s.add("") {
		t.Error("the bound in bytes does not hold")
	}
	s = sheet{}
	if s.add("a", strings.Repeat("x", textBytes)) || s.text.Len() != 0 {
		t.Error("lines that do not fit were written in part")
	}
}

func TestSkippedNote(t *testing.T) {
	for _, tt := range []struct {
		in   skipped
		want string
	}{
		{skipped{}, ""},
		{skipped{Ignored: 1}, "left out: 1 hidden by ignore rules"},
		{skipped{Links: 1}, "left out: 1 symbolic link"},
		{
			skipped{1, 2, 3, 4, 5, 6, 7},
			"left out: 1 hidden by ignore rules, 2 hidden by a leading dot, 3 symbolic links, 4 binary, 7 too large, " +
				"5 not allowed by the permission rules, 6 unreadable",
		},
	} {
		if got := tt.in.note(); got != tt.want {
			t.Errorf("%+v: got %q, want %q", tt.in, got, tt.want)
		}
	}
}

func TestCheckRange(t *testing.T) {
	for _, tt := range []struct {
		n    integer
		want string
	}{
		{0, ""}, {1, ""}, {20, ""},
		{21, "context is 21: give 1 to 20, or leave it out"},
		{-1, "context is -1: give 1 to 20, or leave it out"},
	} {
		got := ""
		if err := checkRange("context", tt.n, 20); err != nil {
			got = err.Error()
		}
		if got != tt.want {
			t.Errorf("%d: got %q, want %q", tt.n, got, tt.want)
		}
	}
}

func TestCheckPattern(t *testing.T) {
	for pattern, want := range map[string]string{
		"x":                                "",
		strings.Repeat("x", 4096):          "",
		"":                                 "include is empty: say what to look for",
		strings.Repeat("x", 4097):          "include has 4097 bytes: at most 4096",
		strings.Repeat("\U0001f600", 1025): "include has 4100 bytes: at most 4096",
	} {
		got := ""
		if err := checkPattern("include", pattern); err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("%.10q: got %q, want %q", pattern, got, want)
		}
	}
}

func TestInteger(t *testing.T) {
	for in, want := range map[string]integer{
		"5": 5, "5.0": 5, "5e0": 5, "50e-1": 5, "-20": -20, "0": 0, "-0": 0,
		"9007199254740993":     9007199254740993,
		"9223372036854775807":  9223372036854775807,
		"9223372036854775808":  9223372036854775807,
		"-9223372036854775808": -9223372036854775807,
		"-1e300":               -9223372036854775807,
	} {
		var got integer
		if err := json.Unmarshal([]byte(in), &got); err != nil || got != want {
			t.Errorf("%s: got %d, %v; want %d", in, got, err, want)
		}
	}
	for _, in := range []string{"5.5", "1e-1", `"5"`, "true"} {
		var got integer
		if err := json.Unmarshal([]byte(in), &got); err == nil {
			t.Errorf("%s was taken for %d", in, got)
		}
	}
}

// A wildcard in a name is saved as what it is.
func TestLaw34SavedNameIsNoWildcard(t *testing.T) {
	if diff := cmp.Diff([]string{`a\*b\?/c\\`, "d"}, themselves([]string{`a*b?/c\`, "d"})); diff != "" {
		t.Error(diff)
	}
}

func numbered(n int, format string) []string {
	out := make([]string, n)
	for i := range out {
		out[i] = fmt.Sprintf(format, i)
	}
	return out
}
