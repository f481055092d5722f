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

// secretPatterns are what looks like a secret in any text. Each ends at the end of
// the text too, which may have been cut.
func secretPatterns() []secretPattern {
	const value = `("(?:[^"\\]|\\.)*"?|'[^']*'?|[^\s"'&;,|<>]+)`
	const name = `(?:password|passwd|passphrase|secret|token|api[_-]?key|access[_-]?key|private[_-]?key|credentials?)`
	names := []string{"passw", "passphrase", "secret", "token", "key", "credential"}
	return []secretPattern{
		{regexp.MustCompile(`(?s)-----BEGIN [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----(.*?)(?:-----END [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----|$)`), []string{"private key"}},
		// Headers.
		{regexp.MustCompile(`(?i)(?:authorization|cookie)["']?\s*[=:]\s*["']?([^"'\r\n]+)`), []string{"authorization", "cookie"}},
		{regexp.MustCompile(`(?i)\b(?:bearer|basic)\s+([A-Za-z0-9._~+/=-]{6,})`), []string{"bearer", "basic"}},
		// An assignment, or JSON within a text; and an option of a command.
		{regexp.MustCompile(`(?i)` + name + `\\*["']?\s*[=:]\s*\\*` + value), names},
		{regexp.MustCompile(`(?i)(?:^|\s)--?[a-z0-9-]*` + name + `\s+` + value), names},
		// The user of an address.
		{regexp.MustCompile(`[A-Za-z][A-Za-z0-9+.-]*://[^\s/:@?#]*:([^\s/@?#]+)@`), []string{"://"}},
		// What services give out.
		{regexp.MustCompile(`\b(?:gh[pousr]_\w{20,}|github_pat_\w{20,}|sk-[\w-]{20,}|xox[abeprs]-[\w-]{10,}|AKIA[0-9A-Z]{16}|eyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]*)`),
			[]string{"gh", "sk-", "xox", "akia", "eyj"}},
	}
}

// secretKey says whether the value of such a key is secret: whole for each kind of
// value, or only if it is not a number, as "max_tokens" has.
func secretKey(key string) (secret, evenNumbers bool) {
	key = strings.Map(func(r rune) rune {
		if strings.ContainsRune("_-. ", r) {
			return -1
		}
		return r
	}, strings.ToLower(key))
	for _, word := range []string{
		"password", "passwd", "passphrase", "secret", "apikey", "accesskey", "privatekey", "credential", "authorization", "cookie",
	} {
		if strings.Contains(key, word) {
			return true, true
		}
	}
	return strings.HasSuffix(key, "token") || strings.HasSuffix(key, "tokens"), strings.HasSuffix(key, "token")
}

// A redactor replaces what is secret.
type redactor struct{ patterns []secretPattern }

func newRedactor(further []*regexp.Regexp) redactor {
	patterns := secretPatterns()
	for _, pattern := range further {
		patterns = append(patterns, secretPattern{Regexp: pattern})
	}
	return redactor{patterns}
}

// entry is e without what is secret. It changes nothing that e refers to.
func (r redactor) entry(e AuditEntry) AuditEntry {
	e.Resources, e.Patterns = r.texts(e.Resources), r.texts(e.Patterns)
	e.Reason = r.text(within(e.Reason))
	e.Extra = maps.Clone(e.Extra)
	for key, value := range e.Extra {
		if secret, _ := secretKey(key); secret {
			e.Extra[key] = Redacted
		} else {
			e.Extra[key] = r.text(within(value))
		}
	}
	if len(e.Input) > 0 {
		whole := len(e.Input) <= redactWindow
		input := r.json(e.Input[:min(len(e.Input), redactWindow)])
		if whole && json.Valid(input) {
			e.Input = input
		} else {
			text := string(input)
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
		clean[i] = r.text(within(text))
	}
	return clean
}

// text replaces what the patterns match.
func (r redactor) text(text string) string {
	lower := strings.ToLower(text)
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
// the values of secret keys, and what the patterns match in each string.
func (r redactor) json(text []byte) []byte {
	var out bytes.Buffer
	out.Grow(len(text))
	for i := 0; i < len(text); {
		if text[i] != '"' {
			next := bytes.IndexByte(text[i:], '"')
			if next < 0 {
				next = len(text) - i
			}
			part := text[i : i+next]
			if len(bytes.Trim(part, "{}[]:, \t\r\n")) > 0 { // a number may be secret, and what is no JSON
				part = []byte(r.text(string(part)))
			}
			out.Write(part)
			i += next
			continue
		}
		end := stringEnd(text, i)
		out.Write(r.jsonString(text[i:end]))
		value, isKey := valueAfter(text, end)
		if !isKey {
			i = end
			continue
		}
		secret, evenNumbers := secretKey(decodeString(text[i:end]))
		after := valueEnd(text, value)
		if !secret || !evenNumbers && !isQuotedOrNested(text, value) || bytes.Equal(text[value:after], []byte("null")) {
			i = end
			continue
		}
		out.Write(text[end:value])
		out.WriteString(`"` + Redacted + `"`)
		i = after
	}
	return out.Bytes()
}

// jsonString is a string of JSON, with its quotes, without what the patterns match.
func (r redactor) jsonString(quoted []byte) []byte {
	text := decodeString(quoted)
	if clean := r.text(text); clean != text {
		return quoteJSON(clean)
	}
	return quoted
}

// decodeString is the text of a string of JSON, which may have been cut or be wrong:
// then it is as near to it as can be.
func decodeString(quoted []byte) string {
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
