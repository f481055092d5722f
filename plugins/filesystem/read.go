package filesystem

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	stdimage "image"
	"image/gif"
	"image/jpeg"
	"image/png"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/image/webp"

	"github.com/toolhost/toolhost/plugin/sdk"
)

const readDescription = `Read a text file, or look at an image (PNG, JPEG, GIF, WebP, at most 5 MiB). The text comes as it is, without line numbers, in pages: at most 2,000 lines and 50 KiB with the notes. If the file has more, a note in square brackets after the text says which lines it shows and with which offset to call read again for the next page. A line over 2,000 bytes is cut, and a note says so; grep with the file as path shows the text around a match in it.
UTF-16 with a byte order mark is decoded. Other binary files are refused. For a directory use list; to find the right place in a large file use grep, then read with offset and limit.`

type readInput struct {
	Path   string  `json:"path" jsonschema:"The file, relative to the project's root, as list, glob and grep show it."`
	Offset integer `json:"offset,omitempty" jsonschema:"The first line wanted, counted from 1, which is the default. A negative number counts from the end: -20 gives the last 20 lines. Not for images."`
	Limit  integer `json:"limit,omitempty" jsonschema:"How many lines are wanted, 1 to 2000. Left out: as many as a page holds. Not for images."`
}

type readOutput struct {
	Path       string `json:"path" jsonschema:"the file, relative to the root"`
	Text       string `json:"text" jsonschema:"whole lines, each ended as in the file"`
	FirstLine  int    `json:"first_line" jsonschema:"number of the first line of the text, from 1; 0 when there is none, -1 at the end of a file too large to be counted"`
	Lines      int    `json:"lines" jsonschema:"how many lines the text has"`
	TotalLines int    `json:"total_lines" jsonschema:"how many lines the file has; -1 when it is too large to be counted"`
	NextOffset int    `json:"next_offset,omitempty" jsonschema:"the offset of the next page; absent when the text reaches the end of the file"`
	CutLines   []int  `json:"cut_lines,omitempty" jsonschema:"numbers of the lines that are cut for their length; where first_line is -1, counted from the beginning of the text"`
	Size       int64  `json:"size" jsonschema:"size of the file in bytes; -1 when it has no end that is known"`
	Encoding   string `json:"encoding" jsonschema:"utf-8, utf-16le, utf-16be or unknown-8bit; in the last, bytes that are no UTF-8 are U+FFFD in the text; empty for an image"`
	BOM        bool   `json:"bom,omitempty" jsonschema:"true when the file begins with a byte order mark, which is not in the text"`
	Image      *image `json:"image,omitempty" jsonschema:"what is known of the image, if the file is one: then there is no text"`

	Notes []string `json:"notes,omitempty" jsonschema:"what is missing from the text, and how to get it"`
}

type image struct {
	Type   string `json:"type" jsonschema:"image/png, image/jpeg, image/gif or image/webp"`
	Width  int    `json:"width" jsonschema:"in pixels"`
	Height int    `json:"height" jsonschema:"in pixels"`

	data []byte // what the model sees
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
	page, err := root.Read(ctx, sdk.ReadQuery{Offset: int(in.Offset), Limit: int(in.Limit)})
	if err != nil {
		return readOutput{}, sdk.ToFailure(err)
	}
	if page.Media != nil {
		return readImage(root.Resource(), page)
	}
	return readPage(root.Resource(), page, int(in.Offset)), nil
}

// maxSide is the most pixels that an image may claim to be wide or high.
const maxSide = 1 << 16

// readImage is the output for an image. One that is damaged is refused: a model that is
// given it could not go on.
func readImage(path string, page sdk.Page) (readOutput, error) {
	size, err := decodeConfig(page.Media)
	if err != nil {
		return readOutput{}, sdk.Failuref("%s: begins as %s, and cannot be shown: %v", quoted(path), page.Media.Type, err)
	}
	return readOutput{
		Path: path, Size: page.Size,
		Image: &image{Type: page.Media.Type, Width: size.Width, Height: size.Height, data: page.Media.Data},
	}, nil
}

// decodeConfig reads how large an image is, and no more of it.
func decodeConfig(media *sdk.Media) (size stdimage.Config, err error) {
	defer func() { // the file is anybody's
		if recover() != nil {
			err = errors.New("it is damaged")
		}
	}()
	from := bytes.NewReader(media.Data)
	switch media.Type {
	case "image/png":
		size, err = png.DecodeConfig(from)
	case "image/jpeg":
		size, err = jpeg.DecodeConfig(from)
	case "image/gif":
		size, err = gif.DecodeConfig(from)
	case "image/webp":
		size, err = webp.DecodeConfig(from)
	default:
		err = errors.New("it is of no known type")
	}
	if err == nil && (size.Width <= 0 || size.Height <= 0 || size.Width > maxSide || size.Height > maxSide) {
		err = fmt.Errorf("it claims to have %d x %d pixels", size.Width, size.Height)
	}
	return size, err
}

// readPage is the output for a page that was asked for from an offset. It leaves the
// end of the page to the next one where the notes would not fit beside it.
func readPage(path string, page sdk.Page, offset int) readOutput {
	out := readOutput{
		Path: path, Text: page.Text, FirstLine: page.First, Lines: page.Lines, TotalLines: page.TotalLines,
		CutLines: page.CutLines, Size: page.Size, Encoding: page.Encoding, BOM: page.BOM,
	}
	if len(out.Text) > textBytes {
		out.Text = out.Text[:strings.LastIndexByte(out.Text[:textBytes], '\n')+1]
		out.Lines = strings.Count(out.Text, "\n")
	}
	for out.Lines > textLines {
		out.Text = out.Text[:strings.LastIndexByte(out.Text[:len(out.Text)-1], '\n')+1]
		out.Lines--
	}
	if page.More || out.Lines < page.Lines {
		out.NextOffset = out.FirstLine + out.Lines
		if out.FirstLine < 0 {
			out.NextOffset = offset + out.Lines
		}
	}
	next := max(1, out.FirstLine) + out.Lines
	out.CutLines = slices.DeleteFunc(slices.Clone(out.CutLines), func(line int) bool { return line >= next })
	return out
}

func projectRead(_ readInput, out readOutput) (readOutput, []sdk.Content) {
	if i := out.Image; i != nil {
		note := fmt.Sprintf("[%s, %d x %d pixels, %d bytes]", i.Type, i.Width, i.Height, out.Size)
		return out, []sdk.Content{sdk.Image(i.data, i.Type), sdk.Text(note)}
	}
	notes := []string{out.place()}
	if n := len(out.CutLines); n > 0 {
		numbers := make([]string, n)
		for i, line := range out.CutLines {
			numbers[i] = strconv.Itoa(line)
		}
		these := ""
		if out.FirstLine < 0 {
			these = " of these"
		}
		notes = append(notes, fmt.Sprintf("%s %s cut at 2000 bytes: grep with this path shows the text around a match",
			plural(n, "line", "lines"), several(numbers)+these+plural(n, " is", " are")))
	}
	switch out.Encoding {
	case "utf-16le", "utf-16be":
		notes = append(notes, "decoded from "+out.Encoding)
	case "unknown-8bit":
		notes = append(notes, "not valid UTF-8: bytes that are no characters are shown as \ufffd")
	}
	out.Notes = said(notes...)
	return out, blocks(out.Text, out.Notes)
}

// place says where in the file the text stands, and how to get at what follows. It is
// empty for a whole file.
func (out readOutput) place() string {
	lines := fmt.Sprintf("line %d", out.FirstLine)
	if out.Lines > 1 {
		lines = fmt.Sprintf("lines %d-%d", out.FirstLine, out.FirstLine+out.Lines-1)
	}
	if out.FirstLine < 0 {
		lines = fmt.Sprintf("%d %s, not numbered since the file is large", out.Lines, plural(out.Lines, "line", "lines"))
	}
	switch {
	case out.Size == 0:
		return "the file is empty"
	case out.Lines == 0:
		return "the file has no text"
	case out.NextOffset != 0 && out.TotalLines < 0:
		return fmt.Sprintf("%s, more follow; next page: offset=%d", lines, out.NextOffset)
	case out.NextOffset != 0:
		return fmt.Sprintf("%s of %d; next page: offset=%d", lines, out.TotalLines, out.NextOffset)
	case out.FirstLine < 0:
		return lines + "; this is the end of the file"
	case out.FirstLine > 1:
		return fmt.Sprintf("%s of %d; this is the end of the file", lines, out.TotalLines)
	default:
		return ""
	}
}
