// Package edit replaces exact text in the bytes of a file. A text is found only
// where it stands: white space, letter case and typography count, and only the ends
// of lines are taken for one another. What is not replaced keeps its bytes: line
// ends, a byte order mark, bytes that are no character, the end of the file.
// Everything is a function of its arguments.
package edit

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/toolhost/toolhost/service"
	"github.com/toolhost/toolhost/service/filesystem/internal/document"
)

const (
	// MaxText is the most bytes of an old or a new text.
	MaxText = 16 << 20
	// MaxReplacements is how many replacements are made in one go.
	MaxReplacements = 100
	// MaxPlaces is in how many places a replacement with All is made.
	MaxPlaces = 1 << 20
	// MaxSpans is how many spans are told.
	MaxSpans = 50
)

// A Replacement puts New where Old stands.
type Replacement struct {
	// Old is the text to be replaced, which is not blank. A "\n" in it stands for
	// the end of a line, however the file writes it. If there is a "\r\n" in it, it
	// is looked for as it is first, and then with "\n" for each.
	Old string
	// New is put in as it stands (case A14), with its line ends written as those of
	// the lines that it replaces, and beyond them as most in the file. Where Old and
	// New differ in nothing but the ends of lines, those of New are written. In a
	// file without any, they are too.
	New string
	// All replaces each place where Old stands, from the beginning, those that
	// overlap one before left out. Without it, Old must stand in one place.
	All bool
}

// A Span is a part of the new content that was put in: the first and the last of
// its lines, from 1. Where something was taken out, it is the line that this stood
// in.
type Span struct{ First, Last int }

// A Result is a file after its replacements.
type Result struct {
	// Content is the new content. It shares no memory with the old.
	Content []byte
	// Replaced is how many places were replaced.
	Replaced int
	// Spans are the lines that were put in, sorted: those of the first MaxSpans
	// places.
	Spans []Span
}

// Apply makes the replacements one after the other, each in what the one before
// left: all of them, or none with an error. An error is a [*service.FileError]
// without a path: FileBadQuery for replacements that cannot be meant, FileNoMatch
// for an old text that does not stand in the file, FileAmbiguous for one that
// stands there more than once, FileBinary, or FileTooLarge for a file over
// [document.MaxBytes], before or after, or more than MaxPlaces.
//
// With reveal, errors tell where the old text stands, or what stands in the file
// that is like it: they quote the file. Without it, they tell nothing of it but the
// kind.
//
// Time is linear in the content for each replacement, whatever the bytes. When ctx
// ends, Apply does too, soon, with the cause.
func Apply(ctx context.Context, content []byte, replacements []Replacement, reveal bool) (Result, error) {
	if len(replacements) == 0 || len(replacements) > MaxReplacements {
		return Result{}, failure(service.FileBadQuery, "give 1 to %d replacements, not %d", MaxReplacements, len(replacements))
	}
	for i, r := range replacements {
		if err := r.check(); err != nil {
			return Result{}, counted(err, i, len(replacements))
		}
	}
	result := Result{Content: content}
	var marks marks
	for i, r := range replacements {
		replaced, changes, err := r.apply(ctx, result.Content, reveal)
		if ctx.Err() != nil { // what an error says is not so then
			return Result{}, context.Cause(ctx)
		}
		if err != nil {
			return Result{}, counted(err, i, len(replacements))
		}
		result.Content = replaced
		result.Replaced += len(changes)
		marks.move(ctx, changes)
	}
	d, err := document.Open(ctx, result.Content)
	if err != nil {
		return Result{}, err
	}
	if result.Spans, err = marks.spans(ctx, d.Text()); err != nil {
		return Result{}, err
	}
	return result, nil
}

// apply makes one replacement in a content.
func (r Replacement) apply(ctx context.Context, content []byte, reveal bool) ([]byte, []document.Change, error) {
	d, err := document.Open(ctx, content)
	if err != nil {
		return nil, nil, err
	}
	changes, err := r.changes(ctx, d, reveal)
	if err != nil {
		return nil, nil, err
	}
	replaced, err := d.Splice(ctx, changes)
	return replaced, changes, err
}

func failure(kind service.FileErrorKind, format string, args ...any) error {
	return &service.FileError{Kind: kind, Detail: fmt.Sprintf(format, args...)}
}

// counted says which of several replacements an error is about.
func counted(err error, i, n int) error {
	known, ok := errors.AsType[*service.FileError](err)
	if !ok || n == 1 {
		return err
	}
	return failure(known.Kind, "replacement %d of %d: %s (none of them was made)", i+1, n, known.Detail)
}

// check refuses what cannot be meant (case A15).
func (r Replacement) check() error {
	switch {
	case len(r.Old) > MaxText || len(r.New) > MaxText:
		return failure(service.FileTooLarge, "an old or new text is at most %d MiB", MaxText>>20)
	case strings.TrimSpace(r.Old) == "":
		return failure(service.FileBadQuery, "the old text is blank; give text that stands in the file, with what stands around it")
	case !utf8.ValidString(r.Old):
		return failure(service.FileBadQuery, "the old text is not valid UTF-8")
	case r.Old == r.New:
		return failure(service.FileBadQuery, "the new text is the old text, so nothing would change")
	}
	return nil
}
