package host_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/toolhost/toolhost/config"
	"github.com/toolhost/toolhost/host"
	"github.com/toolhost/toolhost/location"
	"github.com/toolhost/toolhost/service/permission"
	"github.com/toolhost/toolhost/tool"
	"github.com/toolhost/toolhost/tool/registry"
)

// reloading is a host that is reloaded, with the events that it told.
type reloading struct {
	*host.Host
	t testing.TB

	mu     sync.Mutex
	events []host.Event // under mu
}

func openReloading(t testing.TB, cfg *config.Config, change func(*host.Options)) *reloading {
	t.Helper()
	r := &reloading{t: t}
	o := options()
	o.Supervision = location.Supervision{First: time.Millisecond, Most: 2 * time.Millisecond, Drain: time.Second}
	o.Events = func(e host.Event) {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.events = append(r.events, e)
	}
	if change != nil {
		change(&o)
	}
	var err error
	if r.Host, err = host.Open(context.Background(), cfg, o); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.Close(context.Background()); err != nil {
			t.Error(err)
		}
		if left := children(os.Getpid()); len(left) > 0 {
			t.Errorf("processes %v are left", left)
		}
	})
	return r
}

func (r *reloading) told() []host.Event {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.events)
}

// versions is a Location with a plugin of a version, whose tools are allowed.
func versions(t testing.TB, name, root, version string) config.Location {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	everything, err := permission.ParsePattern("*")
	if err != nil {
		t.Fatal(err)
	}
	rule := permission.Rule{Action: everything, Resource: everything, Effect: permission.Allow}
	return config.Location{
		Name: name, Root: root, Policy: &permission.Policy{Lists: []permission.List{{Rules: []permission.Rule{rule}}}},
		Plugins: []config.Plugin{{Name: "v", Command: []string{exe, "__version", version}}},
	}
}

func versionOf(t testing.TB, c *registry.Capture, name string) string {
	t.Helper()
	s, err := c.Call(context.Background(), registry.Request{Identity: tool.Identity{Session: "s", Agent: "a", Message: "m", Call: "c"}, Name: name})
	if err != nil {
		return err.Error()
	}
	if s.Error != nil {
		return fmt.Sprintf("%s: %s", s.Error.Kind, s.Error.Message)
	}
	var text string
	if err := json.Unmarshal(s.Structured, &text); err != nil {
		t.Error(err)
	}
	return text
}

// A reload makes each Location what is configured now: one that is gone is closed, one
// with another root is another one, one that cannot become what it should stays as it
// was, also when it is opened again, and the others go on (law 43, case G08).
//
// Seen to fail: with the configuration of all adopted whatever became of each; without
// the look at the root.
func TestLaw43ReloadOfLocations(t *testing.T) {
	roots := []string{t.TempDir(), t.TempDir(), t.TempDir(), t.TempDir(), t.TempDir()}
	h := openReloading(t, &config.Config{Locations: []config.Location{
		versions(t, "fine", roots[0], "1"), versions(t, "gone", roots[1], "1"),
		versions(t, "moved", roots[2], "1"), versions(t, "broken", roots[3], "1"),
	}}, nil)
	before := map[string]*location.Location{}
	for _, name := range h.Locations() {
		before[name] = activate(t, h.Host, name)
	}
	busy := make(chan string, 1)
	captured := before["gone"].Capture()
	go func() { busy <- versionOf(t, captured, "wait") }()
	waitFor(t, "the call", func() bool { return before["gone"].Use().Calls == 1 })

	report, err := h.Reload(context.Background(), &config.Config{Locations: []config.Location{
		versions(t, "fine", roots[0], "2"), versions(t, "moved", roots[4], "2"), versions(t, "broken", roots[3], "broken"), versions(t, "new", roots[1], "2"),
	}})
	if err == nil || !strings.Contains(err.Error(), "location broken: plugin v: ") || h.Stale() != err.Error() {
		t.Errorf("got %v, stale %q", err, h.Stale())
	}
	var words []string
	for _, l := range report.Locations {
		words = append(words, fmt.Sprintf("%s %v stale %t closed %t inactive %t", l.Location, l.Changed, l.Stale != "", l.Closed, l.Inactive))
	}
	want := []string{
		"broken [] stale true closed false inactive false", "fine [v] stale false closed false inactive false",
		"gone [] stale false closed true inactive false", "moved [] stale false closed true inactive false",
		"moved [] stale false closed false inactive true", "new [] stale false closed false inactive true",
	}
	if !slices.Equal(words, want) {
		t.Errorf("got  %q\nwant %q", words, want)
	}
	if got := <-busy; got != "1" {
		t.Errorf("the call of the Location that is gone gave %q", got)
	}
	waitFor(t, "the end of what is gone", func() bool { return before["gone"].Closed() && before["moved"].Closed() })
	if _, err := h.Location(context.Background(), "gone"); err == nil {
		t.Error("what is gone is there")
	}
	for name, want := range map[string]string{"fine": "2", "moved": "2", "broken": "1", "new": "2"} {
		l := activate(t, h.Host, name)
		if got := versionOf(t, l.Capture(), "version"); got != want {
			t.Errorf("%s: got %q, want %s", name, got, want)
		}
		if name == "fine" && l != before[name] || name == "broken" && l != before[name] || name == "moved" && l.Root() != roots[4] {
			t.Errorf("%s is another Location, at %s", name, l.Root())
		}
	}
	broken := activate(t, h.Host, "broken")
	if err := broken.Close(context.Background()); err != nil {
		t.Error(err)
	}
	if got := versionOf(t, activate(t, h.Host, "broken").Capture(), "version"); got != "1" {
		t.Errorf("opened again it gives %q", got)
	}
	if _, err := h.Reload(context.Background(), &config.Config{Locations: []config.Location{versions(t, "fine", roots[0], "3")}}); err != nil || h.Stale() != "" {
		t.Errorf("got %v, stale %q", err, h.Stale())
	}
	waitFor(t, "one Location", func() bool { return len(h.Active()) == 1 })
}

// Events come in order, of plugins, tools, calls and reloads, and the last is that of
// the closing.
//
// Seen to fail: with events told from the newest on.
func TestEvents(t *testing.T) {
	root := t.TempDir()
	h := openReloading(t, &config.Config{Locations: []config.Location{versions(t, "a", root, "1")}}, nil)
	l := activate(t, h.Host, "a")
	versionOf(t, l.Capture(), "version")
	versionOf(t, l.Capture(), "nothing")
	if _, err := h.Reload(context.Background(), &config.Config{Locations: []config.Location{versions(t, "a", root, "2")}}); err != nil {
		t.Fatal(err)
	}
	if err := h.Close(context.Background()); err != nil {
		t.Fatal(err)
	}
	var words []string
	last := uint64(0)
	for _, e := range h.told() {
		if e.Seq != last+1 || e.Dropped != 0 || e.Location != "a" || e.At.IsZero() {
			t.Errorf("event %d came after %d: %+v", e.Seq, last, e)
		}
		last = e.Seq
		word := string(e.Kind)
		switch {
		case e.Call != nil:
			word += fmt.Sprintf(" %s%s", cmpOr(e.Call.Tool, e.Call.Name), e.Call.Status)
		case e.State != "":
			word += " " + string(e.State)
		}
		words = append(words, word)
	}
	got := strings.Join(words, ", ")
	for _, want := range []string{
		"plugin starting, plugin ready, tools, opened, call_started v/version, call_ended v/versioncompleted, call_ended nothingrejected, plugin ready, tools",
		", reload",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("got %s\nwant %s in it", got, want)
		}
	}
	if !strings.HasSuffix(got, "closed") {
		t.Errorf("got %s", got)
	}
}

func cmpOr(a, b string) string {
	if a != "" {
		return a
	}
	return b
}

// Whoever takes the events may be slow, or panic: nobody waits for it, and what was
// dropped is counted.
//
// Seen to fail: with a queue without an end.
func TestEventsBlockNobody(t *testing.T) {
	hold := make(chan struct{})
	var mu sync.Mutex
	var got []host.Event
	h := openReloading(t, configure(t, []string{"a"}, "probe"), func(o *host.Options) {
		o.Events = func(e host.Event) {
			<-hold
			mu.Lock()
			got = append(got, e)
			mu.Unlock()
			panic("out of cheese")
		}
	})
	l := activate(t, h.Host, "a")
	for range 3000 {
		if s, err := call(context.Background(), l, "no such tool"); err != nil || s.Status != tool.Rejected {
			t.Fatal(s, err)
		}
	}
	for range 1100 {
		callWhere(t, l)
	}
	close(hold)
	waitFor(t, "the events that were kept", func() bool { mu.Lock(); defer mu.Unlock(); return len(got) >= 4096 })
	callWhere(t, l)
	waitFor(t, "the events after those", func() bool { mu.Lock(); defer mu.Unlock(); return len(got) >= 4098 })
	mu.Lock()
	defer mu.Unlock()
	dropped := 0
	for i, e := range got {
		dropped += e.Dropped
		if e.Seq != uint64(i+1+dropped) {
			t.Fatalf("event %d has the number %d after %d were dropped", i, e.Seq, dropped)
		}
	}
	if dropped == 0 {
		t.Error("nothing was dropped")
	}
}

// A Location that nobody uses is closed, and opened again when it is asked for; one whose
// tools are followed, or that is called, is used.
//
// Seen to fail: without the closing; with subscribers that do not count.
func TestIdleLocationIsClosed(t *testing.T) {
	const idle = 700 * time.Millisecond
	h := openReloading(t, configure(t, []string{"a", "b"}, "probe"), func(o *host.Options) { o.Idle = idle })
	a, b := activate(t, h.Host, "a"), activate(t, h.Host, "b")
	_, stop := b.Subscribe()
	ctx, cancel := context.WithCancel(context.Background())
	var calling sync.WaitGroup
	calling.Go(func() { _, _ = call(ctx, a, "wait") })
	time.Sleep(3 * idle)
	if a.Closed() || b.Closed() {
		t.Errorf("what is called is closed: %v, what is followed: %v", a.Closed(), b.Closed())
	}
	cancel()
	calling.Wait()
	waitFor(t, "the end of a", a.Closed)
	if b.Closed() {
		t.Error("what is followed is closed")
	}
	again := activate(t, h.Host, "a")
	if callWhere(t, again); again == a {
		t.Error("it is the same Location")
	}
	stop()
	waitFor(t, "the end of all", func() bool { return len(h.Active()) == 0 && len(children(os.Getpid())) == 0 })
}

// A Location whose directory went away says so when it is asked for, and is there again
// as soon as that is; another one is not disturbed (law 43).
//
// Seen to fail: with a root that is not looked at again.
func TestRootThatGoesAwayAndReturns(t *testing.T) {
	cfg := configure(t, []string{"a", "b"}, "probe")
	root := filepath.Join(cfg.Locations[0].Root, "inner")
	cfg.Locations[0].Root = root
	if err := os.Mkdir(root, 0o700); err != nil {
		t.Fatal(err)
	}
	h := openReloading(t, cfg, nil)
	a, b := activate(t, h.Host, "a"), activate(t, h.Host, "b")
	if err := os.Remove(root); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if _, err := h.Location(context.Background(), "a"); err == nil || !strings.Contains(err.Error(), root) || !errors.Is(err, os.ErrNotExist) {
			t.Errorf("got %v, want an error that names %s", err, root)
		}
	}
	waitFor(t, "the end of the old one", a.Closed)
	if err := os.Mkdir(root, 0o700); err != nil {
		t.Fatal(err)
	}
	callWhere(t, activate(t, h.Host, "a"))
	if activate(t, h.Host, "b") != b || b.Closed() {
		t.Error("the other one was disturbed")
	}
}

// Reloads at the same time come one after another, and none after the end.
func TestReloadsComeOneAfterAnother(t *testing.T) {
	root := t.TempDir()
	h := openReloading(t, &config.Config{Locations: []config.Location{versions(t, "a", root, "0")}}, nil)
	l := activate(t, h.Host, "a")
	var reloads sync.WaitGroup
	for n := range 4 {
		reloads.Go(func() {
			if _, err := h.Reload(context.Background(), &config.Config{Locations: []config.Location{versions(t, "a", root, fmt.Sprint(n))}}); err != nil {
				t.Error(err)
			}
		})
	}
	reloads.Wait()
	if got, want := versionOf(t, l.Capture(), "version"), h.Config().Locations[0].Plugins[0].Command[2]; got != want {
		t.Errorf("got %q, configured is %q", got, want)
	}
	if err := h.Close(context.Background()); err != nil {
		t.Error(err)
	}
	if _, err := h.Reload(context.Background(), h.Config()); err == nil {
		t.Error("a closed host was reloaded")
	}
}
