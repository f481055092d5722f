package near

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

func TestDescribe(t *testing.T) {
	const code = "package x\n\nfunc a() {\n\tif b  {\n\t\treturn\n\t}\n}\n\nfunc c() {\n\treturn \"d\"\n}\n"
	for _, tt := range []struct{ name, content, wanted, want string }{
		{"tabs against spaces", code, "    if b  {\n        return\n", `lines 4 to 5 differ from it only in tabs against spaces; line 4 is "\tif b  {"`},
		{"indentation", code, "\tif b  {\n\treturn\n", `lines 4 to 5 differ from it only in indentation; line 4 is "\tif b  {"`},
		{"white space", code, "if b {", `line 4 differs from it only in white space; line 4 is "\tif b  {"`},
		{"line breaks", code, "func c() { return \"d\" }", `lines 9 to 11 differ from it only in line breaks; line 9 is "func c() {"`},
		{"blank lines", code, "package x\nfunc a()", "lines 1 to 3 differ from it only in line breaks"},
		{"trailing white space", "a := 1  \nb := 2\n", "a := 1\nb := 2", "lines 1 to 2 differ from it only in trailing white space"},
		{"letter case", code, "Func A()", `line 3 differs from it only in letter case; line 3 is "func a() {"`},
		{"quotes", code, "return “d”", "line 10 differs from it only in quotes or other typographic characters"},
		{"dash", "a – b\n", "a - b", "quotes or other typographic characters"},
		{"no-break space", "a\u00a0b\n", "a b", "only in white space"},
		{"two of them", code, "Return  \"d\"", "only in white space and letter case"},
		{"the last line has no end", "a\nb c", "b c\n", "line 2 differs from it only in the white space or line end after it"},
		{"several", "A b\nA b\nA b\n", "a b", `line 1 is "A b"; so do 2 other places`},
		{"a line differs", code, "func a() {\n\tif other {\n\t\treturn\n\t}\n}\n", `the most similar are lines 3 to 7, where 4 of 5 lines are the same; line 4 is "\tif b  {" where "\tif other {" was looked for`},
		{"beyond the end", code, "func c() {\n\treturn \"d\"\n}\nmore()\n", `the most similar are lines 9 to 11, where 3 of 4 lines are the same; the file ends at line 11 where "more()" was looked for`},
		{"a similar line", "first\nthe port is 8080 here\nlast\n", "the port is 8081 here", `the most similar line is line 2: "the port is 8080 here"`},
		{"bytes of no character", "caf\xe9 au lait  x\n", "au lait x", `line 1 is "caf` + "\ufffd" + ` au lait  x"`},
		{"nothing", code, "quite another thing", ""},
		{"nothing in nothing", "", "quite another thing", ""},
		{"blank", code, "   \n", ""},
		{"a long line", strings.Repeat("x", 5000) + " y\n", strings.Repeat("x", 5000) + "  Y", "xx\" and 4842 bytes more"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := Describe(t.Context(), []byte(tt.content), tt.wanted)
			if !strings.Contains(got, tt.want) || tt.want == "" && got != "" {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

func FuzzDescribe(f *testing.F) {
	f.Add([]byte("a\n\tb c\n"), "a\n  B c\nd")
	f.Add([]byte("\xff‘a’\u200b"), "'a'")
	f.Fuzz(func(t *testing.T, content []byte, wanted string) {
		if got := Describe(t.Context(), content, wanted); len(got) > 4<<10 || !utf8.ValidString(got) {
			t.Errorf("%d bytes: %q", len(got), got)
		}
	})
}

// Of a large content only the part is looked at that speaks for itself, and lines are
// counted from the beginning all the same.
//
// Seen to fail: with the part always taken from the beginning, and with lines counted from
// where the part begins.
func TestDescribeLarge(t *testing.T) {
	const filler = "0123456789\n"
	lines := 3*maxBytes/len(filler) + 1
	head := strings.Repeat(filler, lines)
	for _, tt := range []struct{ name, content, wanted, want string }{
		{"far from the beginning", head + "\tif b  {\n\t\treturn something\n" + head, "if b {\n    return something", fmt.Sprintf("lines %d to %d differ from it only in", lines+1, lines+2)},
		{"a line differs there", head + "one line\nanother line\n" + head, "one lime\nanother line\n", fmt.Sprintf(`the most similar are lines %d to %d, where 1 of 2 lines are the same; line %d is "one line"`, lines+1, lines+2, lines+1)},
		{"at the end", head + "another line\n", "another line\nmore\n", fmt.Sprintf(`the file ends at line %d where "more"`, lines+1)},
		{"at the beginning", "One line\n" + head, "one line", `line 1 differs from it only in letter case`},
		{"a text that is too long", strings.Repeat("x", 5*maxBytes), strings.Repeat("x", 2*maxBytes) + "b", "nothing like it stands in line 1, "},
		{"nowhere", head, "quite another thing", fmt.Sprintf("nothing like it stands in lines 1 to %d, and the rest of so large a file was not compared", maxBytes/len(filler))},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := Describe(t.Context(), []byte(tt.content), tt.wanted); !strings.Contains(got, tt.want) {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

// Large texts that are made to be compared slowly. In quadratic time, this
// would take hours.
func TestDescribeHostile(t *testing.T) {
	for _, tt := range []struct{ name, line, wanted string }{
		{"one line", "a", strings.Repeat("a", 1<<20) + "b"},
		{"a long text", "a", strings.Repeat("a", 3<<20) + "b"},
		{"blank lines", "\n", strings.Repeat("\n", 1<<20) + "b"},
		{"the same lines", "}\n", strings.Repeat("}\n", 1<<20) + "b"},
		{"similar lines", "abcabcabcabd\n", "abcabcabcabe"},
		{"letters that are not folded fast", "\u1e9e\u0410", strings.Repeat("\u1e9e\u0410", 1<<19) + "b"},
		{"a long text of them", "\u1e9e\u0410", strings.Repeat("\u1e9e\u0410", 1<<20) + "b"},
		{"lines of them", "\u1e9e\u0410\n", strings.Repeat("\u1e9e\u0410\n", 1<<19) + "b"},
	} {
		content := bytes.Repeat([]byte(tt.line), 4*maxBytes/len(tt.line))
		start := time.Now()
		said := Describe(t.Context(), content, tt.wanted)
		t.Log(tt.name, time.Since(start), said)
	}
}
