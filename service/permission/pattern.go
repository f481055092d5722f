package permission

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"
)

// MaxPattern is the most bytes that a pattern may have.
const MaxPattern = 4096

// A Pattern is the text of a rule's action or resource. The language has two
// wildcards and nothing else:
//
//	`*`  any characters, also none; slashes and line breaks are characters too
//	`?`  exactly one character (of a resource that is not UTF-8: one byte)
//
// Everything else stands for itself, case included: there is no set and no
// brace, and `**` is the same as `*`. A backslash takes the meaning from a `*`, a
// `?` or a backslash behind it; in front of anything else it stands for itself.
// The whole text has to match. So "*.env" matches "a/b/.env"; "secret/*" matches
// all that is below secret, not secret itself; and `a\*` matches a name that ends
// in a star. [Escape] makes the pattern that matches one text only.
//
// Matching takes time in proportion to the length of the text, for a given
// pattern, whatever they are. The zero value matches the empty text only.
type Pattern struct {
	text string
	// prefix and suffix are what stands before the first and after the last
	// wildcard; most texts are told apart by them alone. Without a wildcard prefix is
	// the whole.
	prefix, suffix string
	// wild is what is between them, with the bytes star and one for the wildcards;
	// empty when there is none.
	wild string
}

// The wildcards of a parsed pattern are bytes that UTF-8 does not have.
const (
	star = "\xff"
	one  = '\xfe'
)

// Escape is the text of the pattern that matches exactly the given text.
func Escape(text string) string {
	if !strings.ContainsAny(text, `*?\`) {
		return text
	}
	var b strings.Builder
	for i := range len(text) {
		c := text[i]
		if c == '*' || c == '?' || c == '\\' {
			b.WriteByte('\\')
		}
		b.WriteByte(c)
	}
	return b.String()
}

// compiled is the text of a pattern with its escapes taken away and its
// wildcards replaced.
func compiled(text string) string {
	if !strings.ContainsAny(text, `*?\`) {
		return text
	}
	b := make([]byte, 0, len(text))
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case c == '*':
			b = append(b, star...)
		case c == '?':
			b = append(b, one)
		case c == '\\' && i+1 < len(text) && strings.IndexByte(`*?\`, text[i+1]) >= 0:
			i++
			b = append(b, text[i])
		default:
			b = append(b, c)
		}
	}
	return string(b)
}

// ParsePattern makes a pattern of text. It reports a text that is empty, over
// [MaxPattern] bytes, or not UTF-8.
func ParsePattern(text string) (Pattern, error) {
	switch {
	case text == "":
		return Pattern{}, errors.New(`pattern is empty; "*" matches everything`)
	case len(text) > MaxPattern:
		return Pattern{}, fmt.Errorf("pattern has %d bytes; at most %d", len(text), MaxPattern)
	case !utf8.ValidString(text):
		return Pattern{}, fmt.Errorf("pattern %q is not UTF-8", text)
	}
	code := compiled(text)
	first, last := -1, -1
	for i := range len(code) {
		if code[i] == star[0] || code[i] == one {
			last = i
			if first < 0 {
				first = i
			}
		}
	}
	if first < 0 {
		return Pattern{text: text, prefix: code}, nil
	}
	return Pattern{text: text, prefix: code[:first], suffix: code[last+1:], wild: code[first : last+1]}, nil
}

// String is the text of the pattern.
func (p *Pattern) String() string { return p.text }

// Match reports whether the whole of text matches. It allocates nothing.
func (p *Pattern) Match(text string) bool {
	if p.wild == "" {
		return text == p.prefix
	}
	if len(text) < len(p.prefix)+len(p.suffix) || !strings.HasSuffix(text, p.suffix) || !strings.HasPrefix(text, p.prefix) {
		return false
	}
	return p.wild == star || matchWild(p.wild, text[len(p.prefix):len(text)-len(p.suffix)])
}

// matchWild matches what stands between stars one after the other, each as far
// to the left as it can: what a star takes is then the least that fits, and more
// would only leave less to the rest, so nothing is ever tried again.
func matchWild(pattern, text string) bool {
	part, rest, more := strings.Cut(pattern, star)
	end := matchHere(part, text)
	if end < 0 || !more {
		return end == len(text)
	}
	for {
		text = text[end:]
		part, rest, more = strings.Cut(rest, star)
		if !more {
			break
		}
		if end = find(part, text); end < 0 {
			return false
		}
	}
	start := len(text)
	for range utf8.RuneCountInString(part) {
		if start == 0 {
			return false
		}
		_, size := utf8.DecodeLastRuneInString(text[:start])
		start -= size
	}
	return matchHere(part, text[start:]) == len(text)-start
}

// find returns where the leftmost match of part, which has no star, ends in
// text, or -1.
func find(part, text string) int {
	if strings.IndexByte(part, one) < 0 {
		i := strings.Index(text, part)
		if i < 0 {
			return -1
		}
		return i + len(part)
	}
	for start := 0; start < len(text); start += characterLen(text[start:]) {
		if end := matchHere(part, text[start:]); end >= 0 {
			return start + end
		}
	}
	return -1
}

// matchHere returns where a match of part, which has no star, ends when it
// begins at the start of text, or -1.
func matchHere(part, text string) int {
	t := 0
	for p := range len(part) {
		switch {
		case t == len(text):
			return -1
		case part[p] == one:
			t += characterLen(text[t:])
		case part[p] != text[t]:
			return -1
		default:
			t++
		}
	}
	return t
}

func characterLen(text string) int {
	_, size := utf8.DecodeRuneInString(text)
	return size
}

// matchesBelow reports whether there is a text longer than prefix, beginning
// with it, that matches.
func (p *Pattern) matchesBelow(prefix string) bool {
	const anything, character = -1, -2
	var pattern []rune
	for text := p.prefix + p.wild + p.suffix; text != ""; {
		r, size := utf8.DecodeRuneInString(text)
		switch text[0] {
		case star[0]:
			r = anything
		case one:
			r = character
		}
		pattern, text = append(pattern, r), text[size:]
	}
	reached := make([]bool, len(pattern)+1) // reached[i]: pattern[:i] matches what was read
	reached[0] = true
	throughStars := func(reached []bool) {
		for i, r := range pattern {
			if r == anything && reached[i] {
				reached[i+1] = true
			}
		}
	}
	for _, read := range prefix {
		throughStars(reached)
		next := make([]bool, len(pattern)+1)
		for i, r := range pattern {
			switch {
			case !reached[i]:
			case r == anything:
				next[i] = true
			case r == character || r == read:
				next[i+1] = true
			}
		}
		reached = next
	}
	for i := range pattern {
		if reached[i] {
			return true
		}
	}
	return false
}
