package chaos

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
)

// A stock is what this process and those below it hold, as the system tells it.
type stock struct {
	goroutines  int
	descriptors map[string]int // by kind
	sockets     int            // in run directories
	entries     int            // run directories, and what is in them
	processes   int            // below this one, the dead ones included
}

func takeStock() stock {
	s := stock{goroutines: runtime.NumGoroutine(), descriptors: map[string]int{}, processes: len(below()) + len(marked())}
	open, _ := os.ReadDir("/proc/self/fd")
	for _, fd := range open {
		target, err := os.Readlink("/proc/self/fd/" + fd.Name())
		if err != nil {
			continue // it was that of the directory itself
		}
		s.descriptors[kindOf(target)]++
	}
	table, _ := os.ReadFile("/proc/net/unix")
	s.sockets = bytes.Count(table, []byte(runBase()))
	_ = filepath.WalkDir(runBase(), func(path string, _ os.DirEntry, _ error) error {
		if path != runBase() {
			s.entries++
		}
		if filepath.Base(path) == "outputs" { // what is kept there is meant to stay as long as the host
			return filepath.SkipDir
		}
		return nil
	})
	return s
}

// runBase is where run directories are made.
func runBase() string { return os.Getenv("XDG_RUNTIME_DIR") }

// kindOf is what a descriptor is of.
func kindOf(target string) string {
	kind, _, special := strings.Cut(target, ":[")
	switch {
	case strings.HasPrefix(target, "anon_inode:"), strings.HasPrefix(target, "/dev/"):
		return target
	case special:
		return kind
	case strings.HasPrefix(target, "/memfd:"):
		return "memfd"
	default:
		return "file"
	}
}

// beyond says what there is more of than there was, or nothing.
func (s stock) beyond(before stock) string {
	var more []string
	add := func(what string, now, then int) {
		if now > then {
			more = append(more, fmt.Sprintf("%d %s instead of %d", now, what, then))
		}
	}
	// The runtime starts a goroutine of its own now and then; goleak tells which there are.
	add("goroutines", s.goroutines, before.goroutines+2)
	for _, kind := range slices.Sorted(maps.Keys(s.descriptors)) {
		add("descriptors of kind "+kind, s.descriptors[kind], before.descriptors[kind])
	}
	add("sockets", s.sockets, before.sockets)
	add("entries of run directories", s.entries, before.entries)
	add("processes", s.processes, before.processes)
	return strings.Join(more, ", ")
}

func (s stock) String() string {
	return fmt.Sprintf("%d goroutines, descriptors %v, %d sockets, %d entries of run directories, %d processes",
		s.goroutines, s.descriptors, s.sockets, s.entries, s.processes)
}

// below are the processes below this one, the dead ones included.
func below() (found []string) {
	parents := []string{"self"}
	for len(parents) > 0 {
		lists, _ := filepath.Glob("/proc/" + parents[0] + "/task/*/children")
		parents = parents[1:]
		for _, list := range lists {
			pids, _ := os.ReadFile(list)
			for pid := range strings.FieldsSeq(string(pids)) {
				found, parents = append(found, describe(pid)), append(parents, pid)
			}
		}
	}
	return found
}

// marked are the processes with the mark of this run, beside this one.
func marked() (found []string) {
	mark := []byte(markVariable + "=" + os.Getenv(markVariable))
	dirs, _ := filepath.Glob("/proc/[0-9]*")
	for _, dir := range dirs {
		pid := filepath.Base(dir)
		environ, err := os.ReadFile(dir + "/environ") // it may be gone
		if err == nil && pid != strconv.Itoa(os.Getpid()) && bytes.Contains(environ, mark) {
			found = append(found, describe(pid))
		}
	}
	return found
}

func describe(pid string) string {
	command, _ := os.ReadFile("/proc/" + pid + "/cmdline")
	return pid + " " + strings.TrimSpace(strings.ReplaceAll(string(command), "\x00", " "))
}

// running reports whether a process runs whose command line has the text.
func running(text string) bool {
	return slices.ContainsFunc(append(below(), marked()...), func(p string) bool { return strings.Contains(p, text) })
}

// resident is how many bytes of memory this process occupies, once what is not used was
// given back.
func resident() int {
	debug.FreeOSMemory()
	statm, _ := os.ReadFile("/proc/self/statm")
	fields := strings.Fields(string(statm))
	if len(fields) < 2 {
		return 0
	}
	pages, _ := strconv.Atoi(fields[1])
	return pages * os.Getpagesize()
}

func mib(bytes int) string { return fmt.Sprintf("%.1f MiB", float64(bytes)/(1<<20)) }
