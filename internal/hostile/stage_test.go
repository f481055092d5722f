package hostile

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A user is who a host runs as.
type user struct {
	name string
	id   int
}

// nobody is an ordinary user.
const nobody = 65534

// users are those that this run can be.
func users() []user {
	if os.Geteuid() != 0 {
		return []user{{"an ordinary user", os.Geteuid()}}
	}
	return []user{{"root", 0}, {"an ordinary user", nobody}}
}

// A stage is where a host and its plugins meet: a directory with
//
//	bin/       the programs: host, launcher, plugin
//	readable/  what plugins may read: file, and setuid, which makes another user of who runs it
//	writable/  what they may write
//	outside/   the user's files: secret, scratch
//	project/   the root of the Locations
//	state/     what the host remembers
//	run/       the run directories of hosts
type stage string

func (s stage) in(names ...string) string {
	return filepath.Join(append([]string{string(s)}, names...)...)
}

// setUp makes a stage for a user. Nothing above it keeps that user out, and its path is short, since sockets are in it.
func setUp(t *testing.T, programs string, who user) stage {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "hostile-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	s := stage(dir)
	for _, name := range []string{"bin", "readable", "writable", "outside", "project", "state", "run"} {
		if err := os.Mkdir(s.in(name), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for path, content := range map[string]string{"readable/file": "public", "outside/secret": "secret", "outside/scratch": ""} {
		if err := os.WriteFile(s.in(path), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	copyProgram(t, self, s.in("bin", "host"))
	copyProgram(t, filepath.Join(programs, "launcher"), s.in("bin", "launcher"))
	copyProgram(t, filepath.Join(programs, "plugin"), s.in("bin", "plugin"))
	err = filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		return errors.Join(err, os.Chown(path, who.id, who.id))
	})
	if err != nil {
		t.Fatal(err)
	}
	if os.Geteuid() == 0 {
		// Of another user than the one who runs it.
		copyProgram(t, s.in("bin", "plugin"), s.in("readable", "setuid"))
		other := 1
		if who.id != 0 {
			other = 0
		}
		if err := errors.Join(os.Chown(s.in("readable", "setuid"), other, other), unix.Chmod(s.in("readable", "setuid"), unix.S_ISUID|0o755)); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

func copyProgram(t *testing.T, from, to string) {
	t.Helper()
	file, err := os.OpenFile(to, os.O_CREATE|os.O_WRONLY, 0o700)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(copyTo(file, from), file.Close()); err != nil {
		t.Fatal(err)
	}
}

// run gives the command that plays a role on the stage, as a user.
func (s stage) run(role, words string, who user) *exec.Cmd {
	command := exec.Command(s.in("bin", "host"), role, string(s))
	command.Dir = s.in("outside")
	command.Env = []string{"HOME=" + s.in("outside"), "XDG_RUNTIME_DIR=" + s.in("run"), "PATH=" + os.Getenv("PATH"), "WORDS=" + words}
	command.Stderr = os.Stderr
	if who.id != os.Geteuid() {
		id := uint32(who.id) //nolint:gosec // it is one
		command.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: id, Gid: id}}
	}
	return command
}

// A scene is what is attacked in a host, as long as it is held.
type scene struct {
	target Target
	words  []byte
	opened []interface{ Close() error }
}

// lay makes everything of a target that is not a host's.
func (s stage) lay() (*scene, error) {
	sc := &scene{words: []byte(os.Getenv("WORDS"))}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	sc.target = Target{
		Plugin: s.in("bin", "plugin"), SetUID: s.in("readable", "setuid"), Readable: s.in("readable", "file"),
		Writable: s.in("writable"), Secret: s.in("outside", "secret"), Outside: s.in("outside"), HostProgram: self,
		Host: os.Getpid(), Words: string(sc.words), Address: uint64(uintptr(unsafe.Pointer(&sc.words[0]))), Disk: disk(),
		Abstract: "@" + string(sc.words), Socket: s.in("outside", "socket"), Datagram: s.in("outside", "datagram"),
		InGranted: s.in("writable", "socket"),
	}
	handle, _, err := unix.NameToHandleAt(unix.AT_FDCWD, sc.target.Secret, 0)
	if err == nil { // not all file systems have them
		sc.target.Handle, sc.target.Kind = handle.Bytes(), handle.Type()
	}
	for _, l := range []struct {
		network, address string
		named            *string
	}{
		{"tcp", "127.0.0.1:0", &sc.target.TCP}, {"unix", sc.target.Abstract, nil}, {"unix", sc.target.Socket, nil},
		{"unix", sc.target.InGranted, nil},
	} {
		listener, err := net.Listen(l.network, l.address)
		if err != nil {
			return nil, err
		}
		if l.named != nil {
			*l.named = listener.Addr().String()
		}
		sc.opened = append(sc.opened, listener)
	}
	packets, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	sc.target.UDP = packets.LocalAddr().String()
	datagrams, err := net.ListenPacket("unixgram", sc.target.Datagram)
	if err != nil {
		return nil, err
	}
	file, err := os.Open(sc.target.Secret)
	if err != nil {
		return nil, err
	}
	sc.target.Descriptor = int(file.Fd())
	sc.opened = append(sc.opened, packets, datagrams, file)
	if sc.target.Segment, err = unix.SysvShmGet(unix.IPC_PRIVATE, 4096, unix.IPC_CREAT|0o600); err != nil {
		return nil, err
	}
	return sc, nil
}

func (sc *scene) close() error {
	var err error
	for _, o := range sc.opened {
		err = errors.Join(err, o.Close())
	}
	_, removing := unix.SysvShmCtl(sc.target.Segment, unix.IPC_RMID, nil)
	return errors.Join(err, removing)
}

// disk is a block device that there is, or empty.
func disk() string {
	entries, err := os.ReadDir("/sys/class/block")
	if err != nil {
		return ""
	}
	for _, entry := range entries {
		path := "/dev/" + entry.Name()
		if info, err := os.Stat(path); err == nil && info.Mode()&fs.ModeDevice != 0 && !strings.HasPrefix(entry.Name(), "loop") {
			return path
		}
	}
	return ""
}

// socketsBelow are the unix sockets below a directory.
func socketsBelow(dir string) (found []string) {
	_ = filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err == nil && entry.Type()&fs.ModeSocket != 0 {
			found = append(found, path)
		}
		return nil
	})
	return found
}

// A load is how much of the machine the processes have that were started with some words.
type load struct {
	processes, threads int
	memory             int // bytes
}

// loadOf looks at all processes. Those that end meanwhile are not counted.
func loadOf(words ...string) (l load) {
	for _, pid := range processesOf(words...) {
		dir := fmt.Sprintf("/proc/%d", pid)
		tasks, err := os.ReadDir(filepath.Join(dir, "task"))
		if err != nil {
			continue
		}
		statm, err := os.ReadFile(filepath.Join(dir, "statm"))
		if err != nil {
			continue
		}
		var size, resident int
		_, _ = fmt.Sscan(string(statm), &size, &resident)
		l.processes++
		l.threads += len(tasks)
		l.memory += resident * os.Getpagesize()
	}
	return l
}

// processesOf are the processes that were started with some words.
func processesOf(words ...string) (found []int) {
	entries, _ := os.ReadDir("/proc")
	for _, entry := range entries {
		var pid int
		if n, _ := fmt.Sscan(entry.Name(), &pid); n != 1 {
			continue
		}
		line, err := os.ReadFile("/proc/" + entry.Name() + "/cmdline")
		if err != nil {
			continue
		}
		args := strings.Split(string(line), "\x00")
		if !slices.ContainsFunc(words, func(word string) bool { return !slices.Contains(args, word) }) {
			found = append(found, pid)
		}
	}
	return found
}

// eventually waits for something, and says whether it came.
func eventually(within time.Duration, is func() bool) bool {
	for until := time.Now().Add(within); ; time.Sleep(5 * time.Millisecond) {
		if is() {
			return true
		}
		if time.Now().After(until) {
			return false
		}
	}
}
