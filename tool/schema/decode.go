package schema

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// What one JSON value may be. Each is far above what a tool exchanges with a
// model and far below what would hurt the host.
const (
	// MaxValueBytes is the most bytes of a JSON text.
	MaxValueBytes = 16 << 20
	// MaxValueDepth is how deep arrays and objects may stand in each other.
	MaxValueDepth = 512
	// MaxValues is how many values a JSON text may hold: scalars, arrays and objects.
	MaxValues = 500_000
	// MaxNumberBytes is the most characters of one number.
	MaxNumberBytes = 1000
	// MaxExponent is the highest exponent of a number, and its negative the lowest.
	MaxExponent = 1000
)

// Decode reads one JSON text and nothing after it, so strictly that every reader
// of it must see the same value (law 11): no duplicate keys, no invalid UTF-8, no
// lone surrogates, and nothing beyond the limits above.
//
// The value is made of map[string]any, []any, string, [json.Number], bool and
// nil. Numbers keep every digit. It shares no memory with raw. An error is an
// [*InvalidValue].
func Decode(raw []byte) (any, error) {
	if len(raw) > MaxValueBytes {
		return nil, invalid("", "has %d bytes: at most %d", len(raw), MaxValueBytes)
	}
	// One copy, from which keys, strings and numbers are cut.
	d := decoder{text: string(raw)}
	v, problem := d.value()
	if problem == nil {
		d.space()
		if d.pos < len(d.text) {
			problem = d.errorf("has %s after its end", d.found())
		}
	}
	if problem != nil {
		return nil, &InvalidValue{Problems: []Problem{problem.bounded()}}
	}
	return v, nil
}

// A decoder reads text from pos on. Its methods expect no white space at pos
// unless they say so, and return a problem whose path is relative to the value
// they read; whoever holds the value prepends to it.
type decoder struct {
	text   string
	pos    int
	depth  int // of arrays and objects around pos
	values int // begun so far
}

// value reads a value and the white space before it.
func (d *decoder) value() (any, *Problem) {
	d.space()
	if d.values++; d.values > MaxValues {
		return nil, &Problem{Message: fmt.Sprintf("is part of more than %d values", MaxValues)}
	}
	if d.pos == len(d.text) {
		return nil, d.errorf("expected a value, got %s", d.found())
	}
	switch c := d.text[d.pos]; c {
	case '{':
		return d.nested(d.object)
	case '[':
		return d.nested(d.array)
	case '"':
		s, problem := d.str()
		if problem != nil {
			return nil, problem
		}
		return s, nil
	case 't':
		return d.literal("true", true)
	case 'f':
		return d.literal("false", false)
	case 'n':
		return d.literal("null", nil)
	default:
		if c == '-' || isDigit(c) {
			return d.number()
		}
		return nil, d.errorf("expected a value, got %s", d.found())
	}
}

func (d *decoder) nested(read func() (any, *Problem)) (any, *Problem) {
	if d.depth++; d.depth > MaxValueDepth {
		return nil, &Problem{Message: fmt.Sprintf("is nested deeper than %d levels", MaxValueDepth)}
	}
	d.pos++ // the bracket
	v, problem := read()
	d.depth--
	return v, problem
}

func (d *decoder) object() (any, *Problem) {
	object := make(map[string]any)
	if d.space(); d.accept('}') {
		return object, nil
	}
	for {
		d.space()
		if d.pos == len(d.text) || d.text[d.pos] != '"' {
			return nil, d.errorf("expected a key, got %s", d.found())
		}
		key, problem := d.str()
		if problem != nil {
			return nil, problem
		}
		if _, twice := object[key]; twice {
			return nil, &Problem{Path: pointer(key), Message: "is there twice"}
		}
		if d.space(); !d.accept(':') {
			return nil, d.errorf("expected \":\" after a key, got %s", d.found())
		}
		v, problem := d.value()
		if problem != nil {
			return nil, problem.in(key)
		}
		object[key] = v
		if d.space(); d.accept('}') {
			return object, nil
		}
		if !d.accept(',') {
			return nil, d.errorf("expected \",\" or \"}\" in an object, got %s", d.found())
		}
	}
}

func (d *decoder) array() (any, *Problem) {
	array := []any{}
	if d.space(); d.accept(']') {
		return array, nil
	}
	for {
		v, problem := d.value()
		if problem != nil {
			return nil, problem.in(strconv.Itoa(len(array)))
		}
		array = append(array, v)
		if d.space(); d.accept(']') {
			return array, nil
		}
		if !d.accept(',') {
			return nil, d.errorf("expected \",\" or \"]\" in an array, got %s", d.found())
		}
	}
}

func (d *decoder) literal(word string, v any) (any, *Problem) {
	if !strings.HasPrefix(d.text[d.pos:], word) {
		return nil, d.errorf("expected a value, got %s", d.found())
	}
	d.pos += len(word)
	return v, nil
}

// number reads a number of RFC 8259's grammar, within the limits.
func (d *decoder) number() (any, *Problem) {
	start := d.pos
	d.accept('-')
	if !d.accept('0') && d.digits() == 0 {
		return nil, d.errorf("expected a digit, got %s", d.found())
	}
	if d.accept('.') && d.digits() == 0 {
		return nil, d.errorf("expected a digit after \".\", got %s", d.found())
	}
	exponent := 0
	if d.accept('e') || d.accept('E') {
		if !d.accept('+') {
			d.accept('-')
		}
		from := d.pos
		if d.digits() == 0 {
			return nil, d.errorf("expected a digit in an exponent, got %s", d.found())
		}
		var err error
		if exponent, err = strconv.Atoi(d.text[from:d.pos]); err != nil {
			exponent = MaxExponent + 1
		}
	}
	if d.pos-start > MaxNumberBytes {
		return nil, &Problem{Message: fmt.Sprintf("is a number of %d characters: at most %d", d.pos-start, MaxNumberBytes)}
	}
	if exponent > MaxExponent {
		return nil, &Problem{Message: fmt.Sprintf("is a number whose exponent is beyond %d", MaxExponent)}
	}
	return json.Number(d.text[start:d.pos]), nil
}

func (d *decoder) digits() (n int) {
	for d.pos < len(d.text) && isDigit(d.text[d.pos]) {
		d.pos++
		n++
	}
	return n
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

// str reads a string. Without escapes, it is a part of the text.
func (d *decoder) str() (string, *Problem) {
	d.pos++ // the quote
	start := d.pos
	ascii := true
	for {
		d.pos = skipPlain(d.text, d.pos)
		if d.pos == len(d.text) {
			return "", d.errorf("has a string without an end")
		}
		switch c := d.text[d.pos]; {
		case c == '"':
			s := d.text[start:d.pos]
			if !ascii && !utf8.ValidString(s) {
				return "", d.errorf("has a string that is not valid UTF-8")
			}
			d.pos++
			return s, nil
		case c == '\\':
			return d.escaped(start)
		case c < ' ':
			return "", d.errorf("has %s in a string: escape it", d.found())
		default:
			ascii = false
			d.pos++
		}
	}
}

// skipPlain is the index of the first byte from i on that is not printable
// ASCII, or is a quote or a backslash. It looks at eight bytes at a time, since
// this loop is what reading a long string costs.
func skipPlain(s string, i int) int {
	const ones, highs = 0x0101010101010101, 0x8080808080808080
	for ; i+8 <= len(s); i += 8 {
		w := uint64(s[i]) | uint64(s[i+1])<<8 | uint64(s[i+2])<<16 | uint64(s[i+3])<<24 |
			uint64(s[i+4])<<32 | uint64(s[i+5])<<40 | uint64(s[i+6])<<48 | uint64(s[i+7])<<56
		quote, backslash := w^ones*'"', w^ones*'\\'
		// The high bit of a byte ends up set where the byte is below ' ', zero in
		// quote or backslash, or not ASCII. A borrow may mark a byte too many, never
		// one too few; the loop below looks again.
		if (w|(w-ones*' ')|(quote-ones)|(backslash-ones))&highs != 0 {
			break
		}
	}
	for i < len(s) && s[i] >= ' ' && s[i] < utf8.RuneSelf && s[i] != '"' && s[i] != '\\' {
		i++
	}
	return i
}

// escaped goes on with the string that began at start, at its first backslash.
func (d *decoder) escaped(start int) (string, *Problem) {
	var b strings.Builder
	for {
		b.WriteString(d.text[start:d.pos])
		switch {
		case d.pos == len(d.text):
			return "", d.errorf("has a string without an end")
		case d.text[d.pos] == '"':
			d.pos++
			if !utf8.ValidString(b.String()) {
				return "", d.errorf("has a string that is not valid UTF-8")
			}
			return b.String(), nil
		case d.text[d.pos] == '\\':
			r, problem := d.escape()
			if problem != nil {
				return "", problem
			}
			b.WriteRune(r)
			start = d.pos
		case d.text[d.pos] < ' ':
			return "", d.errorf("has %s in a string: escape it", d.found())
		default:
			start = d.pos
			d.pos++
		}
		d.pos = skipPlain(d.text, d.pos)
	}
}

// escape reads a backslash and what belongs to it.
func (d *decoder) escape() (rune, *Problem) {
	if d.pos+1 == len(d.text) {
		return 0, d.errorf("has a string without an end")
	}
	c := d.text[d.pos+1]
	if c == 'u' {
		return d.unicodeEscape()
	}
	const escapes, meanings = `"\/bfnrt`, "\"\\/\b\f\n\r\t"
	i := strings.IndexByte(escapes, c)
	if i < 0 {
		d.pos++
		return 0, d.errorf("has an unknown escape in a string: \"\\\" before %s", d.found())
	}
	d.pos += 2
	return rune(meanings[i]), nil
}

// unicodeEscape reads \uXXXX, and the second half of a surrogate pair.
func (d *decoder) unicodeEscape() (rune, *Problem) {
	high, ok := d.hex4()
	if !ok {
		return 0, d.errorf("has an unfinished \\u escape in a string")
	}
	if !utf16.IsSurrogate(high) {
		return high, nil
	}
	if low, ok := d.hex4(); ok {
		if r := utf16.DecodeRune(high, low); r != utf8.RuneError {
			return r, nil
		}
	}
	return 0, d.errorf("has half a surrogate pair in a string, \\u%04x", high)
}

// hex4 reads \uXXXX, or reads nothing and is not ok.
func (d *decoder) hex4() (rune, bool) {
	if len(d.text)-d.pos < 6 || d.text[d.pos:d.pos+2] != `\u` {
		return 0, false
	}
	n, err := strconv.ParseUint(d.text[d.pos+2:d.pos+6], 16, 16)
	if err != nil {
		return 0, false
	}
	d.pos += 6
	return rune(n), true
}

func (d *decoder) space() {
	for d.pos < len(d.text) {
		switch d.text[d.pos] {
		case ' ', '\t', '\n', '\r':
			d.pos++
		default:
			return
		}
	}
}

func (d *decoder) accept(c byte) bool {
	if d.pos < len(d.text) && d.text[d.pos] == c {
		d.pos++
		return true
	}
	return false
}

// found names what stands at pos.
func (d *decoder) found() string {
	if d.pos >= len(d.text) {
		return "the end of the text"
	}
	r, _ := utf8.DecodeRuneInString(d.text[d.pos:])
	return strconv.QuoteRune(r)
}

// errorf is a problem at pos.
func (d *decoder) errorf(format string, args ...any) *Problem {
	return &Problem{Message: fmt.Sprintf(format, args...) + fmt.Sprintf(" (at byte %d)", d.pos)}
}
