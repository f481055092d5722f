package registry

import (
	"encoding/json"
	"fmt"
	"sync"

	"github.com/toolhost/toolhost/tool/schema"
)

const (
	// MaxSchemaSize is how many bytes the compiled schemas of one owner's active
	// registrations may occupy together, as [schema.Schema.Size] counts them. A schema
	// that several tools share counts once (law 5).
	MaxSchemaSize = 64 << 20

	maxCachedSchemas = 16 << 20 // bytes of compiled schemas, as their keys and Size count them
)

// schemas compiles each schema once, so that a plugin that starts again, or tools
// that answer alike, cost nothing. When it is full it begins anew; what is
// registered keeps its own.
type schemas struct {
	mu       sync.Mutex // guards what follows
	compiled map[string]*schema.Schema
	bytes    int // at most maxCachedSchemas
}

// compile returns what compile makes of raw. The role keeps apart what is made in
// different ways.
func (s *schemas) compile(role string, raw json.RawMessage, compile func(json.RawMessage) (*schema.Schema, error)) (*schema.Schema, error) {
	key := role + string(raw)
	s.mu.Lock()
	compiled, ok := s.compiled[key]
	s.mu.Unlock()
	if ok {
		return compiled, nil
	}
	compiled, err := compile(raw)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if other, ok := s.compiled[key]; ok {
		return other, nil // another owner was faster
	}
	size := len(key) + compiled.Size()
	if s.bytes += size; s.compiled == nil || s.bytes > maxCachedSchemas {
		s.compiled, s.bytes = make(map[string]*schema.Schema), size
	}
	s.compiled[key] = compiled
	return compiled, nil
}

// A budget is what the compiled schemas of one owner occupy.
type budget struct {
	// turn is held while a registration is prepared, so that no more than one schema
	// of the owner is compiled and not yet charged.
	turn sync.Mutex

	mu    sync.Mutex             // guards what follows
	users map[*schema.Schema]int // by schema, how many use it
	size  int                    // of these schemas, at most MaxSchemaSize
}

// charge counts the schemas of e, or none of them and says why.
func (b *budget) charge(plugin string, e *entry) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.users == nil {
		b.users = make(map[*schema.Schema]int)
	}
	for _, s := range e.schemas() {
		if b.users[s]++; b.users[s] == 1 {
			b.size += s.Size()
		}
	}
	if size := b.size; size > MaxSchemaSize {
		b.releaseLocked(e)
		return fmt.Errorf("the schemas of plugin %q would take about %d bytes of memory with those of this tool: at most %d", plugin, size, MaxSchemaSize)
	}
	return nil
}

// release takes back what charge counted for e.
func (b *budget) release(e *entry) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.releaseLocked(e)
}

func (b *budget) releaseLocked(e *entry) {
	for _, s := range e.schemas() {
		if b.users[s]--; b.users[s] == 0 {
			delete(b.users, s)
			b.size -= s.Size()
		}
	}
}

// schemas are those of e.
func (e *entry) schemas() []*schema.Schema {
	all := []*schema.Schema{e.input}
	for _, s := range []*schema.Schema{e.output, e.structured} {
		if s != nil {
			all = append(all, s)
		}
	}
	return all
}
