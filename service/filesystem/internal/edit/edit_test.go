package edit

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"unicode/utf16"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/toolhost/toolhost/service"
)

func apply(t *testing.T, content string, rs ...Replacement) string {
	t.Helper()
	was := strings.Clone(content)
	r, err := Apply(t.Context(), []byte(content), rs, true)
	if err != nil {
		t.Fatal(err)
	}
	if content != was {
		t.Error("the old content was changed")
	}
	return string(r.Content)
}

// wide writes a text as UTF-16 with a mark.
func wide(s string) string {
	out := []byte{0xff, 0xfe}
	for _, u := range utf16.Encode([]rune(s)) {
		out = append(out, byte(u), byte(u>>8))
	}
	return string(out)
}

type change struct {
	name, file string
	Replacement
	want string
}

func (c change) run(t *testing.T) {
	t.Run(c.name, func(t *testing.T) {
		if got := apply(t, c.file, c.Replacement); got != c.want {
			t.Errorf("got %q, want %q", got, c.want)
		}
	})
}

// Seen to fail: with the plain text not looked at, and with inserted lines ended by
// "\n".
func TestCaseA08(t *testing.T) {
	for _, c := range []change{
		{"more lines", "one\r\ntwo\r\nthree\r\n", Replacement{Old: "one\ntwo", New: "one\nTWO\nplus"}, "one\r\nTWO\r\nplus\r\nthree\r\n"},
		{"at the end", "one\r\ntwo", Replacement{Old: "two", New: "two\nplus\n"}, "one\r\ntwo\r\nplus\r\n"},
		{"both have pairs", "one\r\ntwo\r\n", Replacement{Old: "one\r\ntwo", New: "1\r\n2\r\n3"}, "1\r\n2\r\n3\r\n"},
		{"pairs for a file without", "one\ntwo\n", Replacement{Old: "one\r\ntwo", New: "1\r\n2\r\n3"}, "1\n2\n3\n"},
		{"pairs for one of two places", "a\r\nb\r\na\nb\n", Replacement{Old: "a\r\nb", New: "c\r\nd"}, "c\r\nd\r\na\nb\n"},
		{"the end of a line", "one\r\ntwo\r\n", Replacement{Old: "\ntwo\n", New: "\n"}, "one\r\n"},
		{"a file of one line", "one", Replacement{Old: "one", New: "1\r\n2\n3"}, "1\r\n2\n3"},
		{"nothing but the ends", "a\r\nb\r\n", Replacement{Old: "a\r\nb\r\n", New: "a\nb\n"}, "a\nb\n"},
		{"UTF-16", wide("one\r\ntwo\r\n"), Replacement{Old: "one\ntwo", New: "one\n2\n3"}, wide("one\r\n2\r\n3\r\n")},
	} {
		c.run(t)
	}
}

// Seen to fail: with all ends of a mixed file made those of its first line, and with
// those of replaced lines not looked at.
func TestCaseA09(t *testing.T) {
	for _, c := range []change{
		{"the last line", "p\r\nq\nr\r\ns", Replacement{Old: "s", New: "S"}, "p\r\nq\nr\r\nS"},
		{"a line more", "p\r\nq\nr\r\ns", Replacement{Old: "s", New: "S\nt"}, "p\r\nq\nr\r\nS\r\nt"},
		{"as those replaced", "p\r\nq\nr\r\ns", Replacement{Old: "p\nq\nr", New: "P\nQ\nR"}, "P\r\nQ\nR\r\ns"},
		{"a line less", "p\r\nq\nr\r\ns", Replacement{Old: "p\nq\nr\n", New: "p\nr\n"}, "p\r\nr\r\ns"},
		{"lines that stay keep theirs", "p\r\nq\nr\r\ns", Replacement{Old: "p\nq\nr\n", New: "p\nx\ny\nr\n"}, "p\r\nx\ny\r\nr\r\ns"},
		{"lone carriage returns", "a\rb\nc\r\n", Replacement{Old: "c", New: "C"}, "a\rb\nC\r\n"},
	} {
		c.run(t)
	}
}

// Seen to fail: with the file copied from behind its mark on.
func TestCaseA11(t *testing.T) {
	for _, c := range []change{
		{"UTF-8", "\xef\xbb\xbfalpha\nb\n", Replacement{Old: "alpha", New: "beta"}, "\xef\xbb\xbfbeta\nb\n"},
		{"the first line", "\xef\xbb\xbfalpha\nb\n", Replacement{Old: "alpha\nb", New: "é"}, "\xef\xbb\xbfé\n"},
		{"all of it", "\xef\xbb\xbfalpha", Replacement{Old: "alpha", New: ""}, "\xef\xbb\xbf"},
		{"UTF-16", wide("alpha é\n"), Replacement{Old: "alpha", New: "β😀"}, wide("β😀 é\n")},
	} {
		c.run(t)
	}
	_, err := Apply(t.Context(), []byte("\xef\xbb\xbfalpha"), []Replacement{{Old: "\ufeffalpha", New: "b"}}, true)
	if want := "leave it out"; err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("got %v, want %q", err, want)
	}
}

// Seen to fail: with the bytes decoded by text.Valid, with half a pair decoded as
// U+FFFD, and with characters let into any file.
func TestCaseA12(t *testing.T) {
	for _, c := range []change{
		{"latin-1", "caf\xe9\nport=1\n", Replacement{Old: "port=1", New: "port=2"}, "caf\xe9\nport=2\n"},
		{"beside the byte", "caf\xe9\n", Replacement{Old: "caf", New: "kaf"}, "kaf\xe9\n"},
		{"half a pair, and half a unit", "\xff\xfea\x00\x00\xd8b\x00\xff", Replacement{Old: "b", New: "c"}, "\xff\xfea\x00\x00\xd8c\x00\xff"},
		{"U+FFFD that stands there", "a\ufffdb\xe9", Replacement{Old: "\ufffdb", New: "c"}, "ac\xe9"},
		{"UTF-8 where there was some", "é\xe9\n", Replacement{Old: "é", New: "è"}, "è\xe9\n"},
	} {
		c.run(t)
	}
	for _, file := range []string{"caf\xe9\n", "\xff\xfec\x00\x00\xd8", "\xef\xbf", "\xff\xfec\x00\xfd"} {
		fails(t, file, service.FileNoMatch, Replacement{Old: "\ufffd", New: "x"})
	}
	fails(t, "caf\xe9\nport\n", service.FileBadQuery, Replacement{Old: "port", New: "pört"})
	fails(t, "a\x00b", service.FileBinary, Replacement{Old: "a", New: "b"})
}

// Seen to fail: with "$&" and "$$" expanded.
func TestCaseA14(t *testing.T) {
	const text = "$& $1 ${1} $$ \\1 $` $' %s %d \\n &"
	change{"once", "KEEP\nT\nKEEP\n", Replacement{Old: "T", New: text}, "KEEP\n" + text + "\nKEEP\n"}.run(t)
	change{"all", "T\nT\n", Replacement{Old: "T", New: text, All: true}, text + "\n" + text + "\n"}.run(t)
	change{"the old text too", "a.c abc", Replacement{Old: "a.c", New: "$0"}, "$0 abc"}.run(t)
}

// Seen to fail: without the check of what the old text holds.
func TestCaseA15(t *testing.T) {
	for _, all := range []bool{false, true} {
		for _, old := range []string{"", " ", "\n", "\t \r\n", "\u00a0"} {
			fails(t, "ab cd\n\t \r\n\u00a0", service.FileBadQuery, Replacement{Old: old, New: "#", All: all})
		}
	}
}

func fails(t *testing.T, file string, kind service.FileErrorKind, rs ...Replacement) string {
	t.Helper()
	r, err := Apply(t.Context(), []byte(file), rs, true)
	var got *service.FileError
	if !errors.As(err, &got) || got.Kind != kind || r.Content != nil {
		t.Errorf("%+v in %q: got %q, %v; want %s", rs, file, r.Content, err, kind)
		return ""
	}
	return got.Detail
}

func TestApplyErrors(t *testing.T) {
	many := make([]Replacement, MaxReplacements+1)
	for _, tt := range []struct {
		name, file string
		rs         []Replacement
		kind       service.FileErrorKind
		want       string
	}{
		{"none", "a", nil, service.FileBadQuery, "give 1 to 100"},
		{"too many", "a", many, service.FileBadQuery, "give 1 to 100"},
		{"the same", "a", []Replacement{{Old: "a", New: "a"}}, service.FileBadQuery, "nothing would change"},
		{"the same in the file", "a\nb\n", []Replacement{{Old: "a\r\nb", New: "a\nb"}}, service.FileBadQuery, "nothing would change"},
		{"no text", "a", []Replacement{{Old: "a\xff", New: "b"}}, service.FileBadQuery, "not valid UTF-8"},
		{"no new text", "a", []Replacement{{Old: "a", New: "b\xff"}}, service.FileBadQuery, "not valid UTF-8"},
		{"too long", "a", []Replacement{{Old: strings.Repeat("a", MaxText+1), New: "b"}}, service.FileTooLarge, "at most 16 MiB"},
		{"too large", "aaaaa", []Replacement{{Old: "a", New: strings.Repeat("b", MaxText), All: true}}, service.FileTooLarge, "64 MiB"},
		{"too often", strings.Repeat("a", MaxPlaces+1), []Replacement{{Old: "a", New: "b", All: true}}, service.FileTooLarge, "places"},
		{"ambiguous", "a\nb\na\n", []Replacement{{Old: "a", New: "b"}}, service.FileAmbiguous, "2 places, at lines 1 and 3; give more"},
		{"ambiguous often", strings.Repeat("a\n", 90), []Replacement{{Old: "a", New: "b"}}, service.FileAmbiguous, "90 places, at lines 1, 2, 3, 4, 5 and others"},
		{"overlapping", "xaaax", []Replacement{{Old: "aa", New: "b"}}, service.FileAmbiguous, "2 places, at lines 1 and 1"},
		{"ambiguous but for line ends", "a\nb\r\na\r\nb", []Replacement{{Old: "a\nb", New: "c"}}, service.FileAmbiguous, "2 places, at lines 1 and 3"},
		{"not there", "alpha beta\n", []Replacement{{Old: "gamma", New: "b"}}, service.FileNoMatch, "nor does anything like it"},
		{"white space", "x\n\tif a  {\n", []Replacement{{Old: "if a {", New: "b"}}, service.FileNoMatch, `line 2 differs from it only in white space; line 2 is "\tif a  {"`},
		{"half the end of a line", "a\r\nb", []Replacement{{Old: "a\r", New: "b"}}, service.FileNoMatch, "not stand"},
		{"the second", "a b", []Replacement{{Old: "a", New: "c"}, {Old: "a", New: "d"}}, service.FileNoMatch, "replacement 2 of 2: the old text does not stand"},
		{"a blank second", "a b", []Replacement{{Old: "a", New: "c"}, {}}, service.FileBadQuery, "replacement 2 of 2: the old text is blank"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := fails(t, tt.file, tt.kind, tt.rs...); !strings.Contains(got, tt.want) {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

// Who may not read the file learns from an error only its kind. Seen to fail: with
// what is near told to all.
func TestNotRevealed(t *testing.T) {
	for _, tt := range []struct{ file, old, want string }{
		{"secret\nother\n", "Secret", "the old text does not stand in the file"},
		{"\xef\xbb\xbfsecret\n", "\ufeffsecret", "the old text does not stand in the file"},
		{"secret\nsecret\n", "secret", "the old text stands in the file more than once; give more of what stands around it"},
	} {
		_, err := Apply(t.Context(), []byte(tt.file), []Replacement{{Old: tt.old, New: "x"}}, false)
		if err == nil || err.Error() != tt.want {
			t.Errorf("%q: got %v, want %q", tt.old, err, tt.want)
		}
	}
}

func TestApplyResult(t *testing.T) {
	for _, tt := range []struct {
		name, file string
		rs         []Replacement
		want       Result
	}{
		{
			"one", "a\nb\nc\n", []Replacement{{Old: "b", New: "B"}},
			Result{Content: []byte("a\nB\nc\n"), Replaced: 1, Spans: []Span{{2, 2}}},
		},
		{
			"one after the other", "a\nb\nc\n",
			[]Replacement{{Old: "c", New: "b2"}, {Old: "a\n", New: "1\n2\n3\n"}, {Old: "b2", New: "x\ny"}},
			Result{Content: []byte("1\n2\n3\nb\nx\ny\n"), Replaced: 3, Spans: []Span{{1, 3}, {5, 6}}},
		},
		{
			"all", "a a\nb\na\n", []Replacement{{Old: "a", New: "x\ny", All: true}},
			Result{Content: []byte("x\ny x\ny\nb\nx\ny\n"), Replaced: 3, Spans: []Span{{1, 2}, {2, 3}, {5, 6}}},
		},
		{
			"taken out", "a\nb\nc\n", []Replacement{{Old: "b\n", New: ""}},
			Result{Content: []byte("a\nc\n"), Replaced: 1, Spans: []Span{{2, 2}}},
		},
		{
			"those that overlap", "aaaaa", []Replacement{{Old: "aa", New: "b", All: true}},
			Result{Content: []byte("bba"), Replaced: 2, Spans: []Span{{1, 1}}},
		},
		{
			"in what was put in", "a\nb\n", []Replacement{{Old: "b", New: "1\n2\n3"}, {Old: "2", New: "x\ny"}},
			Result{Content: []byte("a\n1\nx\ny\n3\n"), Replaced: 2, Spans: []Span{{2, 5}, {3, 4}}},
		},
		{
			"twice in what was put in, and after it", "a\nb\nc\n",
			[]Replacement{{Old: "c", New: "C"}, {Old: "b", New: "1 2 1"}, {Old: "1", New: "x\ny\nz", All: true}},
			Result{
				Content: []byte("a\nx\ny\nz 2 x\ny\nz\nC\n"), Replaced: 4,
				Spans: []Span{{2, 4}, {2, 6}, {4, 6}, {7, 7}},
			},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := Apply(t.Context(), []byte(tt.file), tt.rs, true)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// A valid text is only found where characters begin and end: an old text that is
// one byte of a character is none.
func TestMatchesWholeCharacters(t *testing.T) {
	for _, r := range "é日😀" {
		for i := range len(string(r)) {
			fails(t, "x"+string(r), service.FileBadQuery, Replacement{Old: string(r)[i : i+1], New: "y"})
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		file := rapid.StringMatching(`[aéèĩ日本😀\n]{0,40}`).Draw(t, "file")
		old := rapid.StringMatching(`[aéèĩ日本😀]{1,2}`).Draw(t, "old")
		r, err := Apply(t.Context(), []byte(file), []Replacement{{Old: old, New: "\u00ff", All: true}}, true)
		if want := strings.ReplaceAll(file, old, "\u00ff"); err == nil && string(r.Content) != want || err != nil && strings.Contains(file, old) {
			t.Fatalf("got %q, %v, want %q", r.Content, err, want)
		}
	})
}

// For a text that stands in one place, all bytes before and after it are as they
// were, and its new text is there with some ends of lines. Seen to fail: with all
// ends of a changed file made the same.
func TestBytesOutside(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		part := func(name string) string {
			parts := []string{"a", "b", " ", "\n", "\r\n", "\r", "é", "\ufffd", "😀", "\xe9", "\xff", "\n\n"}
			return strings.Join(rapid.SliceOfN(rapid.SampledFrom(parts), 0, 15).Draw(t, name), "")
		}
		before, after := rapid.SampledFrom([]string{"", "\xef\xbb\xbf"}).Draw(t, "mark")+part("before"), part("after")
		old := "<" + rapid.StringMatching(`(x|y|\r?\n|é){0,8}`).Draw(t, "old") + ">"
		put := rapid.StringMatching(`[z ]?(x|y|\r?\n|w){0,8}`).Draw(t, "new")
		asked := old
		if rapid.Bool().Draw(t, "plain") {
			asked = strings.ReplaceAll(old, "\r\n", "\n")
		}
		if rapid.Bool().Draw(t, "UTF-16") {
			marked := strings.ToValidUTF8(before, "\xef\xbf\xbd")
			before, after = wide(strings.TrimPrefix(marked, "\ufeff")), wide(strings.ToValidUTF8(after, ""))[2:]+rapid.SampledFrom([]string{"", "x", "\x00\xd8"}).Draw(t, "tail")
			old = wide(old)[2:]
		}
		r, err := Apply(t.Context(), []byte(before+old+after), []Replacement{{Old: asked, New: put}}, true)
		if err != nil {
			t.Fatalf("%q in %q: %v", asked, before+old+after, err)
		}
		got := string(r.Content)
		if !strings.HasPrefix(got, before) || !strings.HasSuffix(got, after) {
			t.Fatalf("got %q, which does not begin with %q and end with %q", got, before, after)
		}
		inner := got[len(before) : len(got)-len(after)]
		inner = strings.NewReplacer("\r", "", "\x00", "").Replace(inner)
		if want := strings.ReplaceAll(put, "\r", ""); inner != want {
			t.Fatalf("got %q in the place of %q, want %q", inner, old, want)
		}
	})
}

// A large file and long texts, made to be searched and compared slowly.
// In quadratic time, this would take hours.
func TestApplyHostile(t *testing.T) {
	content := bytes.Repeat([]byte("a"), 16<<20)
	long := strings.Repeat("a", 1<<20)
	for _, tt := range []struct {
		old  string
		all  bool
		kind service.FileErrorKind
	}{
		{long, false, service.FileAmbiguous},
		{long + "b", false, service.FileNoMatch},
		{long + "\nb", true, service.FileNoMatch},
		{long, true, ""},
	} {
		r, err := Apply(t.Context(), content, []Replacement{{Old: tt.old, New: "b", All: tt.all}}, true)
		var got *service.FileError
		if tt.kind == "" {
			if want := strings.Repeat("b", 16); err != nil || string(r.Content) != want {
				t.Errorf("got %.100q, %v", r.Content, err)
			}
		} else if !errors.As(err, &got) || got.Kind != tt.kind {
			t.Errorf("got %v, want %s", err, tt.kind)
		}
	}
}

// The cause of the end of a context is given as it is, also where it looks like an error
// of a replacement.
//
// Seen to fail: with the cause counted like an error of a replacement.
func TestApplyEnded(t *testing.T) {
	why := &service.FileError{Kind: service.FileStaleHandle, Detail: "why"}
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(why)
	r, err := Apply(ctx, []byte("a b"), []Replacement{{Old: "a", New: "c"}, {Old: "d", New: "e"}}, true)
	if err != error(why) || r.Content != nil {
		t.Errorf("got %+v, %v", r, err)
	}
}

func FuzzApply(f *testing.F) {
	f.Add([]byte("a\r\nb\n"), "a\nb", "c\nd", true)
	f.Add([]byte("\xff\xfea\x00\n\x00\x00\xd8x"), "a\n", "é", false)
	f.Add([]byte("\xef\xbb\xbfcaf\xe9"), "caf", "x\r\ny", false)
	f.Fuzz(func(t *testing.T, content []byte, old, put string, all bool) {
		was := bytes.Clone(content)
		r, err := Apply(t.Context(), content, []Replacement{{Old: old, New: put, All: all}}, true)
		if !bytes.Equal(was, content) {
			t.Fatal("the old content was changed")
		}
		if err != nil {
			if got := (*service.FileError)(nil); !errors.As(err, &got) || r.Content != nil || len(got.Detail) > 4<<10 {
				t.Fatalf("%+v, %v", r, err)
			}
			return
		}
		if r.Replaced == 0 || bytes.Equal(r.Content, content) || !all && r.Replaced != 1 || len(r.Spans) == 0 {
			t.Fatalf("%+v", r)
		}
		if !slices.IsSortedFunc(r.Spans, func(a, b Span) int { return a.First - b.First }) || r.Spans[0].First < 1 {
			t.Fatalf("%+v", r.Spans)
		}
		// The same, in any encoding.
		if bytes.ContainsAny(content, "\r\x00") || !bytes.Equal(bytes.ToValidUTF8(content, nil), content) ||
			strings.Contains(old+put, "\r") || bytes.HasPrefix(content, []byte("\ufeff")) {
			return
		}
		want := strings.Replace(string(content), old, put, r.Replaced)
		if string(r.Content) != want {
			t.Fatalf("got %q, want %q", r.Content, want)
		}
		if w, err := Apply(t.Context(), []byte(wide(string(content))), []Replacement{{Old: old, New: put, All: all}}, true); err != nil || string(w.Content) != wide(want) {
			t.Fatalf("as UTF-16: got %q, %v; want %q", w.Content, err, wide(want))
		}
	})
}
