package evidence

import "container/list"

// A recent is a map that forgets what was used longest ago. It is not for concurrent
// use.
type recent[K comparable, V any] struct {
	most    int
	entries map[K]*list.Element // of node[K, V]
	order   list.List           // what was used last stands at the front
}

type node[K comparable, V any] struct {
	key   K
	value V
}

func newRecent[K comparable, V any](most int) *recent[K, V] {
	return &recent[K, V]{most: most, entries: map[K]*list.Element{}}
}

func (r *recent[K, V]) get(key K) (value V, ok bool) {
	e, ok := r.entries[key]
	if !ok {
		return value, false
	}
	r.order.MoveToFront(e)
	return e.Value.(*node[K, V]).value, true
}

func (r *recent[K, V]) put(key K, value V) {
	if e, ok := r.entries[key]; ok {
		e.Value.(*node[K, V]).value = value
		r.order.MoveToFront(e)
		return
	}
	if len(r.entries) == r.most {
		last := r.order.Back()
		delete(r.entries, r.order.Remove(last).(*node[K, V]).key)
	}
	r.entries[key] = r.order.PushFront(&node[K, V]{key, value})
}
