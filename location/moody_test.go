package location_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/toolhost/toolhost/config"
	"github.com/toolhost/toolhost/location"
	"github.com/toolhost/toolhost/plugin/client"
	"github.com/toolhost/toolhost/plugin/sdk"
	"github.com/toolhost/toolhost/scope"
	"github.com/toolhost/toolhost/service/permission"
	"github.com/toolhost/toolhost/tool"
	"github.com/toolhost/toolhost/tool/registry"
)

// moody is a plugin that does what files in a directory say: with "fail" it does not
// start, "hold" waits for "go", and "crash" ends it. Its tools say which version it is.
func moody(dir, version string) sdk.Plugin {
	there := func(name string) bool {
		_, err := os.Stat(filepath.Join(dir, name))
		return err == nil
	}
	return sdk.Plugin{Name: "moody", Version: version, Activate: func(ctx context.Context, loc sdk.Location) error {
		if there("fail") {
			fmt.Fprintln(os.Stderr, "no barometer")
			os.Exit(3)
		}
		_, err := loc.Tools.Register(ctx, sdk.Tools{
			"version": sdk.New("Version", func(context.Context, sdk.Call, struct{}) (string, error) { return version, nil }, sdk.NoEffect),
			"hold": sdk.New("Hold", func(ctx context.Context, call sdk.Call, _ struct{}) (string, error) {
				call.Progress(0, 0, "holding")
				for !there("go") {
					select {
					case <-time.After(2 * time.Millisecond):
					case <-ctx.Done():
						return "", ctx.Err()
					}
				}
				return version, nil
			}, sdk.NoEffect),
			"crash": sdk.New("Crash", func(context.Context, sdk.Call, struct{}) (string, error) {
				fmt.Fprintln(os.Stderr, "last words")
				os.Exit(7)
				return "", nil
			}, sdk.NoEffect),
		})
		if err != nil || there("single") {
			return err
		}
		_, err = loc.Tools.Register(ctx, sdk.Tools{
			"second": sdk.New("Second", func(context.Context, sdk.Call, struct{}) (string, error) { return version, nil }, sdk.NoEffect),
		})
		return err
	}}
}

// stage is a Location whose plugins are moody.
type stage struct {
	*location.Location
	t      *testing.T
	dir    string // what the plugins look at
	config config.Location
	queue  *permission.Queue // who is asked; nil: nobody

	mu     sync.Mutex
	events []location.Event // under mu
	calls  int              // under mu
}

// hasty restarts soon and drains briefly.
var hasty = location.Supervision{First: time.Millisecond, Most: 2 * time.Millisecond, Drain: 200 * time.Millisecond, Health: -1}

// newStage opens a Location with the plugins that configured gives, once it knows how.
func newStage(t *testing.T, supervision location.Supervision, configured func(s *stage) []config.Plugin) *stage {
	t.Helper()
	s := &stage{t: t, dir: t.TempDir()}
	s.config = config.Location{
		Name: "here", Root: t.TempDir(), Policy: allowing(t),
	}
	s.config.Plugins = configured(s)
	life := scope.New(context.Background(), "test")
	runDir, err := client.OpenRunDir(life)
	if err != nil {
		t.Fatal(err)
	}
	var approver permission.Approver
	if s.queue != nil {
		approver = s.queue
	}
	s.Location, err = location.Open(context.Background(), life, s.config, location.Options{
		Approver: approver,
		Launcher: launcher, Tier: tier(life), RunDir: runDir, Log: slog.New(slog.DiscardHandler),
		Builtins:    map[string][]string{"moody": {"/proc/self/exe", "__moody", s.dir, "built in"}},
		Supervision: supervision,
		Event: func(e location.Event) {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.events = append(s.events, e)
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		begin := time.Now()
		if err := errors.Join(s.Close(context.Background()), life.Close(context.Background())); err != nil {
			t.Error(err)
		}
		if took := time.Since(begin); took > 5*time.Second {
			t.Errorf("closing took %s", took)
		}
		if _, err := os.Stat(runDir); err == nil {
			t.Error("the run directory is left")
		}
	})
	return s
}

// moodyPlugin is one from outside, of a version, run from the test binary.
func (s *stage) moodyPlugin(name, version string) config.Plugin {
	s.t.Helper()
	exe, err := os.Executable()
	if err != nil {
		s.t.Fatal(err)
	}
	return s.moodyProgram(name, exe, version)
}

func (s *stage) moodyProgram(name, program, version string) config.Plugin {
	return config.Plugin{
		Name: name, Command: []string{program, "__moody", s.dir, version}, Sandbox: config.Sandbox{Mode: config.Off},
	}
}

func (s *stage) put(name string) {
	s.t.Helper()
	if err := os.WriteFile(filepath.Join(s.dir, name), nil, 0o600); err != nil {
		s.t.Fatal(err)
	}
}

func (s *stage) take(name string) {
	s.t.Helper()
	if err := os.Remove(filepath.Join(s.dir, name)); err != nil {
		s.t.Fatal(err)
	}
}

func (s *stage) call(c *registry.Capture, name string) (string, *tool.Error) {
	s.t.Helper()
	return s.callWith(c, name, nil)
}

func (s *stage) callWith(c *registry.Capture, name string, progress func(tool.Progress)) (string, *tool.Error) {
	s.t.Helper()
	s.mu.Lock()
	s.calls++
	id := fmt.Sprint(s.calls)
	s.mu.Unlock()
	settled, err := c.Call(context.Background(), registry.Request{
		Identity: tool.Identity{Session: "s", Agent: "a", Message: "m", Call: id}, Name: name, Progress: progress,
	})
	if err != nil {
		s.t.Errorf("call of %s: %v", name, err)
		return "", nil
	}
	if settled.Error != nil {
		return "", settled.Error
	}
	var text string
	if err := json.Unmarshal(settled.Structured, &text); err != nil {
		s.t.Errorf("call of %s: %v", name, err)
	}
	return text, nil
}

// holding begins a call of "hold" and gives what it answers, once it runs.
func (s *stage) holding(c *registry.Capture) <-chan string {
	s.t.Helper()
	began, answer := make(chan struct{}), make(chan string, 1)
	var once sync.Once
	go func() {
		text, err := s.callWith(c, "hold", func(tool.Progress) { once.Do(func() { close(began) }) })
		if err != nil {
			text = err.Error() + ": " + fmt.Sprint(err.Cause)
		}
		answer <- text
	}()
	<-began
	return answer
}

func (s *stage) status(name string) location.PluginStatus {
	s.t.Helper()
	return status(s.t, s.Location, name)
}

// reaches waits for a state.
func (s *stage) reaches(name string, state client.State) location.PluginStatus {
	s.t.Helper()
	var got location.PluginStatus
	s.eventually(fmt.Sprintf("%s to be %s", name, state), func() bool {
		got = s.status(name)
		return got.State == state
	})
	return got
}

func (s *stage) eventually(what string, holds func() bool) {
	s.t.Helper()
	for until := time.Now().Add(20 * time.Second); !holds(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(until) {
			s.t.Fatalf("it never came: %s; plugins: %+v", what, s.Plugins())
		}
	}
}

// told are the events of some kinds so far, in words.
func (s *stage) told(kinds ...location.EventKind) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var words []string
	for _, e := range s.events {
		for _, kind := range kinds {
			if e.Kind == kind {
				words = append(words, strings.TrimRight(fmt.Sprintf("%s %s %s", e.Kind, e.Plugin, e.State), " "))
			}
		}
	}
	return words
}

func (s *stage) tools() string {
	var ids []string
	for _, d := range s.Capture().Definitions() {
		if !strings.HasPrefix(d.ID, "toolhost/") {
			ids = append(ids, d.ID)
		}
	}
	return strings.Join(ids, " ")
}

// copyProgram copies the test binary.
func copyProgram(t *testing.T, to string) {
	t.Helper()
	source, err := os.Open("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	defer source.Close()
	next := to + ".next"
	file, err := os.OpenFile(next, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o700)
	if err != nil {
		t.Fatal(err)
	}
	_, err = io.Copy(file, source)
	if err := errors.Join(err, file.Close(), os.Rename(next, to)); err != nil {
		t.Fatal(err)
	}
}

// allowing is a policy that allows everything, but what is denied.
func allowing(t *testing.T, denied ...string) *permission.Policy {
	t.Helper()
	list := permission.List{Rules: []permission.Rule{{Action: parse(t, "*"), Resource: parse(t, "*"), Effect: permission.Allow}}}
	for _, action := range denied {
		list.Rules = append(list.Rules, permission.Rule{Action: parse(t, action), Resource: parse(t, "*"), Effect: permission.Deny})
	}
	return &permission.Policy{Lists: []permission.List{list}, Defaults: permission.Defaults()}
}

// sumOf is the digest of a file.
func sumOf(t *testing.T, path string) string {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(content)
	return hex.EncodeToString(sum[:])
}

// children are the processes below this one, the dead ones included.
func children(t *testing.T) (pids []string) {
	t.Helper()
	parents := []string{"self"}
	for len(parents) > 0 {
		lists, _ := filepath.Glob("/proc/" + parents[0] + "/task/*/children")
		parents = parents[1:]
		for _, list := range lists {
			names, _ := os.ReadFile(list)
			pids, parents = append(pids, strings.Fields(string(names))...), append(parents, strings.Fields(string(names))...)
		}
	}
	return pids
}
