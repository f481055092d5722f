package process

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"github.com/toolhost/toolhost/sandbox"
	"github.com/toolhost/toolhost/scope"
	"github.com/toolhost/toolhost/service"
	"github.com/toolhost/toolhost/service/permission"
	"github.com/toolhost/toolhost/tool"
)

// The test binary is also the launcher.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "__launch" {
		syscall.Exit(sandbox.Main(os.Args[2:])) // without what the race detector does at the end
	}
	goleak.VerifyTestMain(m)
}

func launcher() sandbox.Launcher {
	return sandbox.Launcher{Path: "/proc/self/exe", Args: []string{"__launch"}}
}

// A stage is a service on a directory of the test's.
type stage struct {
	*Service
	t    testing.TB
	root string
	life *scope.Scope
	// profile is how its commands run.
	profile *Profile
	rules   []permission.Rule
	mark    string // in the environment of all that it runs
}

// confinements are the ways in which commands run: confined, and as mode off has it.
func confinements(t *testing.T, test func(t *testing.T, s *stage)) {
	for _, name := range []string{"confined", "off"} {
		t.Run(name, func(t *testing.T) { test(t, newStage(t, name == "confined", Options{})) })
	}
}

var confined struct { // found once
	sync.Once
	sandbox.Finding
}

func newStage(t testing.TB, strict bool, options Options) *stage {
	t.Helper()
	root, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(root, 0o755); err != nil {
		t.Fatal(err)
	}
	life := scope.New(context.Background(), "test")
	t.Cleanup(func() {
		if err := life.Close(context.Background()); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	options.Scope, options.Launcher, options.Root = life, launcher(), root
	if options.Find == nil {
		options.Find = find(root)
	}
	service, err := New(options)
	if err != nil {
		t.Fatal(err)
	}
	mark := fmt.Sprintf("PROCESS_TEST=%d-%d", os.Getpid(), time.Now().UnixNano())
	s := &stage{Service: service, t: t, root: root, life: life, mark: mark, profile: &Profile{
		Env: []string{"PATH=" + os.Getenv("PATH"), "HOME=/tmp", "LANG=C.UTF-8", mark},
	}}
	if strict {
		confined.Do(func() { confined.Finding = sandbox.Probe(context.Background(), life, launcher()) })
		if confined.Tier != sandbox.Strict {
			if os.Getenv("TOOLHOST_REQUIRE_TIER") == string(sandbox.Strict) {
				t.Fatalf("commands cannot be confined: %s", confined.Reason)
			}
			t.Skipf("commands cannot be confined: %s", confined.Reason)
		}
		s.profile.Policy = &sandbox.Policy{Profile: sandbox.Command, Write: []string{root}}
	}
	return s
}

// find finds directories as the Location does, as far as tests need it.
func find(root string) func(context.Context, tool.Gate, string) (Place, error) {
	return func(_ context.Context, _ tool.Gate, path string) (Place, error) {
		full := path
		if !filepath.IsAbs(path) {
			full = filepath.Join(root, path)
		}
		resolved, err := filepath.EvalSymlinks(full)
		if err != nil {
			return Place{}, &service.ProcessError{Kind: service.ProcessBadDirectory, Subject: path, Detail: "is not there"}
		}
		rel, err := filepath.Rel(root, resolved)
		if err != nil || strings.HasPrefix(rel, "..") {
			return Place{}, &service.ProcessError{Kind: service.ProcessBadDirectory, Subject: path, Detail: "is outside"}
		}
		var info unix.Stat_t
		if err := unix.Stat(resolved, &info); err != nil {
			return Place{}, err
		}
		return Place{Path: rel, Device: info.Dev, Inode: info.Ino}, nil
	}
}

// caller is a call of a built-in in a session, which the rules judge.
func (s *stage) caller(session string) Caller {
	return Caller{Gate: s.gate(true), Session: session, Plugin: "process", Profile: s.profile}
}

// gate is one of a call of a built-in, or of another plugin.
func (s *stage) gate(builtin bool) tool.Gate {
	rules := s.rules
	if rules == nil {
		everything, err := permission.ParsePattern("*")
		if err != nil {
			s.t.Fatal(err)
		}
		rules = []permission.Rule{{Action: everything, Resource: everything, Effect: permission.Allow}}
	}
	engine := permission.New(&permission.Policy{Root: s.root, Lists: []permission.List{{Rules: rules}}}, permission.Nobody{})
	return engine.Gate(permission.Caller{Plugin: "process", Tool: "process/shell", Builtin: builtin, Root: s.root})
}

// written is the output of a command, apart and together.
type written struct {
	mu               sync.Mutex
	out, err, joined bytes.Buffer
	dropped          int64
}

func (w *written) take(c service.Chunk) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.dropped += c.Dropped
	w.joined.Write(c.Data)
	if c.Stream == service.Stderr {
		w.err.Write(c.Data)
	} else {
		w.out.Write(c.Data)
	}
	return nil
}

// run runs a command and fails the test if it could not be run.
func (s *stage) run(t testing.TB, c service.Command) (service.CommandResult, *written) {
	t.Helper()
	var w written
	r, err := s.Run(context.Background(), s.caller("session"), c, w.take)
	if err != nil {
		t.Fatalf("%s: %v", c.Line, err)
	}
	return r, &w
}

// left are the processes that have the stage's mark in their environment.
func (s *stage) left() []string {
	names, _ := filepath.Glob("/proc/[0-9]*/environ")
	var left []string
	for _, name := range names {
		environ, err := os.ReadFile(name)
		if err != nil || !bytes.Contains(environ, []byte(s.mark)) {
			continue
		}
		line, _ := os.ReadFile(filepath.Join(filepath.Dir(name), "cmdline"))
		left = append(left, filepath.Base(filepath.Dir(name))+" "+string(bytes.ReplaceAll(line, []byte{0}, []byte{' '})))
	}
	return left
}

// nothingLeft fails the test if there is a process of the stage's.
func (s *stage) nothingLeft(t testing.TB) {
	t.Helper()
	if left := s.left(); len(left) > 0 {
		t.Errorf("%d processes are left: %q", len(left), left)
	}
}

// descriptors are those that this process has open, by what they are.
func descriptors(t testing.TB) []string {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, e := range entries {
		target, err := os.Readlink("/proc/self/fd/" + e.Name())
		if err == nil && !strings.HasSuffix(target, "/fd") {
			all = append(all, target)
		}
	}
	return all
}

// sizes are those of all files below a directory.
func sizes(t testing.TB, root string) map[string]int64 {
	t.Helper()
	all := map[string]int64{}
	err := filepath.WalkDir(root, func(path string, d os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if info, err := d.Info(); err == nil && info.Mode().IsRegular() {
			all[path] = info.Size()
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// kind is the kind of a process error, or empty.
func kind(err error) service.ProcessErrorKind {
	e, ok := errors.AsType[*service.ProcessError](err)
	if !ok {
		return ""
	}
	return e.Kind
}
