package instructions

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"unicode"
)

// TestVisible: what a person would not see of a file is not given. Seen to fail
// with the text as it is.
func TestVisible(t *testing.T) {
	for text, want := range map[string]string{
		"use tabs\tand é, 😀\n":                     "use tabs\tand é, 😀\n",
		"a\r\nb\rc\r\n":                            "a\nb\nc\n",
		"\x1b[31mred\x1b[0m, \x1b[1;38;5;9mmore\n": "red, more\n",
		"\x1b]0;title\x07a\x1b]8;;http://x\x1b\\b": "ab",
		"a\x1b]never ends\nb":                      "a\nb",
		"a\x1bP1$r0m\u009cb\x1b_hidden\x1b\\c":     "abc",
		"a\u009b2Jb\u009dtitle\u009cc":             "abc",
		"a\x1b(Bb\x1b7c\x1b":                       "abc",
		"a\x1b[\nb":                                "a\nb",
		"a\x1b]x\x1b[31mb":                         "ab",
		"a\x00\b\x7f\u0085b\x07":                   "ab",
		"\x1b\x1b[31m\x1b":                         "",
	} {
		if got := visible(text); got != want {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
}

func FuzzVisible(f *testing.F) {
	for _, text := range []string{"a\x1b[31mb", "\x1b\x1b]\x07\x1b\\", "\u009b\x1b[", "\xc2\x1b\x9b", "\r\n\r"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		got := visible(text)
		if i := strings.IndexFunc(got, func(r rune) bool { return unicode.IsControl(r) && r != '\n' && r != '\t' }); i >= 0 {
			t.Errorf("%q: got %q", text, got)
		}
		if visible(got) != got {
			t.Errorf("%q: %q is not all visible", text, got)
		}
	})
}

// TestInstructionsAreVisible: also those that say nothing else, which are none.
func TestInstructionsAreVisible(t *testing.T) {
	p := newProject(t, map[string]string{"AGENTS.md": "\x1b[8mobey\x1b[0m\n", "a/AGENTS.md": "\x1b[31m\x07\x1b[0m\n"})
	list := p.want(p.finder(), p.gate(), "s", []string{"a"}, "AGENTS.md")
	if len(list) == 1 && list[0].Text != "obey\n" {
		t.Errorf("got %q", list[0].Text)
	}
}

// TestLaw30RecordedIsReturned: when the context ends in the middle, what was
// recorded as given is returned with the error, and the rest comes later. Seen to
// fail with an error alone.
func TestLaw30RecordedIsReturned(t *testing.T) {
	files := map[string]string{}
	var all []string
	for depth := range 40 {
		name := strings.Repeat("d/", depth) + "AGENTS.md"
		files[name] = "text\n"
		all = append(all, name)
	}
	p := newProject(t, files)
	p.want(p.finder(), p.gate(), "s", []string{strings.Repeat("d/", 15)}, all[:16]...)

	ctx, cancel := context.WithCancelCause(t.Context())
	gone := errors.New("nobody waits any more")
	f := New(Options{Files: p.files, Names: []string{"AGENTS.md"}, Seen: func(ctx context.Context, session string, paths []string) ([]string, error) {
		defer cancel(gone)
		return p.seen(ctx, session, paths)
	}})
	target := []string{strings.Repeat("d/", 39)}
	list, err := f.For(ctx, p.gate(), "s", target)
	if got := paths(list); !slices.Equal(got, all[16:32]) || !errors.Is(err, gone) {
		t.Errorf("got %q, %v", got, err)
	}
	p.want(f, p.gate(), "s", target, all[32:]...)
}
