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

// grepStructured is grep's structured value: the lines that the text shows, by file.
type grepStructured struct {
	grepCounts
	Matches int         `json:"matches" jsonschema:"how many matching lines were found, up to the limit"`
	Shown   int         `json:"shown" jsonschema:"how many of them are in files, the first ones"`
	Files   []fileLines `json:"files" jsonschema:"the files that have matches, sorted by path; none with mode files or count"`
	Notes   []string    `json:"notes,omitempty" jsonschema:"what is missing, and how to get it"`
}

type fileLines struct {
	Path  string      `json:"path" jsonschema:"relative to the root"`
	Lines []shownLine `json:"lines" jsonschema:"the lines that match, and with context those beside them"`
}

// shownLine is a line as an answer shows it.
type shownLine struct {
	Line      int    `json:"line" jsonschema:"number of the line, from 1"`
	Text      string `json:"text" jsonschema:"the line without its end; of a long one a part around the match"`
	Context   bool   `json:"context,omitempty" jsonschema:"true for a line that stands beside a match"`
	Column    int    `json:"column,omitempty" jsonschema:"where the match begins in a line that is cut, in bytes from 1"`
	CutBefore int    `json:"cut_before,omitempty" jsonschema:"bytes of the line before the text"`
	CutAfter  int    `json:"cut_after,omitempty" jsonschema:"bytes of the match or the line after the text"`
	To        int    `json:"to,omitempty" jsonschema:"the last line of the match, if the bytes after the text go on to it"`
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
	structured := grepStructured{grepCounts: out.grepCounts, Files: []fileLines{}}
	var notes []string
	if mode := sdk.GrepMode(in.Mode); mode == sdk.GrepFiles || mode == sdk.GrepCount {
		shown := countText(&text, out.Counts, mode == sdk.GrepCount)
		structured.Truncated = out.Truncated || shown < len(out.Counts)
		structured.Counts = out.Counts[:shown]
		notes = countNotes(in, out, shown)
	} else {
		structured.Matches = len(out.Matches)
		structured.Files, structured.Shown = grepText(&text, out.Matches, in.Context > 0)
		structured.Truncated = out.Truncated || structured.Shown < len(out.Matches)
		notes = grepNotes(in, out, structured.Shown)
	}
	structured.Notes = said(append(notes, text.oddNote())...)
	return structured, blocks(text.text.String(), structured.Notes)
}

// grepText writes the matches that fit, and gives the lines that it wrote, and of how many
// matches they are. Context that matches share is written once.
func grepText(text *sheet, matches []match, context bool) (files []fileLines, shown int) {
	files = []fileLines{}
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
		var lines []shownLine
		for n := first; n < m.Line; n++ {
			lines = append(lines, shownLine{Line: n, Text: m.Before[len(m.Before)-(m.Line-n)], Context: true})
		}
		own := m.lines()
		lines = append(lines, own...)
		for j, s := range after {
			lines = append(lines, shownLine{Line: last + 1 + j, Text: s, Context: true})
		}
		path := text.name(m.Path)
		apart := context && i > 0 && (!sameFile || first > end+1)
		if !text.add(written(path, lines, apart)...) {
			if i > 0 || !text.add(written(path, own, false)...) {
				return files, i
			}
			return []fileLines{{m.Path, own}}, 1 // one match is shown, whatever its context takes
		}
		if !sameFile {
			files = append(files, fileLines{Path: m.Path})
		}
		file := &files[len(files)-1]
		file.Lines = append(file.Lines, lines...)
		end = last + len(after)
	}
	return files, len(matches)
}

// written are lines of a file as a text shows them, below "--" if they stand apart from
// those above.
func written(path string, lines []shownLine, apart bool) []string {
	out := make([]string, 0, len(lines)+1)
	if apart {
		out = append(out, "--")
	}
	for _, l := range lines {
		out = append(out, l.in(path))
	}
	return out
}

// lines are those of a match: one, or several.
func (m match) lines() []shownLine {
	only := shownLine{Line: m.Line, Text: m.Text, CutBefore: m.CutBefore, CutAfter: m.CutAfter}
	if m.CutBefore > 0 || m.CutAfter > 0 && m.Lines < 2 {
		only.Column = m.Column
	}
	if m.Lines < 2 {
		return []shownLine{only}
	}
	var lines []shownLine
	for i, text := range strings.Split(m.Text, "\n") {
		lines = append(lines, shownLine{Line: m.Line + i, Text: strings.TrimSuffix(text, "\r")})
	}
	lines[0].Column, lines[0].CutBefore = only.Column, m.CutBefore
	if last := &lines[len(lines)-1]; m.CutAfter > 0 {
		last.CutAfter, last.To = m.CutAfter, m.Line+m.Lines-1
	}
	return lines
}

// in is the line as a text shows it.
func (l shownLine) in(path string) string {
	mark := ":"
	if l.Context {
		mark = "-"
	}
	line := fmt.Sprintf("%s%s%d%s", path, mark, l.Line, mark)
	switch {
	case l.CutBefore > 0:
		line += fmt.Sprintf(" [column %d, %d bytes before]", l.Column, l.CutBefore)
	case l.Column > 0:
		line += fmt.Sprintf(" [column %d]", l.Column)
	}
	if l.Text != "" || l.Column > 0 {
		line += " " + l.Text
	}
	switch {
	case l.To > 0:
		line += fmt.Sprintf(" [%d bytes after, to line %d]", l.CutAfter, l.To)
	case l.CutAfter > 0:
		line += fmt.Sprintf(" [%d bytes after]", l.CutAfter)
	}
	return line
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
