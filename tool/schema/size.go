package schema

import (
	"encoding/json"
	"math/big"
	"regexp/syntax"
)

// MaxSize is the most a compiled schema may occupy, as [Schema.Size] counts
// it.
const MaxSize = 8 << 20

// What a compiled schema occupies, in bytes. A few bytes of text can become a
// thousand times as many: a repetition in a pattern is written out, and every
// subschema has its tables. The figures were measured, and are rather too high.
const (
	sizeOfNode     = 2048 // ours and the validator's, with its maps
	sizeOfDeclared = 200  // a key, in two tables
	sizeOfMember   = 180  // a subschema or a key that combines with others
	sizeOfValue    = 64   // in enum or const
	sizeOfObject   = 400  // there, with its map
	sizeOfBound    = 128  // minimum and the like, beside its digits

	sizeOfInstruction = 64  // of a pattern's program
	sizeOfDeciding    = 200 // where it may also be had in the form that decides at once
	maxDeciding       = 1000
	sizeOfRune        = 8 // of a character class
)

// Size is about how many bytes of memory the schema occupies, its text included:
// at most [MaxSize]. It is the same for the same text, rather too high, and
// meant for budgets (law 5).
func (s *Schema) Size() int { return s.size }

// size is what s and the validator's schema occupy together.
func (s *shape) size() int {
	size := sizeOfMember * s.members
	for schema, n := range s.nodes {
		size += sizeOfNode + len(schema.Location) + sizeOfDeclared*n.declaredNames()
		for _, v := range schema.Enum {
			size += valueSize(v)
		}
		for _, v := range schema.Constant {
			size += valueSize(v)
		}
		for _, bound := range []*big.Rat{schema.Minimum, schema.Maximum, schema.ExclusiveMinimum, schema.ExclusiveMaximum, schema.MultipleOf} {
			if bound != nil {
				size += sizeOfBound + (bound.Num().BitLen()+bound.Denom().BitLen())/4
			}
		}
		if schema.Pattern != nil {
			size += patternBytes(schema.Pattern.String())
		}
		for pattern := range schema.PatternProperties {
			size += patternBytes(pattern.String())
		}
	}
	return size
}

func valueSize(v any) int {
	switch v := v.(type) {
	case map[string]any:
		size := sizeOfObject
		for key, child := range v {
			size += sizeOfValue + len(key) + valueSize(child)
		}
		return size
	case []any:
		size := sizeOfValue
		for _, child := range v {
			size += valueSize(child)
		}
		return size
	case string:
		return sizeOfValue + 2*len(v) // it stands in the message too
	case json.Number:
		return sizeOfValue + 2*len(v)
	default:
		return sizeOfValue
	}
}

// patternBytes is what a compiled regular expression occupies; 0 for one that
// cannot be compiled.
func patternBytes(pattern string) int {
	re, err := syntax.Parse(pattern, syntax.Perl)
	if err != nil {
		return 0
	}
	instructions, runes := programOf(re)
	each := sizeOfInstruction
	if instructions < maxDeciding {
		each = sizeOfDeciding
	}
	return each*(2+instructions) + sizeOfRune*runes + len(pattern)
}

// programOf counts the instructions that re becomes, and the bounds of its
// character classes.
func programOf(re *syntax.Regexp) (instructions, runes int) {
	switch re.Op {
	case syntax.OpLiteral:
		return len(re.Rune), 0
	case syntax.OpCharClass:
		return 1, len(re.Rune)
	}
	for _, sub := range re.Sub {
		i, r := programOf(sub)
		instructions, runes = instructions+i, runes+r
	}
	switch re.Op {
	case syntax.OpRepeat:
		times := max(re.Min, re.Max, 1)
		return times*instructions + max(re.Max-re.Min, 0) + 1, times * runes
	case syntax.OpConcat:
		return instructions, runes
	case syntax.OpAlternate:
		return instructions + len(re.Sub), runes
	case syntax.OpCapture:
		return instructions + 2, runes
	}
	return instructions + 1, runes
}
