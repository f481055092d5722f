package filesystem

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/toolhost/toolhost/plugin/sdk"
)

const readDescription = `Read a text file. The text comes as it is, without line numbers, in pages: at most 2,000 lines and 50 KiB with the notes. If the file has more, a note in square brackets after the text says which lines it shows and with which offset to call read again for the next page. A line over 2,000 bytes is cut, and a note says so; grep with the file as path shows the text around a match in it.
UTF-16 with a byte order mark is decoded. Binary files are refused. For a directory use list; to find the right place in a large file use grep, then read with offset and limit.`

type readInput struct {
	Path   string  `json:"path" jsonschema:"The file, relative to the project's root, as list, glob and grep show it."`
	Offset integer `json:"offset,omitempty" jsonschema:"The first line wanted, counted from 1, which is the default. A negative number counts from the end: -20 gives the last 20 lines."`
	Limit  integer `json:"limit,omitempty" jsonschema:"How many lines are wanted, 1 to 2000. Left out: as many as a page holds."`
}

type readOutput struct {
	Path       string `json:"path" jsonschema:"the file, relative to the root"`
	Text       string `json:"text" jsonschema:"whole lines, each ended as in the file"`
	FirstLine  int    `json:"first_line" jsonschema:"number of the first line of the text, from 1; 0 when there is none"`
	Lines      int    `json:"lines" jsonschema:"how many lines the text has"`
	TotalLines int    `json:"total_lines" jsonschema:"how many lines the file has; -1 when it is too large to be counted"`
	NextOffset int    `json:"next_offset,omitempty" jsonschema:"the offset of the next page; absent when the text reaches the end of the file"`
	CutLines   []int  `json:"cut_lines,omitempty" jsonschema:"numbers of the lines that are cut for their length"`
	Size       int64  `json:"size" jsonschema:"size of the file in bytes"`
	Encoding   string `json:"encoding" jsonschema:"utf-8, utf-16le, utf-16be or unknown-8bit; in the last, bytes that are no UTF-8 are U+FFFD in the text"`
	BOM        bool   `json:"bom,omitempty" jsonschema:"true when the file begins with a byte order mark, which is not in the text"`
}

func (t tools) read(ctx context.Context, _ sdk.Call, in readInput) (readOutput, error) {
	if in.Path == "" {
		return readOutput{}, sdk.Failure("path is empty: name a file; list shows which there are")
	}
	if err := checkRange("limit", in.Limit, maxPage); err != nil {
		return readOutput{}, err
	}
	root, err := t.open(ctx, in.Path, func(root *sdk.Root) sdk.PermissionRequest {
		return sdk.PermissionRequest{
			Action: "read", Resources: root.Resources(), Save: themselves(root.Resources()),
		}
	})
	if err != nil {
		return readOutput{}, err
	}
	limit := min(int(in.Limit), textLines)
	if limit == 0 {
		limit = textLines
	}
	page, err := root.Read(ctx, sdk.ReadQuery{Offset: int(in.Offset), Limit: limit})
	if err != nil {
		return readOutput{}, sdk.ToFailure(err)
	}
	return readPage(root.Resource(), page), nil
}

// readPage is the output for a page, whose end it leaves to the next one where
// the notes would not fit beside it.
func readPage(path string, page sdk.Page) readOutput {
	out := readOutput{
		Path: path, Text: page.Text, FirstLine: page.First, Lines: page.Lines, TotalLines: page.TotalLines,
		CutLines: page.CutLines, Size: page.Size, Encoding: page.Encoding, BOM: page.BOM,
	}
	if len(out.Text) > textBytes {
		out.Text = out.Text[:strings.LastIndexByte(out.Text[:textBytes], '\n')+1]
		out.Lines = strings.Count(out.Text, "\n")
	}
	next := out.FirstLine + out.Lines
	if page.More || out.Lines < page.Lines {
		out.NextOffset = next
	}
	out.CutLines = slices.DeleteFunc(slices.Clone(out.CutLines), func(line int) bool { return line >= next })
	return out
}

func projectRead(_ readInput, out readOutput) (readOutput, []sdk.Content) {
	var notes []string
	lines := fmt.Sprintf("line %d", out.FirstLine)
	if out.Lines > 1 {
		lines = fmt.Sprintf("lines %d-%d", out.FirstLine, out.FirstLine+out.Lines-1)
	}
	switch {
	case out.Size == 0:
		notes = append(notes, "the file is empty")
	case out.Lines == 0:
		notes = append(notes, "the file has no text")
	case out.NextOffset > 0 && out.TotalLines < 0:
		notes = append(notes, fmt.Sprintf("%s, more follow; next page: offset=%d", lines, out.NextOffset))
	case out.NextOffset > 0:
		notes = append(notes, fmt.Sprintf("%s of %d; next page: offset=%d", lines, out.TotalLines, out.NextOffset))
	case out.FirstLine > 1:
		notes = append(notes, fmt.Sprintf("%s of %d; this is the end of the file", lines, out.TotalLines))
	}
	if n := len(out.CutLines); n > 0 {
		numbers := make([]string, n)
		for i, line := range out.CutLines {
			numbers[i] = strconv.Itoa(line)
		}
		notes = append(notes, fmt.Sprintf("%s %s cut at 2000 bytes: grep with this path shows the text around a match",
			plural(n, "line", "lines"), several(numbers)+plural(n, " is", " are")))
	}
	switch out.Encoding {
	case "utf-16le", "utf-16be":
		notes = append(notes, "decoded from "+out.Encoding)
	case "unknown-8bit":
		notes = append(notes, "not valid UTF-8: bytes that are no characters are shown as \ufffd")
	}
	return out, blocks(out.Text, notes)
}
