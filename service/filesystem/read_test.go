package filesystem

import (
	"bytes"
	"crypto/sha256"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/toolhost/toolhost/service"
	"github.com/toolhost/toolhost/service/filesystem/internal/beneath"
)

// readAs reads a page on behalf of a session.
func readAs(t testing.TB, f *FileSystem, session, path string, query service.ReadQuery) (service.Page, error) {
	t.Helper()
	r, err := f.ResolveRoot(t.Context(), Caller{Gate: &rules{}, Session: session}, path)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	return r.Read(t.Context(), query)
}

// wantSaw checks what a session saw of a file; nil is nothing.
func wantSaw(t testing.TB, f *FileSystem, session, path string, content []byte) {
	t.Helper()
	got, ok, err := f.seen(t.Context(), session, path)
	if ok != (content != nil) || ok && got != sha256.Sum256(content) || err != nil {
		t.Errorf("%q saw of %s: %x, %v, %v; want the digest of %d bytes", session, path, got, ok, err, len(content))
	}
}

// Any page of a file is evidence of the whole of it, under its resolved path, for the
// session that read it and no other. What was found, listed, refused, or read to
// prepare something is none.
//
// Seen to fail: with the spelled path; with the page's text hashed; with what a
// preparation reads.
func TestLaw28ReadingIsEvidence(t *testing.T) {
	root := t.TempDir()
	small, large := []byte("one\r\ntwo\nthree"), bytes.Repeat([]byte("some line\n"), 100_000)
	write(t, root, "dir/small | "+string(small), "link -> dir", "empty", "bin | \x00", "other | x")
	if err := os.WriteFile(filepath.Join(root, "large"), large, 0o600); err != nil {
		t.Fatal(err)
	}
	f := open(t, root)
	for _, tt := range []struct {
		session, path, resolved string
		query                   service.ReadQuery
		content                 []byte
	}{
		{"a", "link/small", "dir/small", service.ReadQuery{Offset: 2, Limit: 1}, small},
		{"a", "large", "large", service.ReadQuery{Offset: 50_000, Limit: 3}, large},
		{"b", "large", "large", service.ReadQuery{Offset: -1}, large},
		{"a", "empty", "empty", service.ReadQuery{}, []byte{}},
	} {
		wantSaw(t, f, tt.session, tt.resolved, nil)
		if _, err := readAs(t, f, tt.session, tt.path, tt.query); err != nil {
			t.Fatal(err)
		}
		wantSaw(t, f, tt.session, tt.resolved, tt.content)
	}
	wantSaw(t, f, "b", "dir/small", nil)
	wantSaw(t, f, "a", "link/small", nil)

	if _, err := readAs(t, f, "", "other", service.ReadQuery{}); err != nil {
		t.Fatal(err)
	}
	wantSaw(t, f, "", "other", nil)
	for path, query := range map[string]service.ReadQuery{"bin": {}, "other": {Offset: 2}} {
		if _, err := readAs(t, f, "a", path, query); err == nil {
			t.Errorf("%s was read", path)
		}
		wantSaw(t, f, "a", path, nil)
	}
	r, err := f.ResolveRoot(t.Context(), Caller{Gate: &rules{}, Session: "a"}, ".")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.Grep(t.Context(), service.GrepQuery{Pattern: "x"}); err != nil {
		t.Fatal(err)
	}
	if _, err := r.List(t.Context(), service.ListQuery{}); err != nil {
		t.Fatal(err)
	}
	preparing, err := f.ResolveRoot(t.Context(), Caller{Gate: &rules{}, Session: "a", Preparing: true}, "other")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := preparing.Read(t.Context(), service.ReadQuery{}); err != nil {
		t.Fatal(err)
	}
	wantSaw(t, f, "a", "other", nil)
}

// What a session saw is what it read last: the content counts, and not the time.
func TestLaw28EvidenceIsTheContent(t *testing.T) {
	root := t.TempDir()
	write(t, root, "f | one")
	f := open(t, root)
	for _, text := range []string{"one", "two", "two", "one"} {
		write(t, root, "f | "+text)
		if _, err := readAs(t, f, "s", "f", service.ReadQuery{}); err != nil {
			t.Fatal(err)
		}
		wantSaw(t, f, "s", "f", []byte(text))
	}
	other, now := open(t, root), time.Now().Add(time.Hour)
	if err := os.Chtimes(filepath.Join(root, "f"), now, now); err != nil {
		t.Fatal(err)
	}
	wantSaw(t, f, "s", "f", []byte("one"))
	wantSaw(t, other, "s", "f", nil) // which has no store to know it from
}

// look is a handle on a file for a session, and the file as it is.
func look(t *testing.T, f *FileSystem, path string, at time.Time) view {
	t.Helper()
	r, err := f.ResolveRoot(t.Context(), Caller{Gate: &rules{}, Session: "s"}, path)
	if err != nil {
		t.Fatal(err)
	}
	info, err := beneath.Stat(r.fd())
	if err != nil {
		t.Fatal(err)
	}
	return view{root: r, info: info, at: at}
}

// A file that changes while it is read is evidence of nothing, though its page is
// given; and one that changed too shortly before to show it, only if what was hashed
// has the page. Seen to fail: without the second look at the file; without the second
// reading.
func TestLaw28ChangedWhileItIsRead(t *testing.T) {
	root := t.TempDir()
	line := strings.Repeat("x", 99) + "\n"
	large := strings.Repeat(line, wholeBytes/len(line)*2)
	for name, text := range map[string]string{"small": "one\n", "large": large} {
		t.Run(name, func(t *testing.T) {
			write(t, root, name+" | "+text)
			f := open(t, root)
			v := look(t, f, name, time.Now())
			file, err := os.OpenFile(filepath.Join(root, name), os.O_WRONLY|os.O_APPEND, 0)
			if err != nil {
				t.Fatal(err)
			}
			defer file.Close()
			if _, err := file.WriteString("more\n"); err != nil {
				t.Fatal(err)
			}
			read := v.small
			if name == "large" {
				read = v.large
			}
			if page, err := read(t.Context(), service.ReadQuery{Limit: 1}); err != nil || page.Text != text[:strings.Index(text, "\n")+1] {
				t.Errorf("got %.20q, %v", page.Text, err)
			}
			wantSaw(t, f, "s", name, nil)
		})
	}
	f := open(t, root)
	v := look(t, f, "large", time.Now())
	page := service.Page{Text: "what it was\n", First: 1, Lines: 1}
	if _, err := v.hash(t.Context(), service.ReadQuery{Limit: 1}, page); err == nil {
		t.Error("a digest of something else than was read")
	}
}

// The digest of a file that rests is worked out once, and of one that changed a moment
// ago each time. Seen to fail: with Keep left out; with nothing but Keep in it.
func TestDigestsAreRemembered(t *testing.T) {
	root := t.TempDir()
	write(t, root, "f | "+strings.Repeat("line\n", wholeBytes))
	f := open(t, root)
	for _, tt := range []struct {
		at   time.Time
		want bool
	}{{time.Now(), false}, {time.Now().Add(time.Minute), true}} {
		v := look(t, f, "f", tt.at)
		if _, err := v.large(t.Context(), service.ReadQuery{}); err != nil {
			t.Fatal(err)
		}
		if _, known := f.evidence.Digest(v.info); known != tt.want {
			t.Errorf("known: %v, want %v", known, tt.want)
		}
	}
	changed := time.Now().Add(-time.Hour)
	if err := os.Chtimes(filepath.Join(root, "f"), changed, changed); err != nil {
		t.Fatal(err)
	}
	if _, known := f.evidence.Digest(look(t, f, "f", time.Now()).info); known {
		t.Error("another change time, and the digest is still known")
	}
}

// What could not be replaced is not hashed. Seen to fail: without the bounds in large and in hashFile.
func TestTooLargeToBeEvidence(t *testing.T) {
	root := t.TempDir()
	write(t, root, "f | "+strings.Repeat("line\n", 10_000))
	for size, want := range map[int64]bool{service.MaxContent: true, service.MaxContent + 1: false} {
		if err := os.Truncate(filepath.Join(root, "f"), size); err != nil {
			t.Fatal(err)
		}
		f := open(t, root)
		if _, err := readAs(t, f, "s", "f", service.ReadQuery{Limit: 1}); err != nil {
			t.Fatal(err)
		}
		if _, ok, err := f.seen(t.Context(), "s", "f"); ok != want || err != nil {
			t.Errorf("%d bytes: seen %v, %v, want %v", size, ok, err, want)
		}
	}
}

// BenchmarkRead reads in turn with and without a session, and reports the median of how
// many times as long the first takes.
func BenchmarkRead(b *testing.B) {
	root := b.TempDir()
	write(b, root, "small | "+strings.Repeat("some text that is forty bytes in length\n", 256))
	page := strings.Repeat("some text that is forty bytes in length\n", 60<<20/40)
	write(b, root, "large | "+page)
	time.Sleep(2500 * time.Millisecond) // until the files rest
	for _, bm := range []struct {
		name, path string
		queries    []service.ReadQuery
	}{
		{"10 KiB", "small", []service.ReadQuery{{}}},
		{"paging through 60 MiB", "large", pages(60<<20/40, 75_000)},
	} {
		b.Run(bm.name, func(b *testing.B) {
			f := open(b, root)
			once := func(session string) time.Duration {
				start := time.Now()
				for _, query := range bm.queries {
					if _, err := readAs(b, f, session, bm.path, query); err != nil {
						b.Fatal(err)
					}
				}
				return time.Since(start)
			}
			once("")
			var ratios []float64
			for b.Loop() {
				with := once("s")
				ratios = append(ratios, with.Seconds()/once("").Seconds())
			}
			b.ReportMetric(ratios[0], "x-first")
			b.ReportMetric(median(ratios), "x-without")
		})
	}
}

// pages are the queries for every nth page of a file, since each of them counts the
// lines of all of it.
func pages(lines, every int) []service.ReadQuery {
	var queries []service.ReadQuery
	for offset := 1; offset <= lines; offset += every {
		queries = append(queries, service.ReadQuery{Offset: offset, Limit: 1000})
	}
	return queries
}
