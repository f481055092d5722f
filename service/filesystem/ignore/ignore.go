// Package ignore decides which names the ignore files of a tree leave out, as
// git does for .gitignore and .git/info/exclude and as ripgrep does for .ignore.
//
// A [File] is one parsed file. A [Level] is a directory together with those
// above it, nearest first. Git's own reading of a file is followed to the byte,
// its oddities too, since a user compares with git; the tests ask git itself.
//
// Nothing here touches the filesystem, and every value may be used by several
// goroutines at once.
package ignore

import (
	"bytes"
	"strings"
)

// A Verdict is what ignore rules say of a name.
type Verdict uint8

const (
	// None says that no rule matches.
	None Verdict = iota
	// Ignored says that the name is left out.
	Ignored
	// Included says that a rule with "!" takes the name in.
	Included
)

// A File is the rules of one ignore file. A nil File has none.
type File struct {
	rules []rule
	// names finds the rules without wildcards that stand for a base name.
	names map[string]nameRules
	// wild is how many bytes of patterns are matched one by one.
	wild int
}

// TooLarge is a file that is too large to be used in any place; see
// [Level.Unused].
func TooLarge() *File { return &File{wild: MaxWildcardBytes + 1} }

// nameRules are the positions of the last rules for a base name, counted from
// 1, so that 0 means none.
type nameRules struct{ any, directory int }

// A rule is one line. Its position in the file decides: the last match wins.
type rule struct {
	position  int
	pattern   string // without "!", a leading and a trailing slash
	literal   int    // how many bytes of pattern come before the first wildcard
	negated   bool
	directory bool // matches directories only
	base      bool // matches the last element at any depth
	suffix    bool // is "*" and a literal, for a base name
}

const wildcards = `*?[\`

// Parse reads the text of an ignore file. Every text is a valid one.
func Parse(text []byte) *File {
	text = bytes.TrimPrefix(text, []byte("\xef\xbb\xbf"))
	f := &File{names: map[string]nameRules{}}
	position := 0
	for line := range bytes.Lines(text) {
		line = bytes.TrimSuffix(line, []byte("\n"))
		line = bytes.TrimSuffix(line, []byte("\r"))
		if len(line) == 0 || line[0] == '#' {
			continue
		}
		position++
		r := parseRule(trimTrailingSpaces(string(line)))
		r.position = position
		f.add(r)
	}
	return f
}

func (f *File) add(r rule) {
	if !r.base || r.literal < len(r.pattern) {
		f.rules = append(f.rules, r)
		if !r.suffix {
			f.wild += len(r.pattern) - r.literal
		}
		return
	}
	last := f.names[r.pattern]
	signed := r.position
	if r.negated {
		signed = -signed
	}
	if r.directory {
		last.directory = signed
	} else {
		last.any = signed
	}
	f.names[r.pattern] = last
}

func parseRule(line string) rule {
	var r rule
	line, r.negated = strings.CutPrefix(line, "!")
	r.suffix = strings.HasPrefix(line, "*") && !strings.ContainsAny(line[1:], wildcards)
	line, r.directory = strings.CutSuffix(line, "/")
	r.base = !strings.Contains(line, "/")
	r.suffix = r.suffix && r.base
	r.pattern = strings.TrimPrefix(line, "/")
	r.literal = strings.IndexAny(r.pattern, wildcards)
	if r.literal < 0 {
		r.literal = len(r.pattern)
	}
	return r
}

// trimTrailingSpaces removes the spaces at the end that no backslash protects.
func trimTrailingSpaces(line string) string {
	end := -1
	for i := 0; i < len(line); i++ {
		switch line[i] {
		case ' ':
			if end < 0 {
				end = i
			}
			continue
		case '\\':
			i++
			if i == len(line) {
				return line
			}
		}
		end = -1
	}
	if end < 0 {
		return line
	}
	return line[:end]
}

// Match judges a slash-separated path relative to the file's directory; what is
// said of the directories above it is for the caller to ask first, since nothing
// below an ignored directory can be taken in again.
func (f *File) Match(path string, directory bool) Verdict {
	if f == nil {
		return None
	}
	base := path[strings.LastIndexByte(path, '/')+1:]
	best, negated := f.byName(base, directory)
	for i := len(f.rules) - 1; i >= 0 && f.rules[i].position > best; i-- {
		if r := &f.rules[i]; r.matches(path, base, directory) {
			best, negated = r.position, r.negated
			break
		}
	}
	switch {
	case best == 0:
		return None
	case negated:
		return Included
	default:
		return Ignored
	}
}

func (f *File) byName(base string, directory bool) (position int, negated bool) {
	last, ok := f.names[base]
	if !ok {
		return 0, false
	}
	signed := last.any
	if directory && abs(last.directory) > abs(last.any) {
		signed = last.directory
	}
	return abs(signed), signed < 0
}

func abs(n int) int { return max(n, -n) }

func (r *rule) matches(path, base string, directory bool) bool {
	switch {
	case r.directory && !directory:
		return false
	case r.suffix:
		return strings.HasSuffix(base, r.pattern[1:])
	case r.base:
		return wildmatch(r.pattern, base, false)
	}
	// Git compares what comes before the first wildcard by itself and matches the
	// rest as a pattern of its own, so that in `a**/b` the stars begin a pattern.
	head := r.pattern[:r.literal]
	if !strings.HasPrefix(path, head) {
		return false
	}
	if r.literal == len(r.pattern) {
		return len(path) == r.literal
	}
	return wildmatch(r.pattern[r.literal:], path[r.literal:], true)
}
