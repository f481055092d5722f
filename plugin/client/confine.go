package client

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/toolhost/toolhost/sandbox"
)

// jailSockets is where a confined plugin listens: a directory of its own, that is seen by
// nobody but it and the host. What the host listens on for it, it sees where it is.
const jailSockets = "/run/toolhost"

// A jailed plugin is what is run, and how it is confined.
type jailed struct {
	path    string   // what is run, without links
	command []string // its name first, as the user or a script spells it
	policy  sandbox.Policy
	program *sandbox.Program // nil if it is run by its path
	release func()           // lets go of the program; may be called again
}

// confine completes the policy of a plugin by what it needs to run at all: its private
// directory, which it can read; the program, if it is run by its path; files that its
// arguments name, as what an interpreter is given, if they may be given at all; and the
// machine's libraries, if it is not linked statically.
func confine(host Host, spec Spec, command []string, dir string) (jailed, error) {
	dir, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return jailed{}, err
	}
	j := jailed{command: slices.Clone(command), policy: *spec.Policy}
	j.policy.Read = append(slices.Clone(j.policy.Read), dir)
	j.policy.Private = append(slices.Clone(j.policy.Private), jailSockets)
	for i, arg := range j.command[1:] {
		if real := fileOf(arg); real != "" && (strings.HasPrefix(real, dir+"/") || host.grantable(real)) {
			j.policy.Read = append(j.policy.Read, real)
			j.command[i+1] = real
		}
	}
	if err := j.interpret(); err != nil {
		return jailed{}, err
	}
	pin := ""
	if spec.runsCopy() {
		pin = spec.SHA256
	}
	if err := j.open(host.Programs, pin, dir); err != nil {
		return jailed{}, err
	}
	j.policy.System = j.policy.System || j.program.Interpreter != ""
	if j.policy.Exec {
		j.program = nil
	}
	return j, nil
}

// grantable says whether a plugin may be given a file because an argument names it.
func (h Host) grantable(file string) bool {
	home, err := os.UserHomeDir()
	if err != nil {
		home = "" // there is none that could be given away
	}
	_, err = sandbox.Policy{Read: []string{file}}.Resolve(h.Forbidden, home)
	return err == nil
}

// runsCopy says whether a confined plugin is run from a copy of its program in memory,
// which is verified when it is made. A script is not, nor what may run programs.
func (s Spec) runsCopy() bool {
	if s.Policy == nil || s.Policy.Exec || s.SHA256 == "" {
		return false
	}
	interpreter, _, err := shebang(s.Command[0])
	return err == nil && interpreter == ""
}

// open opens the program: a verified copy if it is pinned, or the file, which is in the
// jail then.
func (j *jailed) open(programs *sandbox.Programs, pin, dir string) (err error) {
	if pin == "" {
		j.policy.Read = append(j.policy.Read, j.path)
		j.program, j.release, err = sandbox.Open(j.path)
		return err
	}
	j.program, j.release, err = programs.Copy(j.path)
	if errors.Is(err, sandbox.ErrNoMemory) { // then from a copy that only this user can change
		if j.path, err = copyVerified(j.path, pin, filepath.Join(dir, "0"), 0o500); err == nil {
			j.program, j.release, err = sandbox.Open(j.path)
		}
		return err
	}
	if err != nil {
		return err
	}
	if !strings.EqualFold(j.program.SHA256, pin) {
		j.release()
		return wrongDigest(j.path, j.program.SHA256, pin)
	}
	return nil
}

// fileOf is the file that an argument names by an absolute path, or empty. A link is not
// followed, nor anything looked up in the Location: what is there is the project's to say,
// and the command the user's.
func fileOf(arg string) string {
	if !filepath.IsAbs(arg) {
		return ""
	}
	info, err := os.Lstat(arg)
	if err != nil || !info.Mode().IsRegular() {
		return ""
	}
	real, err := filepath.EvalSymlinks(arg)
	if err != nil {
		return ""
	}
	return real
}

// maxInterpreters is how many interpreters a script may lead through, as the kernel has it.
const maxInterpreters = 4

// interpret does for a script what the kernel would: it is the interpreter that is run, and
// the script is what it reads.
func (j *jailed) interpret() error {
	for range maxInterpreters {
		real, err := filepath.EvalSymlinks(j.command[0])
		if err != nil {
			return err
		}
		j.path = real
		interpreter, argument, err := shebang(real)
		if err != nil || interpreter == "" {
			return err
		}
		if err := runnable(interpreter); err != nil {
			return fmt.Errorf("%s: its interpreter: %w", real, err)
		}
		before := []string{interpreter}
		if argument != "" {
			before = append(before, argument)
		}
		j.policy.Read = append(j.policy.Read, real)
		j.command[0] = real // by which it can be read in the jail
		j.command = append(before, j.command...)
		j.policy.System = true
		if err := j.environs(); err != nil {
			return err
		}
	}
	return fmt.Errorf("%s: its interpreters are scripts themselves, over and over", j.command[0])
}

// environs does for "#!/usr/bin/env NAME" what env would, since the plugin may run no
// programs.
func (j *jailed) environs() error {
	if filepath.Base(j.command[0]) != "env" || len(j.command) < 3 {
		return nil
	}
	words := strings.Fields(j.command[1])
	if len(words) > 0 && words[0] == "-S" {
		words = words[1:]
	}
	if len(words) == 0 || strings.HasPrefix(words[0], "-") || strings.Contains(words[0], "=") {
		return fmt.Errorf("%s: its first line has options of env that are not known here: name the interpreter itself", j.command[2])
	}
	for _, dir := range filepath.SplitList(searchPath) {
		if path := filepath.Join(dir, words[0]); runnable(path) == nil {
			j.command = slices.Concat([]string{path}, words[1:], j.command[2:])
			return nil
		}
	}
	return fmt.Errorf("%s: its interpreter %s is not in %s", j.command[2], words[0], searchPath)
}

// shebang is the interpreter that a script names, and its argument; empty for what is no
// script.
func shebang(path string) (interpreter, argument string, err error) {
	file, err := os.Open(path)
	if err != nil {
		return "", "", err
	}
	defer file.Close()
	line, err := bufio.NewReader(io.LimitReader(file, 256)).ReadString('\n') // the kernel reads no more
	if err != nil && !errors.Is(err, io.EOF) {
		return "", "", err
	}
	rest, script := strings.CutPrefix(line, "#!")
	if !script {
		return "", "", nil
	}
	interpreter, argument, _ = strings.Cut(strings.TrimSpace(rest), " ")
	if !filepath.IsAbs(interpreter) {
		return "", "", fmt.Errorf("%s: its first line names the interpreter %q, which is no absolute path", path, interpreter)
	}
	return interpreter, strings.TrimSpace(argument), nil
}
