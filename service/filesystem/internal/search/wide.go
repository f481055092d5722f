package search

import "unicode/utf8"

// widen makes UTF-8 of a text in which some bytes are none: those become the
// characters that they are in Latin-1, so that a pattern with such characters finds
// them in both forms.
func widen(content []byte) []byte {
	wide := make([]byte, 0, len(content)+len(content)/8)
	for len(content) > 0 {
		r, size := utf8.DecodeRune(content)
		if r == utf8.RuneError && size == 1 {
			r = rune(content[0])
		}
		wide = utf8.AppendRune(wide, r)
		content = content[size:]
	}
	return wide
}

// An original is a text before it was widened, or the text that is searched itself.
type original struct {
	content []byte
	widened bool
	// A place in the widened text, and where that is in the original one. It only goes
	// on.
	wide, at int
}

// line is a line of the widened text as it is in the original.
func (o *original) line(l line) line {
	if !o.widened {
		return l
	}
	start := o.place(l.start)
	match := o.place(l.start + l.match)
	return line{start: start, match: match - start, end: o.place(l.end)}
}

// place is where a place of the widened text is; it is not before the last one.
func (o *original) place(wide int) int {
	for o.wide < wide {
		r, size := utf8.DecodeRune(o.content[o.at:])
		o.at += size
		if r == utf8.RuneError && size == 1 {
			size = 2
		}
		o.wide += size
	}
	return o.at
}
