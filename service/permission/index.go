package permission

import (
	"encoding/binary"
	"slices"
	"strings"
	"unicode/utf8"
)

// A policy of a thousand rules is evaluated for every request, so an engine
// sorts its rules by the actions of the built-ins once, and keeps beside each
// the first and last letters of what it matches, and which pairs of letters are in
// it: most rules are told not to match by them, without being looked at.

// entry is a rule, with the letters that a text begins and ends with if the rule
// matches it, and the pairs of letters that are in it then.
type entry struct {
	head, headMask, tail, tailMask uint64
	pairs                          pairs
	rule                           *Rule
}

// pairs is a set of pairs of neighbouring bytes, each in one of 256 places: what is in
// none of them is not in the set.
type pairs [4]uint64

func (p *pairs) add(text string) {
	for i := 1; i < len(text); i++ {
		place := (uint32(text[i-1])*31 + uint32(text[i])*131) % 256
		p[place/64] |= 1 << (place % 64)
	}
}

// within reports whether the set may be a part of the other.
func (p *pairs) within(other *pairs) bool {
	return p[0]&^other[0]|p[1]&^other[1]|p[2]&^other[2]|p[3]&^other[3] == 0
}

// indexed is the list with its rules sorted for the actions.
func (l List) indexed(actions []string) List {
	l.entries = make(map[string][]entry, len(actions))
	for _, action := range actions {
		entries := make([]entry, 0, len(l.Rules))
		for i := range l.Rules {
			r := &l.Rules[i]
			if !r.Action.Match(action) {
				continue
			}
			prefix, suffix := r.Resource.prefix, r.Resource.suffix
			e := entry{pairs: r.Resource.pairs(), head: head(prefix), headMask: ^uint64(0), tail: tail(suffix), tailMask: ^uint64(0), rule: r}
			if n := len(prefix); n < 8 {
				e.headMask = 1<<(8*n) - 1
			}
			if n := len(suffix); n < 8 {
				e.tailMask = ^(1<<(8*(8-n)) - 1)
			}
			entries = append(entries, e)
		}
		l.entries[action] = entries
	}
	return l
}

// pairs are those of whatever the pattern matches.
func (p *Pattern) pairs() (all pairs) {
	for part := range strings.FieldsFuncSeq(p.prefix+p.wild+p.suffix, func(r rune) bool { return r == utf8.RuneError }) {
		all.add(part)
	}
	return all
}

// letters are the ends of a text.
type letters struct{ head, tail uint64 }

func lettersOf(text string) letters { return letters{head(text), tail(text)} }

// may reports whether the entry's rule can match the text with these ends.
func (e *entry) may(l letters) bool {
	return (l.head^e.head)&e.headMask|(l.tail^e.tail)&e.tailMask == 0
}

// head is the first eight bytes of the text, the first of them lowest.
func head(text string) uint64 {
	var b [8]byte
	copy(b[:], text)
	return binary.LittleEndian.Uint64(b[:])
}

// tail is the last eight bytes of the text, the last of them highest.
func tail(text string) uint64 {
	var b [8]byte
	if len(text) > 8 {
		text = text[len(text)-8:]
	}
	copy(b[8-len(text):], text)
	return binary.LittleEndian.Uint64(b[:])
}

// subject is what the rules are to match: one text, or a command in all its
// spellings.
type subject struct {
	// plain is what every rule may match; raw and spellings are texts that a rule
	// matches only if it asks or denies.
	plain, raw string
	spellings  []string
	// doubtful keeps allows from matching.
	doubtful bool
	// only, if it is not nil, says which rules are looked at.
	only func(*Rule) bool
}

// misses says why the rule does not speak of the subject; empty when it does.
func (s *subject) misses(r *Rule) Miss {
	if s.only != nil && !s.only(r) {
		return MissBroad
	}
	if r.Resource.Match(s.plain) {
		if r.Effect == Allow && s.doubtful {
			return MissDoubtful
		}
		return ""
	}
	if r.Effect == Allow {
		return MissResource
	}
	if s.raw != s.plain && r.Resource.Match(s.raw) || slices.ContainsFunc(s.spellings, r.Resource.Match) {
		return ""
	}
	return MissResource
}

// misses says why the rule does not answer; empty when it does.
func (r *Rule) misses(action, agent string, s *subject) Miss {
	switch {
	case !r.Action.Match(action):
		return MissAction
	case !r.isFor(agent):
		return MissAgent
	default:
		return s.misses(r)
	}
}

func (r *Rule) isFor(agent string) bool { return r.Agent == "" || r.Agent == agent }

// last is the last rule of the list that speaks of the subject, or nil. For a trace,
// which is told of every rule, the rules are not sorted.
func (l *List) last(action, agent string, s *subject, t *trace) *Rule {
	entries, sorted := l.entries[action]
	if !sorted || t != nil {
		for i := len(l.Rules) - 1; i >= 0; i-- {
			r := &l.Rules[i]
			miss := r.misses(action, agent, s)
			t.looked(r, miss, i)
			if miss == "" {
				return r
			}
		}
		return nil
	}
	plain, raw := lettersOf(s.plain), lettersOf(s.raw)
	var has pairs
	has.add(s.plain)
	has.add(s.raw)
	for _, spelling := range s.spellings {
		has.add(spelling)
	}
	for i := len(entries) - 1; i >= 0; i-- {
		e := &entries[i]
		if !e.pairs.within(&has) || !e.may(plain) && !e.may(raw) && len(s.spellings) == 0 {
			continue
		}
		if r := e.rule; r.isFor(agent) && s.misses(r) == "" {
			return r
		}
	}
	return nil
}
