package state

import (
	"bytes"
	"encoding/json"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// Redacted stands in the audit log for what is secret.
const Redacted = "[redacted]"

// A secretPattern is a pattern that matches only where one of the hints is, in any
// case; looking for those is much faster. Without hints it may match anywhere.
type secretPattern struct {
	*regexp.Regexp
	hints []string
}

// secretPatterns are what looks like a secret in any text, beside the values of secret
// names. Each ends at the end of the text too, which may have been cut.
func secretPatterns() []secretPattern {
	return []secretPattern{
		{regexp.MustCompile(`(?i)\b(?:bearer|basic)\s+([A-Za-z0-9._~+/=-]{6,})`), []string{"bearer", "basic"}},
		{regexp.MustCompile(`(?i)\bidentified\s+by\s+('[^']*'?|"[^"]*"?)`), []string{"identified"}},
		// Pairs without a sign, of .netrc and of programs' configurations.
		{regexp.MustCompile(`(?i)\bmachine\s+\S+\s+login\s+\S+\s+password\s+(\S+)`), []string{"machine"}},
		{regexp.MustCompile(`(?i)\bconfig(?:ure)?\s+set\s+\S*(?:secret|password|token|_auth)\S*\s+([^\s-]\S*)`), []string{"config"}},
		// What services give out.
		{regexp.MustCompile(`\b(?:gh[pousr]_\w{20,}|github_pat_\w{20,}|glpat-[\w-]{10,}|sk-[\w-]{20,}|[rs]k_(?:live|test)_\w{10,}|npm_\w{20,}|hf_\w{20,}|` +
			`xox[abeprs]-[\w-]{10,}|A[KS]IA[0-9A-Z]{16}|AIza[\w-]{30,}|eyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]*)`),
			[]string{"ghp_", "gho_", "ghu_", "ghs_", "ghr_", "_pat_", "glpat-", "sk-", "k_live_", "k_test_", "npm_", "hf_", "xox", "akia", "asia", "aiza", "eyj"}},
	}
}

// privateKey goes first: it is more than a line.
func privateKey() secretPattern {
	return secretPattern{
		regexp.MustCompile(`(?s)-----BEGIN [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----(.*?)(?:-----END [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----|$)`),
		[]string{"private key"},
	}
}

// A redactor replaces what is secret.
type redactor struct {
	key      secretPattern
	patterns []secretPattern
}

func newRedactor(further []*regexp.Regexp) redactor {
	patterns := secretPatterns()
	for _, pattern := range further {
		patterns = append(patterns, secretPattern{Regexp: pattern})
	}
	return redactor{privateKey(), patterns}
}

// entry is e without what is secret. It changes nothing that e refers to.
func (r redactor) entry(e AuditEntry) AuditEntry {
	e.Resources, e.Patterns = r.texts(e.Resources), r.texts(e.Patterns)
	e.Reason = r.text(within(e.Reason), 0)
	e.Extra = maps.Clone(e.Extra)
	for key, value := range e.Extra {
		if secret, _ := secretKey(key); secret {
			e.Extra[key] = Redacted
		} else {
			e.Extra[key] = r.text(within(value), 0)
		}
	}
	if len(e.Input) > 0 {
		whole := len(e.Input) <= redactWindow
		input := r.json(e.Input[:min(len(e.Input), redactWindow)])
		if whole && json.Valid(input) {
			e.Input = input
		} else {
			text := r.text(string(input), 0) // what is no JSON has its quotes anywhere
			if !whole {
				text += cutMark
			}
			e.Input = quoteJSON(text)
		}
	}
	return e
}

// redactWindow is how much of a text is looked at. It is well above what can stand in
// a line, so that a secret that begins in what is kept is whole.
const redactWindow = 2 * MaxAuditLine

// within is the part of a text that is looked at.
func within(text string) string { return cutTo(text, redactWindow) }

// texts are the texts without what is secret.
func (r redactor) texts(texts []string) []string {
	clean := make([]string, len(texts))
	for i, text := range texts {
		clean[i] = r.text(within(text), 0)
	}
	return clean
}

// text replaces what is secret in a text that is for such programs.
func (r redactor) text(text string, known programs) string {
	lower := strings.ToLower(text)
	if containsAny(lower, r.key.hints) {
		text = redactPattern(text, r.key.Regexp)
	}
	if strings.Contains(text, "://") {
		text = redactAddresses(text)
	}
	text = redactNames(text, known)
	for _, pattern := range r.patterns {
		if pattern.hints == nil || containsAny(lower, pattern.hints) {
			text = redactPattern(text, pattern.Regexp)
		}
	}
	return text
}

func containsAny(text string, words []string) bool {
	return slices.ContainsFunc(words, func(word string) bool { return strings.Contains(text, word) })
}

// redactPattern replaces what a pattern matches, or if it has groups, what they do.
func redactPattern(text string, pattern *regexp.Regexp) string {
	matches := pattern.FindAllStringSubmatchIndex(text, -1)
	if matches == nil {
		return text
	}
	var b strings.Builder
	end := 0
	for _, match := range matches {
		parts := match[2:]
		if len(parts) == 0 {
			parts = match
		}
		for i := 0; i < len(parts); i += 2 {
			// A group may not have matched, or lie in another one.
			if from, to := parts[i], parts[i+1]; from >= end && from < to {
				b.WriteString(text[end:from])
				b.WriteString(Redacted)
				end = to
			}
		}
	}
	b.WriteString(text[end:])
	return b.String()
}

// json replaces what is secret in a text that is JSON, or would be if it were whole:
// the values of secret keys and options, and what is secret in each string.
func (r redactor) json(text []byte) []byte {
	var out bytes.Buffer
	out.Grow(len(text))
	var list arguments
	for i := 0; i < len(text); {
		if text[i] != '"' {
			next := bytes.IndexByte(text[i:], '"')
			if next < 0 {
				next = len(text) - i
			}
			part := text[i : i+next]
			list.between(part)
			if len(bytes.Trim(part, "{}[]:, \t\r\n")) > 0 { // a number may be secret, and what is no JSON
				part = []byte(r.text(string(part), list.known))
			}
			out.Write(part)
			i += next
			continue
		}
		end := stringEnd(text, i)
		decoded := decodeString(text[i:end])
		value, isKey := valueAfter(text, end)
		if !isKey {
			if clean := list.next(decoded); clean != decoded {
				out.Write(quoteJSON(clean))
			} else {
				out.Write(r.jsonString(text[i:end], decoded, list.known))
			}
			i = end
			continue
		}
		out.Write(r.jsonString(text[i:end], decoded, list.known))
		i = end
		isSecret, evenNumbers := secretKey(decoded)
		if list.key(decoded) {
			isSecret, evenNumbers = true, true
		}
		if !isSecret || !evenNumbers && !isQuotedOrNested(text, value) || bytes.HasPrefix(text[value:], []byte("null")) ||
			isDirectory(decoded, string(text[value:min(len(text), value+maxName)])) {
			continue
		}
		// Only now: to look for the end of each nested value would be quadratic.
		out.Write(text[end:value])
		out.WriteString(`"` + Redacted + `"`)
		i = valueEnd(text, value)
	}
	return out.Bytes()
}

// arguments are the strings of lists: of a command with its options, or of a header.
type arguments struct {
	previous string // empty if it is of no interest
	first    bool   // it is the first of its list
	opened   bool   // the next one is
	known    programs
	naming   bool // the next one is a name, of an object {"name": …, "value": …}
	named    bool // that was one of a secret
}

// key looks at a key, and says whether its value is that of a secret name.
func (a *arguments) key(key string) bool {
	key = strings.ToLower(key)
	a.previous, a.naming = "", key == "name" || key == "key" || key == "header"
	return a.named && key == "value"
}

// between looks at what stands between two strings.
func (a *arguments) between(part []byte) {
	part = bytes.TrimSpace(part)
	if string(part) != "," {
		a.previous = ""
	}
	a.opened = bytes.HasSuffix(part, []byte("["))
	if bytes.ContainsAny(part, "{}[]") {
		a.named = false
	}
}

// next is the text of the next one without what is secret because of the previous one.
func (a *arguments) next(text string) string {
	previous, first := a.previous, a.first
	a.previous, a.first, a.opened = text, a.opened, false
	a.known |= programOf(text)
	if a.naming {
		a.named, a.naming = gradeOf(text) >= gradePair, false
	}
	if previous == "" || text == "" {
		return text
	}
	if header := strings.ToLower(previous); first && header[0] != '-' && (gradeOf(header) == gradeAlways && strings.Contains(header, "-") || header == "authorization" || header == "cookie") {
		return Redacted
	}
	if previous[0] != '-' || strings.ContainsAny(previous, " =") || text[0] == '-' {
		return text
	}
	// As if it were one word of a line.
	line := previous + " " + string(quoteJSON(text))
	if clean := redactNames(line, a.known); clean != line && strings.HasPrefix(clean, previous+" ") {
		if user, _, ok := strings.Cut(text, ":"); ok && strings.Contains(clean, `:`+Redacted) {
			return user + ":" + Redacted
		}
		return Redacted
	}
	return text
}

// jsonString is a string of JSON, with its quotes, without what is secret in it.
func (r redactor) jsonString(quoted []byte, text string, known programs) []byte {
	if clean := r.text(text, known); clean != text {
		return quoteJSON(clean)
	}
	return quoted
}

// decodeString is the text of a string of JSON, which may have been cut or be wrong:
// then it is as near to it as can be.
func decodeString(quoted []byte) string {
	if last := len(quoted) - 1; last > 0 && quoted[last] == '"' && bytes.IndexByte(quoted, '\\') < 0 {
		return string(quoted[1:last])
	}
	var text string
	if json.Unmarshal(quoted, &text) == nil {
		return text
	}
	text = strings.TrimPrefix(string(quoted), `"`)
	return strings.NewReplacer(`\"`, `"`, `\\`, `\`, `\/`, `/`, `\n`, "\n", `\r`, "\r", `\t`, "\t").Replace(text)
}

// stringEnd is where the string ends that begins at i: behind its quote, or at the
// end of the text.
func stringEnd(text []byte, i int) int {
	for i++; i < len(text); i++ {
		switch text[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}
	return len(text)
}

// valueAfter is where the value begins, if what ends at i is a key.
func valueAfter(text []byte, i int) (int, bool) {
	if i = skipSpace(text, i); i == len(text) || text[i] != ':' {
		return 0, false
	}
	return skipSpace(text, i+1), true
}

func skipSpace(text []byte, i int) int {
	for i < len(text) && strings.IndexByte(" \t\r\n", text[i]) >= 0 {
		i++
	}
	return i
}

func isQuotedOrNested(text []byte, i int) bool {
	return i < len(text) && strings.IndexByte(`"[{`, text[i]) >= 0
}

// valueEnd is where the value ends that begins at i.
func valueEnd(text []byte, i int) int {
	depth := 0
	for i < len(text) {
		switch c := text[i]; {
		case c == '"':
			i = stringEnd(text, i)
		case c == '[' || c == '{':
			depth++
			i++
		case c == ']' || c == '}':
			if depth--; depth < 0 {
				return i
			}
			i++
		case depth > 0:
			i++
			continue
		case strings.IndexByte(", \t\r\n", c) >= 0:
			return i
		default:
			i++
			continue
		}
		if depth == 0 {
			return i
		}
	}
	return len(text)
}

// redactAddresses replaces the passwords of addresses, and users that are none.
func redactAddresses(text string) string {
	var b strings.Builder
	done := 0
	for {
		n := strings.Index(text[done:], "://")
		if n < 0 {
			break
		}
		scheme, from := done, done+n+3
		for i := from - 4; i >= scheme && isNameByte(text[i]); i-- {
			n = i - done
		}
		end := from
		for end < len(text) && strings.IndexByte(" \t\r\n\"'`<>\\", text[end]) < 0 && !strings.HasPrefix(text[end:], "://") {
			end++
		}
		b.WriteString(text[done:from])
		b.WriteString(redactUser(text[done+n:from-3], text[from:end]))
		done = end
	}
	if done == 0 {
		return text
	}
	b.WriteString(text[done:])
	return b.String()
}

// addressHost is the beginning of an address behind its user.
var addressHost = regexp.MustCompile(`^(?:[A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)+|localhost|\[[0-9a-fA-F:]+\])(?::[0-9]+)?(?:[/?#]|$)`)

// redactUser replaces the password in what follows the scheme of an address; it may
// have signs that should have been escaped.
func redactUser(scheme, rest string) string {
	authority := rest[:len(rest)-len(strings.TrimLeftFunc(rest, func(r rune) bool { return !strings.ContainsRune("/?#", r) }))]
	at := strings.LastIndexByte(authority, '@')
	user, _, has := strings.Cut(authority, ":")
	if last := strings.LastIndexByte(rest, '@'); has && last > at {
		port := strings.Trim(authority[len(user)+1:], "0123456789") == ""
		if at < 0 && !port && authority[0] != '[' || at > len(user) && !addressHost.MatchString(rest[at+1:]) {
			at = last
		}
	}
	if at < 0 {
		return rest
	}
	user, password, has := strings.Cut(rest[:at], ":")
	switch {
	case has && (password == "" || password == "x-oauth-basic") && user != "":
		return Redacted + rest[len(user):]
	case has && password != "":
		return user + ":" + Redacted + rest[at:]
	case !has && strings.HasPrefix(strings.ToLower(scheme), "http") && strings.ContainsAny(user, "0123456789_") && len(user) >= 8:
		return Redacted + rest[at:]
	}
	return rest
}
