package sandbox

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/toolhost/toolhost/scope"
)

// lookAround is what runs in a jail: each argument is something to do, in words, and gives a
// line with what came of it, or the name of the system's error.
func lookAround(args []string) int {
	signal.Ignore(syscall.SIGXFSZ) // the error is enough
	for _, arg := range args {
		words := strings.Fields(arg)
		got, err := deeds[words[0]](append(words[1:], "", ""))
		var number syscall.Errno
		switch {
		case errors.As(err, &number):
			got += unix.ErrnoName(number)
		case err != nil:
			got += err.Error()
		}
		fmt.Println(strconv.Quote(got))
	}
	return 0
}

// deeds are what lookAround can do; what is not there is an empty argument.
var deeds = map[string]func(args []string) (string, error){
	"tree": func([]string) (string, error) { return treeOf("/"), nil },
	"ls": func(args []string) (string, error) {
		entries, err := os.ReadDir(args[0])
		var names []string
		for _, entry := range entries {
			names = append(names, entry.Name())
		}
		return strings.Join(names, " "), err
	},
	"touch": func(args []string) (string, error) { // changes the times, and the mode
		long := time.Unix(0, 0)
		return "", errors.Join(os.Chtimes(args[0], long, long), unix.Chmod(args[0], 0o777))
	},
	"read": func(args []string) (string, error) {
		content, err := os.ReadFile(args[0])
		return string(content), err
	},
	"stat": func(args []string) (string, error) {
		_, err := os.Lstat(args[0])
		return "", err
	},
	"write":   func(args []string) (string, error) { return "", os.WriteFile(args[0], []byte("written"), 0o600) },
	"mkdir":   func(args []string) (string, error) { return "", os.Mkdir(args[0], 0o700) },
	"remove":  func(args []string) (string, error) { return "", syscall.Unlink(args[0]) },
	"rename":  func(args []string) (string, error) { return "", syscall.Rename(args[0], args[1]) },
	"chmod":   func(args []string) (string, error) { return "", syscall.Chmod(args[0], 0o777) },
	"mkfifo":  func(args []string) (string, error) { return "", syscall.Mkfifo(args[0], 0o600) },
	"pwd":     func([]string) (string, error) { return os.Getwd() },
	"env":     func([]string) (string, error) { return strings.Join(os.Environ(), " "), nil },
	"kill":    func(args []string) (string, error) { return "", syscall.Kill(number(args[0]), syscall.SIGKILL) },
	"exec":    func(args []string) (string, error) { return "", syscall.Exec(args[0], args[:1], nil) },
	"rights":  rights,
	"files":   openedFiles,
	"fill":    fill,
	"crowd":   crowd,
	"extend":  func(args []string) (string, error) { return "", extend(args[0], int64(number(args[1]))) },
	"memory":  eat,
	"threads": threads,
	"sleep":   func([]string) (string, error) { fmt.Println(`"asleep"`); select {} },
	"tick": func([]string) (string, error) {
		for {
			fmt.Println(`"tick"`)
			time.Sleep(10 * time.Millisecond)
		}
	},
}

func number(word string) int {
	n, err := strconv.Atoi(word)
	if err != nil {
		panic(err)
	}
	return n
}

// treeOf is every path that is there, but for processes and what is of the system.
func treeOf(root string) string {
	var all []string
	_ = filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			path += "!"
		}
		all = append(all, path)
		if path == "/proc" || path == "/usr" || path == "/etc" {
			return fs.SkipDir
		}
		return nil
	})
	return strings.Join(all, " ")
}

// rights are who the process is, and what it may become.
func rights([]string) (string, error) {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var has [2]unix.CapUserData
	if err := unix.Capget(&header, &has[0]); err != nil {
		return "", err
	}
	bounding := 0
	for c := range uintptr(64) {
		if in, err := unix.PrctlRetInt(unix.PR_CAPBSET_READ, c, 0, 0, 0); err == nil {
			bounding += in
		}
	}
	locked, err := unix.PrctlRetInt(unix.PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0)
	return fmt.Sprint("pid ", os.Getpid(), " uid ", os.Getuid(), os.Geteuid(), " gid ", os.Getgid(), " capabilities ", has, bounding, " locked ", locked), err
}

// openedFiles are the descriptors that the program was given, and how many it can open.
func openedFiles([]string) (string, error) {
	var given []string
	for fd := range 1 << 16 {
		flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0)
		if err != nil {
			continue
		}
		// The runtime's own close themselves.
		if flags&unix.FD_CLOEXEC == 0 {
			given = append(given, strconv.Itoa(fd))
		}
	}
	for opened := 0; ; opened++ {
		if _, err := unix.Open("/dev/null", unix.O_RDONLY, 0); err != nil {
			return fmt.Sprintf("%s and %d more than 20: ", strings.Join(given, " "), opened/20), err
		}
	}
}

// fill writes until it cannot, and gives the number of mebibytes.
func fill(args []string) (string, error) {
	file, err := os.Create(args[0])
	if err != nil {
		return "", err
	}
	for block, written := make([]byte, 1<<20), 0; ; written++ {
		if _, err := file.Write(block); err != nil || written > 1024 {
			return fmt.Sprint(written, " "), err
		}
	}
}

// crowd makes empty files until it cannot, and gives the number of thousands.
func crowd(args []string) (string, error) {
	for n := 0; ; n++ {
		fd, err := unix.Open(filepath.Join(args[0], strconv.Itoa(n)), unix.O_CREAT|unix.O_WRONLY, 0o600)
		if err != nil {
			return fmt.Sprint(n/1000, " "), err
		}
		_ = unix.Close(fd)
	}
}

func extend(path string, gibibytes int64) error {
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	return file.Truncate(gibibytes << 30)
}

// eat takes so many mebibytes and writes into all of them.
func eat(args []string) (string, error) {
	const block = 1 << 20
	for range number(args[0]) {
		memory, err := unix.Mmap(-1, 0, block, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
		if err != nil {
			return "", err
		}
		for i := 0; i < block; i += 4096 {
			memory[i] = 1
		}
	}
	return "eaten", nil
}

// threads starts so many.
func threads(args []string) (string, error) {
	for range number(args[0]) {
		started := make(chan struct{})
		go func() {
			runtime.LockOSThread()
			close(started)
			select {}
		}()
		<-started
	}
	return "started", nil
}

// strict skips a test where nothing can be confined, unless that is a mistake of the
// machine's.
func strict(t testing.TB) {
	t.Helper()
	owner := scope.New(context.Background(), "probe")
	defer owner.Close(context.Background())
	found := Probe(t.Context(), owner, launcher(reaperRole))
	switch {
	case found.Tier == Strict:
	case os.Getenv("TOOLHOST_REQUIRE_TIER") == string(Strict):
		t.Fatalf("this machine must confine: %s", found.Reason)
	default:
		t.Skipf("this machine does not confine: %s", found.Reason)
	}
}

// insideSpec is a spec that has the test binary look around in a jail, as a sealed copy.
func insideSpec(t testing.TB, policy Policy, deeds ...string) Spec {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	programs := &Programs{}
	program, release, err := programs.Copy(self)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(release)
	policy.System = policy.System || program.Interpreter != "" // with the race detector
	return Spec{Path: self, Args: append([]string{"__inside"}, deeds...), Env: []string{}, Policy: &policy, Program: program}
}

// jailed runs a spec to its end.
func jailed(t testing.TB, spec Spec) (stdout, stderr string, p *Process) {
	t.Helper()
	p = start(t, reaperRole, spec)
	said := make(chan string, 1)
	go func() { said <- readAll(t, p.Stderr) }()
	stdout = readAll(t, p.Stdout)
	stderr = <-said
	await(t, "the end", p.Gone())
	return stdout, stderr, p
}

// lookInside gives what came of each deed.
func lookInside(t testing.TB, spec Spec) []string {
	t.Helper()
	stdout, stderr, p := jailed(t, spec)
	var all []string
	for line := range strings.Lines(stdout) {
		text, err := strconv.Unquote(strings.TrimSpace(line))
		if err != nil {
			t.Fatalf("it printed %s", line)
		}
		all = append(all, text)
	}
	if p.Exit() != (Exit{}) || len(all) != len(spec.Args)-1 {
		t.Fatalf("it ended with %s after %q, and said %.2000s", p.Exit(), all, stderr)
	}
	return all
}

// wantInside runs deeds, each with what must come of it.
func wantInside(t testing.TB, spec Spec, want ...string) {
	t.Helper()
	for i, got := range lookInside(t, spec) {
		if got != want[i] {
			t.Errorf("%s: got %q, want %q", spec.Args[i+1], got, want[i])
		}
	}
}

// table splits pairs of a deed and what must come of it.
func table(pairs [][2]string) (deeds, want []string) {
	for _, pair := range pairs {
		deeds, want = append(deeds, pair[0]), append(want, pair[1])
	}
	return deeds, want
}

// plain is a directory without links in its path.
func plain(t testing.TB) string {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// lay writes files, each with its own name as content.
func lay(t testing.TB, paths ...string) {
	t.Helper()
	for _, path := range paths {
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(filepath.Base(path)), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
}

// parents are the directories above a path, outermost first, without the root.
func parents(path string) []string {
	var all []string
	for at := filepath.Dir(path); at != "/"; at = filepath.Dir(at) {
		all = append(all, at)
	}
	slices.Reverse(all)
	return all
}

func itoa(fd uintptr) string { return strconv.Itoa(int(fd)) }

func signalStop(pid int) error { return syscall.Kill(pid, syscall.SIGSTOP) }
