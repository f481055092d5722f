package laws

import (
	"context"
	"errors"
	"strings"

	"pgregory.net/rapid"

	"github.com/toolhost/toolhost/tool"
	"github.com/toolhost/toolhost/tool/registry"
)

// check is what holds after every step.
func (m *machine) check(rt *rapid.T) {
	for _, c := range m.calls { // before it is read what they did
		m.collect(c)
	}
	deeds := map[string][]deed{}
	for _, d := range m.w.deeds("") {
		deeds[d.Call] = append(deeds[d.Call], d)
	}
	for _, c := range m.calls {
		ran, committed, discarded := 0, 0, 0
		for _, d := range deeds[c.call] {
			switch d.What {
			case "execute":
				ran++
			case "commit":
				ran, committed = ran+1, committed+1
			case "discard":
				discarded++
			}
			if d.Says != c.says {
				rt.Fatalf("%s was captured as %q and ran %q", c.call, c.says, d.Says)
			}
		}
		if ran > 1 || discarded > 1 || committed > 0 && discarded > 0 {
			rt.Fatalf("%s: it did %s", c.call, m.w.did(c.call))
		}
		if c.done {
			if why := m.inadmissible(c, ran); why != "" {
				rt.Fatalf("%s %s (%s, captured as %s) ended as %s: %s", c.call, c.o, c.mode, c.says, c.end, why)
			}
		}
	}
}

// inadmissible says why a call may not have ended as it did.
func (m *machine) inadmissible(c *machineCall, ran int) string {
	e, gone := c.end, m.peers[c.owner].crashes > c.captured
	only := func(ok bool, why string) string {
		if ok {
			return ""
		}
		return why
	}
	if e.err != nil {
		if _, ok := errors.AsType[*tool.Interruption](e.err); !ok {
			return "which is no end"
		}
		return only(c.cancelled, "nobody cancelled it")
	}
	if e.Status == tool.Completed {
		return only(ran == 1 && c.mode != "decline" && string(e.Structured) == string(quoted(c.says)), "it did not run, or not for that")
	}
	switch e.Error.Kind {
	case tool.KindFailure:
		return only(c.o.Do == "fail" && ran == 1, "it did not fail")
	case tool.KindDeclined:
		return only(c.mode != "grant" && ran == 0, "nobody declined it, or it ran")
	case tool.KindUnavailable, tool.KindCrashed:
		return only(gone, "its plugin lives")
	case tool.KindCancelled:
		return only(c.withdrawn, "nobody withdrew it")
	default:
		return "which should not happen: " + e.cause()
	}
}

// finish ends what is left, and checks the whole.
func (m *machine) finish(rt *rapid.T) {
	for _, c := range m.live(attended) {
		c.cancelled = true
		c.running.cancel(errors.New("the end"))
	}
	m.w.releaseAll()
	for _, c := range m.calls {
		if !c.done && c.handle == "" {
			m.came(c, c.running.wait(rt))
		}
		if c.handle != "" {
			m.withdrawn(c)
		}
		if !c.done {
			rt.Fatalf("%s does not end", c.call)
		}
		if c.suspended != "" {
			if s, err := m.w.Resume(context.Background(), "s", c.suspended, 0); !errors.Is(err, registry.ErrNotSuspended) {
				rt.Fatalf("%s has a second end: %v, %v", c.call, s, err)
			}
		}
	}
	m.check(rt)
	if left := m.w.Suspended(); len(left) > 0 {
		rt.Fatalf("%d calls are suspended", len(left))
	}
	m.checkJournal(rt)
	for _, p := range m.peers {
		if p.running {
			p.crash()
		}
	}
	if left := m.w.names(); len(left) > 0 {
		rt.Fatalf("the tools %v are left", left)
	}
}

// checkJournal: what ran was recorded once, with its end, and nothing else was.
func (m *machine) checkJournal(rt *rapid.T) {
	recorded := map[string][]string{}
	for _, line := range m.w.journal() {
		call, end, _ := strings.Cut(line, " ")
		recorded[call] = append(recorded[call], end)
	}
	for _, c := range m.calls {
		rows, did := recorded[c.call], m.w.did(c.call)
		ran := strings.Contains(did, "execute") || strings.Contains(did, "commit")
		if len(rows) > 1 || ran && len(rows) == 0 {
			rt.Fatalf("%s did %s and was recorded as %q", c.call, did, rows)
		}
		if len(rows) == 0 {
			continue
		}
		want := "interrupted"
		if c.end.err == nil {
			want = string(c.end.Status)
		}
		if status, _, _ := strings.Cut(rows[0], " "); status != want {
			rt.Fatalf("%s ended as %s and was recorded as %q", c.call, c.end, rows[0])
		}
	}
}
