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

// A tree for git to judge: the text of each .gitignore by its directory, of each
// info/exclude by the repository, of which "." is one, the user's own rules, and paths,
// of which directories end in a slash.
type tree struct {
	files    map[string]string
	excludes map[string]string
	nested   []string // repositories below the first
	global   string
	paths    []string
}

func needGit(t *testing.T) {
	if _, err := exec.LookPath("git"); err != nil {
		if os.Getenv("CI") != "" {
			t.Fatal(err)
		}
		t.Skip(err)
	}
}

// write makes the tree below dir, a repository.
func (tr tree) write(dir string) error {
	for _, repository := range append([]string{"."}, tr.nested...) {
		if err := makeRepository(filepath.Join(dir, repository), tr.excludes[repository]); err != nil {
			return err
		}
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

// makeRepository makes as much of a repository as git wants to see.
func makeRepository(dir, exclude string) error {
	for _, sub := range []string{"objects", "refs", "info"} {
		if err := os.MkdirAll(filepath.Join(dir, ".git", sub), 0o755); err != nil {
			return err
		}
	}
	if err := os.WriteFile(filepath.Join(dir, ".git", "info", "exclude"), []byte(exclude), 0o644); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, ".git", "HEAD"), []byte("ref: refs/heads/main\n"), 0o644)
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
	global := dir + ".global"
	if err := os.WriteFile(global, []byte(tr.global), 0o644); err != nil {
		return nil, err
	}
	defer os.Remove(global)
	ignored := map[string]bool{}
	for _, repository := range append([]string{"."}, tr.nested...) {
		var in []string
		for _, p := range tr.paths {
			// A slash at the end would be part of the name that git matches.
			if below, ok := tr.in(repository, strings.TrimSuffix(p, "/")); ok {
				in = append(in, below)
			}
		}
		if len(in) == 0 {
			continue
		}
		out, err := git(filepath.Join(dir, repository), []byte(strings.Join(in, "\x00")),
			"-c", "core.excludesFile="+global, "check-ignore", "--no-index", "--stdin", "-z")
		if err != nil {
			return nil, err
		}
		for _, below := range split(string(out)) {
			ignored[filepath.Join(repository, below)] = true
		}
	}
	var all []string
	for _, p := range tr.paths {
		p = strings.TrimSuffix(p, "/")
		is := ignored[p]
		for _, repository := range tr.nested { // nothing comes back that lies below what is ignored
			is = is || ignored[repository] && strings.HasPrefix(p, repository+"/")
		}
		if is {
			all = append(all, p)
		}
	}
	return all, nil
}

// in says whether a path lies in a repository and in none below it, and where.
func (tr tree) in(repository, path string) (below string, ok bool) {
	for _, other := range tr.nested {
		if (repository == "." || len(other) > len(repository)) && strings.HasPrefix(path, other+"/") {
			return "", false
		}
	}
	if repository == "." {
		return path, true
	}
	return strings.CutPrefix(path, repository+"/")
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
	level := Global(Parse([]byte(tr.global))).Enter("", tr.at("."))
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
	var files Files
	if text, ok := tr.files[dir]; ok {
		files.GitIgnore = Parse([]byte(text))
	}
	if dir == "." || slices.Contains(tr.nested, dir) {
		files.Repository, files.Exclude = true, Parse([]byte(tr.excludes[dir]))
	}
	return files
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

// TestGitAgreesOnGenerated lets rapid write ignore files of all kinds at several levels, with repositories below the first.
//
// Seen to fail: with the user's own rules before info/exclude, with them relative to the first repository in one below,
// and with rules that hold across the top of a repository.
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
		rules := func(what string) string {
			return strings.Join(rapid.SliceOfN(line, 0, 3).Draw(t, what), "\n")
		}
		tr.global, tr.excludes = rules("global"), map[string]string{".": rules("exclude")}
		tr.files["."] = strings.Join(rapid.SliceOfN(line, 1, 5).Draw(t, "rules"), "\n")
		for _, p := range tr.paths {
			sub, directory := strings.CutSuffix(p, "/")
			if directory && rapid.IntRange(0, 5).Draw(t, "nested") == 0 {
				tr.nested = append(tr.nested, sub)
				tr.excludes[sub] = rules("exclude")
			}
			if directory && rapid.IntRange(0, 3).Draw(t, "below") == 0 {
				tr.files[sub] = strings.Join(rapid.SliceOfN(line, 1, 3).Draw(t, "rules"), "\n")
			}
		}
		defer os.RemoveAll(dir)
		want, err := tr.byGit(dir)
		if err != nil {
			t.Fatal(err)
		}
		if got := tr.byLevels(); !slices.Equal(got, want) {
			t.Errorf("%+v:\n got %q\nwant %q", tr, got, want)
		}
	})
}
