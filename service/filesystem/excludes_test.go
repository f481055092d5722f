package filesystem

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/toolhost/toolhost/service"
)

func globAll(t *testing.T, r *Root) []string {
	t.Helper()
	got, err := r.Glob(t.Context(), service.GlobQuery{Pattern: "**/*"})
	if err != nil {
		t.Fatal(err)
	}
	return got.Paths
}

// The user's own rules are read where git reads them. Seen to fail: with the first of
// two settings, and with quotes kept.
func TestUserExcludes(t *testing.T) {
	for _, tt := range []struct {
		name  string
		files []string
		want  string
	}{
		{"nothing", nil, ""},
		{"the file that git reads by itself", []string{"xdg/git/ignore | a\n"}, "a\n"},
		{"one that is named", []string{"xdg/git/ignore | a", ".gitconfig | [core]\n\texcludesfile = ~/mine\n", "mine | b"}, "b"},
		{"named in either file", []string{"xdg/git/config | [core]\nexcludesFile=~/x", ".gitconfig | [user]\nname=n", "x | c"}, "c"},
		{"the user's file wins", []string{"xdg/git/config | [core]\nexcludesFile=~/x", ".gitconfig | [core]\nexcludesFile=~/y", "x | c", "y | d"}, "d"},
		{"the last one wins", []string{".gitconfig | [core]\nexcludesFile = ~/x\n[CORE] ExcludesFile = ~/y # this\n", "x | c", "y | d"}, "d"},
		{"another section", []string{".gitconfig | [core \"x\"]\nexcludesFile = ~/x\n[alias]\nexcludesFile = ~/x\n", "x | c"}, ""},
		{"quotes", []string{".gitconfig | [core]\nexcludesFile = \"~/a # b\"  ; a comment\n", "a # b | e"}, "e"},
		{"a named file that is missing", []string{"xdg/git/ignore | a", ".gitconfig | [core]\nexcludesfile = ~/none\n"}, ""},
		{"a relative one is relative to nothing", []string{".gitconfig | [core]\nexcludesfile = x\n", "x | c"}, ""},
		{"no file", []string{"xdg/git/ignore/ "}, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			home := t.TempDir()
			write(t, home, tt.files...)
			if got := userExcludes(home, filepath.Join(home, "xdg", "git")); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

// Values are those that git sees.
func TestExcludesFileIsWhatGitReads(t *testing.T) {
	need(t, "git")
	for _, value := range []string{
		"x", " x y ", `"x"`, `"x # y" # z`, `x\\y`, `x\"y`, `"a" b "c "`, "x;y", `x "#" y`, "/a b/c  ; d",
	} {
		config := filepath.Join(t.TempDir(), "config")
		text := "[core]\n\texcludesFile = " + value + "\n"
		if err := os.WriteFile(config, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		out, err := exec.Command("git", "config", "--file", config, "--null", "--get", "core.excludesFile").Output()
		if err != nil {
			t.Fatal(err)
		}
		if got, ok := excludesFile(text); !ok || got != strings.TrimSuffix(string(out), "\x00") {
			t.Errorf("%s: got %q, want %q", value, got, out)
		}
	}
}

// Seen to fail: without the rules from outside in a handle below the root.
func TestUserExcludesHold(t *testing.T) {
	root := t.TempDir()
	write(t, root, "a.tmp", "keep.tmp", "top", "sub/top", "sub/b.tmp", ".gitignore | !keep.tmp\n", "repo/.git/HEAD", "repo/top", "repo/x")
	f, err := Open(root, Options{Excludes: "*.tmp\n/top\n"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	if got, want := globAll(t, resolve(t, f, &rules{}, ".")), []string{"keep.tmp", "repo/x", "sub/top"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if got, want := globAll(t, resolve(t, f, &rules{}, "sub")), []string{"sub/top"}; !slices.Equal(got, want) {
		t.Errorf("below: got %q, want %q", got, want)
	}
}

// Of a root within a repository, the rules from the repository's top on hold; those of
// what is above that, or of directories that are in no repository, do not.
//
// Seen to fail: with the way down left out, and with what lies above the repository.
func TestRulesAboveTheRoot(t *testing.T) {
	base := t.TempDir()
	write(t, base, ".ignore | x\n", "repo/.git/info/exclude | excluded\n", "repo/.gitignore | /w/deep/*.log\n*.o\n", "repo/w/.ignore | !keep.o\nhidden\n",
		"repo/w/deep/a.log", "repo/w/deep/sub/a.log", "repo/w/deep/a.o", "repo/w/deep/keep.o", "repo/w/deep/x", "repo/w/deep/excluded", "repo/w/deep/hidden")
	if got, want := globAll(t, handleOn(t, base+"/repo/w/deep", ".")), []string{"keep.o", "sub/a.log", "x"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	list, err := handleOn(t, base+"/repo/w", ".").List(t.Context(), service.ListQuery{Depth: 3})
	if err != nil || len(list.Entries) != 10 {
		t.Errorf("all is listed: %+v, %v", list, err)
	}
	write(t, base, "plain/.gitignore | *.o\n", "plain/w/a.o")
	if got, want := globAll(t, handleOn(t, base+"/plain/w", ".")), []string{"a.o"}; !slices.Equal(got, want) {
		t.Errorf("without a repository: got %q, want %q", got, want)
	}
}

// What git keeps for a worktree or a submodule is used below the root, and only there.
//
// Seen to fail: without the common directory.
func TestExcludesOfWorktrees(t *testing.T) {
	base := t.TempDir()
	root := filepath.Join(base, "root")
	write(t, base, "root/.git/HEAD", "root/.git/info/exclude | main\n",
		"root/.git/modules/m/info/exclude | of-module\n", "root/m/.git | gitdir: ../.git/modules/m\n", "root/m/of-module", "root/m/main",
		"root/.git/worktrees/w/commondir | ../..\n", "root/w/.git | gitdir: "+root+"/.git/worktrees/w\n", "root/w/main", "root/w/of-module",
		"elsewhere/info/exclude | x\n", "root/o/.git | gitdir: ../../elsewhere\n", "root/o/x", "root/p/.git | gitdir: "+base+"/elsewhere\n", "root/p/x")
	if got, want := globAll(t, handleOn(t, root, ".")), []string{"m/main", "o/x", "p/x", "w/of-module"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if got, want := globAll(t, handleOn(t, root, "w")), []string{"w/of-module"}; !slices.Equal(got, want) {
		t.Errorf("of the worktree itself: got %q, want %q", got, want)
	}
}
