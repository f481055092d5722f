package laws

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/toolhost/toolhost/tool"
	"github.com/toolhost/toolhost/tool/output"
)

// ways are the three in which text comes out of a tool.
var ways = []string{"build", "write", "fail with it"}

// texts is what the model reads, whichever way it came.
func texts(e ended) string {
	if e.Error != nil {
		return e.Error.Message
	}
	return e.text()
}

func smallLimits() *output.Limits { return &output.Limits{MaxLines: 100, MaxBytes: 2000} }

// A cut is on a border of characters, at the head's end and at the tail's beginning, whatever the offset. Seen to fail:
// with the test of where a character begins turned round.
func TestCaseH01CharacterBorders(t *testing.T) {
	everyTransportWith(t, settings{limits: smallLimits()}, func(t *testing.T, w *world) {
		w.peer("a").register(map[string]spec{"x": {}})
		for _, unit := range []string{"🟡", "e\u0301", "👩\u200d👩\u200d👧"} {
			for offset := range 9 {
				for _, way := range ways {
					e := w.call("x", order{Do: way, Pieces: []piece{{"a", 1000 - offset}, {unit, 2000}, {"z", 1}}})
					text := texts(e)
					if !utf8.ValidString(text) || strings.ContainsRune(text, utf8.RuneError) || len(text) > 2000 || len(e.Retained) != 1 {
						t.Errorf("%q at %d, %s: %d bytes, %q", unit, offset, way, len(text), text[:min(len(text), 100)])
					}
					if !strings.HasPrefix(text, "aaa") || !strings.HasSuffix(text, unit+"z") {
						t.Errorf("%q at %d, %s: begins %.20q, ends %q", unit, offset, way, text, text[max(0, len(text)-20):])
					}
				}
			}
		}
	})
}

// One line that is larger than the limits is cut within, with its end. Seen to fail: with no tail in the preview.
func TestCaseH02HugeLine(t *testing.T) {
	everyTransport(t, func(t *testing.T, w *world) {
		size := 50 << 20
		if testing.Short() || raceEnabled {
			size = 4 << 20
		}
		w.peer("a").register(map[string]spec{"x": {}})
		for _, end := range []string{"END", "END\n"} {
			e := w.call("x", order{Do: "write", Pieces: []piece{{strings.Repeat("x", 1<<10), size >> 10}, {end, 1}}})
			w.bounded(e, "xxx", "xxx"+end)
			if e.Retained[0].Bytes != int64(size+len(end)) {
				t.Errorf("kept %+v", e.Retained)
			}
		}
	})
}

// Head and tail are shown under both limits, and limits as small as they may be are no crash. Seen to fail: with no tail in
// the preview.
func TestCaseH03HeadAndTail(t *testing.T) {
	tools, tiny := map[string]spec{"x": {}}, map[string]output.Limits{}
	for _, n := range []int{0, 1, 10} {
		for i, l := range []output.Limits{{MaxBytes: n, MaxLines: 2000}, {MaxBytes: 50 << 10, MaxLines: n}, {MaxBytes: n, MaxLines: n}} {
			name := fmt.Sprint("tiny", n, "-", i)
			tools[name], tiny["a/"+name] = spec{}, l
		}
	}
	everyTransportWith(t, settings{perTool: tiny}, func(t *testing.T, w *world) {
		w.peer("a").register(tools)
		for _, pieces := range [][]piece{
			{{"HEAD\n", 1}, {strings.Repeat("w", 2000) + "\n", 300}, {"FAILED here", 1}},
			{{"HEAD\n", 1}, {"w\n", 100_000}, {"FAILED here", 1}},
		} {
			w.bounded(w.call("x", order{Do: "write", Pieces: pieces}), "HEAD\nw", "FAILED here")
			// As a failure it is less: of one, 1 MiB crosses the line.
			pieces[1].Times = 600_000 / len(pieces[1].Text)
			e := w.call("x", order{Do: "fail with it", Pieces: pieces})
			if text := texts(e); e.Status != tool.Failed || !strings.HasPrefix(text, "HEAD\n") || !strings.HasSuffix(text, "FAILED here") {
				t.Errorf("a failure of %d bytes begins %.20q", len(text), text)
			}
		}
		for id, l := range tiny {
			for _, way := range ways {
				e := w.call(strings.TrimPrefix(id, "a/"), order{Do: way, Pieces: []piece{{"line\n", 20}}})
				if got := texts(e); len(e.Retained) != 1 || !strings.Contains(got, e.Retained[0].Handle) || strings.Count(got, "line\n") > min(l.MaxLines, l.MaxBytes) {
					t.Errorf("%+v, %s: %s", l, way, e)
				}
			}
		}
	})
}

// When what is kept cannot be kept any more, the call says so, nothing is left of it, and the next call is fine. Seen to
// fail: with the directory not made again.
func TestCaseH07DiskFull(t *testing.T) {
	everyTransport(t, func(t *testing.T, w *world) {
		w.peer("a").register(map[string]spec{"x": {Says: "x"}})
		first := w.call("x", order{Do: "stream", Size: 1 << 20})
		if err := os.RemoveAll(w.outputs); err != nil {
			t.Fatal(err)
		}
		r := w.begin(w.request("x", order{Do: "stream", Size: 4 << 20}.String()))
		w.want(r.wait(t), "completed: …") // the directory is made again
		if err := os.RemoveAll(w.outputs); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(w.outputs, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		e := w.call("x", order{Do: "stream", Size: 4 << 20})
		w.want(e, "error, retention, ran true: the tool's output could not be kept")
		if e.cause() == "" {
			t.Error("the operator is not told why")
		}
		w.want(w.call("x", order{}), `completed: "x"…`)
		if err := os.Remove(w.outputs); err != nil {
			t.Fatal(err)
		}
		if again := w.call("x", order{Do: "stream", Size: 1 << 20}); len(again.Retained) != 1 || again.Retained[0].Handle == first.Retained[0].Handle {
			t.Errorf("afterwards: %.200s", again)
		}
		if left, _ := filepath.Glob(filepath.Join(w.outputs, "*.tmp")); len(left) > 0 {
			t.Errorf("%v is left", left)
		}
	})
}

// A structured value is bounded like text where it stands alone, and has a ceiling where it does not. Seen to fail: with
// the ceiling ignored.
func TestCaseH09StructuredValue(t *testing.T) {
	everyTransport(t, func(t *testing.T, w *world) {
		w.peer("a").register(map[string]spec{"x": {}})
		e := w.call("x", order{Do: "object", Size: 5 << 20})
		if n := len(quoted(e.Settlement)); e.Status != tool.Completed || n > output.DefaultLimits().MaxBytes+4<<10 || len(e.Retained) != 1 {
			t.Errorf("the reply has %d bytes, %.100s", n, e)
		}
		w.want(w.call("x", order{Do: "object beside text", Size: 5 << 20, Text: "x"}), "error, too_large, ran true: the tool's output is too large to be given")
		w.want(w.call("x", order{Do: "object beside text", Size: 500_000, Text: "x"}), `completed: {"value":"vvv…`)
	})
}

// Many parts, or a value that is deeply nested, are bounded together and before expensive work. Seen to fail: with the
// blocks not counted.
func TestCaseH10ManyParts(t *testing.T) {
	everyTransport(t, func(t *testing.T, w *world) {
		w.peer("a").register(map[string]spec{"x": {}})
		start := time.Now()
		e := w.call("x", order{Do: "blocks", Times: 20_000, Size: 100})
		if n := len(quoted(e.Settlement)); e.Status != tool.Completed || len(e.Content) != 1 || n > 70<<10 || !strings.Contains(e.text(), "20000") {
			t.Errorf("%d blocks, %d bytes, %.200s", len(e.Content), n, e)
		}
		nested := strings.Repeat(`{"a":`, 10_000) + "1" + strings.Repeat("}", 10_000)
		w.want(w.call("x", order{Do: "result", Result: &answer{Output: nested}}), "error, invalid_output, ran true: …")
		w.want(w.call("x", order{Do: "result", Result: &answer{Output: nested, Content: []tool.Content{tool.Text("x")}}}), "error, invalid_output, ran true: …")
		var images []tool.Content
		for range 300 {
			images = append(images, tool.Image([]byte{1}, "image/png"))
		}
		w.want(w.call("x", order{Do: "result", Result: &answer{Content: images}}), "error, too_large, ran true: …")
		if took := time.Since(start); took > patience {
			t.Errorf("it took %v", took)
		}
	})
}

// Nothing of a terminal's control reaches the model, also not where it is cut; what came is kept. Seen to fail: with the
// parameters of control sequences shown.
func TestCaseH11Controls(t *testing.T) {
	sequences := []string{"\x1b[31m", "\x1b[0m", "\x1b[2K", "\x1b[A", "\x1b[?25l", "\x1b]8;;http://x\x1b\\", "\x1b]0;t\a", "\x1bP1q\x1b\\", "\x1bc"}
	everyTransportWith(t, settings{limits: smallLimits()}, func(t *testing.T, w *world) {
		w.peer("a").register(map[string]spec{"x": {}})
		e := w.call("x", order{Do: "build", Pieces: []piece{{"\x1b[31mred\x1b[0m \x1b[?25l\x1b]8;;http://x\x1b\\l\x1b]0;t\a \x1bP1q\x1b\\ end", 1}}})
		if e.text() != "red l  end" || !strings.HasPrefix(w.whole(e), "\x1b[31mred") {
			t.Errorf("got %q, kept %q", e.text(), w.whole(e))
		}
		for _, sequence := range sequences {
			for _, way := range ways {
				for _, at := range []int{0, 1, 3} {
					e := w.call("x", order{Do: way, Pieces: []piece{{"x", 1000 - at}, {sequence + "y", 300}, {"x", 1000}}})
					if text, _, _ := strings.Cut(texts(e), "[…"); strings.Contains(texts(e), "\x1b") || strings.Trim(text, "xy\n") != "" {
						t.Errorf("%q, %s: %q", sequence, way, text[max(0, len(text)-50):])
					}
				}
			}
		}
	})
}

// A carriage return overwrites the line. Seen to fail: with a carriage return taken for the end of a line.
func TestCaseH12Redraws(t *testing.T) {
	everyTransport(t, func(t *testing.T, w *world) {
		w.peer("a").register(map[string]spec{"x": {}})
		var frames []piece
		for i := 1; i <= 5000; i++ {
			frames = append(frames, piece{fmt.Sprintf("\r%d%%", i), 1})
		}
		frames = append(frames, piece{"\r\ndone\r\n", 1})
		for _, way := range ways {
			e := w.call("x", order{Do: way, Pieces: frames})
			if got := strings.TrimRight(texts(e), "\n"); got != "5000%\ndone" {
				t.Errorf("%s: got %.100q", way, got)
			}
			if e.Retained[0].Bytes < 20_000 {
				t.Errorf("%s: kept %+v", way, e.Retained)
			}
			if got := texts(w.call("x", order{Do: way, Pieces: []piece{{"abc\rX", 1}}})); got != "Xbc" {
				t.Errorf("%s: got %q, want it as documented", way, got)
			}
		}
	})
}

// What is kept is the user's alone, under a name that cannot be guessed, and for its own session. Seen to fail: with an
// output read by any session, and with links followed.
func TestCaseH13Private(t *testing.T) {
	everyTransport(t, func(t *testing.T, w *world) {
		w.peer("a").register(map[string]spec{"x": {}})
		one, two := w.call("x", order{Do: "text", Text: "a", Size: 100_000}), w.call("x", order{Do: "text", Text: "a", Size: 100_000})
		if one.Retained[0].Handle == two.Retained[0].Handle || len(one.Retained[0].Handle) < 20 {
			t.Errorf("handles %v and %v", one.Retained, two.Retained)
		}
		if err := filepath.WalkDir(w.outputs, func(path string, entry os.DirEntry, err error) error {
			if err != nil {
				return err
			}
			info, err := entry.Info()
			want := os.FileMode(0o600)
			if entry.IsDir() {
				want = 0o700
			}
			if err == nil && info.Mode().Perm() != want {
				t.Errorf("%s has mode %v", path, info.Mode())
			}
			return err
		}); err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"output_read", "output_search"} {
			r := w.request(name, fmt.Sprintf(`{"handle":%q,"pattern":"a"}`, one.Retained[0].Handle))
			if name == "output_read" {
				r.Input = json.RawMessage(fmt.Sprintf(`{"handle":%q}`, one.Retained[0].Handle))
			}
			w.want(w.callIn(context.Background(), w.Capture(), r), "completed: …")
			r.Identity.Session = "another"
			e := w.callIn(context.Background(), w.Capture(), r)
			if e.Status != tool.Failed || strings.Contains(texts(e), "aaa") {
				t.Errorf("%s of another session: %.200s", name, e)
			}
		}
		// A link in the directory is not followed, though it leads to what might be read.
		path, moved := filepath.Join(w.outputs, one.Retained[0].Handle+".zst"), filepath.Join(w.dir, "moved")
		if err := errors.Join(os.Rename(path, moved), os.Symlink(moved, path)); err != nil {
			t.Fatal(err)
		}
		r := w.request("output_read", fmt.Sprintf(`{"handle":%q}`, one.Retained[0].Handle))
		if e := w.callIn(context.Background(), w.Capture(), r); e.Status == tool.Completed {
			t.Errorf("a link was followed: %.200s", e)
		}
	})
}

// The umask decides nothing about what is kept. It is the whole process's, so this test runs alone. Seen to fail: with
// the directory made as the umask lets it.
func TestCaseH13Umask(t *testing.T) { //nolint:paralleltest // see above
	old := syscall.Umask(0)
	defer syscall.Umask(old)
	w := newWorld(t, fake, t.TempDir(), settings{})
	w.peer("a").register(map[string]spec{"x": {}})
	e := w.call("x", order{Do: "text", Text: "a", Size: 100_000})
	if len(e.Retained) != 1 {
		t.Fatalf("got %.200s, want it kept", e)
	}
	for path, want := range map[string]os.FileMode{w.outputs: 0o700, filepath.Join(w.outputs, e.Retained[0].Handle+".zst"): 0o600} {
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != want {
			t.Errorf("%s: %v, %v", path, info, err)
		}
	}
}

// Following the mark in a preview literally gives the middle, also of one line of a mebibyte. Seen to fail: with an
// offset in the mark that is one too far.
func TestCaseH14FollowingTheMark(t *testing.T) {
	said := regexp.MustCompile(`output_read (\{"handle": "[a-z2-7]+", "offset": \d+\})`)
	everyTransport(t, func(t *testing.T, w *world) {
		w.peer("a").register(map[string]spec{"x": {}})
		var pieces []piece
		for n := range 1 << 16 {
			pieces = append(pieces, piece{fmt.Sprintf("%08d 🟡,", n), 1})
		}
		raw := order{Pieces: pieces}.built()
		e := w.call("x", order{Do: "write", Pieces: pieces})
		head, rest, _ := strings.Cut(e.text(), "\n[…")
		tail := rest[strings.Index(rest, "]")+1:]
		tail = strings.TrimPrefix(tail, "\n")
		got, follow, previous := head, e.text(), ""
		for n := 0; ; n++ {
			found := said.FindStringSubmatch(follow)
			if found == nil || n > 100 {
				break
			}
			r := w.request("output_read", found[1])
			page := w.callIn(context.Background(), w.Capture(), r)
			if page.Status != tool.Completed || found[1] == previous {
				t.Fatalf("%s: %.200s", found[1], page)
			}
			text := page.text()
			text = text[:strings.LastIndex(text, "\n[bytes ")]
			got, follow, previous = got+text, page.text()[len(text):], found[1]
		}
		if got != raw || !strings.HasSuffix(raw, tail) {
			t.Errorf("followed to %d bytes, want %d; tail %.20q", len(got), len(raw), tail)
		}
		r := w.request("output_search", fmt.Sprintf(`{"handle":%q,"pattern":"00030000 🟡"}`, e.Retained[0].Handle))
		if found := w.callIn(context.Background(), w.Capture(), r); !strings.Contains(found.text(), "00030000 🟡") {
			t.Errorf("searching gives %.300s", found)
		}
	})
}
