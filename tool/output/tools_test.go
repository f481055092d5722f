package output

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/toolhost/toolhost/tool"
)

// follow reads an output page by page, as each page says.
func follow(t testing.TB, k *Keeper, handle string, offset, until int64) string {
	t.Helper()
	var all strings.Builder
	note := regexp.MustCompile(`\n?\[bytes \d+ to \d+ of \d+; .*\]$`)
	for offset < until {
		result, err := run(t, k, testSession, "output_read", map[string]any{"handle": handle, "offset": offset})
		if err != nil {
			t.Fatal(err)
		}
		text := result.Content[0].Text
		checkShown(t, text, k.limits("host/output_read"), false)
		all.WriteString(note.ReplaceAllString(text, ""))
		var p page
		if err := json.Unmarshal(result.Output, &p); err != nil || p.Offset != offset {
			t.Fatalf("page at %d: %s, %v", offset, result.Output, err)
		}
		if s := bounded(t, k, tool.Settlement{Status: tool.Completed, Structured: result.Output, Content: result.Content}); s.Retained != nil {
			t.Fatalf("a page is kept again: %q", text)
		}
		if p.NextOffset == nil {
			if !p.End || !strings.Contains(text, "this is the end") {
				t.Errorf("the end does not say so: %q", text)
			}
			break
		}
		offset = *p.NextOffset
	}
	return all.String()
}

// Seen to fail: with a mark whose offset is a little off, and with a page that
// begins behind the character.
func TestCaseH14FollowingTheMark(t *testing.T) {
	k := newKeeper(t, DefaultLimits())
	var line strings.Builder
	for i := 0; line.Len() < 1<<20; i++ {
		fmt.Fprintf(&line, `{"n":%d,"s":"🟡"},`, i)
	}
	raw := line.String()
	s := bounded(t, k, texts(raw))
	head, left, offset, tail := parts(t, onlyText(t, s))
	handle := s.Retained[0].Handle
	middle := follow(t, k, handle, offset, offset+left)
	head = strings.TrimSuffix(head, "\n")
	if got := head + middle[:left] + tail; got != raw {
		t.Errorf("head, middle and tail are not the whole: %d bytes of %d", len(got), len(raw))
	}

	result, err := run(t, k, testSession, "output_read", map[string]any{"handle": handle, "offset": 500_000, "limit": 200})
	if err != nil {
		t.Fatal(err)
	}
	var p page
	_ = json.Unmarshal(result.Output, &p)
	if p.Offset > 500_000 || p.Offset < 499_997 || *p.NextOffset > p.Offset+200 || *p.NextOffset < p.Offset+197 ||
		!strings.HasPrefix(result.Content[0].Text, raw[p.Offset:*p.NextOffset]) {
		t.Errorf("200 bytes at 500000: %s", result.Output)
	}
	// Every offset is moved to a character and none is skipped.
	for at := range int64(40) {
		result, err := run(t, k, testSession, "output_read", map[string]any{"handle": handle, "offset": at, "limit": 1})
		if err != nil {
			t.Fatal(err)
		}
		var p page
		_ = json.Unmarshal(result.Output, &p)
		if p.Offset > at || *p.NextOffset <= at || strings.Contains(result.Content[0].Text, `\x`) {
			t.Errorf("at %d: %s", at, result.Output)
		}
	}
	// Numbers may be written as JSON has them.
	if _, err := run(t, k, testSession, "output_read", map[string]any{"handle": handle, "offset": json.RawMessage("1e1")}); err != nil {
		t.Error(err)
	}
	for offset, want := range map[int64]string{int64(len(raw)): "this is the end", int64(len(raw)) + 1: "behind the end"} {
		result, err := run(t, k, testSession, "output_read", map[string]any{"handle": handle, "offset": offset})
		if got := fmt.Sprint(result.Content, err); !strings.Contains(got, want) {
			t.Errorf("at %d: %s", offset, got)
		}
	}
}

// A mark inside lines that were redrawn or coloured leads to no gap either.
//
// Seen to fail: with the offset counted in what is shown.
func TestFollowingTheMarkOfChangedText(t *testing.T) {
	for _, unit := range []string{"\x1b[31mred\x1b[0m text\n", "10%\r20%\rdone\n", "line\r\n", "\x1b[1mx", "a\x00b", "\xff!", "redrawn, and\rover\n"} {
		limits := Limits{MaxLines: 50, MaxBytes: 1500}
		k := newKeeper(t, limits)
		raw := strings.Repeat(unit, 3000)
		s := bounded(t, k, texts(raw))
		head, left, offset, tail := parts(t, onlyText(t, s))
		want := strings.TrimSuffix(shown(raw, len(raw)), "\n")
		got := strings.TrimSuffix(head, "\n") + shown(raw[offset:offset+left], len(raw)) + strings.TrimSuffix(tail, "\n")
		if strings.ReplaceAll(got, "\n", "") != strings.ReplaceAll(want, "\n", "") {
			t.Errorf("%q: head, missing and tail show %d bytes, want %d", unit, len(got), len(want))
		}
		if kept(t, k, s) != raw {
			t.Errorf("%q: raw text is not kept", unit)
		}
	}
}

// Seen to fail: without the escapes, and with what is no character dropped.
func TestReadShowsControls(t *testing.T) {
	limits := Limits{MaxLines: 4, MaxBytes: 600}
	k := newKeeper(t, limits)
	raw := "a\x1b[31mb\r\nc\x00\xff\u009bd\te\rf" + strings.Repeat("\x1b", 500) + strings.Repeat("\n", 20) + "\xe2\x82"
	meta := put(t, k.options.Store, []byte(raw))
	got := follow(t, k, meta.Handle, 0, int64(len(raw)))
	want := `a\x1b[31mb` + "\r\n" + `c\x00\xff\u009bd` + "\te" + `\x0df` + strings.Repeat(`\x1b`, 500)
	if strings.TrimRight(strings.Split(got, "f\\x1b")[0], "\n") != strings.TrimSuffix(strings.Split(want, "f\\x1b")[0], "\n") {
		t.Errorf("pages are %.200q, want %.200q", got, want)
	}
	if !strings.HasSuffix(got, `\xe2\x82`) || strings.Count(got, `\x1b`) != 501 {
		t.Errorf("pages are %q", got)
	}
}

// Limits too small for anything still give a page that goes on.
func TestReadTinyLimits(t *testing.T) {
	for _, limits := range []Limits{{}, {1, 10}, {10, 1}, {0, 1000}, {1, 1000}} {
		k := newKeeper(t, limits)
		meta := put(t, k.options.Store, []byte("🟡\n\n🟡"))
		for offset, pages := int64(0), 0; ; pages++ {
			result, err := run(t, k, testSession, "output_read", map[string]any{"handle": meta.Handle, "offset": offset})
			if err != nil {
				t.Fatal(err)
			}
			var p page
			_ = json.Unmarshal(result.Output, &p)
			if p.End {
				break
			}
			if offset = *p.NextOffset; pages > 20 {
				t.Fatalf("%+v: no end", limits)
			}
		}
		result, err := run(t, k, testSession, "output_search", map[string]any{"handle": meta.Handle, "pattern": "🟡"})
		if err != nil || len(result.Content[0].Text) > 400 {
			t.Errorf("%+v: %v, %v", limits, result, err)
		}
	}
}

// Seen to fail: with the session left out of the comparison, and the Location.
func TestToolsReadTheirOwnOnly(t *testing.T) {
	k := newKeeper(t, DefaultLimits())
	store := k.options.Store
	mine := put(t, store, []byte("mine"))
	expired := put(t, store, []byte("expired"))
	week := time.Now().Add(-8 * 24 * time.Hour)
	if err := os.Chtimes(store.path(expired.Handle), week, week); err != nil {
		t.Fatal(err)
	}
	elsewhere := NewKeeper(KeeperOptions{Store: store, Location: "/elsewhere", Limits: DefaultLimits()})
	none := NewKeeper(KeeperOptions{Location: testRoot, Limits: DefaultLimits()})
	tests := []struct {
		name            string
		keeper          *Keeper
		session, handle string
	}{
		{"another session", k, "other", mine.Handle},
		{"another Location", elsewhere, testSession, mine.Handle},
		{"expired", k, testSession, expired.Handle},
		{"unknown", k, testSession, strings.Repeat("a", handleBytes)},
		{"no handle", k, testSession, "../../etc/passwd"},
		{"no store", none, testSession, mine.Handle},
	}
	for _, tt := range tests {
		for name, input := range map[string]map[string]any{"output_read": {"handle": tt.handle}, "output_search": {"handle": tt.handle, "pattern": "x"}} {
			_, err := run(t, tt.keeper, tt.session, name, input)
			failure, ok := errors.AsType[*tool.Failure](err)
			if want := fmt.Sprintf("there is no output %.64q of this session: it may have expired; run the tool again that made it", tt.handle); !ok || failure.Message != want {
				t.Errorf("%s, %s: %v", tt.name, name, err)
			}
		}
	}
	if got := follow(t, k, mine.Handle, 0, 4); got != "mine" {
		t.Errorf("own output is %q", got)
	}
}

// Seen to fail: with lines counted per frame, and with a buffer's end in the middle of what is looked for.
func TestSearch(t *testing.T) {
	k := newKeeper(t, DefaultLimits())
	var raw strings.Builder
	for i := range 3000 {
		fmt.Fprintf(&raw, "line %d %s\r\n", i+1, strings.Repeat("-", i%500))
	}
	giant := raw.Len()
	raw.WriteString(strings.Repeat("y", 1<<20))
	text := []byte(raw.String())
	var needles []int
	for _, at := range []int{100, searchBuffer - 3, searchBuffer + 1000, 2*searchBuffer - 3, 700_000, 1<<20 - 6} {
		copy(text[giant+at:], "needle")
		needles = append(needles, giant+at)
	}
	text = append(text, "\nlast \x1b needle"...)
	needles = append(needles, len(text)-6)
	meta := put(t, k.options.Store, text)

	search := func(pattern string, limit int) (found, string) {
		t.Helper()
		input := map[string]any{"handle": meta.Handle, "pattern": pattern}
		if limit > 0 {
			input["limit"] = limit
		}
		result, err := run(t, k, testSession, "output_search", input)
		if err != nil {
			t.Fatal(err)
		}
		checkShown(t, result.Content[0].Text, DefaultLimits(), false)
		var f found
		if err := json.Unmarshal(result.Output, &f); err != nil {
			t.Fatal(err)
		}
		return f, result.Content[0].Text
	}
	f, got := search("needle", 0)
	if f.Shown != len(needles) || f.More != 0 {
		t.Errorf("needles: %+v, want %d", f, len(needles))
	}
	for i, at := range needles {
		row := strings.Split(got, "\n")[min(i, f.Shown)]
		line := 3001 + i/(len(needles)-1)
		if !strings.HasPrefix(row, fmt.Sprintf("%d:%d: ", line, at)) || !strings.Contains(row, "needle") || len(row) > 600 {
			t.Errorf("row %d is %.100q, want %d:%d", i, row, line, at)
		}
	}
	if !strings.Contains(got, `last \x1b needle`) {
		t.Errorf("controls are not escaped: %q", got)
	}
	f, got = search(`^line \d+00 .*-$`, 5)
	if f.Shown != 5 || f.More != 30-5 || !strings.Contains(got, fmt.Sprintf("%d more are not shown", f.More)) || !strings.HasPrefix(got, "100:") {
		t.Errorf("limit: %+v %.100q", f, got)
	}
	if f, _ := search("line", 5000); f.Shown+f.More != 3000 || f.More == 0 {
		t.Errorf("the limits of the Location: %+v", f)
	}
	if f, _ := search("nothing of the kind", 0); f.Shown+f.More != 0 {
		t.Errorf("nothing: %+v", f)
	}
	if f, _ := search("", 10); f.Shown != 10 || f.More < 2990 {
		t.Errorf("everything: %+v", f)
	}
	_, err := run(t, k, testSession, "output_search", map[string]any{"handle": meta.Handle, "pattern": "("})
	if failure, ok := errors.AsType[*tool.Failure](err); !ok || !strings.Contains(failure.Message, "missing closing )") {
		t.Errorf("invalid pattern: %v", err)
	}
	ctx, cancel := context.WithCancelCause(context.Background())
	gone := errors.New("gone")
	cancel(gone)
	_, err = k.Tools()["output_search"].Execute(ctx, tool.Call{Identity: tool.Identity{Session: testSession},
		Input: json.RawMessage(`{"handle":"` + meta.Handle + `","pattern":"x"}`)})
	if !errors.Is(err, gone) {
		t.Errorf("past its context: %v", err)
	}
}
