package schema

import (
	"encoding/json"
	"fmt"
	"strconv"
)

// What validating may take. The validator has no limit of its own: it tries every
// alternative to its end, in every place where it stands, and each error it makes
// on the way costs in proportion to the square of its depth. So the steps are
// counted before, all alternatives assumed. A step is about 0.3 microseconds, or 2
// microseconds and 300 bytes where it ends in an error; the figures were measured.
const (
	maxSteps = 1e6

	costOfEntry    = 0.3     // for each property or item, for each subschema that applies
	costOfDeclared = 0.1     // for each name in properties, required and the like
	costOfMatching = 0.02    // for each byte, for each instruction of a pattern
	costOfText     = 0.01    // for each byte, where length or format is looked at
	costOfErrors   = 0.00025 // times frames, times bytes of their names, for each subschema that applies
	bytesOfKeyword = 16      // of the names in a frame, beside those of keys
)

// ownCost is what a node costs, all but what lies behind it.
func ownCost(n *node) (cost, textCost, entryCost float64) {
	schema := n.schema
	cost = 1 + costOfDeclared*float64(n.declaredNames())
	for _, constant := range schema.Enum {
		cost += costOfComparing(constant)
	}
	for _, constant := range schema.Constant {
		cost += costOfComparing(constant)
	}
	if schema.Pattern != nil {
		textCost += costOfMatching * patternSize(schema.Pattern.String())
	}
	if schema.MinLength >= 0 || schema.MaxLength >= 0 || schema.Format != "" {
		textCost += costOfText
	}
	return cost, textCost, costOfEntry * float64(1+len(schema.PatternProperties))
}

// declaredNames counts the names that n itself declares, as often as it does.
func (n *node) declaredNames() int {
	schema := n.schema
	declared := len(schema.Properties) + len(schema.Required) + len(schema.Dependencies) + len(schema.DependentSchemas)
	for _, names := range schema.DependentRequired {
		declared += 1 + len(names)
	}
	for _, dependency := range schema.Dependencies {
		names, _ := dependency.([]string)
		declared += len(names)
	}
	return declared
}

// costOfComparing is what it costs to compare v with a value that equals it.
func costOfComparing(v any) float64 {
	cost := 0.1
	switch v := v.(type) {
	case map[string]any:
		for _, child := range v {
			cost += costOfComparing(child)
		}
	case []any:
		for _, child := range v {
			cost += costOfComparing(child)
		}
	case string:
		cost += float64(len(v)) / 1024
	case json.Number:
		cost += 3 + float64(len(v))/4
	}
	return cost
}

// costOfUniqueness is what uniqueItems costs: all pairs of a few items; of many,
// those pairs that the validator's hash does not tell apart, which an author can
// choose unless they are scalars.
func costOfUniqueness(items []any) float64 {
	comparing, composite := 0.0, 0.0
	for _, item := range items {
		comparing += costOfComparing(item)
		switch item.(type) {
		case map[string]any, []any:
			composite++
		}
	}
	if len(items) <= 20 {
		return comparing * float64(len(items))
	}
	return 4*comparing + composite*composite/4
}

// A checker goes through one value.
type checker struct{ steps float64 }

// check reports a key that equals a declared one but for its case, or that
// validating v would take too long.
func (s *shape) check(v any) *Problem {
	c := checker{}
	return c.value(v, []member{{s.root, 1}}, 0, 0)
}

// value checks v, to which the members apply. It stands that many frames of the
// validator deep, whose names have that many bytes.
func (c *checker) value(v any, members []member, frames, names int) *Problem {
	kind := kindOf(v)
	chain, length, text := 0, 0, 0
	switch v := v.(type) {
	case map[string]any:
		length = len(v)
	case []any:
		length = len(v)
	case string:
		text = len(v)
	}
	depth := 1 + costOfErrors*float64(frames)*float64(names)
	for _, m := range members {
		p := &m.node.places[kind]
		chain = max(chain, p.chain)
		cost := p.cost*depth + p.entryCost*float64(length) + p.textCost*float64(text)
		if p.unique > 0 {
			cost += p.unique * costOfUniqueness(v.([]any))
		}
		c.steps += m.times * cost
	}
	frames += chain
	names += chain * bytesOfKeyword
	if c.steps > maxSteps {
		return tooDear()
	}
	switch v := v.(type) {
	case map[string]any:
		return c.object(v, members, frames, names)
	case []any:
		return c.array(v, members, frames, names)
	}
	return nil
}

func kindOf(v any) kind {
	switch v.(type) {
	case map[string]any:
		return objectKind
	case []any:
		return arrayKind
	default:
		return scalarKind
	}
}

func (c *checker) object(v map[string]any, members []member, frames, names int) *Problem {
	var first *Problem // in the order of paths, so that the same value has the same problem
	for key, child := range v {
		problem := misspelled(key, members)
		if problem == nil {
			problem = c.property(key, child, members, frames, names+len(key))
		}
		if problem != nil && (first == nil || problem.Path < first.Path) {
			first = problem
		}
		if c.steps > maxSteps {
			return tooDear()
		}
	}
	return first
}

func tooDear() *Problem {
	return &Problem{Message: "is too large or too deep to be validated against this schema"}
}

// misspelled reports a key that differs from a declared one in case only.
func misspelled(key string, members []member) *Problem {
	folding := false
	for _, m := range members {
		p := &m.node.places[objectKind]
		if _, ok := p.declared[key]; ok {
			return nil
		}
		folding = folding || len(p.folded) > 0
	}
	if !folding || len(key) > MaxBytes {
		return nil
	}
	var buffer [64]byte
	folded := appendFolded(buffer[:0], key)
	for _, m := range members {
		if declared, ok := m.node.places[objectKind].folded[string(folded)]; ok {
			return &Problem{Path: pointer(key), Message: fmt.Sprintf("differs from the declared %q in case only", cut(declared, maxQuotedBytes))}
		}
	}
	return nil
}

// property checks one property's name and value.
func (c *checker) property(key string, child any, members []member, frames, names int) *Problem {
	var local [8]member
	next := local[:0]
	for _, m := range members {
		for _, branch := range m.node.places[objectKind].branches {
			n, times := branch.node, branch.times*m.times
			sub, matched := n.properties[key]
			if matched {
				next = c.follow(next, sub, times)
			}
			for _, p := range n.patterns {
				if c.steps += times * p.textCost * float64(len(key)); c.steps > maxSteps {
					return tooDear()
				}
				if p.matches(key) {
					matched = true
					next = c.follow(next, p.node, times)
				}
			}
			if !matched && n.others != nil {
				next = c.follow(next, n.others, times)
			}
			for _, sub := range n.everyKey {
				next = c.follow(next, sub, times)
			}
			if n.keyNames != nil {
				if problem := c.value(key, []member{{n.keyNames, times}}, frames, names); problem != nil {
					return problem.in(key)
				}
			}
		}
	}
	if len(next) == 0 {
		return nil
	}
	if problem := c.value(child, next, frames, names); problem != nil {
		return problem.in(key)
	}
	return nil
}

func (c *checker) array(v []any, members []member, frames, names int) *Problem {
	for i, item := range v {
		var local [8]member
		next := local[:0]
		for _, m := range members {
			for _, branch := range m.node.places[arrayKind].branches {
				n, times := branch.node, branch.times*m.times
				if i < len(n.items) {
					next = c.follow(next, n.items[i], times)
				} else if n.rest != nil {
					next = c.follow(next, n.rest, times)
				}
				for _, sub := range n.each {
					next = c.follow(next, sub, times)
				}
			}
		}
		if len(next) == 0 {
			continue
		}
		if problem := c.value(item, next, frames, names); problem != nil {
			return problem.in(strconv.Itoa(i))
		}
	}
	return nil
}

// follow adds a member, and counts the search for it.
func (c *checker) follow(members []member, n *node, times float64) []member {
	c.steps += float64(len(members)) / 64
	return addMember(members, member{n, times})
}
