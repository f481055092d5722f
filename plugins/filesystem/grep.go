package filesystem

import (
	"context"
	"fmt"
	"strings"

	"github.com/toolhost/toolhost/plugin/sdk"
)

const grepDescription = `Search in the text of files. Gives the lines below a directory, or in a file, that match a pattern, as "path:line: text", sorted by path and line; lines of context as "path-line- text", and "--" between groups of them. Paths are relative to the project's root and can be given to read as they stand; one in double quotes is a JSON string. Of a line over 500 bytes the text around the match is shown, and how much of it is cut; lines of context end at 500 bytes.
The pattern is a regular expression in RE2 syntax (no backreferences, no lookaround) and is matched line by line, or across lines with multiline; literal takes it as it is, so that nothing needs escaping. With mode the answer is the files that match, one a line, or "path: lines" with how many of their lines do. UTF-16 with a mark is searched decoded; in a file that is not UTF-8, letters such as é are found in Latin-1 too.
Not searched are files that ignore rules such as .gitignore hide, names that begin with a dot, symbolic links, binary and very large files, and .git. A note in square brackets counts them, so what is not found may still be there: a file or directory named in path is searched although it is hidden. At most limit lines: if there are more, a note says how many; narrow the pattern, the path, type or include, or raise limit.`

type grepInput struct {
	Pattern    string  `json:"pattern" jsonschema:"What to look for, at most 4096 bytes."`
	Path       string  `json:"path,omitempty" jsonschema:"The directory or file to search, relative to the project's root. Left out: the root."`
	Include    string  `json:"include,omitempty" jsonschema:"Only search files whose path matches this glob, such as *.go or src/**/*.{ts,tsx}."`
	Type       string  `json:"type,omitempty" jsonschema:"Only search files of this type, such as go, py, ts, rust, cpp, markdown or yaml; an unknown one is answered with the list."`
	Mode       string  `json:"mode,omitempty" jsonschema:"content for the lines, files for the paths alone, count for the number of lines in each file. Left out: content."`
	Multiline  bool    `json:"multiline,omitempty" jsonschema:"Let a match span lines. ^ and $ hold at each line, and . takes a line break only after (?s)."`
	IgnoreCase bool    `json:"ignore_case,omitempty" jsonschema:"Do not tell upper from lower case."`
	Literal    bool    `json:"literal,omitempty" jsonschema:"Take the pattern as plain text instead of a regular expression."`
	Context    integer `json:"context,omitempty" jsonschema:"How many lines to show before and after each match, 1 to 20. Left out: none."`
	Limit      integer `json:"limit,omitempty" jsonschema:"The most matching lines, or files, 1 to 10000. Left out: 200 lines, 1000 files."`
}

type grepOutput struct {
	grepCounts
	Matches []match `json:"matches" jsonschema:"the lines that match, sorted by path, then line; none with mode files or count"`
}

// grepCounts is what the output and the structured value have in common.
type grepCounts struct {
	Path       string   `json:"path" jsonschema:"the directory or file that was searched, relative to the root; . is the root"`
	Searched   int      `json:"searched" jsonschema:"how many files were searched"`
	Truncated  bool     `json:"truncated" jsonschema:"true when there are more matching lines than these"`
	Omitted    int      `json:"omitted" jsonschema:"how many more matching lines there are, counted up to 10000"`
	Incomplete []string `json:"incomplete,omitempty" jsonschema:"files that were not searched to their end: binary after some text, or too large; the first 20"`
	Skipped    skipped  `json:"skipped,omitzero" jsonschema:"how many names were left out, by reason; a directory that was not entered counts as one"`
	// Counts is what the modes files and count are for.
	Counts []fileCount `json:"counts,omitempty" jsonschema:"the files that match, sorted by path, with mode files or count"`
}

type fileCount struct {
	Path  string `json:"path" jsonschema:"relative to the root"`
	Lines int    `json:"lines,omitempty" jsonschema:"how many lines match, with mode count; with multiline, how many matches there are"`
}

type match struct {
	Path      string   `json:"path" jsonschema:"relative to the root"`
	Line      int      `json:"line" jsonschema:"number of the line, from 1"`
	Column    int      `json:"column" jsonschema:"where the first match in the line begins, in bytes from 1"`
	Lines     int      `json:"lines,omitempty" jsonschema:"how many lines the match spans, when it is more than one"`
	Text      string   `json:"text" jsonschema:"the line, or lines, without the last end; of a long one a part around the match"`
	CutBefore int      `json:"cut_before,omitempty" jsonschema:"bytes of the line before the text"`
	CutAfter  int      `json:"cut_after,omitempty" jsonschema:"bytes of the line after the text"`
	Before    []string `json:"before,omitempty" jsonschema:"the lines before"`
	After     []string `json:"after,omitempty" jsonschema:"the lines after"`
}

// grepStructured is grep's structured value: where the matches are, not what they
// say, which the text has.
type grepStructured struct {
	grepCounts
	Matches int         `json:"matches" jsonschema:"how many matching lines there are in files"`
	Shown   int         `json:"shown" jsonschema:"how many of them the text shows, the first ones"`
	Files   []fileLines `json:"files" jsonschema:"the files that have matches, sorted by path; none with mode files or count"`
}

type fileLines struct {
	Path  string `json:"path" jsonschema:"relative to the root"`
	Lines []int  `json:"lines" jsonschema:"numbers of the lines that match"`
}

func (t tools) grep(ctx context.Context, _ sdk.Call, in grepInput) (grepOutput, error) {
	if err := in.check(); err != nil {
		return grepOutput{}, err
	}
	root, err := t.open(ctx, in.Path, search("grep", in.Pattern))
	if err != nil {
		return grepOutput{}, err
	}
	found, err := root.Grep(ctx, sdk.GrepQuery{
		Pattern: in.Pattern, Literal: in.Literal, IgnoreCase: in.IgnoreCase, Include: in.Include,
		Context: int(in.Context), Limit: int(in.Limit), Type: in.Type, Multiline: in.Multiline, Mode: sdk.GrepMode(in.Mode),
	})
	if err != nil {
		return grepOutput{}, sdk.ToFailure(err)
	}
	out := grepOutput{
		grepCounts: grepCounts{
			Path: root.Resource(), Searched: found.Searched, Truncated: found.Truncated, Omitted: found.Omitted,
			Incomplete: found.Incomplete, Skipped: skipped(found.Skipped),
		},
		Matches: make([]match, 0, len(found.Matches)),
	}
	for _, m := range found.Matches {
		out.Matches = append(out.Matches, match(m))
	}
	for _, c := range found.Counts {
		out.Counts = append(out.Counts, fileCount(c))
	}
	return out, nil
}

func (in grepInput) check() error {
	if err := checkPattern("pattern", in.Pattern); err != nil {
		return err
	}
	if in.Include != "" {
		if err := checkPattern("include", in.Include); err != nil {
			return err
		}
	}
	if err := checkRange("context", in.Context, maxContext); err != nil {
		return err
	}
	return checkRange("limit", in.Limit, maxMatches)
}

func projectGrep(in grepInput, out grepOutput) (grepStructured, []sdk.Content) {
	var text sheet
	if mode := sdk.GrepMode(in.Mode); mode == sdk.GrepFiles || mode == sdk.GrepCount {
		shown := countText(&text, out.Counts, mode == sdk.GrepCount)
		structured := grepStructured{grepCounts: out.grepCounts, Files: []fileLines{}}
		return structured, blocks(text.text.String(), append(countNotes(in, out, shown), text.oddNote()))
	}
	shown := grepText(&text, out.Matches, in.Context > 0)
	structured := grepStructured{grepCounts: out.grepCounts, Matches: len(out.Matches), Shown: shown, Files: []fileLines{}}
	for i, m := range out.Matches {
		if i == 0 || m.Path != out.Matches[i-1].Path {
			structured.Files = append(structured.Files, fileLines{Path: m.Path})
		}
		last := &structured.Files[len(structured.Files)-1]
		last.Lines = append(last.Lines, m.Line)
	}
	return structured, blocks(text.text.String(), append(grepNotes(in, out, shown), text.oddNote()))
}

// grepText writes the matches that fit, and says how many did. Context that
// matches share is written once.
func grepText(text *sheet, matches []match, context bool) int {
	end := 0 // the last line written of the file
	for i, m := range matches {
		sameFile := i > 0 && matches[i-1].Path == m.Path
		if !sameFile {
			end = 0
		}
		after := m.After
		last := m.Line + max(1, m.Lines) - 1
		if i+1 < len(matches) && matches[i+1].Path == m.Path {
			after = after[:max(0, min(len(after), matches[i+1].Line-last-1))]
		}
		first := max(m.Line-len(m.Before), end+1)
		var lines []string
		if context && i > 0 && (!sameFile || first > end+1) {
			lines = append(lines, "--")
		}
		path := text.name(m.Path)
		for n := first; n < m.Line; n++ {
			lines = append(lines, contextLine(path, n, m.Before[len(m.Before)-(m.Line-n)]))
		}
		lines = append(lines, m.lines(path)...)
		for j, s := range after {
			lines = append(lines, contextLine(path, last+1+j, s))
		}
		if !text.add(lines...) {
			if i == 0 && text.add(m.lines(path)...) { // one match is shown, whatever its context takes
				i = 1
			}
			return i
		}
		end = last + len(after)
	}
	return len(matches)
}

func contextLine(path string, n int, text string) string {
	if text == "" {
		return fmt.Sprintf("%s-%d-", path, n)
	}
	return fmt.Sprintf("%s-%d- %s", path, n, text)
}

// lines are those of a match: one, or several.
func (m match) lines(path string) []string {
	if m.Lines < 2 {
		return []string{m.line(path)}
	}
	texts := strings.Split(m.Text, "\n")
	for i := range texts {
		texts[i] = strings.TrimSuffix(texts[i], "\r")
	}
	first := m
	first.Text, first.CutAfter = texts[0], 0
	lines := []string{first.line(path)}
	for i, text := range texts[1:] {
		lines = append(lines, match{Line: m.Line + 1 + i, Text: text}.line(path))
	}
	if m.CutAfter > 0 {
		lines[len(lines)-1] += fmt.Sprintf(" [%d bytes after, to line %d]", m.CutAfter, m.Line+m.Lines-1)
	}
	return lines
}

func (m match) line(path string) string {
	at := fmt.Sprintf("%s:%d:", path, m.Line)
	switch {
	case m.CutBefore > 0 && m.CutAfter > 0:
		return fmt.Sprintf("%s [column %d, %d bytes before] %s [%d bytes after]", at, m.Column, m.CutBefore, m.Text, m.CutAfter)
	case m.CutBefore > 0:
		return fmt.Sprintf("%s [column %d, %d bytes before] %s", at, m.Column, m.CutBefore, m.Text)
	case m.CutAfter > 0:
		return fmt.Sprintf("%s [column %d] %s [%d bytes after]", at, m.Column, m.Text, m.CutAfter)
	case m.Text == "":
		return at
	default:
		return at + " " + m.Text
	}
}

// countText writes the files that fit, and says how many did.
func countText(text *sheet, files []fileCount, counts bool) int {
	for i, f := range files {
		line := text.name(f.Path)
		if counts {
			line = fmt.Sprintf("%s: %d", line, f.Lines)
		}
		if !text.add(line) {
			return i
		}
	}
	return len(files)
}

// countNotes are the notes of an answer of files.
func countNotes(in grepInput, out grepOutput, shown int) []string {
	var notes []string
	if len(out.Counts) == 0 {
		notes = append(notes, out.nothing(in))
	}
	advice := "narrow the pattern, path or include"
	if shown == len(out.Counts) && shown < maxMatches {
		advice += ", or raise limit"
	}
	notes = append(notes, cutNote("files", shown, len(out.Counts), out.Truncated, advice))
	return append(notes, out.incomplete(), out.Skipped.note())
}

// grepNotes says what a reader of the text must know: that nothing was found,
// and whatever was not looked at or not shown (cases A25, A26).
func grepNotes(in grepInput, out grepOutput, shown int) []string {
	var notes []string
	if len(out.Matches) == 0 {
		notes = append(notes, out.nothing(in))
	}
	left, more := len(out.Matches)-shown+out.Omitted, ""
	if out.Omitted >= maxMatches {
		more = " or more"
	}
	advice := "narrow the pattern, path or include"
	if shown == len(out.Matches) && shown < maxMatches {
		advice += ", or raise limit"
	}
	switch {
	case left > 0:
		notes = append(notes, fmt.Sprintf("matching lines shown: %d; left out: %d%s; %s", shown, left, more, advice))
	case out.Truncated:
		notes = append(notes, fmt.Sprintf("matching lines shown: %d; there are more; %s", shown, advice))
	}
	return append(notes, out.incomplete(), out.Skipped.note())
}

// incomplete names the files that were not searched to their end.
func (c grepCounts) incomplete() string {
	if len(c.Incomplete) == 0 {
		return ""
	}
	names := make([]string, len(c.Incomplete))
	for i, path := range c.Incomplete {
		names[i] = short(path)
	}
	return "not searched to the end, for being binary or too large: " + several(names)
}

// nothing is the note of a search without a match. It claims no more than was
// searched.
func (c grepCounts) nothing(in grepInput) string {
	note := fmt.Sprintf("no line matches %s in %s (%d %s searched",
		pattern(in.Pattern), short(c.Path), c.Searched, plural(c.Searched, "file", "files"))
	if in.Include != "" {
		note += ", of those that match " + pattern(in.Include)
	}
	if in.Type != "" {
		note += ", of type " + short(in.Type)
	}
	note += ")"
	if c.Skipped != (skipped{}) || len(c.Incomplete) > 0 {
		note += "; not everything was searched"
	}
	return note
}
