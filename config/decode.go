package config

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/toolhost/toolhost/config/internal/document"
	"github.com/toolhost/toolhost/config/internal/form"
	"github.com/toolhost/toolhost/service"
	"github.com/toolhost/toolhost/service/permission"
)

// decoder makes plugins and rules of checked nodes.
type decoder struct {
	builtins []string
	home     string // empty when it is not known
	mistakes *mistakes
	patterns int // of actions, so far
}

// plugins decodes the merged entries of a Location, sorted by name.
func (d *decoder) plugins(l *layers) []Plugin {
	entries := l.plugins()
	plugins := make([]Plugin, 0, len(entries))
	for _, name := range slices.Sorted(maps.Keys(entries)) {
		plugins = append(plugins, d.plugin(name, entries[name]))
	}
	return plugins
}

func (d *decoder) plugin(name string, e entry) Plugin {
	p := Plugin{
		Name:     name,
		Command:  e.texts(keyCommand),
		Settings: e.json(keySettings),
		Env:      e.texts(keyEnv),
		Override: e.texts(keyOverride),
		Source:   e.at,
	}
	if digest, ok := e.leaf(keySHA256); ok {
		p.SHA256 = strings.ToLower(digest.Text)
	}
	if command, ok := e.leaf(keyCommand); ok {
		p.Command[0] = d.path(command.Items[0], command.source)
	} else {
		p.Builtin = d.builtin(name, e)
	}
	p.Files = d.files(e)
	p.Sandbox = d.sandbox(e)
	if grants, ok := e.leaf(keyGrants); ok {
		if p.Builtin != "" {
			d.mistakes.add(grants.source.at(grants.At), "grants of plugin %s: a built-in gets the services that it declares", form.Quote(name))
		}
		for _, grant := range grants.texts() {
			p.Grants = append(p.Grants, service.Grant(grant))
		}
	}
	return p
}

// builtin is the built-in that an entry without a command is.
func (d *decoder) builtin(name string, e entry) string {
	if named, ok := e.leaf(keyBuiltin); ok {
		if !slices.Contains(d.builtins, named.Text) {
			d.mistakes.add(named.source.at(named.At), "builtin %s is unknown; there is %s%s",
				form.Quote(named.Text), strings.Join(d.builtins, ", "), form.DidYouMean(named.Text, d.builtins))
		}
		return named.Text
	}
	if !slices.Contains(d.builtins, name) {
		d.mistakes.add(e.at, "plugin %s is not built in and has no command%s", form.Quote(name), d.mistakes.hint(name, d.builtins))
	}
	return name
}

func (d *decoder) files(e entry) []PinnedFile {
	pins, _ := e.fields[keyFiles].(map[string]any)
	var files []PinnedFile
	for _, path := range slices.Sorted(maps.Keys(pins)) {
		if digest, ok := e.layers.leaf(pins[path]); ok {
			spelled := &document.Node{Kind: document.Text, Text: path, At: digest.At}
			files = append(files, PinnedFile{Path: d.path(spelled, digest.source), SHA256: strings.ToLower(digest.Text)})
		}
	}
	slices.SortFunc(files, func(a, b PinnedFile) int { return strings.Compare(a.Path, b.Path) })
	return files
}

// path makes a path of a file absolute.
func (d *decoder) path(n *document.Node, s *source) string {
	if d.home == "" && strings.HasPrefix(n.Text, "~/") {
		d.mistakes.add(s.at(n.At), "path %s: the home directory is not known; set HOME, or write the path", form.Quote(n.Text))
	}
	return s.path(n.Text, d.home)
}

// rules decodes a list of rules. plugins are those whose tools the rules may speak
// of; in the user's own file, which serves projects with other plugins too, the
// rules may speak of any that is not built in.
func (d *decoder) rules(permissions *document.Node, s *source, plugins ruled) []permission.Rule {
	if permissions == nil {
		return nil
	}
	var rules []permission.Rule
	for _, item := range permissions.Items {
		rules = append(rules, d.rule(item, s, plugins))
	}
	return rules
}

func (d *decoder) rule(n *document.Node, s *source, plugins ruled) permission.Rule {
	rule := permission.Rule{Source: s.ruleSource(n.At.Line)}
	var err error
	if action := value(n, keyAction); action != nil {
		if rule.Action, err = d.action(action.Text, s, plugins); err != nil {
			d.mistakes.add(s.at(action.At), "%v", err)
		}
	}
	if resource := value(n, keyResource); resource != nil {
		if rule.Resource, err = permission.ParseResource(resource.Text, rule.Action); err != nil {
			d.mistakes.add(s.at(resource.At), "%v", err)
			// What was trusted before this was a mistake denies what it did.
			rule.Resource, _ = permission.ParsePattern(resource.Text)
		}
	}
	if effect := value(n, keyEffect); effect != nil {
		rule.Effect, _ = permission.ParseEffect(effect.Text) // checked with the form
	}
	if reason := value(n, keyReason); reason != nil {
		rule.Reason = reason.Text
	}
	if agent := value(n, keyAgent); agent != nil {
		rule.Agent = agent.Text
	}
	return rule
}

// action makes the pattern of a rule's action. It reports one that no call asks for.
func (d *decoder) action(text string, s *source, plugins ruled) (permission.Pattern, error) {
	if plugin, tool, isID := strings.Cut(text, "/"); isID && slices.Contains(plugins.builtin, plugin) {
		return permission.Pattern{}, builtinAction(text, plugin, tool)
	}
	if s.Role == UserFile && mayBeToolID(text) || d.patterns > maxPatterns {
		return permission.ParsePattern(text)
	}
	pattern, err := permission.ParseAction(text, d.candidates(text, plugins.outside))
	if err == nil {
		return pattern, nil
	}
	if _, other := permission.ParseAction(text, d.candidates(text, plugins.builtin)); other == nil {
		plugin, tool, _ := strings.Cut(text, "/")
		return pattern, builtinAction(text, plugin, tool)
	}
	return pattern, fmt.Errorf("%w%s", err, d.mistakes.hint(text, actionNames(text, plugins.outside)))
}

// builtinAction says which action a tool of a built-in asks for, in place of its id.
func builtinAction(text, plugin, tool string) error {
	use := fmt.Sprintf("use %q for whatever changes files, %q for whatever runs, or the one of read, list, glob and grep that is meant", service.ActionEdit, service.ActionShell)
	switch {
	case strings.ContainsAny(plugin+tool, "*?"):
	case slices.Contains(permission.Actions(), tool):
		use = fmt.Sprintf("use %q", tool)
	case slices.Contains([]string{"write", "patch", "move", "remove", "mkdir"}, tool):
		use = fmt.Sprintf("use %q, which is every change of files", service.ActionEdit)
	case slices.Contains([]string{"process_start", "process_input"}, tool):
		use = fmt.Sprintf("use %q, which is every command line", service.ActionShell)
	}
	return fmt.Errorf("action %s matches nothing: the tools of a built-in plugin ask for read, list, glob, grep, edit or shell, and not by their ids; %s", form.Quote(text), use)
}

// maxPatterns is how many actions with wildcards are held against the names of
// the plugins, which takes time in the product of all of their lengths. Of more, one
// that matches nothing is not found.
const maxPatterns = 256

// candidates are the plugins, which are sorted, that an action may speak of.
func (d *decoder) candidates(action string, plugins []string) []string {
	plugin, _, isID := strings.Cut(action, "/")
	if strings.ContainsAny(plugin, "*?") {
		d.patterns++
		return plugins
	}
	if i, found := slices.BinarySearch(plugins, plugin); found && isID {
		return plugins[i : i+1]
	}
	return nil
}

// mayBeToolID says whether an action may be, or match, the id of a tool of some
// plugin.
func mayBeToolID(action string) bool {
	plugin, tool, isID := strings.Cut(action, "/")
	named := checkName(strings.NewReplacer("*", "x", "?", "x").Replace(plugin), pluginMarks) == nil
	return named && (isID && tool != "" || !isID && strings.Contains(plugin, "*"))
}

// actionNames are the actions that a misspelled one may have meant.
func actionNames(action string, plugins []string) []string {
	names := permission.Actions()
	_, tool, _ := strings.Cut(action, "/")
	tool = cmp.Or(tool, "*")
	for _, plugin := range plugins {
		names = append(names, plugin+"/"+tool)
	}
	return names
}
