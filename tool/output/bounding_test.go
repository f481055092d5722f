package output

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"go.uber.org/goleak"

	"github.com/toolhost/toolhost/tool"
	"github.com/toolhost/toolhost/tool/schema"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const testRoot, testSession, testTool = "/project", "session", "plugin/tool"

func testOrigin() Origin {
	return Origin{Location: testRoot, Session: testSession, Tool: testTool, Call: "call"}
}

// newKeeper is a Keeper with a store of its own.
func newKeeper(t testing.TB, limits Limits) *Keeper {
	t.Helper()
	return NewKeeper(KeeperOptions{
		Store: NewStore(StoreOptions{Dir: t.TempDir() + "/outputs"}), Location: testRoot, Limits: limits,
	})
}

// bounded is what becomes of a settlement, and of what was streamed before it.
func bounded(t testing.TB, k *Keeper, s tool.Settlement, streamed ...string) tool.Settlement {
	t.Helper()
	b := k.Begin(testOrigin())
	defer b.Discard()
	for _, text := range streamed {
		if _, err := b.Write([]byte(text)); err != nil {
			t.Fatalf("Write: %v", err)
		}
	}
	if err := b.Bound(context.Background(), &s); err != nil {
		t.Fatalf("Bound: %v", err)
	}
	return s
}

func texts(texts ...string) tool.Settlement {
	s := tool.Settlement{Status: tool.Completed, Ran: true}
	for _, text := range texts {
		s.Content = append(s.Content, tool.Text(text))
	}
	return s
}

// onlyText is the settlement's one block of text.
func onlyText(t testing.TB, s tool.Settlement) string {
	t.Helper()
	if len(s.Content) != 1 || s.Content[0].Type != tool.TextContent {
		t.Fatalf("content has %d blocks, want one of text: %.200v", len(s.Content), s.Content)
	}
	return s.Content[0].Text
}

// kept is the raw text that a settlement names.
func kept(t testing.TB, k *Keeper, s tool.Settlement) string {
	t.Helper()
	if len(s.Retained) != 1 {
		t.Fatalf("retained %v, want one", s.Retained)
	}
	file, err := k.options.Store.Open(s.Retained[0].Handle)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	raw, err := io.ReadAll(io.NewSectionReader(file, 0, file.Meta().Bytes))
	if err != nil {
		t.Fatal(err)
	}
	if got := s.Retained[0].Bytes; got != int64(len(raw)) {
		t.Errorf("retained says %d bytes, has %d", got, len(raw))
	}
	if got, want := s.Retained[0].Lines, countLines(string(raw)); got != int64(want) {
		t.Errorf("retained says %d lines, has %d", got, want)
	}
	return string(raw)
}

func countLines(text string) int {
	n := strings.Count(text, "\n")
	if text != "" && !strings.HasSuffix(text, "\n") {
		n++
	}
	return n
}

// parts takes a preview apart at its mark.
func parts(t testing.TB, preview string) (head string, left, offset int64, tail string) {
	t.Helper()
	mark := regexp.MustCompile(`(?m)^\[… (\d+) of \d+ bytes.* output_read \{"handle": "[a-z2-7]{26}", "offset": (\d+)\}; .*\]$`)
	at := mark.FindStringSubmatchIndex(preview)
	if at == nil {
		t.Fatalf("no mark in %.300q", preview)
	}
	left, _ = strconv.ParseInt(preview[at[2]:at[3]], 10, 64)
	offset, _ = strconv.ParseInt(preview[at[4]:at[5]], 10, 64)
	return preview[:at[0]], left, offset, strings.TrimPrefix(preview[at[1]:], "\n")
}

// checkShown fails where what is shown is over the limits or has what it must not.
func checkShown(t testing.TB, text string, limits Limits, markToo bool) {
	t.Helper()
	if !utf8.ValidString(text) {
		t.Errorf("not UTF-8: %.200q", text)
	}
	if i := strings.IndexFunc(text, func(r rune) bool { return unicode.IsControl(r) && r != '\n' && r != '\t' && r != '\r' }); i >= 0 {
		t.Errorf("control character at %d: %.200q", i, text[i:])
	}
	if strings.Contains(strings.ReplaceAll(text, "\r\n", "\n"), "\r") {
		t.Errorf("lone carriage return: %.200q", text)
	}
	mostBytes, mostLines := max(limits.MaxBytes, 0), max(limits.MaxLines, 0)
	if markToo && strings.HasPrefix(text, "[… ") && strings.HasSuffix(text, "]") && !strings.Contains(text, "\n") {
		mostBytes, mostLines = max(mostBytes, 400), max(mostLines, 1) // the mark alone
	}
	if len(text) > mostBytes || countLines(text) > mostLines {
		t.Errorf("%d bytes in %d lines, limits %+v", len(text), countLines(text), limits)
	}
}

// Seen to fail: with MaxBytes-1 in the measure, and with CRLF counted as altered.
func TestLaw17WithinLimitsUnchanged(t *testing.T) {
	k := newKeeper(t, Limits{MaxLines: 3, MaxBytes: 20})
	for _, text := range []string{"", "a", "a\nb\nc", "a\r\nb\r\n", strings.Repeat("x", 20), "\t\n\n", "a\ufffdb", "🟡🟡🟡🟡🟡"} {
		s := bounded(t, k, texts(text))
		if got := onlyText(t, s); got != text || s.Retained != nil {
			t.Errorf("%q became %q, retained %v", text, got, s.Retained)
		}
	}
	for _, text := range []string{strings.Repeat("x", 21), "a\nb\nc\nd", "a\nb\nc\n\n", "\x00", "a\rb", "\x1b", "\xff", "\u0085"} {
		if s := bounded(t, k, texts(text)); kept(t, k, s) != text {
			t.Errorf("%q is not kept as it came", text)
		}
	}
	if files, err := os.ReadDir(newKeeper(t, DefaultLimits()).options.Store.dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a store that keeps nothing has %v on disk", files)
	}
}

// Seen to fail: with the joined text put at the end of the content.
func TestLaw17TextBecomesOneBlock(t *testing.T) {
	k := newKeeper(t, Limits{MaxLines: 100, MaxBytes: 1000})
	image, link := tool.Image([]byte("png"), "image/png"), tool.Link("file:///a", "a")
	s := texts()
	s.Structured = json.RawMessage(`{"a":1}`)
	s.Content = []tool.Content{image, tool.Text(strings.Repeat("a", 900)), link, tool.Text(strings.Repeat("b", 900))}
	got := bounded(t, k, s, "streamed")
	types := ""
	for _, c := range got.Content {
		types += string(c.Type) + " "
	}
	if want := "text image resource_link "; types != want { // the streamed text is the first
		t.Errorf("blocks are %s, want %s", types, want)
	}
	if want := "streamed\n" + strings.Repeat("a", 900) + "\n" + strings.Repeat("b", 900); kept(t, k, got) != want {
		t.Error("what is kept is not the texts, joined by line ends")
	}
	if string(got.Structured) != `{"a":1}` {
		t.Errorf("structured value became %s", got.Structured)
	}
	got = bounded(t, k, s)
	if got.Content[0].Type != tool.ImageContent || got.Content[1].Type != tool.TextContent || len(got.Content) != 3 {
		t.Errorf("text is not at the place of the first text: %v", got.Content)
	}
	// Under the limits streamed text is a block before the others.
	got = bounded(t, k, texts("a", "b"), "str", "eamed")
	if len(got.Content) != 3 || got.Content[0].Text != "streamed" || got.Content[2].Text != "b" {
		t.Errorf("content is %v", got.Content)
	}
}

// Seen to fail: with the message left alone, and with what was streamed forgotten.
func TestLaw17FailuresToo(t *testing.T) {
	k := newKeeper(t, Limits{MaxLines: 100, MaxBytes: 1000})
	long := "begin " + strings.Repeat("x", 5000) + " end"
	failure := tool.Settlement{Status: tool.Failed, Error: &tool.Error{Kind: tool.KindFailure, Message: long}}
	s := bounded(t, k, failure)
	head, _, _, tail := parts(t, s.Error.Message)
	if !strings.HasPrefix(head, "begin ") || !strings.HasSuffix(tail, " end") || kept(t, k, s) != long {
		t.Errorf("message became %q", s.Error.Message)
	}
	if failure.Error.Message != long {
		t.Error("the caller's error was written to")
	}
	checkShown(t, s.Error.Message, k.options.Limits, false)
	failure.Error = &tool.Error{Kind: tool.KindFailure, Message: "no such file"}
	if s := bounded(t, k, failure); s.Error.Message != "no such file" || s.Retained != nil {
		t.Errorf("message became %q", s.Error.Message)
	}
	if s := bounded(t, k, failure, "compiling"); s.Error.Message != "compiling\nno such file" {
		t.Errorf("message became %q", s.Error.Message)
	}
	rejected := tool.Settlement{Status: tool.Rejected, Error: &tool.Error{Kind: tool.KindDenied, Message: "no"}}
	if s := bounded(t, k, rejected, long); s.Error.Message != "no" || s.Retained != nil {
		t.Errorf("a rejection became %+v", s)
	}
}

// Seen to fail: with a Bound that ignores what Write could not keep.
func TestLaw18RetainedOrFailed(t *testing.T) {
	k := NewKeeper(KeeperOptions{Limits: Limits{MaxLines: 10, MaxBytes: 10}})
	s := texts("0123456789a")
	b := k.Begin(testOrigin())
	if err := b.Bound(context.Background(), &s); kindOf(err) != tool.KindRetention || s.Content[0].Text != "0123456789a" {
		t.Errorf("without a store: %v, %v", err, s)
	}
	b = k.Begin(testOrigin())
	if _, err := b.Write([]byte("0123456789a")); kindOf(err) != tool.KindRetention {
		t.Errorf("Write without a store: %v", err)
	}
	s = texts("a")
	if err := b.Bound(context.Background(), &s); kindOf(err) != tool.KindRetention {
		t.Errorf("Bound behind it: %v", err)
	}
	if _, err := b.Write([]byte("a")); err == nil {
		t.Error("Write behind Bound succeeds")
	}
	b.Discard()
}

func kindOf(err error) tool.Kind {
	if e, ok := errors.AsType[*tool.Error](err); ok {
		return e.Kind
	}
	return ""
}

// Seen to fail: with the mark's lost bytes left out.
func TestLaw19LostIsSaid(t *testing.T) {
	k := newKeeper(t, Limits{MaxLines: 10, MaxBytes: 1000})
	s := texts(strings.Repeat("line\n", 100))
	s.Lost = 4711
	got := bounded(t, k, s)
	if text := onlyText(t, got); !strings.Contains(text, "dropped 4711 more") || got.Lost != 4711 {
		t.Errorf("lost is not said: %q", text)
	}
	list, err := k.options.Store.List()
	if err != nil || len(list) != 1 || list[0].Lost != 4711 || list[0].Origin != testOrigin() {
		t.Errorf("store says %+v, %v", list, err)
	}
}

// Seen to fail: with boundary answering n, and without joins in between.
func TestCaseH01CharacterBorders(t *testing.T) {
	limits := Limits{MaxLines: 100, MaxBytes: 1000}
	k := newKeeper(t, limits)
	for _, unit := range []string{"🟡", "e\u0301", "👩\u200d👩\u200d👧", "✌\ufe0f", "🇩🇪 ", "👍🏽", "é", "工"} {
		for offset := range 40 {
			raw := strings.Repeat("a", offset) + strings.Repeat(unit, 2000)
			text := onlyText(t, bounded(t, k, texts(raw)))
			checkShown(t, text, limits, false)
			if strings.ContainsRune(text, utf8.RuneError) {
				t.Fatalf("%q at %d: U+FFFD", unit, offset)
			}
			head, left, at, tail := parts(t, text)
			head = strings.TrimSuffix(head, "\n")
			cluster := strings.TrimSpace(unit)
			without := func(text string) string { return strings.Trim(strings.ReplaceAll(text, cluster, ""), " ") }
			if rest := strings.TrimLeft(head, "a"); without(rest) != "" {
				t.Fatalf("%q at %d: head ends in a cluster: %q", unit, offset, rest)
			}
			if without(tail) != "" {
				t.Fatalf("%q at %d: tail begins in a cluster: %q", unit, offset, tail)
			}
			if int(at) != len(head) || len(head)+int(left)+len(tail) != len(raw) {
				t.Fatalf("%q at %d: %d + %d + %d is not %d", unit, offset, at, left, len(tail), len(raw))
			}
		}
	}
}

// Seen to fail: with headCut cutting at lines only.
func TestCaseH02HugeLine(t *testing.T) {
	k := newKeeper(t, DefaultLimits())
	const size = 50 << 20
	for _, end := range []string{"END", "END\n", "\nEND\n"} {
		b := k.Begin(testOrigin())
		chunk := bytes.Repeat([]byte("x"), 64<<10)
		for range size / len(chunk) {
			if _, err := b.Write(chunk); err != nil {
				t.Fatal(err)
			}
		}
		_, _ = b.Write([]byte(end))
		s := texts()
		if err := b.Bound(context.Background(), &s); err != nil {
			t.Fatal(err)
		}
		text := onlyText(t, s)
		checkShown(t, text, DefaultLimits(), false)
		if !strings.HasPrefix(text, "xxx") || !strings.HasSuffix(text, end) || len(text) < 40<<10 && end != "\nEND\n" {
			t.Errorf("preview of %d bytes begins %.10q", len(text), text)
		}
		if got := s.Retained[0].Bytes; got != int64(size+len(end)) {
			t.Errorf("retained %d bytes", got)
		}
	}
}

// Seen to fail: with half the lines for the head alone, and with a budget that
// forgets the mark.
func TestCaseH03HeadAndTail(t *testing.T) {
	k := newKeeper(t, DefaultLimits())
	var raw strings.Builder
	for i := range 300 {
		fmt.Fprintf(&raw, "%04d %s\n", i, strings.Repeat("w", 2000))
	}
	raw.WriteString("FAILED here")
	text := onlyText(t, bounded(t, k, texts(raw.String())))
	checkShown(t, text, DefaultLimits(), false)
	head, left, at, tail := parts(t, text)
	if !strings.HasPrefix(head, "0000 ") || !strings.HasSuffix(tail, "FAILED here") {
		t.Errorf("head %.20q, tail ends %q", head, tail[len(tail)-20:])
	}
	if !strings.HasSuffix(head, "w\n") || !strings.HasPrefix(tail, "02") || int(at) != len(head) || len(head)+int(left)+len(tail) != raw.Len() {
		t.Errorf("not cut at lines: head %d, left %d, tail %d of %d", len(head), left, len(tail), raw.Len())
	}

	text = onlyText(t, bounded(t, k, texts(strings.Repeat("y\n", 100_000))))
	checkShown(t, text, DefaultLimits(), false)
	if got := countLines(text); got != 2000 || !strings.Contains(text, " 98001 lines.") {
		t.Errorf("%d lines", got)
	}

	for _, limits := range []Limits{{}, {1, 1}, {10, 10}, {0, 1000}, {1, 1000}, {2, 1000}, {3, 1000}, {1000, 0}, {1000, 200}, {1000, 250}, {1000, 300}, {-1, -1}} {
		for _, raw := range []string{"", "a", "\n", "🟡🟡🟡🟡", strings.Repeat("🟡\n", 500), "\xff\xff", "\x1b[3", strings.Repeat("\xff", 400)} {
			s := bounded(t, newKeeper(t, limits), texts(raw))
			checkShown(t, onlyText(t, s), limits, true)
		}
	}
}

// Seen to fail: with the structured value kept beside its preview, without the
// ceiling, and with a string taken for content of its own.
func TestCaseH09StructuredValue(t *testing.T) {
	k := newKeeper(t, DefaultLimits())
	large := json.RawMessage(`{"a":"` + strings.Repeat("x", 5<<20) + `"}`)
	s := bounded(t, k, tool.Settlement{Status: tool.Completed, Structured: large})
	reply, _ := json.Marshal(s)
	if s.Structured != nil || len(reply) > DefaultLimits().MaxBytes+4<<10 || kept(t, k, s) != string(large) {
		t.Errorf("reply has %d bytes, structured %d", len(reply), len(s.Structured))
	}
	if head, _, _, tail := parts(t, onlyText(t, s)); !strings.HasPrefix(head, `{"a":"x`) || !strings.HasSuffix(tail, `x"}`) {
		t.Errorf("head %.20q", head)
	}
	list, _ := k.options.Store.List()
	if list[0].Kind != KindJSON {
		t.Errorf("kept as %q", list[0].Kind)
	}

	withContent := texts("a")
	withContent.Structured = large
	b := k.Begin(testOrigin())
	if err := b.Bound(context.Background(), &withContent); kindOf(err) != tool.KindTooLarge {
		t.Errorf("beside content: %v", err)
	}
	withContent.Structured = json.RawMessage(`"` + strings.Repeat("x", MaxStructured-2) + `"`)
	if s := bounded(t, k, withContent); len(s.Structured) != MaxStructured || onlyText(t, s) != "a" {
		t.Error("a structured value within the ceiling is not kept as it is")
	}
	// A string that is also given as text is no content of its own.
	words := strings.Repeat("word \"quoted\"\n", 200_000)
	mirror := texts(words)
	mirror.Structured, _ = json.Marshal(words)
	if s := bounded(t, k, mirror); s.Structured != nil || kept(t, k, s) != words {
		t.Errorf("a string became %d bytes beside its preview", len(s.Structured))
	}
	mirror = texts(words, "more")
	mirror.Structured, _ = json.Marshal(words)
	if err := k.Begin(testOrigin()).Bound(context.Background(), &mirror); kindOf(err) != tool.KindTooLarge {
		t.Errorf("a string beside other content: %v", err)
	}
	small := json.RawMessage(`{"a":1}`)
	if s := bounded(t, k, tool.Settlement{Status: tool.Completed, Structured: small}); string(s.Structured) != string(small) || s.Content != nil {
		t.Errorf("a small value became %+v", s)
	}
}

// Seen to fail: without the ceiling of blocks, and with the count left out of the mark.
func TestCaseH10ManyParts(t *testing.T) {
	k := newKeeper(t, DefaultLimits())
	s := texts()
	for range 20_000 {
		s.Content = append(s.Content, tool.Text(strings.Repeat("t", 100)))
	}
	text := onlyText(t, bounded(t, k, s))
	checkShown(t, text, DefaultLimits(), false)
	if !strings.Contains(text, "in 20000 blocks") {
		t.Error("the mark does not say how many blocks")
	}

	s = texts()
	for i := range MaxBlocks + 1 {
		s.Content = append(s.Content, tool.Text(strconv.Itoa(i)))
	}
	if got := bounded(t, k, s); countLines(onlyText(t, got)) != MaxBlocks+1 || got.Retained != nil {
		t.Errorf("blocks are not merged without loss: %v", got)
	}

	nested := strings.Repeat("[", 10_000) + strings.Repeat("]", 10_000)
	got := bounded(t, k, tool.Settlement{Status: tool.Completed, Structured: json.RawMessage(nested)})
	if string(got.Structured) != nested {
		t.Error("a nested value within the limits changed")
	}

	media := func(n, size int) []tool.Content {
		var out []tool.Content
		for range n {
			out = append(out, tool.Image(make([]byte, size), "image/png"))
		}
		return out
	}
	tests := []struct {
		name    string
		content []tool.Content
		want    tool.Kind
	}{
		{"as many as may be", media(MaxBlocks, 10), ""},
		{"too many", media(MaxBlocks+1, 10), tool.KindTooLarge},
		{"text beside as many as may be", append(media(MaxBlocks, 10), tool.Text("a")), tool.KindTooLarge},
		{"as large as may be", media(16, 1<<20), ""},
		{"together too large", append(media(16, 1<<20), tool.Audio([]byte{1}, "audio/wav")), tool.KindTooLarge},
		{"links", []tool.Content{tool.Link("file:///"+strings.Repeat("a", MaxLinks), "")}, tool.KindTooLarge},
	}
	for _, tt := range tests {
		s := tool.Settlement{Status: tool.Completed, Content: tt.content}
		if err := k.Begin(testOrigin()).Bound(context.Background(), &s); kindOf(err) != tt.want {
			t.Errorf("%s: %v, want %q", tt.name, err, tt.want)
		}
	}
}

// run calls one of the Keeper's tools.
func run(t testing.TB, k *Keeper, session, name string, input any) (tool.Result, error) {
	t.Helper()
	raw, err := json.Marshal(input)
	if err != nil {
		t.Fatal(err)
	}
	in, err := schema.CompileInput(k.Tools()[name].Input)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := in.Decode(raw); err != nil {
		t.Fatal(err)
	}
	result, err := k.Tools()[name].Execute(context.Background(), tool.Call{
		Identity: tool.Identity{Session: session, Agent: "a", Message: "m", Call: "c"}, Tool: "host/" + name, Input: raw,
	})
	if err == nil {
		out, err := schema.Compile(k.Tools()[name].Output)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := out.Decode(result.Output); err != nil {
			t.Errorf("output of %s: %v", name, err)
		}
	}
	return result, err
}
