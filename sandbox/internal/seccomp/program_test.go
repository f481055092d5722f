//go:build amd64 || arm64

package seccomp

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// execveat returns when it failed.
func execveat(fd int, path string, argv, env []*byte, flags int) error {
	name, err := unix.BytePtrFromString(path)
	if err != nil {
		return err
	}
	_, _, number := unix.RawSyscall6(unix.SYS_EXECVEAT, uintptr(fd), uintptr(unsafe.Pointer(name)),
		uintptr(unsafe.Pointer(&argv[0])), uintptr(unsafe.Pointer(&env[0])), uintptr(flags), 0)
	return number
}

// launched is the test binary that launches a program under a filter, in a directory of the user's own.
func launched(t testing.TB, u user, n filterName, args ...string) *exec.Cmd {
	t.Helper()
	dir, err := os.MkdirTemp("", "seccomp")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	if u.attr != nil {
		if err := os.Chown(dir, int(u.attr.Credential.Uid), int(u.attr.Credential.Gid)); err != nil {
			t.Fatal(err)
		}
	}
	cmd := u.child(t, append([]string{"__launch", string(n)}, args...)...)
	cmd.Dir = dir
	cmd.Env = []string{"HOME=" + dir, "TMPDIR=" + dir, "PATH=/usr/bin:/bin"}
	return cmd
}

// everyFilter runs a test for every user and filter.
func everyFilter(t *testing.T, test func(*testing.T, user, filterName)) {
	for _, u := range users() {
		for _, n := range []filterName{off, plugin, pluginExec, pluginNetwork, command, commandNetwork} {
			t.Run(u.name+"/"+string(n), func(t *testing.T) { test(t, u, n) })
		}
	}
}

// A Go program works under every filter: threads, timers, files, unix sockets, signals, garbage.
// Seen to fail without futex, and without CLONE_SETTLS among the flags of a thread.
func TestGoProgram(t *testing.T) {
	everyFilter(t, func(t *testing.T, u user, n filterName) {
		if got := output(t, launched(t, u, n, "/proc/self/exe", "__program", string(n))); got != "all well\n" {
			t.Errorf("the program printed %q", got)
		}
	})
}

// runProgram does what a plugin does, and what only some filters allow.
func runProgram(args []string) int {
	steps := []struct {
		name string
		run  func() error
	}{
		{"threads", useThreads}, {"timers", useTimers}, {"files", useFiles}, {"sockets", useSockets}, {"signals", useSignals},
		{"memory", useMemory},
	}
	for _, s := range steps {
		if err := s.run(); err != nil {
			fmt.Printf("%s: %v\n", s.name, err)
			return 1
		}
	}
	n := filterName(args[0])
	if err := exec.Command("/bin/true").Run(); (err == nil) != (n != plugin && n != pluginNetwork) {
		fmt.Println("run a program:", err)
		return 1
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if (err == nil) != (n == off || n == pluginNetwork || n == commandNetwork) {
		fmt.Println("listen:", err)
		return 1
	}
	if err == nil {
		defer l.Close()
		if err := talk(l); err != nil {
			fmt.Println("tcp:", err)
			return 1
		}
		if _, err := net.Interfaces(); err != nil {
			fmt.Println("interfaces:", err)
			return 1
		}
	}
	fmt.Println("all well")
	return 0
}

func useThreads() error {
	var group sync.WaitGroup
	var errs [20]error
	for i := range errs {
		group.Go(func() {
			runtime.LockOSThread() // a thread each, which ends with the goroutine
			pipe := make([]int, 2)
			errs[i] = unix.Pipe2(pipe, unix.O_CLOEXEC)
			if errs[i] == nil {
				_ = unix.Close(pipe[0])
				_ = unix.Close(pipe[1])
			}
		})
	}
	group.Wait()
	return errors.Join(errs[:]...)
}

func useTimers() error {
	ticker := time.NewTicker(time.Millisecond)
	defer ticker.Stop()
	for range 3 {
		<-ticker.C
	}
	return nil
}

func useFiles() error {
	dir, err := os.MkdirTemp("", "files")
	if err != nil {
		return err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	name := filepath.Join(dir, "b")
	file, err := os.CreateTemp(dir, "a")
	if err != nil {
		return err
	}
	defer file.Close()
	_, err = file.WriteString("hello")
	err = errors.Join(err,
		file.Sync(), file.Truncate(4), file.Chmod(0o600), os.Rename(file.Name(), name),
		os.Link(name, name+"1"), os.Symlink("b", name+"2"), os.Chtimes(name, time.Now(), time.Now()),
		os.MkdirAll(filepath.Join(dir, "c", "d"), 0o700), root.WriteFile("e", []byte("x"), 0o600), root.Rename("e", "f"),
		unix.Flock(int(file.Fd()), unix.LOCK_EX), unix.Fallocate(int(file.Fd()), 0, 0, 100))
	if err != nil {
		return err
	}
	from, err := os.Open(name + "2")
	if err != nil {
		return err
	}
	defer from.Close()
	to, err := os.Create(filepath.Join(dir, "g"))
	if err != nil {
		return err
	}
	defer to.Close()
	if n, err := io.Copy(to, from); err != nil || n != 100 {
		return fmt.Errorf("copied %d bytes: %w", n, err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 6 {
		return fmt.Errorf("%d entries: %w", len(entries), err)
	}
	return os.RemoveAll(dir)
}

func useSockets() error {
	dir, err := os.MkdirTemp("", "sockets")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	l, err := net.Listen("unix", filepath.Join(dir, "s"))
	if err != nil {
		return err
	}
	defer l.Close()
	return talk(l)
}

// talk echoes a line over l.
func talk(l net.Listener) error {
	served := make(chan error, 1)
	go func() {
		c, err := l.Accept()
		if err == nil {
			defer c.Close()
			_, err = io.Copy(c, c)
		}
		served <- err
	}()
	c, err := net.Dial(l.Addr().Network(), l.Addr().String())
	if err != nil {
		return err
	}
	defer c.Close()
	if err := c.SetDeadline(time.Now().Add(patience)); err != nil {
		return err
	}
	if _, err := io.WriteString(c, "hello\n"); err != nil {
		return err
	}
	line, err := bufio.NewReader(c).ReadString('\n')
	if err != nil || line != "hello\n" {
		return fmt.Errorf("read %q: %w", line, err)
	}
	c.Close()
	return <-served
}

// patience is for what is sure to come.
const patience = 20 * time.Second

func useSignals() error {
	got := make(chan os.Signal, 1)
	signal.Notify(got, syscall.SIGUSR1)
	self, err := os.FindProcess(os.Getpid())
	if err != nil {
		return err
	}
	if err := self.Signal(syscall.SIGUSR1); err != nil {
		return err
	}
	select {
	case <-got:
		return nil
	case <-time.After(patience):
		return errors.New("the signal did not come")
	}
}

func useMemory() error {
	for range 50 {
		if b := make([]byte, 1<<20); len(b) == 0 {
			return errors.New("no memory")
		}
	}
	runtime.GC()
	debug.FreeOSMemory()
	debug.SetMemoryLimit(1 << 30)
	return nil
}

// Interpreters that compile at run time, and the C library's threads, work without Exec too.
func TestInterpreters(t *testing.T) {
	const script = `
import os, sys, threading, tempfile, socket, select, time, json, shutil, mmap, signal, subprocess, asyncio
with tempfile.TemporaryDirectory() as d:
    p = os.path.join(d, "a")
    open(p, "w").write("hello")
    shutil.copy2(p, p + "1")
    os.rename(p + "1", p + "2")
    assert sorted(os.listdir(d)) == ["a", "a2"]
    s = socket.socket(socket.AF_UNIX)
    s.bind(os.path.join(d, "s")); s.listen()
done = []
ts = [threading.Thread(target=done.append, args=(i,)) for i in range(8)]
[x.start() for x in ts]; [x.join() for x in ts]
assert len(done) == 8
async def main():
    await asyncio.sleep(0.01)
    return await asyncio.get_running_loop().run_in_executor(None, lambda: 7)
assert asyncio.run(main()) == 7
signal.raise_signal(signal.SIGCHLD)
m = mmap.mmap(-1, 4096, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS); m.close()
print("hello", sys.version_info[0])
`
	const module = `
const fs = require("fs"), os = require("os"), path = require("path"), net = require("net");
const d = fs.mkdtempSync(path.join(os.tmpdir(), "n"));
fs.writeFileSync(path.join(d, "a"), "hello");
fs.copyFileSync(path.join(d, "a"), path.join(d, "b"));
fs.renameSync(path.join(d, "b"), path.join(d, "c"));
if (fs.readdirSync(d).join() !== "a,c") throw new Error("files");
let s = 0; for (let i = 0; i < 3e6; i++) s = (s * 31 + i) | 0;
fs.watch(d).close();
const { Worker } = require("worker_threads");
const server = net.createServer((c) => c.pipe(c)).listen(path.join(d, "s"), () => {
  const c = net.connect(path.join(d, "s"), () => c.end("x"));
  c.on("data", () => {}).on("close", () => {
    server.close();
    fs.promises.readFile(path.join(d, "a"), "utf8").then((text) => {
      new Worker("require('worker_threads').parentPort.postMessage(1)", { eval: true }).on("message", () => {
        fs.rmSync(d, { recursive: true });
        console.log(text, "node");
      });
    });
  });
});
`
	for _, test := range []struct {
		name string
		args []string
		want string
	}{
		{"python3", []string{"-c", script}, "hello 3\n"},
		{"node", []string{"-e", module}, "hello node\n"},
		{"perl", []string{"-e", `print "hello perl\n"`}, "hello perl\n"},
		{"awk", []string{`BEGIN { print "hello awk" }`}, "hello awk\n"},
	} {
		t.Run(test.name, func(t *testing.T) {
			program := "/usr/bin/" + test.name
			if _, err := os.Stat(program); err != nil {
				t.Skip("not on this machine: ", err)
			}
			everyFilter(t, func(t *testing.T, u user, n filterName) {
				if got := output(t, launched(t, u, n, append([]string{program}, test.args...)...)); got != test.want {
					t.Errorf("it printed %q, want %q", got, test.want)
				}
			})
		})
	}
}

// Programs of a shell work under the filter for commands.
func TestCommandProgram(t *testing.T) {
	const script = `set -e; echo a > a; cp -p a b; mkfifo f; mkdir c; mv b c; ls -l c | grep -q b; (echo x; echo y) | sort -r | head -1; ` +
		`sleep 0.01 & wait; tar cf d.tar a c; tar tf d.tar > /dev/null; find . -name a; ln -s a e; chmod 600 a; touch a; rm -r c`
	for _, u := range users() {
		for _, n := range []filterName{off, pluginExec, command, commandNetwork} {
			if got, want := output(t, launched(t, u, n, "/bin/sh", "-c", script)), "y\n./a\n"; got != want {
				t.Errorf("%s, %s: it printed %q, want %q", u.name, n, got, want)
			}
		}
	}
}

// A call by the numbers of the 32-bit architecture ends the process, before it does anything. Seen to fail
// with another architecture allowed.
func TestLaw46ForeignArchitecture(t *testing.T) {
	if runtime.GOARCH != "amd64" {
		t.Skip("the program is made for amd64")
	}
	// getpid by its number of old, then exit(7) by the present one.
	const code = "\xb8\x14\x00\x00\x00" + "\xcd\x80" + // mov eax, 20; int 0x80
		"\xbf\x07\x00\x00\x00" + "\xb8\x3c\x00\x00\x00" + "\x0f\x05" // mov edi, 7; mov eax, 60; syscall
	testKilled(t, code)
}

// So does a call by the numbers of x32. Seen to fail with those allowed.
func TestLaw46ForeignNumbers(t *testing.T) {
	if runtime.GOARCH != "amd64" {
		t.Skip("no other architecture has a second set of numbers")
	}
	const code = "\xb8\x27\x00\x00\x40" + "\x0f\x05" + // mov eax, 0x40000027; syscall
		"\xbf\x07\x00\x00\x00" + "\xb8\x3c\x00\x00\x00" + "\x0f\x05"
	testKilled(t, code)
}

// testKilled runs code, which exits with 7 where it is not killed.
func testKilled(t *testing.T, code string) {
	file := "/tmp/" + filepath.Base(t.TempDir()) + strings.ReplaceAll(t.Name(), "/", "")
	if err := os.WriteFile(file, elf(code), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.Remove(file) })
	everyFilter(t, func(t *testing.T, u user, n filterName) {
		cmd := launched(t, u, n, file)
		if n != off {
			wantKilled(t, cmd)
			return
		}
		out, err := cmd.CombinedOutput()
		var exit *exec.ExitError
		if !errors.As(err, &exit) || exit.ExitCode() != 7 {
			t.Skipf("this machine does not make such calls: %v\n%s", err, out)
		}
	})
}

// elf is a program of 64 bits for Linux that consists of code.
func elf(code string) []byte {
	const base, headers = 0x400000, 64 + 56
	var out bytes.Buffer
	out.WriteString("\x7fELF\x02\x01\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00")
	size := uint64(headers + len(code))
	for _, field := range []any{
		uint16(2), uint16(62), uint32(1), uint64(base + headers), uint64(64), uint64(0), uint32(0), // executable, x86-64
		uint16(64), uint16(56), uint16(1), uint16(0), uint16(0), uint16(0),
		uint32(1), uint32(5), uint64(0), uint64(base), uint64(base), size, size, uint64(0x1000), // loaded, read and executed
	} {
		_ = binary.Write(&out, binary.LittleEndian, field)
	}
	out.WriteString(code)
	return out.Bytes()
}
