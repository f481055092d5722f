package schema

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/santhosh-tekuri/jsonschema/v5"
)

// How much of a value and of its problems an error repeats.
const (
	maxProblems     = 5
	maxPathBytes    = 2000
	maxTokenBytes   = 100 // of one key in a path
	maxMessageBytes = 400
	maxQuotedBytes  = 60 // of a value in a message
)

// A Problem is one thing that is wrong with a JSON value.
type Problem struct {
	// Path is the JSON pointer of the place in the value, "" for the whole. Keys
	// over 100 bytes are cut, and long paths lose their middle.
	Path string
	// Message says what was expected there and what was found. It repeats little
	// of the value.
	Message string
}

func (p Problem) String() string {
	if p.Path == "" {
		return "value: " + p.Message
	}
	return p.Path + ": " + p.Message
}

// in is the problem as seen from the object or array that holds the value under key.
func (p *Problem) in(key string) *Problem {
	p.Path = pointer(key) + p.Path
	return p
}

// bounded is the problem with its length limited.
func (p Problem) bounded() Problem {
	if len(p.Path) > maxPathBytes {
		half := maxPathBytes / 2
		p.Path = cut(p.Path, half) + "…" + strings.ToValidUTF8(p.Path[len(p.Path)-half:], "")
	}
	p.Message = cut(p.Message, maxMessageBytes)
	return p
}

// InvalidValue is the error of a JSON text that cannot be accepted (law 11). Its
// text is bounded and may be shown to a model.
type InvalidValue struct {
	// Problems are sorted by path. There is at least one and there are at most five.
	Problems []Problem
	// More is how many other problems there are.
	More int
}

func (e *InvalidValue) Error() string {
	texts := make([]string, len(e.Problems))
	for i, p := range e.Problems {
		texts[i] = p.String()
	}
	text := strings.Join(texts, "; ")
	if e.More > 0 {
		text += fmt.Sprintf("; and %d more", e.More)
	}
	return text
}

func invalid(path, format string, args ...any) *InvalidValue {
	return &InvalidValue{Problems: []Problem{Problem{path, fmt.Sprintf(format, args...)}.bounded()}}
}

// explain turns what the validator says of v into our words. schemaAt finds a
// subschema by its absolute location, or is nil.
func explain(err *jsonschema.ValidationError, v any, schemaAt func(location string) *jsonschema.Schema) *InvalidValue {
	found := leaves(err)
	// The first few in order; there may be very many, and wording is dear.
	order := func(a, b *jsonschema.ValidationError) int {
		return cmp.Or(cmp.Compare(a.InstanceLocation, b.InstanceLocation), cmp.Compare(a.Message, b.Message))
	}
	slices.SortFunc(found, order)
	found = slices.CompactFunc(found, func(a, b *jsonschema.ValidationError) bool { return order(a, b) == 0 })
	e := &InvalidValue{More: max(0, len(found)-maxProblems)}
	for _, leaf := range found[:len(found)-e.More] {
		keys := splitPointer(leaf.InstanceLocation)
		p := Problem{Message: wording(leaf, validated(leaf, v, keys), schemaAt)}
		for _, key := range keys {
			p.Path += pointer(key)
		}
		e.Problems = append(e.Problems, p.bounded())
	}
	return e
}

// leaves are the errors that say what is wrong, without those that only say
// which subschema they come from.
func leaves(err *jsonschema.ValidationError) []*jsonschema.ValidationError {
	switch {
	case len(err.Causes) == 0, strings.HasPrefix(err.Message, "valid must be"): // minContains: its causes are each item's
		return []*jsonschema.ValidationError{err}
	case err.Message == "anyOf failed", err.Message == "oneOf failed":
		return closest(err)
	}
	var all []*jsonschema.ValidationError
	for _, cause := range err.Causes {
		all = append(all, leaves(cause)...)
	}
	return all
}

// closest is what is wrong with the alternative that the author probably meant:
// of those whose type is right the one with the fewest errors. When the type is
// wrong for all, one error names all types.
func closest(err *jsonschema.ValidationError) []*jsonschema.ValidationError {
	var best []*jsonschema.ValidationError
	var types []string
	for _, alternative := range err.Causes {
		found := leaves(alternative)
		if expected, ok := expectedType(found[0]); ok && len(found) == 1 && found[0].InstanceLocation == err.InstanceLocation {
			types = append(types, expected)
		} else if best == nil || len(found) < len(best) {
			best = found
		}
	}
	if best == nil {
		merged := *err
		merged.Causes = nil
		merged.Message = typeMessage(strings.Join(slices.Compact(types), " or "))
		best = []*jsonschema.ValidationError{&merged}
	}
	return best
}

// The validator's words for a wrong type, and back.
func typeMessage(expected string) string { return "expected " + expected + ", but got" }

func expectedType(leaf *jsonschema.ValidationError) (string, bool) {
	head, _, ok := strings.Cut(leaf.Message, ", but got")
	if !ok {
		return "", false
	}
	return strings.CutPrefix(head, "expected ")
}

func wording(leaf *jsonschema.ValidationError, v any, schemaAt func(string) *jsonschema.Schema) string {
	got := ", got " + describe(v)
	if expected, ok := expectedType(leaf); ok {
		return "expected " + expected + got
	}
	if location, ok := strings.CutSuffix(leaf.AbsoluteKeywordLocation, "/enum"); ok && schemaAt != nil {
		if s := schemaAt(location); s != nil && len(s.Enum) > 0 {
			return "expected one of " + encode(s.Enum, maxMessageBytes/2) + got
		}
	}
	if location, ok := strings.CutSuffix(leaf.AbsoluteKeywordLocation, "/const"); ok && schemaAt != nil {
		if s := schemaAt(location); s != nil && len(s.Constant) > 0 {
			return "expected " + encode(s.Constant[0], maxMessageBytes/2) + got
		}
	}
	if i := strings.LastIndex(leaf.Message, " is not valid "); i >= 0 && strings.HasSuffix(leaf.AbsoluteKeywordLocation, "/format") {
		return "expected format " + strings.Trim(leaf.Message[i+len(" is not valid "):], "'") + got
	}
	switch leaf.Message {
	case "not allowed":
		return "nothing is allowed here" + got
	case "not failed":
		return "expected something that the schema does not exclude" + got
	}
	if location, ok := strings.CutSuffix(leaf.AbsoluteKeywordLocation, "/additionalProperties"); ok && schemaAt != nil {
		if s := schemaAt(location); s != nil && len(s.Properties) > 0 && len(s.PatternProperties) == 0 {
			return cut(leaf.Message, maxMessageBytes/2) + "; the keys here are " + cut(strings.Join(allowedKeys(s), ", "), maxMessageBytes/2)
		}
	}
	if strings.HasSuffix(leaf.AbsoluteKeywordLocation, "/pattern") {
		return cut(leaf.Message, maxMessageBytes/2) + got
	}
	return leaf.Message
}

// allowedKeys are the keys that a schema declares, sorted, without those that may not be there.
func allowedKeys(s *jsonschema.Schema) []string {
	var keys []string
	for key, property := range s.Properties {
		if property.Always == nil || *property.Always {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	return keys
}

// describe names a value by its type and, if it is a scalar, by its beginning.
func describe(v any) string {
	switch v := v.(type) {
	case nil:
		return "null"
	case bool:
		return "boolean " + strconv.FormatBool(v)
	case json.Number:
		return "number " + cut(v.String(), maxQuotedBytes)
	case string:
		return "string " + strconv.Quote(cut(v, maxQuotedBytes))
	case []any:
		return fmt.Sprintf("array of %d", len(v))
	default:
		return "object"
	}
}

// encode is v as JSON, at most limit bytes of it.
func encode(v any, limit int) string {
	text, err := json.Marshal(v)
	if err != nil {
		return describe(v)
	}
	return cut(string(text), limit)
}

// cut is at most limit bytes of s, cut between characters and marked.
func cut(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	for limit > 0 && !utf8.RuneStart(s[limit]) {
		limit--
	}
	return s[:limit] + "…"
}

// pointer is a JSON pointer of one key.
func pointer(key string) string {
	key = strings.ReplaceAll(cut(key, maxTokenBytes), "~", "~0")
	return "/" + strings.ReplaceAll(key, "/", "~1")
}

// splitPointer undoes the validator's way of writing a JSON pointer.
func splitPointer(p string) []string {
	if p == "" {
		return nil
	}
	keys := strings.Split(p[1:], "/")
	for i, key := range keys {
		if plain, err := url.PathUnescape(key); err == nil {
			key = plain
		}
		keys[i] = strings.ReplaceAll(strings.ReplaceAll(key, "~1", "/"), "~0", "~")
	}
	return keys
}

// validated is what the leaf is about: the value at keys, or the last key itself
// where propertyNames looked at it.
func validated(leaf *jsonschema.ValidationError, v any, keys []string) any {
	at := leaf.KeywordLocation
	if strings.Contains(at, "/propertyNames") && !strings.Contains(at, "/properties/propertyNames") && len(keys) > 0 {
		return keys[len(keys)-1]
	}
	return lookup(v, keys)
}

// lookup follows keys into v; where they lead nowhere it answers what it reached.
func lookup(v any, keys []string) any {
	for _, key := range keys {
		switch holder := v.(type) {
		case map[string]any:
			v = holder[key]
		case []any:
			i, err := strconv.Atoi(key)
			if err != nil || i < 0 || i >= len(holder) {
				return v
			}
			v = holder[i]
		default:
			return v
		}
	}
	return v
}
