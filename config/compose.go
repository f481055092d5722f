package config

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"

	"github.com/toolhost/toolhost/config/internal/document"
	"github.com/toolhost/toolhost/config/internal/form"
	"github.com/toolhost/toolhost/service/permission"
)

// defaultPlugin is the built-in of a Location that no file speaks of.
const defaultPlugin = "filesystem"

// part is a mapping that speaks of a Location: the top of a file, or a Location's
// entry in it.
type part struct {
	source *source
	node   *document.Node
}

// locations puts the Locations together, with what files that are not trusted deny.
// What is wrong is left in l.found.
func (l *loader) locations() ([]Location, error) {
	locations, err := l.trustedLocations()
	if err != nil {
		return nil, err
	}
	denies := l.untrustedLists()
	for _, location := range locations {
		location.Policy.Lists = append(location.Policy.Lists, denies...)
	}
	return locations, nil
}

func (l *loader) trustedLocations() ([]Location, error) {
	var below []part
	if l.user != nil {
		below = append(below, part{l.user, l.user.root})
	}
	if l.main == nil {
		return l.implicit(below)
	}
	below = append(below, part{l.main, l.main.root})
	if value(l.main.root, keyLocations) == nil {
		if err := l.checkNamedRoot(); err != nil {
			return nil, err
		}
		location, err := l.location(DefaultLocation, l.main.dir, below)
		return []Location{location}, err
	}
	sections := entries(l.main.root, keyLocations)
	if len(sections) == 0 {
		l.found.add(l.main.at(value(l.main.root, keyLocations).At), "locations is empty; without the key, this file's directory is the one Location")
	}
	var locations []Location
	for _, e := range sections {
		root := l.decoder.path(value(e.Value, keyRoot), l.main)
		location, err := l.location(e.Key, root, append(slices.Clip(below), part{l.main, e.Value}))
		if err != nil {
			return nil, err
		}
		locations = append(locations, location)
	}
	return locations, nil
}

// implicit is the Location that the working directory is without a file that is
// in effect.
func (l *loader) implicit(below []part) ([]Location, error) {
	if err := l.checkImplicitRoot(); err != nil {
		return nil, err
	}
	defaults := part{&source{}, &document.Node{Kind: document.Mapping}}
	if slices.Contains(l.options.Builtins, defaultPlugin) {
		filesystem := &document.Node{Kind: document.Mapping, Entries: []document.Entry{{Key: defaultPlugin, Value: &document.Node{}}}}
		defaults.node.Entries = []document.Entry{{Key: keyPlugins, Value: filesystem}}
	}
	location, err := l.location(DefaultLocation, l.dir, append([]part{defaults}, below...))
	return []Location{location}, err
}

// checkImplicitRoot refuses to make a Location of a directory that holds the
// user's whole home, only because a command was run there.
func (l *loader) checkImplicitRoot() error {
	what := l.wide(l.dir)
	if what == "" {
		return nil
	}
	err := fmt.Errorf("%s is %s, which becomes a Location only by a config file: change to a project, or write %s here and trust it",
		l.dir, what, FileName)
	if len(l.without) > 0 { // the notices would be lost with the Config
		nearest := l.without[0]
		err = fmt.Errorf("%w; %s is there and not trusted: %s", err, shorten(l.dir, nearest.Path), trustCommand(nearest))
	}
	return err
}

// checkNamedRoot refuses to make a Location of such a directory only because a file that
// was named is kept there. One that was written for it names it as a root.
func (l *loader) checkNamedRoot() error {
	if what := l.wide(l.main.dir); what != "" && l.main.Role == NamedFile {
		return fmt.Errorf("%s is in %s, which would be the root of its Location: name the root in it, such as locations: {project: {root: %s}}, or move it",
			l.main.Path, what, form.Quote(l.dir))
	}
	return nil
}

// wide says what a directory is that holds more than a project, or nothing.
func (l *loader) wide(dir string) string {
	root, home := resolve(dir), l.decoder.home
	switch {
	case root == "/":
		return "the root of the file system"
	case home != "" && resolve(home) == root:
		return "the home directory"
	case home != "" && isWithin(root, resolve(home)):
		return "a directory above the home directory"
	default:
		return ""
	}
}

// location builds one Location of the parts that speak of it, the lowest first.
// The parts of one file are one list of rules.
func (l *loader) location(name, root string, parts []part) (Location, error) {
	merged := newLayers()
	policy := &permission.Policy{Root: resolve(root), Defaults: permission.Defaults()}
	var last *source
	for _, p := range parts {
		if err := merged.add(entries(p.node, keyPlugins), p.source); err != nil {
			return Location{}, fmt.Errorf("merge %s: %w", p.source.Path, err)
		}
		rules := l.decoder.rules(value(p.node, keyPermissions), p.source, l.ruled())
		switch {
		case len(rules) == 0:
		case p.source == last:
			list := &policy.Lists[len(policy.Lists)-1]
			list.Rules = append(list.Rules, rules...)
		default:
			policy.Lists = append(policy.Lists, permission.List{Rules: rules})
			last = p.source
		}
	}
	return Location{
		Name: name, Root: filepath.Clean(root), Plugins: l.decoder.plugins(merged), Policy: policy,
		Output: l.decoder.output(parts, l.pluginNames()), Instructions: instructions(parts),
	}, nil
}

// untrustedLists are the rules of the project's files that are not trusted, of which
// only the denies hold. They keep the roots that they were written for, of which
// the working directory need be none.
func (l *loader) untrustedLists() []permission.List {
	var lists []permission.List
	for _, s := range l.without {
		lists = append(lists, l.untrustedListsOf(s, l.decoder)...)
	}
	forgiving := *l.decoder
	forgiving.mistakes = new(mistakes)
	for _, s := range l.before {
		lists = append(lists, l.untrustedListsOf(s, &forgiving)...)
	}
	return lists
}

func (l *loader) untrustedListsOf(s *source, d *decoder) []permission.List {
	decode := func(n *document.Node) []permission.Rule {
		return d.rules(value(n, keyPermissions), s, l.ruled())
	}
	top := decode(s.root)
	if value(s.root, keyLocations) == nil {
		return []permission.List{{Rules: top, Base: resolve(s.dir), DeniesOnly: true}}
	}
	lists := []permission.List{{Rules: top, DeniesOnly: true}} // for every root, and so for this one
	for _, e := range entries(s.root, keyLocations) {
		root := d.path(value(e.Value, keyRoot), s)
		lists = append(lists, permission.List{Rules: append(slices.Clip(top), decode(e.Value)...), Base: resolve(root), DeniesOnly: true})
	}
	return lists
}

// pluginNames are the plugins of every Location, since what stands at the top of a
// file holds for all of them.
func (l *loader) pluginNames() []string {
	var names []string
	if l.main == nil || len(l.without) > 0 {
		names = append(names, defaultPlugin)
	}
	for _, e := range l.pluginEntries() {
		names = append(names, e.Key)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// pluginEntries are the entries of plugins of all files and Locations.
func (l *loader) pluginEntries() []document.Entry {
	var all []document.Entry
	for _, s := range append(l.sources(), l.before...) {
		all = append(all, entries(s.root, keyPlugins)...)
		for _, e := range entries(s.root, keyLocations) {
			all = append(all, entries(e.Value, keyPlugins)...)
		}
	}
	return all
}

// ruled are the plugins by what rules may say of their tools; both are sorted.
type ruled struct {
	outside []string // the ids of their tools are actions
	builtin []string // their tools ask for the actions of the built-ins, and for no other
}

// ruled sorts the plugins. What has a command in some Location is from outside.
func (l *loader) ruled() ruled {
	programs, builtins := map[string]bool{}, map[string]bool{defaultPlugin: true}
	for _, name := range l.decoder.builtins {
		builtins[name] = true
	}
	for _, e := range l.pluginEntries() {
		programs[e.Key] = programs[e.Key] || value(e.Value, keyCommand) != nil
		builtins[e.Key] = builtins[e.Key] || value(e.Value, keyBuiltin) != nil
	}
	var r ruled
	for _, name := range l.pluginNames() {
		if programs[name] || !builtins[name] {
			r.outside = append(r.outside, name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(builtins)) {
		if builtins[name] && !programs[name] {
			r.builtin = append(r.builtin, name)
		}
	}
	return r
}
