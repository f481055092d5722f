package permission

import (
	"slices"

	"github.com/toolhost/toolhost/service"
	"github.com/toolhost/toolhost/service/permission/command"
)

// A trace takes down what an evaluation looks at, while it does. On nil its methods do
// nothing. A brief one takes down the parts and their answers alone.
type trace struct {
	parts  []Part
	misses *int // that were met, for the whole request; nil if it is brief
	brief  bool
}

// begin begins a part.
func (t *trace) begin(kind PartKind, action, text string) {
	if t != nil {
		t.parts = append(t.parts, Part{Kind: kind, Action: action, Text: text})
	}
}

// command begins a part that is a command.
func (t *trace) command(kind PartKind, c *command.Command) {
	if t == nil {
		return
	}
	t.begin(kind, service.ActionShell, c.Plain)
	if t.brief {
		return
	}
	part := t.part()
	for _, spelling := range append([]string{c.Raw}, c.Spellings...) {
		if spelling != c.Plain && !slices.Contains(part.Spellings, spelling) {
			part.Spellings = append(part.Spellings, spelling)
		}
	}
}

// consult notes that a list is asked about the part.
func (t *trace) consult(l *List, defaults bool) {
	if t == nil || t.brief {
		return
	}
	part, asked := t.part(), ListTrace{DeniesOnly: l.DeniesOnly, Base: l.Base}
	if defaults {
		part.Defaults = &asked
	} else {
		part.Lists = append(part.Lists, asked)
	}
}

// translated notes the path of which the list speaks, if it is below its base.
func (t *trace) translated(text string, inside bool) {
	if t != nil && !t.brief {
		list := t.list()
		if list.Outside = !inside; inside {
			list.Text = text
		}
	}
}

// looked notes that a rule of the list was looked at, and whether it matches. There
// are so many rules before it.
func (t *trace) looked(r *Rule, miss Miss, before int) {
	if t == nil || t.brief {
		return
	}
	list := t.list()
	if miss == "" {
		list.answer, list.Effect, list.NotLookedAt = r, r.Effect, before
	} else if *t.misses++; *t.misses > MaxRuleTraces {
		list.Omitted++
		return
	}
	list.Rules = append(list.Rules, RuleTrace{
		Source: r.Source, Action: r.Action.text, Resource: r.Resource.text, Effect: r.Effect, Agent: r.Agent, Reason: r.Reason,
		Matched: miss == "", Miss: miss,
	})
}

// untrusted takes back the list's answer, since only its denies count.
func (t *trace) untrusted() {
	if t != nil && !t.brief {
		list := t.list()
		rule := &list.Rules[len(list.Rules)-1]
		list.answer, list.Effect, rule.Matched, rule.Miss = nil, 0, false, MissUntrusted
	}
}

// answered notes the answer on the part, of which the strictest and first stands, and
// whether it holds for the whole so far.
func (t *trace) answered(v Verdict, holds bool) {
	if t == nil {
		return
	}
	part := t.part()
	if holds {
		for i := range t.parts {
			t.parts[i].Decided = false
		}
		part.Decided = true
	}
	if v.Effect <= part.Effect {
		return
	}
	part.Effect, part.verdict = v.Effect, v
	if t.brief {
		return
	}
	part.Why = v.String()
	lists := part.Lists
	if part.Defaults != nil {
		part.Defaults.Decided = v.Rule != nil && part.Defaults.answer == v.Rule
	}
	if i := slices.IndexFunc(lists, func(l ListTrace) bool { return v.Rule != nil && l.answer == v.Rule }); i >= 0 {
		lists[i].Decided = true
	}
}

// part is the part that is being judged.
func (t *trace) part() *Part { return &t.parts[len(t.parts)-1] }

// list is the one of its lists that is being asked.
func (t *trace) list() *ListTrace {
	part := t.part()
	if part.Defaults != nil {
		return part.Defaults
	}
	return &part.Lists[len(part.Lists)-1]
}
