package bench

import (
	"fmt"
	"io"
	"math"
	"runtime"
	"slices"
	"strings"
	"testing"
	"text/tabwriter"
)

// A line is one line of the table: a figure of ours against that of a baseline.
type line struct {
	what, base string
	unit       string  // of both figures
	metric     string  // what Go's benchmark format calls the ratio
	target     float64 // of the ratio; 0 for a line that is there to compare
	least      bool    // the target is the least that is wanted, not the most
}

// The lines of the table, in its order.
var (
	activation = line{what: "activation, start to ready", base: "bare start to first answer, AutoMTLS", unit: "ms",
		metric: "activation/bare", target: 1.3}
	jailing  = line{what: "activation, confined", base: "not confined, with a reaper", unit: "ms", metric: "activation/unconfined"}
	together = line{what: "ten plugins at once", base: "one by one", unit: "ms", metric: "together/one-by-one", target: 0.75}
	closing  = line{what: "closing", base: "a bare process's end", unit: "ms", metric: "closing/bare-end", target: 3}
	killing  = line{what: "closing", base: "bare go-plugin's Kill", unit: "ms", metric: "closing/bare-kill"}
	stopped  = line{what: "closing a stopped plugin", base: "its bound", unit: "s", metric: "stopped/bound", target: 1.05}
	memory   = line{what: "idle plugin (PSS)", base: "bare plugin", unit: "MiB", metric: "memory/bare", target: 1.15}
	reaped   = line{what: "idle plugin that is not confined, and its reaper", base: "bare plugin", unit: "MiB", metric: "memory-reaper/bare"}

	callUnary   = line{what: "full call, 1 KiB", base: "bare unary", unit: "µs", metric: "call/unary", target: 1}
	callTLS     = line{what: "full call, 1 KiB", base: "bare unary, AutoMTLS", unit: "µs", metric: "call/unary-mtls"}
	callLike    = line{what: "full call, 1 KiB", base: "bare server stream, AutoMTLS", unit: "µs", metric: "call/stream-mtls"}
	callJailed  = line{what: "full call, 1 KiB, confined", base: "not confined", unit: "µs", metric: "call/unconfined"}
	callback    = line{what: "with one brokered callback", base: "full call", unit: "µs", metric: "callback/call", target: 2.6}
	atOnce      = line{what: "64 calls at once", base: "bare unary", unit: "/s", metric: "throughput/unary", target: 1.5, least: true}
	atOnceTLS   = line{what: "64 calls at once", base: "bare unary, AutoMTLS", unit: "/s", metric: "throughput/unary-mtls"}
	large       = line{what: "full call, 64 KiB in and out", base: "default bare unary", unit: "µs", metric: "64KiB/unary", target: 0.6}
	largeRaw    = line{what: "the same, by a tool that does not read it", base: "default bare unary", unit: "µs", metric: "64KiB-raw/unary"}
	largeAtOnce = line{what: "64 calls of 64 KiB at once", base: "default bare unary", unit: "/s", metric: "64KiB-throughput/unary", least: true}
	bounding    = line{what: "bounding 100 MiB, apart from keeping it", base: "memcpy", unit: "ms", metric: "bound/memcpy", target: 1.5}
	keeping     = line{what: "bounding and keeping 100 MiB", base: "memcpy", unit: "ms", metric: "keep/memcpy"}

	faceStdio  = line{what: "Model Context Protocol, 1 KiB, pipes", base: "the SDK's own server", unit: "µs", metric: "mcp-stdio/sdk"}
	faceHTTP   = line{what: "the same over HTTP", base: "the SDK's own server", unit: "µs", metric: "mcp-http/sdk"}
	faceAtOnce = line{what: "64 at once over HTTP", base: "the SDK's own server", unit: "/s", metric: "mcp-throughput/sdk", least: true}

	largeTLS = line{what: "full call, 64 KiB in and out", base: "default bare unary, AutoMTLS", unit: "µs", metric: "64KiB/unary-mtls"}
)

func lines() []line {
	return append([]line{
		activation, jailing, together, closing, killing, stopped, memory, reaped,
		callUnary, callTLS, callLike, callJailed, callback, atOnce, atOnceTLS, large, largeRaw, largeTLS,
		largeAtOnce, bounding, keeping, faceStdio, faceHTTP, faceAtOnce,
		commandStart, commandFree, commandFlood, commandHeap,
	}, searchLines()...)
}

// notes are what a reader of the figures has to know.
const notes = `Ratios are medians of the rounds of one run, with their quartiles. The absolute figures are medians too; they drift with the
machine. Plugins are confined (strict) unless a line says otherwise. Not in the figures yet: the audit, in a full call (which is
capture, validate the input, permission rule, execute, validate the output, bound, settle). Calls travel on leased streams, and their targets are those
for leased streams; on a stream for every call they are 1.4 and 0.8. A machine that does other things too gives more to whoever
has more processes: ten plugins at once then look better than they are, and a plugin in a session of its own may. Searching
goes the whole way, by a call of the built-in plugin, unless a line says that it is the engine alone; a list by a call ends at
1,000 names, and that of the engine at 10,000.
`

// figures are what was measured for one line, round by round.
type figures struct {
	line       line
	ours, base []float64
}

// ratios are those of the rounds, sorted.
func (f *figures) ratios() []float64 {
	out := make([]float64, len(f.ours))
	for i := range out {
		out[i] = f.ours[i] / f.base[i]
	}
	slices.Sort(out)
	return out
}

// verdict says whether the median meets the target of the line.
func (f *figures) verdict() (target, verdict string) {
	l, median := f.line, quantile(f.ratios(), 0.5)
	switch {
	case l.target == 0:
		return "", ""
	case l.least:
		target = fmt.Sprintf("at least %g", l.target)
	default:
		target = fmt.Sprintf("at most %g", l.target)
	}
	if l.least && median >= l.target || !l.least && median <= l.target {
		return target, "met"
	}
	return target, "missed"
}

// quantile of a sorted list, by linear interpolation.
func quantile(sorted []float64, q float64) float64 {
	at := q * float64(len(sorted)-1)
	below := int(at)
	above := min(below+1, len(sorted)-1)
	return sorted[below] + (at-float64(below))*(sorted[above]-sorted[below])
}

func median(list []float64) float64 { return quantile(slices.Sorted(slices.Values(list)), 0.5) }

// A table holds the figures of a run. It is for one goroutine.
type table struct{ all []*figures }

// of gives the figures of a line, or nil.
func (t *table) of(l line) *figures {
	for _, f := range t.all {
		if f.line == l {
			return f
		}
	}
	return nil
}

// add takes the figures of one line, round by round.
func (t *table) add(l line, ours, base []float64) {
	f := t.of(l)
	if f == nil {
		f = &figures{line: l}
		t.all = append(t.all, f)
	}
	f.ours, f.base = append(f.ours, ours...), append(f.base, base...)
}

// print writes the table, if anything was measured.
func (t *table) print(w io.Writer) error {
	if len(t.all) == 0 {
		return nil
	}
	fmt.Fprintf(w, "\ntoolhost and a bare go-plugin plugin in one run, %s, %s/%s, %d processors\n\n",
		runtime.Version(), runtime.GOOS, runtime.GOARCH, runtime.GOMAXPROCS(0))
	out := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(out, "what\tagainst\tratio\tquartiles\ttarget\t\tmedians")
	for _, l := range lines() {
		f := t.of(l)
		if f == nil {
			continue
		}
		ratios := f.ratios()
		target, verdict := f.verdict()
		fmt.Fprintf(out, "%s\t%s\t%.2f\t%.2f to %.2f\t%s\t%s\t%s and %s %s\n", l.what, l.base, quantile(ratios, 0.5),
			quantile(ratios, 0.25), quantile(ratios, 0.75), target, verdict, digits(median(f.ours)), digits(median(f.base)), l.unit)
	}
	if err := out.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintf(w, "\n%s\n", notes)
	return err
}

// digits shows as many of a figure as mean anything.
func digits(figure float64) string {
	if figure >= 100 {
		return fmt.Sprintf("%.0f", figure)
	}
	return fmt.Sprintf("%.*f", max(0, 2-int(math.Log10(max(figure, 1)))), figure)
}

func TestQuantile(t *testing.T) {
	for _, tt := range []struct {
		list []float64
		q    float64
		want float64
	}{
		{[]float64{7}, 0.5, 7},
		{[]float64{1, 2}, 0.5, 1.5},
		{[]float64{1, 2, 4}, 0.5, 2},
		{[]float64{1, 2, 3, 4, 5}, 0.25, 2},
		{[]float64{1, 2, 3, 4, 5}, 1, 5},
	} {
		if got := quantile(tt.list, tt.q); got != tt.want {
			t.Errorf("quantile(%v, %v) = %v, want %v", tt.list, tt.q, got, tt.want)
		}
	}
}

// Each round is a ratio of its own; the median of them is what is judged, whichever way the target points.
func TestTable(t *testing.T) {
	var got table
	got.add(atOnce, []float64{500, 1500}, []float64{1000, 1000})
	got.add(atOnce, []float64{700}, []float64{1000})
	got.add(activation, []float64{12, 26, 15}, []float64{10, 20, 10})
	got.add(killing, []float64{9}, []float64{8})
	var text strings.Builder
	if err := got.print(&text); err != nil {
		t.Fatal(err)
	}
	var rows []string
	for row := range strings.Lines(text.String()) {
		rows = append(rows, strings.Join(strings.Fields(row), " "))
	}
	for _, want := range []string{
		"activation, start to ready bare start to first answer, AutoMTLS 1.30 1.25 to 1.40 at most 1.3 met 15.0 and 10.0 ms",
		"closing bare go-plugin's Kill 1.12 1.12 to 1.12 9.00 and 8.00 ms",
		"64 calls at once bare unary 0.70 0.60 to 1.10 at least 1.5 missed 700 and 1000 /s",
	} {
		if !slices.Contains(rows, want) {
			t.Errorf("no line is %q in:\n%s", want, text.String())
		}
	}
	if strings.Contains(text.String(), stopped.what) {
		t.Errorf("a line that was not measured is in:\n%s", text.String())
	}
}
