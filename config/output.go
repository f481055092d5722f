package config

import (
	"fmt"
	"path"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/toolhost/toolhost/config/internal/document"
	"github.com/toolhost/toolhost/config/internal/form"
	"github.com/toolhost/toolhost/tool"
)

// The bounds of what a file may say of outputs. There is no value that switches
// bounding off: what a model's context holds is at stake, and a project's file is
// a repository's.
const (
	maxOutputLines = 100_000
	minOutputBytes = 1 << 10
	maxOutputBytes = 1 << 20
	minRetention   = time.Minute
	maxRetention   = 10 * 365 * 24 * time.Hour
	minQuota       = 1 << 20
	maxQuota       = 1 << 40
)

// Output is how much of an output a model sees, and how the whole of what was cut
// is kept (laws 17, 18). It is complete: what no file speaks of has its default.
//
// A project's file may say how much is seen. Of what is kept in the user's own
// storage it may only ask for less than the user's file says, or than the
// defaults if that says nothing: a longer retention or a larger quota is as if it
// were not there.
type Output struct {
	// OutputLimits hold for every tool that is not in Tools.
	OutputLimits
	// Tools are the limits of single tools, by canonical id; nil if there are none.
	Tools map[string]OutputLimits
	// Retention is how long an output is kept; by default seven days.
	Retention time.Duration
	// Quota is how many bytes of storage the outputs may take; by default 1 GiB.
	Quota int64
}

// OutputLimits are how much of one output a model sees. A value that was not loaded
// may be zero, which stands for the defaults.
type OutputLimits struct {
	// MaxLines is 1 to 100,000 lines; by default 2,000.
	MaxLines int
	// MaxBytes is 1 KiB to 1 MiB; by default 50 KiB.
	MaxBytes int
}

// Limits are those of the tool with that canonical id.
func (o Output) Limits(id string) OutputLimits {
	if limits, ok := o.Tools[id]; ok {
		return limits
	}
	return o.OutputLimits
}

func defaultOutput() Output {
	return Output{OutputLimits: defaultLimits(), Retention: 7 * 24 * time.Hour, Quota: 1 << 30}
}

func defaultLimits() OutputLimits { return OutputLimits{MaxLines: 2000, MaxBytes: 50 << 10} }

// defaultInstructions are the files of instructions where no file names others.
func defaultInstructions() []string { return []string{"AGENTS.md"} }

func outputForm() form.Form {
	return form.Form{Kind: form.Object, About: "How much of an output a model sees, and how the whole of what was cut is kept.", Keys: append(limitKeys(),
		form.Key{Name: keyRetention, Form: form.Form{
			Kind: form.Text, About: "How long the whole of an output is kept, such as 168h (the default). A project's file can only shorten what the user's says.",
			Pattern: `^(([0-9]+(\.[0-9]*)?|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h))+$`, Verify: checkRetention,
		}},
		form.Key{Name: keyQuota, Form: form.Form{
			Kind: form.Size, Min: minQuota, Max: maxQuota,
			About: "How many bytes of storage kept outputs may take, as a number or such as 500MB; 1GiB by default. A project's file can only lower what the user's says.",
		}},
		form.Key{Name: keyTools, Form: form.Form{
			Kind: form.Table, Most: maxItems, About: "The limits of single tools, by id.",
			Names: &form.Form{
				Kind: form.Text, About: "The id of the tool, plugin/tool.",
				Pattern: `^[A-Za-z0-9]([A-Za-z0-9 ._-]{0,62}[A-Za-z0-9])?/.+$`, Verify: checkToolID,
			},
			Each: &form.Form{Kind: form.Object, About: "What holds for this tool; the rest is as for all.", Keys: limitKeys()},
		}},
	)}
}

func limitKeys() []form.Key {
	return []form.Key{
		{Name: keyMaxLines, Form: form.Form{Kind: form.Integer, Min: 1, Max: maxOutputLines, About: "The most lines of an output that a model sees; 2000 by default."}},
		{Name: keyMaxBytes, Form: form.Form{Kind: form.Integer, Min: minOutputBytes, Max: maxOutputBytes, About: "The most bytes of an output that a model sees; 51200 by default."}},
	}
}

func instructionsForm() form.Form {
	return form.Form{
		Kind:  form.List,
		Most:  maxInstructions,
		About: "The names of the files of instructions for agents that are given to a model with what is near them; AGENTS.md by default, and none with an empty list.",
		Each:  &form.Form{Kind: form.Text, Pattern: `^[^/]{1,255}$`, Verify: checkFileName},
	}
}

func checkRetention(text string) error {
	d, err := time.ParseDuration(text)
	if err != nil || strings.HasPrefix(text, "+") {
		return fmt.Errorf("a retention is a duration such as 168h or 90m; the longest unit is h")
	}
	if d < minRetention || d > maxRetention {
		return fmt.Errorf("a retention is between 1m and %.0fh", maxRetention.Hours())
	}
	return nil
}

func checkToolID(id string) error {
	plugin, name, _ := strings.Cut(id, "/")
	if err := checkName(plugin, pluginMarks); err != nil || name == "" {
		return fmt.Errorf("the id of a tool is plugin/tool, such as weather/forecast")
	}
	if plugin == hostPlugin {
		return tool.CheckReservedName(name)
	}
	return tool.CheckName(name)
}

func checkFileName(name string) error {
	switch {
	case name == "" || name == "." || name == ".." || path.Base(name) != name:
		return fmt.Errorf("it is the name of a file, without directories, such as AGENTS.md")
	case len(name) > 255 || !utf8.ValidString(name) || strings.ContainsFunc(name, unicode.IsControl):
		return fmt.Errorf("a name of a file has at most 255 bytes and no control characters")
	}
	return nil
}

// output puts the layers of the parts together, key by key. plugins are those
// whose tools a project's file may speak of.
func (d *decoder) output(parts []part, plugins []string) Output {
	o := defaultOutput()
	limits := o // what the user's file says
	for _, p := range parts {
		d.addOutput(&o, p, plugins)
		if p.source.Role == UserFile {
			limits = o
		}
	}
	o.Retention, o.Quota = min(o.Retention, limits.Retention), min(o.Quota, limits.Quota)
	for id, own := range o.Tools {
		o.Tools[id] = own.or(o.OutputLimits)
	}
	return o
}

// or fills what is not given.
func (l OutputLimits) or(all OutputLimits) OutputLimits {
	if l.MaxLines == 0 {
		l.MaxLines = all.MaxLines
	}
	if l.MaxBytes == 0 {
		l.MaxBytes = all.MaxBytes
	}
	return l
}

// addOutput puts what a part says on top. As with plugins, null takes away what is
// below. Of single tools, what is not given is 0 for the time being.
func (d *decoder) addOutput(o *Output, p part, plugins []string) {
	n, there := lookup(p.node, keyOutput)
	if !there {
		return
	}
	if n.Kind == document.Null {
		*o = defaultOutput()
		return
	}
	o.OutputLimits = addLimits(o.OutputLimits, n, defaultLimits())
	if retention := value(n, keyRetention); retention != nil {
		o.Retention, _ = time.ParseDuration(retention.Text) // checked with the form
	}
	if quota, there := lookup(n, keyQuota); there {
		o.Quota = number(quota, defaultOutput().Quota)
	}
	tools, there := lookup(n, keyTools)
	if there && tools.Kind == document.Null {
		o.Tools = nil
	}
	for _, e := range entries(n, keyTools) {
		d.checkPlugin(e, p.source, plugins)
		if o.Tools == nil {
			o.Tools = map[string]OutputLimits{}
		}
		if e.Value.Kind == document.Null {
			delete(o.Tools, e.Key)
			continue
		}
		o.Tools[e.Key] = addLimits(o.Tools[e.Key], e.Value, OutputLimits{})
	}
}

func addLimits(below OutputLimits, n *document.Node, otherwise OutputLimits) OutputLimits {
	if lines, there := lookup(n, keyMaxLines); there {
		below.MaxLines = int(number(lines, int64(otherwise.MaxLines)))
	}
	if bytes, there := lookup(n, keyMaxBytes); there {
		below.MaxBytes = int(number(bytes, int64(otherwise.MaxBytes)))
	}
	return below
}

// number is the value of a checked node, or the other if it is null.
func number(n *document.Node, otherwise int64) int64 {
	if n.Kind == document.Null {
		return otherwise
	}
	f := form.Form{Max: maxQuota}
	value, _ := f.Number(n) // checked with the form
	return value
}

// checkPlugin reports a tool of a plugin that no file speaks of. The user's own
// file serves projects with other plugins too.
func (d *decoder) checkPlugin(e document.Entry, s *source, plugins []string) {
	plugin, _, _ := strings.Cut(e.Key, "/")
	if s.Role == UserFile || plugin == hostPlugin || slices.Contains(plugins, plugin) {
		return
	}
	d.mistakes.add(s.at(e.At), "tool %s: plugin %s is not configured%s", form.Quote(e.Key), form.Quote(plugin), d.mistakes.hint(plugin, plugins))
}

// instructions are the names of the files of instructions: a list replaces the one
// below, and null takes it away.
func instructions(parts []part) []string {
	names := defaultInstructions()
	for _, p := range parts {
		n, there := lookup(p.node, keyInstructions)
		switch {
		case !there:
		case n.Kind == document.Null:
			names = defaultInstructions()
		default:
			names = append([]string{}, leaf{n, p.source}.texts()...)
		}
	}
	return names
}

// lookup is the value of a key, which may be null.
func lookup(n *document.Node, key string) (value *document.Node, there bool) {
	for _, e := range n.Entries {
		if e.Key == key {
			return e.Value, true
		}
	}
	return nil, false
}
