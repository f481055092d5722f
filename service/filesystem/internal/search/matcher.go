// Package search finds the lines of a text that match a pattern, and shows them.
//
// Most patterns contain a literal that every match has. It is looked for first,
// with the standard library's fast routines, and only lines that have it are
// given to the regular expression.
package search

import (
	"bytes"
	"errors"
	"fmt"
	"regexp"
	"regexp/syntax"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/toolhost/toolhost/internal/program"
	"github.com/toolhost/toolhost/service"
)

// A Matcher is a compiled pattern; it is safe for concurrent use.
type Matcher struct {
	re *regexp.Regexp
	// needle is what every matching line has; nil when nothing is known.
	needle needle
	// exact says that the needle is a match, so that re need not be asked.
	exact bool
	// sieve passes over lines that do not match; nil where there is none.
	sieve *sieve
	// across says that a match may span lines.
	across bool
	// beyond says that the pattern speaks of characters that Latin-1 has beyond ASCII.
	beyond bool
	// size is at least how many instructions re has. A rune costs no more steps.
	size int
}

// A needle is a literal to be found.
type needle interface {
	// in begins to look for it in a text; nil when it is of no use there.
	in(text []byte) finder
}

// A finder gives the first place of a needle that is not before from, or -1.
// From call to call, from never decreases.
type finder interface {
	next(from int) int
}

// Options say how a pattern is meant.
type Options struct {
	// Literal takes it as plain text.
	Literal bool
	// IgnoreCase ignores the case of letters.
	IgnoreCase bool
	// Across lets a match span lines; "^" and "$" hold at the beginning and end of each.
	Across bool
}

// Compile reads a pattern: a regular expression in RE2 syntax or plain text. The error
// is a [*service.FileError] of the kind FileBadQuery; it is one, too, when the
// repetitions of the pattern make more than 10,000 instructions of it.
func Compile(pattern string, o Options) (*Matcher, error) {
	switch {
	case pattern == "":
		return nil, bad("pattern is empty, and every line would match")
	case len(pattern) > service.MaxPattern:
		return nil, bad("pattern is over %d bytes", service.MaxPattern)
	}
	expression := pattern
	if o.Literal {
		expression = regexp.QuoteMeta(pattern)
	}
	flags, prefix := syntax.Perl, ""
	if o.IgnoreCase {
		flags, prefix = flags|syntax.FoldCase, "(?i)"
	}
	if o.Across {
		flags, prefix = flags&^syntax.OneLine, prefix+"(?m)"
	}
	tree, err := syntax.Parse(expression, flags)
	if err != nil {
		return nil, badExpression(pattern, err)
	}
	switch {
	case !o.Across && has(tree, hasLineBreak):
		return nil, bad("pattern has a line break, and a match lies within one line; ask for multiline, or search for a part of one line, with context")
	case o.Across && has(tree, func(re *syntax.Regexp) bool { return re.Op == syntax.OpBeginText }):
		return nil, bad(`pattern has \A, which multiline does not know; ^ is the beginning of a line`)
	}
	size := program.Size(tree)
	if size > program.MaxSize {
		return nil, bad("pattern is too large: it makes %d instructions, and at most %d are allowed; shorten its repetitions, such as {0,999}", size, program.MaxSize)
	}
	re, err := regexp.Compile(prefix + expression)
	if err != nil {
		return nil, badExpression(pattern, err)
	}
	return newMatcher(re, tree.Simplify(), size, o.Across), nil
}

func newMatcher(re *regexp.Regexp, tree *syntax.Regexp, size int, across bool) *Matcher {
	m := &Matcher{re: re, size: size, across: across}
	m.beyond = has(tree, hasBeyond) && !has(tree, hasReplacement)
	m.needle, m.exact = needleOf(tree)
	if !m.exact {
		m.sieve = newSieve(tree, across)
	}
	if n, ok := m.needle.(plain); ok && len(n) == 1 && m.sieve != nil {
		m.needle = nil // a single byte is in most lines, and the sieve is faster
	}
	return m
}

// has says whether a part of an expression is so.
func has(re *syntax.Regexp, is func(*syntax.Regexp) bool) bool {
	return is(re) || slices.ContainsFunc(re.Sub, func(sub *syntax.Regexp) bool { return has(sub, is) })
}

// hasLineBreak says whether a part asks for a line feed as such.
func hasLineBreak(re *syntax.Regexp) bool {
	return re.Op == syntax.OpLiteral && slices.Contains(re.Rune, '\n')
}

// hasBeyond says whether a part tells characters of Latin-1 beyond ASCII apart.
func hasBeyond(re *syntax.Regexp) bool {
	switch re.Op {
	case syntax.OpLiteral:
		return slices.Max(re.Rune) >= utf8.RuneSelf
	case syntax.OpCharClass:
		taken := 0
		for i := 0; i < len(re.Rune); i += 2 {
			taken += int(max(0, min(re.Rune[i+1], 0xff)-max(re.Rune[i], utf8.RuneSelf)+1))
		}
		return 0 < taken && taken < 0x80
	}
	return false
}

// hasReplacement says whether a part asks for U+FFFD, which stands for a byte that is
// no UTF-8.
func hasReplacement(re *syntax.Regexp) bool {
	return re.Op == syntax.OpLiteral && slices.Contains(re.Rune, utf8.RuneError)
}

func bad(format string, args ...any) error {
	return &service.FileError{Kind: service.FileBadQuery, Detail: fmt.Sprintf(format, args...)}
}

func badExpression(pattern string, err error) error {
	reason := err.Error()
	if e, ok := errors.AsType[*syntax.Error](err); ok {
		reason = fmt.Sprintf("%s in %q", e.Code, e.Expr)
	}
	return bad("pattern %q is no regular expression (RE2 syntax): %s; to find it as it stands, ask for it as literal text", pattern, reason)
}

// needleOf makes the needle of an expression, and says whether it is exact.
func needleOf(re *syntax.Regexp) (n needle, exact bool) {
	found := required(re)
	switch {
	case len(found.texts) == 0:
		return nil, false
	case found.folded:
		return newFolded(found.texts[0]), false
	case len(found.texts) > 1:
		return several(found.texts), false
	}
	text := found.texts[0]
	return plain(text), re.Op == syntax.OpLiteral && text == string(re.Rune) && !strings.ContainsRune(text, '\r')
}

// maxTexts is how many texts are looked for at once.
const maxTexts = 8

// texts are literals of which every match contains one.
type texts struct {
	texts  []string
	folded bool // case is ignored; of one text only
}

// score says how well a search goes with them: by the shortest of them.
func (t texts) score() int {
	if len(t.texts) == 0 {
		return 0
	}
	shortest := len(slices.MinFunc(t.texts, func(a, b string) int { return len(a) - len(b) }))
	return 2*shortest - min(1, len(t.texts)-1)
}

// required is what every match of the expression contains, as far as it is known.
func required(re *syntax.Regexp) texts {
	switch re.Op {
	case syntax.OpLiteral:
		folded := re.Flags&syntax.FoldCase != 0
		if run := usable(re.Rune, folded); run != "" {
			return texts{[]string{run}, folded}
		}
	case syntax.OpCapture, syntax.OpPlus:
		return required(re.Sub[0])
	case syntax.OpRepeat:
		if re.Min > 0 {
			return required(re.Sub[0])
		}
	case syntax.OpConcat:
		var best texts
		for _, sub := range re.Sub {
			if r := required(sub); r.score() > best.score() {
				best = r
			}
		}
		return best
	case syntax.OpAlternate:
		var all texts
		for _, sub := range re.Sub {
			r := required(sub)
			all.texts = append(all.texts, r.texts...)
			if len(r.texts) == 0 || r.folded || len(all.texts) > maxTexts || r.score() < 3 {
				return texts{}
			}
		}
		return all
	}
	return texts{}
}

// usable is the longest part of a literal whose bytes are what it matches. U+FFFD
// also matches a byte that is no UTF-8, and beyond ASCII ignoring case has rules that
// only the regular expression knows.
func usable(literal []rune, folded bool) string {
	best, start := "", 0
	for i := 0; i <= len(literal); i++ {
		if i < len(literal) && literal[i] != utf8.RuneError && (literal[i] < utf8.RuneSelf || !folded) {
			continue
		}
		if run := string(literal[start:i]); len(run) > len(best) {
			best = run
		}
		start = i + 1
	}
	return best
}

// A plain needle is found as it is.
type plain string

func (p plain) in(text []byte) finder { return plainFinder{text, []byte(p)} }

type plainFinder struct{ text, needle []byte }

func (f plainFinder) next(from int) int {
	i := bytes.Index(f.text[from:], f.needle)
	if i < 0 {
		return -1
	}
	return from + i
}

// Several needles are found by whichever comes first.
type several []string

func (s several) in(text []byte) finder {
	f := &severalFinder{text: text, needles: s, places: make([]int, len(s))}
	for i := range f.places {
		f.places[i] = -1
	}
	return f
}

type severalFinder struct {
	text    []byte
	needles []string
	places  []int // where each stands next; len(text) when nowhere
}

func (f *severalFinder) next(from int) int {
	first := len(f.text)
	for i, at := range f.places {
		if at < from {
			at = plainFinder{f.text, []byte(f.needles[i])}.next(from)
			if at < 0 {
				at = len(f.text)
			}
			f.places[i] = at
		}
		first = min(first, at)
	}
	if first == len(f.text) {
		return -1
	}
	return first
}
