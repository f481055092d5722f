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

// TestLaw38Starters: a program that is used for something else, and starts another one by an
// option, a subcommand or a script, is doubtful with that and not without. Seen to fail with
// each of the starters left out, with the doubts of go env, make, awk and sed left out, and with what
// stands in a set of characters taken for the end of it.
func TestLaw38Starters(t *testing.T) {
	for _, line := range []string{
		`go test -exec "rm -rf" ./...`, `go test --exec=x`, `go build -toolexec x .`, `go vet -vettool=x`, `go env -w A=b`, `go -C d env -u A`,
		`go build -ldflags=-extld=x .`, `go build -ldflags "-X a=b -extld=x" .`, `cargo --config a=b test`, `cargo test --config a=b`, `gcc -wrapper x a.c`,
		`make SHELL=x`, `make CC=rm all`, `make test 'ARGS=;rm x'`, `make V='$(rm)'`, `make --eval=x`, `make -f x`, `make -sf x`, `make --file x`, `make --makef=x`,
		`npm exec -c x`, `npm x a`, `npm --script-shell=x test`, `npm --scr=x test`, `pnpm dlx a`, `yarn exec a`, `bun x a`, `npm config set script-shell x`,
		`tar -xf a --to-command=x`, `tar -xf a --to-c x`, `tar xf a --checkpoint=1 --checkpoint-action=exec=x`, `tar -I x -xf a`, `tar -xIx -f a`, `tar -F x -cf a b`,
		`rsync -e x a b`, `rsync -ave x a b`, `rsync --rsh=x a b`, `scp -S x a b`, `scp -oProxyCommand=x a b`, `sort --compress-program=x f`, `split --filter=x f`,
		`install --strip-program=x a b`, `rg --pre x a`, `bat --pager x f`, `man -P x ls`, `man --pager=x ls`, `vim -c '!x' f`, `vim +'!x' f`, `nvim --cmd x`,
		`wget --use-askpass=x u`, `zip -T -TT x a b`, `hg --config a=b log`, `svn diff --diff-cmd x`,
		`awk 'BEGIN{system("x")}'`, `awk '{print | "x"}'`, `awk '"x" | getline'`, `awk -f x f`, `gawk '@load "x"'`, `awk '{print > "f"}'`, `awk -F '|' '{print | "x"}'`,
		`sed 's/a/x/e' f`, `sed 1ex f`, `sed -n '1e x' f`, `sed -ne '1e x' f`, `sed -e p -e 'e x' f`, `sed --expression='e x' f`, `sed --expression 'e x' f`,
		`sed -f x f`, `sed -l 5 'e x' f`, `sed 's/a/b/w f' f`, `sed 's/a/b/gpw f' f`, `sed '/a/w f' f`, `sed 's/a/b/;e' f`, `sed 's,a,b,e' f`, `sed -i '' 'e x' f`,
		`sed 's/[/]/x/e' f`, "sed 's/[/]/;s/e\n/x/p' f", "sed 's/[]/]/;s/e\n/x/p' f", "sed 's/[[:a:]/]/;s/e\n/x/p' f", `sed '\,a,e x' f`, `sed -Eie s/a/b/e f`, `sed 'W f' f`, `sed s f`, `sed 's' f`, `sed s/a/b f`,
		`sed -i.bak 's/a/b/e' f`, `busybox sed 'e x' f`,
	} {
		if c := Read(line).Commands; !slices.ContainsFunc(c, func(c Command) bool { return c.Doubt != "" && !c.Possible }) {
			t.Errorf("%s: no doubt: %+v", line, c)
		}
	}
	for _, line := range []string{
		`go test ./...`, `go test -run X -v ./...`, `go get -u ./...`, `go build -ldflags "-X a=b" .`, `go env GOROOT`, `go vet ./...`, `cargo build --release`,
		`cargo test -- --config a`, `make -j4 V=1 test`, `make -C d all`, `npm ci`, `npm test`, `npm run build -- -c y`, `pnpm install`, `yarn build`, `tar xzf a`, `tar -czf a d`,
		`rsync -av a b`, `scp -r a b`, `sort -u f`, `split -l 5 f`, `rg --pretty a`, `man ls`, `vim f`, `zip -r a b`, `gcc -O2 -o a a.c`,
		`awk '{print $1}' f`, `awk -F: -v n=1 '$1 > n || $2' f`, `awk -F '|' '{print $2}' f`, `awk -F'|' '{print $2}' f`,
		`sed 's/a/b/' f`, `sed -n 1,20p f`, `sed -n '/a/,/b/p;5q' f`, `sed -n -e 1p -e '$p' f`, `sed -i.bak 's/a\/b/c/g; 3d' f`, `sed -i -e 's|a|b|' f`, `sed -E 's/[0-9]+/n/2g' f`,
		`sed '/a/!d' f`, `sed --quiet '/a/{p;q}' f`, `sed 's/[[:space:]]*$//' f`, `sed -i '' 's/a/b/' f`, `sed 's/^[^:]*://' f`, `sed -ibe 's/a/b/' f`,
	} {
		if c := Read(line).Commands[0]; c.Doubt != "" {
			t.Errorf("%s: %s", line, c.Doubt)
		}
	}
	if got := told(Read(`go test -exec "rm -rf" ./...`)); !slices.Contains(got, "rm -rf") {
		t.Errorf("what an option starts is no command: %q", got)
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
		long("a<<b\n"), long("\\"), long("'a' "), nested, "./x " + strings.Repeat("'a;b' ", 10000), "git " + long("--exec=a ")[:60000], "go " + long("-exec=a ")[:60000], "make " + long("a=b ")[:60000], "sed " + long("-es,a,b, ")[:60000], "sed '" + long("s/[")[:60000] + "'", "awk " + long("-F a ")[:60000],
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
