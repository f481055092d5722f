// Package document reads a config file's text into a tree of nodes that know
// where they stand. It is all that knows the YAML library.
//
// The language is YAML 1.2, and so JSON, without what makes a file mean
// something else than it seems to, which matters in a file that says what is
// allowed: no anchors and aliases, no tags, no directives, no merge keys, no
// second document, no text over several lines unless it is quoted or a block, no
// number that versions of YAML read differently. A file is bounded in bytes, tokens
// and nesting, so that none takes more than about a second to refuse.
package document

import (
	"cmp"
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/lexer"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"
)

// The bounds of a file.
const (
	MaxBytes = 1 << 20
	// MaxDepth is how deep collections may be nested.
	MaxDepth = 32

	maxTokens = 100_000
	// maxKeys bounds the keys outside of braces: the parser takes time in the square
	// of their number.
	maxKeys = 10_000
	// maxKey bounds a key, in bytes: the parser copies those around a value for each
	// value.
	maxKey = 1024
	// maxMarks bounds how many collections and keys one line opens outside of
	// brackets, each of which is a level of the parser's stack.
	maxMarks = 64
)

// Kind is what a node is.
type Kind uint8

// The kinds.
const (
	Null Kind = iota
	Bool
	Number
	Text
	Sequence
	Mapping
)

// String is the kind for a person.
func (k Kind) String() string {
	return [...]string{"nothing", "true or false", "a number", "a text", "a list", "a mapping"}[k]
}

// A Position is a place in the file, both from 1; the column counts characters.
type Position struct{ Line, Column int }

// Compare orders positions as they follow in the file.
func (p Position) Compare(q Position) int {
	return cmp.Or(cmp.Compare(p.Line, q.Line), cmp.Compare(p.Column, q.Column))
}

// A Node is one value of the file.
type Node struct {
	Kind Kind
	At   Position
	// Text is the value of a Text; of a Number its JSON text, with every digit; of a
	// Bool "true" or "false".
	Text string
	// Items are those of a Sequence.
	Items []*Node
	// Entries are those of a Mapping, in the file's order, with distinct keys that
	// have no control characters.
	Entries []Entry
}

// An Entry is a key of a mapping with its value.
type Entry struct {
	Key   string
	At    Position
	Value *Node
}

// A Mistake is something wrong with a file.
type Mistake struct {
	At   Position
	Text string
}

// Parse reads a file. The tree is nil when the text could not be understood as
// far as its end; then there is at least one mistake. Parse never panics.
func Parse(data []byte) (root *Node, mistakes []Mistake) {
	text := strings.TrimPrefix(string(data), "\ufeff")
	if mistake := checkText(text); mistake != nil {
		return nil, []Mistake{*mistake}
	}
	lines := splitLines(text)
	file, mistake := parse(text)
	if mistake != nil {
		mistake.At = lines.beginning(mistake.At)
		return nil, []Mistake{*mistake}
	}
	b := &builder{lines: lines}
	root = b.document(file)
	return root, b.mistakes
}

// checkText reports what no config file contains.
func checkText(text string) *Mistake {
	if len(text) > MaxBytes {
		return &Mistake{Position{1, 1}, fmt.Sprintf("file has more than %d bytes", MaxBytes)}
	}
	at := Position{1, 0}
	for i, r := range text {
		at.Column++
		switch {
		case r == utf8.RuneError && !strings.HasPrefix(text[i:], "\ufffd"):
			return &Mistake{at, "file is not UTF-8 here"}
		case r == '\n':
			at = Position{at.Line + 1, 0}
		case r == '\r' && !strings.HasPrefix(text[i:], "\r\n"):
			return &Mistake{at, "file has a carriage return here that ends no line: what follows would be read as a line and not be seen as one"}
		case unicode.IsControl(r) && r != '\t' && r != '\r' && r != '\u0085':
			return &Mistake{at, fmt.Sprintf("file has the control character %U here", r)}
		}
	}
	return nil
}

// parse runs the YAML parser within the bounds. Duplicate keys are left to the
// builder, which reports all of them.
func parse(text string) (file *ast.File, mistake *Mistake) {
	defer func() {
		if recover() != nil { // the parser's own defect, on a text that somebody else wrote
			file, mistake = nil, &Mistake{Position{1, 1}, "file cannot be read as YAML"}
		}
	}()
	tokens := joinPlain(lexer.Tokenize(text))
	if mistake := checkTokens(tokens); mistake != nil {
		return nil, mistake
	}
	file, err := parser.Parse(tokens, 0, parser.AllowDuplicateMapKey())
	if err == nil {
		return file, nil
	}
	syntax, ok := errors.AsType[yaml.Error](err)
	if !ok {
		return nil, &Mistake{Position{1, 1}, err.Error()}
	}
	mistake = &Mistake{Position{1, 1}, syntax.GetMessage()} // its Error draws the file, which takes time in the square of a line
	if t := syntax.GetToken(); t != nil && t.Position != nil {
		mistake.At = Position{t.Position.Line, t.Position.Column}
	}
	return nil, mistake
}

// checkTokens reports what is not part of the language, and what would take the
// parser too much time or stack.
func checkTokens(tokens token.Tokens) *Mistake {
	depth, keys, marks, line := 0, 0, 0, 0
	for i, t := range tokens {
		at := Position{t.Position.Line, t.Position.Column}
		if at.Line != line {
			line, marks = at.Line, 0
		}
		switch t.Type {
		case token.MappingStartType, token.SequenceStartType:
			depth++
		case token.MappingEndType, token.SequenceEndType:
			depth = max(depth-1, 0)
		case token.MappingValueType:
			if depth == 0 {
				marks++
				keys++
			}
		case token.SequenceEntryType:
			if depth == 0 {
				marks++
			}
		}
		if text := foreign(tokens, i, depth); text != "" {
			return &Mistake{at, text}
		}
		switch {
		case i >= maxTokens:
			return &Mistake{at, fmt.Sprintf("file has more than %d tokens", maxTokens)}
		case t.Type == token.MappingValueType && i > 0 && len(tokens[i-1].Value) > maxKey:
			return &Mistake{at, fmt.Sprintf("key has more than %d bytes", maxKey)}
		case depth > MaxDepth:
			return &Mistake{at, fmt.Sprintf("brackets are nested more than %d deep", MaxDepth)}
		case keys > maxKeys:
			return &Mistake{at, fmt.Sprintf("file has more than %d keys outside of braces", maxKeys)}
		case marks > maxMarks:
			return &Mistake{at, fmt.Sprintf("line opens more than %d collections", maxMarks)}
		}
	}
	return nil
}

// foreign says why the token is not part of the language, or nothing. The last
// two are what this parser reads differently from others.
func foreign(tokens token.Tokens, i, depth int) string {
	t := tokens[i]
	switch t.Type {
	case token.AliasType:
		return `a text that begins with "*" must be put in quotes; aliases are not part of a config file`
	case token.AnchorType:
		return `a text that begins with "&" must be put in quotes; anchors are not part of a config file`
	case token.TagType:
		return `a text that begins with "!" must be put in quotes; tags are not part of a config file`
	case token.MappingKeyType:
		return `a text that begins with "?" must be put in quotes; keys of several lines are not part of a config file`
	case token.DirectiveType:
		return "directives are not part of a config file"
	case token.SequenceEntryType:
		if depth == 0 && isEmptyItem(t, tokens[i+1:]) {
			return `item of the list is empty; write "- null" if that is meant`
		}
	case token.MappingValueType:
		if depth > 0 && i > 0 && i+1 < len(tokens) && isGlued(tokens[i-1], t, tokens[i+1]) {
			return `":" must be followed by a space, or the text put in quotes`
		}
	}
	return ""
}

// isEmptyItem reports a dash that nothing belongs to although something follows
// that is no item: the parser would take that for the item.
func isEmptyItem(dash *token.Token, after token.Tokens) bool {
	for _, next := range after {
		if next.Type != token.CommentType {
			return next.Position.Line > dash.Position.Line && next.Position.Column <= dash.Position.Column &&
				next.Type != token.SequenceEntryType && next.Type != token.DocumentHeaderType && next.Type != token.DocumentEndType
		}
	}
	return false
}

// isGlued reports a colon inside of brackets with a value right behind it; behind
// a quoted key, as in JSON, that is as it should be.
func isGlued(key, colon, value *token.Token) bool {
	if key.Type == token.SingleQuoteType || key.Type == token.DoubleQuoteType {
		return false
	}
	switch value.Type {
	case token.CollectEntryType, token.MappingEndType, token.SequenceEndType:
		return false
	}
	return value.Position.Line == colon.Position.Line && value.Position.Column == colon.Position.Column+1
}

// joinPlain puts together what the lexer takes apart inside of braces, where a
// colon without a space behind it belongs to the text: filesystem:read is one.
func joinPlain(tokens token.Tokens) token.Tokens {
	joined := tokens[:0]
	depth := 0
	for i := 0; i < len(tokens); i++ {
		t := tokens[i]
		switch t.Type {
		case token.MappingStartType, token.SequenceStartType:
			depth++
		case token.MappingEndType, token.SequenceEndType:
			depth--
		case token.MappingValueType:
			if last := len(joined) - 1; depth > 0 && last >= 0 && i+1 < len(tokens) && isPlain(joined[last]) && isPlain(tokens[i+1]) &&
				isRightBehind(joined[last], t) && isGlued(joined[last], t, tokens[i+1]) {
				joined[last] = join(joined[last], tokens[i+1])
				i++
				continue
			}
		}
		joined = append(joined, t)
	}
	return joined
}

// isPlain reports a scalar without quotes, and without a second key in it, as the
// lexer makes one of the end of {a:b: c}.
func isPlain(t *token.Token) bool {
	if strings.Contains(t.Value, ": ") {
		return false
	}
	switch t.Type {
	case token.StringType, token.IntegerType, token.FloatType, token.BoolType, token.NullType,
		token.BinaryIntegerType, token.OctetIntegerType, token.HexIntegerType, token.InfinityType, token.NanType:
		return true
	default:
		return false
	}
}

// isRightBehind reports a token that stands where the text before it ends.
func isRightBehind(before, t *token.Token) bool {
	return t.Position.Line == before.Position.Line && t.Position.Column == before.Position.Column+utf8.RuneCountInString(before.Value)
}

// join is the text that begins with one token and ends with another, with the
// colon between them.
func join(first, last *token.Token) *token.Token {
	text := *first
	text.Type, text.CharacterType, text.Indicator = token.StringType, token.CharacterTypeMiscellaneous, token.NotIndicator
	text.Value += ":" + last.Value
	text.Origin += ":" + last.Origin
	if text.Next = last.Next; text.Next != nil {
		text.Next.Prev = &text
	}
	if text.Prev != nil {
		text.Prev.Next = &text
	}
	return &text
}

// lines are those of a file, for looking at single characters.
type lines struct {
	texts []string
	runes [][]rune // of the lines that were looked at: a line may be the whole file
}

func splitLines(text string) *lines {
	texts := strings.Split(text, "\n")
	return &lines{texts, make([][]rune, len(texts))}
}

// beginning corrects a position of the parser that stands on the blanks before
// what it is about.
func (l *lines) beginning(at Position) Position {
	if at.Line < 1 || at.Line > len(l.texts) || at.Column < 1 {
		return at
	}
	line := &l.runes[at.Line-1]
	if *line == nil {
		*line = []rune(l.texts[at.Line-1])
	}
	for i := at.Column - 1; i < len(*line); i++ {
		if !unicode.IsSpace((*line)[i]) {
			at.Column = i + 1
			break
		}
	}
	return at
}
