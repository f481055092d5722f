package glob

import (
	"fmt"
	"slices"
	"strings"

	"github.com/toolhost/toolhost/service"
)

// A fileType is a name for files of one kind.
type fileType struct {
	names    string // separated by spaces; the first is the one that is listed
	patterns string // of base names: "*.x", or a whole name
}

// fileTypes are the types that are known, by name.
func fileTypes() []fileType {
	return []fileType{
		{"asm", "*.asm *.s *.S"},
		{"bazel", "BUILD WORKSPACE MODULE.bazel *.bazel *.bzl"},
		{"c", "*.c *.h"},
		{"clojure clj", "*.clj *.cljc *.cljs *.edn"},
		{"cmake", "CMakeLists.txt *.cmake"},
		{"config conf", "*.conf *.cfg *.ini *.properties *.env"},
		{"cpp c++ cc", "*.cc *.cpp *.cxx *.c++ *.h *.hh *.hpp *.hxx *.inl *.ipp"},
		{"csharp cs", "*.cs *.csx"},
		{"css", "*.css *.scss *.sass *.less"},
		{"csv", "*.csv *.tsv"},
		{"cuda", "*.cu *.cuh"},
		{"dart", "*.dart"},
		{"docker dockerfile", "Dockerfile Containerfile *.dockerfile"},
		{"elixir ex", "*.ex *.exs *.eex *.heex"},
		{"erlang erl", "*.erl *.hrl"},
		{"fsharp", "*.fs *.fsi *.fsx"},
		{"go golang", "*.go"},
		{"gomod", "go.mod go.sum go.work go.work.sum"},
		{"graphql", "*.graphql *.gql"},
		{"groovy gradle", "*.groovy *.gradle"},
		{"haskell hs", "*.hs *.lhs *.cabal"},
		{"html", "*.html *.htm *.xhtml"},
		{"java", "*.java *.jsp"},
		{"js javascript", "*.js *.jsx *.mjs *.cjs"},
		{"json", "*.json *.jsonl *.json5 *.jsonc"},
		{"julia jl", "*.jl"},
		{"kotlin kt", "*.kt *.kts"},
		{"lisp", "*.lisp *.lsp *.cl *.el *.scm *.rkt"},
		{"log", "*.log"},
		{"lua", "*.lua"},
		{"make", "Makefile makefile GNUmakefile *.mk *.mak"},
		{"markdown md", "*.md *.mdx *.markdown"},
		{"matlab", "*.m"},
		{"nix", "*.nix"},
		{"notebook jupyter", "*.ipynb"},
		{"objc", "*.m *.mm *.h"},
		{"ocaml ml", "*.ml *.mli *.mll *.mly"},
		{"perl", "*.pl *.pm *.t"},
		{"php", "*.php *.phtml"},
		{"powershell ps1", "*.ps1 *.psm1 *.psd1"},
		{"protobuf proto", "*.proto"},
		{"python py", "*.py *.pyi *.pyx"},
		{"r", "*.r *.R *.Rmd"},
		{"ruby rb", "*.rb *.rake *.gemspec Gemfile Rakefile"},
		{"rust rs", "*.rs"},
		{"scala", "*.scala *.sc *.sbt"},
		{"shell sh bash", "*.sh *.bash *.zsh *.ksh *.fish"},
		{"sql", "*.sql"},
		{"svelte", "*.svelte"},
		{"swift", "*.swift"},
		{"terraform tf", "*.tf *.tfvars *.hcl"},
		{"tex latex", "*.tex *.bib *.sty *.cls"},
		{"toml", "*.toml"},
		{"ts typescript", "*.ts *.tsx *.mts *.cts"},
		{"txt text", "*.txt *.rst *.adoc *.org"},
		{"vim", "*.vim"},
		{"vue", "*.vue"},
		{"xml", "*.xml *.xsd *.xsl *.xslt *.svg"},
		{"yaml yml", "*.yaml *.yml"},
		{"zig", "*.zig"},
	}
}

// A Type is a type of files; it is safe for concurrent use.
type Type struct {
	ends  []string // with the dot
	names []string
}

// TypeOf gives the type of a name. The error is a [*service.FileError] of the kind
// FileBadQuery, which says what is near and lists what is known.
func TypeOf(name string) (*Type, error) {
	for _, t := range fileTypes() {
		if !slices.Contains(strings.Fields(t.names), name) {
			continue
		}
		var known Type
		for pattern := range strings.FieldsSeq(t.patterns) {
			if end, ok := strings.CutPrefix(pattern, "*"); ok {
				known.ends = append(known.ends, end)
			} else {
				known.names = append(known.names, pattern)
			}
		}
		return &known, nil
	}
	return nil, &service.FileError{Kind: service.FileBadQuery, Detail: unknownType(name)}
}

func unknownType(name string) string {
	var near, known []string
	for _, t := range fileTypes() {
		names := strings.Fields(t.names)
		known = append(known, names[0])
		if slices.ContainsFunc(names, func(n string) bool { return isNear(n, strings.ToLower(name)) }) ||
			slices.Contains(strings.Fields(t.patterns), "*."+strings.TrimLeft(strings.ToLower(name), "*.")) {
			near = append(near, names[0])
		}
	}
	const shown = 40
	if len(name) > shown {
		name = name[:shown] + "…"
	}
	detail, end := fmt.Sprintf("type %q is not known", name), "."
	if len(near) > 0 && len(near) <= 5 {
		end = "; did you mean " + strings.Join(near, " or ") + "?"
	}
	return detail + end + " Known are " + strings.Join(known, ", ") + "; for others, give a glob to include, such as *.x"
}

// isNear says whether two names begin alike, or differ in one letter.
func isNear(known, asked string) bool {
	if asked == "" {
		return false
	}
	if len(asked) > 1 && (strings.HasPrefix(known, asked) || strings.HasPrefix(asked, known) && len(known) > 1) {
		return true
	}
	short, long := known, asked
	if len(short) > len(long) {
		short, long = long, short
	}
	i := 0
	for i < len(short) && short[i] == long[i] {
		i++
	}
	switch {
	case len(short) < 3, len(long)-len(short) > 1:
		return false
	case len(short) == len(long):
		return short[min(i+1, len(short)):] == long[min(i+1, len(long)):] ||
			i+1 < len(short) && short[i] == long[i+1] && short[i+1] == long[i] && short[i+2:] == long[i+2:]
	}
	return short[i:] == long[i+1:]
}

// Match says whether a file of this path is of the type.
func (t *Type) Match(path string) bool {
	name := path[strings.LastIndexByte(path, '/')+1:]
	for _, end := range t.ends {
		if strings.HasSuffix(name, end) {
			return true
		}
	}
	return slices.Contains(t.names, name)
}

// A Choice is the files that match a pattern, and are of a type where there is one.
type Choice struct {
	*Pattern
	Type *Type
}

// Match says whether the path of a file matches both.
func (c Choice) Match(path string) bool {
	return (c.Type == nil || c.Type.Match(path)) && c.Pattern.Match(path)
}
