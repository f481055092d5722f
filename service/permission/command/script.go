package command

import (
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// A script is one text that is being walked.
type script struct {
	*reader
	text     string
	language syntax.LangVariant
	depth    int
	sure     certainty
}

// visit collects what a node runs or writes; the nodes below it are visited by
// themselves.
func (s *script) visit(node syntax.Node) bool {
	switch n := node.(type) {
	case *syntax.CallExpr:
		s.call(n)
	case *syntax.DeclClause:
		s.declaration(n)
	case *syntax.LetClause:
		text := s.source(n)
		s.collect(Command{Raw: text, Plain: text, Possible: bool(s.sure)})
		s.arithmetic(n)
	case *syntax.TestClause, *syntax.ArithmCmd, *syntax.ArithmExp:
		s.arithmetic(n)
	case *syntax.ParamExp:
		if n.Index != nil {
			s.arithmetic(n.Index)
		}
		if n.Slice != nil && n.Slice.Offset != nil {
			s.arithmetic(n.Slice.Offset)
		}
	case *syntax.Assign:
		if n.Index != nil {
			s.arithmetic(n.Index)
		}
	case *syntax.WordIter:
		s.named(n.Name.Value)
	case *syntax.CoprocClause:
		if n.Name != nil {
			s.doubt("names its coprocess, which sets variables")
		}
	case *syntax.Redirect:
		s.redirect(n)
	case *syntax.ExtGlob:
		if strings.ContainsAny(n.Pattern.Value, "$`") {
			s.doubt("has an expansion in a pattern")
		}
	case *syntax.CmdSubst:
		if text := s.source(n); n.Backquotes && strings.IndexByte(text, '\\') >= 0 {
			s.doubt("has backslashes in backquotes")
			s.reader.text(backquoted(text), s.depth+1, s.sure)
		}
	}
	return true
}

// source is the text of a node.
func (s *script) source(node syntax.Node) string {
	return s.span(node.Pos(), node.End())
}

func (s *script) span(from, to syntax.Pos) string {
	if !from.IsValid() || !to.IsValid() {
		return ""
	}
	end := min(int(to.Offset()), len(s.text))
	return s.text[min(int(from.Offset()), end):end]
}

// backquoted is the command line in backquotes.
func backquoted(text string) string {
	text = strings.TrimSuffix(strings.TrimPrefix(text, "`"), "`")
	var b strings.Builder
	for i := 0; i < len(text); i++ {
		if text[i] == '\\' && i+1 < len(text) && strings.IndexByte("\\`$\"", text[i+1]) >= 0 {
			i++
		}
		b.WriteByte(text[i])
	}
	return b.String()
}

// arithmetic doubts text that is only text to the grammar, and is evaluated once
// more as arithmetic: substitutions in it are then run.
func (s *script) arithmetic(node syntax.Node) {
	for n := range syntax.Preorder(node) {
		hidden := false
		switch n := n.(type) {
		case *syntax.SglQuoted:
			hidden = substitutes(n.Value) || n.Dollar
		case *syntax.Lit:
			hidden = strings.Contains(n.Value, `\$`) || strings.IndexByte(n.Value, '`') >= 0
		}
		if hidden {
			s.doubt("has quoted text where arithmetic is evaluated")
			return
		}
	}
}

// substitutes reports whether evaluating the text would run a command.
func substitutes(text string) bool {
	return strings.Contains(text, "$(") || strings.IndexByte(text, '`') >= 0 || strings.Contains(text, "${")
}

// call collects a simple command and what stands in its arguments.
func (s *script) call(n *syntax.CallExpr) {
	front, doubt := s.assignments(n.Assigns)
	words := s.words(n.Args)
	if len(words) == 0 {
		if doubt != "" {
			s.collect(Command{Raw: front, Plain: front, Doubt: doubt, Possible: bool(s.sure)})
		}
		return
	}
	s.command(simple{words: words, front: front, doubt: doubt, depth: s.depth})
}

// declaration collects export, declare and the like, which are part of the
// grammar because assignments stand behind them.
func (s *script) declaration(n *syntax.DeclClause) {
	words := []word{{raw: n.Variant.Value, text: n.Variant.Value, bare: n.Variant.Value}}
	var doubt string
	for _, arg := range n.Args {
		if arg.Naked && arg.Value != nil {
			words = append(words, s.words([]*syntax.Word{arg.Value})...)
			continue
		}
		raw := s.source(arg)
		w := word{raw: raw, text: raw, bare: raw}
		if arg.Value != nil {
			value := s.word(arg.Value)
			at := strings.TrimSuffix(raw, value.raw)
			w.text, w.bare, w.doubt = at+value.text, at+value.bare, value.doubt
		}
		if !arg.Naked {
			doubt = firstOf(doubt, changes(arg.Name.Value))
		}
		words = append(words, w)
	}
	for _, w := range words[1:] {
		if name, _, is := strings.Cut(w.text, "="); is {
			doubt = firstOf(doubt, changes(name))
		}
	}
	s.command(simple{words: words, doubt: doubt, depth: s.depth})
}

// assignments are those in front of a command, as they were written, and what
// is doubtful about them.
func (s *script) assignments(all []*syntax.Assign) (text, doubt string) {
	var texts []string
	for _, a := range all {
		texts = append(texts, s.source(a))
		doubt = firstOf(doubt, changes(a.Name.Value))
		if a.Value != nil {
			doubt = firstOf(doubt, s.word(a.Value).doubt)
		}
	}
	return strings.Join(texts, " "), doubt
}

// named doubts a variable that the grammar sets.
func (s *script) named(variable string) {
	if why := changes(variable); why != "" {
		s.doubt(why)
	}
}

// changes is what is doubtful about setting the variable: any may decide what a
// program does, except those of which it is known.
func changes(variable string) string {
	switch variable {
	case "LANG", "LANGUAGE", "TZ", "TERM", "NO_COLOR", "CLICOLOR", "FORCE_COLOR", "COLUMNS", "LINES", "CI":
		return ""
	}
	if strings.HasPrefix(variable, "LC_") {
		return ""
	}
	return "sets " + variable + ", which may change what is run"
}

func firstOf(a, b string) string {
	if a != "" {
		return a
	}
	return b
}

// redirect collects what a redirection writes.
func (s *script) redirect(n *syntax.Redirect) {
	if n.N != nil && strings.HasPrefix(n.N.Value, "{") {
		s.named(strings.Trim(n.N.Value, "{}"))
	}
	switch n.Op {
	case syntax.Hdoc, syntax.DashHdoc:
		if n.Hdoc != nil {
			text := s.source(n.Hdoc)
			if !quoted(n.Word) {
				text = s.expanded(n.Hdoc)
			}
			if n.Op == syntax.DashHdoc {
				text = strings.ReplaceAll("\n"+text, "\n\t", "\n")
			}
			s.document(text)
		}
		return
	case syntax.WordHdoc:
		s.document(s.word(n.Word).text)
		return
	}
	targets := s.words([]*syntax.Word{n.Word})
	if len(targets) != 1 {
		s.writes(Write{Path: s.source(n.Word), Doubt: "writes to a file that is only known when it runs"})
		return
	}
	target := targets[0]
	for _, network := range []string{"/dev/tcp/", "/dev/udp/"} {
		if strings.HasPrefix(target.text, network) {
			s.doubt("opens a connection to " + target.text)
		}
	}
	switch n.Op {
	case syntax.RdrIn:
		return
	case syntax.DplIn, syntax.DplOut:
		if descriptor(target.text) {
			return
		}
	}
	if target.doubt == "" && harmless(target.text) {
		return
	}
	w := Write{Path: target.text, Doubt: target.doubt}
	if w.Doubt == "" && (target.pattern || target.home || target.text == "") {
		w.Doubt = "writes to a file that is only known when it runs"
	}
	s.writes(w)
}

// document notes a here-document or a here-string.
func (r *reader) document(text string) {
	if !slices.Contains(r.documents, text) {
		r.documents = append(r.documents, text)
	}
}

// quoted reports whether any of the word is quoted, so that the here-document
// that it delimits is not expanded.
func quoted(w *syntax.Word) bool {
	return slices.ContainsFunc(w.Parts, func(p syntax.WordPart) bool {
		lit, is := p.(*syntax.Lit)
		return !is || strings.IndexByte(lit.Value, '\\') >= 0
	})
}

// descriptor reports whether the target of a duplication is one: digits, with a
// dash at the end when it is moved or closed.
func descriptor(target string) bool {
	return target != "" && strings.Trim(strings.TrimSuffix(target, "-"), "0123456789") == ""
}

// harmless are the files that keep nothing.
func harmless(path string) bool {
	switch path {
	case "/dev/null", "/dev/stdout", "/dev/stderr":
		return true
	default:
		return false
	}
}

func (r *reader) writes(w Write) {
	if !r.full() && !slices.Contains(r.out.Writes, w) {
		r.out.Writes = append(r.out.Writes, w)
	}
}
