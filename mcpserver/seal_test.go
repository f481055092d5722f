package mcpserver

import (
	"crypto/sha256"
	"errors"
	"testing"
	"time"
)

// A state is opened once, for what it was made for, before it expires; and the seal
// forgets what has expired.
//
// Seen to fail: without the binding; with nonces that are not kept;
// with states that never expire; without the pruning.
func TestLaw37Seal(t *testing.T) {
	now := time.Unix(1_000_000, 0)
	s := newSeal()
	s.now = func() time.Time { return now }
	to := binding{principal: "p", location: "l", tool: "t", arguments: sha256.Sum256([]byte("{}"))}
	made := func() string {
		state, err := s.close(carried{Handle: "h", Asked: []string{"1"}, Expires: now.Add(time.Minute)}, to)
		if err != nil {
			t.Fatal(err)
		}
		return state
	}
	state := made()
	for name, change := range map[string]func(b *binding){
		"principal": func(b *binding) { b.principal = "q" },
		"location":  func(b *binding) { b.location = "m" },
		"tool":      func(b *binding) { b.tool = "u" },
		"arguments": func(b *binding) { b.arguments[31]++ },
		"moved":     func(b *binding) { b.principal, b.location = `p" "l`, "" },
	} {
		from := to
		change(&from)
		if _, err := s.open(state, from); !errors.Is(err, errForeignState) {
			t.Errorf("another %s: %v", name, err)
		}
	}
	if _, err := newSeal().open(state, to); !errors.Is(err, errForeignState) {
		t.Errorf("another process: %v", err)
	}
	if got, err := s.open(state, to); err != nil || got.Handle != "h" || len(got.Asked) != 1 {
		t.Errorf("got %+v, %v", got, err)
	}
	if _, err := s.open(state, to); !errors.Is(err, errSpentState) {
		t.Errorf("again: %v", err)
	}
	old := made()
	now = now.Add(time.Minute)
	for _, late := range []string{old, state} {
		if _, err := s.open(late, to); !errors.Is(err, errExpiredState) {
			t.Errorf("late: %v", err)
		}
	}
	for range 10 {
		for range 200 {
			if _, err := s.open(made(), to); err != nil {
				t.Fatal(err)
			}
		}
		now = now.Add(time.Hour)
	}
	if n := len(s.spent); n > 1000 {
		t.Errorf("%d nonces are kept", n)
	}
}

// Of one state no concurrent replay gets through.
//
// Seen to fail: with a look and a note under two locks.
func TestLaw37SealConcurrently(t *testing.T) {
	s := newSeal()
	state, err := s.close(carried{Expires: time.Now().Add(time.Hour)}, binding{})
	if err != nil {
		t.Fatal(err)
	}
	results := make(chan error, 64)
	for range cap(results) {
		go func() {
			_, err := s.open(state, binding{})
			results <- err
		}()
	}
	opened := 0
	for range cap(results) {
		if err := <-results; err == nil {
			opened++
		} else if !errors.Is(err, errSpentState) {
			t.Error(err)
		}
	}
	if opened != 1 {
		t.Errorf("opened %d times", opened)
	}
}

// No text but a state is opened, and none breaks it.
func FuzzSealOpen(f *testing.F) {
	s := newSeal()
	state, err := s.close(carried{Expires: time.Now().Add(time.Hour)}, binding{})
	if err != nil {
		f.Fatal(err)
	}
	for _, seed := range []string{"", "A", state[:len(state)-1], state + "A", " " + state} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if _, err := s.open(text, binding{}); !errors.Is(err, errForeignState) {
			t.Errorf("%q: %v", text, err)
		}
	})
}

// The same arguments have one form, and others another.
//
// Seen to fail: with numbers that are read as floats.
func TestCanonicalArguments(t *testing.T) {
	for _, same := range [][]string{
		{``, `null`, `{}`, ` { } `}, {`{"a":1,"b":[1,2]}`, `{"b":[1, 2],"a":1}`, "{\"\\u0061\":1,\n\"b\":[1,2]}"},
		{`{"a":1.0}`}, {`{"a":1}`}, {`{"a":10}`}, {`{"a":1e1}`}, {`{"a":9007199254740993}`}, {`{"a":9007199254740992}`}, {`{"a":"1"}`}, {`{"a":null}`},
		{`{"b":[2,1],"a":1}`},
	} {
		for _, text := range same {
			if got, want := string(canonical([]byte(text))), string(canonical([]byte(same[0]))); got != want {
				t.Errorf("%s: got %s, want %s", text, got, want)
			}
			for _, other := range []string{`{"a":2}`, `[]`} {
				if string(canonical([]byte(other))) == string(canonical([]byte(text))) {
					t.Errorf("%s is taken for %s", other, text)
				}
			}
		}
	}
	seen := map[string]string{}
	for _, text := range []string{`{"a":1.0}`, `{"a":1}`, `{"a":1e0}`, `{"a":9007199254740993}`, `{"a":9007199254740992}`} {
		form := string(canonical([]byte(text)))
		if other, ok := seen[form]; ok {
			t.Errorf("%s is taken for %s", text, other)
		}
		seen[form] = text
	}
}
