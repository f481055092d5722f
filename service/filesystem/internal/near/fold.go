package near

import (
	"bytes"
	"unicode"
	"unicode/utf8"
)

// fold gives a text without white space, letter case and typography.
func fold(content []byte) []byte {
	out := make([]byte, 0, len(content))
	for i := 0; i < len(content); {
		var size int
		out, size = appendFolded(out, content[i:])
		i += size
	}
	return out
}

// appendFolded appends what the first character of b becomes, which may be
// nothing, and gives the character's length.
func appendFolded(out, b []byte) ([]byte, int) {
	if c := b[0]; c < utf8.RuneSelf {
		switch {
		case 'A' <= c && c <= 'Z':
			c += 'a' - 'A'
		case c == ' ', '\t' <= c && c <= '\r':
			return out, 1
		}
		return append(out, c), 1
	}
	r, size := utf8.DecodeRune(b)
	switch {
	case r == utf8.RuneError && size == 1:
		return append(out, b[0]), 1
	case blank(r):
		return out, size
	}
	return utf8.AppendRune(out, foldRune(r)), size
}

func foldRune(r rune) rune { return unicode.ToLower(untypeset(r)) }

// blank says that a character shows as nothing.
func blank(r rune) bool {
	return unicode.IsSpace(r) || '\u200b' <= r && r <= '\u200d' || r == '\u2060' || r == '\ufeff'
}

// untypeset gives what a keyboard has in place of a typographic character.
func untypeset(r rune) rune {
	switch r {
	case '\u2018', '\u2019', '\u201a', '\u201b', '\u2032', '\u00b4':
		return '\''
	case '\u201c', '\u201d', '\u201e', '\u201f', '\u2033', '\u00ab', '\u00bb':
		return '"'
	case '\u2010', '\u2011', '\u2012', '\u2013', '\u2014', '\u2015', '\u2212':
		return '-'
	}
	return r
}

// unfold gives the place in a text of a part of what it folds to, which is not
// empty: from the first character of the part to the end of the last.
func unfold(content []byte, from, to int) (start, end int) {
	var buf [utf8.UTFMax]byte
	start = -1
	for i, n := 0, 0; i < len(content); {
		folded, size := appendFolded(buf[:0], content[i:])
		n += len(folded)
		if start < 0 && n > from {
			start = i
		}
		i += size
		if n >= to {
			return start, i
		}
	}
	return max(start, 0), len(content)
}

// differences names in what a part of a text differs from a text that folds to
// the same.
func differences(content []byte, start, end int, wanted string) []string {
	d := map[string]bool{}
	want := []byte(wanted)
	lead, rest := cutBlank(want)
	before := content[:start]
	if !bytes.HasSuffix(before, lead) {
		here := before[len(before)-trailing(before):]
		if !bytes.Contains(lead, newline) {
			here = here[bytes.LastIndexByte(here, '\n')+1:]
		}
		compareBlank(d, here, lead)
	}
	got := content[start:end]
	for len(got) > 0 && len(rest) > 0 {
		var gotBlank, wantBlank []byte
		gotBlank, got = cutBlank(got)
		wantBlank, rest = cutBlank(rest)
		compareBlank(d, gotBlank, wantBlank)
		if len(got) == 0 || len(rest) == 0 {
			break
		}
		a, n := utf8.DecodeRune(got)
		b, m := utf8.DecodeRune(rest)
		switch {
		case bytes.Equal(got[:n], rest[:m]):
		case unicode.ToLower(a) == unicode.ToLower(b):
			d["letter case"] = true
		default:
			d["quotes or other typographic characters"] = true
		}
		got, rest = got[n:], rest[m:]
	}
	if !bytes.HasPrefix(content[end:], rest) {
		d["the white space or line end after it"] = true
	}
	var names []string
	for _, name := range []string{
		"tabs against spaces", "indentation", "line breaks", "trailing white space", "white space", "letter case",
		"quotes or other typographic characters", "the white space or line end after it",
	} {
		if d[name] {
			names = append(names, name)
		}
	}
	if names == nil {
		names = []string{"white space"}
	}
	return names
}

var newline = []byte("\n")

// compareBlank notes how two runs of white space differ.
func compareBlank(d map[string]bool, got, want []byte) {
	if bytes.Equal(got, want) {
		return
	}
	if bytes.Count(got, newline) != bytes.Count(want, newline) {
		d["line breaks"] = true
		return
	}
	gotTail, gotIndent := cutLast(got)
	wantTail, wantIndent := cutLast(want)
	if !bytes.Equal(gotTail, wantTail) {
		d["trailing white space"] = true
	}
	if bytes.Equal(gotIndent, wantIndent) {
		return
	}
	switch tabs := bytes.IndexByte(gotIndent, '\t') >= 0; {
	case tabs != (bytes.IndexByte(wantIndent, '\t') >= 0) && len(gotIndent) > 0 && len(wantIndent) > 0:
		d["tabs against spaces"] = true
	case len(gotTail)+len(wantTail) > 0:
		d["indentation"] = true
	default:
		d["white space"] = true
	}
}

// cutLast cuts white space after its last line feed.
func cutLast(b []byte) (tail, indent []byte) {
	i := bytes.LastIndexByte(b, '\n') + 1
	return b[:i], b[i:]
}

// cutBlank cuts the white space off the beginning.
func cutBlank(b []byte) (white, rest []byte) {
	for i := 0; i < len(b); {
		r, size := utf8.DecodeRune(b[i:])
		if !blank(r) {
			return b[:i], b[i:]
		}
		i += size
	}
	return b, nil
}

// trailing is the length of the white space at the end.
func trailing(b []byte) int {
	n := 0
	for n < len(b) {
		r, size := utf8.DecodeLastRune(b[:len(b)-n])
		if !blank(r) {
			break
		}
		n += size
	}
	return n
}
