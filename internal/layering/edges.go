package layering

import (
	"fmt"
	"go/token"
	"path"
	"slices"
	"strings"
)

// A place is where a package stands in the house.
type place struct {
	row   int    // index into house.rows
	owner string // the package of that row it is, or belongs to
	// inside says that it is one of the owner's internals, support that it is the owner's test support.
	inside, support bool
}

// placeOf finds the place of a package. Internals and test support stand where their owner stands.
func (h house) placeOf(p string) (place, bool) {
	for i, r := range h.rows {
		if listed(p, r.packages) {
			return place{row: i, owner: p, support: r.forTests}, true
		}
	}
	if dir := path.Dir(p); path.Base(p) == path.Base(dir)+"test" {
		if at, ok := h.placeOf(dir); ok {
			at.support = true
			return at, true
		}
	}
	for rest := p; ; {
		i := strings.LastIndex(rest, "/internal/")
		if i < 0 {
			return place{}, false
		}
		rest = rest[:i]
		if at, ok := h.placeOf(rest); ok {
			at.inside = true
			return at, true
		}
	}
}

// listed reports whether a package is among names, which are as in a row.
func listed(p string, names []string) bool {
	return slices.ContainsFunc(names, func(name string) bool {
		if folder, ok := strings.CutSuffix(name, "/..."); ok {
			return strings.HasPrefix(p, folder+"/")
		}
		if folder, ok := strings.CutSuffix(name, "/*"); ok {
			return path.Dir(p) == folder
		}
		return p == name
	})
}

// places reports packages that stand nowhere.
func (c *checker) places() {
	for _, p := range c.tree.packages {
		if _, ok := c.house.placeOf(p.path); !ok {
			c.report(ruleHome, p.path, token.NoPos,
				"%s has no place in the house: add it to the table in internal/layering/house.go, above all that imports it", p.path)
		}
	}
}

// edges reports imports that the order, or the home of a library, does not allow. Tests are free: they may look at
// whatever they put together.
func (c *checker) edges() {
	for _, p := range c.tree.packages {
		from, ok := c.house.placeOf(p.path)
		if !ok {
			continue
		}
		for _, f := range p.files {
			if f.test {
				continue
			}
			for _, spec := range f.imports() {
				edge := p.path + " -> " + spec.path
				if reason := c.house.refuse(from, spec); reason != "" {
					c.report(ruleOrder, edge, spec.pos, "%s imports %s: %s", p.path, spec.path, reason)
				} else if reason := c.house.homeless(from, spec); reason != "" {
					c.report(ruleLibrary, edge, spec.pos, "%s imports %s: %s", p.path, spec.path, reason)
				}
			}
		}
	}
}

// refuse says why what stands at from may not import what spec names, or nothing.
func (h house) refuse(from place, spec importSpec) string {
	r := h.rows[from.row]
	if !spec.own {
		return r.forbids(from, spec)
	}
	to, ok := h.placeOf(spec.path)
	switch {
	case !ok:
		return "it has no place in the house"
	case to.owner == from.owner && (to.inside || from.support):
		return ""
	case to.support && !from.support:
		return "it is for tests only"
	}
	if to.row >= from.row {
		return fmt.Sprintf("%s stands above or beside %s in the house; the table in internal/layering/house.go has the order",
			to.owner, from.owner)
	}
	if reason := r.forbids(from, spec); reason != "" {
		return reason
	}
	for _, s := range h.seclusions {
		if listed(spec.path, []string{s.packages}) && !listed(from.owner, s.importers) {
			return s.why
		}
	}
	return ""
}

// forbids says why the row's own lists refuse an import that the order allows, or nothing. They do not bind test support.
func (r row) forbids(from place, spec importSpec) string {
	switch {
	case from.support:
		return ""
	case slices.ContainsFunc(r.never, func(base string) bool { return within(spec.path, base) }):
		return r.why
	case spec.own && r.only != nil && !listed(spec.path, r.only):
		return r.why
	case !spec.own && r.std && !standard(spec.path):
		return "only the standard library is allowed here: " + r.why
	}
	return ""
}

// homeless says why a library may not be imported by what stands at from, or nothing.
func (h house) homeless(from place, spec importSpec) string {
	if spec.own || from.support {
		return ""
	}
	for _, l := range h.libraries {
		if within(spec.path, l.path) && !listed(from.owner, l.homes) {
			return fmt.Sprintf("its home is %s (%s)", strings.Join(l.homes, ", "), l.why)
		}
	}
	return ""
}
