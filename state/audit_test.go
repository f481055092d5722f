package state

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode"

	"golang.org/x/sys/unix"

	"github.com/toolhost/toolhost/tool"
)

func audit(t *testing.T, dir string, redact ...*regexp.Regexp) *Audit {
	t.Helper()
	a := NewAudit(AuditOptions{Dir: dir, Redact: redact})
	t.Cleanup(func() {
		if err := a.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return a
}

func mustAppend(t *testing.T, a *Audit, e AuditEntry) {
	t.Helper()
	if err := a.Append(e); err != nil {
		t.Fatal(err)
	}
}

// mustRead reads the log, of which so many lines are none.
func mustRead(t *testing.T, dir string, filter AuditFilter, skipped int64) []AuditEntry {
	t.Helper()
	r := ReadAudit(dir, filter)
	var entries []AuditEntry
	for e, err := range r.Entries(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		entries = append(entries, e)
	}
	if r.Skipped() != skipped {
		t.Errorf("skipped %d lines, want %d", r.Skipped(), skipped)
	}
	return entries
}

func auditFileOf(dir string, n int) string { return filepath.Join(dir, auditName(n)) }

func fullEntry() AuditEntry {
	return AuditEntry{
		At: time.Date(2026, 11, 30, 10, 0, 0, 123456789, time.UTC), Kind: AuditSettlement, Root: "/p", Session: "s", Agent: "a", Message: "m", Call: "c",
		Tool: "git/commit", Plugin: "git", Action: "run", Resources: []string{"git commit -m '<a> & b'", "/p/é"}, Effect: "ask", Answer: "always",
		Status: tool.Errored, ErrorKind: tool.KindCrashed, Rule: "deny rm* (/p/toolhost.yaml:3)", Reason: "it ended",
		Input: json.RawMessage(`{"message":"<a> & b","n":1.50}`), Extra: map[string]string{"digest": "1", "z": "2"},
	}
}

// TestLaw45AuditIsRecorded: what was appended is read back whole, after the log was
// closed, and nobody else can read it.
func TestLaw45AuditIsRecorded(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state", "toolhost")
	a := audit(t, dir)
	if _, err := os.Stat(dir); err == nil {
		t.Error("a log without entries is on disk")
	}
	if got := mustRead(t, dir, AuditFilter{}, 0); len(got) != 0 {
		t.Errorf("without a log: got %v", got)
	}
	full, short := fullEntry(), AuditEntry{At: time.Unix(1, 0).UTC(), Kind: AuditTrust}
	mustAppend(t, a, full)
	mustAppend(t, a, short)
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	mustAppend(t, a, AuditEntry{Kind: AuditRevoke})
	got := mustRead(t, dir, AuditFilter{}, 0)
	if len(got) != 3 || !reflect.DeepEqual(got[:2], []AuditEntry{full, short}) || time.Since(got[2].At) > time.Minute {
		t.Errorf("got %+v\nwant %+v", got, full)
	}
	raw, err := os.ReadFile(auditFileOf(dir, 0))
	if err != nil {
		t.Fatal(err)
	}
	if want := `{"at":"1970-01-01T00:00:01Z","kind":"trust"}`; strings.Split(string(raw), "\n")[1] != want || !strings.Contains(string(raw), "'<a> & b'") {
		t.Errorf("got %s", raw)
	}
	for path, want := range map[string]os.FileMode{auditFileOf(dir, 0): 0o600, dir: 0o700} {
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != want {
			t.Errorf("%s: got %v, %v", path, info.Mode(), err)
		}
	}
}

// TestAuditFilter: each part of it; a limit wants the newest, the oldest of them first.
func TestAuditFilter(t *testing.T) {
	dir := t.TempDir()
	a := audit(t, dir)
	for i := range 10 {
		e := AuditEntry{At: time.Unix(int64(i), 0), Kind: AuditStart, Session: "s", Tool: "t", Root: "/p", Call: fmt.Sprint(i)}
		switch i {
		case 3:
			e.Kind = AuditDenial
		case 4:
			e.Session = "other"
		case 5:
			e.Tool = "other"
		case 6:
			e.Root = "/other"
		}
		mustAppend(t, a, e)
	}
	for _, c := range []struct {
		filter AuditFilter
		want   string
	}{
		{AuditFilter{}, "0123456789"},
		{AuditFilter{Since: time.Unix(8, 0)}, "89"},
		{AuditFilter{Kind: AuditDenial}, "3"},
		{AuditFilter{Session: "other"}, "4"},
		{AuditFilter{Tool: "other"}, "5"},
		{AuditFilter{Root: "/other"}, "6"},
		{AuditFilter{Limit: 3}, "789"},
		{AuditFilter{Limit: 1, Kind: AuditStart, Session: "s", Tool: "t", Root: "/p"}, "9"},
		{AuditFilter{Limit: 20}, "0123456789"},
		{AuditFilter{Limit: -1}, ""},
	} {
		got := ""
		for _, e := range mustRead(t, dir, c.filter, 0) {
			got += e.Call
		}
		if got != c.want {
			t.Errorf("%+v: got %q, want %q", c.filter, got, c.want)
		}
	}
	for e := range ReadAudit(dir, AuditFilter{}).Entries(t.Context()) {
		if e.Call == "1" {
			break // and nothing is yielded after it
		}
	}
}

// TestAuditLinesAreBounded: whatever is too long is cut, with a mark, and the line is
// one that can be read. Seen to fail with a bound that does not count escapes.
func TestAuditLinesAreBounded(t *testing.T) {
	dir := t.TempDir()
	a := audit(t, dir)
	huge := strings.Repeat("é", MaxAuditLine)
	many := slices.Repeat([]string{strings.Repeat("x", 100)}, 5000)
	extra := map[string]string{}
	for i := range 5000 {
		extra[fmt.Sprint(i)] = "some text \x00\x1b"
	}
	everywhere := AuditEntry{
		Kind: AuditStart, Root: huge, Session: huge, Agent: huge, Message: huge, Call: huge, Tool: huge, Plugin: huge, Action: huge, Resources: many,
		Effect: huge, Answer: huge, Status: tool.Status(huge), ErrorKind: tool.Kind(huge), Rule: huge, Reason: huge, Input: quoteJSON(huge), Extra: extra,
	}
	for name, e := range map[string]AuditEntry{
		"reason":     {Kind: AuditStart, Reason: huge},
		"controls":   {Kind: AuditStart, Reason: strings.Repeat("\x01\x7f\u0085\U000e0001", MaxAuditLine)},
		"no UTF-8":   {Kind: AuditStart, Reason: strings.Repeat("\xff", MaxAuditLine-100)},
		"resources":  {Kind: AuditStart, Resources: many},
		"extra":      {Kind: AuditStart, Extra: extra},
		"input":      {Kind: AuditStart, Input: json.RawMessage(`{"content":"` + strings.Repeat("text\\n", MaxAuditLine) + `"}`)},
		"one number": {Kind: AuditStart, Input: json.RawMessage(strings.Repeat("1", 3*MaxAuditLine))},
		"everywhere": everywhere,
	} {
		line, err := encodeAudit(a.redact.entry(e))
		if err != nil || len(line) > MaxAuditLine || len(line) < MaxAuditLine/20 || !strings.Contains(string(line), "cut]") {
			t.Errorf("%s: got %d bytes, %v", name, len(line), err)
		}
		mustAppend(t, a, e)
	}
	got := mustRead(t, dir, AuditFilter{}, 0)
	if len(got) != 8 {
		t.Errorf("got %d entries", len(got))
	}
	// What fits is not cut.
	whole := AuditEntry{Kind: AuditStart, At: time.Unix(1, 0).UTC(), Input: quoteJSON(strings.Repeat("x", MaxAuditLine-200))}
	mustAppend(t, a, whole)
	if got := mustRead(t, dir, AuditFilter{Limit: 1}, 0); !reflect.DeepEqual(got, []AuditEntry{whole}) {
		t.Error("an entry that fits was cut")
	}
}

// TestAuditHasNoControlCharacters, wherever they come from, also in an input that is
// valid with them.
func TestAuditHasNoControlCharacters(t *testing.T) {
	dir := t.TempDir()
	a := audit(t, dir)
	bad := "a\x1b[2J\x00\x07\u009b\x7f\u202e\u2028\U000e0041\xff\r\nb"
	mustAppend(t, a, AuditEntry{
		Kind: AuditStart, Root: bad, Session: bad, Tool: bad, Resources: []string{bad}, Reason: bad, Extra: map[string]string{bad: bad},
		Input: json.RawMessage("{\n\t\"a\": \"\x7f\u009b\u202e\xff\"\n}"),
	})
	mustAppend(t, a, AuditEntry{Kind: AuditStart, Input: json.RawMessage(bad)})
	raw, err := os.ReadFile(auditFileOf(dir, 0))
	if err != nil {
		t.Fatal(err)
	}
	for i, line := range strings.Split(strings.TrimSuffix(string(raw), "\n"), "\n") {
		for _, r := range strings.ToValidUTF8(line, "\x01") {
			if unicode.IsControl(r) || unicode.Is(unicode.Cf, r) {
				t.Errorf("line %d has %U: %q", i, r, line)
			}
		}
	}
	got := mustRead(t, dir, AuditFilter{}, 0)
	if want := strings.ToValidUTF8(bad, "\ufffd"); len(got) != 2 || got[0].Tool != want || got[0].Extra[want] != want || string(got[1].Input) == "" {
		t.Errorf("got %q", got)
	}
}

// TestAuditFailuresAreSaid, each one, and counted; the log goes on when it can. Seen
// to fail with a file that is kept after a failed write.
func TestAuditFailuresAreSaid(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "toolhost")
	a := audit(t, dir)
	if err := a.Append(AuditEntry{Kind: "other"}); err == nil || err.Error() != `audit log: entry has the unknown kind "other"` {
		t.Errorf("got %v", err)
	}
	if err := os.MkdirAll(auditFileOf(dir, 0), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := a.Append(AuditEntry{Kind: AuditStart}); err == nil || !strings.Contains(err.Error(), "audit.jsonl: is a directory") {
		t.Errorf("a directory: got %v", err)
	}
	if err := os.Remove(auditFileOf(dir, 0)); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mkfifo(auditFileOf(dir, 0), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := a.Append(AuditEntry{Kind: AuditStart}); err == nil || !strings.Contains(err.Error(), "audit.jsonl is not a regular file") {
		t.Errorf("a pipe: got %v", err)
	}
	if err := os.Remove(auditFileOf(dir, 0)); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/dev/null", auditFileOf(dir, 0)); err != nil {
		t.Fatal(err)
	}
	last := a.Append(AuditEntry{Kind: AuditStart})
	if last == nil {
		t.Error("a link was followed")
	}
	if err := os.Remove(auditFileOf(dir, 0)); err != nil {
		t.Fatal(err)
	}
	if n, err := a.Failures(); n != 4 || err == nil || err.Error() != last.Error() {
		t.Errorf("got %d, %v", n, err)
	}
	mustAppend(t, a, AuditEntry{Kind: AuditStart})
	// A write that fails after it was opened.
	if err := a.file.file.Close(); err != nil {
		t.Fatal(err)
	}
	if err := a.Append(AuditEntry{Kind: AuditStart}); err == nil {
		t.Error("a write to a closed file is no error")
	}
	mustAppend(t, a, AuditEntry{Kind: AuditReply})
	if got := mustRead(t, dir, AuditFilter{}, 0); len(got) != 2 || got[1].Kind != AuditReply {
		t.Errorf("got %v", got)
	}
	if n, _ := a.Failures(); n != 5 {
		t.Errorf("counted %d", n)
	}
}

// TestAuditAfterATornLine: what was begun is torn, and what follows is whole. Seen to
// fail without the look at the last byte.
func TestAuditAfterATornLine(t *testing.T) {
	dir := t.TempDir()
	a := audit(t, dir)
	mustAppend(t, a, AuditEntry{Kind: AuditStart, Call: "1"})
	torn(t, dir, `{"at":"2026-11-30T10:00:00Z","kind":"sta`)
	if got := mustRead(t, dir, AuditFilter{}, 1); len(got) != 1 {
		t.Errorf("a torn last line: got %v", got)
	}
	mustAppend(t, a, AuditEntry{Kind: AuditStart, Call: "2"})
	torn(t, dir, "\x00\x00\x00\nnonsense\n{}\n[]\n\n{\"kind\":\"start\"}\n"+strings.Repeat("x", 3*MaxAuditLine)+"\n")
	mustAppend(t, a, AuditEntry{Kind: AuditStart, Call: "3"})
	torn(t, dir, `{"at":"2026-11-30T10:00:00Z","kind":"start","call":"4"}`) // whole but for its end
	got := ""
	for _, e := range mustRead(t, dir, AuditFilter{}, 7) {
		got += e.Call
	}
	if got != "1234" {
		t.Errorf("got %q", got)
	}
}

// torn appends what somebody left.
func torn(t *testing.T, dir, text string) {
	t.Helper()
	f, err := os.OpenFile(auditFileOf(dir, 0), os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteString(text); err != nil {
		t.Fatal(err)
	}
}

// TestAuditFileIsTakenAway: by whoever cleans up; the log begins another one.
func TestAuditFileIsTakenAway(t *testing.T) {
	dir := t.TempDir()
	a := audit(t, dir)
	mustAppend(t, a, AuditEntry{Kind: AuditStart, Call: "1"})
	if err := os.Rename(auditFileOf(dir, 0), filepath.Join(dir, "mine")); err != nil {
		t.Fatal(err)
	}
	mustAppend(t, a, AuditEntry{Kind: AuditStart, Call: "2"})
	if got := mustRead(t, dir, AuditFilter{}, 0); len(got) != 1 || got[0].Call != "2" {
		t.Errorf("got %v", got)
	}
}
