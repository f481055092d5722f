package command

import (
	"strconv"
	"strings"
	"unicode/utf8"

	"mvdan.cc/sh/v3/expand"
	"mvdan.cc/sh/v3/syntax"
)

// A word is one word of a command.
type word struct {
	// raw is as it was written, text without quoting, with expansions as they were
	// written, and bare with nothing in the place of expansions.
	raw, text, bare string
	// doubt is why the word is only known when the line runs.
	doubt string
	// pattern says that it may become names of files, home that it begins with a
	// tilde, and quoted that some of it is quoted, so that it stays when it is empty.
	pattern, home, quoted bool
}

// known reports whether the word is what it says, wherever it stands.
func (w word) known() bool { return w.doubt == "" && !w.pattern && !w.home }

// words are the words that a command gets, with braces expanded.
func (s *script) words(all []*syntax.Word) []word {
	words := make([]word, 0, len(all))
	for _, w := range all {
		whole := s.argument(w)
		if s.language != syntax.LangBash || strings.IndexByte(whole.raw, '{') < 0 {
			words = append(words, whole)
			continue
		}
		split := &syntax.Word{Parts: append([]syntax.WordPart(nil), w.Parts...)}
		if !syntax.SplitBraces(split) {
			words = append(words, whole)
			continue
		}
		words = append(words, s.braces(whole, split)...)
	}
	return words
}

// braces are the words that one word with braces becomes.
func (s *script) braces(whole word, split *syntax.Word) []word {
	var words []word
	for one, err := range expand.BracesSeq(nil, split) {
		if err != nil || len(words) == maxBraces {
			whole.doubt = "has braces that become very many words"
			return []word{whole}
		}
		expanded := s.argument(one)
		expanded.raw = whole.raw
		if expanded.text != "" || expanded.quoted {
			words = append(words, expanded)
		}
	}
	return words
}

// argument is a word of a command. What becomes names of files is only known when the
// line runs: they may be anything, also what a rule denies, and options.
func (s *script) argument(w *syntax.Word) word {
	result := s.word(w)
	if result.pattern {
		result.doubt = firstOf(result.doubt, "has "+shortened(result.raw)+" in it, which becomes names that are only known when it runs")
	}
	return result
}

// word takes the quoting off one word.
func (s *script) word(w *syntax.Word) word {
	result := word{raw: s.source(w)}
	if len(w.Parts) == 1 {
		if lit, is := w.Parts[0].(*syntax.Lit); is && !strings.ContainsAny(lit.Value, "\\*?[~") {
			result.text, result.bare = lit.Value, lit.Value
			return result
		}
	}
	u := unquoting{script: s, word: &result}
	for i, part := range w.Parts {
		u.part(part, i == 0, false)
	}
	result.text, result.bare = u.text.String(), u.bare.String()
	return result
}

// expanded is a here-document that is expanded, with expansions as they were
// written.
func (s *script) expanded(w *syntax.Word) string {
	u := unquoting{script: s, word: &word{}}
	for _, part := range w.Parts {
		u.part(part, false, true)
	}
	return u.text.String()
}

// unquoting is a word on its way.
type unquoting struct {
	*script
	word       *word
	text, bare strings.Builder
}

func (u *unquoting) add(text string) {
	u.text.WriteString(text)
	u.bare.WriteString(text)
}

func (u *unquoting) part(part syntax.WordPart, first, double bool) {
	switch p := part.(type) {
	case *syntax.Lit:
		u.literal(p.Value, first, double)
	case *syntax.SglQuoted:
		u.word.quoted = true
		if p.Dollar {
			u.add(decode(p.Value))
		} else {
			u.add(p.Value)
		}
	case *syntax.DblQuoted:
		u.word.quoted = true
		if p.Dollar {
			u.word.doubt = firstOf(u.word.doubt, "has text that is translated when it runs")
		}
		for _, inner := range p.Parts {
			u.part(inner, false, true)
		}
	case *syntax.ExtGlob:
		u.word.pattern = true
		u.add(u.source(p))
	default:
		raw := u.source(part)
		u.word.doubt = firstOf(u.word.doubt, "has "+shortened(raw)+" in it, which is only known when it runs")
		u.text.WriteString(raw)
	}
}

// shortened is a text for a message.
func shortened(text string) string {
	const most = 60
	if len(text) <= most {
		return text
	}
	end := most
	for !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end] + "…"
}

func (u *unquoting) literal(text string, first, double bool) {
	for i := 0; i < len(text); i++ {
		c := text[i]
		switch {
		case c == '\\' && i+1 < len(text) && (!double || strings.IndexByte("$`\"\\\n", text[i+1]) >= 0):
			i++
			u.word.quoted = true
			if text[i] != '\n' {
				u.add(text[i : i+1])
			}
			continue
		case double:
		case c == '*', c == '?', c == '[':
			u.word.pattern = true
		case c == '~' && first && i == 0:
			u.word.home = true
		}
		u.add(text[i : i+1])
	}
}

// decode is the text of $'…'. A NUL ends it, as it does in the shells.
func decode(text string) string {
	var b strings.Builder
	for i := 0; i < len(text); i++ {
		if text[i] != '\\' || i+1 == len(text) {
			b.WriteByte(text[i])
			continue
		}
		i++
		c := text[i]
		var most int
		digits, base := "", 16
		switch c {
		case 'n', 't', 'r', 'a', 'b', 'f', 'v', 'e', 'E':
			b.WriteByte("\n\t\r\a\b\f\v\x1b\x1b"[strings.IndexByte("ntrabfveE", c)])
			continue
		case 'c':
			if i+1 < len(text) {
				i++
				b.WriteByte(text[i] & 0x1f)
			}
			continue
		case '\\', '\'', '"', '?':
			b.WriteByte(c)
			continue
		case 'x':
			most = 2
		case 'u':
			most = 4
		case 'U':
			most = 8
		case '0', '1', '2', '3', '4', '5', '6', '7':
			base, most = 8, 3
			i--
		default:
			b.WriteByte('\\')
			b.WriteByte(c)
			continue
		}
		for len(digits) < most && i+1 < len(text) && digit(text[i+1], base) {
			i++
			digits += text[i : i+1]
		}
		value, err := strconv.ParseUint(digits, base, 32)
		switch {
		case err != nil: // no digits: it is no escape
			b.WriteByte('\\')
			b.WriteByte(c)
		case value == 0:
			return b.String()
		case c == 'u' || c == 'U':
			b.WriteRune(rune(value))
		default:
			b.WriteByte(byte(value))
		}
	}
	return b.String()
}

func digit(c byte, base int) bool {
	if base == 8 {
		return '0' <= c && c <= '7'
	}
	return '0' <= c && c <= '9' || 'a' <= c|0x20 && c|0x20 <= 'f'
}
