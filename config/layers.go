package config

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"github.com/knadh/koanf/v2"

	"github.com/toolhost/toolhost/config/internal/document"
)

// delimiter stands between the keys of a path. No key has a control character.
const delimiter = "\x00"

// layers puts the plugins of a Location together. Only the mappings are merged;
// what stands in them is a number in the merged tree, the index of a leaf, so that
// positions and digits survive.
type layers struct {
	merged *koanf.Koanf
	leaves []leaf
	at     map[string]Position // of each plugin's entry, the last one
}

// leaf is a value that is not a mapping, and the file that it stands in.
type leaf struct {
	*document.Node
	source *source
}

func newLayers() *layers {
	return &layers{merged: koanf.New(delimiter), at: map[string]Position{}}
}

// layer is a mapping to be merged; it implements [koanf.Provider].
type layer map[string]any

// Read implements [koanf.Provider].
func (l layer) Read() (map[string]any, error) { return l, nil }

// ReadBytes implements [koanf.Provider]; a layer has none, and is never asked.
func (l layer) ReadBytes() ([]byte, error) { return nil, nil }

// add puts the plugins of a part of a file on top of those before.
func (l *layers) add(plugins []document.Entry, s *source) error {
	top := layer{}
	for _, e := range plugins {
		l.at[e.Key] = s.at(e.At)
		if namesProgram(e.Value) {
			l.merged.Delete(e.Key)
		}
		fields, ok := l.lower(e.Value, s).(map[string]any)
		if !ok { // nothing stands behind the name
			fields = map[string]any{}
		}
		top[e.Key] = fields
	}
	return l.merged.Load(top, nil)
}

// namesProgram says whether a plugin's entry stands by itself. To say that there
// is no command names the built-in.
func namesProgram(entry *document.Node) bool {
	return slices.ContainsFunc(entry.Entries, func(e document.Entry) bool { return e.Key == keyCommand || e.Key == keyBuiltin })
}

// lower turns a node into what koanf merges.
func (l *layers) lower(n *document.Node, s *source) any {
	if n.Kind != document.Mapping {
		l.leaves = append(l.leaves, leaf{n, s})
		return len(l.leaves) - 1
	}
	mapping := make(map[string]any, len(n.Entries))
	for _, e := range n.Entries {
		mapping[e.Key] = l.lower(e.Value, s)
	}
	return mapping
}

// plugins are the merged entries by name.
func (l *layers) plugins() map[string]entry {
	merged := map[string]entry{}
	for name, fields := range l.merged.Raw() {
		fields, _ := fields.(map[string]any) // add makes nothing else
		merged[name] = entry{layers: l, fields: fields, at: l.at[name]}
	}
	return merged
}

// entry is one merged plugin.
type entry struct {
	layers *layers
	fields map[string]any
	at     Position
}

// leaf is the value of a key that is not a mapping; ok is false when it is missing
// or nothing.
func (e entry) leaf(key string) (leaf, bool) { return e.layers.leaf(e.fields[key]) }

// inner is the value of a key of mappings in the entry, by the path to it; ok is as of leaf.
func (e entry) inner(path ...string) (leaf, bool) {
	var merged any = e.fields
	for _, key := range path {
		mapping, _ := merged.(map[string]any) // what is null has nothing in it
		merged = mapping[key]
	}
	return e.layers.leaf(merged)
}

func (l *layers) leaf(merged any) (leaf, bool) {
	i, ok := merged.(int)
	if !ok || l.leaves[i].Kind == document.Null {
		return leaf{}, false
	}
	return l.leaves[i], true
}

// texts are the texts of a list, or nil.
func (e entry) texts(key string) []string {
	found, _ := e.leaf(key)
	return found.texts()
}

func (l leaf) texts() []string {
	if l.Node == nil {
		return nil
	}
	var texts []string
	for _, item := range l.Items {
		texts = append(texts, item.Text)
	}
	return texts
}

// json is the value of a key as JSON, with sorted keys where mappings were
// merged; nil when it is missing or nothing.
func (e entry) json(key string) json.RawMessage {
	merged, ok := e.fields[key].(map[string]any)
	if !ok {
		return nil
	}
	var out strings.Builder
	e.layers.writeJSON(&out, merged)
	return json.RawMessage(out.String())
}

func (l *layers) writeJSON(out *strings.Builder, merged any) {
	mapping, ok := merged.(map[string]any)
	if !ok {
		if i, ok := merged.(int); ok {
			writeNode(out, l.leaves[i].Node)
		}
		return
	}
	out.WriteByte('{')
	for i, key := range slices.Sorted(maps.Keys(mapping)) {
		if i > 0 {
			out.WriteByte(',')
		}
		writeText(out, key)
		out.WriteByte(':')
		l.writeJSON(out, mapping[key])
	}
	out.WriteByte('}')
}

func writeNode(out *strings.Builder, n *document.Node) {
	switch n.Kind {
	case document.Null:
		out.WriteString("null")
	case document.Bool, document.Number:
		out.WriteString(n.Text)
	case document.Text:
		writeText(out, n.Text)
	case document.Sequence:
		out.WriteByte('[')
		for i, item := range n.Items {
			if i > 0 {
				out.WriteByte(',')
			}
			writeNode(out, item)
		}
		out.WriteByte(']')
	case document.Mapping:
		out.WriteByte('{')
		for i, e := range n.Entries {
			if i > 0 {
				out.WriteByte(',')
			}
			writeText(out, e.Key)
			out.WriteByte(':')
			writeNode(out, e.Value)
		}
		out.WriteByte('}')
	}
}

func writeText(out *strings.Builder, text string) {
	quoted, _ := json.Marshal(text) // a string has always a JSON text
	out.Write(quoted)
}

// entries are those of the mapping that is the value of a key.
func entries(n *document.Node, key string) []document.Entry {
	if mapping := value(n, key); mapping != nil {
		return mapping.Entries
	}
	return nil
}

// value is the value of a key, or nil when it is missing or nothing.
func value(n *document.Node, key string) *document.Node {
	if n == nil {
		return nil
	}
	for _, e := range n.Entries {
		if e.Key == key && e.Value.Kind != document.Null {
			return e.Value
		}
	}
	return nil
}
