package registry

import (
	"fmt"
	"slices"
	"time"

	"github.com/toolhost/toolhost/tool"
)

// A Capture is what was effective at one moment: the tools that a model is shown,
// with what runs them (law 7). It is immutable, holds no resource, and may be used
// by several calls at once.
type Capture struct {
	registry *Registry
	*view
}

// A view is what is effective, built once for all captures until it changes.
type view struct {
	definitions []tool.Definition    // sorted by name
	hidden      []tool.Advertisement // those that say that they are unavailable, sorted by name
	entries     map[string]*entry
	missing     map[string]string // names that are claimed and cannot be called, with the reason
}

// Capture captures what is effective now. When nothing changed since the last
// time it costs next to nothing.
func (r *Registry) Capture() *Capture {
	r.touch()
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.latest == nil {
		r.latest = r.view()
	}
	return &Capture{r, r.latest}
}

// Definitions are the captured tools, sorted by name. The same registrations give
// the same bytes (law 8). The slice is the caller's; the schemas in it are shared
// and must not be changed.
func (c *Capture) Definitions() []tool.Definition { return slices.Clone(c.definitions) }

// Unavailable are the captured tools that say that they cannot be called now, each
// with its reason, sorted by name. They are in no list for a model (law 10).
func (c *Capture) Unavailable() []tool.Advertisement { return slices.Clone(c.hidden) }

// view builds what is effective. r.mu is held.
func (r *Registry) view() *view {
	v := &view{entries: make(map[string]*entry, len(r.claims)), missing: make(map[string]string)}
	for _, name := range sortedKeys(r.claims) {
		o := winner(name, r.claims[name])
		if o == nil {
			v.missing[name] = "more than one plugin registers it"
			continue
		}
		e := o.top(name)
		if e == nil {
			v.missing[name] = fmt.Sprintf("plugin %q is not running", o.name)
			continue
		}
		if e.unavailable != "" {
			v.missing[name] = e.unavailable
			v.hidden = append(v.hidden, tool.Advertisement{Definition: e.definition, Unavailable: e.unavailable})
			continue
		}
		v.entries[name] = e
		v.definitions = append(v.definitions, e.definition)
	}
	return v
}

// resolve finds the captured tool (law 7). An error is a [*tool.Error]: unknown,
// or unavailable with the reason; never another tool.
func (c *Capture) resolve(name string) (*entry, error) {
	e, ok := c.entries[name]
	if !ok {
		if reason, ok := c.missing[name]; ok {
			return nil, tool.Errorf(tool.KindUnavailable, "tool %q is unavailable: %s", name, reason)
		}
		return nil, c.unknown(name)
	}
	if !e.registration.closed.Load() {
		return e, nil
	}
	if standing := c.registry.standing(e); standing != nil {
		return standing, nil
	}
	return nil, tool.Errorf(tool.KindUnavailable, "tool %q is unavailable: its plugin was stopped or replaced", name)
}

// standing is what runs a call of e now that its registration is closed: e itself
// while it is pinned and what runs it is there, else the same tool of a plugin
// that was started again, or nil.
func (r *Registry) standing(e *entry) *entry {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !e.registration.lost && time.Since(e.registration.closedAt) < PinFor {
		return e
	}
	name := e.definition.Name
	o := winner(name, r.claims[name])
	if o == nil {
		return nil
	}
	if now := o.top(name); now != nil && now.same(e) {
		return now
	}
	return nil
}

// unknown says that there is no such tool, and which one may have been meant.
func (c *Capture) unknown(name string) error {
	shown := clean(name)
	if len(shown) > tool.MaxName {
		shown = clean(shown[:tool.MaxName]) + "…"
	}
	if nearest, ok := c.nearest(name); ok {
		return tool.Errorf(tool.KindUnknownTool, "tool %q is unknown: did you mean %q?", shown, nearest)
	}
	return tool.Errorf(tool.KindUnknownTool, "tool %q is unknown", shown)
}

// nearest is the captured name that takes the fewest edits to reach, if they are
// few for its length.
func (c *Capture) nearest(name string) (string, bool) {
	for _, d := range c.definitions {
		if d.ID == name { // the id, where a name is wanted
			return d.Name, true
		}
	}
	name = tool.EffectiveName(name)
	best, edits := "", 0
	for _, d := range c.definitions {
		n := distance(name, d.Name)
		if n <= 1+len(d.Name)/3 && (best == "" || n < edits) {
			best, edits = d.Name, n
		}
	}
	return best, best != ""
}

// distance is how many characters have to be inserted, deleted or replaced to
// make b of a. Both are effective names, and so are short and ASCII.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			replaced := diagonal
			if a[i] != b[j] {
				replaced++
			}
			diagonal = row[j+1]
			row[j+1] = min(replaced, diagonal+1, row[j]+1)
		}
	}
	return row[len(b)]
}
