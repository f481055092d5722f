package command

import (
	"slices"
	"strings"
)

// wrapper finds the command behind a wrapper's options.
func (e *effects) wrapper(w wrapper) {
	words := e.command.words
	i := 1
	for ; i < len(words); i++ {
		text := words[i].text
		if !words[i].known() {
			e.doubtful("has an option that is only known when it runs")
			e.unknown(i)
			return
		}
		if text == "--" {
			i++
			break
		}
		if len(text) < 2 || text[0] != '-' {
			break
		}
		takes, known := w.option(text)
		if !known {
			e.doubtful("has an option " + shortened(text) + " that is not known, before the command that it runs")
			e.unknown(i + 1)
			return
		}
		if takes {
			i++
		}
	}
	for skipped := 0; i < len(words); i++ {
		if name, _, is := strings.Cut(words[i].text, "="); w.assigns && is && name != "" {
			e.doubtful(changes(name))
			continue
		}
		if skipped == w.before {
			break
		}
		skipped++
	}
	if i >= len(words) {
		if w.shells {
			e.doubtful("starts a shell")
			e.readsInput = true
		}
		return
	}
	e.doubtful(w.doubt)
	e.runs(i, w.doubt)
}

// option says whether the option takes the next word for its value.
func (w wrapper) option(text string) (takes, known bool) {
	if name, long := strings.CutPrefix(text, "--"); long {
		name, _, with := strings.Cut(name, "=")
		if slices.Contains(strings.Fields(w.valuedLong), name) {
			return !with, true
		}
		return false, slices.Contains(strings.Fields(w.flagsLong), name)
	}
	for i := 1; i < len(text); i++ {
		switch {
		case strings.IndexByte(w.valued, text[i]) >= 0:
			return i == len(text)-1, true
		case strings.IndexByte(w.flags, text[i]) < 0:
			return false, false
		}
	}
	return false, true
}

// shell finds the script of a shell.
func (e *effects) shell(name string) {
	if name != "bash" && name != "sh" && name != "dash" && name != "ash" {
		e.doubtful("is in the language of " + name)
	}
	words := e.command.words
	script := false
	i := 1
	for ; i < len(words); i++ {
		text := words[i].text
		if !words[i].known() {
			e.doubtful("has an option that is only known when it runs")
			e.unknown(i)
			return
		}
		if text == "--" || text == "-" {
			i++
			break
		}
		if text == "" || text[0] != '-' && text[0] != '+' {
			break
		}
		if strings.HasPrefix(text, "--") {
			switch text {
			case "--rcfile", "--init-file":
				e.doubtful("reads a file of commands")
				i++
			case "--command":
				script = true
			case "--noprofile", "--norc", "--posix", "--restricted", "--verbose":
			default:
				e.doubtful("has an option that changes what its shell reads")
			}
			continue
		}
		if text[0] == '-' && strings.IndexByte(text, 'c') > 0 {
			script = true
		}
		if strings.ContainsAny(text, "il") {
			e.doubtful("reads the files of commands of an interactive or a login shell")
		}
		i += strings.Count(strings.ToLower(text), "o") // each takes a word: an option's name
	}
	switch {
	case script && i < len(words):
		e.line(i)
		for n := i + 1; n < len(words); n++ { // "$@" of the script
			e.possible(e.command.joined(n))
		}
	case i < len(words):
		e.doubtful("runs the commands of the file " + shortened(words[i].text))
		e.unknown(i)
	default:
		e.doubtful("reads its commands from its input")
		e.readsInput = true
	}
}

// builtin finds what a builtin of the shell runs. It reports whether the name is
// one that runs or changes something.
func (e *effects) builtin(name string) bool {
	words := e.command.words
	switch name {
	case "eval":
		i := 1
		if i < len(words) && words[i].text == "--" {
			i++
		}
		e.reads(e.command.joined(i), plainly)
	case ".", "source":
		e.doubtful("runs the commands of a file")
		e.unknown(1)
	case "trap":
		i := 1
		if i < len(words) && words[i].text == "--" {
			i++
		}
		e.line(i)
	case "alias":
		e.doubtful("changes what later words mean")
		for _, w := range words[1:] {
			if _, value, is := strings.Cut(w.text, "="); is {
				e.reads(value, plainly)
			}
		}
	case "command":
		if len(words) > 1 && strings.HasPrefix(words[1].text, "-") && strings.ContainsAny(words[1].text, "vV") && words[1].known() {
			return true // tells what a name is
		}
		e.wrapper(wrapper{flags: "p"})
	case "exec":
		e.wrapper(wrapper{valued: "a", flags: "cl"})
	case "cd", "pushd", "popd":
		e.out.Moves = true
	case "hash", "enable", "complete", "compgen", "bind", "mapfile", "readarray", "fc", "unalias", "shopt", "set":
		if len(words) > 1 {
			e.doubtful("changes what the shell does with later commands")
		}
		e.unknown(1)
	case "read", "getopts", "printf", "test", "[", "unset", "declare", "typeset", "local", "export", "readonly", "let", "wait":
		for _, w := range words[1:] {
			if substitutes(w.text) && w.doubt == "" {
				e.doubtful("has quoted text that may be evaluated")
			}
		}
		if name == "read" || name == "getopts" || name == "printf" && len(words) > 1 && strings.HasPrefix(words[1].text, "-v") {
			e.doubtful("sets variables, which may change what is run")
		}
	default:
		return false
	}
	return true
}

// special finds what a program runs that is no plain wrapper.
func (e *effects) special(name string) bool {
	switch name {
	case "env", "genv":
		e.env()
	case "find", "gfind":
		e.find()
	case "git":
		e.git()
	case "watch":
		e.watch()
	case "ssh", "slogin", "autossh":
		e.doubtful("runs on another machine")
		e.unknown(1)
		for i := 2; i < len(e.command.words); i++ {
			if e.command.words[i-1].text != "" && e.command.words[i-1].text[0] != '-' {
				e.reads(e.command.joined(i), plainly)
				break
			}
		}
	default:
		return false
	}
	return true
}

// env runs what stands behind its options and assignments.
func (e *effects) env() {
	w := wrapper{
		valued: "uCP", flags: "i0v", assigns: true, valuedLong: "unset chdir argv0",
		flagsLong: "ignore-environment null debug default-signal ignore-signal block-signal list-signal-handling",
	}
	words := e.command.words
	for i := 1; i < len(words) && words[i].known() && strings.HasPrefix(words[i].text, "-"); i++ {
		value, is := splitString(words[i].text)
		if !is {
			if takes, _ := w.option(words[i].text); takes {
				i++
			}
			continue
		}
		e.doubtful("splits a text into a command")
		i++
		if value == "" && i < len(words) {
			value = words[i].text
			i++
		}
		e.reads(value+" "+e.command.joined(min(i, len(words))), plainly)
		break
	}
	e.wrapper(w)
}

// splitString reports whether the word is env's option -S, and the value that
// stands in it.
func splitString(text string) (value string, is bool) {
	if value, is = strings.CutPrefix(text, "--split-string"); is {
		return strings.TrimPrefix(value, "="), true
	}
	if len(text) > 1 && text[0] == '-' && text[1] != '-' {
		if before, after, is := strings.Cut(text, "S"); is && strings.Trim(before, "-i0v") == "" {
			return after, true
		}
	}
	return "", false
}

// find runs what stands behind -exec and the like, up to a semicolon or a plus.
func (e *effects) find() {
	words := e.command.words
	for i := 1; i < len(words); i++ {
		switch words[i].text {
		case "-exec", "-execdir", "-ok", "-okdir":
			end := i + 1
			for end < len(words) && words[end].text != ";" && words[end].text != "+" {
				end++
			}
			if i+1 < end {
				const why = "gets names of files that are only known when it runs"
				e.doubtful(why)
				c := simple{words: words[i+1 : end], doubt: why, depth: e.command.depth + 1}
				e.then = append(e.then, func() { e.script.command(c) })
			}
			i = end
		case "-delete":
			e.doubtful("removes the files that it finds")
		case "-fprint", "-fprint0", "-fls", "-fprintf":
			if i+1 < len(words) {
				e.writes(Write{Path: words[i+1].text, Doubt: words[i+1].doubt})
			}
		}
	}
}

// watch gives its arguments to a shell.
func (e *effects) watch() {
	words := e.command.words
	w := wrapper{
		valued: "nq", flags: "bcdegprtwxC", valuedLong: "interval equexit",
		flagsLong: "beep color differences errexit chgexit precise no-rerun no-title no-wrap exec no-color",
	}
	i := 1
	for ; i < len(words) && len(words[i].text) > 1 && words[i].text[0] == '-'; i++ {
		takes, known := w.option(words[i].text)
		if !known || !words[i].known() {
			e.doubtful("has an option that is not known, before the command that it runs")
			e.unknown(i)
		}
		if takes {
			i++
		}
	}
	if i < len(words) {
		e.reads(e.command.joined(i), plainly)
	}
}
