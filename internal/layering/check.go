package layering

import (
	"cmp"
	"fmt"
	"go/token"
	"io/fs"
	"slices"
)

// A rule names what a finding is about, so that an exception can be made from it.
type rule string

const (
	ruleHome       rule = "home"       // every package has its place in the table
	ruleOrder      rule = "order"      // imports follow the table
	ruleLibrary    rule = "library"    // a library with a home is imported there only
	ruleExposure   rule = "exposure"   // a promised API names and reaches only what it may
	ruleName       rule = "name"       // a package's name says what it holds
	ruleComment    rule = "comment"    // a package has a comment
	ruleLength     rule = "length"     // a file is at most maxLines long
	ruleGo         rule = "go"         // a goroutine is started by a scope
	ruleInit       rule = "init"       // there is no init function
	ruleVariable   rule = "variable"   // a package variable never changes
	ruleExceptions rule = "exceptions" // an exception is needed
)

// A finding is one break of one rule.
type finding struct {
	rule  rule
	where string // what an exception names: a package, a file, an edge, or a declaration
	at    string // file:line, or empty if the finding is about a whole package
	text  string // what is wrong and what to do about it
}

func (f finding) String() string {
	at := f.at
	if at == "" {
		at = f.where
	}
	return fmt.Sprintf("%s: %s (rule %q, where %q)", at, f.text, f.rule, f.where)
}

// check reads the Go files in fsys and returns what breaks the rules of h, sorted, exceptions taken off. The error is
// about files that cannot be read or parsed.
func check(fsys fs.FS, h house) ([]finding, error) {
	t, err := load(fsys)
	if err != nil {
		return nil, err
	}
	c := &checker{house: h, tree: t}
	c.places()
	c.edges()
	c.exposed()
	for _, p := range t.packages {
		c.nameOf(p)
		c.commentOf(p)
		c.lengths(p)
		c.declarations(p)
		c.variables(p)
	}
	found := c.excepted()
	slices.SortFunc(found, func(a, b finding) int {
		return cmp.Or(cmp.Compare(a.rule, b.rule), cmp.Compare(a.where, b.where), cmp.Compare(a.at, b.at), cmp.Compare(a.text, b.text))
	})
	return found, nil
}

// A checker collects findings about one tree.
type checker struct {
	house house
	tree  *tree
	found []finding
}

func (c *checker) report(r rule, where string, pos token.Pos, format string, args ...any) {
	f := finding{rule: r, where: where, text: fmt.Sprintf(format, args...)}
	if pos.IsValid() {
		f.at = c.tree.at(pos)
	}
	c.found = append(c.found, f)
}

// excepted takes the exceptions off what was found, and adds those that nothing needs.
func (c *checker) excepted() []finding {
	needed := make([]bool, len(c.house.exceptions))
	left := slices.DeleteFunc(slices.Clone(c.found), func(f finding) bool {
		i := slices.IndexFunc(c.house.exceptions, func(e exception) bool { return e.rule == f.rule && e.where == f.where })
		if i < 0 {
			return false
		}
		needed[i] = true
		return true
	})
	for i, e := range c.house.exceptions {
		switch {
		case e.why == "":
			left = append(left, finding{rule: ruleExceptions, where: e.where, text: fmt.Sprintf("the exception from rule %q gives no reason", e.rule)})
		case !needed[i]:
			left = append(left, finding{rule: ruleExceptions, where: e.where, text: fmt.Sprintf("nothing breaks rule %q here any more; remove the exception", e.rule)})
		}
	}
	return left
}
