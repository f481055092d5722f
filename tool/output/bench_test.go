package output

import (
	"bytes"
	"context"
	"strings"
	"testing"
)

// Bounding 100 MiB in memory beside copying it: the target is 1.5 times that, apart
// from keeping.
func BenchmarkBound100MiB(b *testing.B) {
	const size = 100 << 20
	line := "2026-11-30T12:00:00Z info a line of a log that is as long as many are, éàü\n"
	plain := strings.Repeat(line, size/len(line))
	coloured := strings.Repeat("\x1b[32m"+line[:60]+"\x1b[0m"+line[60:], size/(len(line)+9))
	b.Run("copy", func(b *testing.B) {
		to := make([]byte, len(plain))
		b.SetBytes(int64(len(plain)))
		for b.Loop() {
			copy(to, plain)
		}
	})
	bound := func(text string) func(*testing.B) {
		return func(b *testing.B) {
			b.SetBytes(int64(len(text)))
			b.ReportAllocs()
			for b.Loop() {
				m := newMeasure(DefaultLimits())
				m.write(bytesOf(text))
				v := m.verdict()
				if v.preview(DefaultLimits(), mark{handle: "handle", bytes: v.raw}) == "" {
					b.Fatal("no preview")
				}
			}
		}
	}
	b.Run("bound", bound(plain))
	b.Run("bound-coloured", bound(coloured))
	b.Run("bound-crlf", bound(strings.ReplaceAll(plain, "\n", "\r\n")))
	b.Run("bound-one-line", bound(strings.Repeat("x", size)))
	k := newKeeper(b, DefaultLimits())
	b.Run("keep", func(b *testing.B) {
		b.SetBytes(int64(len(plain)))
		b.ReportAllocs()
		for b.Loop() {
			forget(b, k, bounded(b, k, texts(plain)))
		}
	})
	b.Run("keep-streamed", func(b *testing.B) {
		chunk := bytes.Repeat([]byte(line), 64<<10/len(line))
		b.SetBytes(int64(size))
		b.ReportAllocs()
		for b.Loop() {
			bounding := k.Begin(testOrigin())
			for range size / len(chunk) {
				if _, err := bounding.Write(chunk); err != nil {
					b.Fatal(err)
				}
			}
			s := texts()
			if err := bounding.Bound(context.Background(), &s); err != nil {
				b.Fatal(err)
			}
			forget(b, k, s)
		}
	})
}

// What bounding costs a call that needs none.
func BenchmarkBound1KiB(b *testing.B) {
	k := newKeeper(b, DefaultLimits())
	s := texts(strings.Repeat("a line of text\n", 68))
	b.ReportAllocs()
	for b.Loop() {
		settlement := s
		bounding := k.Begin(testOrigin())
		if err := bounding.Bound(context.Background(), &settlement); err != nil {
			b.Fatal(err)
		}
		bounding.Discard()
	}
}

// What is redrawn without end, beside plain text that is kept: the target is ten times
// that.
func BenchmarkBoundHostile(b *testing.B) {
	k := newKeeper(b, DefaultLimits())
	line := strings.Repeat("y", 4000)
	for name, unit := range map[string]string{
		"plain":     "2026-11-30T12:00:00Z info a line of a log that is as long as many are, éàü\n",
		"lines":     "\r" + line,
		"wider":     line + "\r" + strings.Repeat("é", 1900) + "\r",
		"returns":   line + strings.Repeat("\rx", 4000),
		"alternate": line + strings.Repeat("\ré\rx", 4000),
		"joined":    "a\r" + strings.Repeat("\u0301", 2000),
		"progress":  "10%\r",
		"coloured":  "a\x1b[m",
	} {
		text := strings.Repeat(unit, 8<<20/len(unit))
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(text)))
			for b.Loop() {
				forget(b, k, bounded(b, k, texts(text)))
			}
		})
	}
}
