package ignore

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// A tree for git to judge: the text of each ignore file by its directory, and
// paths, of which directories end in a slash.
type tree struct {
	files map[string]string
	paths []string
}

func needGit(t *testing.T) {
	if _, err := exec.LookPath("git"); err != nil {
		if os.Getenv("CI") != "" {
			t.Fatal(err)
		}
		t.Skip(err)
	}
}

// write makes the tree below dir, a repository: as much of one as git wants to
// see.
func (tr tree) write(dir string) error {
	for _, sub := range []string{"objects", "refs"} {
		if err := os.MkdirAll(filepath.Join(dir, ".git", sub), 0o755); err != nil {
			return err
		}
	}
	if err := os.WriteFile(filepath.Join(dir, ".git", "HEAD"), []byte("ref: refs/heads/main\n"), 0o644); err != nil {
		return err
	}
	for _, p := range tr.paths {
		full := filepath.Join(dir, p)
		if strings.HasSuffix(p, "/") {
			if err := os.MkdirAll(full, 0o755); err != nil {
				return err
			}
			continue
		}
		if err := os.MkdirAll(filepath.Dir(full), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(full, nil, 0o644); err != nil {
			return err
		}
	}
	for sub, text := range tr.files {
		if err := os.MkdirAll(filepath.Join(dir, sub), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(dir, sub, ".gitignore"), []byte(text), 0o644); err != nil {
			return err
		}
	}
	return nil
}

func git(dir string, in []byte, args ...string) ([]byte, error) {
	cmd := exec.Command("git", args...)
	cmd.Dir = dir
	cmd.Stdin = bytes.NewReader(in)
	cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null", "HOME=/nonexistent")
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if exit := (*exec.ExitError)(nil); err != nil && (!asExit(err, &exit) || exit.ExitCode() != 1) {
		return nil, fmt.Errorf("git %v: %w: %s", args, err, stderr.String())
	}
	return out, nil // exit status 1 says that none is ignored
}

func asExit(err error, exit **exec.ExitError) (ok bool) {
	*exit, ok = err.(*exec.ExitError)
	return ok
}

// byGit is what git check-ignore says of the tree's paths.
func (tr tree) byGit(dir string) ([]string, error) {
	if err := tr.write(dir); err != nil {
		return nil, err
	}
	// A slash at the end would be part of the name that git matches.
	in := []byte(strings.ReplaceAll(strings.Join(tr.paths, "\x00"), "/\x00", "\x00"))
	in = bytes.TrimSuffix(in, []byte("/"))
	out, err := git(dir, in, "check-ignore", "--no-index", "--stdin", "-z")
	if err != nil {
		return nil, err
	}
	return split(string(out)), nil
}

// byLevels walks the levels as a search does.
func (tr tree) byLevels() []string {
	var ignored []string
	for _, path := range tr.paths {
		if tr.ignores(path) {
			ignored = append(ignored, strings.TrimSuffix(path, "/"))
		}
	}
	return ignored
}

func (tr tree) ignores(path string) bool {
	level := (*Level)(nil).Enter("", tr.at("."))
	clean, directory := strings.CutSuffix(path, "/")
	for i := range len(clean) {
		if clean[i] != '/' {
			continue
		}
		if level.Match(clean[:i], true) == Ignored {
			return true
		}
		level = level.Enter(clean[:i+1], tr.at(clean[:i]))
	}
	return level.Match(clean, directory) == Ignored
}

func (tr tree) at(dir string) Files {
	text, ok := tr.files[dir]
	if !ok {
		return Files{}
	}
	return Files{GitIgnore: Parse([]byte(text))}
}

func split(list string) []string {
	if list == "" {
		return nil
	}
	return strings.Split(strings.TrimSuffix(list, "\x00"), "\x00")
}

// TestGitAgrees asks git about the oddities by hand. Broken by hand: with "**"
// crossing slashes wherever it stands, with `!` ending the search for the last
// match, and without the literal head.
func TestGitAgrees(t *testing.T) {
	needGit(t)
	paths := []string{
		"a", "b/", "b/a", "b/c/", "b/c/a", "b/c/d.go", "b/c/e.c", "foo/", "foo/x/", "foo/x/bar", "fooz/", "fooz/q/", "fooz/q/bar",
		"sp ", "sp", "#h", "!n", "x.go", "dir/", "dir/x.go", "dir/y.c", "dir/deep/", "dir/deep/z.go", "-", "]", "é", "ab", "Ab",
		"node_modules/", "node_modules/m/", "node_modules/m/i.js", "a]b", "tab\t",
	}
	for _, text := range []string{
		"*\n!*/\n!*.go", "*", "*\n!b", "b/*\n!b/c", "b/**\n!b/c/d.go", "**/a", "**/", "**", "/**", "a/**/b", "b/**/a", "b/**/", "foo**/bar",
		"?oo**/bar", "?oo**", "?oo/**bar", "foo/**bar", "**foo/x", "/*/a", "/*", "sp\\ ", "sp ", "\\#h", "#h", "\\!n", "!n", "[!a]", "[^a]", "[]]", "[]-]", "[a-]", "[--]",
		"[[:alpha:]]", "[[:lower:][:upper:]]b", "[[:]]", "[[::]]", "[[:x", "[a", "a]b", "\\a", "a\\", "\\", "\\\\", "??", "?", "é", "[é]", "dir/",
		"dir", "dir//", "/dir/", "dir/*", "!dir", "dir/*\n!dir/deep", "dir/*\n!dir/deep/", "dir/**/z.go", "dir/*/z.go", "node_modules",
		"node_modules/\n!node_modules/m", "*.go\n!x.go\n", "x.go\r\nab\r\n", "\xef\xbb\xbfab", "!", "/", "//", "//a", "tab\t", "* ", "*b*", "*/c", "*/*/a",
		"b/c/", "b/c/**", "**/c/**", "b/[^x]/a", "b[/]a", "b?a", "[[-\\]]", "[\\]]", "A[a-c]", "[B-a]b",
	} {
		tr := tree{files: map[string]string{".": text}, paths: paths}
		dir := t.TempDir()
		want, err := tr.byGit(dir)
		if err != nil {
			t.Fatal(err)
		}
		if got := tr.byLevels(); !slices.Equal(got, want) {
			t.Errorf("%q:\n got %q\nwant %q", text, got, want)
		}
	}
}

// TestGitAgreesOnGenerated lets rapid write ignore files at several levels.
func TestGitAgreesOnGenerated(t *testing.T) {
	needGit(t)
	name := rapid.StringMatching(`[ab.\-]{0,2}[ab]`)
	// Long stretches of plain letters are rare, so that patterns do match.
	piece := rapid.SampledFrom([]string{
		"a", "b", "a", "b", "*", "**", "?", "/", "/", "/**/", "[ab]", "[!a]", "[^b]", "[a-b]", "[", "]", "-", `\a`, `\*`, `\ `, " ", ".", "**/", "[[:alpha:]]", "!", "#",
	})
	line := rapid.Custom(func(t *rapid.T) string {
		return rapid.SampledFrom([]string{"", "", "!", "/", "!/"}).Draw(t, "lead") +
			strings.Join(rapid.SliceOfN(piece, 1, 6).Draw(t, "pieces"), "") +
			rapid.SampledFrom([]string{"", "", "/", " ", "/**", "\r"}).Draw(t, "trail")
	})
	base := t.TempDir()
	n := 0
	rapid.Check(t, func(t *rapid.T) {
		n++
		dir := filepath.Join(base, fmt.Sprint(n))
		paths := map[string]bool{}
		for range rapid.IntRange(1, 12).Draw(t, "paths") {
			parts := rapid.SliceOfN(name, 1, 4).Draw(t, "path")
			for i := 1; i < len(parts); i++ {
				paths[strings.Join(parts[:i], "/")+"/"] = true
			}
			paths[strings.Join(parts, "/")] = true
		}
		tr := tree{files: map[string]string{}}
		for p := range paths {
			if !paths[p+"/"] {
				tr.paths = append(tr.paths, p)
			}
		}
		slices.Sort(tr.paths)
		tr.files["."] = strings.Join(rapid.SliceOfN(line, 1, 5).Draw(t, "rules"), "\n")
		for _, p := range tr.paths {
			if sub, ok := strings.CutSuffix(p, "/"); ok && rapid.IntRange(0, 3).Draw(t, "below") == 0 {
				tr.files[sub] = strings.Join(rapid.SliceOfN(line, 1, 3).Draw(t, "rules"), "\n")
			}
		}
		defer os.RemoveAll(dir)
		want, err := tr.byGit(dir)
		if err != nil {
			t.Fatal(err)
		}
		if got := tr.byLevels(); !slices.Equal(got, want) {
			t.Errorf("%q:\n got %q\nwant %q\n  of %q", tr.files, got, want, tr.paths)
		}
	})
}
