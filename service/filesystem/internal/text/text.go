// Package text tells text from other bytes, decodes it, and cuts it between
// characters. Everything is a function of its arguments.
package text

import (
	"bytes"
	"encoding/binary"
	"slices"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// An Encoding is how the characters of a text are written.
type Encoding string

// The encodings that are told apart. Unknown8Bit is text in which some bytes are
// not UTF-8: Latin-1 and its like.
const (
	UTF8        Encoding = "utf-8"
	UTF16LE     Encoding = "utf-16le"
	UTF16BE     Encoding = "utf-16be"
	Unknown8Bit Encoding = "unknown-8bit"
)

// ProbeBytes is how much of a file's beginning says what the file is.
const ProbeBytes = 8 << 10

// A Nature is what the beginning of a file says of the whole.
type Nature struct {
	Encoding Encoding
	// BOM is the length of the byte order mark in bytes.
	BOM int
	// Binary says that this is no text: there is a zero byte, and no mark of UTF-16.
	Binary bool
}

// Probe looks at the beginning of a file, as much as ProbeBytes of it. A
// character that the end of head cuts is no evidence (case A32).
func Probe(head []byte) Nature {
	switch {
	case bytes.HasPrefix(head, []byte("\xff\xfe\x00\x00")): // UTF-32
		return Nature{Binary: true}
	case bytes.HasPrefix(head, []byte("\xff\xfe")):
		return Nature{Encoding: UTF16LE, BOM: 2}
	case bytes.HasPrefix(head, []byte("\xfe\xff")):
		return Nature{Encoding: UTF16BE, BOM: 2}
	case bytes.IndexByte(head, 0) >= 0:
		return Nature{Binary: true}
	}
	n := Nature{Encoding: UTF8}
	if bytes.HasPrefix(head, []byte("\xef\xbb\xbf")) {
		n.BOM = 3
	}
	if !utf8.Valid(head[:whole(head)]) {
		n.Encoding = Unknown8Bit
	}
	return n
}

// whole is the length of b without a character that is cut at the end.
func whole(b []byte) int {
	for i := len(b) - 1; i >= 0 && i >= len(b)-utf8.UTFMax+1; i-- {
		if utf8.RuneStart(b[i]) {
			if !utf8.FullRune(b[i:]) {
				return i
			}
			break
		}
	}
	return len(b)
}

// FromUTF16 gives the UTF-8 of UTF-16 without its mark. What is no character,
// half a pair or half a unit at the end, becomes U+FFFD.
func FromUTF16(b []byte, encoding Encoding) []byte {
	order := binary.ByteOrder(binary.LittleEndian)
	if encoding == UTF16BE {
		order = binary.BigEndian
	}
	out := make([]byte, 0, len(b)/2+len(b)/8)
	for len(b) >= 2 {
		unit := rune(order.Uint16(b))
		b = b[2:]
		if isHigh(unit) && len(b) >= 2 {
			if low := rune(order.Uint16(b)); isLow(low) {
				b = b[2:]
				unit = (unit-0xd800)<<10 | (low - 0xdc00) + 0x10000
			}
		}
		out = utf8.AppendRune(out, unit) // a lone half is written as U+FFFD
	}
	if len(b) == 1 {
		out = utf8.AppendRune(out, utf8.RuneError)
	}
	return out
}

func isHigh(r rune) bool { return 0xd800 <= r && r < 0xdc00 }
func isLow(r rune) bool  { return 0xdc00 <= r && r < 0xe000 }

// Like writes a text, UTF-8, as the file is written whose content it replaces: with its
// byte order mark, and in its encoding if that is UTF-16. Neither is shown to whoever
// reads the file, so that they cannot give them back.
func Like(old, content []byte) []byte {
	nature := Probe(old[:min(len(old), ProbeBytes)])
	if nature.BOM == 0 {
		return content
	}
	mark := old[:nature.BOM]
	content = bytes.TrimPrefix(content, []byte("\ufeff"))
	if nature.Encoding != UTF16LE && nature.Encoding != UTF16BE {
		return slices.Concat(mark, content)
	}
	var order binary.AppendByteOrder = binary.LittleEndian
	if nature.Encoding == UTF16BE {
		order = binary.BigEndian
	}
	out := slices.Clone(mark)
	for _, unit := range utf16.Encode([]rune(string(content))) {
		out = order.AppendUint16(out, unit)
	}
	return out
}

// Valid gives b as valid UTF-8, with U+FFFD for each byte that is not.
func Valid(b []byte) string {
	if utf8.Valid(b) {
		return string(b)
	}
	var out strings.Builder
	out.Grow(len(b) + len(b)/4)
	for len(b) > 0 {
		r, size := utf8.DecodeRune(b)
		out.WriteRune(r)
		b = b[size:]
	}
	return out.String()
}

// CutEnd is the length of the longest beginning of b that has at most limit bytes
// and does not end within a character.
func CutEnd(b []byte, limit int) int {
	if len(b) <= limit {
		return len(b)
	}
	for back := range min(limit, utf8.UTFMax-1) + 1 {
		if i := limit - back; utf8.RuneStart(b[i]) {
			if _, size := utf8.DecodeRune(b[i:]); i+size <= limit {
				break // a byte of no character, or one that ends before the limit
			}
			return i
		}
	}
	return limit
}

// CutStart is the first position in b, from at on, that is not within a
// character.
func CutStart(b []byte, at int) int {
	for i := at; i < at+utf8.UTFMax; i++ {
		if i == len(b) || utf8.RuneStart(b[i]) {
			return i
		}
	}
	return at
}
