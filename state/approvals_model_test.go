package state

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// saveApprovals saves an approval for each byte that it reads, and says what is saved.
func saveApprovals(dir string) int {
	s := New(Options{Dir: dir})
	defer s.Close()
	asked := bufio.NewReader(os.Stdin)
	for i := 0; ; i++ {
		if _, err := asked.ReadByte(); err != nil {
			return 0
		}
		name := fmt.Sprintf("%d-%d", os.Getpid(), i)
		saved, err := s.SaveApproval(context.Background(), approval(name, name+"'s second", strings.Repeat(name, 100)))
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		fmt.Println(saved.ID, name)
	}
}

// A savingHost is a process that saves approvals.
type savingHost struct {
	t     *testing.T
	cmd   *exec.Cmd
	stdin io.Writer
	lines *bufio.Scanner
}

func startSaving(t *testing.T, dir string) *savingHost {
	t.Helper()
	cmd := childProcess(t, dir, "approve")
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	h := &savingHost{t, cmd, stdin, bufio.NewScanner(stdout)}
	t.Cleanup(func() { h.kill(map[string]string{}) })
	return h
}

// ask makes it save n approvals.
func (h *savingHost) ask(n int) {
	if _, err := h.stdin.Write(make([]byte, n)); err != nil {
		h.t.Fatal(err)
	}
}

// saved is the next one that it saved; whole is false at the end.
func (h *savingHost) saved() (id, name string, whole bool) {
	h.lines.Scan()
	return strings.Cut(h.lines.Text(), " ")
}

// kill kills it and gives what it said to be saved until then.
func (h *savingHost) kill(said map[string]string) {
	if h.cmd.ProcessState != nil {
		return
	}
	_ = h.cmd.Process.Kill() // it may have ended
	for {
		id, name, whole := h.saved()
		if !whole {
			break
		}
		said[id] = name
	}
	_ = h.cmd.Wait() // it was killed
}

// TestLaw45SavedApprovalsSurviveKills: two hosts save at the same time, and one after
// the other is killed in the middle: what was said to be saved is there, whole, and
// so is whatever else is. Seen to fail when the answer is given before the commit.
func TestLaw45SavedApprovalsSurviveKills(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "toolhost")
	said := map[string]string{} // names by id
	read := func(h *savingHost, n int) {
		for range n {
			id, name, whole := h.saved()
			if !whole {
				t.Fatal("the host ended")
			}
			said[id] = name
		}
	}
	for range 3 {
		a, b := startSaving(t, dir), startSaving(t, dir)
		a.ask(50)
		b.ask(10)
		read(a, 5)
		a.kill(said)
		read(b, 10)
		b.ask(1) // it goes on
		read(b, 1)
		b.kill(said)
	}
	s := open(t, dir)
	saved := map[string]Approval{}
	for _, a := range mustApprovals(t, s, ApprovalFilter{}) {
		saved[strconv.FormatInt(a.ID, 10)] = a
		name := a.Patterns[0]
		if !slices.Equal(a.Patterns, approval(name, name+"'s second", strings.Repeat(name, 100)).Patterns) {
			t.Errorf("half written: %q", a.Patterns)
		}
	}
	for id, name := range said {
		if saved[id].Patterns == nil || saved[id].Patterns[0] != name {
			t.Errorf("%s was said to be saved as %s: got %+v", name, id, saved[id])
		}
	}
	if len(said) < 3*(5+11) {
		t.Errorf("only %d were saved", len(said))
	}
	var whole, mode string
	if err := s.db.QueryRow("PRAGMA integrity_check").Scan(&whole); whole != "ok" || err != nil {
		t.Errorf("got %q, %v", whole, err)
	}
	if err := s.db.QueryRow("PRAGMA synchronous").Scan(&mode); mode != "2" || err != nil {
		t.Errorf("synchronous is %q, %v: the disk is not waited for", mode, err)
	}
}

// TestApprovalsModel compares two stores and their views with a map.
func TestApprovalsModel(t *testing.T) {
	base, n := t.TempDir(), 0
	rapid.Check(t, func(rt *rapid.T) {
		n++
		dir := filepath.Join(base, strconv.Itoa(n))
		stores := []*Store{New(Options{Dir: dir}), New(Options{Dir: dir})}
		defer stores[0].Close()
		defer stores[1].Close()
		model := map[int64]Approval{}
		for range rapid.IntRange(1, 10).Draw(rt, "steps") {
			s := rapid.SampledFrom(stores).Draw(rt, "store")
			a := approval(rapid.SliceOfN(rapid.SampledFrom([]string{"a", "*", "\x01"}), 1, 2).Draw(rt, "patterns")...)
			a.Action = rapid.SampledFrom([]string{"run", "write"}).Draw(rt, "action")
			switch rapid.SampledFrom([]string{"save", "save", "revoke", "revoke all", "close"}).Draw(rt, "step") {
			case "save":
				saved, err := s.SaveApproval(t.Context(), a)
				a.ID = saved.ID
				if was, again := model[a.ID]; err != nil || !reflect.DeepEqual(saved, a) || again && !reflect.DeepEqual(was, a) {
					rt.Fatalf("got %+v, %v", saved, err)
				}
				model[a.ID] = a
			case "revoke":
				id := rapid.Int64Range(1, 5).Draw(rt, "id")
				_, want := model[id]
				delete(model, id)
				if got, err := s.RevokeApproval(t.Context(), id); got != want || err != nil {
					rt.Fatalf("got %v, %v", got, err)
				}
			case "revoke all":
				want := 0
				for id, m := range model {
					if m.Action == a.Action {
						delete(model, id)
						want++
					}
				}
				if got, err := s.RevokeApprovals(t.Context(), ApprovalFilter{Action: a.Action}); got != want || err != nil {
					rt.Fatalf("got %d, %v, want %d", got, err, want)
				}
			case "close":
				if err := s.Close(); err != nil {
					rt.Fatal(err)
				}
			}
			var want []SavedPattern
			for id := int64(1); id < 20; id++ {
				if m, ok := model[id]; ok && m.Action == a.Action {
					for _, p := range m.Patterns {
						want = append(want, SavedPattern{id, p})
					}
				}
			}
			for _, s := range stores {
				if got, err := s.ApprovalView().For(t.Context(), a.Key()); !slices.Equal(got, want) || err != nil {
					rt.Fatalf("got %v, %v, want %v", got, err, want)
				}
			}
		}
	})
}
