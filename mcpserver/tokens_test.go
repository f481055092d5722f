package mcpserver

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

const (
	tokenOfAnn = "ann-0123456789abcdef"
	tokenOfBob = "bob-0123456789abcdef"
)

// tokens are those of two principals.
func tokens(t testing.TB) Tokens {
	t.Helper()
	parsed, err := ParseTokens("ann " + tokenOfAnn + "\nbob " + tokenOfBob)
	if err != nil {
		t.Fatal(err)
	}
	return parsed
}

func TestParseTokens(t *testing.T) {
	for name, tt := range map[string]struct {
		text string
		want map[string]string // principals by token
		err  string
	}{
		"names":          {"ann " + tokenOfAnn + "\n\tbob\t" + tokenOfBob + "\r\n", map[string]string{tokenOfAnn: "ann", tokenOfBob: "bob"}, ""},
		"comments":       {"# of us\n\n  # ann x\nann " + tokenOfAnn, map[string]string{tokenOfAnn: "ann"}, ""},
		"no name":        {tokenOfAnn, map[string]string{tokenOfAnn: "token-4aebd70d"}, ""},
		"two of one":     {"ann " + tokenOfAnn + "\nann " + tokenOfBob, map[string]string{tokenOfAnn: "ann", tokenOfBob: "ann"}, ""},
		"a prefix":       {"ann " + tokenOfAnn, map[string]string{tokenOfAnn[:16]: "", "": "", tokenOfAnn + "0": ""}, ""},
		"none":           {"# nobody\n", nil, "there are none"},
		"empty":          {"", nil, "there are none"},
		"short":          {"ann secret", nil, "line 1: a token has 16 to 512"},
		"long":           {strings.Repeat("a", 513), nil, "line 1: a token has"},
		"characters":     {"\nann 0123456789abcdef\x00", nil, "line 2: a token has letters"},
		"words":          {"ann likes " + tokenOfAnn, nil, "more than a name and a token"},
		"a name's slash": {"an/n " + tokenOfAnn, nil, "a name has letters"},
		"a name's dot":   {".ann " + tokenOfAnn, nil, "begins with a letter"},
		"a long name":    {strings.Repeat("a", 65) + " " + tokenOfAnn, nil, "64 at most"},
		"local":          {"local " + tokenOfAnn, nil, "need no token"},
		"twice":          {"ann " + tokenOfAnn + "\nbob " + tokenOfAnn, nil, "line 2: its token is there already"},
	} {
		t.Run(name, func(t *testing.T) {
			parsed, err := ParseTokens(tt.text)
			if tt.err == "" && err != nil || tt.err != "" && (err == nil || !strings.Contains(err.Error(), tt.err)) {
				t.Fatalf("got %v, want %q", err, tt.err)
			}
			if err != nil && (strings.Contains(err.Error(), "secret") || strings.Contains(err.Error(), "0123456789")) {
				t.Errorf("the error shows a token: %v", err)
			}
			for token, want := range tt.want {
				if got, _ := parsed.principal(token); got != want {
					t.Errorf("principal of %q: got %q, want %q", token, got, want)
				}
			}
		})
	}
}

func FuzzParseTokens(f *testing.F) {
	f.Add("ann " + tokenOfAnn + "\n# x\n" + tokenOfBob)
	f.Add("local " + tokenOfAnn)
	f.Fuzz(func(t *testing.T, text string) {
		parsed, err := ParseTokens(text)
		if (err == nil) == parsed.Empty() {
			t.Fatalf("%d tokens and %v", len(parsed.all), err)
		}
		for _, h := range parsed.all {
			if h.name == "" || h.name == local || strings.ContainsAny(h.name, "/ \x00") {
				t.Errorf("the name %q", h.name)
			}
		}
	})
}

// A file of tokens that others may read gives nobody in.
func TestReadTokens(t *testing.T) {
	for name, tt := range map[string]struct {
		mode os.FileMode
		err  string
	}{
		"private":   {0o600, ""},
		"read only": {0o400, ""},
		"a group's": {0o640, "run chmod 600"},
		"others'":   {0o604, "run chmod 600"},
		"written":   {0o620, "run chmod 600"},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "tokens")
			if err := os.WriteFile(path, []byte("ann "+tokenOfAnn), 0o600); err != nil {
				t.Fatal(err)
			}
			if err := os.Chmod(path, tt.mode); err != nil {
				t.Fatal(err)
			}
			_, err := ReadTokens(path)
			if tt.err == "" && err != nil || tt.err != "" && (err == nil || !strings.Contains(err.Error(), tt.err)) {
				t.Errorf("got %v, want %q", err, tt.err)
			}
		})
	}
	dir := t.TempDir()
	pipe, large := filepath.Join(dir, "pipe"), filepath.Join(dir, "large")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(large, []byte(strings.Repeat("#", maxTokenFile+1)), 0o600); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{dir: "not a regular file", pipe: "not a regular file", large: "more than", filepath.Join(dir, "none"): "no such file"} {
		if _, err := ReadTokens(path); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", path, err, want)
		}
	}
}
