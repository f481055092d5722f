package schema

import (
	"fmt"
	"regexp/syntax"
	"strings"
)

// What compiling may take. The validator's compiler trusts its input: it checks
// each subschema against the meta-schema at a cost that grows with the square of
// its depth, and looks through all of them for each of them. The figures were
// measured, in microseconds, and are right within a factor of two.
const (
	maxCompileCost = 1e6

	costOfScalar  = 15 // what a wrong one costs
	costOfObject  = 20
	costOfDepth   = 1.5  // times the square of the depth in objects
	costOfPair    = 0.03 // of subschemas, for each of them
	costOfAnchor  = 0.5  // for each reference by a name, for each subschema
	costOfPattern = 1    // for each instruction

	maxSchemaPath   = 4096 // bytes of the pointer to a subschema
	maxPatternBytes = 4096
	maxPatternSize  = 20_000 // instructions of one pattern's program
)

// A surveyor estimates what compiling a document will take, before it is begun.
type surveyor struct {
	doc     any
	cost    float64
	bytes   int // of the patterns, once they are compiled
	objects float64
	anchors float64             // references by a name or into an embedded resource
	ids     float64             // embedded resources
	refs    map[string]struct{} // pointers into doc that were counted
	dynamic dynamicAnchors
}

// survey refuses a document that would take too long to compile, or whose patterns
// would take too much memory. The error is a
// [*Error].
func survey(doc any) error {
	s := &surveyor{doc: doc, refs: make(map[string]struct{})}
	if err := s.visit(doc, 0, 0); err != nil {
		return err
	}
	s.cost += costOfPair*s.objects*s.objects*(1+min(s.ids, 1)) + costOfAnchor*s.objects*s.anchors
	return s.affordable()
}

func (s *surveyor) affordable() error {
	if s.cost > maxCompileCost {
		return schemaErrorf("it is too large, too deeply nested or refers to itself too often")
	}
	return nil
}

// visit counts v, which stands depth arrays and objects deep, at a path of so
// many bytes. Whatever looks like a keyword is taken for one: that a default
// value holds a very long "pattern" is no loss.
func (s *surveyor) visit(v any, depth, path int) error {
	if err := s.affordable(); err != nil {
		return err
	}
	switch v := v.(type) {
	case map[string]any:
		s.objects++
		nesting := float64(depth) / 2 // "properties" and the like stand between
		s.cost += costOfObject + costOfDepth*nesting*nesting
		for key, child := range v {
			path := path + len(key) + 1
			if path > maxSchemaPath {
				return schemaErrorf("a path into it has more than %d bytes", maxSchemaPath)
			}
			if err := s.keyword(key, child); err != nil {
				return err
			}
			if err := s.visit(child, depth+1, path); err != nil {
				return err
			}
		}
	case []any:
		for _, item := range v {
			if err := s.visit(item, depth+1, path+8); err != nil {
				return err
			}
		}
	case bool:
		s.objects++ // it may be a subschema
		s.cost += costOfScalar
	default:
		s.cost += costOfScalar
	}
	return nil
}

// keyword counts what is dear about the keyword beside its value.
func (s *surveyor) keyword(key string, v any) error {
	switch text, isText := v.(string); key {
	case "$ref", "$dynamicRef", "$recursiveRef":
		if isText {
			return s.reference(text)
		}
	case "$dynamicAnchor":
		return s.dynamic.add(text, false)
	case "$recursiveAnchor":
		return s.dynamic.add("", v == true)
	case "$id", "id":
		s.ids++
	case "pattern":
		if isText {
			return s.pattern(text)
		}
	case "patternProperties":
		patterns, _ := v.(map[string]any)
		for pattern := range patterns {
			if err := s.pattern(pattern); err != nil {
				return err
			}
		}
	}
	return nil
}

// reference counts what a reference leads to a second time, unless it is of the
// usual form: for a place where it expects no subschema, or that is spelled in
// another way, the compiler begins anew.
func (s *surveyor) reference(ref string) error {
	address, fragment, _ := strings.Cut(ref, "#")
	if address == "" && fragment == "" {
		return nil // the document itself
	}
	if address != "" || !strings.HasPrefix(fragment, "/") {
		s.anchors++
		return nil
	}
	for _, defs := range []string{"/$defs/", "/definitions/"} {
		if name, ok := strings.CutPrefix(fragment, defs); ok && !strings.ContainsAny(name, "/%~") {
			return nil
		}
	}
	if _, counted := s.refs[fragment]; counted {
		return nil
	}
	s.refs[fragment] = struct{}{}
	keys := splitPointer(fragment)
	return s.visit(lookup(s.doc, keys), len(keys), len(fragment))
}

// pattern refuses a regular expression whose program would be too large.
func (s *surveyor) pattern(pattern string) error {
	if len(pattern) > maxPatternBytes {
		return schemaErrorf("the pattern %q has %d bytes: at most %d", cut(pattern, maxQuotedBytes), len(pattern), maxPatternBytes)
	}
	size := patternSize(pattern)
	if size > maxPatternSize {
		return schemaErrorf("the pattern %q is too large: its repetitions multiply", cut(pattern, maxQuotedBytes))
	}
	if s.bytes += patternBytes(pattern); s.bytes > MaxSize {
		return schemaErrorf("its patterns take more than %d MiB of memory with %q: repeat less, or in fewer places", MaxSize>>20, cut(pattern, maxQuotedBytes))
	}
	s.cost += costOfPattern * size
	return nil
}

// patternSize is about how many instructions the program of a regular expression
// has; 0 for one that cannot be compiled.
func patternSize(pattern string) float64 {
	re, err := syntax.Parse(pattern, syntax.Perl)
	if err != nil {
		return 0
	}
	return programSize(re)
}

func programSize(re *syntax.Regexp) float64 {
	size := 1 + float64(len(re.Rune))/2
	for _, sub := range re.Sub {
		size += programSize(sub)
	}
	if re.Op == syntax.OpRepeat {
		size *= float64(max(re.Min, re.Max, 1))
	}
	return size
}

// patternError says why a pattern cannot be compiled.
func patternError(pattern string) string {
	_, err := syntax.Parse(pattern, syntax.Perl)
	return fmt.Sprintf("the pattern is not one of Go's regular expressions (RE2): %v", err)
}
