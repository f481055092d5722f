package permission

import (
	"cmp"
	"path"
	"strings"

	"github.com/toolhost/toolhost/service"
	"github.com/toolhost/toolhost/service/permission/command"
	"github.com/toolhost/toolhost/tool"
)

// SavePattern is the pattern that "always" saves for a command line that runs in a
// directory below the root, given relative to it, "." being the root: it matches
// exactly this line there, and no other (case C09). It is empty when there is none,
// because the line is longer than a pattern may be, is not UTF-8, or cannot be told
// in a directory below the root; then the answer cannot be saved.
func SavePattern(line, directory string) string {
	return literal(extent(service.ActionShell, line, directory))
}

// literal is the pattern that matches the text alone, or empty when there is none.
func literal(text string) string {
	pattern := Escape(text)
	if _, err := ParsePattern(pattern); err != nil {
		return ""
	}
	return pattern
}

// directoryOf is where the command lines of a request run, in the shortest spelling;
// empty for other actions.
func directoryOf(request *tool.PermissionRequest) string {
	if request.Action != service.ActionShell {
		return ""
	}
	return path.Clean(request.Metadata[service.MetadataDirectory])
}

// extent is the text that saved patterns are matched with: the resource, and for a
// command line that runs in a directory below the root, the line that goes there
// first. So what was approved in one directory says nothing about another one. It is
// empty, which nothing matches, for a line that would mean something else in such a
// frame.
func extent(action, resource, directory string) string {
	if directory = path.Clean(directory); action != service.ActionShell || directory == "." {
		return resource
	}
	if command.Read(resource).Doubt != "" {
		return ""
	}
	return "cd -- '" + strings.ReplaceAll(directory, "'", `'\''`) + "' && {\n" + resource + "\n}"
}

// EvaluateCommand judges a command line that runs in a directory below the root,
// given relative to it, for an agent (law 38). It is what [Policy.Evaluate] does
// for the action shell, in the directory ".".
//
// Every simple command of the line is judged by itself, see [command.Read], and
// the strictest answer holds. A rule that denies or asks matches a command in any
// of its spellings: as it was written, without quoting, with the program's base
// name in the place of its path. A rule that allows matches only its words
// without quoting, and only if nothing in them is left to be known when the line
// runs. So the allow for a program that runs another one, such as env, covers
// neither what that is nor any other part of the line.
//
// Behind a program of which it is not known whether it runs its arguments, a
// rule whose resource begins with the name of a command and that denies or asks
// makes the line ask when it matches the arguments. What a redirection writes is
// judged as an edit; a file of which it cannot be told that it is below the root
// is asked for. A deny that matches the line as it was written holds as well,
// unless its resource is nothing but wildcards. What cannot be told is asked. In a
// directory that is no path below the root every line is denied.
func (p *Policy) EvaluateCommand(line, directory, agent string) Verdict {
	return p.judgeLine(line, directory, agent, true, nil)
}

// judgeLine judges a command line; without the defaults what no list speaks of
// has no effect.
func (p *Policy) judgeLine(line, directory, agent string, defaults bool, t *trace) Verdict {
	read := command.Read(line)
	j := judging{policy: p, agent: agent, defaults: defaults, trace: t}
	if _, below := canonical(service.ActionList, cmp.Or(directory, ".")); !below {
		t.begin(PartDoubt, service.ActionShell, line)
		j.answer(Verdict{Effect: Deny, Doubt: "is to run in a directory that is not below the root"})
		return j.verdict
	}
	for i := range read.Commands {
		c := &read.Commands[i]
		j.subject = subject{plain: c.Plain, raw: c.Raw, spellings: c.Spellings, doubtful: c.Doubt != ""}
		if c.Possible {
			j.possible(c)
		} else {
			j.certain(c)
		}
	}
	for _, w := range read.Writes {
		j.write(w, directory, read.Moves)
	}
	j.whole(line)
	if read.Doubt != "" {
		j.doubt(line, read.Doubt)
	}
	if len(read.Commands)+len(read.Writes) == 0 && j.verdict.Effect == 0 && defaults {
		j.doubt(line, "has no command in it")
	}
	return j.verdict
}

// judging is the verdict on a line on its way.
type judging struct {
	policy   *Policy
	agent    string
	defaults bool
	subject  subject
	verdict  Verdict
	trace    *trace // nil: nobody wants to know
}

// answer keeps the strictest verdict; the first of equal ones stands.
func (j *judging) answer(v Verdict) {
	stricter := v.Effect > j.verdict.Effect
	if stricter {
		j.verdict = v
	}
	j.trace.answered(v, stricter)
}

// doubt asks about what cannot be told of the line.
func (j *judging) doubt(line, doubt string) {
	j.trace.begin(PartDoubt, service.ActionShell, line)
	j.answer(Verdict{Effect: Ask, Doubt: doubt})
}

// lists is the answer of the lists on the subject, zero when all abstain.
func (j *judging) lists() Verdict {
	var v Verdict
	for i := range j.policy.Lists {
		list := &j.policy.Lists[i]
		j.trace.consult(list, false)
		if rule := list.judge(service.ActionShell, j.agent, &j.subject, j.trace); rule != nil && rule.Effect > v.Effect {
			v = Verdict{Effect: rule.Effect, Rule: rule}
		}
	}
	return v
}

// certain judges what is a command.
func (j *judging) certain(c *command.Command) {
	j.trace.command(PartCommand, c)
	v := j.lists()
	if v.Effect == 0 && j.defaults {
		v = j.policy.byDefault(service.ActionShell, j.agent, &j.subject, j.trace)
	}
	if v.Effect != Deny {
		v.Doubt = c.Doubt
	}
	v.Command = c.Plain
	j.answer(v)
}

// possible judges what may be a command: a rule that stands against it makes it
// ask.
func (j *judging) possible(c *command.Command) {
	j.subject.doubtful = true // an allow says nothing here
	j.subject.only = namesCommand
	j.trace.command(PartPossible, c)
	for i := range j.policy.Lists {
		list := &j.policy.Lists[i]
		j.trace.consult(list, false)
		if rule := list.judge(service.ActionShell, j.agent, &j.subject, j.trace); rule != nil {
			j.answer(Verdict{Effect: Ask, Rule: rule, Command: c.Plain, Doubt: "may be run by what stands in front of it"})
		}
	}
}

// namesCommand reports whether the rule speaks of some commands rather than of
// any.
func namesCommand(r *Rule) bool { return r.Resource.prefix != "" || r.Resource.wild == "" }

// whole judges the line as it was written, by the denies.
func (j *judging) whole(line string) {
	line = strings.TrimSpace(line)
	j.trace.begin(PartLine, service.ActionShell, line)
	j.subject = subject{plain: line, raw: line, only: func(r *Rule) bool { return strings.Trim(r.Resource.text, "*?") != "" }}
	if v := j.lists(); v.Effect == Deny {
		v.Command = line
		j.answer(v)
	}
}

// write judges a file that a redirection writes.
func (j *judging) write(w command.Write, directory string, moves bool) {
	doubt, file := w.Doubt, w.Path
	switch {
	case path.IsAbs(file):
		below, inside := translate("", j.policy.Root, path.Clean(file))
		if file = below; !inside || j.policy.Root == "" {
			file, doubt = "", "writes to a file outside of the root"
		}
	default:
		if moves && doubt == "" {
			doubt = "writes to a file in a directory that is only known when it runs"
		}
		file = path.Join(directory, file)
	}
	v := Verdict{}
	j.trace.begin(PartWrite, service.ActionEdit, cmp.Or(file, w.Path))
	if clean, ok := canonical(service.ActionEdit, file); ok {
		if v, _ = j.policy.configured(service.ActionEdit, clean, j.agent, j.trace); v.Effect == 0 && j.defaults {
			v = j.policy.byDefault(service.ActionEdit, j.agent, &subject{plain: clean, raw: clean}, j.trace)
		}
	} else if doubt == "" {
		doubt = "writes to a file outside of the root"
	}
	if doubt != "" && v.Effect < Ask {
		v = Verdict{Effect: Ask, Doubt: doubt}
	}
	v.Command = "> " + w.Path
	j.answer(v)
}
