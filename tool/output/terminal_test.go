package output

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/toolhost/toolhost/tool"
)

// shown is what a terminal shows of a text, in pieces of a size.
func shown(raw string, size int) string {
	m := newMeasure(Limits{MaxLines: 1 << 30, MaxBytes: 1 << 20})
	for p := []byte(raw); len(p) > 0; p = p[min(len(p), size):] {
		m.write(p[:min(len(p), size)])
	}
	v := m.verdict()
	return string(v.all.text)
}

// Seen to fail: without the private parameters of CSI, with BEL as the only end of
// OSC, and with C1 let through.
func TestCaseH11Controls(t *testing.T) {
	tests := []struct{ raw, want string }{
		{"\x1b[31mred\x1b[0m \x1b[2K\x1b[A\x1b[?25l\x1b]8;;http://x\x1b\\l\x1b]0;t\a \x1bP1q\x1b\\ end", "red l  end"},
		{"a\x1b[<0;1;2Mb\x1b[=3hc\x1b[>1ud\x1b[1 qe", "abcde"},
		{"a\x1b]0;title\x9cb", "a"}, // 0x9c alone is no end; the string ends with its line
		{"a\x1b]0;title\u009cb", "ab"},
		{"a\x1b]0;unfinished\nb", "a\nb"},
		{"a\x1b[31\nb", "a\nb"},
		{"a\x1b[31\r\nb", "a\nb"},
		{"a\x1b_apc\x1b\\b\x1b^pm\x1b\\c\x1bXsos\x1b\\d", "abcd"},
		{"a\x1b7b\x1b8c\x1b=d\x1b(Be\x1b#8f\x1bcg", "abcdefg"},
		{"a\x1b\x1b[1mb\x1b]0;x\x1b[1mc", "abc"},
		{"a\x1b", "a"},
		{"a\x1b\u00e9b", "aéb"},
		{"a\x1b[3\u00e9b", "aéb"},
		{"a\x1b]0;ti\x18b\x1b[3\x18c", "abc"},
		{"a\u009b31mb\u009d0;t\ac\u0090q\u009cd\u0085e", "abcde"},
		{"a\u009b31\u00e9b", "aéb"},
		{"a\x00\x01\x08\x7fb\tc\v\f", "ab\tc"},
		{"a\xff\xfeb\xe2\x82c", "a\ufffd\ufffdb\ufffd\ufffdc"},
		{"\xe2\x1b[m\x82\xac", "€"},
	}
	for _, tt := range tests {
		for size := 1; size <= len(tt.raw); size++ {
			if got := shown(tt.raw, size); got != tt.want {
				t.Errorf("%q by %d shows %q, want %q", tt.raw, size, got, tt.want)
				break
			}
		}
	}

	// Wherever the cut is, nothing of a sequence is left.
	limits := Limits{MaxLines: 100, MaxBytes: 1000}
	k := newKeeper(t, limits)
	for _, sequence := range []string{"\x1b[31;1m", "\x1b[?25l", "\x1b]8;;http://x\x1b\\", "\x1b]0;t\a", "\x1bP1q\x1b\\", "\x1b(B", "\u009b31m"} {
		for offset := range 30 {
			raw := strings.Repeat("x", offset) + strings.Repeat(sequence+strings.Repeat("x", 20), 300)
			s := bounded(t, k, texts(raw))
			text := onlyText(t, s)
			checkShown(t, text, limits, false)
			head, _, _, tail := parts(t, text)
			if rest := strings.Trim(head+tail, "x\n"); rest != "" {
				t.Fatalf("%q at %d leaves %q", sequence, offset, rest)
			}
			if kept(t, k, s) != raw {
				t.Fatal("raw text is not kept")
			}
		}
	}
}

// Seen to fail: with the carriage return deleted, and with it taken for a line end.
func TestCaseH12CarriageReturn(t *testing.T) {
	var progress strings.Builder
	for i := range 5000 {
		fmt.Fprintf(&progress, "\r%d%%", i+1)
	}
	progress.WriteString("\r\ndone\r\n")
	tests := []struct{ raw, want string }{
		{progress.String(), "5000%\ndone\n"},
		{"abc\rX", "Xbc"},
		{"abc\rX\r\n", "Xbc\n"},
		{"abc\r\r\nd", "abc\nd"},
		{"abc\r", "abc"},
		{"äöü\rxy", "xyü"},
		{"abc\rö€🟡d", "ö€🟡d"},
		{"ne\u0301e\rxy", "xye"},
		{"ne\rxo\u0301", "xo\u0301"},
		{"abc\r\x1b[32mX\x1b[0m\n", "Xbc\n"},
		{"abc\r\x1b[KX\nd", "X\nd"},
		{"abc\r\x1b[2KX", "X"},
		{"abc\x1b[2K\rX", "X"},
		{"abc\x1b[2K", "abc"},
		{"abc\rX\x1b[0K", "X"},
		{"abc\r\xe2\x82X", "\ufffd\ufffdX"},
		{"abc\r\xe2", "\ufffdbc"},
		{"a\rb\rc\rd", "d"},
		{strings.Repeat("x", overwriteLimit) + "\ry", "y" + strings.Repeat("x", overwriteLimit-1)},
		{strings.Repeat("x", overwriteLimit+1) + "\ry\rz", strings.Repeat("x", overwriteLimit+1) + "\nz"},
		{strings.Repeat("x", overwriteLimit+1) + "\r\ny", strings.Repeat("x", overwriteLimit+1) + "\ny"},
	}
	for _, tt := range tests {
		for _, size := range []int{1, 2, 3, 7, len(tt.raw)} {
			if got := shown(tt.raw, size); got != tt.want {
				t.Errorf("%.60q by %d shows %.60q, want %.60q", tt.raw, size, got, tt.want)
			}
		}
	}

	k := newKeeper(t, DefaultLimits())
	s := bounded(t, k, texts(progress.String()))
	if got := onlyText(t, s); got != "5000%\ndone\n" {
		t.Errorf("preview is %.60q", got)
	}
	if kept(t, k, s) != progress.String() {
		t.Error("raw text is not kept")
	}
	// A flood over the limits that shows little is no cut.
	flood := strings.Repeat(progress.String(), 20)
	if got := onlyText(t, bounded(t, k, texts(), flood)); got != strings.Repeat("5000%\ndone\n", 20) {
		t.Errorf("preview of a flood is %.60q", got)
	}
}

// Redrawing a line in hostile ways takes time in proportion to the text.
func TestHostileRedraws(t *testing.T) {
	line := strings.Repeat("x", overwriteLimit)
	for _, frame := range []string{"\rä\rx", "\r", "\r\u0301", "\x1b[K", "\r\x1b[2Kä", "\x1b", "\x1b]"} {
		m := newMeasure(DefaultLimits())
		m.write([]byte(line))
		m.write(bytes.Repeat([]byte(frame), 1<<20/len(frame)))
		if len(m.line.text)+len(m.under) > 5*overwriteLimit || len(m.room) > 10*overwriteLimit || len(m.line.spans) > 5*overwriteLimit {
			t.Errorf("%q: a line of %d bytes in %d spans is held", frame, len(m.line.text)+len(m.under), len(m.line.spans))
		}
	}
}

// overwritten is what a terminal shows of whole characters, ends of lines and
// carriage returns, in the simplest way.
func overwritten(raw string) string {
	var all strings.Builder
	var cells []string
	cursor := 0
	for _, r := range raw {
		char := string(r)
		switch {
		case r == '\n':
			all.WriteString(strings.Join(cells, "") + char)
			cells, cursor = nil, 0
		case r == '\r':
			cursor = 0
		case joins(r): // a cell of its own at the cursor, which goes with the one before it
			cells = slices.Insert(cells, cursor, char)
			cursor++
		case cursor == len(cells):
			cells = append(cells, char)
			cursor++
		default:
			end := cursor + 1
			for end < len(cells) && joins([]rune(cells[end])[0]) {
				end++
			}
			cells = slices.Replace(cells, cursor, end, char)
			cursor++
		}
	}
	return all.String() + strings.Join(cells, "")
}

// Seen to fail: with a run of single bytes that takes the base of a joined character,
// and with what was written since the last return put behind what it did not reach.
func TestOverwritingAsTheModel(t *testing.T) {
	parts := []string{"\r", "\r", "\n", "a", "bcd", "éü", "\u0301", "\u20d0\u0301", "🟡", "\ufe0f", strings.Repeat("x", 40), strings.Repeat("é", 30)}
	random := rand.New(rand.NewPCG(1, 2))
	for range 20_000 {
		var text strings.Builder
		for range 1 + random.IntN(20) {
			text.WriteString(parts[random.IntN(len(parts))])
		}
		raw := strings.ReplaceAll(text.String(), "\r\n", "\n")
		m := newMeasure(Limits{MaxLines: 1 << 30, MaxBytes: 1 << 20})
		size := 1 + random.IntN(len(raw))
		for p := []byte(raw); len(p) > 0; p = p[min(len(p), size):] {
			m.write(p[:min(len(p), size)])
		}
		all := m.verdict().all
		if got, want := string(all.text), overwritten(raw); got != want {
			t.Fatalf("%q by %d shows %q, want %q", raw, size, got, want)
		}
		end := int64(0)
		for _, s := range all.spans {
			if s.raw < end || s.rawLen < 0 || s.raw+s.rawLen > int64(len(raw)) {
				t.Fatalf("%q by %d came from %v", raw, size, all.spans)
			}
			end = s.raw + s.rawLen
		}
	}
}

// FuzzTerminal compares what is shown of a text in one piece and in others.
func FuzzTerminal(f *testing.F) {
	for _, seed := range []string{"abc\rX", "\x1b[31mred\x1b[0m", "\x1b]0;t\a", "a\r\nb\r\n", "\u009b1mx", "\xff\xe2\x82", "ä\rö\x1b[K\r\x1b[2Kx", "\r\xe2\r\n"} {
		f.Add([]byte(seed), uint8(1), uint16(40))
		f.Add([]byte(strings.Repeat(seed, 50)), uint8(3), uint16(0))
	}
	f.Fuzz(func(t *testing.T, raw []byte, size uint8, long uint16) {
		text := strings.Repeat("l", int(long)%(2*overwriteLimit)) + string(raw)
		got := shown(text, 1+int(size))
		if want := shown(text, max(1, len(text))); got != want {
			t.Fatalf("in pieces of %d: %q, want %q", 1+int(size), got, want)
		}
		if !utf8.ValidString(got) || strings.ContainsAny(got, "\x1b\r\x00\u009b\x7f") {
			t.Fatalf("shows %q", got)
		}
		if again := shown(got, len(got)+1); again != got {
			t.Fatalf("%q shows %q", got, again)
		}
		if strings.IndexByte(text, '\r') < 0 && strings.Count(got, "\n") != strings.Count(text, "\n") {
			t.Fatalf("%q has other lines than %q", got, text)
		}
	})
}

// FuzzBound bounds what a call gives, in any pieces.
func FuzzBound(f *testing.F) {
	f.Add([]byte(strings.Repeat("line\n", 300)), uint16(100), uint16(500), uint8(7), "block")
	f.Add([]byte(strings.Repeat("🟡\x1b[1m", 300)), uint16(100), uint16(500), uint8(1), "")
	f.Add([]byte("a\rb\xff"), uint16(0), uint16(0), uint8(1), "\r")
	f.Add([]byte(strings.Repeat("\xff", 800)), uint16(10), uint16(900), uint8(3), "\n")
	k := newKeeper(f, Limits{})
	f.Fuzz(func(t *testing.T, raw []byte, lines, size uint16, piece uint8, block string) {
		limits := Limits{MaxLines: int(lines) % 200, MaxBytes: int(size) % 2000}
		k := NewKeeper(KeeperOptions{Store: k.options.Store, Location: testRoot, Limits: limits})
		var pieces []string
		for p := raw; len(p) > 0; p = p[min(len(p), 1+int(piece)):] {
			pieces = append(pieces, string(p[:min(len(p), 1+int(piece))]))
		}
		one, many := bounded(t, k, texts(block), string(raw)), bounded(t, k, texts(block), pieces...)
		defer forget(t, k, one, many)
		if got, want := withoutHandle(many), withoutHandle(one); got != want {
			t.Fatalf("in pieces: %q, want %q", got, want)
		}
		if one.Retained == nil {
			return
		}
		checkShown(t, onlyText(t, one), limits, true)
		want := string(raw) + block
		if len(raw) > 0 && raw[len(raw)-1] != '\n' {
			want = string(raw) + "\n" + block
		}
		if got := kept(t, k, many); got != want {
			t.Fatalf("kept %q, want %q", got, want)
		}
	})
}

func withoutHandle(s tool.Settlement) string {
	text := fmt.Sprintf("%q", s.Content)
	for _, r := range s.Retained {
		text = strings.ReplaceAll(text, r.Handle, "HANDLE")
	}
	return text
}

func forget(t testing.TB, k *Keeper, settlements ...tool.Settlement) {
	for _, s := range settlements {
		for _, r := range s.Retained {
			if err := k.options.Store.Remove(r.Handle); err != nil {
				t.Error(err)
			}
		}
	}
}
