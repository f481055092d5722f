package ignore

import "strings"

// wildmatch is git's matcher. In a path "*", "?" and classes stop at slashes and
// "**" between slashes does not; otherwise nothing stops. It works on bytes.
func wildmatch(pattern, text string, path bool) bool {
	m := matcher{pattern: pattern, text: text, path: path}
	return m.match(0, 0)
}

type matcher struct {
	pattern, text string
	path          bool
	// steps counts the attempts. From patience on, attempts that came to nothing
	// are remembered, so that a hostile pattern costs at most its length times the
	// text's.
	steps  int
	failed []uint64
	// barren is, for asterisks that cross slashes, from where in the text on
	// nothing follows them. It is nil until patience is lost.
	barren map[int]int
}

const patience = 512

// match says whether the pattern from p on matches the whole text from t on.
func (m *matcher) match(p, t int) bool {
	cell := p*(len(m.text)+1) + t
	if m.steps++; m.steps == patience {
		m.barren = map[int]int{}
		m.failed = make([]uint64, (len(m.pattern)+1)*(len(m.text)+1)/64+1)
	}
	if m.failed != nil && m.failed[cell/64]&(1<<(cell%64)) != 0 {
		return false
	}
	if m.matchOnce(p, t) {
		return true
	}
	if m.failed != nil {
		m.failed[cell/64] |= 1 << (cell % 64)
	}
	return false
}

func (m *matcher) matchOnce(start, t int) bool {
	for p := start; p < len(m.pattern); p, t = p+1, t+1 {
		c := m.pattern[p]
		if c == '*' {
			return m.stars(start, p, t)
		}
		if t == len(m.text) {
			return false
		}
		switch c {
		case '?':
			if m.path && m.text[t] == '/' {
				return false
			}
		case '[':
			end, in := class(m.pattern, p, m.text[t])
			if !in || m.path && m.text[t] == '/' {
				return false
			}
			p = end
		case '\\':
			if p++; p == len(m.pattern) || m.pattern[p] != m.text[t] {
				return false
			}
		default:
			if m.text[t] != c {
				return false
			}
		}
	}
	return t == len(m.text)
}

// stars matches from a run of asterisks at p on; start is where this attempt's
// pattern begins.
func (m *matcher) stars(start, p, t int) bool {
	run := p
	for p < len(m.pattern) && m.pattern[p] == '*' {
		p++
	}
	rest := m.pattern[p:]
	crosses := !m.path
	if m.path && p-run > 1 && (run == start || m.pattern[run-1] == '/') &&
		(rest == "" || rest[0] == '/' || strings.HasPrefix(rest, `\/`)) {
		crosses = true
		if rest != "" && rest[0] == '/' && m.match(p+1, t) {
			return true
		}
	}
	if rest == "" {
		return crosses || !strings.Contains(m.text[t:], "/")
	}
	end := len(m.text)
	if from, ok := m.barren[p]; ok && crosses {
		end = from
	}
	for at := t; at < end; at++ {
		if m.match(p, at) {
			return true
		}
		if !crosses && m.text[at] == '/' {
			return false
		}
	}
	if crosses && m.barren != nil && t < end {
		m.barren[p] = t
	}
	return false
}

// class matches c against the bracket expression that begins at p. It gives the
// position of the closing bracket; an expression that is not closed matches
// nothing.
func class(pattern string, p int, c byte) (end int, in bool) {
	p++
	negated := p < len(pattern) && (pattern[p] == '!' || pattern[p] == '^')
	if negated {
		p++
	}
	matched := false
	var previous byte // what a range would begin with; 0 when nothing can
	for first := true; ; first = false {
		if p >= len(pattern) {
			return 0, false
		}
		if pattern[p] == ']' && !first {
			return p, matched != negated
		}
		switch {
		case pattern[p] == '\\':
			if p++; p == len(pattern) {
				return 0, false
			}
			matched = matched || c == pattern[p]
			previous = pattern[p]
		case pattern[p] == '-' && previous != 0 && p+1 < len(pattern) && pattern[p+1] != ']':
			if p++; pattern[p] == '\\' {
				if p++; p == len(pattern) {
					return 0, false
				}
			}
			matched = matched || previous <= c && c <= pattern[p]
			previous = 0
		case strings.HasPrefix(pattern[p:], "[:"):
			name, length := className(pattern[p+2:])
			if length < 0 {
				return 0, false
			}
			if name == "" {
				matched = matched || c == '['
				previous = '['
				break
			}
			in, known := inClass(name, c)
			if !known {
				return 0, false
			}
			matched = matched || in
			previous = 0
			p += 1 + length
		default:
			matched = matched || c == pattern[p]
			previous = pattern[p]
		}
		p++
	}
}

// className reads "alpha:]". The length, to the end of the bracket, is -1 when
// there is no bracket at all; the name is empty when no colon stands before it.
func className(s string) (name string, length int) {
	i := strings.IndexByte(s, ']')
	if i < 0 {
		return "", -1
	}
	name, ok := strings.CutSuffix(s[:i], ":")
	if !ok {
		return "", i + 1
	}
	if name == "" {
		return ":", i + 1 // "[::]" is no class that is known
	}
	return name, i + 1
}

func inClass(name string, c byte) (in, known bool) {
	lower := 'a' <= c && c <= 'z'
	upper := 'A' <= c && c <= 'Z'
	digit := '0' <= c && c <= '9'
	graph := '!' <= c && c <= '~'
	switch name {
	case "alnum":
		return lower || upper || digit, true
	case "alpha":
		return lower || upper, true
	case "blank":
		return c == ' ' || c == '\t', true
	case "cntrl":
		return c < ' ' || c == 0x7f, true
	case "digit":
		return digit, true
	case "graph":
		return graph, true
	case "lower":
		return lower, true
	case "print":
		return graph || c == ' ', true
	case "punct":
		return graph && !lower && !upper && !digit, true
	case "space":
		return c == ' ' || '\t' <= c && c <= '\r', true
	case "upper":
		return upper, true
	case "xdigit":
		return digit || 'a' <= c && c <= 'f' || 'A' <= c && c <= 'F', true
	}
	return false, false
}
