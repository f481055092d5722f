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

// Compile reads a pattern: a regular expression in RE2 syntax or, when literal,
// plain text. A match lies within a line. The error is a [*service.FileError] of
// the kind FileBadQuery; it is one, too, when the repetitions of the pattern make
// more than 10,000 instructions of it.
func Compile(pattern string, literal, ignoreCase bool) (*Matcher, error) {
	switch {
	case pattern == "":
		return nil, bad("pattern is empty, and every line would match")
	case len(pattern) > service.MaxPattern:
		return nil, bad("pattern is over %d bytes", service.MaxPattern)
	case literal && strings.ContainsRune(pattern, '\n'):
		return nil, errLineBreak()
	}
	expression := pattern
	if literal {
		expression = regexp.QuoteMeta(pattern)
	}
	flags := syntax.Perl
	if ignoreCase {
		flags |= syntax.FoldCase
	}
	tree, err := syntax.Parse(expression, flags)
	if err != nil {
		return nil, badExpression(pattern, err)
	}
	if hasLineBreak(tree) {
		return nil, errLineBreak()
	}
	size := program.Size(tree)
	if size > program.MaxSize {
		return nil, bad("pattern is too large: it makes %d instructions, and at most %d are allowed; shorten its repetitions, such as {0,999}", size, program.MaxSize)
	}
	if ignoreCase {
		expression = "(?i)" + expression
	}
	re, err := regexp.Compile(expression)
	if err != nil {
		return nil, badExpression(pattern, err)
	}
	m := &Matcher{re: re, size: size}
	m.needle, m.exact = needleOf(tree.Simplify())
	return m, nil
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

func errLineBreak() error {
	return bad("pattern has a line break, and a match lies within one line; search for a part of one line, with context")
}

// hasLineBreak says whether the expression asks for a line feed as such.
func hasLineBreak(re *syntax.Regexp) bool {
	if re.Op == syntax.OpLiteral {
		return strings.ContainsRune(string(re.Rune), '\n')
	}
	return slices.ContainsFunc(re.Sub, hasLineBreak)
}

// needleOf makes the needle of an expression, and says whether it is exact.
func needleOf(re *syntax.Regexp) (n needle, exact bool) {
	literal := required(re)
	switch {
	case literal == nil:
		return nil, false
	case literal.Flags&syntax.FoldCase != 0:
		return newFolded(string(literal.Rune)), false
	default:
		text := string(literal.Rune)
		return plain(text), literal == re && !strings.ContainsRune(text, '\r')
	}
}

// required is the longest literal that every match of the expression contains,
// or nil.
func required(re *syntax.Regexp) *syntax.Regexp {
	switch re.Op {
	case syntax.OpLiteral:
		if !usable(re) {
			return nil
		}
		return re
	case syntax.OpCapture, syntax.OpPlus:
		return required(re.Sub[0])
	case syntax.OpRepeat:
		if re.Min > 0 {
			return required(re.Sub[0])
		}
	case syntax.OpConcat:
		var best *syntax.Regexp
		for _, sub := range re.Sub {
			if r := required(sub); r != nil && (best == nil || len(r.Rune) > len(best.Rune)) {
				best = r
			}
		}
		return best
	}
	return nil
}

// usable says whether the bytes of the literal are what it matches. U+FFFD also
// matches a byte that is no UTF-8, and beyond ASCII ignoring case has rules that
// only the regular expression knows.
func usable(literal *syntax.Regexp) bool {
	for _, r := range literal.Rune {
		if r == utf8.RuneError || r >= utf8.RuneSelf && literal.Flags&syntax.FoldCase != 0 {
			return false
		}
	}
	return true
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
