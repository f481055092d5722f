package process

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/toolhost/toolhost/service"
)

// judged are the shells that command lines are judged for: what bash and a POSIX shell read, of
// which these read no more. Others, such as zsh and fish, take the same text for something else.
func judged() []string {
	return []string{"ash", "bash", "busybox", "dash", "ksh", "mksh", "oksh", "rbash", "sh", "yash"}
}

// standardPath is where programs are looked for where the environment does not say.
const standardPath = "/usr/local/bin:/usr/bin:/bin"

// CheckShell says what is wrong with a shell that a configuration names, before it is used: an
// empty one is found, any other one is an absolute path or a name, and is of a kind that command lines are
// judged for. The error is a [*service.ProcessError].
func CheckShell(shell string, env []string) error {
	_, err := findShell(shell, env)
	return err
}

// findShell gives the absolute path of a shell.
func findShell(asked string, env []string) (string, error) {
	if asked != "" {
		return namedShell(asked, env)
	}
	for _, name := range []string{"bash", "sh"} {
		if path := lookUp(name, env); path != "" && isJudged(path) {
			return path, nil
		}
	}
	return "", &service.ProcessError{Kind: service.ProcessNoShell, Detail: "neither bash nor sh is in PATH: name a shell in the settings of the plugin"}
}

func namedShell(asked string, env []string) (string, error) {
	wrong := func(format string, args ...any) (string, error) {
		return "", &service.ProcessError{Kind: service.ProcessNoShell, Subject: asked, Detail: fmt.Sprintf(format, args...)}
	}
	path := asked
	switch {
	case strings.ContainsRune(asked, 0) || asked != strings.TrimSpace(asked):
		return wrong("no shell has such a name")
	case !strings.Contains(asked, "/"):
		if path = lookUp(asked, env); path == "" {
			return wrong("there is no such shell in PATH: give its absolute path")
		}
	case !filepath.IsAbs(asked):
		return wrong("a shell is named by its absolute path, or by its name alone")
	case !runs(asked):
		return wrong("it is not there, or cannot be run")
	}
	if !isJudged(path) {
		return wrong("command lines are judged as sh and bash read them, and this shell may read them otherwise: use one of %s", strings.Join(judged(), ", "))
	}
	return path, nil
}

// lookUp finds a program in the PATH of an environment; empty is that it is not there.
func lookUp(name string, env []string) string {
	path := standardPath
	for _, entry := range env {
		if value, is := strings.CutPrefix(entry, "PATH="); is {
			path = value
		}
	}
	for dir := range strings.SplitSeq(path, ":") {
		if !filepath.IsAbs(dir) {
			continue // it would be another one in each directory
		}
		if file := filepath.Join(dir, name); runs(file) {
			return file
		}
	}
	return ""
}

// runs says whether a path is that of a file that can be run.
func runs(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular() && info.Mode().Perm()&0o111 != 0
}

// isJudged says whether a shell is of a judged kind, by its own name: what a link is called
// says little of it.
func isJudged(path string) bool {
	resolved, err := filepath.EvalSymlinks(path)
	if err != nil {
		return false
	}
	name := strings.ToLower(filepath.Base(resolved))
	for i, r := range name { // bash-5.2, ksh93, busybox.static
		if !('a' <= r && r <= 'z') {
			name = name[:i]
			break
		}
	}
	return slices.Contains(judged(), name)
}

// environment is the environment of a command: what its profile says, and the kind of its
// terminal.
func environment(profile []string, terminal *service.TerminalSize) []string {
	kind := "dumb"
	if terminal != nil {
		kind = "xterm-256color"
	}
	env := slices.DeleteFunc(slices.Clone(profile), func(entry string) bool { return strings.HasPrefix(entry, "TERM=") })
	return append(env, "TERM="+kind)
}
