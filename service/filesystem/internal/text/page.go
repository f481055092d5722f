package text

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/toolhost/toolhost/service"
)

const (
	// CountBytes is the size of file up to which the lines after a page are counted, how
	// much before a page from the end is counted, and how far the end of a line is looked
	// for.
	CountBytes = 64 << 20
	// DecodeBytes is the size of the largest UTF-16 file that is decoded; it is held
	// in memory.
	DecodeBytes = 64 << 20
)

// ReadPage reads a page of the file of the given size, or an image as a whole. It
// reads what stands before the page without keeping it, so its memory does not grow
// with the file; what is wanted from the end is read from there.
// ctx ends it within a chunk, with the context's cause. What is wrong with the
// query or the file is a [*service.FileError] without a path.
func ReadPage(ctx context.Context, file io.ReaderAt, size int64, query service.ReadQuery) (service.Page, error) {
	if query.Limit < 0 || query.Limit > service.PageLines {
		return service.Page{}, badQuery("limit %d is not between 1 and %d", query.Limit, service.PageLines)
	}
	head, err := readHead(file, size)
	if err != nil {
		return service.Page{}, err
	}
	nature := Probe(head)
	if mediaType := mediaOf(head, nature); mediaType != "" {
		return readMedia(ctx, file, size, mediaType, query)
	}
	if query.Limit == 0 {
		query.Limit = service.PageLines
	}
	page := service.Page{Size: size, Encoding: string(nature.Encoding), BOM: nature.BOM > 0}
	src := source{file: file, from: int64(nature.BOM), to: size}
	if nature.Encoding == UTF16LE || nature.Encoding == UTF16BE {
		if src, err = src.decoded(nature.Encoding); err != nil {
			return service.Page{}, err
		}
	}
	start, err := src.find(ctx, query.Offset)
	if err != nil {
		return service.Page{}, err
	}
	if err := src.fill(ctx, &page, start, query.Limit); err != nil {
		return service.Page{}, err
	}
	return page, nil
}

func badQuery(format string, args ...any) error {
	return &service.FileError{Kind: service.FileBadQuery, Detail: fmt.Sprintf(format, args...)}
}

func errShorter() error {
	return &service.FileError{Kind: service.FileIO, Detail: "became shorter while it was read; read it again"}
}

func readHead(file io.ReaderAt, size int64) ([]byte, error) {
	head := make([]byte, min(size, ProbeBytes))
	n, err := file.ReadAt(head, 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	return head[:n], nil
}

// fill puts lines into the page, from start on, and counts those that follow.
func (s source) fill(ctx context.Context, page *service.Page, start place, limit int) error {
	lines := bufio.NewReaderSize(s.reader(ctx, start.at), 64<<10)
	var text strings.Builder
	end := start.at
	for page.Lines < limit {
		l, err := readLine(lines)
		if err != nil {
			return err
		}
		if l.bytes == 0 {
			s.to = end // also where the file became shorter
			break
		}
		if text.Len()+len(l.text) > service.PageBytes {
			break
		}
		if l.cut {
			page.CutLines = append(page.CutLines, max(1, start.line)+page.Lines)
		}
		if l.invalid {
			page.Encoding = string(Unknown8Bit)
		}
		text.WriteString(l.text)
		page.Lines++
		end += l.bytes
		if l.endless {
			break
		}
	}
	page.Text = text.String()
	if page.Lines > 0 {
		page.First = start.line
	}
	page.More = end < s.to
	after := place{at: end, line: start.line + page.Lines}
	if start.line == unknown {
		after.line = unknown
	}
	return s.total(ctx, page, after)
}

// total sets how many lines the file has, where that is known or cheap; after is
// the place where the page ends.
func (s source) total(ctx context.Context, page *service.Page, after place) error {
	page.TotalLines = after.line - 1
	switch {
	case after.line == unknown:
		page.TotalLines = -1
		return nil
	case !page.More:
		return nil
	case s.to-s.from > CountBytes:
		page.TotalLines = -1
		return nil
	}
	rest, err := s.count(ctx, after.at, s.to)
	page.TotalLines += rest.newlines
	if rest.unfinished {
		page.TotalLines++
	}
	return err
}

// A line of a page.
type line struct {
	text    string // valid UTF-8, with the line's end
	bytes   int64  // how many bytes it takes in the file; 0 at the end
	cut     bool
	invalid bool // some bytes were no UTF-8
	endless bool // its end was not looked for any further
}

// readLine reads the next line; of a long one it keeps no more than the page
// shows.
func readLine(r *bufio.Reader) (line, error) {
	var l line
	var kept []byte
	var last [2]byte // the last two bytes read: the line's end, perhaps
	for {
		piece, err := r.ReadSlice('\n')
		l.bytes += int64(len(piece))
		kept = append(kept, piece[:min(len(piece), max(0, service.LineBytes+utf8.UTFMax-len(kept)))]...)
		for _, b := range piece[max(0, len(piece)-2):] {
			last[0], last[1] = last[1], b
		}
		if errors.Is(err, bufio.ErrBufferFull) {
			if l.endless = l.bytes > CountBytes; l.endless {
				break
			}
			continue
		}
		if err != nil && !errors.Is(err, io.EOF) {
			return line{}, err
		}
		break
	}
	ending := ""
	if l.bytes > 0 && last[1] == '\n' {
		ending = "\n"
		if l.bytes > 1 && last[0] == '\r' {
			ending = "\r\n"
		}
	}
	l.cut = l.bytes-int64(len(ending)) > service.LineBytes
	body := kept[:min(int64(len(kept)), l.bytes-int64(len(ending)))]
	body = body[:CutEnd(body, service.LineBytes)]
	l.invalid = !utf8.Valid(body)
	l.text = Valid(body)
	if end := CutEnd([]byte(l.text), service.LineBytes); end < len(l.text) {
		l.text, l.cut = l.text[:end], true
	}
	l.text += ending
	return l, nil
}
