package filesystem

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/toolhost/toolhost/service"
)

// need looks for a program to compare with. Where it is missing the test is
// skipped, except where CI is set.
func need(t testing.TB, name string) {
	t.Helper()
	if _, err := exec.LookPath(name); err != nil {
		if os.Getenv("CI") != "" {
			t.Fatal(err)
		}
		t.Skip(err)
	}
}

// run gives the lines that a program prints; exit status 1 is for "nothing", and
// ripgrep says it with 2 where it has left out every file.
func run(dir, name string, args ...string) ([]string, error) {
	cmd := exec.Command(name, args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null", "HOME=/nonexistent", "XDG_CONFIG_HOME=/nonexistent")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if strings.Contains(stderr.String(), "No files were searched") {
		return nil, nil
	}
	if exit := (*exec.ExitError)(nil); err != nil && (!errors.As(err, &exit) || exit.ExitCode() != 1) {
		return nil, fmt.Errorf("%s %v: %w: %s", name, args, err, stderr.String())
	}
	return strings.FieldsFunc(string(out), func(r rune) bool { return r == '\n' || r == 0 }), nil
}

// generateTree makes a repository with ignore files at several levels, of rules
// that git and ripgrep read alike.
func generateTree(t *rapid.T, root string) error {
	name := rapid.SampledFrom([]string{"a", "b", "c.go", "d.log", "e.txt", ".h", "a-b", "é.go"})
	rule := rapid.SampledFrom([]string{
		"*.log", "!d.log", "a/", "/b", "*.go", "!c.go", "a/b", "**/e.txt", "b/**", "a/**/c.go", "!.h", "[ab]", "[!c-z].txt", "#x", `\#x`, "e.txt ", "?.go", "/*/b/", "!a/",
	})
	text := func(label string) []byte {
		return []byte(strings.Join(rapid.SliceOfN(rule, 1, 5).Draw(t, label), "\n") + "\n")
	}
	// As much of a repository as git wants to see.
	for _, dir := range []string{".git/info", ".git/objects", ".git/refs"} {
		if err := os.MkdirAll(filepath.Join(root, dir), 0o755); err != nil {
			return err
		}
	}
	if err := os.WriteFile(root+"/.git/HEAD", []byte("ref: refs/heads/main\n"), 0o644); err != nil {
		return err
	}
	if rapid.Bool().Draw(t, "excludes") {
		if err := os.WriteFile(root+"/.git/info/exclude", text("exclude"), 0o644); err != nil {
			return err
		}
	}
	dirs := []string{"."}
	for i := range rapid.IntRange(1, 25).Draw(t, "files") {
		path := filepath.Join(rapid.SliceOfN(name, 1, 4).Draw(t, "path")...)
		full := filepath.Join(root, path)
		if os.MkdirAll(filepath.Dir(full), 0o755) != nil || os.WriteFile(full, fileText(t, i), 0o644) != nil {
			continue // the name is taken by the other kind
		}
		dirs = append(dirs, filepath.Dir(path))
	}
	for _, dir := range dirs {
		if rapid.IntRange(0, 2).Draw(t, "ignores") == 0 {
			if err := os.WriteFile(filepath.Join(root, dir, ".gitignore"), text("rules"), 0o644); err != nil {
				return err
			}
		}
	}
	return nil
}

func fileText(t *rapid.T, i int) []byte {
	word := rapid.SampledFrom([]string{"needle", "Needle", "hay", "x", " ", "\n", "\n", "\n", "é", "(a.b)", "k"})
	return []byte(strings.Join(rapid.SliceOfN(word, 0, 20).Draw(t, fmt.Sprint("text", i)), ""))
}

// onTree runs a check on generated trees.
func onTree(t *testing.T, check func(t *rapid.T, root string, r *Root)) {
	t.Helper()
	base := t.TempDir()
	n := 0
	rapid.Check(t, func(t *rapid.T) {
		n++
		root := filepath.Join(base, fmt.Sprint(n))
		defer os.RemoveAll(root)
		if err := generateTree(t, root); err != nil {
			t.Fatal(err)
		}
		f, err := Open(root, Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		r, err := f.ResolveRoot(context.Background(), Caller{Gate: &rules{}}, ".")
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		check(t, root, r)
	})
}

func isHidden(path string) bool { return strings.HasPrefix(path, ".") || strings.Contains(path, "/.") }

func all(t *rapid.T, r *Root) []string {
	got, err := r.Glob(context.Background(), service.GlobQuery{Pattern: "**/*", Limit: service.MaxEntries})
	if err != nil || got.Truncated {
		t.Fatal(got, err)
	}
	return got.Paths
}

// What git would add is what glob finds, except for hidden files.
func TestGlobIsWhatGitLists(t *testing.T) {
	need(t, "git")
	onTree(t, func(t *rapid.T, root string, r *Root) {
		want, err := run(root, "git", "ls-files", "-z", "--cached", "--others", "--exclude-standard")
		if err != nil {
			t.Fatal(err)
		}
		slices.Sort(want)
		got := slices.DeleteFunc(all(t, r), isHidden)
		if diff := cmp.Diff(slices.DeleteFunc(want, isHidden), got, cmpopts.EquateEmpty()); diff != "" {
			t.Error(diff)
		}
	})
}

// rg is how ripgrep is called: by its own rules, whatever the user configured.
var rg = []string{"--no-config", "--no-ignore-global", "--no-ignore-parent"}

func TestGlobIsWhatRipgrepLists(t *testing.T) {
	need(t, "rg")
	onTree(t, func(t *rapid.T, root string, r *Root) {
		want, err := run(root, "rg", append(rg, "--files", "-0")...)
		if err != nil {
			t.Fatal(err)
		}
		slices.Sort(want)
		if diff := cmp.Diff(want, all(t, r), cmpopts.EquateEmpty()); diff != "" {
			t.Error(diff)
		}
	})
}

func TestGrepIsWhatRipgrepFinds(t *testing.T) {
	need(t, "rg")
	onTree(t, func(t *rapid.T, root string, r *Root) {
		query := service.GrepQuery{
			Pattern:    rapid.SampledFrom([]string{"needle", "[nN]eed", "^x", "k$", `[a-z]+le`, "(a.b)", "é", "h?ay", "^$", "eed|hay"}).Draw(t, "pattern"),
			Literal:    rapid.Bool().Draw(t, "literal"),
			IgnoreCase: rapid.Bool().Draw(t, "fold"),
			Include:    rapid.SampledFrom([]string{"", "*.go", "**/a/*", "{a,b}/**"}).Draw(t, "include"),
			Limit:      service.MaxEntries,
		}
		args := append(slices.Clone(rg), "--no-heading", "--line-number", "--column", "--sort=path")
		if query.Literal {
			args = append(args, "--fixed-strings")
		}
		if query.IgnoreCase {
			args = append(args, "--ignore-case")
		}
		want, err := run(root, "rg", append(args, "--", query.Pattern)...)
		if err != nil {
			t.Fatal(err)
		}
		slices.Sort(want)
		got, err := r.Grep(context.Background(), query)
		if err != nil {
			t.Fatal(err)
		}
		included := map[string]bool{}
		if query.Include != "" {
			found, err := r.Glob(context.Background(), service.GlobQuery{Pattern: query.Include})
			if err != nil {
				t.Fatal(err)
			}
			for _, path := range found.Paths {
				included[path] = true
			}
			want = slices.DeleteFunc(want, func(line string) bool { return !included[strings.SplitN(line, ":", 2)[0]] })
		}
		var lines []string
		for _, m := range got.Matches {
			lines = append(lines, fmt.Sprintf("%s:%d:%d:%s", m.Path, m.Line, m.Column, m.Text))
		}
		slices.Sort(lines)
		if diff := cmp.Diff(want, lines, cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("%+v: %s", query, diff)
		}
	})
}

// The files with a match, and how many lines of each match.
func TestModesAreWhatRipgrepFinds(t *testing.T) {
	need(t, "rg")
	onTree(t, func(t *rapid.T, root string, r *Root) {
		pattern := rapid.SampledFrom([]string{"needle", "[nN]eed", "^x", "k$", "é", "."}).Draw(t, "pattern")
		for mode, option := range map[service.GrepMode]string{service.GrepFiles: "--files-with-matches", service.GrepCount: "--count"} {
			want, err := run(root, "rg", append(slices.Clone(rg), option, "--", pattern)...)
			if err != nil {
				t.Fatal(err)
			}
			slices.Sort(want)
			got, err := r.Grep(context.Background(), service.GrepQuery{Pattern: pattern, Mode: mode})
			if err != nil {
				t.Fatal(err)
			}
			var lines []string
			for _, c := range got.Counts {
				if mode == service.GrepFiles {
					lines = append(lines, c.Path)
				} else {
					lines = append(lines, fmt.Sprintf("%s:%d", c.Path, c.Lines))
				}
			}
			slices.Sort(lines)
			if diff := cmp.Diff(want, lines, cmpopts.EquateEmpty()); diff != "" || got.Files != len(lines) || got.Matches != nil {
				t.Errorf("%s %s: %s", mode, pattern, diff)
			}
		}
	})
}

// What is read is what cat prints.
func TestReadIsTheFile(t *testing.T) {
	onTree(t, func(t *rapid.T, root string, r *Root) {
		for _, path := range all(t, r) {
			want, err := os.ReadFile(filepath.Join(root, path))
			if err != nil {
				t.Fatal(err)
			}
			h, err := r.system.ResolveRoot(context.Background(), Caller{Gate: &rules{}}, path)
			if err != nil {
				t.Fatal(err)
			}
			page, err := h.Read(context.Background(), service.ReadQuery{})
			h.Close()
			if err != nil || page.Text != string(want) {
				t.Errorf("%s: %q, %v; want %q", path, page.Text, err, want)
			}
		}
	})
}
