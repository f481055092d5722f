// Package glob is what the patterns of glob and of grep's include mean: matching
// itself is doublestar's; what is particular to searching for files is here.
// The table is in the documentation of service/filesystem.
package glob

import (
	"fmt"
	"strings"

	"github.com/bmatcuk/doublestar/v4"

	"github.com/toolhost/toolhost/service"
)

// maxAlternatives is how many patterns the braces of one may stand for. Matching
// tries them all.
const maxAlternatives = 256

// A Pattern is a compiled pattern. A nil Pattern matches every file. It is safe
// for concurrent use.
type Pattern struct {
	pattern string
	name    bool     // matches the last element at any depth
	parts   []string // between slashes
	// fixed parts come first, and each matches exactly one element of a path.
	fixed []string
	// deep says that what follows the fixed parts may match any number of elements.
	deep bool
}

// Compile checks a pattern. The error is a [*service.FileError] of the kind
// FileBadQuery.
func Compile(pattern string) (*Pattern, error) {
	if err := check(pattern); err != nil {
		return nil, err
	}
	pattern = strings.TrimPrefix(pattern, "./")
	p := &Pattern{
		pattern: onlyBelow(pattern),
		name:    !strings.Contains(pattern, "/"),
		parts:   strings.Split(pattern, "/"),
	}
	for i, part := range p.parts {
		if part == "**" || strings.ContainsAny(part, "{}") {
			p.deep = true // an alternative may hold slashes
			break
		}
		p.fixed = p.parts[:i+1]
	}
	return p, nil
}

func check(pattern string) error {
	trimmed := strings.TrimPrefix(pattern, "./")
	switch {
	case trimmed == "":
		return bad(pattern, "is empty; **/* stands for every file")
	case len(pattern) > service.MaxPattern:
		return bad(pattern[:40]+"…", fmt.Sprintf("is over %d bytes", service.MaxPattern))
	case strings.HasPrefix(trimmed, "/"):
		return bad(pattern, "begins with a slash; patterns are relative to the directory that is searched, which is given apart")
	case strings.HasSuffix(trimmed, "/"):
		return bad(pattern, "ends in a slash, and only files are found; end it in /** for what is in a directory")
	case hasPart(trimmed, ".."), hasPart(trimmed, "."), hasPart(trimmed, ""):
		return bad(pattern, `has a part that is empty, "." or ".."; no path has one`)
	case !doublestar.ValidatePattern(trimmed):
		return bad(pattern, "has a bracket or brace that is not closed, or not opened, or a backslash at its end")
	case alternatives(trimmed) > maxAlternatives:
		return bad(pattern, fmt.Sprintf("has braces for more than %d patterns", maxAlternatives))
	}
	return nil
}

func bad(pattern, detail string) error {
	return &service.FileError{Kind: service.FileBadQuery, Detail: fmt.Sprintf("pattern %q %s", pattern, detail)}
}

func hasPart(pattern, part string) bool {
	return strings.Contains("/"+pattern+"/", "/"+part+"/")
}

// alternatives is how many patterns the braces stand for, as far as it matters.
func alternatives(pattern string) int {
	const enough = 1 << 20
	type group struct{ before, current int } // the alternatives that are done, and the one that is not
	open := []group{{current: 1}}
	eachByte(pattern, func(_, depth int, c byte) {
		inner := &open[len(open)-1]
		switch {
		case c == '{':
			open = append(open, group{current: 1})
		case c == ',' && depth > 0:
			inner.before += inner.current
			inner.current = 1
		case c == '}':
			n := inner.before + inner.current
			open = open[:len(open)-1]
			outer := &open[len(open)-1]
			outer.current = min(outer.current*n, enough)
		}
	})
	return open[0].current
}

// onlyBelow makes each trailing "/**" match what is below a directory and not the
// directory's own name, since a file of that name is not below it.
func onlyBelow(pattern string) string {
	var out strings.Builder
	done := 0
	eachByte(pattern+",", func(i, depth int, c byte) {
		ends := i == len(pattern) || depth > 0 && (c == ',' || c == '}')
		if ends && strings.HasSuffix(pattern[done:i], "/**") {
			out.WriteString(pattern[done:i] + "/*")
			done = i
		}
	})
	return out.String() + pattern[done:]
}

// eachByte visits the bytes that are neither escaped nor in brackets; depth is
// how many braces are open before the byte.
func eachByte(pattern string, visit func(i, depth int, c byte)) {
	depth, class := 0, false
	for i := 0; i < len(pattern); i++ {
		c := pattern[i]
		switch {
		case c == '\\':
			i++
			continue
		case class:
			class = c != ']'
			continue
		}
		class = c == '['
		visit(i, depth, c)
		switch c {
		case '{':
			depth++
		case '}':
			depth--
		}
	}
}

// Match says whether the path of a file, relative to where the search begins,
// matches.
func (p *Pattern) Match(path string) bool {
	if p == nil {
		return true
	}
	if p.name {
		path = path[strings.LastIndexByte(path, '/')+1:]
	}
	return doublestar.MatchUnvalidated(p.pattern, path)
}

// Enter says whether a file below the directory may match; dir is relative and
// has no slash at its end.
func (p *Pattern) Enter(dir string) bool {
	if p == nil || p.name {
		return true
	}
	rest, more := dir, true
	for _, part := range p.fixed {
		if !more {
			return true
		}
		var name string
		name, rest, more = strings.Cut(rest, "/")
		if !doublestar.MatchUnvalidated(part, name) {
			return false
		}
	}
	// The fixed parts are used up: the last of them would have to be the file.
	return p.deep
}

// Names says whether the pattern speaks of the name of a hidden file, or
// directory on the way to one, itself: as in a shell, a part of it begins with a
// dot and no wildcard stands for the dot.
func (p *Pattern) Names(name string, directory bool) bool {
	if p == nil {
		return false
	}
	parts := p.parts[len(p.parts)-1:]
	if directory {
		parts = p.parts[:len(p.parts)-1]
	}
	for _, part := range parts {
		// Of a brace that holds slashes a part may be half a pattern, which is an error.
		named, err := doublestar.Match(part, name)
		if err != nil || !named {
			continue
		}
		if wild := doublestar.MatchUnvalidated(part, "\x00"+name[1:]); !wild {
			return true
		}
	}
	return false
}
