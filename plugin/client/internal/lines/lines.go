// Package lines takes apart what a plugin writes. It never fails, whatever that
// is: every result is bounded and fit to be shown.
package lines

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"
)

// Max is the most bytes of one line, before the mark that says that it was cut.
const Max = 16 << 10

const cutMark = " … (cut)"

// Each calls line for every line of r until its end, without the line's end. Of a
// line over [Max] bytes it gives the beginning and leaves out the rest. The bytes
// are good until line returns.
func Each(r io.Reader, line func(text []byte, cut bool)) {
	in := bufio.NewReaderSize(r, Max)
	for {
		text, err := in.ReadSlice('\n')
		cut := errors.Is(err, bufio.ErrBufferFull)
		if len(text) > 0 {
			line(bytes.TrimRight(text, "\r\n"), cut)
		}
		for errors.Is(err, bufio.ErrBufferFull) {
			_, err = in.ReadSlice('\n')
		}
		if err != nil {
			return
		}
	}
}

// A Writer does the same for what is written to it, in pieces of any size. It is
// safe for concurrent use.
type Writer struct {
	line func(text []byte, cut bool)

	mu      sync.Mutex // held while line is called, which keeps the lines in order
	partial []byte     // of the line that has begun, at most Max bytes
	cut     bool       // partial is not all of it
}

// NewWriter makes a writer that calls line for every line.
func NewWriter(line func(text []byte, cut bool)) *Writer { return &Writer{line: line} }

// Write takes the next piece. It always takes all of it.
func (w *Writer) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for rest := p; len(rest) > 0; {
		piece, after, ended := bytes.Cut(rest, []byte("\n"))
		if room := Max - len(w.partial); len(piece) > room {
			piece, w.cut = piece[:room], true
		}
		w.partial = append(w.partial, piece...)
		if !ended {
			break
		}
		w.flush()
		rest = after
	}
	return len(p), nil
}

// Flush gives what was written after the last end of a line.
func (w *Writer) Flush() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.partial) > 0 {
		w.flush()
	}
}

func (w *Writer) flush() {
	w.line(bytes.TrimRight(w.partial, "\r"), w.cut)
	w.partial, w.cut = w.partial[:0], false
}

// Clean makes one line of text of at most [Max] bytes: valid UTF-8 in which
// nothing moves the cursor, hides, or looks like the end of a line.
func Clean[T string | []byte](text T) string { return clean(string(text), Max, false) }

// CleanShort is Clean for what has a place of its own on a screen: at most most
// bytes.
func CleanShort(text string, most int) string { return clean(text, most, false) }

// CleanText is Clean for a text of several lines, at most [Max] bytes in all.
func CleanText(text string) string { return clean(text, Max, true) }

func clean(text string, most int, keepLines bool) string {
	var b strings.Builder
	for i := 0; i < len(text); {
		r, size := utf8.DecodeRuneInString(text[i:])
		i += size
		switch {
		case r == '\n' && keepLines:
		case r == '\t':
			r = ' '
		case !unicode.IsGraphic(r): // RuneError, of an invalid byte, is graphic
			r = utf8.RuneError
		}
		if b.Len()+utf8.RuneLen(r) > most {
			return b.String() + cutMark
		}
		b.WriteRune(r)
	}
	return b.String()
}
