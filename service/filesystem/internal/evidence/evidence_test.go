package evidence

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"
)

// shelf is a store of which each host has its own Book.
type shelf struct {
	mu     sync.Mutex
	seen   map[key]Digest
	broken error
	writes int
}

var _ Store = (*shelf)(nil)

func (s *shelf) Saw(_ context.Context, session, path string, content Digest) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.broken == nil {
		s.writes++
		s.seen[key{session, path}] = content
	}
	return s.broken
}

func (s *shelf) Seen(_ context.Context, session, path string) (Digest, bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	content, ok := s.seen[key{session, path}]
	return content, ok && s.broken == nil, s.broken
}

func of(text string) Digest { return sha256.Sum256([]byte(text)) }

func want(t *testing.T, b *Book, text string) {
	t.Helper()
	got, ok, err := b.Seen(t.Context(), "s", "f")
	if ok != (text != "") || ok && got != of(text) || err != nil {
		t.Errorf("got %x, %v, %v, want that of %q", got, ok, err, text)
	}
}

// What two hosts saw in one session is told by the store, and is written again when
// the store says something else meanwhile. Seen to fail: with the memory asked first;
// without the correction of the memory in Seen.
func TestLaw28TwoBooksOnOneStore(t *testing.T) {
	store := &shelf{seen: map[key]Digest{}}
	one, two := NewBook(store), NewBook(store)
	one.Saw(t.Context(), "s", "f", of("1"))
	want(t, two, "1")
	two.Saw(t.Context(), "s", "f", of("2"))
	want(t, one, "2")
	one.Saw(t.Context(), "s", "f", of("1"))
	want(t, one, "1")
	want(t, two, "1")
	want(t, NewBook(store), "1")
}

// The store is told what is new, and again after half a day. Seen to fail: without the
// comparison in Saw; without the time in it.
func TestStoreIsToldOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &shelf{seen: map[key]Digest{}}
		b := NewBook(store)
		for _, wait := range []time.Duration{0, 0, writtenFor - time.Second, 2 * time.Second} {
			time.Sleep(wait)
			b.Saw(t.Context(), "s", "f", of("1"))
		}
		if store.writes != 2 {
			t.Errorf("%d writes, want 2", store.writes)
		}
		b.Saw(t.Context(), "", "f", of("1"))
		if _, ok, err := b.Seen(t.Context(), "", "f"); ok || err != nil || store.writes != 2 {
			t.Errorf("of no session: seen %v, %v, and %d writes", ok, err, store.writes)
		}
	})
}

// What the store cannot keep holds in this process, over what the store knew before;
// and it is written with the next reading that can be. Seen to fail: with an entry of a
// broken store taken for written.
func TestLaw28StoreThatFails(t *testing.T) {
	store := &shelf{seen: map[key]Digest{}}
	b := NewBook(store)
	b.Saw(t.Context(), "s", "f", of("1"))
	store.broken = errors.New("the disk is full")
	want(t, b, "1")
	b.Saw(t.Context(), "s", "f", of("2"))
	want(t, b, "2")
	if _, ok, err := b.Seen(t.Context(), "s", "g"); ok || !errors.Is(err, store.broken) {
		t.Errorf("what nobody knows: %v, %v", ok, err)
	}
	store.broken = nil
	want(t, b, "2")
	want(t, NewBook(store), "1")
	b.Saw(t.Context(), "s", "f", of("2"))
	want(t, NewBook(store), "2")
}

// Seen to fail: with entries that get does not move.
func TestRecentForgetsWhatWasUsedLongestAgo(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		most := rapid.IntRange(1, 6).Draw(t, "most")
		r := newRecent[int, string](most)
		var used []int // the last one at the end
		values := map[int]string{}
		use := func(k int) {
			for i, other := range used {
				if other == k {
					used = append(used[:i], used[i+1:]...)
					break
				}
			}
			if used = append(used, k); len(used) > most {
				delete(values, used[0])
				used = used[1:]
			}
		}
		for i := range 40 {
			k := rapid.IntRange(0, 9).Draw(t, "key")
			if rapid.Bool().Draw(t, "put") {
				values[k] = fmt.Sprint(i)
				r.put(k, values[k])
				use(k)
			}
			got, ok := r.get(k)
			if want, known := values[k]; got != want || ok != known {
				t.Fatalf("%d: got %q, %v, want %q, %v", k, got, ok, want, known)
			}
			if ok {
				use(k)
			}
			if len(r.entries) != len(values) || r.order.Len() != len(values) {
				t.Fatalf("%d entries and %d in order, want %d", len(r.entries), r.order.Len(), len(values))
			}
		}
	})
}
