package sandbox

import (
	"bufio"
	"context"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/toolhost/toolhost/scope"
)

// BenchmarkFirstOutput is the time from Start until the program's first byte, as against the program without a reaper, and
// BenchmarkLife that until all of it is gone again. The reaper here is the test binary; a host with more packages to
// initialise pays for them once more.
func BenchmarkFirstOutput(b *testing.B) { benchmark(b, true) }

func BenchmarkLife(b *testing.B) { benchmark(b, false) }

func benchmark(b *testing.B, first bool) {
	for _, role := range []string{jailRole, reaperRole, groupRole} {
		b.Run(strings.TrimPrefix(role, "__"), func(b *testing.B) {
			owner := scope.New(context.Background(), "bench")
			defer owner.Close(context.Background())
			spec := Spec{Path: "/bin/echo", Args: []string{"hello"}, Dir: "/"}
			if role == jailRole {
				strict(b)
				spec.Policy = &Policy{Profile: Command}
			}
			one := make([]byte, 1)
			for b.Loop() {
				p, err := Start(b.Context(), owner, launcher(role), spec)
				if err != nil {
					b.Fatal(err)
				}
				if _, err := p.Stdout.Read(one); err != nil {
					b.Fatal(err)
				}
				if first {
					b.StopTimer()
				}
				if err := p.Kill(b.Context()); err != nil {
					b.Fatal(err)
				}
				if first {
					b.StartTimer()
				}
			}
		})
	}
}

// BenchmarkReaperMemory says what a reaper costs while the program runs: its private memory, its share of what it has in
// common with the host, and its threads.
func BenchmarkReaperMemory(b *testing.B) {
	p := plant(b, reaperRole, "echo ready; exec sleep 1000")
	p.wantLine("ready")
	for b.Loop() {
		usage := memory(b, p.Top())
		b.ReportMetric(usage["Private_Clean"]+usage["Private_Dirty"], "USS-KiB")
		b.ReportMetric(usage["Private_Dirty"], "dirty-KiB")
		b.ReportMetric(usage["Pss"], "PSS-KiB")
		top, _ := processOf(p.Top())
		b.ReportMetric(float64(top.threads), "threads")
	}
}

func memory(b *testing.B, pid int) map[string]float64 {
	b.Helper()
	rollup, err := os.Open("/proc/" + strconv.Itoa(pid) + "/smaps_rollup")
	if err != nil {
		b.Fatal(err)
	}
	defer rollup.Close()
	usage := map[string]float64{}
	for lines := bufio.NewScanner(rollup); lines.Scan(); {
		name, value, _ := strings.Cut(lines.Text(), ":")
		if words := strings.Fields(value); len(words) == 2 {
			usage[name], _ = strconv.ParseFloat(words[0], 64)
		}
	}
	return usage
}
