package ignore

import (
	"strings"
	"testing"
)

func TestMatch(t *testing.T) {
	for _, tt := range []struct {
		name, file, path string
		want             Verdict
	}{
		{"base name at any depth", "todo.txt", "a/b/todo.txt", Ignored},
		{"base name is whole", "todo", "todo.txt", None},
		{"anchored by a leading slash", "/todo.txt", "a/todo.txt", None},
		{"anchored by a leading slash, at the top", "/todo.txt", "todo.txt", Ignored},
		{"anchored by a slash within", "a/b", "x/a/b", None},
		{"directories only", "build/", "build", None},
		{"directories only, a directory", "build/", "x/build/", Ignored},
		{"last match wins", "*.go\n!main.go", "main.go", Included},
		{"last match wins, again", "!main.go\n*.go", "main.go", Ignored},
		{"a name after a pattern", "*\nkeep", "keep", Ignored},
		{"taken in again for directories", "*\n!*/\n!*.go", "a/", Included},
		{"taken in again for files", "*\n!*/\n!*.go", "a/x.go", Included},
		{"the others stay out", "*\n!*/\n!*.go", "a/x.c", Ignored},
		{"a directory rule later than a name", "!x\nx/", "x/", Ignored},
		{"a directory rule earlier than a name", "x/\n!x", "x/", Included},
		{"star stops at a slash", "a/*", "a/b/c", None},
		{"star in a path", "a/*/c", "a/b/c", Ignored},
		{"leading stars", "**/c", "a/b/c", Ignored},
		{"leading stars, none", "**/c", "c", Ignored},
		{"stars between", "a/**/c", "a/c", Ignored},
		{"stars between, some", "a/**/c", "a/x/y/c", Ignored},
		{"trailing stars", "a/**", "a/x/y", Ignored},
		{"trailing stars, not the directory", "a/**", "a/", None},
		{"stars that are not alone", "a/x**y/c", "a/xzy/c", Ignored},
		{"question mark is one byte", "?", "é", None},
		{"question mark", "?", "x", Ignored},
		{"class", "[a-c]x", "bx", Ignored},
		{"class, negated", "[!a]", "b", Ignored},
		{"class, negated by a caret", "[^a]", "a", None},
		{"class with a bracket", "[]x]", "]", Ignored},
		{"class of a name", "[[:digit:]]", "7", Ignored},
		{"class of no name", "[[:nope:]]", "n", None},
		{"class that is not closed", "[ab", "a", None},
		{"comment", "#x", "#x", None},
		{"escaped comment", `\#x`, "#x", Ignored},
		{"escaped exclamation", `\!x`, "!x", Ignored},
		{"escaped star", `\*`, "x", None},
		{"escaped star itself", `\*`, "*", Ignored},
		{"trailing spaces", "x  ", "x", Ignored},
		{"escaped trailing space", `x\ `, "x ", Ignored},
		{"trailing tab stays", "x\t", "x", None},
		{"backslash at the end", `x\`, "x", None},
		{"case counts", "X", "x", None},
		{"line ends of another system", "x\r\ny\r\n", "y", Ignored},
		{"byte order mark", "\xef\xbb\xbfx", "x", Ignored},
		{"blank line", "\n\n", "x", None},
		{"lone exclamation", "!", "x", None},
		{"lone slash", "/", "x/", None},
	} {
		t.Run(tt.name, func(t *testing.T) {
			path, directory := strings.CutSuffix(tt.path, "/")
			if got := Parse([]byte(tt.file)).Match(path, directory); got != tt.want {
				t.Errorf("Parse(%q).Match(%q) = %v, want %v", tt.file, tt.path, got, tt.want)
			}
		})
	}
}

func TestLevels(t *testing.T) {
	git := func(text string) Files { return Files{GitIgnore: Parse([]byte(text))} }
	top := (*Level)(nil).Enter("", Files{
		GitIgnore:  Parse([]byte("*.log\nnear\n")),
		Exclude:    Parse([]byte("private\nlisted.log\n!x.log\n")),
		Repository: true,
	})
	for _, tt := range []struct {
		name  string
		level *Level
		path  string
		want  Verdict
	}{
		{"no rules", nil, "x", None},
		{"own file", top, "x.log", Ignored},
		{"exclude is read", top, "private", Ignored},
		{"exclude comes last", top, "x.log", Ignored},
		{"nearest file wins", top.Enter("a/", git("!x.log")), "a/x.log", Included},
		{"anchored to its own directory", top.Enter("a/", git("/b")), "a/b", Ignored},
		{"upper rules hold below", top.Enter("a/", git("z")), "a/b/near", Ignored},
		{
			"dot ignore beats a nearer gitignore",
			top.Enter("a/", Files{DotIgnore: Parse([]byte("!*.log"))}).Enter("a/b/", git("*.log")),
			"a/b/x.log", Included,
		},
		{
			"upper git files do not hold in another repository",
			top.Enter("sub/", Files{Repository: true}), "sub/x.log", None,
		},
		{
			"upper dot ignore holds in another repository",
			(*Level)(nil).Enter("", Files{DotIgnore: Parse([]byte("x"))}).Enter("sub/", Files{Repository: true}),
			"sub/x", Ignored,
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := tt.level.Match(tt.path, false); got != tt.want {
				t.Errorf("Match(%q) = %v, want %v", tt.path, got, tt.want)
			}
		})
	}
	if top.Enter("a/", Files{}) != top {
		t.Error("a directory without ignore files made a level of its own")
	}
}

// Without remembering what failed, this takes about 10^30 attempts.
func TestHostilePatternIsBounded(t *testing.T) {
	pattern := strings.Repeat("**/*a*/", 30) + "b"
	text := strings.Repeat("aa/", 60) + "c"
	m := matcher{pattern: pattern, text: text, path: true}
	if m.match(0, 0) {
		t.Fatal("matched")
	}
	if most := len(pattern) * len(text) * len(text); m.steps > most {
		t.Errorf("%d attempts, want at most %d", m.steps, most)
	}
}

func FuzzMatch(f *testing.F) {
	f.Add("*\n!*/\n!*.go", "a/b.go")
	f.Add("[[:alpha:]-z]**/\\/", "a/b/c")
	f.Add("[[:a", "x")
	f.Fuzz(func(t *testing.T, text, path string) {
		if len(text) > 1<<10 || len(path) > 1<<8 {
			t.Skip()
		}
		file := Parse([]byte(text))
		first := file.Match(path, false)
		if again := file.Match(path, false); again != first {
			t.Errorf("Match(%q) = %v, then %v", path, first, again)
		}
		if path == "" || path != strings.Trim(path, "/\r") || strings.Contains(path, "\n") {
			return // no line can name it
		}
		if got := Parse([]byte(text+"\n!/"+escape(path))).Match(path, false); got != Included {
			t.Errorf("the last rule takes in %q, and Match gives %v", path, got)
		}
	})
}

// escape makes a pattern that matches path and nothing else.
func escape(path string) string {
	var b strings.Builder
	for i := range len(path) {
		if strings.IndexByte(wildcards+" ", path[i]) >= 0 {
			b.WriteByte('\\')
		}
		b.WriteByte(path[i])
	}
	return b.String()
}
