package filesystem

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/toolhost/toolhost/plugin/sdk"
)

func TestProjectRead(t *testing.T) {
	for _, tt := range []struct {
		name string
		page sdk.Page
		want []string
	}{
		{"a whole file", sdk.Page{Text: "a\nb\n", First: 1, Lines: 2, TotalLines: 2, Size: 4, Encoding: "utf-8"}, []string{"a\nb\n"}},
		{"without a last line end", sdk.Page{Text: "a\nb", First: 1, Lines: 2, TotalLines: 2, Size: 3, Encoding: "utf-8"}, []string{"a\nb"}},
		{"an empty file", sdk.Page{Encoding: "utf-8"}, []string{"[the file is empty]"}},
		{"nothing but a mark", sdk.Page{Encoding: "utf-8", BOM: true, Size: 3}, []string{"[the file has no text]"}},
		{
			"the first page", sdk.Page{Text: "a\nb\n", First: 1, Lines: 2, TotalLines: 9, More: true, Size: 18, Encoding: "utf-8"},
			[]string{"a\nb\n", "[lines 1-2 of 9; next page: offset=3]"},
		},
		{
			"a page within", sdk.Page{Text: "x\r\n", First: 5, Lines: 1, TotalLines: 9, More: true, Size: 18, Encoding: "utf-8"},
			[]string{"x\r\n", "[line 5 of 9; next page: offset=6]"},
		},
		{
			"the last page", sdk.Page{Text: "x\ny", First: 8, Lines: 2, TotalLines: 9, Size: 18, Encoding: "utf-8"},
			[]string{"x\ny", "[lines 8-9 of 9; this is the end of the file]"},
		},
		{
			"of a huge file", sdk.Page{Text: "x\n", First: 8, Lines: 1, TotalLines: -1, More: true, Size: 1 << 40, Encoding: "utf-8"},
			[]string{"x\n", "[line 8, more follow; next page: offset=9]"},
		},
		{
			"the end of a huge file", sdk.Page{Text: "x\ny\n", First: -1, Lines: 2, TotalLines: -1, CutLines: []int{2}, Size: 1 << 40, Encoding: "utf-8"},
			[]string{
				"x\ny\n", "[2 lines, not numbered since the file is large; this is the end of the file]\n" +
					"[line 2 of these is cut at 2000 bytes: grep with this path shows the text around a match]",
			},
		},
		{
			"near the end of a huge file", sdk.Page{Text: "x\n", First: -1, Lines: 1, TotalLines: -1, More: true, Size: 1 << 40, Encoding: "utf-8"},
			[]string{"x\n", "[1 line, not numbered since the file is large, more follow; next page: offset=-49]"},
		},
		{
			"of a file without a size", sdk.Page{Text: "x\n", First: 1, Lines: 1, TotalLines: -1, More: true, Size: -1, Encoding: "utf-8"},
			[]string{"x\n", "[line 1, more follow; next page: offset=2]"},
		},
		{
			"more lines than fit", sdk.Page{Text: strings.Repeat("\n", 2000), First: 1, Lines: 2000, TotalLines: 2000, Size: 2000, Encoding: "utf-8"},
			[]string{strings.Repeat("\n", 1990), "[lines 1-1990 of 2000; next page: offset=1991]"},
		},
		{
			"a long line", sdk.Page{Text: "x\ny\n", First: 1, Lines: 2, TotalLines: 2, CutLines: []int{2}, Size: 9000, Encoding: "utf-8"},
			[]string{"x\ny\n", "[line 2 is cut at 2000 bytes: grep with this path shows the text around a match]"},
		},
		{
			"many long lines", sdk.Page{
				Text: strings.Repeat("x\n", 7), First: 1, Lines: 7, TotalLines: 8, More: true,
				CutLines: []int{1, 2, 3, 4, 5, 6, 7}, Size: 90000, Encoding: "utf-8",
			},
			[]string{
				strings.Repeat("x\n", 7),
				"[lines 1-7 of 8; next page: offset=8]\n" +
					"[lines 1, 2, 3, 4, 5 and 2 more are cut at 2000 bytes: grep with this path shows the text around a match]",
			},
		},
		{
			"UTF-16", sdk.Page{Text: "hi", First: 1, Lines: 1, TotalLines: 1, Size: 6, Encoding: "utf-16le", BOM: true},
			[]string{"hi", "[decoded from utf-16le]"},
		},
		{
			"Latin-1", sdk.Page{Text: "caf\ufffd", First: 1, Lines: 1, TotalLines: 1, Size: 4, Encoding: "unknown-8bit"},
			[]string{"caf\ufffd", "[not valid UTF-8: bytes that are no characters are shown as \ufffd]"},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, content := projectRead(readInput{}, readPage("a", tt.page, -50))
			checkTexts(t, content, tt.want...)
		})
	}
}

// A page that leaves no room for its notes ends earlier, and the next one begins
// there. Broken by hand: with the page as it came.
func TestReadLeavesRoomForItsNotes(t *testing.T) {
	line := strings.Repeat("x", 1999) + "\n"
	page := sdk.Page{
		Text: strings.Repeat(line, 25) + "end\n", First: 101, Lines: 26, TotalLines: 126,
		CutLines: []int{101, 102, 103, 124, 125}, Size: 1 << 20, Encoding: "unknown-8bit",
	}
	got, content := projectRead(readInput{}, readPage("a", page, 101))
	checkBounded(t, content)
	want := readOutput{
		Path: "a", Text: strings.Repeat(line, 24), FirstLine: 101, Lines: 24, TotalLines: 126, NextOffset: 125,
		CutLines: []int{101, 102, 103, 124}, Size: 1 << 20, Encoding: "unknown-8bit",
		Notes: []string{
			"lines 101-124 of 126; next page: offset=125",
			"lines 101, 102, 103, 124 are cut at 2000 bytes: grep with this path shows the text around a match",
			"not valid UTF-8: bytes that are no characters are shown as \ufffd",
		},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	checkTexts(t, content, strings.Repeat(line, 24), ""+
		"[lines 101-124 of 126; next page: offset=125]\n"+
		"[lines 101, 102, 103, 124 are cut at 2000 bytes: grep with this path shows the text around a match]\n"+
		"[not valid UTF-8: bytes that are no characters are shown as \ufffd]")
	if len(page.CutLines) != 5 || page.CutLines[4] != 125 {
		t.Error("the page was changed")
	}
}
