package config

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/toolhost/toolhost/config/internal/form"
	"github.com/toolhost/toolhost/service"
	"github.com/toolhost/toolhost/service/permission"
	"github.com/toolhost/toolhost/service/permission/command"
)

// maxMistakes is how many mistakes an error spells out.
const maxMistakes = 20

// A Mistake is one thing that is wrong with a config file.
type Mistake struct {
	Position
	// Text says what is wrong, and where there is one, the nearest valid name.
	Text string
}

// An Error is all that is wrong with the config files, in the order in which
// they are read.
type Error struct {
	// Mistakes is never empty.
	Mistakes []Mistake
	// dir is what file names are shortened against.
	dir string
}

// Error has one line for each mistake, file:line:column and what is wrong, and
// after twenty the number of the others. Files below the working directory are
// named relative to it.
func (e *Error) Error() string {
	var lines []string
	for _, m := range e.Mistakes[:min(len(e.Mistakes), maxMistakes)] {
		m.File = shorten(e.dir, m.File)
		lines = append(lines, m.Position.String()+": "+m.Text)
	}
	if more := len(e.Mistakes) - maxMistakes; more > 0 {
		lines = append(lines, fmt.Sprintf("and %d more", more))
	}
	return strings.Join(lines, "\n")
}

// mistakes collects what is wrong.
type mistakes struct{ found []Mistake }

func (m *mistakes) add(at Position, format string, args ...any) {
	m.found = append(m.found, Mistake{at, fmt.Sprintf(format, args...)})
}

// hint is the nearest of the valid names, to stand behind a mistake, as long as
// there are few: of many, it takes longer than all else.
func (m *mistakes) hint(name string, valid []string) string {
	if len(m.found) >= 5*maxMistakes {
		return ""
	}
	return form.DidYouMean(name, valid)
}

// err is the error of what was found, or nil. The same mistake, found for several
// Locations, is one; the files stand in the order in which they were read.
func (m *mistakes) err(dir string, files ...*source) error {
	if len(m.found) == 0 {
		return nil
	}
	order := func(file string) int {
		return slices.IndexFunc(files, func(s *source) bool { return s.Path == file })
	}
	slices.SortStableFunc(m.found, func(a, b Mistake) int {
		return cmp.Or(cmp.Compare(order(a.File), order(b.File)), cmp.Compare(a.Line, b.Line),
			cmp.Compare(a.Column, b.Column), cmp.Compare(a.Text, b.Text))
	})
	return &Error{Mistakes: slices.Compact(m.found), dir: dir}
}

// Doubts says of the rules what is no mistake and may not be meant, a line each: that
// one which restricts is for a directory, and nothing for what is in it, and that one is
// for a command line of several commands, which are judged one by one. It looks at the
// Location's root as it is now; what cannot be looked at is not doubted.
func (l *Location) Doubts() []string {
	var doubts []string
	for _, list := range l.Policy.Lists {
		base := cmp.Or(list.Base, l.Policy.Root)
		for _, rule := range list.Rules {
			if of := severalCommands(rule); of != "" {
				doubts = append(doubts, rule.Source+": "+of)
			}
			directory := rule.Resource.String()
			if !restrictsPath(rule) || strings.ContainsAny(directory, `*?\`) {
				continue
			}
			inside := strings.TrimPrefix(directory+"/", "./")
			if info, err := os.Stat(filepath.Join(base, directory)); err != nil || !info.IsDir() || restricts(list, rule, inside+"-") {
				continue
			}
			doubts = append(doubts, fmt.Sprintf("%s: %s is a directory, and the rule is for that alone: what is in it is %s",
				rule.Source, form.Quote(directory), form.Quote(inside+"*")))
		}
	}
	return doubts
}

// severalCommands says why a rule for shell is for no command, if it is for none: its
// resource, wildcards taken for words, is a line of several. A deny is matched with the line
// as it is written, too.
func severalCommands(rule permission.Rule) string {
	resource := rule.Resource.String()
	if rule.Action.String() != service.ActionShell || rule.Effect == permission.Deny {
		return ""
	}
	words := strings.NewReplacer(`\*`, "x", `\?`, "x", `\\`, "x", "*", "x", "?", "x").Replace(resource)
	read := command.Read(words)
	commands := 0
	for _, c := range read.Commands {
		if !c.Possible {
			commands++
		}
	}
	switch {
	case len(read.Commands) > 0 && (read.Commands[0].Plain == words || read.Commands[0].Raw == words), commands < 2 && len(read.Writes) == 0:
		return ""
	case commands < 2:
		return fmt.Sprintf("%s writes a file, and the rule is for no command: what is written is judged as edit, and the command without it", form.Quote(resource))
	}
	return fmt.Sprintf("%s is a line of several commands, and the rule is for none of them: each is judged by itself, so write a rule for each",
		form.Quote(resource))
}

// restrictsPath says whether a rule keeps from something that a path stands for.
func restrictsPath(rule permission.Rule) bool {
	return rule.Effect > permission.Allow &&
		(rule.Action.Match(service.ActionRead) || rule.Action.Match(service.ActionList) || rule.Action.Match(service.ActionEdit))
}

// restricts says whether some rule of the list does to a path what the given one does.
func restricts(list permission.List, rule permission.Rule, path string) bool {
	return slices.ContainsFunc(list.Rules, func(r permission.Rule) bool {
		return r.Effect >= rule.Effect && r.Action.Match(rule.Action.String()) && (r.Agent == "" || r.Agent == rule.Agent) && r.Resource.Match(path)
	})
}
