package schema

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/santhosh-tekuri/jsonschema/v5"
)

// What a schema may be made of.
const (
	maxChain   = 64      // subschemas one behind another on the same value
	maxMembers = 100_000 // subschemas that apply together, over all places
)

// A shape is what can be known of a schema without a value: which subschemas may
// apply to the same value, which keys they declare, and what looking at a value
// costs. It answers before the validator is asked, which it therefore protects.
type shape struct {
	root    *node
	nodes   map[*jsonschema.Schema]*node
	members int // of all places, branches and declared keys
}

// kind is what matters about the type of a value.
type kind int

const (
	scalarKind kind = iota
	objectKind
	arrayKind
	kinds // how many there are
)

// A node is one subschema.
type node struct {
	schema  *jsonschema.Schema
	inPlace []*node // applied to the same value
	state   int     // of join: 0, joining, joined
	places  [kinds]place

	// For objects.
	properties map[string]*node
	patterns   []patternNode
	others     *node   // where neither properties nor patterns match
	everyKey   []*node // applied to every property's value
	keyNames   *node   // applied to every property's name

	// For arrays.
	items []*node // by position
	rest  *node   // behind items
	each  []*node // applied to every item

	cost      float64 // of looking at a value, see check.go
	textCost  float64 // for each byte of a string
	entryCost float64 // for each property or item
}

// A patternNode is one of patternProperties.
type patternNode struct {
	matches  func(string) bool
	textCost float64 // of matching, for each byte of a key
	node     *node
}

// A place is a node with all that applies in the same place to a value of one
// kind, each as often as there are ways to reach it.
type place struct {
	chain     int // of the longest way
	cost      float64
	textCost  float64
	entryCost float64
	unique    float64 // how often uniqueItems is checked

	// What leads on to other values: those with properties or items.
	branches []member
	// The declared keys, and by their folded form.
	declared map[string]struct{}
	folded   map[string]string
}

// A member is a node of a place.
type member struct {
	node  *node
	times float64
}

const (
	joining = 1 + iota
	joined
)

// newShape follows the compiled schema. The error is a [*Error].
func newShape(compiled *jsonschema.Schema) (*shape, error) {
	s := &shape{nodes: make(map[*jsonschema.Schema]*node)}
	s.root = s.add(compiled)
	if err := s.checkDynamic(); err != nil {
		return nil, err
	}
	// The root first, the rest in order, so that the same schema has the same error.
	byLocation := func(a, b *node) int { return cmp.Compare(a.schema.Location, b.schema.Location) }
	for _, n := range append([]*node{s.root}, slices.SortedFunc(maps.Values(s.nodes), byLocation)...) {
		if err := s.join(n, 1); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// schemaAt finds a subschema by its absolute location.
func (s *shape) schemaAt(location string) *jsonschema.Schema {
	for schema := range s.nodes {
		if schema.Location == location {
			return schema
		}
	}
	return nil
}

// add makes the node of a subschema and of what it leads to; nil stays nil.
func (s *shape) add(schema *jsonschema.Schema) *node {
	if schema == nil {
		return nil
	}
	if n, ok := s.nodes[schema]; ok {
		return n
	}
	n := &node{schema: schema}
	s.nodes[schema] = n
	s.addInPlace(n)
	s.addProperties(n)
	s.addItems(n)
	n.cost, n.textCost, n.entryCost = ownCost(n)
	return n
}

func (s *shape) addInPlace(n *node) {
	schema := n.schema
	same := []*jsonschema.Schema{
		schema.Ref, schema.RecursiveRef, schema.DynamicRef, schema.Not, schema.If, schema.Then, schema.Else,
	}
	same = slices.Concat(same, schema.AllOf, schema.AnyOf, schema.OneOf)
	for _, dependency := range schema.Dependencies {
		if sub, ok := dependency.(*jsonschema.Schema); ok {
			same = append(same, sub)
		}
	}
	same = slices.AppendSeq(same, maps.Values(schema.DependentSchemas))
	n.inPlace = s.addAll(same...)
}

func (s *shape) addProperties(n *node) {
	schema := n.schema
	n.properties = make(map[string]*node, len(schema.Properties))
	for name, sub := range schema.Properties {
		n.properties[name] = s.add(sub)
	}
	for pattern, sub := range schema.PatternProperties {
		n.patterns = append(n.patterns, patternNode{
			matches: pattern.MatchString, textCost: costOfMatching * patternSize(pattern.String()), node: s.add(sub),
		})
	}
	if sub, ok := schema.AdditionalProperties.(*jsonschema.Schema); ok {
		n.others = s.add(sub)
	}
	n.everyKey = s.addAll(schema.UnevaluatedProperties)
	n.keyNames = s.add(schema.PropertyNames)
}

func (s *shape) addItems(n *node) {
	schema := n.schema
	switch items := schema.Items.(type) { // before 2020-12
	case *jsonschema.Schema:
		n.rest = s.add(items)
	case []*jsonschema.Schema:
		n.items = s.addAll(items...)
		if sub, ok := schema.AdditionalItems.(*jsonschema.Schema); ok {
			n.rest = s.add(sub)
		}
	}
	if len(schema.PrefixItems) > 0 {
		n.items = s.addAll(schema.PrefixItems...)
	}
	if schema.Items2020 != nil {
		n.rest = s.add(schema.Items2020)
	}
	n.each = s.addAll(schema.Contains, schema.UnevaluatedItems)
}

// addAll adds those that are not nil.
func (s *shape) addAll(schemas ...*jsonschema.Schema) []*node {
	var nodes []*node
	for _, schema := range schemas {
		if n := s.add(schema); n != nil {
			nodes = append(nodes, n)
		}
	}
	return nodes
}

// checkDynamic refuses dynamic references that could have more than one target,
// since then what applies to a value cannot be known beforehand.
func (s *shape) checkDynamic() error {
	var anchors dynamicAnchors
	for schema := range s.nodes {
		if err := anchors.add(schema.DynamicAnchor, schema.RecursiveAnchor); err != nil {
			return err
		}
	}
	return nil
}

// dynamicAnchors are the targets of the dynamic references of a document.
type dynamicAnchors struct {
	names     map[string]struct{}
	recursive bool
}

// add refuses the second anchor of a name, and a second recursive one.
func (a *dynamicAnchors) add(name string, recursive bool) error {
	const unsupported = "references that depend on how they are reached are not supported"
	if name != "" {
		if _, twice := a.names[name]; twice {
			return schemaErrorf("it has two $dynamicAnchor %q: %s", cut(name, maxQuotedBytes), unsupported)
		}
		if a.names == nil {
			a.names = make(map[string]struct{})
		}
		a.names[name] = struct{}{}
	}
	if recursive {
		if a.recursive {
			return schemaErrorf("it has two $recursiveAnchor: %s", unsupported)
		}
		a.recursive = true
	}
	return nil
}

// join makes the places of n, which stands depth subschemas behind the first one
// on its value.
func (s *shape) join(n *node, depth int) error {
	if n.state == joined {
		return nil
	}
	if n.state == joining {
		return schemaErrorf("it refers to itself on the same value, without end: %s", cut(fragment(n.schema), maxMessageBytes))
	}
	if depth > maxChain {
		return s.tooLong(n)
	}
	n.state = joining
	for _, sub := range n.inPlace {
		if err := s.join(sub, depth+1); err != nil {
			return err
		}
	}
	for k := range kinds {
		p, err := s.joinPlace(n, k)
		if err != nil {
			return err
		}
		if p.chain > maxChain {
			return s.tooLong(n)
		}
		n.places[k] = p
	}
	n.state = joined
	return nil
}

func (s *shape) tooLong(n *node) error {
	return schemaErrorf("more than %d subschemas stand one behind another on the same value: %s", maxChain, cut(fragment(n.schema), maxMessageBytes))
}

// joinPlace adds up n and the places of what applies beside it.
func (s *shape) joinPlace(n *node, k kind) (place, error) {
	p := n.ownPlace(k)
	if !n.admits(k) {
		p.branches = nil // the type is looked at first, and all else is skipped
		return p, nil
	}
	for _, sub := range n.inPlace {
		q := &sub.places[k]
		if len(n.inPlace) == 1 && p.declared == nil && p.branches == nil {
			p.declared, p.folded, p.branches = q.declared, q.folded, q.branches // a mere reference
			p.addCost(q)
			break
		}
		if s.members += len(q.branches) + len(q.declared); s.members > maxMembers {
			return p, schemaErrorf("its subschemas combine in more than %d ways", maxMembers)
		}
		p.add(q)
	}
	return p, nil
}

// ownPlace is the place of n alone.
func (n *node) ownPlace(k kind) place {
	p := place{chain: 1, cost: n.cost, entryCost: n.entryCost}
	switch k {
	case scalarKind:
		p.textCost = n.textCost
	case objectKind:
		n.declare(&p)
		if len(n.properties)+len(n.patterns)+len(n.everyKey) > 0 || n.others != nil || n.keyNames != nil {
			p.branches = append(p.branches, member{n, 1})
		}
	case arrayKind:
		if n.schema.UniqueItems {
			p.unique = 1
		}
		if len(n.items)+len(n.each) > 0 || n.rest != nil {
			p.branches = append(p.branches, member{n, 1})
		}
	}
	return p
}

func (p *place) addCost(q *place) {
	p.chain = max(p.chain, q.chain+1)
	p.cost += q.cost
	p.textCost += q.textCost
	p.entryCost += q.entryCost
	p.unique += q.unique
}

func (p *place) add(q *place) {
	p.addCost(q)
	for _, m := range q.branches {
		p.branches = addMember(p.branches, m)
	}
	for name := range q.declared {
		p.declare(name)
	}
}

// addMember adds m to members that are few.
func addMember(members []member, m member) []member {
	for i := range members {
		if members[i].node == m.node {
			members[i].times += m.times
			return members
		}
	}
	return append(members, m)
}

// admits reports whether the type keyword lets values of the kind through.
func (n *node) admits(k kind) bool {
	types := n.schema.Types
	switch {
	case len(types) == 0 || k == scalarKind:
		return true
	case k == objectKind:
		return slices.Contains(types, "object")
	default:
		return slices.Contains(types, "array")
	}
}

// declare adds the keys that n itself declares.
func (n *node) declare(p *place) {
	schema := n.schema
	for name := range schema.Properties {
		p.declare(name)
	}
	for _, name := range schema.Required {
		p.declare(name)
	}
	for name, names := range schema.DependentRequired {
		p.declare(append(names[:len(names):len(names)], name)...)
	}
	for name := range schema.DependentSchemas {
		p.declare(name)
	}
	for name, dependency := range schema.Dependencies {
		p.declare(name)
		names, _ := dependency.([]string)
		p.declare(names...)
	}
}

func (p *place) declare(names ...string) {
	if p.declared == nil && len(names) > 0 {
		p.declared, p.folded = make(map[string]struct{}), make(map[string]string)
	}
	for _, name := range names {
		p.declared[name] = struct{}{}
		key := string(appendFolded(nil, name))
		if other, ok := p.folded[key]; !ok || name < other {
			p.folded[key] = name
		}
	}
}

// appendFolded appends name with every character replaced by the smallest one
// that Unicode's simple folding holds equal, as encoding/json compares keys.
func appendFolded(b []byte, name string) []byte {
	for _, r := range name {
		b = utf8.AppendRune(b, foldRune(r))
	}
	return b
}

func foldRune(r rune) rune {
	if r < utf8.RuneSelf { // the capital letter is the smallest, though k and s fold with others too
		if 'a' <= r && r <= 'z' {
			r -= 'a' - 'A'
		}
		return r
	}
	for {
		next := unicode.SimpleFold(r)
		if next <= r {
			return next
		}
		r = next
	}
}

// fragment is where a subschema stands in its document.
func fragment(schema *jsonschema.Schema) string {
	return strings.TrimPrefix(schema.Location, documentURL)
}
