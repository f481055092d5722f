package output

import (
	"fmt"
	"strings"
	"unsafe"

	"github.com/toolhost/toolhost/tool"
)

// checkContent holds the ceilings of what is not text.
func checkContent(content []tool.Content) error {
	others, media, links, text := 0, 0, 0, false
	for _, c := range content {
		text = text || hasText(c)
		switch c.Type {
		case tool.TextContent:
			continue
		case tool.ResourceLink:
			links += len(c.URI) + len(c.Name) + len(c.Description) + len(c.MIMEType)
		default:
			media += len(c.Data)
			links += len(c.URI) + len(c.MIMEType)
		}
		others++
	}
	most := MaxBlocks
	if text {
		most-- // for the text, which may come to be one block beside links to the resources
	}
	switch {
	case others > most:
		return tooLarge("content has %d blocks of media, resources and links: at most %d", others, most)
	case media > MaxMedia:
		return tooLarge("content has %d bytes of media: at most %d", media, MaxMedia)
	case links > MaxLinks:
		return tooLarge("content has %d bytes of links: at most %d", links, MaxLinks)
	}
	return nil
}

func tooLarge(format string, args ...any) error {
	return tool.Errorf(tool.KindTooLarge, "%w", fmt.Errorf(format, args...))
}

// hasText reports whether a block's text is for the model to read.
func hasText(c tool.Content) bool {
	return c.Type == tool.TextContent || c.Type == tool.EmbeddedResource && c.Text != ""
}

// takenOut is the content with the text of every resource as a block of text, behind a
// link to where the resource stands.
func takenOut(content []tool.Content) []tool.Content {
	out := make([]tool.Content, 0, len(content))
	for _, c := range content {
		if c.Type == tool.EmbeddedResource && hasText(c) {
			out = append(out, tool.Content{Type: tool.ResourceLink, URI: c.URI, MIMEType: c.MIMEType})
			c = tool.Text(c.Text)
		}
		out = append(out, c)
	}
	return out
}

// replaceText is the content with one block of text in place of all of them.
func replaceText(content []tool.Content, text string) []tool.Content {
	var out []tool.Content
	done := false
	for _, c := range content {
		switch {
		case c.Type != tool.TextContent:
			out = append(out, c)
		case !done:
			done = true
			out = append(out, tool.Text(text))
		}
	}
	return out
}

// joined is all text of the content.
func joined(content []tool.Content) string {
	var all strings.Builder
	for _, c := range content {
		if c.Type != tool.TextContent {
			continue
		}
		if all.Len() > 0 && !strings.HasSuffix(all.String(), "\n") {
			all.WriteByte('\n')
		}
		all.WriteString(c.Text)
	}
	return all.String()
}

// fits reports whether the text is within the limits.
func fits(text []byte, limits Limits) bool {
	return len(text) <= limits.MaxBytes && linesFromStart(text, limits.MaxLines) == len(text)
}

// plainly reports whether texts are so plain and short that nothing needs to be
// measured. It is the common case.
func plainly(texts []string, limits Limits) bool {
	size, lines := 0, 0
	for _, text := range texts {
		if size += len(text) + 1; size > limits.MaxBytes {
			return false
		}
		if lines += strings.Count(text, "\n") + 1; lines > limits.MaxLines {
			return false
		}
	}
	for _, text := range texts {
		if firstUnprintable(bytesOf(text)) < len(text) {
			return false
		}
	}
	return true
}

// bytesOf is the text's memory, which is not to be written to.
func bytesOf(text string) []byte { return unsafe.Slice(unsafe.StringData(text), len(text)) }

// view is the text in the bytes' memory, which is not to be written to.
func view(text []byte) string { return unsafe.String(unsafe.SliceData(text), len(text)) }
