package edit

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

// BenchmarkApply makes a small edit in the middle of 1 MiB, in turn with
// bytes.Replace, and reports the median of how many times as long it takes.
func BenchmarkApply(b *testing.B) {
	for _, bm := range []struct{ name, ending string }{{"LF", "\n"}, {"CRLF", "\r\n"}} {
		b.Run(bm.name, func(b *testing.B) {
			var file strings.Builder
			for i := 0; file.Len() < 1<<20; i++ {
				fmt.Fprintf(&file, "\tline %d of a file that is edited%s", i, bm.ending)
			}
			content := []byte(file.String())
			old, put := "line 12000 of a file that is edited\n\tline 12001 of", "line 12000 of a file\n\tthat was edited"
			exact := []byte(strings.ReplaceAll(old, "\n", bm.ending))
			var ratios []float64
			for b.Loop() {
				start := time.Now()
				if _, err := Apply(b.Context(), content, []Replacement{{Old: old, New: put}}, true); err != nil {
					b.Fatal(err)
				}
				ours := time.Since(start)
				start = time.Now()
				if bytes.Equal(bytes.Replace(content, exact, []byte(put), 1), content) {
					b.Fatal("not found")
				}
				ratios = append(ratios, ours.Seconds()/time.Since(start).Seconds())
			}
			slices.Sort(ratios)
			b.ReportMetric(ratios[len(ratios)/2], "x-replace")
		})
	}
}
