package layering

import (
	"go/ast"
	"go/token"
	"path"
	"slices"
)

// emptyNames are names that say nothing of what a package holds, so that everything ends up in it.
func emptyNames() []string {
	return []string{"base", "common", "helper", "helpers", "misc", "shared", "types", "util", "utils"}
}

// nameOf reports a package whose folder or name says nothing.
func (c *checker) nameOf(p *pkg) {
	for _, name := range []string{path.Base(p.path), p.name()} {
		if slices.Contains(emptyNames(), name) {
			c.report(ruleName, p.path, token.NoPos, "a package named %s says nothing of what it holds; name it after that", name)
			return
		}
	}
}

// commentOf reports a package without a package comment.
func (c *checker) commentOf(p *pkg) {
	for _, f := range p.files {
		if f.ast.Doc != nil {
			return
		}
	}
	c.report(ruleComment, p.path, token.NoPos, "the package has no comment; say in doc.go what it owns")
}

// lengths reports files that are too long to be one thing.
func (c *checker) lengths(p *pkg) {
	for _, f := range p.files {
		if !f.test && !f.generated && f.lines > maxLines {
			c.report(ruleLength, f.path, token.NoPos, "%d lines, at most %d: divide it by what its parts are about", f.lines, maxLines)
		}
	}
}

// declarations reports init functions, and goroutines that no scope owns. Tests start what they like.
func (c *checker) declarations(p *pkg) {
	at, housed := c.house.placeOf(p.path)
	inScope := housed && at.owner == "scope"
	for _, f := range p.files {
		if f.test || f.generated {
			continue
		}
		for _, decl := range f.ast.Decls {
			where := p.path
			if d, ok := decl.(*ast.FuncDecl); ok {
				where = p.path + "." + funcName(d)
				if d.Recv == nil && d.Name.Name == "init" {
					c.report(ruleInit, where, d.Pos(), "an init function runs whether it is wanted or not; let the caller call it")
				}
			}
			if !inScope {
				c.goroutines(where, decl)
			}
		}
	}
}

func (c *checker) goroutines(where string, decl ast.Decl) {
	ast.Inspect(decl, func(n ast.Node) bool {
		if statement, ok := n.(*ast.GoStmt); ok {
			c.report(ruleGo, where, statement.Pos(),
				"a naked goroutine has no owner; use scope.Go, or make an exception in internal/layering/house.go that says who waits for it")
		}
		return true
	})
}
