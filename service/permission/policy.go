package permission

import (
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/toolhost/toolhost/service"
)

// Effect is what a rule says. A stricter effect is greater; the zero value says
// nothing.
type Effect uint8

// The effects.
const (
	Allow Effect = iota + 1
	Ask
	Deny
)

// Effects lists the effects by their names in config.
func Effects() []string { return []string{Allow.String(), Ask.String(), Deny.String()} }

// ParseEffect makes an effect of its name.
func ParseEffect(name string) (Effect, error) {
	for e := Allow; e <= Deny; e++ {
		if name == e.String() {
			return e, nil
		}
	}
	return 0, fmt.Errorf("effect %q is unknown; it is one of %s", name, strings.Join(Effects(), ", "))
}

// String is the name of the effect in config.
func (e Effect) String() string {
	switch e {
	case Allow:
		return "allow"
	case Ask:
		return "ask"
	case Deny:
		return "deny"
	default:
		return "none"
	}
}

// Actions lists the actions of the built-ins. Every other action is the
// canonical id of a tool.
func Actions() []string {
	return []string{
		service.ActionRead, service.ActionList, service.ActionGlob, service.ActionGrep, service.ActionEdit, service.ActionShell,
	}
}

// isPathAction says whether the action's resources are root-relative paths. The
// resource of glob and grep is what is searched for, and a tool's own action has
// resources that only the tool understands.
func isPathAction(action string) bool {
	return action == service.ActionRead || action == service.ActionList || action == service.ActionEdit
}

// A Rule is one line of a policy.
type Rule struct {
	// Action and Resource are what the rule is about.
	Action, Resource Pattern
	// Effect is what it says.
	Effect Effect
	// Reason is shown to whoever is refused; it may be empty.
	Reason string
	// Agent limits the rule to the agent of exactly this name; empty for every agent.
	Agent string
	// Source is where the rule stands, as file:line, for messages.
	Source string
}

// ParseAction makes the pattern of a rule's action. It reports a text that no
// action can match: plugins are the names of the configured plugins, whose tools'
// ids are actions beside those of the built-ins. The tools themselves are not
// known before a plugin runs, so any name after the slash is accepted.
func ParseAction(text string, plugins []string) (Pattern, error) {
	p, err := ParsePattern(text)
	if err != nil {
		return Pattern{}, fmt.Errorf("action: %w", err)
	}
	if slices.ContainsFunc(Actions(), p.Match) {
		return p, nil
	}
	if slices.ContainsFunc(plugins, func(name string) bool { return p.matchesBelow(name + "/") }) {
		return p, nil
	}
	return Pattern{}, fmt.Errorf("action %q is unknown: an action is one of %s, or plugin/tool of a configured plugin",
		text, strings.Join(Actions(), ", "))
}

// ParseResource makes the pattern of a rule's resource. For an action whose
// resources are paths it reports a text that no path can match, since a deny
// written so would protect nothing (case C21), and one with "**/", which would
// protect less than it does in the pattern of a glob. "**" at the end is "*".
func ParseResource(text string, action Pattern) (Pattern, error) {
	p, err := ParsePattern(text)
	if err != nil {
		return Pattern{}, fmt.Errorf("resource: %w", err)
	}
	if !isPathAction(action.text) || text == "." {
		return p, nil
	}
	switch clean := path.Clean(text); {
	case strings.HasPrefix(text, "/"):
		return Pattern{}, fmt.Errorf("resource %q matches no path: paths are relative to the Location's root", text)
	case clean == ".." || strings.HasPrefix(clean, "../"):
		return Pattern{}, fmt.Errorf("resource %q matches no path: it leaves the Location's root", text)
	case strings.HasSuffix(text, "/"):
		return Pattern{}, fmt.Errorf("resource %q matches no path: what is below the directory is %q", text, clean+"/*")
	case clean != text:
		return Pattern{}, fmt.Errorf("resource %q matches no path: paths are judged in their shortest form, such as %q", text, clean)
	case strings.Contains(compiled(text), star+star+"/"):
		return Pattern{}, fmt.Errorf("resource %q does not match what it does in a glob: here * crosses directories, and the slash behind it must be there; write %s", text, withoutDoubleStar(text))
	}
	return p, nil
}

// withoutDoubleStar is what to write in place of a resource with "**/": the star
// alone where another follows, and else the path with and without what it stands for.
func withoutDoubleStar(text string) string {
	const double = "**/"
	before, after, found := strings.Cut(text, double)
	if !found || strings.Contains(after, double) || strings.Contains(text, `\`) {
		return `"*" for any part of a path`
	}
	if strings.HasPrefix(after, "*") {
		return strconv.Quote(before + after)
	}
	return strconv.Quote(before+after) + " and " + strconv.Quote(before+"*/"+after)
}

// A List is the rules of one file for one Location, in order.
type List struct {
	Rules []Rule
	// Base is the directory that the rules' paths are relative to, absolute and
	// without links; empty for the Location's root. Where it is not the root, paths
	// are translated, and what is outside of Base is none of the list's business.
	Base string
	// DeniesOnly makes every other answer of the list an abstention: the file is not
	// trusted, and its denies hold all the same (law 40).
	DeniesOnly bool

	entries map[string][]entry // by action; only in an engine's own policy, see indexed
}

// A Policy is all that is said about one Location. The zero value asks about
// everything. It must not be changed once it is in use.
type Policy struct {
	// Root is the Location's root, absolute and without links. It matters only to
	// lists that have a Base.
	Root string
	// Lists has one list for each file, or part of one, that speaks of the Location.
	Lists []List
	// Defaults speaks when every list abstains.
	Defaults List
}

// A Verdict is the answer to a request, with its ground.
type Verdict struct {
	// Effect is Allow, Ask or Deny.
	Effect Effect
	// Rule is the rule that decided, or nil. It belongs to the policy.
	Rule *Rule
	// Malformed says that the resource is no path below the root, which is denied
	// whatever the rules are.
	Malformed bool
	// Command is the part of a command line that decided: a simple command without
	// quoting, or "> " and a file that is written. It is empty for other actions, and
	// when it was the line as a whole that cannot be told.
	Command string
	// Doubt is what cannot be told about Command, or the line, before it runs, in
	// words that follow "it". It is not a rule's.
	Doubt string
}

// String is the verdict for a person, such as "denied by toolhost.yaml:12: secrets".
func (v Verdict) String() string {
	text := "asked for"
	switch v.Effect {
	case Allow:
		text = "allowed"
	case Deny:
		text = "denied"
	}
	if v.Rule == nil {
		return text + ": " + v.ground()
	}
	if v.Command != "" {
		text += " for " + strconv.Quote(v.Command)
	}
	text += " by " + v.Rule.Source
	if v.Rule.Reason != "" {
		text += ": " + v.Rule.Reason
	}
	if v.Doubt != "" {
		text += "; it " + v.Doubt
	}
	return text
}

// ground is why, to stand behind a colon after what was refused.
func (v Verdict) ground() string {
	if v.Command != "" {
		part := v
		part.Command = ""
		return part.ground() + ": " + strconv.Quote(v.Command)
	}
	if v.Doubt != "" && v.Rule != nil {
		part := v
		part.Doubt = ""
		return part.ground() + ", and it " + v.Doubt
	}
	switch {
	case v.Malformed:
		return "it is not a path below the root"
	case v.Doubt != "":
		return "it " + v.Doubt
	case v.Rule == nil:
		return "no rule speaks of it"
	case v.Rule.Reason != "":
		return fmt.Sprintf("%s (%s)", v.Rule.Reason, v.Rule.Source)
	default:
		return "by " + v.Rule.Source
	}
}

// Evaluate judges one resource of one action for an agent (law 31). Paths are
// cleaned before they are matched (case C19). For a resource that is clean it
// allocates nothing, unless a list has a Base. A command line is judged as
// [Policy.EvaluateCommand] says, in the root.
func (p *Policy) Evaluate(action, resource, agent string) Verdict {
	return p.evaluate(action, resource, "", agent, nil)
}

// evaluate is Evaluate, for a command line in a directory, with what it looks at.
func (p *Policy) evaluate(action, resource, directory, agent string, t *trace) Verdict {
	if action == service.ActionShell {
		return p.judgeLine(resource, directory, agent, true, t)
	}
	t.begin(PartResource, action, resource)
	v, resource := p.configured(action, resource, agent, t)
	if v.Effect == 0 {
		v = p.byDefault(action, agent, &subject{plain: resource, raw: resource}, t)
	}
	t.answered(v, true)
	return v
}

// byLists is the answer of the lists, for a command line in a directory; its Effect is zero
// when all of them abstain.
func (p *Policy) byLists(action, resource, directory, agent string) Verdict {
	if action == service.ActionShell {
		return p.judgeLine(resource, directory, agent, false, nil)
	}
	v, _ := p.configured(action, resource, agent, nil)
	return v
}

// byDefault is the answer of the defaults, and ask when they abstain as well.
func (p *Policy) byDefault(action, agent string, s *subject, t *trace) Verdict {
	t.consult(&p.Defaults, true)
	if rule := p.Defaults.last(action, agent, s, t); rule != nil {
		return Verdict{Effect: rule.Effect, Rule: rule}
	}
	return Verdict{Effect: Ask}
}

// configured is the answer of the lists, without the defaults; its Effect is
// zero when all of them abstain. It returns the resource as it was matched.
func (p *Policy) configured(action, resource, agent string, t *trace) (Verdict, string) {
	resource, ok := canonical(action, resource)
	if !ok {
		return Verdict{Effect: Deny, Malformed: true}, resource
	}
	var v Verdict
	for i := range p.Lists {
		list := &p.Lists[i]
		t.consult(list, false)
		if rule := list.judgeResource(p.Root, action, resource, agent, t); rule != nil && rule.Effect > v.Effect {
			v = Verdict{Effect: rule.Effect, Rule: rule}
		}
	}
	return v, resource
}

// judgeResource is the rule by which the list answers on one resource, or nil
// when it abstains.
func (l *List) judgeResource(root, action, resource, agent string, t *trace) *Rule {
	if l.Base != "" && l.Base != root && isPathAction(action) {
		translated, inside := translate(root, l.Base, resource)
		t.translated(translated, inside)
		if !inside {
			return nil
		}
		resource = translated
	}
	return l.judge(action, agent, &subject{plain: resource, raw: resource}, t)
}

// judge is the rule by which the list answers, or nil when it abstains.
func (l *List) judge(action, agent string, s *subject, t *trace) *Rule {
	rule := l.last(action, agent, s, t)
	if rule != nil && l.DeniesOnly && rule.Effect != Deny {
		t.untrusted()
		return nil
	}
	return rule
}

// translate turns a clean path below root into the path of the same file below
// base; inside is false when it is not below base.
func translate(root, base, resource string) (translated string, inside bool) {
	full := path.Join(root, resource)
	if full == base {
		return ".", true
	}
	return strings.CutPrefix(full, strings.TrimSuffix(base, "/")+"/")
}

// canonical is the shortest spelling of a resource that is a path; any other
// resource stays as it is. It is not ok when the action's resources are paths and
// this one is none below the root.
func canonical(action, resource string) (shortest string, ok bool) {
	if !isPathAction(action) {
		return resource, true
	}
	if resource == "" || strings.IndexByte(resource, 0) >= 0 {
		return resource, false
	}
	clean := path.Clean(resource) // returns its argument when there is nothing to clean
	if clean[0] == '/' || clean == ".." || strings.HasPrefix(clean, "../") {
		return resource, false
	}
	return clean, true
}
