package filesystem

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/toolhost/toolhost/service"
)

// soon is how long after the end of its context a change may still be worked out: ten
// times as long as it takes, for the machine may be busy.
func soon() time.Duration {
	const long = 2 * time.Second
	if info, ok := debug.ReadBuildInfo(); ok && slices.Contains(info.Settings, debug.BuildSetting{Key: "-race", Value: "true"}) {
		return 8 * long
	}
	return long
}

// A slow change is one of a file that takes long to be worked out.
type slow struct {
	name   string
	unit   string // the file's content is this, again and again
	change func(size int) service.Change
}

func edits(old, with string, all bool, n int) func(int) service.Change {
	return func(int) service.Change {
		c := service.EditFile{Path: "f"}
		for i := range n {
			r := service.Replacement{Old: old, New: with, All: all}
			if i%2 == 1 {
				r.Old, r.New = with, old
			}
			c.Replacements = append(c.Replacements, r)
		}
		return c
	}
}

func patches(lines string) func(int) service.Change {
	return func(int) service.Change {
		return service.ApplyPatch{Text: "*** Begin Patch\n*** Update File: f\n" + lines + "*** End Patch\n"}
	}
}

var slowChanges = []slow{
	{"many edits", strings.Repeat("x", 63) + "y", edits("y", "z", true, 100)},
	{"many edits of many places", "a", edits(strings.Repeat("a", 64), strings.Repeat("b", 64), true, 100)},
	{"old text across the ends of lines", "a\r\n", edits("\na\n", "\nb\n", true, 2)},
	{"old text that nearly matches", "a", edits(strings.Repeat("a", 5<<20)+"b", "c", false, 1)},
	{"old text that stands everywhere", "a", edits("aa", "c", false, 1)},
	{"old text that nearly matches lines", "a\r\n", edits(strings.Repeat("a\n", 2<<20)+"b", "c", false, 1)},
	{"letters that are not folded fast", "ẞА", edits(strings.Repeat("ẞА", 1<<20)+"b", "c", false, 1)},
	{"hunks that stand nowhere near", "a\n", func(size int) service.Change {
		var text strings.Builder
		text.WriteString("--- a/f\n+++ b/f\n")
		for i := range 9000 {
			fmt.Fprintf(&text, "@@ -%d,2 +%d,2 @@\n-a\n-a\n+b\n+b\n", size-2*(9000-i), size-2*(9000-i))
		}
		return service.ApplyPatch{Text: text.String()}
	}},
	{"a diff with many lines", "a\n", func(int) service.Change {
		n := 3 << 20
		return service.ApplyPatch{Text: fmt.Sprintf("--- a/f\n+++ b/f\n@@ -1 +1,%d @@\n-a\n", n) + strings.Repeat("+b\n", n)}
	}},
	{"hunks everywhere", "a\nb\n", func(int) service.Change {
		var text strings.Builder
		text.WriteString("--- a/f\n+++ b/f\n")
		for i := range 9000 {
			fmt.Fprintf(&text, "@@ -%d +%d @@\n-b\n+c\n", 5000*i+1, 5000*i+1)
		}
		return service.ApplyPatch{Text: text.String()}
	}},
	{"anchors", "a\n", patches("@@ a\n" + strings.Repeat("@@ a\n@@ c\n", 1<<20) + "-a\n+b\n")},
	{"a hunk that nearly matches", "a\n", patches(strings.Repeat(" a\n", 3<<20) + "-b\n")},
	{"a hunk with many lines", "a\r\n", patches("@@ -1 +1 @@\n-a\n" + strings.Repeat("+b\n", 3<<20))},
	{"another file altogether", "a\n", func(int) service.Change {
		return service.WriteFile{Path: "f", Content: []byte(strings.Repeat("b\n", 6<<20))}
	}},
	{"other ends of lines", "\r\n", func(int) service.Change {
		return service.WriteFile{Path: "f", Content: []byte(strings.Repeat("\n", 12<<20))}
	}},
	{"other white space", "   \u2003", func(int) service.Change {
		return service.WriteFile{Path: "f", Content: []byte(strings.Repeat("\u2003", 4<<20))}
	}},
	{"a file is removed", "\u0430\u0431\n", func(int) service.Change { return service.RemoveFile{Path: "f"} }},
	{"files in directories that are missing", "a\n", func(int) service.Change {
		var text strings.Builder
		text.WriteString("*** Begin Patch\n")
		for i := range service.MaxChangedFiles {
			fmt.Fprintf(&text, "*** Add File: %d/%sf\n+a\n", i, strings.Repeat("a/", 300))
		}
		text.WriteString("*** End Patch\n")
		return service.ApplyPatch{Text: text.String()}
	}},
	{"edits of UTF-16", "\xff\xfe", edits("a", "b", true, 100)},
}

func (s slow) write(t *testing.T, root string) (size int) {
	t.Helper()
	content := strings.Repeat(s.unit, service.MaxContent/len(s.unit))
	if s.unit == "\xff\xfe" {
		content = s.unit + strings.Repeat(strings.Repeat("x\x00", 31)+"a\x00", service.MaxContent/64-1)
	}
	if err := os.WriteFile(filepath.Join(root, "f"), []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return len(content)
}

// What a change would do is worked out no further, soon after its call was given up,
// however large the file is and whatever stands in it.
//
// Seen to fail: with edit.Apply, patch.File.Apply, patch.Parse and diff.Unified, each in a
// context that does not end.
func TestStageEnds(t *testing.T) {
	if testing.Short() {
		t.Skip("one goroutine, and large files")
	}
	for _, tt := range slowChanges {
		t.Run(tt.name, func(t *testing.T) {
			root := t.TempDir()
			change := tt.change(tt.write(t, root))
			f := open(t, root)
			see(t, f, "s", "f")
			for _, after := range []time.Duration{200 * time.Millisecond} {
				ctx, cancel := context.WithCancelCause(t.Context())
				given, up := errors.New("given up"), make(chan time.Time, 1)
				timer := time.AfterFunc(after, func() { up <- time.Now(); cancel(given) })
				s, err := f.Stage(ctx, by("s"), change)
				if err == nil {
					s.Discard()
				}
				if timer.Stop() { // it was done before
					cancel(nil)
					continue
				}
				took := time.Since(<-up)
				if took > soon() || took > soon()/4 && !errors.Is(err, given) {
					t.Errorf("given up after %s, it went on for %s: %.300v", after, took, err)
				}
			}
			if held := f.staged.all(); held != 0 || len(f.turns.files) > 0 {
				t.Errorf("%d bytes and %d turns are still held", held, len(f.turns.files))
			}
		})
	}
}

// Closing does not wait until a change is worked out.
//
// Seen to fail: with edit.Apply in a context that does not end.
func TestCloseEndsStages(t *testing.T) {
	root := t.TempDir()
	tt := slowChanges[0]
	change := tt.change(tt.write(t, root))
	f := open(t, root)
	stopped := make(chan error, 1)
	go func() {
		s, err := f.Stage(t.Context(), by("s"), change)
		if err == nil {
			s.Discard()
		}
		stopped <- err
	}()
	time.Sleep(200 * time.Millisecond) // until it is being worked out
	began := time.Now()
	if err := f.Close(); err != nil || time.Since(began) > soon() {
		t.Errorf("closed after %s, %v", time.Since(began), err)
	}
	wantError(t, <-stopped, service.FileStaleHandle, "the handle is closed")
}
