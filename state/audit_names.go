package state

import (
	"regexp"
	"slices"
	"strings"
)

// A grade says when the value of a name is secret.
type grade int

const (
	gradeNone     grade = iota // never
	gradeQuery                 // where name=value stands, without spaces: ?sig=
	gradeAssigned              // as well where the name is quoted, or it is a key of JSON
	gradePair                  // as well for name: value, unless it is a number or the like
	gradeAlways                // always
)

// secretEndings are what the name of a secret ends with, written together.
var secretEndings = [...]string{
	"password", "passwords", "passwd", "passphrase", "passwort", "passcode", "secret", "secrets", "token", "apikey", "accesskey", "privatekey",
	"secretkey", "signingkey", "encryptionkey", "accountkey", "credential", "credentials", "authorization", "cookie", "cookies",
}

// nameHints are in each name whose value may be secret.
var nameHints = [...]string{"pass", "pwd", "secret", "token", "key", "cred", "auth", "cookie", "jwt", "bearer", "pat", "sig", "psk"}

// maxName is how much of a name is looked at, its end.
const maxName = 64

// gradeOf says when the value of such a name is secret, by its last words.
func gradeOf(name string) grade {
	if len(name) < 3 {
		return gradeNone
	}
	name = name[max(0, len(name)-maxName):]
	var buf [maxName]byte
	lower := buf[:len(name)]
	for i := range len(name) {
		if lower[i] = name[i]; 'A' <= name[i] && name[i] <= 'Z' {
			lower[i] += 'a' - 'A'
		}
	}
	if !slices.ContainsFunc(nameHints[:], func(hint string) bool { return strings.Contains(string(lower), hint) }) {
		return gradeNone
	}
	words := nameWords(name)
	for len(words) > 1 && isVersion(words[len(words)-1]) {
		words = words[:len(words)-1]
	}
	if len(words) == 0 {
		return gradeNone
	}
	joined := strings.TrimRight(strings.Join(words, ""), "0123456789")
	if slices.ContainsFunc(secretEndings[:], func(end string) bool { return strings.HasSuffix(joined, end) }) {
		return gradeAlways
	}
	variable := name == strings.ToUpper(name) // of the environment
	several := len(words) > 1 || name[0] == '_'
	switch last := words[len(words)-1]; last {
	case "tokens":
		return gradePair
	case "pass", "pwd", "passin", "passout", "psk":
		if variable {
			return gradeAlways
		}
		return gradePair
	case "key":
		if len(words) > 1 && keyIsSecret(words[len(words)-2], variable) {
			return gradeAlways
		}
	case "auth", "jwt", "bearer":
		if several {
			return gradePair
		}
		return gradeAssigned // not "auth: say who it was"
	case "pat":
		if variable {
			return gradeAlways
		}
	case "sig", "signature":
		return gradeQuery
	default:
		if strings.HasSuffix(last, "tokens") {
			return gradePair
		}
	}
	return gradeNone
}

// keyIsSecret says whether such a key is one that opens something.
func keyIsSecret(of string, variable bool) bool {
	switch of {
	case "public", "primary", "foreign", "sort", "cache", "partition", "group", "row", "index", "unique", "object", "routing", "hash", "range":
		return false
	case "api", "access", "private", "secret", "signing", "encryption", "account", "storage", "auth", "master", "ssh", "shared", "service", "client", "hmac", "aes":
		return true
	}
	return variable
}

// isDirectory says whether such a value of "pwd" is the directory that it also names.
func isDirectory(name, value string) bool {
	if name != "pwd" && name != "PWD" {
		return false
	}
	value = strings.TrimLeft(value, "\"'")
	return strings.HasPrefix(value, "$(pwd)") || strings.HasPrefix(value, "/") && strings.Contains(value[1:], "/")
}

// isVersion: access_token_v2, tokenValue, credentials_json.
func isVersion(word string) bool {
	switch word {
	case "value", "json", "base64", "b64", "raw", "string", "text", "plain":
		return true
	}
	return strings.Trim(strings.TrimPrefix(word, "v"), "0123456789") == ""
}

// nameWords are the words of a name, in small letters: of DB_PASS, db-pass and dbPass.
func nameWords(name string) []string {
	var words []string
	from := 0
	cut := func(to int) {
		if from < to {
			words = append(words, strings.ToLower(name[from:to]))
		}
		from = to
	}
	for i := range len(name) {
		switch c := name[i]; {
		case strings.IndexByte("_-. ", c) >= 0:
			cut(i)
			from = i + 1
		case i > 0 && 'A' <= c && c <= 'Z' && 'a' <= name[i-1] && name[i-1] <= 'z':
			cut(i)
		}
	}
	cut(len(name))
	return words
}

// secretKey says whether the value of such a key of JSON is secret: whole for each kind
// of value, or only if it is a text, a list or an object, unlike that of "max_tokens".
func secretKey(key string) (isSecret, evenNumbers bool) {
	together := strings.Join(nameWords(key), "")
	for _, word := range []string{
		"password", "passwd", "passphrase", "secret", "apikey", "accesskey", "privatekey", "credential", "authorization", "cookie",
	} {
		if strings.Contains(together, word) {
			return true, true
		}
	}
	g := gradeOf(key)
	return g >= gradeAssigned, g == gradeAlways
}

// plainValue is what is no secret: numbers, and names of values and types.
var plainValue = regexp.MustCompile(`^(?:-?[0-9][0-9._]*[a-zA-Z%]{0,2}|true|false|null|nil|none|None|undefined|yes|no|on|off)(?:[\s"',;)}\]&]|$)`)

func (s *scan) isPlain(i int) bool { return plainValue.MatchString(s.text[i:min(len(s.text), i+24)]) }

// typeValue and callValue are what a program says, and not what it holds: a type, or a
// call without a text in it.
var (
	typeValue = regexp.MustCompile(`^[*?]?(?:\[\])?(?:string|str|bytes?|boolean|bool|number|int|any|null|nil|None|undefined)(?:\s*[,;)}|=]|\s*[\r\n]|\s*$)`)
	callValue = regexp.MustCompile("^[A-Za-z_][A-Za-z0-9_.]*\\([^\"'`\\n]{0,80}\\)[;,{ )]*(?:[\\r\\n]|$)")
)

func (s *scan) isType(i int) bool { return typeValue.MatchString(s.text[i:min(len(s.text), i+24)]) }
func (s *scan) isCall(i int) bool { return callValue.MatchString(s.text[i:min(len(s.text), i+160)]) }
