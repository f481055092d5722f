package sandbox

import (
	"bytes"
	"os"
	"strconv"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Descends reports whether pid is ancestor or a process below it. A peer on a socket is checked with it. A process whose
// parent ended before it has no way up any more, unless a reaper adopted it.
func Descends(pid, ancestor int) bool {
	for range 1024 { // deeper is refused, and ids that are reused meanwhile make no circle endless
		if pid <= 0 {
			return false
		}
		if pid == ancestor {
			return true
		}
		p, _ := processOf(pid)
		pid = p.parent
	}
	return false
}

// A process is one line of /proc/PID/stat.
type process struct {
	pid, parent, group, session int
	state                       byte
	threads                     int
}

// living is false for one that waits to be reaped. One whose first thread alone has ended looks like it, but for its
// other threads.
func (p process) living() bool {
	return p.state != 'Z' && p.state != 'X' || p.threads > 1
}

// processes lists all processes of the system that this user may see.
func processes() []process {
	dir, err := os.Open("/proc")
	if err != nil {
		return nil
	}
	defer dir.Close()
	names, _ := dir.Readdirnames(-1)
	out := make([]process, 0, len(names))
	for _, name := range names {
		if pid, err := strconv.Atoi(name); err == nil {
			if p, ok := processOf(pid); ok {
				out = append(out, p)
			}
		}
	}
	return out
}

// processOf looks at one process. It is not ok when there is none. Ending a large tree means looking at all processes again
// and again, so the file is read without the care that package os takes of files in general.
func processOf(pid int) (process, bool) {
	fd, err := unix.Open("/proc/"+strconv.Itoa(pid)+"/stat", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return process{}, false
	}
	defer unix.Close(fd) //nolint:errcheck // it was only read from
	var line [1024]byte  // twice what fifty numbers and a name can take
	n, err := unix.Read(fd, line[:])
	if err != nil {
		return process{}, false
	}
	p, ok := parseStat(line[:n])
	return p, ok && p.pid == pid
}

// parseStat reads a line of /proc/PID/stat. The name of the program, in parentheses, may hold anything, so the fields are
// counted from the last parenthesis.
func parseStat(stat []byte) (process, bool) {
	open, end := bytes.IndexByte(stat, '('), bytes.LastIndexByte(stat, ')')
	if open < 0 || end < open {
		return process{}, false
	}
	var fields [18][]byte // from the state to the number of threads
	i := 0
	for field := range bytes.FieldsSeq(stat[end+1:]) {
		if fields[i] = field; i == len(fields)-1 {
			break
		}
		i++
	}
	if len(fields[0]) != 1 {
		return process{}, false
	}
	p := process{state: fields[0][0]}
	for _, field := range []struct {
		text []byte
		to   *int
	}{
		{bytes.TrimSpace(stat[:open]), &p.pid},
		{fields[1], &p.parent},
		{fields[2], &p.group},
		{fields[3], &p.session},
		{fields[17], &p.threads},
	} {
		number, err := strconv.Atoi(string(field.text))
		if err != nil || number < 0 {
			return process{}, false
		}
		*field.to = number
	}
	return p, true
}

// endWhere kills the processes that belong, again until none is left or until the time is over, and reports whether none is.
func endWhere(belongs func(process) bool, until time.Time) bool {
	for pause := time.Millisecond; ; pause = min(2*pause, 50*time.Millisecond) {
		none := true
		for _, p := range processes() {
			if p.living() && belongs(p) {
				none = false
				killIf(p.pid, belongs)
			}
		}
		if none || time.Now().After(until) {
			return none
		}
		time.Sleep(pause) //nolint:forbidigo // the end of somebody else's child is no event here
	}
}

// killIf kills a process that is no child of this one.
func killIf(pid int, belongs func(process) bool) { signalIf(pid, belongs, syscall.SIGKILL) }

// signalIf holds a process before it looks at it again, so that its id cannot pass to another one between the look and the
// signals.
func signalIf(pid int, belongs func(process) bool, signals ...os.Signal) {
	held, err := os.FindProcess(pid)
	if err != nil {
		return
	}
	defer held.Release() //nolint:errcheck // it only closes the descriptor
	if p, ok := processOf(pid); ok && belongs(p) {
		for _, s := range signals {
			_ = held.Signal(s)
		}
	}
}

// askWhere asks the processes that belong to end, each once, also those that were made while it looked.
func askWhere(belongs func(process) bool) {
	asked := map[int]bool{}
	for range 10 { // a tree that goes on forking is not waited for
		before := len(asked)
		for _, p := range processes() {
			if p.living() && !asked[p.pid] && belongs(p) {
				asked[p.pid] = true
				signalIf(p.pid, belongs, syscall.SIGTERM, syscall.SIGCONT)
			}
		}
		if len(asked) == before {
			return
		}
	}
}

// codeExited is CLD_EXITED, the code of a waitid result for a child that ended by itself.
const codeExited = 1

// siginfoPid is si_pid of a waitid result, which package unix has no name for.
func siginfoPid(info *unix.Siginfo) int { return siginfoField(info, 0) }

// siginfoStatus is its si_status, which comes after the user: the exit status, or the signal.
func siginfoStatus(info *unix.Siginfo) int { return siginfoField(info, 2) }

// siginfoField is a field of a waitid result. They follow three ints and, on 64-bit systems, four bytes of padding.
func siginfoField(info *unix.Siginfo, field uintptr) int {
	return int(*(*int32)(unsafe.Add(unsafe.Pointer(info), 12+unsafe.Sizeof(uintptr(0))-4+4*field)))
}
