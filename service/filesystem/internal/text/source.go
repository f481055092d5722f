package text

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/toolhost/toolhost/service"
)

// A source is the text of a file, from its mark to its end. It is UTF-8, or any
// encoding in which a line feed is one byte.
type source struct {
	file     io.ReaderAt
	from, to int64
}

// A place is the beginning of a line.
type place struct {
	at   int64
	line int // from 1, or unknown
}

// unknown is the number of a line before which there is too much to be counted.
const unknown = -1

const chunkBytes = 256 << 10

func (s source) decoded(encoding Encoding) (source, error) {
	if s.to > DecodeBytes {
		return s, &service.FileError{
			Kind:   service.FileBadQuery,
			Detail: fmt.Sprintf("is %s and over the %d MiB that are decoded; convert it to UTF-8", encoding, DecodeBytes>>20),
		}
	}
	raw := make([]byte, s.to-s.from)
	n, err := s.file.ReadAt(raw, s.from)
	if err != nil && !errors.Is(err, io.EOF) {
		return s, err
	}
	decoded := FromUTF16(raw[:n], encoding)
	return source{file: bytes.NewReader(decoded), to: int64(len(decoded))}, nil
}

// find gives the place that an offset asks for: of a line from the beginning, or
// from the end.
func (s source) find(ctx context.Context, offset int) (place, error) {
	if offset < 0 {
		return s.findFromEnd(ctx, -offset)
	}
	found := place{at: s.from, line: 1}
	err := s.each(ctx, s.from, s.to, func(chunk []byte) bool {
		if newlines := bytes.Count(chunk, newline); found.line+newlines < offset {
			found.line += newlines
			found.at += int64(len(chunk))
			return true
		}
		for found.line < offset {
			i := bytes.IndexByte(chunk, '\n') + 1
			chunk = chunk[i:]
			found.line++
			found.at += int64(i)
		}
		return false
	})
	if err != nil || offset <= 1 || found.line == offset && found.at < s.to {
		return found, err
	}
	all, err := s.count(ctx, s.from, s.to)
	if err != nil {
		return place{}, err
	}
	return place{}, pastEnd(offset, all.lines())
}

func pastEnd(offset, lines int) error {
	if lines == 0 {
		return badQuery("line %d is past the end: the file is empty", offset)
	}
	return badQuery("line %d is past the end: the file has %d lines; a negative offset counts from the end", offset, lines)
}

// findFromEnd gives the place of the nth line from the end, or of the first. A
// line feed at the very end begins no line (case A34).
func (s source) findFromEnd(ctx context.Context, n int) (place, error) {
	found := place{at: s.from, line: 1}
	buf := make([]byte, chunkBytes)
	for end, last := s.to, true; end > s.from && n > 0; last = false {
		if ctx.Err() != nil {
			return place{}, context.Cause(ctx)
		}
		start := max(s.from, end-chunkBytes)
		chunk := buf[:end-start]
		if _, err := s.file.ReadAt(chunk, start); errors.Is(err, io.EOF) {
			return place{}, errShorter()
		} else if err != nil {
			return place{}, err
		}
		end = start
		if last {
			chunk = bytes.TrimSuffix(chunk, newline)
		}
		for n > 0 {
			i := bytes.LastIndexByte(chunk, '\n')
			if i < 0 {
				break
			}
			chunk = chunk[:i]
			if n--; n == 0 {
				found.at = start + int64(i) + 1
			}
		}
	}
	if found.at-s.from > CountBytes {
		return place{at: found.at, line: unknown}, nil
	}
	before, err := s.count(ctx, s.from, found.at)
	found.line += before.newlines
	return found, err
}

// A tally is what was counted in a part of a text.
type tally struct {
	newlines   int
	unfinished bool // it ends within a line
}

func (t tally) lines() int {
	if t.unfinished {
		return t.newlines + 1
	}
	return t.newlines
}

func (s source) count(ctx context.Context, from, to int64) (tally, error) {
	var t tally
	err := s.each(ctx, from, to, func(chunk []byte) bool {
		t.newlines += bytes.Count(chunk, newline)
		t.unfinished = chunk[len(chunk)-1] != '\n'
		return true
	})
	return t, err
}

// each gives f what stands from one position to another, in pieces that are
// never empty, until f says that it has enough. A file that became shorter ends
// early.
func (s source) each(ctx context.Context, from, to int64, f func(chunk []byte) bool) error {
	r := s.reader(ctx, from)
	buf := make([]byte, min(chunkBytes, max(0, to-from)))
	for from < to {
		n, err := r.Read(buf[:min(int64(len(buf)), to-from)])
		if n > 0 && !f(buf[:n]) {
			return nil
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		from += int64(n)
	}
	return nil
}

// reader reads from a position to the end; each read asks ctx first.
func (s source) reader(ctx context.Context, from int64) io.Reader {
	return readerFunc(func(b []byte) (int, error) {
		if ctx.Err() != nil {
			return 0, context.Cause(ctx)
		}
		n, err := s.file.ReadAt(b[:min(int64(len(b)), max(0, s.to-from))], from)
		from += int64(n)
		if n > 0 {
			return n, nil
		}
		if err == nil {
			err = io.EOF
		}
		return 0, err
	})
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(b []byte) (int, error) { return f(b) }

var newline = []byte("\n")
