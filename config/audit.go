package config

import (
	"fmt"
	"regexp"
	"regexp/syntax"

	"github.com/toolhost/toolhost/config/internal/document"
	"github.com/toolhost/toolhost/config/internal/form"
	"github.com/toolhost/toolhost/internal/program"
)

// Audit is what the user says of the audit log.
type Audit struct {
	// Redact are patterns of secrets, beside those that the log looks for in any case:
	// of what one matches its groups are left out of the log, or if it has none, all of
	// it.
	Redact []*regexp.Regexp
}

// maxRedact is how many patterns of secrets there may be: each is tried on every entry.
const maxRedact = 64

func auditForm() form.Form {
	return form.Form{Kind: form.Object, About: "The audit log. It is the user's: a project's file cannot speak of it.", Keys: []form.Key{
		{Name: keyRedact, Form: form.Form{
			Kind: form.List, Most: maxRedact,
			About: "Regular expressions (RE2) of secrets that are left out of the log, beside those that it looks for in any case: their groups, or without any, all that they match.",
			Each:  &form.Form{Kind: form.Text, Pattern: `.`, Verify: checkRedact},
		}},
	}}
}

func checkRedact(text string) error {
	if len(text) > maxPath {
		return fmt.Errorf("the regular expression has over %d bytes", maxPath)
	}
	tree, err := syntax.Parse(text, syntax.Perl)
	if err != nil {
		return fmt.Errorf("it is no regular expression in the syntax RE2")
	}
	if program.Size(tree) > program.MaxSize {
		return fmt.Errorf("the regular expression is too large: shorten its repetitions, such as {0,999}")
	}
	if regexp.MustCompile(text).MatchString("") {
		return fmt.Errorf("the regular expression matches nothing at all, and so stands everywhere: say more of what is secret")
	}
	return nil
}

// audit puts together what the files say of the audit log: the patterns of all that
// may. A project's may not, since nobody could read in the log what it left out.
func (l *loader) audit() Audit {
	var a Audit
	size := 0
	for _, s := range l.sources() {
		n := value(s.root, keyAudit)
		if n == nil {
			continue
		}
		if s.Role == ProjectFile {
			l.found.add(s.at(keyOf(s.root, keyAudit)), "audit is not for a project to say: it stands in your own file, or in one that is named with -c")
			continue
		}
		patterns := leaf{value(n, keyRedact), s}
		for i, text := range patterns.texts() {
			pattern, err := syntax.Parse(text, syntax.Perl)
			if err != nil {
				continue // which is a mistake already
			}
			if size += program.Size(pattern); size > program.MaxSize {
				l.found.add(s.at(patterns.Items[i].At), "the regular expressions are too large together: shorten their repetitions, or leave some out")
				break
			}
			a.Redact = append(a.Redact, regexp.MustCompile(text)) // checked with the form
		}
	}
	return a
}

// keyOf is where a key of the mapping stands.
func keyOf(n *document.Node, key string) document.Position {
	for _, e := range n.Entries {
		if e.Key == key {
			return e.At
		}
	}
	return n.At
}
