package layering

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"
)

// A tree is the source of the repository, by package.
type tree struct {
	fset     *token.FileSet
	packages []*pkg // sorted by path
}

// A pkg is the Go files of one folder, tests included.
type pkg struct {
	path  string // from the root of the repository, with slashes
	files []*file
}

// A file is one Go file.
type file struct {
	path      string // from the root of the repository, with slashes
	lines     int
	test      bool
	generated bool
	ast       *ast.File
}

// An importSpec is one import of a file.
type importSpec struct {
	path string // relative to this module if own, else the whole import path
	own  bool   // of this module
	name string // given in the file, or empty
	pos  token.Pos
}

// load parses every Go file in fsys, whatever system or tag it is built for. Like the go command it skips testdata,
// vendor, and folders whose names begin with a dot or an underscore; of other modules it reads the examples only.
func load(fsys fs.FS) (*tree, error) {
	t := &tree{fset: token.NewFileSet()}
	byPath := map[string]*pkg{}
	err := fs.WalkDir(fsys, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() {
			if name != "." && skipped(fsys, name) {
				return fs.SkipDir
			}
			return nil
		}
		if path.Ext(name) != ".go" || !entry.Type().IsRegular() {
			return nil
		}
		f, err := t.parse(fsys, name)
		if err != nil {
			return err
		}
		dir := path.Dir(name)
		if byPath[dir] == nil {
			byPath[dir] = &pkg{path: dir}
			t.packages = append(t.packages, byPath[dir])
		}
		byPath[dir].files = append(byPath[dir].files, f)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read the source: %w", err)
	}
	slices.SortFunc(t.packages, func(a, b *pkg) int { return strings.Compare(a.path, b.path) })
	return t, nil
}

// skipped reports whether the folder name holds no package of the house.
func skipped(fsys fs.FS, name string) bool {
	base := path.Base(name)
	if base == "testdata" || base == "vendor" || strings.HasPrefix(base, ".") || strings.HasPrefix(base, "_") {
		return true
	}
	if strings.HasPrefix(name, "examples/") {
		return false
	}
	_, err := fs.Stat(fsys, path.Join(name, "go.mod"))
	return err == nil
}

func (t *tree) parse(fsys fs.FS, name string) (*file, error) {
	src, err := fs.ReadFile(fsys, name)
	if err != nil {
		return nil, err
	}
	parsed, err := parser.ParseFile(t.fset, name, src, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	return &file{
		path:      name,
		lines:     bytes.Count(src, []byte("\n")),
		test:      strings.HasSuffix(name, "_test.go"),
		generated: ast.IsGenerated(parsed),
		ast:       parsed,
	}, nil
}

// find returns the package at path, or nil.
func (t *tree) find(path string) *pkg {
	i, ok := slices.BinarySearchFunc(t.packages, path, func(p *pkg, path string) int { return strings.Compare(p.path, path) })
	if !ok {
		return nil
	}
	return t.packages[i]
}

// at says where pos is, as file:line.
func (t *tree) at(pos token.Pos) string {
	p := t.fset.Position(pos)
	return fmt.Sprintf("%s:%d", p.Filename, p.Line)
}

// name is what the package calls itself, external tests apart.
func (p *pkg) name() string {
	return strings.TrimSuffix(p.files[0].ast.Name.Name, "_test")
}

// imports returns what f imports.
func (f *file) imports() []importSpec {
	var specs []importSpec
	for _, s := range f.ast.Imports {
		spec := importSpec{pos: s.Pos()}
		// The parser has accepted the literal.
		spec.path, _ = strconv.Unquote(s.Path.Value)
		if below, ok := strings.CutPrefix(spec.path, module+"/"); ok {
			spec.path, spec.own = below, true
		}
		if s.Name != nil {
			spec.name = s.Name.Name
		}
		specs = append(specs, spec)
	}
	return specs
}

// within reports whether a path is base or lies below it.
func within(path, base string) bool {
	return path == base || strings.HasPrefix(path, base+"/")
}

// standard reports whether an import path is of the standard library: its first element has no dot.
func standard(importPath string) bool {
	first, _, _ := strings.Cut(importPath, "/")
	return !strings.Contains(first, ".")
}
