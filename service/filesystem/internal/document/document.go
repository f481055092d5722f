// Package document holds the bytes of a text file beside the text that is changed
// in it, so that a change of the text becomes a change of those bytes and of no
// others: not of a mark, the end of a line, a byte of no character, or half a unit
// at the end. Everything is a function of its arguments. Whatever takes longer than
// some milliseconds looks at its context again and again, and ends with its cause.
//
// A file has three views. The bytes are the file. The text ([Document.Text]) is
// what stands after the mark: the bytes as they are, or of UTF-16 its characters
// as UTF-8. The plain text ([Document.Plain]) is the text with "\n" for each
// "\r\n".
package document

import (
	"context"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/toolhost/toolhost/service"
	"github.com/toolhost/toolhost/service/filesystem/internal/text"
)

// MaxBytes is the size of the largest file that is changed, before and after.
const MaxBytes = 64 << 20

// A Document is a text file. It shares memory with the bytes it was opened with,
// which must not change. It is not safe for concurrent use.
type Document struct {
	raw      []byte
	encoding text.Encoding
	mark     int // the length of the byte order mark
	text     []byte
	plain    []byte // nil until it is asked for
	checked  bool   // valid was found out
	valid    bool   // the text is UTF-8
}

// A Change replaces the bytes of a view from Start up to End.
type Change struct {
	Start, End int
	New        string
}

// Open makes a document of the bytes of a file. A binary file is refused with
// FileBinary, one over MaxBytes with FileTooLarge.
func Open(ctx context.Context, content []byte) (*Document, error) {
	if err := CheckSize(len(content)); err != nil {
		return nil, err
	}
	nature := text.Probe(content[:min(len(content), text.ProbeBytes)])
	if nature.Binary {
		return nil, &service.FileError{
			Kind:   service.FileBinary,
			Detail: fmt.Sprintf("is a binary file of %d bytes, and only text can be changed", len(content)),
		}
	}
	d := &Document{raw: content, encoding: nature.Encoding, mark: nature.BOM, text: content[nature.BOM:]}
	if d.wide() {
		d.text = d.decode(ctx)
	}
	return d, ended(ctx)
}

// CheckSize refuses a size over MaxBytes, with FileTooLarge.
func CheckSize(size int) error {
	if size <= MaxBytes {
		return nil
	}
	return &service.FileError{
		Kind:   service.FileTooLarge,
		Detail: fmt.Sprintf("is over the %d MiB up to which text is changed", MaxBytes>>20),
	}
}

// Encoding is what the beginning of the file says of it.
func (d *Document) Encoding() text.Encoding { return d.encoding }

// Marked says that the file begins with a byte order mark.
func (d *Document) Marked() bool { return d.mark > 0 }

// Text is the text, which must not be changed. Of UTF-16, half a pair of units is
// the three bytes that UTF-8 would need for it, which are no character: valid text
// does not match them, so U+FFFD is found only where it stands. Half a unit at the
// end is not in the text.
func (d *Document) Text() []byte { return d.text }

// Accepts refuses, with FileBadQuery, a text that cannot be put into the file
// without mixing encodings: characters beyond ASCII into a file that is not UTF-8,
// unless what stood there before had such characters in UTF-8. A zero byte, which
// would make the file a binary one, is refused too.
func (d *Document) Accepts(ctx context.Context, before, after string) error {
	if !utf8.ValidString(after) {
		return &service.FileError{Kind: service.FileBadQuery, Detail: "the new text is not valid UTF-8"}
	}
	if d.wide() {
		return nil
	}
	if strings.Contains(after, "\x00") {
		return &service.FileError{Kind: service.FileBadQuery, Detail: "there is a zero byte in the new text, which no text file has"}
	}
	if ascii(after) || !ascii(before) {
		return nil
	}
	if valid, err := d.Valid(ctx); valid || err != nil {
		return err
	}
	return &service.FileError{
		Kind: service.FileBadQuery,
		Detail: "the file is not in UTF-8, so characters beyond ASCII cannot be put into it; " +
			"write the new text in ASCII, or convert the file",
	}
}

// Valid says that the text is UTF-8.
func (d *Document) Valid(ctx context.Context) (bool, error) {
	if d.checked {
		return d.valid, nil
	}
	valid := true
	for piece := range Pieces(ctx, d.text) {
		if valid = utf8.Valid(piece); !valid {
			break
		}
	}
	if err := ended(ctx); err != nil {
		return false, err
	}
	d.checked, d.valid = true, valid
	return valid, nil
}

func ascii(s string) bool {
	for i := range len(s) {
		if s[i] >= utf8.RuneSelf {
			return false
		}
	}
	return true
}

// Splice gives the bytes of the file with changes of its text, which are in order
// and apart, and do not begin or end within a character. All other bytes are as
// they were. It refuses a result over MaxBytes, with FileTooLarge. The result
// shares no memory with the document.
func (d *Document) Splice(ctx context.Context, changes []Change) ([]byte, error) {
	out := make([]byte, 0, min(MaxBytes, len(d.raw)+len(d.raw)/16))
	kept, at := 0, place{raw: d.mark}
	for _, c := range changes {
		at = d.forward(ctx, at, c.Start)
		if err := ended(ctx); err != nil {
			return nil, err
		}
		out = append(out, d.raw[kept:at.raw]...)
		if err := CheckSize(len(out) + len(c.New)); err != nil {
			return nil, err
		}
		out = d.encode(out, c.New)
		at = d.forward(ctx, at, c.End)
		kept = at.raw
	}
	if err := ended(ctx); err != nil {
		return nil, err
	}
	if err := CheckSize(len(out) + len(d.raw) - kept); err != nil {
		return nil, err
	}
	return append(out, d.raw[kept:]...), nil
}

// Only says that the bytes of a file hold no more than this one's byte order mark.
func (d *Document) Only(content []byte) bool {
	return len(content) == d.mark && string(content) == string(d.raw[:d.mark])
}
