package state

import (
	"strings"
)

// redactElement is how long the text of an element is at most.
const redactElement = 4 << 10

// A scan goes once through a text, be it a command line, a config file, code or prose,
// and replaces the values of secret names: of assignments, pairs and options.
type scan struct {
	text     string
	out      strings.Builder
	done     int      // what of the text is in out, or replaced there
	quote    byte     // the one that is open, or 0
	line     int      // where the line begins
	programs programs // of the command that is being read
	known    programs // of all commands
}

// programs are those whose short options may be secret.
type programs uint8

const (
	runsCurl    programs = 1 << iota // -u user:password
	runsMySQL                        // -ppassword
	runsSSHPass                      // -p password, -ppassword
	runsLogin                        // docker login -p password
)

// programOf is the program with this name.
func programOf(word string) programs {
	switch word = word[strings.LastIndexByte(word, '/')+1:]; word {
	case "curl":
		return runsCurl
	case "mysql", "mysqldump", "mysqladmin", "mariadb", "mariadb-dump":
		return runsMySQL
	case "sshpass":
		return runsSSHPass
	case "login":
		return runsLogin
	}
	return 0
}

// redactNames replaces the values of secret names, in a text that is for such programs.
func redactNames(text string, known programs) string {
	s := &scan{text: text, known: known, programs: known}
	for i := 0; i < len(text); {
		i = s.step(i)
	}
	if s.out.Len() == 0 {
		return text
	}
	s.out.WriteString(text[s.done:])
	return s.out.String()
}

// step looks at what stands at i, and returns where to go on.
func (s *scan) step(i int) int {
	switch c := s.text[i]; c {
	case '\\':
		return i + 2
	case '"', '\'', '`':
		switch {
		case s.quote == c:
			s.quote = 0
		case s.quote == 0 && !(c == '\'' && i > 0 && isNameByte(s.text[i-1])): // don't
			s.quote = c
		}
	case '\n':
		s.quote, s.line, s.programs = 0, i+1, s.known
	case ';', '|', '&':
		if s.quote == 0 {
			s.programs = s.known
		}
	case '=', ':':
		return s.assignment(i)
	case '>':
		return s.element(i)
	case ',':
		if i > 0 && (s.text[i-1] == '"' || s.text[i-1] == '\'') {
			return s.argument(i)
		}
	case '-':
		if s.beginsWord(i) {
			return s.option(i)
		}
	case 'c', 'm', 's', 'l':
		if i == 0 || !isNameByte(s.text[i-1]) {
			end := s.nameEnd(i)
			s.programs |= programOf(s.text[i:end])
			return end
		}
	}
	return i + 1
}

// redact replaces what stands between two places, unless it was replaced already, and
// returns the second.
func (s *scan) redact(from, to int) int {
	if from < to && strings.Trim(s.text[from:to], `\"'`) != Redacted {
		s.out.WriteString(s.text[s.done:from])
		s.out.WriteString(Redacted)
		s.done = to
	}
	return max(from, to)
}

func isNameByte(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '_' || c == '-' || c == '.'
}

func isBlank(c byte) bool { return c == ' ' || c == '\t' }
func isSpace(c byte) bool { return isBlank(c) || c == '\n' || c == '\r' }

// at is the byte at i, or 0 behind the end.
func (s *scan) at(i int) byte {
	if i < 0 || i >= len(s.text) {
		return 0
	}
	return s.text[i]
}

func (s *scan) beginsWord(i int) bool {
	return i == 0 || isSpace(s.text[i-1]) || strings.IndexByte(`"'[(,`, s.text[i-1]) >= 0
}

func (s *scan) nameEnd(i int) int {
	for i < len(s.text) && isNameByte(s.text[i]) {
		i++
	}
	return i
}

// skipBlank skips blanks, and line ends that are none for a shell.
func (s *scan) skipBlank(i int) int {
	for i < len(s.text) {
		switch {
		case isBlank(s.text[i]):
			i++
		case s.text[i] == '\\' && s.at(i+1) == '\n':
			i += 2
		default:
			return i
		}
	}
	return i
}

// lineEnd is where the line ends, or what is quoted around it.
func (s *scan) lineEnd(i int) int {
	for ; i < len(s.text) && s.text[i] != '\n' && s.text[i] != '\r'; i++ {
		if s.text[i] == '\\' && s.quote != 0 {
			i++
		} else if s.quote != 0 && s.text[i] == s.quote {
			break
		}
	}
	return min(i, len(s.text))
}

// option replaces the value of an option that begins at i.
func (s *scan) option(i int) int {
	name := i + 1
	if s.at(name) == '-' {
		name++
	}
	end := s.nameEnd(name)
	if end == name {
		return end
	}
	value := s.skipBlank(end)
	short := name == i+1
	text := s.text[name:end]
	switch {
	case short && s.programs&runsCurl != 0 && text[0] == 'u': // also -ubob:x
		if end > name+1 {
			value = name + 1
		}
		return s.password(value)
	case short && s.programs&runsCurl != 0 && len(text) < 5 && strings.IndexByte("uU", text[len(text)-1]) >= 0, text == "user", text == "proxy-user":
		if s.at(end) == '=' {
			value = end + 1
		}
		return s.password(value)
	case short && s.programs&(runsMySQL|runsSSHPass) != 0 && text[0] == 'p' && end > name+1, short && s.programs&runsMySQL != 0 && text == "p" && value == end:
		return s.redact(name+1, s.wordEnd(name+1))
	case value == end || value == len(s.text) || strings.IndexByte("-|;&<>)\n\r", s.text[value]) >= 0 || s.text[value] == s.quote:
		return end
	case short && text == "p" && s.programs&(runsSSHPass|runsLogin) != 0:
		return s.redact(value, s.wordEnd(value))
	}
	if g := gradeOf(text); g < gradePair && text != "jwt" && text != "bearer" || g < gradeAlways && s.isPlain(value) {
		return end
	}
	return s.redact(value, s.wordEnd(value))
}

// password replaces what follows the first colon of a word, which is user:password,
// but for numbers of users and groups.
func (s *scan) password(i int) int {
	if !strings.Contains(s.text[i:min(len(s.text), i+256)], ":") {
		return i // and no look for the end of it, again and again
	}
	end := s.wordEnd(i)
	word := s.text[i:end]
	colon := strings.IndexByte(word, ':')
	if colon < 0 || s.programs&runsCurl == 0 && strings.Trim(word[colon+1:], "0123456789") == "" {
		return i
	}
	to := end
	if word[0] == '"' || word[0] == '\'' {
		to = max(i+colon+1, end-1)
	}
	s.redact(i+colon+1, to)
	return end
}

// before finds the name before a sign at i, and says whether it is quoted.
func (s *scan) before(i int) (name string, quoted bool, end int) {
	for i > s.done && isBlank(s.text[i-1]) {
		i--
	}
	end = i
	if i > s.done+1 && s.text[i-1] == ']' && (s.text[i-2] == '"' || s.text[i-2] == '\'') {
		i-- // config["password"]
	}
	if i > s.done && (s.text[i-1] == '"' || s.text[i-1] == '\'') {
		quoted = true
		i--
		for i > s.done && s.text[i-1] == '\\' {
			i--
		}
	}
	from := i
	for from > s.done && isNameByte(s.text[from-1]) {
		from--
	}
	return s.text[from:i], quoted, end
}

// assignment replaces the value of what is assigned by the sign at i.
func (s *scan) assignment(i int) int {
	sign, value := i, i+1
	colon := s.text[i] == ':'
	switch next := s.at(i + 1); {
	case colon && next == ':', colon && next == '/' && s.at(i+2) == '/':
		return i + 2
	case colon && next == '=':
		colon, value = false, i+2
	case !colon && next == '>':
		value = i + 2
	case !colon && (s.at(i-1) == '+' || s.at(i-1) == '?'):
		sign--
	}
	compares := !colon && s.at(value) == '='
	for s.at(value) == '=' {
		value++
	}
	name, quoted, end := s.before(sign)
	if !colon && (name == "string" || name == "String" || name == "str") { // password: string = "…"
		for end -= len(name); end > s.done && (isBlank(s.text[end-1]) || s.text[end-1] == ':'); end-- {
		}
		name, quoted, end = s.before(end)
	}
	g := gradeOf(name)
	if name == "key" && !colon && (s.at(end-len(name)-1) == '?' || s.at(end-len(name)-1) == '&') {
		g = gradeQuery // of an address
	}
	if g == gradeNone {
		return value
	}
	from := s.skipBlank(value)
	spaced := from > value
	switch {
	case from == len(s.text) || s.text[from] == s.quote && s.endsPair(from+1),
		g == gradeQuery && (colon || spaced || end < sign),
		g == gradeAssigned && colon && !quoted,
		g < gradeAlways && s.isPlain(from),
		name == "PASS" && colon && spaced && !quoted, // what a test says
		isDirectory(name, s.text[from:min(len(s.text), from+maxName)]),
		compares && s.at(from) != '"' && s.at(from) != '\'',
		(spaced || colon) && s.isType(from), spaced && !colon && s.isCall(from):
		return value
	}
	if s.text[from] == s.quote {
		s.quote = 0 // it was no quote: 5" wide
	}
	return s.value(from, name, quoted, colon, spaced)
}

// element replaces the text of an element of XML whose name ends at i.
func (s *scan) element(i int) int {
	name, _, _ := s.before(i)
	end := strings.IndexByte(s.text[i:min(len(s.text), i+redactElement)], '<')
	if s.at(i-len(name)-1) != '<' || gradeOf(name) < gradePair || end < 0 {
		return i + 1
	}
	return max(i+1, s.redact(i+1, i+end))
}

// argument replaces the text behind the comma at i, which follows the first argument of
// a call: setenv("PASSWORD", "…").
func (s *scan) argument(i int) int {
	name, _, _ := s.before(i)
	from := s.skipBlank(i + 1)
	if c := s.at(from); s.at(i-len(name)-3) != '(' || gradeOf(name) < gradePair || c != '"' && c != '\'' || s.at(from+1) == c {
		return i + 1
	}
	return s.redact(from, s.wordEnd(from))
}

// value replaces the value at i.
func (s *scan) value(i int, name string, quoted, colon, spaced bool) int {
	c := s.text[i]
	header := strings.HasSuffix(name, "ookie") || strings.HasSuffix(strings.ToLower(name), "authorization")
	if colon && strings.IndexByte("\r\n|>", c) >= 0 {
		end := i
		for end < len(s.text) && strings.IndexByte("|>+-0123456789 \t\r", s.text[end]) >= 0 {
			end++
		}
		if s.at(end) == '\n' {
			return s.block(end, c == '|' || c == '>')
		}
	}
	switch {
	case isSpace(c):
		return i
	case (c == '[' || c == '{') && (quoted || colon || spaced):
		return s.redact(i, s.nestedEnd(i))
	case c == '"' || c == '\'' || c == '\\' && s.at(s.skipBackslashes(i)) == '"':
		return s.redact(i, s.wordEnd(i))
	case header || colon && spaced && !quoted:
		return s.redact(i, s.lineEnd(i))
	}
	return s.redact(i, s.wordEnd(i))
}

// block replaces the lines behind the end of one that are indented more than it: a text
// of YAML. What are pairs there is none, unless it is said to be.
func (s *scan) block(end int, isText bool) int {
	indent := s.skipBlank(s.line) - s.line
	from, to := -1, end
	for to < len(s.text) {
		next := len(s.text)
		if n := strings.IndexByte(s.text[min(to+1, next):], '\n'); n >= 0 {
			next = to + 1 + n
		}
		first := s.skipBlank(to + 1)
		blank := first >= next || s.text[first] == '\r'
		if !blank && first-(to+1) <= indent {
			break
		}
		if !blank && from < 0 {
			from = first
			if name := s.nameEnd(first); !isText && s.at(name) == ':' {
				return end
			}
		}
		to = next
	}
	if from < 0 {
		return end
	}
	for isSpace(s.text[to-1]) {
		to--
	}
	return s.redact(from, to)
}

// wordEnd is where a word ends that begins at i: as in a shell, or in a list of pairs.
func (s *scan) wordEnd(i int) int {
	begin, depth := i, 0
	for i < len(s.text) {
		switch c := s.text[i]; {
		case isSpace(c), c == s.quote && c != 0:
			return i
		case c == '\\':
			end := s.skipBackslashes(i)
			if s.at(end) != '"' || end == i+1 && s.quote == 0 && i > begin {
				i = end + (end-i)%2
				break
			}
			i, _ = s.literalEnd(i)
		case c == '"' || c == '\'':
			end, closed := s.literalEnd(i)
			if !closed && i > begin {
				return s.lineEnd(i)
			}
			i = end
		case c == '`':
			n := strings.IndexByte(s.text[i+1:], '`')
			if n < 0 {
				return s.lineEnd(i)
			}
			i += n + 2
		case c == '$' && s.at(i+1) == '(':
			i = s.nestedEnd(i + 1)
		case c == '(' || c == '[' || c == '{':
			depth++
			i++
		case c == ')' || c == ']' || c == '}':
			if depth--; depth < 0 && s.endsPair(i+1) {
				return i
			}
			i++
		case (c == ';' || c == ',' || c == '&' || c == '|') && (s.at(i+1) == c || s.endsPair(i+1) || s.beginsPair(i+1)):
			return i
		default:
			i++
		}
	}
	return len(s.text)
}

// endsPair: nothing of a value follows at i.
func (s *scan) endsPair(i int) bool {
	return i >= len(s.text) || strings.IndexByte(" \t\r\n\"'`,;:)]}|&<>\\", s.text[i]) >= 0
}

// beginsPair: the next name and its sign follow at i.
func (s *scan) beginsPair(i int) bool {
	end := s.nameEnd(i)
	return end > i && end < i+maxName && (s.at(end) == '=' || s.at(end) == ':')
}

// skipBackslashes is where those end that begin at i: a quote may follow that is within
// another one.
func (s *scan) skipBackslashes(i int) int {
	for s.at(i) == '\\' {
		i++
	}
	return i
}

// literalEnd is where a quoted text ends that begins at i, with its quote, before which
// are backslashes if it is within another one.
func (s *scan) literalEnd(i int) (end int, closed bool) {
	begin := i
	i = s.skipBackslashes(i)
	quote, level, run := s.at(i), i-begin, 0
	for i++; i < len(s.text); i++ {
		switch s.text[i] {
		case '\\':
			run++
			continue
		case quote:
			if run < level {
				return i - run, true // the outer one ends
			}
			if run%(2*(level+1)) == level {
				return i + 1, true
			}
		}
		run = 0
	}
	return len(s.text), false
}

// nestedEnd is where the list, the object or the command ends that begins at i.
func (s *scan) nestedEnd(i int) int {
	depth := 0
	for i < len(s.text) {
		switch c := s.text[i]; {
		case c == '"':
			i, _ = s.literalEnd(i)
			continue
		case c == '\\':
			end := s.skipBackslashes(i)
			if s.at(end) == '"' {
				end, _ = s.literalEnd(i)
			}
			i = end
			continue
		case c == '(' || c == '[' || c == '{':
			depth++
		case c == ')' || c == ']' || c == '}':
			if depth--; depth == 0 {
				return i + 1
			}
		}
		i++
	}
	return len(s.text)
}
