package bench

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/toolhost/toolhost/plugin/client"
)

// interleave runs the sides in turn, round after round, each round beginning with another one, and gives the figures of
// each side, round by round. The first round is for warming up.
func interleave(rounds int, sides ...func() float64) [][]float64 {
	figures := make([][]float64, len(sides))
	for round := range rounds + 1 {
		for n := range sides {
			side := (round + n) % len(sides)
			if figure := sides[side](); round > 0 {
				figures[side] = append(figures[side], figure)
			}
		}
	}
	return figures
}

// milliseconds is how long f takes.
func milliseconds(f func()) float64 {
	begin := time.Now()
	f()
	return time.Since(begin).Seconds() * 1e3
}

func measureActivation(tb testing.TB, s size, t *table) {
	host := openShipped(tb)
	figures := interleave(s.starts,
		func() float64 {
			var i *client.Incarnation
			took := milliseconds(func() { i = start(tb, host, "one") })
			end(tb, i)
			return took
		},
		func() float64 {
			var b *bare
			took := milliseconds(func() { b = startBare(tb, true) })
			b.kill()
			return took
		},
		func() float64 {
			var i *client.Incarnation
			took := milliseconds(func() { i = host.startFree(tb, "free") })
			end(tb, i)
			return took
		},
	)
	t.add(activation, figures[0], figures[1])
	t.add(jailing, figures[0], figures[2])
}

func start(tb testing.TB, host *shipped, name string) *client.Incarnation {
	tb.Helper()
	i, err := host.startBuiltin(name)
	if err != nil {
		tb.Fatal(err)
	}
	return i
}

func end(tb testing.TB, i *client.Incarnation) {
	tb.Helper()
	if err := i.Close(context.Background()); err != nil {
		tb.Fatal(err)
	}
}

func measureTogether(tb testing.TB, s size, t *table) {
	host := openShipped(tb)
	incarnations := make([]*client.Incarnation, s.plugins)
	begin := func(n int) (err error) {
		incarnations[n], err = host.startBuiltin("p" + strconv.Itoa(n))
		return err
	}
	side := func(startAll func() error) func() float64 {
		return func() float64 {
			took := milliseconds(func() {
				if err := startAll(); err != nil {
					tb.Fatal(err)
				}
			})
			var ending errgroup.Group
			for _, i := range incarnations {
				ending.Go(func() error { return i.Close(context.Background()) })
			}
			if err := ending.Wait(); err != nil {
				tb.Fatal(err)
			}
			return took
		}
	}
	figures := interleave(s.slow,
		side(func() error {
			var starting errgroup.Group
			for n := range incarnations {
				starting.Go(func() error { return begin(n) })
			}
			return starting.Wait()
		}),
		side(func() error {
			for n := range incarnations {
				if err := begin(n); err != nil {
					return err
				}
			}
			return nil
		}),
	)
	t.add(together, figures[0], figures[1])
}

// stopBound is what a plugin that does nothing any more is given: a second to
// finish and a second to end by itself (drainGrace and endGrace of the client).
const stopBound = 2 * time.Second

func measureClosing(tb testing.TB, s size, t *table) {
	host := openShipped(tb)
	figures := interleave(s.starts,
		func() float64 {
			i := start(tb, host, "one")
			return milliseconds(func() { end(tb, i) })
		},
		func() float64 { return endProcess(tb) },
		func() float64 {
			b := startBare(tb, true)
			return milliseconds(b.kill)
		},
	)
	t.add(closing, figures[0], figures[1])
	t.add(killing, figures[0], figures[2])

	took := interleave((s.slow+1)/2, func() float64 {
		i := start(tb, host, "one")
		if err := syscall.Kill(i.Status().Pid, syscall.SIGSTOP); err != nil {
			tb.Fatal(err)
		}
		return milliseconds(func() { end(tb, i) }) / 1e3
	})[0]
	bound := make([]float64, len(took))
	for n := range bound {
		bound[n] = stopBound.Seconds()
	}
	t.add(stopped, took, bound)
}

// endProcess is how long a process takes to end, in milliseconds, that does nothing but wait for the end of its input.
func endProcess(tb testing.TB) float64 {
	tb.Helper()
	cmd := exec.Command(self, idleRole)
	stdin, err := cmd.StdinPipe()
	if err != nil {
		tb.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		tb.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		tb.Fatal(err)
	}
	if word, err := bufio.NewReader(stdout).ReadString('\n'); err != nil {
		tb.Fatalf("idle process: got %q, %v", word, err)
	}
	return milliseconds(func() {
		_ = stdin.Close()
		if err := cmd.Wait(); err != nil {
			tb.Fatal(err)
		}
	})
}

// settling is how long a plugin is left alone before its memory is looked at.
const settling = 300 * time.Millisecond

func measureMemory(tb testing.TB, s size, t *table) {
	host := openShipped(tb)
	input := queryOf(tb, 1<<10)
	var confined, withReaper, base []float64
	for range s.slow {
		b, i, free := startBare(tb, true), start(tb, host, "one"), host.startFree(tb, "free")
		for _, tool := range []string{"echo_one", "echo_free"} {
			if err := host.call(tool, input); err != nil {
				tb.Fatal(err)
			}
		}
		time.Sleep(settling)
		confined = append(confined, mebibytes(tb, i.Status().Pid))
		withReaper = append(withReaper, mebibytes(tb, free.Status().Pid)+mebibytes(tb, parent(free.Status().Pid)))
		base = append(base, mebibytes(tb, b.pid))
		end(tb, i)
		end(tb, free)
		b.kill()
	}
	t.add(memory, confined, base)
	t.add(reaped, withReaper, base)
}

// mebibytes is a process's share of the memory: what it has for itself, and its part of what it has in common with others.
func mebibytes(tb testing.TB, pid int) float64 {
	tb.Helper()
	rollup, err := os.ReadFile(fmt.Sprintf("/proc/%d/smaps_rollup", pid))
	if err != nil {
		tb.Fatal(err)
	}
	for line := range strings.Lines(string(rollup)) {
		if words := strings.Fields(line); words[0] == "Pss:" {
			kibibytes, err := strconv.ParseFloat(words[1], 64)
			if err != nil {
				tb.Fatal(err)
			}
			return kibibytes / 1024
		}
	}
	tb.Fatalf("process %d: there is no Pss in %s", pid, rollup)
	return 0
}

// parent is the process id of a process's parent, or 0.
func parent(pid int) int {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0
	}
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	ppid, _ := strconv.Atoi(string(fields[1]))
	return ppid
}

// children lists the processes whose parent is pid.
func children(pid int) []int {
	var out []int
	dirs, _ := filepath.Glob("/proc/[0-9]*")
	for _, dir := range dirs {
		if child, _ := strconv.Atoi(filepath.Base(dir)); parent(child) == pid {
			out = append(out, child)
		}
	}
	return out
}
