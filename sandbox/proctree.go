package sandbox

import (
	"bytes"
	"os"
	"strconv"
	"unsafe"

	"golang.org/x/sys/unix"
)

// children lists the processes whose parent is pid.
func children(pid int) []int {
	var out []int
	for child, parent := range parents() {
		if parent == pid {
			out = append(out, child)
		}
	}
	return out
}

// descendants lists the processes below pid.
func descendants(pid int) []int {
	byParent := map[int][]int{}
	for child, parent := range parents() {
		byParent[parent] = append(byParent[parent], child)
	}
	var out []int
	for next := []int{pid}; len(next) > 0; next = next[1:] {
		out = append(out, byParent[next[0]]...)
		next = append(next, byParent[next[0]]...)
	}
	return out
}

// Descends reports whether pid is ancestor or a process below it. A peer on a
// socket is checked with it.
func Descends(pid, ancestor int) bool {
	for range 1024 {
		if pid == ancestor {
			return true
		}
		if pid = parentOf(pid); pid <= 1 {
			return false
		}
	}
	return false
}

// parents maps each process to its parent.
func parents() map[int]int {
	dir, err := os.Open("/proc")
	if err != nil {
		return nil
	}
	defer dir.Close()
	names, _ := dir.Readdirnames(-1)
	out := make(map[int]int, len(names))
	for _, name := range names {
		if pid, err := strconv.Atoi(name); err == nil {
			out[pid] = parentOf(pid)
		}
	}
	return out
}

// parentOf is the parent of pid, or 0. The name of a program may hold anything,
// so the fields are counted from its last parenthesis.
func parentOf(pid int) int {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return 0
	}
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	if len(fields) < 2 {
		return 0
	}
	parent, _ := strconv.Atoi(string(fields[1]))
	return parent
}

// siginfoPid is si_pid of a waitid result, which package unix has no name for.
// It follows three ints and, on 64-bit systems, four bytes of padding.
func siginfoPid(info *unix.Siginfo) int {
	return int(*(*int32)(unsafe.Add(unsafe.Pointer(info), 12+unsafe.Sizeof(uintptr(0))-4)))
}
