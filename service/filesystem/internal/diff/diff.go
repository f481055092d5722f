// Package diff shows what becomes of a file: to a person who is asked whether it
// may, and to the model that did it. What lines do not show stands before them in
// words: ends of lines, a byte order mark, white space, characters that are not
// seen. Nothing is left out without a word. Everything is a function of its
// arguments.
package diff

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/toolhost/toolhost/internal/unseen"
	"github.com/toolhost/toolhost/service/filesystem/internal/document"
	"github.com/toolhost/toolhost/service/filesystem/internal/text"
)

// A Stat says in numbers what a diff shows.
type Stat struct {
	// Added and Removed are how many lines are, those that are not shown included.
	Added, Removed int
	// Cut is how many lines of the diff are left out, and Shortened how many are
	// shown in part; Hidden is of how many of those something that changes is left out.
	Cut, Shortened, Hidden int
	// Lossy says that bytes that are lost cannot be told from what is shown: they are no
	// characters, or the ends of lines of which there were several kinds.
	Lossy bool
	// Binary says that one side is no text, or too large, so that nothing but the
	// sizes is shown and no lines are counted.
	Binary bool
	// Coarse says that the sides are too different to be compared line by line, so
	// that lines that stay are shown as removed and added.
	Coarse bool
	// Notes are the lines of words about a file that stays or is new, without the one that
	// only says that it is new, each with its end.
	Notes string
}

// Unified gives the unified diff of a file before and after, and "" if they are the
// same. A file that is not there is nil; one that is empty is not. Ends of lines are
// no part of the lines that are compared: where they change, it is said in a line
// of words. Before the diff stands what has to be said so, one thing a line; the
// name is quoted if it holds anything that could look like a line of its own.
//
// The text is valid UTF-8: UTF-16 with a mark is decoded, and each byte that is no
// character is U+FFFD. Characters that control a terminal are in it as they are in
// the file. A binary file that is small, and text but for some bytes, is shown with
// those escaped, and backslashes too.
//
// The lines of the diff take limit bytes at most; what is beyond is counted in a
// line of words in its place. A line over [service.LineBytes] is shown around all that
// changed in it, up to four times that much; what is left out is counted, and it says
// so if that changes. Time and memory are linear in both sides, whatever the bytes. When
// ctx ends, Unified does too, soon, with the cause; there is no other error.
func Unified(ctx context.Context, name string, before, after []byte, limit int) (string, Stat, error) {
	text, stat := unified(ctx, name, before, after, limit)
	if ctx.Err() != nil { // the text is not all of it
		return "", Stat{}, context.Cause(ctx)
	}
	return text, stat, nil
}

func unified(ctx context.Context, name string, before, after []byte, limit int) (string, Stat) {
	if before != nil && after != nil && bytes.Equal(before, after) || before == nil && after == nil {
		return "", Stat{}
	}
	var stat Stat
	old, err := document.Open(ctx, before)
	now, errNow := document.Open(ctx, after)
	if ctx.Err() != nil {
		return "", stat
	}
	if err != nil || errNow != nil {
		was, ok := escape(ctx, before)
		is, okNow := escape(ctx, after)
		if !ok || !okNow {
			stat.Binary = true
			words := sizes(before, after, err, errNow)
			if before != nil && after != nil {
				stat.Notes = words + "\n"
			}
			return heads(name, before, after) + words + "\n", stat
		}
		shown, stat := unified(ctx, name, was, is, limit)
		return escapedNote + shown, stat
	}
	oldPlain, err := old.Plain(ctx)
	nowPlain, errNow := now.Plain(ctx)
	if err != nil || errNow != nil {
		return "", stat
	}
	c := compare(ctx, oldPlain, nowPlain)
	s := survey{old: old, now: now, blocks: c.blocks}
	if s.walk(ctx) != nil {
		return "", stat
	}
	s.halves(before, after)
	for _, b := range c.blocks {
		stat.Removed += b.old.lines()
		stat.Added += b.now.lines()
	}
	stat.Coarse, stat.Lossy = c.coarse, s.lossy()
	var out strings.Builder
	if made := s.madeOrLost(before, after); made != "" {
		out.WriteString(made + "\n")
	}
	for _, note := range s.notes(before, after) {
		stat.Notes += note + "\n"
	}
	out.WriteString(stat.Notes)
	if c.coarse {
		out.WriteString(coarseNote)
	}
	out.WriteString(heads(name, before, after))
	w := writer{out: &out, limit: out.Len() + max(limit, 0), stat: &stat, patience: patience / 4}
	w.hunks(ctx, old.Text(), now.Text(), c)
	return out.String(), stat
}

const coarseNote = "too different to be compared line by line: lines that stay are shown as removed and added\n"

// heads gives the lines with the names.
func heads(name string, before, after []byte) string {
	head := func(mark, prefix string, content []byte) string {
		full := prefix + name
		switch {
		case content == nil:
			full = "/dev/null"
		case strings.ContainsFunc(full, func(r rune) bool { return r == '"' || r == '\\' || r == unicode.ReplacementChar || unseen.Is(r) }):
			full = unseen.Quote(full)
		}
		return mark + full + "\n"
	}
	return head("--- ", "a/", before) + head("+++ ", "b/", after)
}

// sizes says what there is to say of a file that is not compared.
func sizes(before, after []byte, errs ...error) string {
	what := "too large to be compared"
	for i, content := range [][]byte{before, after} {
		if errs[i] != nil && text.Probe(content[:min(len(content), text.ProbeBytes)]).Binary {
			what = "binary"
		}
	}
	switch {
	case before == nil:
		return fmt.Sprintf("new file, %s, not shown: %d bytes", what, len(after))
	case after == nil:
		return fmt.Sprintf("deleted file, %s, not shown: %d bytes", what, len(before))
	}
	return fmt.Sprintf("%s, not shown: %d bytes before, %d bytes after", what, len(before), len(after))
}

// Bounds of a binary file that is shown all the same.
const (
	escapeBytes = 1 << 20
	escapeShare = 10 // there is at most one byte that is no text for so many that are
)

const escapedNote = "binary: bytes that are no text are shown as \\x and two digits, a backslash as two\n"

// escape gives the bytes of a binary file as a text, if most of it is one. What two
// files have in different bytes, they have in different texts. When ctx ends, what it
// gives means nothing.
func escape(ctx context.Context, content []byte) (escaped []byte, ok bool) {
	if content == nil {
		return nil, true
	}
	if len(content) > escapeBytes {
		return nil, false
	}
	escaped = make([]byte, 0, len(content)+len(content)/2)
	odd := 0
	for b := range document.Pieces(ctx, content) {
		for len(b) > 0 {
			r, size := utf8.DecodeRune(b)
			switch {
			case r == '\\':
				escaped = append(escaped, `\\`...)
			case r == utf8.RuneError && size == 1, r < ' ' && r != '\t' && r != '\n' && r != '\r', r == 0x7f:
				escaped = fmt.Appendf(escaped, `\x%02x`, b[0])
				odd++
			default:
				escaped = append(escaped, b[:size]...)
			}
			b = b[size:]
		}
	}
	return escaped, odd*escapeShare <= len(content)
}
