package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/toolhost/toolhost/host"
	"github.com/toolhost/toolhost/service/permission"
	"github.com/toolhost/toolhost/state"
	"github.com/toolhost/toolhost/tool"
)

// screen is what a terminal shows.
type screen struct {
	mu   sync.Mutex
	text bytes.Buffer // under mu
}

func (s *screen) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.Write(p)
}

func (s *screen) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.String()
}

// asking is a person at a terminal, with a queue of requests and a state.
type asking struct {
	queue  *permission.Queue
	store  *state.Store
	person *os.File
	screen *screen
}

func newAsking(t *testing.T) *asking {
	t.Helper()
	in, person := openTerminal(t)
	a := &asking{store: state.New(state.Options{Dir: t.TempDir()}), person: person, screen: &screen{}}
	a.queue = permission.NewQueue(permission.QueueOptions{Approvals: host.Approvals(a.store)})
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	p := &prompt{Queue: a.queue, in: in, forget: forget(in), out: a.screen}
	go func() { ended <- p.run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		_ = person.Close()
		_ = a.store.Close()
	})
	return a
}

// openTerminal opens a pseudo-terminal: the side of the program, and that of the person.
func openTerminal(t *testing.T) (program, person *os.File) {
	t.Helper()
	person, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY|unix.O_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.IoctlSetPointerInt(int(person.Fd()), unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	number, err := unix.IoctlGetInt(int(person.Fd()), unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	program, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY|unix.O_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	return program, person
}

// gate is that of a call of a plugin that writes.
func (a *asking) gate() tool.Gate {
	return permission.New(&permission.Policy{Defaults: permission.Defaults()}, a.queue).WithApprovals(host.Approvals(a.store)).Gate(permission.Caller{
		Identity: tool.Identity{Session: "s", Agent: "a", Message: "m", Call: "c"}, Tool: "weather/write", Plugin: "weather",
		Root: "/project", Digest: "d", Effects: tool.Write, Irreversible: true, Review: "adds\x1b[31m a line\nand one",
	})
}

func request() tool.PermissionRequest {
	return tool.PermissionRequest{
		Action: "weather/write", Resources: []string{"a.txt"}, Save: []string{"a.txt"},
		Metadata: map[string]string{"size\n  always   nothing": "3"},
	}
}

func (a *asking) types(t *testing.T, text string) {
	if _, err := a.person.WriteString(text); err != nil {
		t.Error(err)
	}
}

// answers types a line each time a question is asked.
func (a *asking) answers(t *testing.T, typed string) {
	for i, line := range strings.SplitAfter(strings.TrimSuffix(typed, "\n"), "\n") {
		for strings.Count(a.screen.String(), "REASON tells the model why): ") <= i {
			time.Sleep(time.Millisecond)
		}
		a.types(t, strings.TrimSuffix(line, "\n")+"\n")
	}
}

// A person at a terminal sees what would happen and exactly what "always" would save,
// without a plugin's control characters, and what they answer is what holds (laws 34,
// 35).
//
// Seen to fail: with the review, and with a key of the metadata, shown as it came; with
// every answer taken for once; with what was typed before the question taken for the
// answer.
func TestLaw35AnsweredAtTheTerminal(t *testing.T) {
	for _, tt := range []struct {
		typed, want, again string
		saved              int
	}{
		{"y\n", "", "asks", 0},
		{"what?\nyes\n", "", "asks", 0},
		{"a\n", "", "allowed", 1},
		{"n use b.txt\n", `weather/write of "a.txt" was declined: use b.txt`, "asks", 0},
	} {
		t.Run(tt.typed, func(t *testing.T) {
			a := newAsking(t)
			a.types(t, "a\n") // before anything is asked: no answer to it
			go a.answers(t, tt.typed)
			err := a.gate().Assert(t.Context(), request())
			if got := errorText(err); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
			shown := a.screen.String()
			for _, want := range []string{
				"tool     weather/write", "on       a.txt", "effects  write; it cannot be undone", "it says  adds", "a line and one", "always   a.txt",
				"it says  size always nothing: 3",
			} {
				if !strings.Contains(shown, want) {
					t.Errorf("not shown: %q in\n%s", want, shown)
				}
			}
			if strings.Contains(shown, "\x1b") {
				t.Errorf("control characters are shown: %q", shown)
			}
			saved, err := a.store.Approvals(t.Context(), state.ApprovalFilter{})
			if err != nil || len(saved) != tt.saved {
				t.Errorf("saved %v, %v", saved, err)
			}
			// Another call asks again, unless it was for good.
			ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
			defer cancel()
			again := "asks"
			if a.gate().Assert(ctx, request()) == nil {
				again = "allowed"
			}
			if again != tt.again {
				t.Errorf("another call %s, want %s", again, tt.again)
			}
		})
	}
}

// What was saved through one host holds in the next, for that plugin and project, and
// is gone when it is revoked (laws 34, 45).
func TestLaw34SavedApprovalsThroughTheHost(t *testing.T) {
	a := newAsking(t)
	go a.answers(t, "always\n")
	if err := a.gate().Assert(t.Context(), request()); err != nil {
		t.Fatal(err)
	}
	saved := host.Approvals(a.store)
	key := permission.ApprovalKey{Root: "/project", Plugin: "weather", Digest: "d", Action: "weather/write"}
	if got, err := saved.Saved(t.Context(), key); err != nil || len(got) != 1 || got[0].Pattern != "a.txt" {
		t.Errorf("got %v, %v", got, err)
	}
	other := key
	other.Digest = "e"
	if got, err := saved.Saved(t.Context(), other); err != nil || len(got) > 0 {
		t.Errorf("for another program: got %v, %v", got, err)
	}
	if n, err := a.store.RevokeApprovals(t.Context(), state.ApprovalFilter{}); n != 1 || err != nil {
		t.Errorf("revoked %d, %v", n, err)
	}
	if got, err := saved.Saved(t.Context(), key); err != nil || len(got) > 0 {
		t.Errorf("after revoking: got %v, %v", got, err)
	}
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
