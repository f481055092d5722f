package document

import (
	"context"
	"encoding/binary"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/toolhost/toolhost/service/filesystem/internal/text"
)

// A place is the same place in the bytes and in the text.
type place struct{ raw, text int }

func (d *Document) wide() bool { return d.encoding == text.UTF16LE || d.encoding == text.UTF16BE }

func (d *Document) order() binary.AppendByteOrder {
	if d.encoding == text.UTF16BE {
		return binary.BigEndian
	}
	return binary.LittleEndian
}

// unit gives the character at a place in the bytes, and how many bytes it takes; 0
// at the end, and before half a unit. Half a pair is given as it is.
func (d *Document) unit(raw int) (r rune, size int) {
	b := d.raw[raw:]
	if len(b) < 2 {
		return 0, 0
	}
	big := 0
	if d.encoding == text.UTF16LE {
		big = 1
	}
	r = rune(b[big])<<8 | rune(b[1-big])
	if utf16.IsSurrogate(r) && len(b) >= 4 {
		low := rune(b[2+big])<<8 | rune(b[3-big])
		if pair := utf16.DecodeRune(r, low); pair != utf8.RuneError {
			return pair, 4
		}
	}
	return r, 2
}

// decode gives what there is up to the end of ctx.
func (d *Document) decode(ctx context.Context) []byte {
	out := make([]byte, 0, len(d.raw)/2+len(d.raw)/8)
	looked := 0
	for raw := d.mark; ; {
		r, size := d.unit(raw)
		if size == 0 {
			return out
		}
		if raw-looked >= pieceBytes {
			if looked = raw; ctx.Err() != nil {
				return out
			}
		}
		raw += size
		if utf16.IsSurrogate(r) {
			out = append(out, 0xe0|byte(r>>12), 0x80|byte(r>>6)&0x3f, 0x80|byte(r)&0x3f)
			continue
		}
		out = utf8.AppendRune(out, r)
	}
}

// forward goes on from a place to a later one of the text, or to where it is when
// ctx ends.
func (d *Document) forward(ctx context.Context, at place, to int) place {
	if !d.wide() {
		return place{raw: d.mark + to, text: to}
	}
	looked := at.raw
	for at.text < to {
		if at.raw-looked >= pieceBytes {
			if looked = at.raw; ctx.Err() != nil {
				return at
			}
		}
		r, size := d.unit(at.raw)
		at.raw += size
		if utf16.IsSurrogate(r) {
			at.text += 3
		} else {
			at.text += utf8.RuneLen(r)
		}
	}
	return at
}

// encode appends a text, which is valid UTF-8, as the file writes it.
func (d *Document) encode(out []byte, s string) []byte {
	if !d.wide() {
		return append(out, s...)
	}
	order := d.order()
	for _, r := range s {
		if high, low := utf16.EncodeRune(r); high != utf8.RuneError {
			out = order.AppendUint16(out, uint16(high))
			r = low
		}
		out = order.AppendUint16(out, uint16(r))
	}
	return out
}
