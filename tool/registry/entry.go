package registry

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/toolhost/toolhost/tool"
	"github.com/toolhost/toolhost/tool/schema"
)

// An entry is one registered tool: what is shown of it, and what runs it. It is
// immutable once its registration is published.
type entry struct {
	registration *Registration
	authored     string
	definition   tool.Definition
	digest       string // of the definition, for what is not built in
	input        *schema.Schema
	output       *schema.Schema           // nil: any value
	structured   *schema.Schema           // nil: the output's
	requests     []tool.PermissionRequest // of every call, without prepare
	targets      []string                 // properties of the input, without prepare
	unavailable  string
	prepare      func(context.Context, tool.Call) (tool.Preparation, error) // nil: the same for every call
	execute      func(context.Context, tool.Call) (tool.Result, error)
}

func (e *entry) refusal(reason string) Refusal {
	owner, _, _ := strings.Cut(e.definition.ID, "/")
	return Refusal{Owner: owner, Name: e.authored, Reason: reason}
}

// prepare makes the entries of a registration, by effective name, and says what
// is wrong with the other tools. Each schema is charged to the budget before the
// next is compiled. r.mu is not held.
func (r *Registry) prepare(by Owner, budget *budget, tools map[string]tool.Tool) (map[string]*entry, []Refusal) {
	var refused []Refusal
	refuse := func(authored, reason string) {
		refused = append(refused, Refusal{Owner: by.Name, Name: authored, Reason: reason})
	}
	named := make(map[string][]string) // authored names by effective name
	for i, authored := range sortedKeys(tools) {
		checkName := tool.CheckName
		if by.Host {
			checkName = tool.CheckReservedName
		}
		if err := cmp.Or(tool.CheckPluginName(by.Name), checkName(authored)); err != nil {
			refuse(authored, err.Error())
		} else if i >= MaxNames {
			refuse(authored, tooMany(by.Name))
		} else {
			name := tool.EffectiveName(authored)
			named[name] = append(named[name], authored)
		}
	}
	entries := make(map[string]*entry, len(named))
	for _, name := range sortedKeys(named) { // in order, so that the budget ends at the same tool
		equals := named[name]
		if len(equals) > 1 {
			for _, authored := range equals {
				refuse(authored, fmt.Sprintf("the names %s become equal, %q: rename all but one", list(equals), name))
			}
			continue
		}
		e, err := r.entry(by, equals[0], tools[equals[0]])
		if err != nil {
			refuse(equals[0], err.Error())
			continue
		}
		if err := budget.charge(by.Name, e); err != nil {
			refuse(equals[0], err.Error())
			continue
		}
		entries[name] = e
	}
	return entries, refused
}

func tooMany(plugin string) string {
	return fmt.Sprintf("plugin %q registers more than %d names", plugin, MaxNames)
}

// entry makes the entry of one tool, or says what is wrong with it.
func (r *Registry) entry(by Owner, authored string, t tool.Tool) (*entry, error) {
	if t.Execute == nil {
		return nil, fmt.Errorf("tool %q has nothing to execute", authored)
	}
	e := &entry{
		authored: authored, prepare: t.Prepare, execute: t.Execute,
		requests: tool.CloneRequests(t.Requests), targets: slices.Clone(t.Targets), unavailable: clean(t.Unavailable),
	}
	if err := checkDeclared(t); err != nil {
		return nil, err
	}
	var err error
	if e.input, err = r.schemas.compile("input", t.Input, schema.CompileInput); err != nil {
		return nil, fmt.Errorf("input %w", err)
	}
	if !absent(t.Output) {
		if e.output, err = r.schemas.compile("output", t.Output, schema.Compile); err != nil {
			return nil, fmt.Errorf("output %w", err)
		}
	}
	if !absent(t.Structured) {
		if e.structured, err = r.schemas.compile("output", t.Structured, schema.Compile); err != nil {
			return nil, fmt.Errorf("structured %w", err)
		}
	}
	e.definition = tool.Definition{
		Name:        tool.EffectiveName(authored),
		ID:          tool.CanonicalID(by.Name, authored),
		Title:       clean(t.Title),
		Description: clean(t.Description),
		Input:       e.input.JSON(),
		Effects:     t.Effects, Irreversible: t.Irreversible, Projected: e.structured != nil,
	}
	if shown := e.structuredSchema(); shown != nil {
		e.definition.Output = shown.JSON()
	}
	if !by.Builtin {
		e.digest = definitionDigest(e.definition)
	}
	return e, nil
}

// doubts are what contradicts itself in the schemas.
func (e *entry) doubts() []Refusal {
	var found []Refusal
	for _, of := range []struct {
		what   string
		schema *schema.Schema
	}{{"input", e.input}, {"output", e.output}, {"structured", e.structured}} {
		if of.schema == nil {
			continue
		}
		for _, doubt := range of.schema.Doubts() {
			found = append(found, e.refusal(of.what+" schema at "+doubt))
		}
	}
	return found
}

// structuredSchema describes the structured value, or is nil.
func (e *entry) structuredSchema() *schema.Schema {
	if e.structured != nil {
		return e.structured
	}
	return e.output
}

// same reports whether two entries are the same tool although their registrations
// differ (law 7).
func (e *entry) same(other *entry) bool {
	mine, its := e.registration.owner, other.registration.owner
	a, b := e.definition, other.definition
	return mine.Digest != "" && mine.Digest == its.Digest &&
		a.ID == b.ID && a.Title == b.Title && a.Description == b.Description && a.Effects == b.Effects &&
		a.Irreversible == b.Irreversible && e.unavailable == other.unavailable && (e.prepare == nil) == (other.prepare == nil) &&
		reflect.DeepEqual(e.requests, other.requests) && slices.Equal(e.targets, other.targets) &&
		bytes.Equal(a.Input, b.Input) && sameSchema(e.output, other.output) && sameSchema(e.structured, other.structured)
}

// Bounds of what a tool declares for every call, and of what it prepares for one.
const (
	maxRequests = 64
	maxTargets  = 256
)

// checkDeclared reports what a tool says of every call and must not.
func checkDeclared(t tool.Tool) error {
	if len(t.Requests) > maxRequests {
		return fmt.Errorf("it requests %d permissions: at most %d", len(t.Requests), maxRequests)
	}
	if len(t.Targets) > maxTargets {
		return fmt.Errorf("it names %d properties as targets: at most %d", len(t.Targets), maxTargets)
	}
	for _, request := range t.Requests {
		if request.Action == "" || len(request.Resources) == 0 {
			return errors.New("it requests a permission without an action or a resource")
		}
	}
	return nil
}

func sameSchema(a, b *schema.Schema) bool {
	if a == nil || b == nil {
		return a == b
	}
	return bytes.Equal(a.JSON(), b.JSON())
}

// absent reports whether a schema says nothing.
func absent(raw json.RawMessage) bool {
	raw = bytes.TrimSpace(raw)
	return len(raw) == 0 || string(raw) == "null"
}

// clean is text that can be shown: what is not UTF-8 is replaced.
func clean(text string) string { return strings.ToValidUTF8(text, "\uFFFD") }
