package bench

import (
	"fmt"
	"io"
	"os"
	"slices"
	"testing"

	"go.uber.org/goleak"

	"github.com/toolhost/toolhost/plugin/sdk"
	files "github.com/toolhost/toolhost/plugins/filesystem"
	commands "github.com/toolhost/toolhost/plugins/process"
	"github.com/toolhost/toolhost/sandbox"
)

// The roles that the test binary plays when it is run again.
const (
	reaperRole = "__launch"
	pluginRole = "__plugin"
	bareRole   = "__bare"
	idleRole   = "__idle"
	filesRole  = "__files"

	commandsRole = "__commands"
)

const self = "/proc/self/exe"

func TestMain(m *testing.M) {
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case reaperRole:
			os.Exit(sandbox.Main(os.Args[2:]))
		case pluginRole:
			sdk.Serve(echoPlugin())
		case filesRole:
			sdk.Serve(files.New())
		case commandsRole:
			sdk.Serve(commands.New())
		case bareRole:
			serveBare()
			os.Exit(0)
		case idleRole:
			fmt.Println("ready")
			_, _ = io.Copy(io.Discard, os.Stdin)
			os.Exit(0)
		}
	}
	goleak.VerifyTestMain(tabled{m})
}

// tabled prints the table when the benchmarks are done.
type tabled struct{ *testing.M }

func (t tabled) Run() int {
	code := t.M.Run()
	if err := measured.print(os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "print the table:", err)
		return 1
	}
	return code
}

// measured is what the benchmarks of this run found.
var measured table

// size is how much is measured.
type size struct {
	starts     int // rounds of starting and ending a plugin
	slow       int // rounds that take a second or more
	rounds     int // of calls
	calls      int // one after the other in each round
	concurrent int // by each of the callers in each round
	plugins    int // that are started together
	text       int // bytes of a text that is bounded
	searches   int // rounds of searching the smaller tree
	trees      func(testing.TB) forest
}

// full takes some minutes on a machine that does nothing else. Rounds of calls are short and many, so that the sides of
// one are done before the machine turns to something else.
var full = size{starts: 30, slow: 8, rounds: 200, calls: 20, concurrent: 10, plugins: 10, text: 100 << 20,
	searches: 7, trees: realTrees}

// run measures once for each iteration of the benchmark.
func run(b *testing.B, measure func(testing.TB, size, *table)) {
	var own table
	for b.Loop() {
		measure(b, full, &own)
	}
	b.ReportMetric(0, "ns/op") // the time of all rounds together says nothing
	for _, f := range own.all {
		b.ReportMetric(quantile(f.ratios(), 0.5), f.line.metric)
		measured.add(f.line, f.ours, f.base)
	}
}

func BenchmarkActivation(b *testing.B)      { run(b, measureActivation) }
func BenchmarkTenPlugins(b *testing.B)      { run(b, measureTogether) }
func BenchmarkClosing(b *testing.B)         { run(b, measureClosing) }
func BenchmarkIdleMemory(b *testing.B)      { run(b, measureMemory) }
func BenchmarkCall1KiB(b *testing.B)        { run(b, measureCall) }
func BenchmarkCall64AtOnce(b *testing.B)    { run(b, measureConcurrent) }
func BenchmarkCall64KiB(b *testing.B)       { run(b, measureLarge) }
func BenchmarkCall64KiBAtOnce(b *testing.B) { run(b, measureLargeAtOnce) }
func BenchmarkBounding(b *testing.B)        { run(b, measureBounding) }
func BenchmarkFace(b *testing.B)            { run(b, measureFace) }
func BenchmarkSearch(b *testing.B)          { run(b, measureSearch) }
func BenchmarkCommands(b *testing.B)        { run(b, measureCommands) }

// The measurements run from end to end, each of them fills its lines of the table, all lines are filled, and neither
// process nor goroutine is left. How long anything takes is no matter here. Seen to fail: with the plugin's tool under
// another name, with a line that nothing reports, and with a bare plugin that is not killed.
func TestEveryLineIsMeasured(t *testing.T) {
	var got table
	few := size{starts: 1, slow: 1, rounds: 1, calls: 2, concurrent: 1, plugins: 2, text: 1 << 20, searches: 1, trees: smallTrees}
	for name, measure := range map[string]func(testing.TB, size, *table){
		"activation": measureActivation, "together": measureTogether, "closing": measureClosing, "memory": measureMemory,
		"call": measureCall, "concurrent": measureConcurrent, "large": measureLarge,
		"bounding": measureBounding, "large at once": measureLargeAtOnce, "face": measureFace,
		"search": measureSearch, "commands": measureCommands,
	} {
		t.Run(name, func(t *testing.T) { measure(t, few, &got) }) // what it started is gone when it returns
	}
	all := lines()
	if missing(t) {
		all = slices.DeleteFunc(all, func(l line) bool { return slices.Contains(searchLines(), l) })
	}
	for _, l := range all {
		f := got.of(l)
		if f == nil {
			t.Errorf("%s: nothing was measured", l.what)
			continue
		}
		for i := range f.ours {
			if f.ours[i] <= 0 || f.base[i] <= 0 {
				t.Errorf("%s: got %v against %v, want two positive figures", l.what, f.ours[i], f.base[i])
			}
		}
	}
	if left := children(os.Getpid()); len(left) > 0 {
		t.Errorf("processes %v are left", left)
	}
}
