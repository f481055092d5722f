package filesystem

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math"
	"os"
	"path/filepath"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/toolhost/toolhost/service"
)

// readBytes reads bytes to their end.
func readBytes(ctx context.Context, r *Root, query service.BytesQuery) ([]byte, error) {
	b, err := r.Bytes(ctx, query)
	if err != nil {
		return nil, err
	}
	var all []byte
	for {
		chunk, err := b.Next(ctx)
		if errors.Is(err, io.EOF) {
			return all, nil
		}
		if err != nil {
			return all, err
		}
		if len(chunk) == 0 || len(chunk) > service.ChunkBytes {
			return all, errors.New("a chunk of no allowed size")
		}
		all = append(all, chunk...)
	}
}

// What is read is a part of the file, whatever is in it.
func TestBytesAreTheFile(t *testing.T) {
	root := t.TempDir()
	content := make([]byte, 3*service.ChunkBytes+17)
	for i := range content {
		content[i] = byte(i * i >> 7)
	}
	if err := os.WriteFile(filepath.Join(root, "f"), content, 0o600); err != nil {
		t.Fatal(err)
	}
	r := handleOn(t, root, "f")
	size := int64(len(content))
	rapid.Check(t, func(t *rapid.T) {
		query := service.BytesQuery{
			Offset: rapid.Int64Range(0, size+5).Draw(t, "offset"),
			Length: rapid.OneOf(rapid.Int64Range(0, size+5), rapid.Just(int64(math.MaxInt64))).Draw(t, "length"),
		}
		want := content[min(query.Offset, size):]
		if query.Length > 0 {
			want = want[:min(query.Length, int64(len(want)))]
		}
		if got, err := readBytes(context.Background(), r, query); !bytes.Equal(got, want) || err != nil {
			t.Fatalf("got %d bytes, %v, want %d", len(got), err, len(want))
		}
	})
	for _, query := range []service.BytesQuery{{Offset: -1}, {Length: -1}} {
		_, err := r.Bytes(t.Context(), query)
		wantError(t, err, service.FileBadQuery, "neither may be below 0")
	}
	if got, err := readBytes(t.Context(), r, service.BytesQuery{Offset: math.MaxInt64, Length: 1}); len(got) > 0 || err != nil {
		t.Errorf("far behind the end: %d bytes, %v", len(got), err)
	}
}

// Reading bytes is reading: the gate is asked, and after the handle there are none.
func TestLaw32BytesAskTheGate(t *testing.T) {
	root := t.TempDir()
	write(t, root, "f | text", "dir/", "link -> f")
	gate := &rules{deny: func(action, resource string) bool { return action == service.ActionRead && resource == "f" }}
	f := open(t, root)
	for _, path := range []string{"f", "link"} {
		if _, err := resolve(t, f, gate, path).Bytes(t.Context(), service.BytesQuery{}); err == nil {
			t.Errorf("%s was read", path)
		}
	}
	_, err := resolve(t, f, gate, "dir").Bytes(t.Context(), service.BytesQuery{})
	wantError(t, err, service.FileIsDirectory, "dir: is a directory")

	r := resolve(t, f, &rules{}, "f")
	b, err := r.Bytes(t.Context(), service.BytesQuery{})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	why := errors.New("enough")
	cancel(why)
	if _, err := b.Next(ctx); !errors.Is(err, why) {
		t.Errorf("got %v, want %v", err, why)
	}
	r.Close()
	_, err = b.Next(t.Context())
	wantError(t, err, service.FileStaleHandle, "f: the handle is closed")
}

// A file of which all bytes were read, from the first to the last, is evidence; a part of
// it is none, nor is what changed meanwhile, or was read to prepare something.
//
// Seen to fail: with the digest of what was read of any part; without the look at how far
// a limit reached.
func TestLaw28BytesAreEvidence(t *testing.T) {
	root := t.TempDir()
	content := bytes.Repeat([]byte("\x00some bytes\n"), 20_000)
	size := int64(len(content))
	write(t, root, "empty | ")
	for _, name := range []string{"whole", "exactly", "more", "part", "rest", "changed", "prepared", "left"} {
		if err := os.WriteFile(filepath.Join(root, name), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	f := open(t, root)
	for _, tt := range []struct {
		path  string
		query service.BytesQuery
		want  []byte
	}{
		{"whole", service.BytesQuery{}, content},
		{"exactly", service.BytesQuery{Length: size}, content},
		{"more", service.BytesQuery{Length: size + 1}, content},
		{"empty", service.BytesQuery{}, []byte{}},
		{"part", service.BytesQuery{Length: size - 1}, nil},
		{"rest", service.BytesQuery{Offset: 1}, nil},
		{"prepared", service.BytesQuery{}, nil},
	} {
		r, err := f.ResolveRoot(t.Context(), Caller{Gate: &rules{}, Session: "s", Preparing: tt.path == "prepared"}, tt.path)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := readBytes(t.Context(), r, tt.query); err != nil {
			t.Fatal(err)
		}
		wantSaw(t, f, "s", tt.path, tt.want)
	}
	for _, path := range []string{"changed", "left"} {
		b, err := look(t, f, path, time.Now()).root.Bytes(t.Context(), service.BytesQuery{})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := b.Next(t.Context()); err != nil {
			t.Fatal(err)
		}
		if path == "left" {
			continue
		}
		if err := os.WriteFile(filepath.Join(root, path), content[:size-1], 0o600); err != nil {
			t.Fatal(err)
		}
		for err == nil {
			_, err = b.Next(t.Context())
		}
		wantSaw(t, f, "s", path, nil)
	}
	wantSaw(t, f, "s", "left", nil)
}
