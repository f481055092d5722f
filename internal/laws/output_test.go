package laws

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/toolhost/toolhost/tool"
	"github.com/toolhost/toolhost/tool/output"
	"github.com/toolhost/toolhost/tool/registry"
)

// whole is what was kept under the one handle of the settlement.
func (w *world) whole(e ended) string {
	w.t.Helper()
	if len(e.Retained) != 1 {
		w.t.Fatalf("%s: %d outputs are kept, want 1 (%.300s)", e.call, len(e.Retained), e)
	}
	kept, err := w.store.Open(e.Retained[0].Handle)
	if err != nil {
		w.t.Fatal(err)
	}
	defer kept.Close()
	raw, err := io.ReadAll(io.NewSectionReader(kept, 0, e.Retained[0].Bytes+1))
	if err != nil {
		w.t.Fatal(err)
	}
	return string(raw)
}

// bounded checks what a model sees of an output that was cut.
func (w *world) bounded(e ended, head, tail string) {
	w.t.Helper()
	limits := output.DefaultLimits()
	if w.limits != nil {
		limits = *w.limits
	}
	text := e.text()
	if e.Status != tool.Completed || len(text) > limits.MaxBytes || strings.Count(text, "\n") >= limits.MaxLines {
		w.t.Errorf("%s: %d bytes and %d line ends, %.100s", e.call, len(text), strings.Count(text, "\n"), e)
	}
	if !strings.HasPrefix(text, head) || !strings.HasSuffix(text, tail) || !strings.Contains(text, e.Retained[0].Handle) {
		w.t.Errorf("%s: got %.60s … %s\nwant %s … the handle … %s", e.call, text, text[max(0, len(text)-60):], head, tail)
	}
}

// What is over the limits becomes a preview of head and tail with the handle of the whole; with content only its text is
// measured, and without it the structured value; there are hard ceilings. Seen to fail: with the structured value not
// measured, and with the ceiling ignored.
func TestLaw17Bounded(t *testing.T) {
	everyTransport(t, func(t *testing.T, w *world) {
		w.peer("a").register(map[string]spec{"x": {}, "declares": {Output: `{"type":"object"}`}})
		size := output.DefaultLimits().MaxBytes
		w.want(w.call("x", order{Do: "text", Text: "a", Size: size - 10}), fmt.Sprintf("completed: %q…", strings.Repeat("a", size-10)))

		e := w.call("x", order{Do: "result", Result: &answer{Output: "{}", Content: []tool.Content{
			tool.Text("HEAD\n" + strings.Repeat("line of text\n", 10_000)), tool.Image([]byte{1, 2, 3}, "image/png"), tool.Text("TAIL"),
		}}})
		w.bounded(e, "HEAD\nline", "line of text\nTAIL")
		if len(e.Content) != 2 || e.Content[1].Type != tool.ImageContent || string(e.Structured) != "{}" {
			t.Errorf("got %d blocks and %s, want the text, the image, and the structured value as they are", len(e.Content), e.Structured)
		}
		if got := w.whole(e); got != "HEAD\n"+strings.Repeat("line of text\n", 10_000)+"TAIL" {
			t.Errorf("%d bytes are kept", len(got))
		}

		e = w.call("declares", order{Do: "object", Size: 200_000})
		w.bounded(e, `{"value":"vvv`, `vvv"}`)
		if e.Structured != nil {
			t.Errorf("a structured value of %d bytes is given beside the preview", len(e.Structured))
		}
		if got := w.whole(e); len(got) != 200_000+len(`{"value":""}`) {
			t.Errorf("%d bytes are kept", len(got))
		}

		e = w.call("declares", order{Do: "object beside text", Size: 200_000, Text: "see there"})
		if e.Status != tool.Completed || len(e.Structured) < 200_000 || e.text() != "see there" || len(e.Retained) != 0 {
			t.Errorf("got %.100s, want the structured value unchanged and not counted", e)
		}
		w.want(w.call("declares", order{Do: "object beside text", Size: output.MaxStructured, Text: "x"}), "error, too_large, ran true: …")
		// A failure's text is bounded as well.
		e = w.call("x", order{Do: "fail", Text: strings.Repeat("failing\n", 20_000)})
		if e.Status != tool.Failed || len(e.Error.Message) > size || len(e.Retained) != 1 {
			t.Errorf("a failure of %d bytes, %d kept", len(e.Error.Message), len(e.Retained))
		}
	})
}

// A hundred mebibytes that are streamed come to the model as a preview, and whole to the store. Seen to fail: with the
// first text not kept, and with the file of a call that ended left there.
func TestLaw17Streamed(t *testing.T) {
	everyTransport(t, func(t *testing.T, w *world) {
		size := 100 << 20
		if testing.Short() || raceEnabled {
			size = 8 << 20
		}
		w.peer("a").register(map[string]spec{"x": {}})
		e := w.call("x", order{Do: "stream", Size: size, Result: &answer{Content: []tool.Content{tool.Text("THE END")}}})
		w.bounded(e, "sssss", "ssss\nTHE END")
		if len(e.Retained) != 1 || e.Retained[0].Bytes != int64(size+len("THE END")) || e.Retained[0].Lines != int64(size/64+1) {
			t.Errorf("kept %+v, want %d bytes", e.Retained, size+len("THE END"))
		}
		// Of what nobody will hear nothing is kept.
		r := w.begin(w.request("x", order{Do: "stream and wait", Size: 4 << 20}.String()))
		w.await(r.call, "streamed")
		r.cancel(errors.New("enough"))
		w.want(r.wait(t), "interrupted, ran true: enough")
		if kept, err := filepath.Glob(filepath.Join(w.outputs, "*")); err != nil || len(kept) != 1 {
			t.Errorf("%v is kept (%v), want the first call's alone", kept, err)
		}
	})
}

// What was cut can be read before anybody hears of it; what cannot be kept ends the call operationally, without residue.
// Seen to fail: with a preview given though the whole could not be kept.
func TestLaw18RetainedOrFailed(t *testing.T) {
	everyTransport(t, func(t *testing.T, plain *world) {
		published := make(chan string, 1)
		w := newWorld(t, plain.over, t.TempDir(), settings{hooks: registry.Hooks{After: []registry.AfterHook{{
			Name: "looks", Run: func(_ context.Context, _ registry.HookCall, s tool.Settlement, paths []string) (tool.Settlement, error) {
				info, err := os.Stat(strings.Join(paths, ""))
				published <- fmt.Sprint(err, " ", err == nil && info.Size() > 0)
				return s, nil
			},
		}}}})
		w.peer("a").register(map[string]spec{"x": {}})
		w.whole(w.call("x", order{Do: "text", Text: "a", Size: 100_000}))
		if got := <-published; got != "<nil> true" {
			t.Errorf("when it was settled the whole was not there: %s", got)
		}

		for name, blocked := range map[string]func(dir string) string{
			"a file": func(dir string) string {
				path := filepath.Join(dir, "file")
				if err := os.WriteFile(path, nil, 0o600); err != nil {
					t.Fatal(err)
				}
				return path
			},
			"below a file": func(dir string) string {
				if err := os.WriteFile(filepath.Join(dir, "file2"), nil, 0o600); err != nil {
					t.Fatal(err)
				}
				return filepath.Join(dir, "file2", "outputs")
			},
			"writable by others": func(dir string) string {
				path := filepath.Join(dir, "open")
				if err := errors.Join(os.Mkdir(path, 0o700), os.Chmod(path, 0o777)); err != nil { //nolint:gosec // which is the point
					t.Fatal(err)
				}
				return path
			},
		} {
			w := newWorld(t, plain.over, t.TempDir(), settings{outputs: blocked})
			w.peer("a").register(map[string]spec{"x": {Says: "x"}})
			for _, o := range []order{{Do: "text", Text: "a", Size: 100_000}, {Do: "object", Size: 100_000}, {Do: "stream", Size: 1 << 20}} {
				e := w.call("x", o)
				w.want(e, "error, retention, ran true: the tool's output could not be kept")
				if e.Content != nil || e.Structured != nil || e.Retained != nil {
					t.Errorf("%s: %s gives something all the same", name, o)
				}
			}
			w.want(w.call("x", order{}), `completed: "x"…`) // and small ones are no matter
			if left, _ := filepath.Glob(filepath.Join(w.outputs, "*")); len(left) > 0 {
				t.Errorf("%s: %v is left", name, left)
			}
		}
	})
}

// What the tool itself dropped is said, in a field and to the model, and is nobody's to keep. Seen to fail: with what was
// lost not said.
func TestLaw19HonestProducers(t *testing.T) {
	everyTransport(t, func(t *testing.T, w *world) {
		w.peer("a").register(map[string]spec{"x": {}})
		e := w.call("x", order{Do: "result", Result: &answer{Output: `"part"`, Lost: 12345}})
		if e.Status != tool.Completed || e.Lost != 12345 {
			t.Errorf("got %s, lost %d; want 12345", e, e.Lost)
		}
		e = w.call("x", order{Do: "result", Result: &answer{Output: string(quoted(strings.Repeat("a", 100_000))), Lost: 777}})
		if e.Lost != 777 || !strings.Contains(e.text(), "777") {
			t.Errorf("lost %d, and the model reads %.300s", e.Lost, e.text()[max(0, len(e.text())-300):])
		}
		if got := len(w.whole(e)); got != 100_000 {
			t.Errorf("%d bytes are kept, want what there was", got)
		}
	})
}

// An answer that is beyond what may be given at all is too large, whichever way it came. Seen to fail: with what is too
// large for the wire taken for a broken plugin.
func TestLaw17TooLargeToBeGiven(t *testing.T) {
	everyTransport(t, func(t *testing.T, w *world) {
		w.peer("a").register(map[string]spec{"x": {}})
		for _, size := range []int{20 << 20, 70 << 20} {
			w.want(w.call("x", order{Do: "text", Text: "a", Size: size}), "error, too_large, ran true: the tool's output is too large to be given")
		}
		w.want(w.call("x", order{Do: "text", Text: "a"}), "…")
	})
}

// A tool's schemas and output know nothing of bounding: its definition is what it declared, and managed paths are in
// nothing that a model sees. Seen to fail: with an output read by any session, and with the path of the file as its
// handle.
func TestLaw20StorageStaysPrivate(t *testing.T) {
	everyTransport(t, func(t *testing.T, w *world) {
		const schema = `{"type":"object","additionalProperties":false,"properties":{"value":{"type":"string"}}}`
		w.peer("a").register(map[string]spec{"x": {Output: schema}})
		e := w.call("x", order{Do: "object", Size: 100_000})
		if shown := string(quoted(e.Settlement)); strings.Contains(shown, w.outputs) || strings.Contains(shown, filepath.Base(w.outputs)+"/") {
			t.Errorf("a managed path is shown: %.300s", shown)
		}
		if d := w.deeds(e.call); len(d) != 1 || strings.Contains(d[0].Input, "limit") || string(w.definitions()[0].Output) != schema {
			t.Errorf("the tool knows of it: %+v %s", d, w.definitions()[0].Output)
		}
		// The host's own tool reads on, for the session that it was kept for and no other.
		read := w.request("output_read", fmt.Sprintf(`{"handle":%q,"offset":50000,"limit":10}`, e.Retained[0].Handle))
		if got := w.callIn(context.Background(), w.Capture(), read); !strings.HasPrefix(got.text(), "vvvvvvvvvv") {
			t.Errorf("reading on gives %s", got)
		}
		read.Identity.Session = "another"
		w.want(w.callIn(context.Background(), w.Capture(), read), "failed, failure, …")
	})
}
