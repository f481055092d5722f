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
	"strconv"
	"strings"
	"unicode"

	"github.com/toolhost/toolhost/service/filesystem/internal/document"
	"github.com/toolhost/toolhost/service/filesystem/internal/text"
)

// A Stat says in numbers what a diff shows.
type Stat struct {
	// Added and Removed are how many lines are, those that are not shown included.
	Added, Removed int
	// Cut is how many lines of the diff are left out, and Shortened how many are
	// shown in part.
	Cut, Shortened int
	// Binary says that one side is no text, or too large, so that nothing but the
	// sizes is shown and no lines are counted.
	Binary bool
	// Coarse says that the sides are too different to be compared line by line, so
	// that lines that stay are shown as removed and added.
	Coarse bool
}

// Unified gives the unified diff of a file before and after, and "" if they are the
// same. A file that is not there is nil; one that is empty is not. Ends of lines are
// no part of the lines that are compared: where they change, it is said in a line
// of words. Before the diff stands what has to be said so, one thing a line; the
// name is quoted if it holds anything that could look like a line of its own.
//
// The text is valid UTF-8: UTF-16 with a mark is decoded, and each byte that is no
// character is U+FFFD. Characters that control a terminal are in it as they are in
// the file.
//
// The lines of the diff take limit bytes at most; what is beyond is counted in a
// line of words in its place. A line over [service.LineBytes] is shown around what
// changed in it. Time and memory are linear in both sides, whatever the bytes. When ctx
// ends, Unified does too, soon, with the cause; there is no other error.
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
	if err != nil || errNow != nil {
		stat.Binary = true
		return heads(name, before, after) + sizes(before, after, err, errNow), stat
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
	for _, b := range c.blocks {
		stat.Removed += b.old.lines()
		stat.Added += b.now.lines()
	}
	stat.Coarse = c.coarse
	var out strings.Builder
	for _, note := range s.notes(before, after) {
		out.WriteString(note + "\n")
	}
	if c.coarse {
		out.WriteString("too different to be compared line by line: lines that stay are shown as removed and added\n")
	}
	out.WriteString(heads(name, before, after))
	w := writer{out: &out, limit: out.Len() + max(limit, 0), stat: &stat}
	w.hunks(ctx, old.Text(), now.Text(), c)
	return out.String(), stat
}

// heads gives the lines with the names.
func heads(name string, before, after []byte) string {
	head := func(mark, prefix string, content []byte) string {
		full := prefix + name
		switch {
		case content == nil:
			full = "/dev/null"
		case strings.ContainsFunc(full, func(r rune) bool { return r == '"' || r == '\\' || r == unicode.ReplacementChar || !unicode.IsPrint(r) }):
			full = strconv.Quote(full)
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
		return fmt.Sprintf("new file, %s: %d bytes\n", what, len(after))
	case after == nil:
		return fmt.Sprintf("deleted file, %s: %d bytes\n", what, len(before))
	}
	return fmt.Sprintf("%s: %d bytes before, %d bytes after\n", what, len(before), len(after))
}
