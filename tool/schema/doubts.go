package schema

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/big"
	"slices"
	"strconv"
	"strings"
)

const (
	maxDoubts     = 8
	maxDoubtDepth = 64
)

// Doubts are parts of the schema that are valid, and that no value can meet or that
// say nothing, each with its place: a list of values of which none has the declared
// type, or a list that is longer at least than at most. A schema with doubts is
// enforced as it stands. There are at most eight.
func (s *Schema) Doubts() []string { return slices.Clone(s.doubts) }

// doubter looks for parts that contradict each other.
type doubter struct{ found []string }

func doubts(doc any) []string {
	d := &doubter{}
	d.visit(doc, "", 0)
	return d.found
}

func (d *doubter) visit(v any, path string, depth int) {
	if depth > maxDoubtDepth || len(d.found) >= maxDoubts || len(path) > maxSchemaPath {
		return
	}
	switch v := v.(type) {
	case map[string]any:
		d.look(v, path)
		for _, key := range slices.Sorted(maps.Keys(v)) {
			if key != "enum" && key != "const" && key != "default" && key != "examples" { // values, not schemas
				d.visit(v[key], path+pointer(key), depth+1)
			}
		}
	case []any:
		for i, item := range v {
			d.visit(item, path+"/"+strconv.Itoa(i), depth+1)
		}
	}
}

// look looks at one subschema, or at what looks like one.
func (d *doubter) look(schema map[string]any, path string) {
	if types := typesOf(schema["type"]); len(types) > 0 {
		for _, key := range []string{"enum", "const"} {
			values, ok := schema[key].([]any)
			if v, there := schema["const"]; key == "const" && there {
				values, ok = []any{v}, true
			}
			if ok && len(values) > 0 && !slices.ContainsFunc(values, func(v any) bool { return hasType(v, types) }) {
				d.add(path, "no value of %s has the type %s", key, strings.Join(types, " or "))
			}
		}
	}
	for _, pair := range [][2]string{
		{"minimum", "maximum"}, {"minLength", "maxLength"}, {"minItems", "maxItems"}, {"minProperties", "maxProperties"},
	} {
		least, most := number(schema[pair[0]]), number(schema[pair[1]])
		if least != nil && most != nil && least.Cmp(most) > 0 {
			d.add(path, "%s is above %s", pair[0], pair[1])
		}
	}
}

func (d *doubter) add(path, format string, args ...any) {
	if len(d.found) < maxDoubts {
		if path == "" {
			path = "/"
		}
		d.found = append(d.found, cut(path+": "+fmt.Sprintf(format, args...), maxMessageBytes))
	}
}

// typesOf are the names of "type".
func typesOf(v any) []string {
	switch v := v.(type) {
	case string:
		return []string{v}
	case []any:
		var types []string
		for _, t := range v {
			if name, ok := t.(string); ok {
				types = append(types, name)
			}
		}
		return types
	}
	return nil
}

// hasType reports whether a value has one of the types.
func hasType(v any, types []string) bool {
	name := ""
	switch v := v.(type) {
	case nil:
		name = "null"
	case bool:
		name = "boolean"
	case string:
		name = "string"
	case []any:
		name = "array"
	case map[string]any:
		name = "object"
	case json.Number:
		if whole := number(v); whole != nil && whole.IsInt() && slices.Contains(types, "integer") {
			return true
		}
		name = "number"
	}
	return slices.Contains(types, name)
}

// number is an exact number, or nil for what is none or is too long to be one.
func number(v any) *big.Rat {
	n, ok := v.(json.Number)
	if !ok || len(n) > 32 || strings.ContainsAny(n.String(), "eE") {
		return nil
	}
	rat, ok := new(big.Rat).SetString(n.String())
	if !ok {
		return nil
	}
	return rat
}
