package layering

import (
	"go/ast"
	"go/token"
	"path"
	"regexp"
	"slices"
	"strings"
)

// exposed reports promised packages whose exported declarations name what they must not, or that reach what they must not.
func (c *checker) exposed() {
	for _, e := range c.house.exposures {
		p := c.tree.find(e.pkg)
		if p == nil {
			continue
		}
		c.reaches(p, e)
		for _, f := range p.files {
			if f.test || f.generated {
				continue
			}
			names := c.hiddenNames(f, e.hidden)
			for _, decl := range f.ast.Decls {
				c.promises(p, e, decl, names)
			}
		}
	}
}

// reaches reports the packages that p must not import, directly or through others, with the way to each.
func (c *checker) reaches(p *pkg, e exposure) {
	via := map[string]string{p.path: p.path}
	for queue := []*pkg{p}; len(queue) > 0; queue = queue[1:] {
		at := queue[0]
		for _, f := range at.files {
			if f.test {
				continue
			}
			for _, spec := range f.imports() {
				if _, seen := via[spec.path]; !spec.own || seen {
					continue
				}
				via[spec.path] = via[at.path] + " -> " + spec.path
				if slices.ContainsFunc(e.unreachable, func(base string) bool { return within(spec.path, base) }) {
					c.report(ruleExposure, p.path+" -> "+spec.path, spec.pos, "%s: %s", via[spec.path], e.why)
				}
				if next := c.tree.find(spec.path); next != nil {
					queue = append(queue, next)
				}
			}
		}
	}
}

// hiddenNames maps the name of each import of f that is hidden to what it stands for.
func (c *checker) hiddenNames(f *file, hidden []string) map[string]string {
	names := map[string]string{}
	for _, spec := range f.imports() {
		if !slices.ContainsFunc(hidden, func(base string) bool { return within(spec.path, base) }) {
			continue
		}
		name := spec.name
		if name == "" {
			name = c.guessName(spec)
		}
		names[name] = spec.path
	}
	return names
}

// guessName says what an import without a name of its own is called: as the package calls itself, if it was read, or by
// the habits of module paths (go-plugin is plugin, v2 is what stands before it).
func (c *checker) guessName(spec importSpec) string {
	if spec.own {
		if p := c.tree.find(spec.path); p != nil {
			return p.name()
		}
	}
	base := path.Base(spec.path)
	if majorVersion.MatchString(base) {
		base = path.Base(path.Dir(spec.path))
	}
	return strings.TrimPrefix(base, "go-")
}

var majorVersion = regexp.MustCompile(`^v[0-9]+$`)

// promises reports where an exported declaration names something hidden. Unexported types and fields, and bodies, promise
// nothing.
func (c *checker) promises(p *pkg, e exposure, decl ast.Decl, names map[string]string) {
	look := func(declared string, pos token.Pos, node ast.Node) {
		for _, used := range qualifiers(node) {
			if hidden, ok := names[used]; ok {
				c.report(ruleExposure, p.path+"."+declared, pos, "exported %s names %s: %s", declared, hidden, e.why)
			}
		}
	}
	switch d := decl.(type) {
	case *ast.FuncDecl:
		receiver := receiverName(d)
		if d.Name.IsExported() && (receiver == "" || ast.IsExported(receiver)) {
			look(funcName(d), d.Pos(), d.Type)
		}
	case *ast.GenDecl:
		for _, spec := range d.Specs {
			switch s := spec.(type) {
			case *ast.TypeSpec:
				if s.Name.IsExported() {
					for _, part := range promisedParts(s) {
						look(s.Name.Name, s.Pos(), part)
					}
				}
			case *ast.ValueSpec:
				for _, name := range s.Names {
					if name.IsExported() {
						look(name.Name, s.Pos(), s)
					}
				}
			}
		}
	}
}

// promisedParts returns what of a type's declaration other packages see: all but unexported fields.
func promisedParts(s *ast.TypeSpec) []ast.Node {
	structure, ok := s.Type.(*ast.StructType)
	if !ok {
		return []ast.Node{s}
	}
	var parts []ast.Node
	if s.TypeParams != nil {
		parts = append(parts, s.TypeParams)
	}
	for _, field := range structure.Fields.List {
		if len(field.Names) == 0 || slices.ContainsFunc(field.Names, (*ast.Ident).IsExported) {
			parts = append(parts, field.Type)
		}
	}
	return parts
}

// qualifiers lists the names before the dots in node, each once. Function literals are bodies and are left out.
func qualifiers(node ast.Node) []string {
	var names []string
	ast.Inspect(node, func(n ast.Node) bool {
		if literal, ok := n.(*ast.FuncLit); ok {
			names = append(names, qualifiers(literal.Type)...)
			return false
		}
		if s, ok := n.(*ast.SelectorExpr); ok {
			if x, ok := s.X.(*ast.Ident); ok && !slices.Contains(names, x.Name) {
				names = append(names, x.Name)
			}
		}
		return true
	})
	return names
}

// receiverName returns the name of the type a method belongs to, or nothing for a function.
func receiverName(d *ast.FuncDecl) string {
	if d.Recv == nil || len(d.Recv.List) == 0 {
		return ""
	}
	t := d.Recv.List[0].Type
	for {
		switch x := t.(type) {
		case *ast.StarExpr:
			t = x.X
		case *ast.IndexExpr:
			t = x.X
		case *ast.IndexListExpr:
			t = x.X
		case *ast.ParenExpr:
			t = x.X
		case *ast.Ident:
			return x.Name
		default:
			return ""
		}
	}
}

// funcName returns F for a function and T.F for a method.
func funcName(d *ast.FuncDecl) string {
	if receiver := receiverName(d); receiver != "" {
		return receiver + "." + d.Name.Name
	}
	return d.Name.Name
}
