package command

import (
	"slices"
	"strings"
	"testing"
	"time"
)

// told are the commands of a line, in order: the possible ones with a question
// mark in front, and those with a doubt with a tilde.
func told(line Line) []string {
	var all []string
	for _, c := range line.Commands {
		text := c.Plain
		if c.Doubt != "" {
			text = "~" + text
		}
		if c.Possible {
			text = "?" + text
		}
		all = append(all, text)
	}
	return all
}

// TestLaw38Commands: what is told of a line. Seen to fail with each of the
// handlers left out.
func TestLaw38Commands(t *testing.T) {
	for _, c := range []struct {
		line string
		want []string
	}{
		{"", nil},
		{"a b", []string{"a b", "?b"}},
		{"a; b && c | d & e", []string{"a", "b", "c", "d", "e"}},
		{"a; a; 'a'", []string{"a", "a"}}, // the same twice is told once, another spelling is another
		{"LANG=C", nil},
		{"X=1", []string{"~X=1"}},
		{"X=1 a b", []string{"~a b", "?b"}},
		{"a $(b `c`)", []string{"~a $(b `c`)", "?$(b `c`)", "~b `c`", "?`c`", "c"}},
		{"a <<E\n$(b)\nE", []string{"a", "b"}},
		{"a <<'E'\n$(b)\nE", []string{"a"}},
		{"cat {b,c}", []string{"cat b c", "cat {b,c}"}}, // bash, and a POSIX shell
		{"echo x y", []string{"echo x y"}},
		{"./x y z", []string{"./x y z", "?y z", "?z"}},
		{"./x --a=b", []string{"./x --a=b", "?--a=b", "?b"}},
		{"./x 'b; c'", []string{"./x b; c", "?b; c", "?b", "?c"}},
		{"./x 'b ('", []string{"./x b (", "?b (", "?~b (", "?~b"}},
		{"./x sudo y", []string{"./x sudo y", "sudo y", "y", "?sudo y", "?y"}},
		{"env -i A=b y z", []string{"~env -i A=b y z", "~y z", "?z"}},
		{"env TZ=x y", []string{"env TZ=x y", "y"}},
		{"env --odd y", []string{"~env --odd y", "?y"}},
		{"sudo -u me -- y", []string{"sudo -u me -- y", "y"}},
		{"sudo", []string{"~sudo"}},
		{"timeout 5 nice -n 3 y", []string{"timeout 5 nice -n 3 y", "nice -n 3 y", "y"}},
		{"nice $x y", []string{"~nice $x y", "?$x y", "?y"}},
		{"xargs -n 1 y", []string{"~xargs -n 1 y", "~y"}},
		{"command -v y", []string{"command -v y"}},
		{"command y", []string{"command y", "y"}},
		{"exec -a b y", []string{"exec -a b y", "y"}},
		{"sh -c 'y; z' a b", []string{"sh -c y; z a b", "y", "z", "?a b", "?b"}},
		{"bash -eo pipefail -c y", []string{"bash -eo pipefail -c y", "y"}},
		{"bash f", []string{"~bash f", "?f"}},
		{"fish -c y", []string{"~fish -c y", "y"}},
		{"eval y z", []string{"eval y z", "y z", "?z"}},
		{"trap y EXIT", []string{"trap y EXIT", "y"}},
		{"find . -exec y {} + -exec z \\;", []string{"~find . -exec y {} + -exec z ;", "~y {}", "?{}", "~z"}},
		{"git bisect run y", []string{"git bisect run y", "y"}},
		{"git -C d status", []string{"git -C d status"}},
		{"git -c a=b status", []string{"~git -c a=b status"}},
		{"[[ a && $(b) ]]", []string{"b", "~[[ a", "?a", "~$(b) ]]", "?]]"}}, // all but the first are a POSIX shell's
		{"ssh h 'y; z'", []string{"~ssh h y; z", "?h y; z", "?y; z", "?y", "?z", "y", "z"}},
	} {
		if got := told(Read(c.line)); !slices.Equal(got, c.want) {
			t.Errorf("%q:\n got %q\nwant %q", c.line, got, c.want)
		}
	}
}

// TestLaw38Spellings: by what else a command can be meant.
func TestLaw38Spellings(t *testing.T) {
	for _, c := range []struct {
		line string
		want Command
	}{
		{"'/bin/rm'  f", Command{Raw: "'/bin/rm' f", Plain: "/bin/rm f", Spellings: []string{"rm f", "rm f"}}},
		{"RM f", Command{Raw: "RM f", Plain: "RM f", Spellings: []string{"rm f"}}},
		{"TZ=x rm f", Command{Raw: "rm f", Plain: "rm f", Spellings: []string{"TZ=x rm f", "TZ=x rm f"}}},
		{"r$x\"m\" f", Command{
			Raw: `r$x"m" f`, Plain: "r$xm f", Spellings: []string{"rm f"}, Doubt: "has $x in it, which is only known when it runs",
		}},
	} {
		got := Read(c.line).Commands[0]
		if got.Raw != c.want.Raw || got.Plain != c.want.Plain || got.Doubt != c.want.Doubt || !slices.Equal(got.Spellings, c.want.Spellings) {
			t.Errorf("%q:\n got %+v\nwant %+v", c.line, got, c.want)
		}
	}
}

func TestDecode(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{`r\x6d`, "rm"},
		{`r\155`, "rm"},
		{`r\u6d`, "rm"},
		{`r\U0000006d`, "rm"},
		{`rm\0x`, "rm"},
		{`rm\x00x`, "rm"},
		{`\n\t\e\\\'\"\?`, "\n\t\x1b\\'\"?"},
		{`\cm`, "\r"},
		{`\xg`, `\xg`},
		{`\q`, `\q`},
		{`a\`, `a\`},
		{`\u00e9`, "é"},
	} {
		if got := decode(c.text); got != c.want {
			t.Errorf("%s: got %q, want %q", c.text, got, c.want)
		}
	}
}

// TestLaw38Writes: which files redirections write.
func TestLaw38Writes(t *testing.T) {
	const unknown = "writes to a file that is only known when it runs"
	for _, c := range []struct {
		line string
		want []Write
	}{
		{"a >b >>c 2>d", []Write{{Path: "b"}, {Path: "c"}, {Path: "d"}}},
		{"a &>b", []Write{{Path: "b"}}},
		{"a >|b <>c >&d", []Write{{Path: "b"}, {Path: "c"}, {Path: "d"}}},
		{"a >'b c'", []Write{{Path: "b c"}}},
		{"a >/dev/null 2>&1 3>&- 4<&0 5>&1- </etc/x", nil},
		{"a >/dev/null/../x", []Write{{Path: "/dev/null/../x"}}},
		{"a >b*", []Write{{Path: "b*", Doubt: "has b* in it, which becomes names that are only known when it runs"}}},
		{"a >~/b", []Write{{Path: "~/b", Doubt: unknown}}},
		{"a >$b", []Write{{Path: "$b", Doubt: "has $b in it, which is only known when it runs"}}},
		{"> b", []Write{{Path: "b"}}},
		{"exec 3>b", []Write{{Path: "b"}}},
		{"f() { a; } >b", []Write{{Path: "b"}}},
		{"if a; then b; fi >c", []Write{{Path: "c"}}},
		{"a $(b >c)", []Write{{Path: "c"}}},
		{"sh -c 'a >b'", []Write{{Path: "b"}}},
		{"./x 'a >b'", nil},
	} {
		if got := Read(c.line).Writes; !slices.Equal(got, c.want) {
			t.Errorf("%q:\n got %+v\nwant %+v", c.line, got, c.want)
		}
	}
}

// hostile are texts that make a reader without bounds slow, deep or large.
func hostile() []string {
	long := func(s string) string { return strings.Repeat(s, MaxLine/len(s)) }
	nested := "rm f"
	for len(nested) < 8000 {
		nested = "sh -c '" + strings.ReplaceAll(nested, "'", `'\''`) + "'"
	}
	return []string{
		long("("), long("$("), long("`"), long("{ "), long("if "), long("a|"), long("a&&"), "[[ " + long("! ")[:60000], "[[ " + long("(")[:60000],
		"a $((" + long("(")[:60000], "a $((" + long("- ")[:60000], long("${a:-"), long(`"$(`), long("case a in a)"), long("f()"), long("time "),
		long("a;"), long("{a,b}"), long("{a,"), long("env "), "./x " + long("a ")[:60000], "./x " + long("/a ")[:60000], "./x " + long("A=b ")[:60000],
		"((" + long("a=")[:60000], "a ${b" + long("[a")[:60000], long("<("), long("a>b\n"), "a {1..999999999}", "{" + long("a,")[:60000] + "}",
		long("a<<b\n"), long("\\"), long("'a' "), nested, "./x " + strings.Repeat("'a;b' ", 10000), "git " + long("--exec=a ")[:60000],
		"find . " + long("-exec a ;")[:60000], "eval " + long("eval ")[:60000], long("é"), long("#\\\n"), "sh " + long("-o ")[:60000],
		"alias " + long("a=b ")[:60000], long("@("), long("a=("), long("a<<E\nE\n") + "sh", long("a<<<b "), "x " + long("$((")[:60000], long("$[ "), long("while "), long("{a..z}{a..z}"),
	}
}

// TestBounded: no line takes long, yields more than the bounds, or is without a
// doubt when it is beyond them.
func TestBounded(t *testing.T) {
	for _, text := range hostile() {
		start := time.Now()
		line := Read(text)
		if took := time.Since(start); took > 5*time.Second { // that it ends, not how fast
			t.Errorf("%.20q: took %s", text, took)
		}
		if n := len(line.Commands) + len(line.Writes); n > MaxCommands {
			t.Errorf("%.20q: %d commands and writes", text, n)
		}
	}
	for _, text := range []string{strings.Repeat("a", MaxLine+1), strings.Repeat("(", maxOpenings+1), strings.Repeat("env ", MaxDepth+2) + "a"} {
		if Read(text).Doubt == "" {
			t.Errorf("%.20q: no doubt", text)
		}
	}
	if got := Read(strings.Repeat("a", MaxLine)); got.Doubt != "" || len(got.Commands) != 1 {
		t.Errorf("a line of the longest: got %d commands, %s", len(got.Commands), got.Doubt)
	}
}

// BenchmarkHostile is the time for the slowest of lines.
func BenchmarkHostile(b *testing.B) {
	for _, text := range hostile() {
		b.Run(text[:min(12, len(text))], func(b *testing.B) {
			for b.Loop() {
				Read(text)
			}
		})
	}
}

func BenchmarkRead(b *testing.B) {
	for _, line := range []string{"git status --short", "cd a && git add . && git commit -m 'b c'", "cat > f <<'E'\n" + strings.Repeat("func f() { return g(x[1]) }\n", 1000) + "E"} {
		b.Run(line[:8], func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				Read(line)
			}
		})
	}
}

// FuzzRead: no text makes Read panic, or take apart into more than it may; a command of
// which no words are known is doubtful.
func FuzzRead(f *testing.F) {
	for _, line := range []string{
		"", "git status", "a && b; c | d &", "r\\m 'x' \"y\" $'\\x72' $z `w` $(v) {a,b} *", "f() { a; }", "if a; then b; else c; fi",
		"case a in b) c;; esac", "for x in a; do b; done", "a <<E\n$(b)\nE\n", "a <<<b >c 2>&1 <(d)", "env -S 'a b' c", "sudo -u a sh -ec 'b'",
		"find . -exec a {} + ", "xargs -I{} a", "git -c a=b rebase -x c", "x[$(a)]=1 ((b)) [[ c ]]", "a\x00b\xff\r\n#c\\\n", "git &>a b", "./x 'a (' --b=c",
		"coproc A { b; }", "trap a b", "alias a=b", "export A=b", "let a=b", "eval 'a'", "a {b..z}{1..9} ~/c @(d)",
	} {
		f.Add(line)
	}
	f.Fuzz(func(t *testing.T, text string) {
		line := Read(text)
		if n := len(line.Commands) + len(line.Writes); n > MaxCommands {
			t.Errorf("%d commands and writes", n)
		}
		for _, c := range line.Commands {
			if c.Plain == "" && c.Doubt == "" {
				t.Errorf("a command without words is not doubtful: %+v", c)
			}
		}
	})
}
