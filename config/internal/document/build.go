package document

import (
	"fmt"
	"math/big"
	"strings"
	"unicode"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/token"
)

// builder turns the parser's tree into nodes.
type builder struct {
	lines    *lines
	mistakes []Mistake // in the order of the file
}

func (b *builder) mistake(at Position, format string, args ...any) {
	b.mistakes = append(b.mistakes, Mistake{at, fmt.Sprintf(format, args...)})
}

// at is where a token stands.
func (b *builder) at(t *token.Token) Position {
	if t == nil || t.Position == nil {
		return Position{1, 1}
	}
	at := Position{t.Position.Line, t.Position.Column}
	if t.Type == token.ImplicitNullType {
		return at
	}
	return b.lines.beginning(at)
}

// document builds the one document of the file; an empty file is Null.
func (b *builder) document(file *ast.File) *Node {
	root := &Node{At: Position{1, 1}}
	seen := false
	for _, doc := range file.Docs {
		switch {
		case doc.Body == nil: // nothing, or comments only
		case seen:
			b.mistake(b.at(doc.Body.GetToken()), "file has a second document; everything belongs in one")
			return root
		default:
			seen = true
			root = b.node(doc.Body, 0)
		}
	}
	return root
}

// node builds one value. What is wrong with it becomes a mistake and Null.
func (b *builder) node(n ast.Node, depth int) *Node {
	node := &Node{At: b.at(n.GetToken())}
	if depth > MaxDepth {
		b.mistake(node.At, "values are nested more than %d deep", MaxDepth)
		return node
	}
	switch n := n.(type) {
	case *ast.MappingNode:
		b.mapping(node, n.Values, depth)
	case *ast.MappingValueNode:
		b.mapping(node, []*ast.MappingValueNode{n}, depth)
	case *ast.SequenceNode:
		node.Kind = Sequence
		for _, item := range n.Values {
			node.Items = append(node.Items, b.node(item, depth+1))
		}
	default:
		b.scalar(node, n)
	}
	return node
}

func (b *builder) mapping(node *Node, values []*ast.MappingValueNode, depth int) {
	node.Kind = Mapping
	first := make(map[string]Position, len(values))
	for i, value := range values {
		key, at, ok := b.key(value.Key)
		if i == 0 && at.Compare(node.At) < 0 { // outside of braces the parser says where the colon is
			node.At = at
		}
		if !ok {
			continue
		}
		if before, twice := first[key]; twice {
			b.mistake(at, "key %q is already there at line %d", key, before.Line)
			continue
		}
		first[key] = at
		node.Entries = append(node.Entries, Entry{Key: key, At: at, Value: b.node(value.Value, depth+1)})
	}
}

// key is the text of a key: a scalar is taken as it is spelled.
func (b *builder) key(n ast.MapKeyNode) (key string, at Position, ok bool) {
	at = b.at(n.GetToken())
	switch n := n.(type) {
	case *ast.StringNode:
		key = n.Value
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode, *ast.NullNode, *ast.InfinityNode, *ast.NanNode:
		key = n.GetToken().Value
	case *ast.MergeKeyNode:
		b.mistake(at, "merge keys are not part of a config file")
		return "", at, false
	default:
		b.mistake(at, "a key must be a plain text")
		return "", at, false
	}
	if strings.ContainsFunc(key, unicode.IsControl) {
		b.mistake(at, "key %q has a control character", key)
		return "", at, false
	}
	return key, at, true
}

func (b *builder) scalar(node *Node, n ast.Node) {
	switch n := n.(type) {
	case *ast.NullNode:
	case *ast.BoolNode:
		node.Kind, node.Text = Bool, "false"
		if n.Value {
			node.Text = "true"
		}
	case *ast.IntegerNode, *ast.FloatNode:
		node.Kind = Number
		spelled := n.GetToken().Value
		var ok bool
		if node.Text, ok = jsonNumber(spelled); !ok {
			b.mistake(node.At, "number %s is not read alike by every YAML: write it in plain decimal, or put it in quotes", spelled)
		}
	case *ast.InfinityNode, *ast.NanNode:
		b.mistake(node.At, "%s is no number that JSON has; put it in quotes if it is a text", n.GetToken().Value)
	case *ast.LiteralNode:
		node.Kind, node.Text = Text, n.Value.Value
	case *ast.StringNode:
		node.Kind, node.Text = Text, n.Value
		if n.Token.Type != token.StringType { // in quotes
			return
		}
		if strings.ContainsAny(strings.TrimSpace(n.Token.Origin), "\r\n") {
			// The parser's column is that of the text's end as often as not.
			b.mistake(b.lines.beginning(Position{node.At.Line, 1}), "text goes on in another line: put it in quotes, or mend the indentation")
		}
		if number, ok := jsonNumber(n.Value); ok { // one with an exponent, or too large for the parser
			node.Kind, node.Text = Number, number
		}
	default:
		b.mistake(node.At, "this is no value of a config file")
	}
}

// jsonNumber is the JSON text of a number as YAML 1.2 spells it, with every digit
// that was written; ok is false when it is none, or is one that older YAML reads
// differently.
func jsonNumber(spelled string) (text string, ok bool) {
	sign, rest := cutSign(spelled)
	if strings.HasPrefix(rest, "0x") || strings.HasPrefix(rest, "0o") {
		n, ok := new(big.Int).SetString(rest, 0)
		if !ok || strings.Contains(rest, "_") {
			return "", false
		}
		return sign + n.String(), true
	}
	whole, rest := cutDigits(rest)
	fraction := ""
	if after, dot := strings.CutPrefix(rest, "."); dot {
		fraction, rest = cutDigits(after)
	}
	if whole+fraction == "" || (len(whole) > 1 && whole[0] == '0') {
		return "", false
	}
	if rest != "" {
		_, power := cutSign(rest[1:])
		power, junk := cutDigits(power)
		if (rest[0] != 'e' && rest[0] != 'E') || power == "" || junk != "" {
			return "", false
		}
	}
	text = sign + whole
	if whole == "" {
		text += "0"
	}
	if fraction != "" {
		text += "." + fraction
	}
	return text + rest, true
}

// cutSign cuts a sign off; a plus is as good as none.
func cutSign(text string) (sign, rest string) {
	if rest, minus := strings.CutPrefix(text, "-"); minus {
		return "-", rest
	}
	return "", strings.TrimPrefix(text, "+")
}

// cutDigits cuts off the digits that text begins with.
func cutDigits(text string) (digits, rest string) {
	rest = strings.TrimLeft(text, "0123456789")
	return text[:len(text)-len(rest)], rest
}
