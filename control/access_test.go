package control

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/toolhost/toolhost/config"
	"github.com/toolhost/toolhost/host"
	"github.com/toolhost/toolhost/scope"
)

const (
	nobody  = 65534
	request = "GET /v1/status HTTP/1.1\r\nHost: x\r\n\r\n"
)

// intrude asks a host for its status and says what it got, or an error; if it is told
// which process started it, not before that is gone.
func intrude(path string, starter ...string) int {
	for len(starter) > 0 && strconv.Itoa(os.Getppid()) == starter[0] {
		time.Sleep(time.Millisecond)
	}
	conn, err := net.Dial("unix", path)
	if err != nil {
		fmt.Println(err)
		return 1
	}
	_, wrote := io.WriteString(conn, request)
	answer, read := io.ReadAll(conn)
	fmt.Printf("as %d: %d bytes, %v, %v\n", os.Geteuid(), len(answer), wrote, read)
	return 0
}

// orphan starts a process that asks once this one, which started it, is gone, so that it
// is below nobody here.
func orphan(path string) int {
	child := exec.Command("/proc/self/exe", "__intrude", path, strconv.Itoa(os.Getpid()))
	child.Stdout, child.Stderr = os.Stdout, os.Stderr
	if err := child.Start(); err != nil {
		fmt.Println(err)
		return 1
	}
	return 0
}

// pose listens at a path as a host would and says what comes.
func pose(path string) int {
	l, err := net.Listen("unix", path)
	if err == nil {
		err = os.Chmod(path, 0o777)
	}
	if err != nil {
		fmt.Println(err)
		return 1
	}
	defer l.Close()
	fmt.Println("poses")
	_, _ = io.Copy(io.Discard, os.Stdin)
	return 0
}

func asRoot(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("only root can be somebody else")
	}
}

// open lets everybody into a directory until the test ends.
func open(t *testing.T, dir string) {
	t.Helper()
	for _, d := range []string{filepath.Dir(dir), dir} {
		if err := os.Chmod(d, 0o777); err != nil {
			t.Fatal(err)
		}
	}
}

// TestAnotherUserIsRefused, though the rights of directory and socket let it in:
// its connection is closed and nothing is answered. Seen to fail with an Accept that
// takes anybody.
func TestAnotherUserIsRefused(t *testing.T) {
	asRoot(t)
	s := serve(t, "", quick())
	open(t, s.dir)
	if err := os.Chmod(s.Path(), 0o777); err != nil {
		t.Fatal(err)
	}
	if _, got := other(t, nobody, "__orphan", s.Path()); !strings.HasPrefix(got, "as 65534: 0 bytes") {
		t.Errorf("a stranger got %q, want nothing", got)
	}
	if _, got := other(t, -1, "__orphan", s.Path()); strings.Contains(got, ": 0 bytes") || !strings.HasPrefix(got, "as 0:") {
		t.Errorf("the user got %q, want an answer", got)
	}
	_ = os.Chmod(s.dir, 0o700)
}

// TestWhatTheHostStartedIsRefused: a plugin answers none of the host's questions, nor
// does what it started. Seen to fail with an Accept that asks for the user alone.
func TestWhatTheHostStartedIsRefused(t *testing.T) {
	s := serve(t, "", quick())
	if _, got := other(t, -1, "__intrude", s.Path()); !strings.Contains(got, ": 0 bytes") {
		t.Errorf("a process of the host's got %q, want nothing", got)
	}
}

// TestAnotherUserCannotPose: a socket of somebody else in the user's directory is an
// error, gets no byte, and hides no host. Seen to fail with a dial that asks nothing.
func TestAnotherUserCannotPose(t *testing.T) {
	asRoot(t)
	s := serve(t, "", quick())
	open(t, s.dir)
	posed := filepath.Join(s.dir, "7-posed.sock")
	if _, got := other(t, nobody, "__pose", posed); got != "poses" {
		t.Fatal(got)
	}
	if err := os.Chmod(s.dir, 0o700); err != nil {
		t.Fatal(err)
	}
	clients, err := Hosts(t.Context(), s.dir)
	if !errors.Is(err, ErrStranger) || len(clients) != 1 || clients[0].Pid() != os.Getpid() {
		t.Errorf("hosts are %v, %v, want one, and ErrStranger", clients, err)
	}
	for _, c := range clients {
		c.Close()
	}
	if _, err := os.Lstat(posed); err != nil {
		t.Error(err)
	}
}

// TestDirectory: what others could have put something into is refused, by servers
// and by clients. Seen to fail with each case of checkDir removed.
func TestDirectory(t *testing.T) {
	tests := map[string]struct {
		make func(dir string) error
		want string // of the error; empty: it is fine
	}{
		"missing": {func(string) error { return nil }, ""},
		"private": {func(dir string) error { return os.Mkdir(dir, 0o700) }, ""},
		"open":    {func(dir string) error { return errors.Join(os.Mkdir(dir, 0o700), os.Chmod(dir, 0o750)) }, "chmod 0700"},
		"link": {func(dir string) error {
			return errors.Join(os.Mkdir(dir+".real", 0o700), os.Symlink(dir+".real", dir))
		}, "is a link"},
		"file":   {func(dir string) error { return os.WriteFile(dir, nil, 0o700) }, "is a file"},
		"orphan": {func(dir string) error { return os.Remove(filepath.Dir(dir)) }, "XDG_RUNTIME_DIR"},
		"foreign": {func(dir string) error {
			return errors.Join(os.Mkdir(dir, 0o700), os.Chown(dir, nobody, nobody))
		}, "belongs to user 65534"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if name == "foreign" {
				asRoot(t)
			}
			dir := socketDir(t)
			if err := test.make(dir); err != nil {
				t.Fatal(err)
			}
			clients, err := Hosts(t.Context(), dir+"/")
			if refused := err != nil; len(clients) != 0 || refused != (test.want != "" && name != "orphan") {
				t.Errorf("hosts are %v, %v", clients, err)
			}
			h, err := host.Open(t.Context(), &config.Config{}, host.Options{})
			if err != nil {
				t.Fatal(err)
			}
			life := scope.New(t.Context(), "test")
			s, err := Listen(life, Options{Dir: dir + "/", Host: h})
			if test.want == "" && err != nil || test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)) {
				t.Errorf("error is %v, want %q", err, test.want)
			}
			if err == nil {
				for path, want := range map[string]fs.FileMode{dir: 0o700, s.Path(): 0o600} {
					if info, err := os.Lstat(path); err != nil || info.Mode().Perm() != want {
						t.Errorf("%s: %v, %v, want mode %v", path, info.Mode(), err, want)
					}
				}
			}
			if err := errors.Join(life.Close(t.Context()), h.Close(t.Context())); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestPathTooLong says what to do.
func TestPathTooLong(t *testing.T) {
	dir := filepath.Join(socketDir(t), strings.Repeat("x", 100))
	h, err := host.Open(t.Context(), &config.Config{}, host.Options{})
	if err != nil {
		t.Fatal(err)
	}
	life := scope.New(t.Context(), "test")
	if _, err := Listen(life, Options{Dir: dir, Host: h}); err == nil || !strings.Contains(err.Error(), "the system takes 107: set XDG_RUNTIME_DIR") {
		t.Errorf("error is %v", err)
	}
	if err := errors.Join(life.Close(t.Context()), h.Close(t.Context())); err != nil {
		t.Error(err)
	}
	if _, err := Listen(life, Options{Host: nil}); err == nil {
		t.Error("a server without a host")
	}
	if _, err := Listen(life, Options{Host: h}); !errors.Is(err, scope.ErrClosed) {
		t.Errorf("in a closed scope: %v", err)
	}
}

// TestDefaultDir: where it is, by what the environment says.
func TestDefaultDir(t *testing.T) {
	uid := strconv.Itoa(os.Geteuid())
	fallback := "/tmpdir/toolhost-" + uid
	if info, err := os.Lstat("/run/user/" + uid); err == nil && info.IsDir() && owner(info) == os.Geteuid() {
		fallback = "/run/user/" + uid + "/toolhost"
	}
	t.Setenv("TMPDIR", "/tmpdir")
	for base, want := range map[string]string{"/run/mine": "/run/mine/toolhost", "": fallback, "relative": fallback} {
		t.Setenv("XDG_RUNTIME_DIR", base)
		if got := DefaultDir(); got != want {
			t.Errorf("with %q it is %s, want %s", base, got, want)
		}
	}
}

// killedHost leaves the socket of a host that was killed.
func killedHost(t *testing.T, dir string) string {
	t.Helper()
	cmd, got := other(t, -1, "__serve", dir)
	if got != "ready" {
		t.Fatal(got)
	}
	c := ofPid(t, dir, cmd.Process.Pid)
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	var status *exec.ExitError
	if err := cmd.Wait(); !errors.As(err, &status) || status.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
		t.Fatal(err)
	}
	if _, err := os.Lstat(c.Path()); err != nil {
		t.Fatalf("the killed host left no socket: %v", err)
	}
	return c.Path()
}

// ofPid is the host of a process.
func ofPid(t *testing.T, dir string, pid int) *Client {
	t.Helper()
	clients, err := Hosts(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.IsSortedFunc(clients, func(a, b *Client) int { return a.Pid() - b.Pid() }) {
		t.Errorf("hosts are not in the order of their pids: %v", clients)
	}
	var found *Client
	for _, c := range clients {
		defer c.Close()
		if c.Pid() == pid {
			found = c
		}
	}
	if found == nil {
		t.Fatalf("host %d is not among %v", pid, clients)
	}
	return found
}

// TestLaw41KilledHost: what it left is removed by the next start and by a listing,
// and a live host's socket never is. Seen to fail without the sweep in either place.
func TestLaw41KilledHost(t *testing.T) {
	dir := socketDir(t)
	live := serve(t, dir, quick())
	left := killedHost(t, dir)
	if len(files(t, dir)) != 2 {
		t.Errorf("files are %v", files(t, dir))
	}
	second := serve(t, dir, quick())
	if _, err := os.Lstat(left); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("after a start: %v", err)
	}
	left = killedHost(t, dir)
	clients, err := Hosts(t.Context(), dir)
	if err != nil || len(clients) != 2 {
		t.Errorf("hosts are %v, %v, want the two live ones", clients, err)
	}
	for _, c := range clients {
		c.Close()
	}
	if _, err := os.Lstat(left); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("after a listing: %v", err)
	}
	for _, s := range []*served{live, second} {
		if _, err := os.Lstat(s.Path()); err != nil {
			t.Error(err)
		}
	}
}

// listener makes a socket at path without accepting: bound, and listening if the
// backlog is not negative.
func listener(t *testing.T, path string, backlog int) {
	t.Helper()
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(fd) })
	if err := unix.Bind(fd, &unix.SockaddrUnix{Name: path}); err != nil {
		t.Fatal(err)
	}
	if backlog >= 0 {
		if err := unix.Listen(fd, backlog); err != nil {
			t.Fatal(err)
		}
	}
}

// TestLaw41OnlyWhatIsDeadIsRemoved: a host that is about to listen, one whose queue
// is full, and what is no socket of a host stay. Seen to fail with a sweep of every
// socket that cannot be connected to, and of those under their first names.
func TestLaw41OnlyWhatIsDeadIsRemoved(t *testing.T) {
	dir := socketDir(t)
	if err := makeDir(dir); err != nil {
		t.Fatal(err)
	}
	at := func(name string) string { return filepath.Join(dir, name) }
	listener(t, at(".11-nascent.sock"), -1)
	listener(t, at(".12-old.sock"), -1)
	listener(t, at("13-full.sock"), 0)
	listener(t, at("14-dead.sock"), -1)
	listener(t, at("name.sock"), -1)
	if err := os.Chtimes(at(".12-old.sock"), time.Now(), time.Now().Add(-time.Hour)); err != nil {
		t.Fatal(err)
	}
	for range 3 { // more than it takes
		if conn, err := net.Dial("unix", at("13-full.sock")); err == nil {
			defer conn.Close()
		} else if !errors.Is(err, syscall.EAGAIN) {
			t.Fatal(err)
		}
	}
	if err := errors.Join(os.WriteFile(at("15-file.sock"), nil, 0o600), os.Symlink("14-dead.sock", at("16-link.sock"))); err != nil {
		t.Fatal(err)
	}
	s := serve(t, dir, quick())
	want := []string{".11-nascent.sock", "13-full.sock", "15-file.sock", "16-link.sock", filepath.Base(s.Path()), "name.sock"}
	got := map[string]bool{}
	for _, name := range files(t, dir) {
		got[name] = true
	}
	for _, name := range want {
		if !got[name] {
			t.Errorf("%s is gone", name)
		}
	}
	if len(got) != len(want) {
		t.Errorf("left are %v, want %v", got, want)
	}

	began := time.Now()
	clients, err := Hosts(t.Context(), dir)
	if !errors.Is(err, ErrSilent) || len(clients) != 1 || clients[0].Path() != s.Path() {
		t.Errorf("hosts are %v, %v, want the one that answers, and ErrSilent", clients, err)
	}
	for _, c := range clients {
		c.Close()
	}
	if took := time.Since(began); took > listingTime+time.Second {
		t.Errorf("listing took %v", took)
	}
	if now := len(files(t, dir)); now != len(want) {
		t.Errorf("after a listing %v are left", files(t, dir))
	}
}

// TestHungHost: a host that is stopped is an error beside the others.
func TestHungHost(t *testing.T) {
	dir := socketDir(t)
	s := serve(t, dir, quick())
	cmd, got := other(t, -1, "__serve", dir)
	if got != "ready" {
		t.Fatal(got)
	}
	if err := cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	var stopped unix.WaitStatus
	if _, err := unix.Wait4(cmd.Process.Pid, &stopped, unix.WUNTRACED, nil); err != nil || !stopped.Stopped() {
		t.Fatalf("status is %v, %v, want stopped", stopped, err)
	}
	clients, err := Hosts(t.Context(), dir)
	if !errors.Is(err, ErrSilent) || !strings.Contains(err.Error(), fmt.Sprintf("host %d ", cmd.Process.Pid)) ||
		len(clients) != 1 || clients[0].Path() != s.Path() {
		t.Errorf("hosts are %v, %v, want one, and that the other is silent", clients, err)
	}
	for _, c := range clients {
		c.Close()
	}
}
