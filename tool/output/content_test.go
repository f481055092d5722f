package output

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/toolhost/toolhost/tool"
)

// The text of a resource is text that a model reads: it counts with the rest, and over the
// limits, or where it has to be cleaned, it is cut with the rest and leaves a link. What
// is no text passes whole, as media does.
//
// Seen to fail: with the resource left as it is beside the preview, with its text not
// measured, and with the link left out.
func TestLaw17ResourcesToo(t *testing.T) {
	long := strings.Repeat("r", 900)
	note := tool.TextResource("file:///note", "text/plain", long)
	link := tool.Content{Type: tool.ResourceLink, URI: "file:///note", MIMEType: "text/plain"}
	image, data := tool.Image([]byte("png"), "image/png"), tool.DataResource("file:///data", "", []byte(strings.Repeat("d", 5000)))
	shown := tool.Text("(text)") // stands for whatever is shown
	tests := []struct {
		name       string
		content    []tool.Content
		streamed   []string
		want       []tool.Content
		kept, text string // of text only where that is whole
	}{
		{"fits", []tool.Content{tool.Text("a"), note, data}, nil, []tool.Content{tool.Text("a"), note, data}, "", ""},
		{"fits beside streamed text", []tool.Content{note}, []string{"s"}, []tool.Content{tool.Text("s"), note}, "", ""},
		{"too long with other text", []tool.Content{image, tool.Text(long), note, data}, nil, []tool.Content{image, shown, link, data}, long + "\n" + long, ""},
		{"too long with another", []tool.Content{data, note, note}, nil, []tool.Content{data, link, shown, link}, long + "\n" + long, ""},
		{"too long with streamed text", []tool.Content{note}, []string{long}, []tool.Content{shown, link}, long + "\n" + long, ""},
		{"controls the terminal", []tool.Content{tool.TextResource("file:///note", "text/plain", "a\x1b[31mb")}, nil, []tool.Content{link, shown}, "a\x1b[31mb", "ab"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			k := newKeeper(t, Limits{MaxLines: 100, MaxBytes: 1000})
			given := slices.Clone(tt.content)
			got := bounded(t, k, tool.Settlement{Status: tool.Completed, Structured: json.RawMessage(`{"a":1}`), Content: tt.content}, tt.streamed...)
			if !cmp.Equal(given, tt.content) {
				t.Error("what was given changed")
			}
			if string(got.Structured) != `{"a":1}` {
				t.Errorf("structured value became %s", got.Structured)
			}
			if at := slices.IndexFunc(tt.want, func(c tool.Content) bool { return c.Text == shown.Text }); at >= 0 && at < len(got.Content) {
				text := got.Content[at].Text
				checkShown(t, text, Limits{MaxLines: 100, MaxBytes: 1000}, true)
				if tt.text != "" && text != tt.text {
					t.Errorf("shown is %q, want %q", text, tt.text)
				}
				got.Content[at].Text = shown.Text
				if raw := kept(t, k, got); raw != tt.kept {
					t.Errorf("kept are %d bytes, want %d", len(raw), len(tt.kept))
				}
			} else if got.Retained != nil {
				t.Errorf("retained %v, want nothing", got.Retained)
			}
			if diff := cmp.Diff(tt.want, got.Content); diff != "" {
				t.Errorf("content (-want +got):\n%s", diff)
			}
		})
	}
}

// Resources are under the ceilings of media and of links, and their text leaves a block
// for what is shown of it.
//
// Seen to fail: without the room for the text, and without the URIs in the count.
func TestLaw17ResourcesTooLarge(t *testing.T) {
	many := func(n int, c tool.Content) []tool.Content { return slices.Repeat([]tool.Content{c}, n) }
	text, data := tool.TextResource("u", "", "a"), tool.DataResource("u", "", make([]byte, 1<<20))
	tests := []struct {
		name    string
		content []tool.Content
		want    tool.Kind
	}{
		{"as many texts as may be", many(MaxBlocks-1, text), ""},
		{"too many texts", many(MaxBlocks, text), tool.KindTooLarge},
		{"as much data as may be", many(16, data), ""},
		{"too much data", append(many(16, data), tool.DataResource("u", "", []byte{1})), tool.KindTooLarge},
		{"data beside an image", append(many(16, data), tool.Image([]byte{1}, "image/png")), tool.KindTooLarge},
		{"a long URI", []tool.Content{tool.TextResource(strings.Repeat("u", MaxLinks+1), "", "a")}, tool.KindTooLarge},
		{"a long media type", []tool.Content{tool.DataResource("u", strings.Repeat("t", MaxLinks), []byte{1})}, tool.KindTooLarge},
		{"a long text", []tool.Content{tool.TextResource("u", "", strings.Repeat("a", MaxMedia+1))}, ""},
	}
	for _, tt := range tests {
		k := newKeeper(t, DefaultLimits())
		s := tool.Settlement{Status: tool.Completed, Content: tt.content}
		if err := k.Begin(testOrigin()).Bound(context.Background(), &s); kindOf(err) != tt.want {
			t.Errorf("%s: %v, want %q", tt.name, err, tt.want)
		}
		if len(s.Content) > MaxBlocks {
			t.Errorf("%s: became %d blocks", tt.name, len(s.Content))
		}
	}

	k := newKeeper(t, Limits{MaxLines: 10, MaxBytes: 100})
	s := bounded(t, k, tool.Settlement{Status: tool.Completed, Content: many(MaxBlocks-1, text)})
	if len(s.Content) != MaxBlocks {
		t.Errorf("cut, as many as may be became %d blocks, want %d", len(s.Content), MaxBlocks)
	}
}
