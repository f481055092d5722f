package chaos

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/toolhost/toolhost/config"
	"github.com/toolhost/toolhost/host"
	"github.com/toolhost/toolhost/location"
	"github.com/toolhost/toolhost/service/permission"
	"github.com/toolhost/toolhost/tool"
	"github.com/toolhost/toolhost/tool/registry"
)

// A world is a host, and what it told.
type world struct {
	*host.Host
	t    tester
	dir  string
	log  *lines
	next atomic.Int64 // the id of the last call

	mu     sync.Mutex
	events []host.Event // under mu
}

// newWorld opens a host for a configuration.
func newWorld(t tester, dir string, cfg *config.Config, change func(*host.Options)) *world {
	t.Helper()
	w := &world{t: t, dir: dir, log: &lines{}}
	o := host.Options{
		Launcher: launcher(),
		Builtins: map[string][]string{"process": {"/proc/self/exe", processRole}},
		Log:      slog.New(slog.NewTextHandler(w.log, &slog.HandlerOptions{Level: slog.LevelWarn})),
		Events: func(e host.Event) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.events = append(w.events, e)
		},
	}
	if change != nil {
		change(&o)
	}
	var err error
	if w.Host, err = host.Open(context.Background(), cfg, o); err != nil {
		t.Fatalf("open: %v", err)
	}
	return w
}

// told are the events so far.
func (w *world) told() []host.Event {
	w.mu.Lock()
	defer w.mu.Unlock()
	return append([]host.Event(nil), w.events...)
}

// lines is the end of a log.
type lines struct {
	mu   sync.Mutex
	text []string // under mu
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.text = append(l.text, string(p[:min(len(p), 400)]))
	if len(l.text) > 300 {
		l.text = l.text[100:]
	}
	return len(p), nil
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Join(l.text, "")
}

// activate gives a Location that is open.
func (w *world) activate(name string) *location.Location {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	l, err := w.Location(ctx, name)
	if err != nil {
		w.t.Fatalf("activate %s: %v", name, err)
	}
	return l
}

// status is that of a plugin, zero if there is none.
func status(l *location.Location, name string) location.PluginStatus {
	for _, p := range l.Plugins() {
		if p.Name == name {
			return p
		}
	}
	return location.PluginStatus{}
}

// request is one with an identity of its own.
func (w *world) request(session, name string, input any) registry.Request {
	w.t.Helper()
	encoded, err := json.Marshal(input)
	if err != nil {
		w.t.Fatalf("input: %v", err)
	}
	return registry.Request{
		Identity: tool.Identity{Session: session, Agent: "a", Message: "m", Call: fmt.Sprint(w.next.Add(1))}, Name: name, Input: encoded,
	}
}

// said is the text of a settlement, and outcome how it ended, in words.
func said(s tool.Settlement) string {
	var text string
	if json.Unmarshal(s.Structured, &text) == nil && text != "" {
		return text
	}
	for _, c := range s.Content {
		text += c.Text
	}
	return text
}

func outcome(s tool.Settlement, err error) string {
	switch {
	case err != nil:
		return err.Error()
	case s.Error != nil:
		return fmt.Sprintf("%s: %s: %v", s.Error.Kind, s.Error.Message, s.Error.Cause)
	default:
		return string(s.Status)
	}
}

// plugin is one of a kind and version from outside.
func plugin(name, program, kind, version string) config.Plugin {
	p := config.Plugin{Name: name, Command: []string{program, pluginRole, name, kind, version}, Env: []string{markVariable}, Sandbox: confined()}
	if p.Sandbox.Mode != config.Off {
		p.Sandbox.Exec = true // it forks
	}
	return p
}

// commands is the built-in that runs commands.
func commands() config.Plugin {
	return config.Plugin{Name: "process", Builtin: "process", Env: []string{markVariable}, Sandbox: confined()}
}

// allowing is a policy that allows everything, but the tools "ask", and what is denied.
func allowing(denied ...string) *permission.Policy {
	rule := func(action string, effect permission.Effect) permission.Rule {
		parse := func(text string) permission.Pattern {
			pattern, err := permission.ParsePattern(text)
			if err != nil {
				panic(err)
			}
			return pattern
		}
		return permission.Rule{Action: parse(action), Resource: parse("*"), Effect: effect}
	}
	list := permission.List{Rules: []permission.Rule{rule("*", permission.Allow), rule("*/*_ask", permission.Ask)}}
	for _, action := range denied {
		list.Rules = append(list.Rules, rule(action, permission.Deny))
	}
	return &permission.Policy{Lists: []permission.List{list}}
}

// place is a Location with plugins below a directory.
func place(t tester, dir, name string, plugins ...config.Plugin) config.Location {
	t.Helper()
	root := filepath.Join(dir, name)
	if err := os.MkdirAll(root, 0o700); err != nil {
		t.Fatalf("root: %v", err)
	}
	policy := allowing()
	policy.Root = root
	return config.Location{Name: name, Root: root, Policy: policy, Plugins: plugins}
}

// itself is this program.
func itself(t tester) string {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatalf("executable: %v", err)
	}
	return exe
}

// build puts a program at a path, which differs from every other one in its last bytes. With
// half, somebody sees half of it for a while.
func build(to, mark string, half bool) error {
	source, err := os.Open("/proc/self/exe")
	if err != nil {
		return err
	}
	defer source.Close()
	info, err := source.Stat()
	if err != nil {
		return err
	}
	if half {
		if err := put(to, io.LimitReader(source, info.Size()/2)); err != nil {
			return err
		}
		time.Sleep(40 * time.Millisecond)
		if _, err := source.Seek(0, io.SeekStart); err != nil {
			return err
		}
	}
	return put(to, io.MultiReader(source, strings.NewReader("\n"+mark)))
}

// put replaces a file by renaming: one that runs cannot be written to.
func put(to string, content io.Reader) error {
	file, err := os.OpenFile(to+".next", os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o700)
	if err != nil {
		return err
	}
	_, err = io.Copy(file, content)
	return errors.Join(err, file.Close(), os.Rename(to+".next", to))
}
