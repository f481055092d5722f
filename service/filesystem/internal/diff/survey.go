package diff

import (
	"bytes"
	"context"
	"fmt"
	"unicode"
	"unicode/utf8"

	"github.com/toolhost/toolhost/internal/unseen"
	"github.com/toolhost/toolhost/service/filesystem/internal/document"
	"github.com/toolhost/toolhost/service/filesystem/internal/text"
)

// A cursor stands at the beginning of a line of a text.
type cursor struct {
	text []byte
	at   int
	line int // from 0
}

// next gives the line and its end, and goes on to the next.
func (c *cursor) next() (line []byte, ending string) {
	rest := c.text[c.at:]
	c.line++
	i := bytes.IndexByte(rest, '\n')
	switch {
	case i < 0:
		c.at = len(c.text)
		return rest, ""
	case i > 0 && rest[i-1] == '\r':
		c.at += i + 1
		return rest[:i-1], "\r\n"
	}
	c.at += i + 1
	return rest[:i], "\n"
}

// to goes on to a line, or less far when ctx ends.
func (c *cursor) to(ctx context.Context, line int) {
	for c.line < line && ctx.Err() == nil {
		c.next()
	}
}

// A survey is of what a diff does not show.
type survey struct {
	old, now *document.Document
	blocks   []block

	toPairs, toFeeds int // lines that stay, but with another end
	otherEnds        int // added lines with an end that the old text does not have
	oldPairs         int // lines of the old text that end with "\r\n"
	pairs, feeds     int // lines of the new text, by how they end
	trailing, spaces int // pairs of lines that differ in nothing but white space
	hidden           int // changed lines with characters that are not seen
	example          rune
	invalid          bool // there are bytes that are no UTF-8
	oddRemoved       bool // a removed line has bytes that are no characters
	halfChanged      bool // there is half a unit at the end of one text, and not of the other
	halfLost         bool // it was at the end of the old one
	mixed            bool // the old text has both ends of lines
}

// walk looks at both texts. When ctx ends, it does too, with the cause.
func (s *survey) walk(ctx context.Context) (err error) {
	var oldFeeds int
	if s.oldPairs, oldFeeds, err = s.old.Ends(ctx); err != nil {
		return err
	}
	if s.pairs, s.feeds, err = s.now.Ends(ctx); err != nil {
		return err
	}
	s.mixed = s.oldPairs > 0 && oldFeeds > 0
	oldValid, err := s.old.Valid(ctx)
	if err != nil {
		return err
	}
	nowValid, err := s.now.Valid(ctx)
	if err != nil {
		return err
	}
	s.invalid = !oldValid || !nowValid
	ends := s.oldPairs+s.pairs > 0
	a, b := cursor{text: s.old.Text()}, cursor{text: s.now.Text()}
	for _, block := range s.blocks {
		s.stay(ctx, &a, &b, block.old.from, ends)
		for a.line < block.old.to || b.line < block.now.to {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			var was, is []byte
			var wasEnd, isEnd string
			both := a.line < block.old.to && b.line < block.now.to
			if a.line < block.old.to {
				was, wasEnd = a.next()
				s.see(ctx, was)
				s.oddRemoved = s.oddRemoved || !oldValid && hasOdd(ctx, was)
			}
			if b.line < block.now.to {
				is, isEnd = b.next()
				s.see(ctx, is)
			}
			switch {
			case both:
				s.space(ctx, was, is)
				s.end(wasEnd, isEnd)
			case isEnd == "\r\n" && s.oldPairs == 0 && oldFeeds > 0, isEnd == "\n" && oldFeeds == 0 && s.oldPairs > 0:
				s.otherEnds++
			}
		}
	}
	if ends {
		s.stay(ctx, &a, &b, countLines(s.old.Text()), ends)
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return nil
}

// stay goes over lines that stay, and notes how they end if any ends with "\r\n".
func (s *survey) stay(ctx context.Context, a, b *cursor, to int, ends bool) {
	for a.line < to && ctx.Err() == nil {
		_, was := a.next()
		_, is := b.next()
		if ends {
			s.end(was, is)
		}
	}
}

// end notes a line that ends otherwise than the one that it takes the place of.
func (s *survey) end(was, is string) {
	switch {
	case was == "\n" && is == "\r\n":
		s.toPairs++
	case was == "\r\n" && is == "\n":
		s.toFeeds++
	}
}

// space notes two lines that differ in nothing but white space.
func (s *survey) space(ctx context.Context, was, is []byte) {
	blank := func(r rune) bool { return unicode.IsSpace(r) && ctx.Err() == nil }
	switch {
	case bytes.Equal(was, is):
	case bytes.Equal(bytes.TrimRightFunc(was, blank), bytes.TrimRightFunc(is, blank)):
		s.trailing++
	case bytes.Equal(squeeze(ctx, was), squeeze(ctx, is)):
		s.spaces++
	}
}

// squeeze leaves white space out.
func squeeze(ctx context.Context, line []byte) []byte {
	out := make([]byte, 0, len(line))
	for b := range document.Pieces(ctx, line) {
		for len(b) > 0 {
			r, size := utf8.DecodeRune(b)
			if !unicode.IsSpace(r) {
				out = append(out, b[:size]...)
			}
			b = b[size:]
		}
	}
	return out
}

// see notes a line that holds what is not seen, or does something to what is.
func (s *survey) see(ctx context.Context, line []byte) {
	for b := range document.Pieces(ctx, line) {
		for i := 0; i < len(b); {
			if c := b[i]; c == '\t' || ' ' <= c && c < 0x7f {
				i++
				continue
			}
			r, size := utf8.DecodeRune(b[i:])
			i += size
			if unseen.Is(r) && !mark(r) {
				if s.hidden++; s.example == 0 {
					s.example = r
				}
				return
			}
		}
	}
}

// lossy says that something is lost that neither the diff nor a note can bring back.
func (s *survey) lossy() bool {
	return s.oddRemoved || s.halfLost || s.mixed && s.toPairs+s.toFeeds > 0
}

// halves sees to half a unit at the end of UTF-16, which is in no line.
func (s *survey) halves(before, after []byte) {
	half := func(d *document.Document, content []byte) string {
		if !wide(d.Encoding()) || len(content)%2 == 0 {
			return ""
		}
		return string(content[len(content)-1:])
	}
	was, is := half(s.old, before), half(s.now, after)
	s.halfChanged, s.halfLost = was != is, was != is && was != ""
}

func wide(e text.Encoding) bool { return e == text.UTF16LE || e == text.UTF16BE }

// mark reports marks on other letters, which languages need.
func mark(r rune) bool {
	return unicode.In(r, unicode.Mn, unicode.Me) && !unicode.In(r, unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector)
}

// hasOdd reports bytes that are no characters.
func hasOdd(ctx context.Context, line []byte) bool {
	for b := range document.Pieces(ctx, line) {
		if !utf8.Valid(b) {
			return true
		}
	}
	return false
}

// madeOrLost says of a file that it is new, or deleted.
func (s *survey) madeOrLost(before, after []byte) string {
	switch {
	case before == nil:
		return "new file: " + count(countLines(s.now.Text()), "line")
	case after == nil:
		return "deleted file: " + count(countLines(s.old.Text()), "line")
	default:
		return ""
	}
}

// notes says in words what else was found.
func (s *survey) notes(before, after []byte) []string {
	var notes []string
	note := func(format string, args ...any) { notes = append(notes, fmt.Sprintf(format, args...)) }
	switch {
	case before == nil:
		s.made(note)
	case after != nil:
		s.changed(note)
	}
	if s.trailing > 0 {
		note("trailing white space: %s in nothing else", differ(s.trailing))
	}
	if s.spaces > 0 {
		note("white space: %s in nothing else", differ(s.spaces))
	}
	if s.hidden > 0 {
		note("invisible characters: %s such, the first is %U", holds(s.hidden), s.example)
	}
	if s.invalid {
		note("bytes that are no UTF-8 are shown as %c", utf8.RuneError)
	}
	if s.halfChanged {
		note("the last byte, which is half a character, is not shown")
	}
	if len(notes) == 0 && len(s.blocks) == 0 && before != nil && after != nil {
		note("nothing changes but bytes that are no text")
	}
	return notes
}

// made says what is to be said of a new file.
func (s *survey) made(note func(string, ...any)) {
	if encoding := s.now.Encoding(); wide(encoding) {
		note("encoding: %s", encoding)
	}
	if s.now.Marked() {
		note("byte order mark: yes")
	}
	if s.pairs > 0 {
		note("line endings: %s CRLF, %d LF", count(s.pairs, "line"), s.feeds)
	}
}

// changed says what is to be said of a file that was there and stays.
func (s *survey) changed(note func(string, ...any)) {
	if was, is := s.old.Encoding(), s.now.Encoding(); was != is && (wide(was) || wide(is)) {
		note("encoding: %s to %s", was, is)
	}
	switch was, is := s.old.Marked(), s.now.Marked(); {
	case !was && is:
		note("byte order mark: added")
	case was && !is:
		note("byte order mark: removed")
	}
	if s.toPairs > 0 {
		note("line endings: %s LF to CRLF", count(s.toPairs, "line"))
	}
	if s.toFeeds > 0 {
		note("line endings: %s CRLF to LF", count(s.toFeeds, "line"))
	}
	if s.otherEnds > 0 {
		was, is := "LF", "CRLF"
		if s.oldPairs > 0 {
			was, is = is, was
		}
		note("line endings: %s with %s into a file with %s", count(s.otherEnds, "added line"), is, was)
	}
	switch was, is := bare(s.old.Text()), bare(s.now.Text()); {
	case was && !is && len(s.now.Text()) > 0:
		note("newline at the end of the file: added")
	case !was && is && len(s.old.Text()) > 0:
		note("newline at the end of the file: removed")
	}
}

// bare says that the last line has no end.
func bare(b []byte) bool { return len(b) > 0 && b[len(b)-1] != '\n' }

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

func differ(n int) string {
	if n == 1 {
		return "1 line differs"
	}
	return fmt.Sprintf("%d lines differ", n)
}

func holds(n int) string {
	if n == 1 {
		return "1 changed line has"
	}
	return fmt.Sprintf("%d changed lines have", n)
}
