package schema

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v5"
)

// MaxBytes is the most bytes of a schema.
const MaxBytes = 1 << 20

// A Schema is a JSON Schema, compiled once. It is immutable and safe for
// concurrent use.
//
// # Dialects
//
// Drafts 4, 6, 7, 2019-09 and 2020-12 are known by their "$schema"; without one it
// is 2020-12, and any other is refused. "format" is asserted in drafts 4, 6 and 7
// and annotates from 2019-09 on, as those specifications have it by default;
// formats that are not known are ignored everywhere, as "regex" is, whose
// dialect is not ours. contentEncoding and contentMediaType annotate in every
// draft. Keywords that are not known are ignored.
//
// Patterns are regular expressions of Go (RE2), so that none can take exponential
// time. A schema whose pattern Go cannot compile, such as one with a lookahead,
// is refused and not enforced in part: input that it excludes must not reach the
// plugin (law 11).
//
// # Self-contained
//
// Nothing is loaded, from the network or from a file (law 5). A reference may
// lead anywhere inside the document and to the meta-schemas of drafts 4, 6 and 7.
//
// # Exact keys
//
// Some readers of JSON match keys without regard to case, Go's among them. So an
// object with a key that equals a declared one but for its case is invalid,
// unless it is declared itself. Declared at a place is what any subschema that
// may apply there names in properties, required, or the dependency keywords,
// whether it stands under allOf, anyOf, not, or behind a $ref. Case is that of
// Unicode's simple folding: the Kelvin sign is a "k".
//
// # Limits
//
// A schema that would take about a second to compile is refused, one that would
// occupy more than [MaxSize] once it is compiled, and one
// that repeats itself without end on the same value. Validation is bounded too:
// where the schema and the value together would need more than about a second,
// the value is invalid and the error says so.
type Schema struct {
	raw      json.RawMessage
	compiled *jsonschema.Schema
	shape    *shape
	size     int      // see Size
	doubts   []string // see Doubts
}

// Error is why a schema was refused, in words for the author of the tool.
// Its length is bounded.
type Error struct {
	// Path is the JSON pointer of the offending fragment, "" for the whole schema.
	Path string
	// Fragment is the beginning of what stands there; it may be empty.
	Fragment string
	// Reason is what is wrong with it.
	Reason string
}

func (e *Error) Error() string {
	text := "schema"
	if e.Path != "" {
		text += " at " + e.Path
	}
	if e.Fragment != "" {
		text += " (" + e.Fragment + ")"
	}
	return text + ": " + e.Reason
}

// Compile compiles a schema of any value. The error is a [*Error].
func Compile(raw json.RawMessage) (*Schema, error) {
	doc, err := decodeSchema(raw)
	if err != nil {
		return nil, err
	}
	return compileDocument(raw, doc)
}

// CompileInput compiles the schema of a tool's input, which is always an object.
// Absent (nothing, white space, null) it is an object without properties. A root
// without "type" or "properties" is given them, and null in place of
// "properties" or "required", which generators write for an empty list, counts as
// absent; all else stays as it is. The error is a [*Error].
func CompileInput(raw json.RawMessage) (*Schema, error) {
	if trimmed := bytes.TrimSpace(raw); len(trimmed) == 0 || string(trimmed) == "null" {
		raw = json.RawMessage(`{"type":"object","properties":{}}`)
	}
	doc, err := decodeSchema(raw)
	if err != nil {
		return nil, err
	}
	root, ok := doc.(map[string]any)
	if !ok {
		return nil, schemaErrorf("the schema of an input must be an object, got %s", describe(doc))
	}
	if t, ok := root["type"]; ok && t != "object" {
		return nil, &Error{Path: "/type", Fragment: encode(t, maxQuotedBytes), Reason: `the input of a tool is an object: expected "object"`}
	}
	return compileDocument(completeRoot(raw, root), root)
}

// decodeSchema reads the text of a schema.
func decodeSchema(raw json.RawMessage) (any, error) {
	if len(raw) > MaxBytes {
		return nil, schemaErrorf("it has %d bytes: at most %d", len(raw), MaxBytes)
	}
	doc, err := Decode(raw)
	if invalid, ok := errors.AsType[*InvalidValue](err); ok {
		return nil, &Error{Path: invalid.Problems[0].Path, Reason: invalid.Problems[0].Message}
	}
	switch doc.(type) {
	case map[string]any, bool:
		return doc, nil
	default:
		return nil, schemaErrorf("expected an object or a boolean, got %s", describe(doc))
	}
}

// compileDocument compiles raw, of which doc is the value.
func compileDocument(raw json.RawMessage, doc any) (*Schema, error) {
	if err := checkDialect(doc); err != nil {
		return nil, err
	}
	if err := survey(doc); err != nil {
		return nil, err
	}
	var compact bytes.Buffer
	if err := json.Compact(&compact, raw); err != nil {
		return nil, schemaErrorf("%v", err)
	}
	compiled, err := compile(compact.String(), doc)
	if err != nil {
		return nil, err
	}
	shape, err := newShape(compiled)
	if err != nil {
		return nil, err
	}
	size := shape.size() + 2*compact.Len()
	if size > MaxSize {
		return nil, schemaErrorf("it takes about %d bytes of memory once it is compiled: at most %d", size, MaxSize)
	}
	return &Schema{raw: compact.Bytes(), compiled: compiled, shape: shape, size: size, doubts: doubts(doc)}, nil
}

// completeRoot gives root, whose text is raw, what an input's schema must have,
// and returns its text. When nothing is missing that is raw itself.
func completeRoot(raw json.RawMessage, root map[string]any) json.RawMessage {
	required, given := root["required"]
	if root["type"] != nil && root["properties"] != nil && !(given && required == nil) {
		return raw
	}
	root["type"] = "object"
	if root["properties"] == nil {
		root["properties"] = map[string]any{}
	}
	if required == nil {
		delete(root, "required")
	}
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(root); err != nil {
		return raw // cannot be: what was decoded can be encoded
	}
	return text.Bytes()
}

// JSON is the schema as it was given, compacted, and for an input completed. The
// caller must not change it.
func (s *Schema) JSON() json.RawMessage { return s.raw }

// Decode reads raw as [Decode] does and validates it. The error is an
// [*InvalidValue].
func (s *Schema) Decode(raw []byte) (any, error) {
	v, err := Decode(raw)
	if err != nil {
		return nil, err
	}
	return v, s.Check(v)
}

// Validate is [Schema.Decode] for callers who need no value.
func (s *Schema) Validate(raw []byte) error {
	_, err := s.Decode(raw)
	return err
}

// Check validates a value that [Decode] read. The error is an [*InvalidValue].
func (s *Schema) Check(v any) (err error) {
	if problem := s.shape.check(v); problem != nil {
		return &InvalidValue{Problems: []Problem{problem.bounded()}}
	}
	// A value comes from outside, and a defect of the validator must not be the
	// host's end.
	defer func() {
		if r := recover(); r != nil {
			err = invalid("", "cannot be validated: %v", r)
		}
	}()
	err = s.compiled.Validate(v)
	if failed, ok := errors.AsType[*jsonschema.ValidationError](err); ok {
		return explain(failed, v, s.shape.schemaAt)
	}
	if err != nil {
		return invalid("", "cannot be validated: %v", err)
	}
	return nil
}

// location is the address of the document itself while it is compiled. References
// are resolved against it; nothing can be loaded from it.
const documentURL = "schema:///tool"

// checkDialect refuses a "$schema" that is not one of the drafts.
func checkDialect(doc any) error {
	root, _ := doc.(map[string]any)
	dialect, ok := root["$schema"]
	if !ok {
		return nil
	}
	url, _ := dialect.(string)
	url = strings.TrimSuffix(strings.Replace(url, "http://", "https://", 1), "#")
	switch url {
	case "https://json-schema.org/draft/2020-12/schema",
		"https://json-schema.org/draft/2019-09/schema",
		"https://json-schema.org/draft-07/schema",
		"https://json-schema.org/draft-06/schema",
		"https://json-schema.org/draft-04/schema":
		return nil
	}
	return &Error{
		Path: "/$schema", Fragment: encode(dialect, maxQuotedBytes),
		Reason: "the dialect is not known: use draft 4, 6, 7, 2019-09 or 2020-12, or leave it out",
	}
}

// compile gives the document to the validator. doc is the text, decoded.
func compile(text string, doc any) (compiled *jsonschema.Schema, err error) {
	defer func() {
		if r := recover(); r != nil {
			compiled, err = nil, schemaErrorf("it cannot be compiled: %v", r)
		}
	}()
	c := jsonschema.NewCompiler()
	c.Draft = jsonschema.Draft2020
	c.LoadURL = func(url string) (io.ReadCloser, error) { return nil, &outsideError{url} }
	c.Formats["regex"] = func(any) bool { return true }
	c.Decoders["base64"] = nil
	c.MediaTypes["application/json"] = nil
	if err := c.AddResource(documentURL, strings.NewReader(withDialect(text, doc))); err != nil {
		return nil, schemaErrorf("%v", err)
	}
	if compiled, err = c.Compile(documentURL); err != nil {
		return nil, refusal(err, doc)
	}
	return compiled, nil
}

// withDialect is the document with its "$schema" spelled out, since the validator
// asserts formats where it is absent.
func withDialect(text string, doc any) string {
	root, ok := doc.(map[string]any)
	if _, given := root["$schema"]; given || !ok {
		return text
	}
	head := `{"$schema":"` + jsonschema.Draft2020.URL() + `"`
	if len(root) > 0 {
		head += ","
	}
	return head + text[1:]
}

// An outsideError is a reference out of the document, which was not followed.
type outsideError struct{ url string }

func (e *outsideError) Error() string {
	return fmt.Sprintf("it refers to %q, and nothing is loaded: put what it needs under $defs", cut(e.url, maxTokenBytes))
}

// refusal turns the compiler's error into ours.
func refusal(err error, doc any) *Error {
	if outside, ok := errors.AsType[*outsideError](err); ok {
		return schemaErrorf("%v", outside)
	}
	if loop, ok := errors.AsType[jsonschema.InfiniteLoopError](err); ok {
		path := strings.ReplaceAll(strings.TrimPrefix(string(loop), documentURL), documentURL, "")
		return schemaErrorf("it refers to itself on the same value, without end: %s", cut(path, maxMessageBytes))
	}
	if failed, ok := errors.AsType[*jsonschema.ValidationError](err); ok {
		problem := explain(failed, doc, nil).Problems[0]
		keys := splitPointer(problem.Path)
		fragment := lookup(doc, keys)
		if strings.HasPrefix(problem.Message, "expected format regex") {
			pattern, ok := fragment.(string)
			if !ok { // a key of patternProperties
				pattern = keys[len(keys)-1]
			}
			problem.Message = patternError(pattern)
		}
		return &Error{Path: problem.Path, Fragment: encode(fragment, maxQuotedBytes), Reason: problem.Message}
	}
	reason := strings.ReplaceAll(err.Error(), documentURL, "")
	if whole, ok := errors.AsType[*jsonschema.SchemaError](err); ok {
		reason = strings.ReplaceAll(strings.TrimPrefix(whole.Err.Error(), "jsonschema: "), documentURL, "")
	}
	return schemaErrorf("%s", cut(reason, maxMessageBytes))
}

func schemaErrorf(format string, args ...any) *Error {
	return &Error{Reason: fmt.Sprintf(format, args...)}
}
