package layering

import (
	"cmp"
	"errors"
	"go/ast"
	"go/token"
	"go/types"
	"path"
	"slices"
	"strings"
)

// variables reports package variables that change after the program started, in tests too: whoever sets one sets it for
// everybody. A variable counts as changing if it, or a part of it, is assigned to or has its address taken, or if it is of
// a type that is only there to change (of the packages sync and sync/atomic). A variable that a test declares is the
// test's own affair.
func (c *checker) variables(p *pkg) {
	declared, uses := c.resolve(p)
	for _, f := range p.files {
		if f.generated {
			continue
		}
		for _, v := range packageVariables(f) {
			if !f.test && stateful(f, v.spec) {
				c.report(ruleVariable, p.path+"."+v.name.Name, v.name.Pos(),
					"package variable %s holds state; give the state an owner", v.name.Name)
			}
		}
		ast.Inspect(f.ast, func(n ast.Node) bool {
			for _, target := range targets(n) {
				name := root(target)
				if name == nil {
					continue
				}
				if _, ok := declared[uses[name]]; ok {
					c.report(ruleVariable, p.path+"."+name.Name, name.Pos(),
						"package variable %s is changed here, or lent to be changed; give the state an owner", name.Name)
				}
			}
			return true
		})
	}
}

// resolve finds the package variables of p that its own files declare, tests and generated files apart, and what each
// identifier stands for. Nothing is imported: identifiers of the package itself are known without.
func (c *checker) resolve(p *pkg) (declared map[types.Object]bool, uses map[*ast.Ident]types.Object) {
	info := &types.Info{Defs: map[*ast.Ident]types.Object{}, Uses: map[*ast.Ident]types.Object{}}
	config := types.Config{
		Importer:    nothing{},
		FakeImportC: true,
		// What needs an import is not resolved, which is no error here; the compiler reports the real ones.
		Error: func(error) {},
	}
	var files []*ast.File
	for _, f := range p.files {
		if !strings.HasSuffix(f.ast.Name.Name, "_test") {
			files = append(files, f.ast)
		}
	}
	_, _ = config.Check(p.path, c.tree.fset, files, info)

	declared = map[types.Object]bool{}
	for _, f := range p.files {
		if f.test || f.generated {
			continue
		}
		for _, v := range packageVariables(f) {
			if object := info.Defs[v.name]; object != nil {
				declared[object] = true
			}
		}
	}
	return declared, info.Uses
}

// nothing is an importer that finds nothing.
type nothing struct{}

func (nothing) Import(string) (*types.Package, error) {
	return nil, errors.New("not imported")
}

// A variable is one name of a declaration of package variables.
type variable struct {
	name *ast.Ident
	spec *ast.ValueSpec
}

// packageVariables lists the package variables that f declares, the blank one apart.
func packageVariables(f *file) []variable {
	var found []variable
	for _, decl := range f.ast.Decls {
		d, ok := decl.(*ast.GenDecl)
		if !ok || d.Tok != token.VAR {
			continue
		}
		for _, spec := range d.Specs {
			s, ok := spec.(*ast.ValueSpec)
			if !ok {
				continue
			}
			for _, name := range s.Names {
				if name.Name != "_" {
					found = append(found, variable{name, s})
				}
			}
		}
	}
	return found
}

// stateful reports whether a declaration names a type of sync or sync/atomic, in its type or in the literal or the new that
// it starts as. Functions of sync, such as sync.OnceValue, compute a constant late and are none.
func stateful(f *file, spec *ast.ValueSpec) bool {
	var named []ast.Expr
	if spec.Type != nil {
		named = append(named, spec.Type)
	}
	for _, value := range spec.Values {
		if reference, ok := value.(*ast.UnaryExpr); ok {
			value = reference.X
		}
		switch v := value.(type) {
		case *ast.CompositeLit:
			named = append(named, v.Type)
		case *ast.CallExpr:
			if made, ok := v.Fun.(*ast.Ident); ok && made.Name == "new" {
				named = append(named, v.Args...)
			}
		}
	}
	changing := map[string]bool{}
	for _, i := range f.imports() {
		if i.path == "sync" || i.path == "sync/atomic" {
			changing[cmp.Or(i.name, path.Base(i.path))] = true
		}
	}
	return slices.ContainsFunc(named, func(t ast.Expr) bool {
		return slices.ContainsFunc(qualifiers(t), func(name string) bool { return changing[name] })
	})
}

// targets lists the expressions that a node changes, or lends to be changed.
func targets(n ast.Node) []ast.Expr {
	switch n := n.(type) {
	case *ast.AssignStmt:
		return n.Lhs
	case *ast.IncDecStmt:
		return []ast.Expr{n.X}
	case *ast.RangeStmt:
		if n.Tok == token.ASSIGN {
			return []ast.Expr{n.Key, n.Value}
		}
	case *ast.UnaryExpr:
		if n.Op == token.AND {
			return []ast.Expr{n.X}
		}
	case *ast.CallExpr:
		if f, ok := n.Fun.(*ast.Ident); ok && len(n.Args) > 0 && slices.Contains([]string{"clear", "copy", "delete"}, f.Name) {
			return n.Args[:1]
		}
	}
	return nil
}

// root returns the identifier that an expression selects, indexes or dereferences from, or nil.
func root(e ast.Expr) *ast.Ident {
	for {
		switch x := e.(type) {
		case *ast.Ident:
			return x
		case *ast.ParenExpr:
			e = x.X
		case *ast.SelectorExpr:
			e = x.X
		case *ast.IndexExpr:
			e = x.X
		case *ast.SliceExpr:
			e = x.X
		case *ast.StarExpr:
			e = x.X
		default:
			return nil
		}
	}
}
