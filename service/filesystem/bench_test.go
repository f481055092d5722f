package filesystem

import (
	"go/build"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/toolhost/toolhost/service"
)

// benchTree is the tree that is searched: TOOLHOST_BENCH_TREE, or the source of
// the Go distribution.
func benchTree(b *testing.B) string {
	b.Helper()
	tree := os.Getenv("TOOLHOST_BENCH_TREE")
	if tree == "" {
		tree = filepath.Join(build.Default.GOROOT, "src")
	}
	if _, err := os.Stat(tree); err != nil {
		b.Skip(err)
	}
	return tree
}

// beside runs something and ripgrep in turn, and reports the median of how many
// times as long as ripgrep it takes.
func beside(b *testing.B, tree string, args []string, do func() error) {
	need(b, "rg")
	once := func() {
		cmd := exec.Command("rg", append(slices.Clone(rg), args...)...)
		cmd.Dir = tree
		cmd.Stdout = io.Discard
		_ = cmd.Run() // 1 is for nothing found
	}
	once()
	var ratios []float64
	for b.Loop() {
		start := time.Now()
		if err := do(); err != nil {
			b.Fatal(err)
		}
		ours := time.Since(start)
		start = time.Now()
		once()
		ratios = append(ratios, ours.Seconds()/time.Since(start).Seconds())
	}
	b.ReportMetric(median(ratios), "x-rg")
}

func median(ratios []float64) float64 {
	sorted := slices.Sorted(slices.Values(ratios))
	return sorted[len(sorted)/2]
}

func BenchmarkGrep(b *testing.B) {
	tree := benchTree(b)
	for _, bm := range []struct {
		name  string
		query service.GrepQuery
		args  []string
	}{
		{"literal", service.GrepQuery{Pattern: "ErrUnexpectedEOF"}, []string{"ErrUnexpectedEOF"}},
		{"with a literal", service.GrepQuery{Pattern: `func\s+\w+Read\(`}, []string{`(?-u)func\s+\w+Read\(`}},
		{"ignoring case", service.GrepQuery{Pattern: "errunexpectedeof", IgnoreCase: true}, []string{"-i", "errunexpectedeof"}},
		{"no literal", service.GrepQuery{Pattern: `[0-9a-f]{40}`}, []string{`[0-9a-f]{40}`}},
	} {
		b.Run(bm.name, func(b *testing.B) {
			r := handleOn(b, tree, ".")
			bm.query.Limit = service.MaxEntries
			beside(b, tree, bm.args, func() error {
				_, err := r.Grep(b.Context(), bm.query)
				return err
			})
		})
	}
}

func BenchmarkGlob(b *testing.B) {
	tree := benchTree(b)
	r := handleOn(b, tree, ".")
	// No file of this name, so that no limit ends the walk.
	beside(b, tree, []string{"--files"}, func() error {
		_, err := r.Glob(b.Context(), service.GlobQuery{Pattern: "**/*.none"})
		return err
	})
}

func BenchmarkList(b *testing.B) {
	tree := benchTree(b)
	r := handleOn(b, tree, ".")
	beside(b, tree, []string{"--files"}, func() error {
		_, err := r.List(b.Context(), service.ListQuery{Depth: service.MaxDepth, Limit: service.MaxEntries})
		return err
	})
}
