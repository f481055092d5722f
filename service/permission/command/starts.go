package command

import (
	"slices"
	"strings"
)

// starter finds what a program starts by its options and subcommands.
func (e *effects) starter(name string, s starter) {
	words := e.command.words
	long, subcommands := strings.Fields(s.long), strings.Fields(s.subcommands)
	option := func(i int, of, value string, with bool) {
		e.doubtful("has an option " + shortened(of) + " that can make " + name + " start other programs")
		if !with && i+1 < len(words) {
			value = words[i+1].text
		}
		if value = strings.TrimPrefix(value, "exec="); value != "" { // as tar has it
			e.reads(value, plainly)
		}
	}
	for i := 1; i < len(words); i++ {
		text := words[i].text
		if text == "--" && words[i].known() {
			return
		}
		of, value, with := strings.Cut(text, "=")
		bare := strings.TrimLeft(of, "-")
		dashes := len(of) - len(bare)
		switch {
		case dashes > 0 && s.oneDash && slices.Contains(long, bare),
			dashes == 2 && bare != "" && !s.oneDash && slices.ContainsFunc(long, func(l string) bool { return strings.HasPrefix(l, bare) }):
			option(i, of, value, with)
		case slices.Contains(subcommands, text):
			e.doubtful("runs a command that is in its arguments, or changes what it runs later")
		case name == "go" && dashes > 0 && (bare == "w" || bare == "u") && slices.ContainsFunc(words[1:i], func(w word) bool { return w.text == "env" }):
			e.doubtful("changes what go does later, which can be to start other programs")
		case name == "go" && strings.Contains(text, "extld"): // among the flags of the linker
			e.doubtful("names the linker that go starts")
		case strings.HasSuffix(name, "make") && with && dashes == 0:
			e.makes(of, value)
		case strings.HasPrefix(text, "+") && slices.Contains(long, "cmd"): // an editor
			option(i, "+", text[1:], true)
		}
		for _, letter := range []byte(s.short) {
			if value, is := shortOption(text, letter); is {
				option(i, "-"+string(letter), value, value != "")
			}
		}
	}
}

// makes doubts a variable of make: its value stands in the commands of recipes.
func (e *effects) makes(variable, value string) {
	switch variable {
	case "V", "VERBOSE", "Q", "DEBUG", "NO_COLOR":
		if strings.Trim(value, "abcdefghijklmnopqrstuvwxyz0123456789") == "" {
			return
		}
	}
	e.doubtful("sets " + shortened(variable) + " of make, of which commands are made")
}

// awk doubts a program that may run commands, or write files.
func (e *effects) awk() {
	words := e.command.words
	for i := 1; i < len(words); i++ {
		text := words[i].text
		switch {
		case text == "-F":
			i++
		case strings.HasPrefix(text, "-F"), text == "-v", text == "-", text == "--":
		case strings.HasPrefix(text, "-"):
			e.doubtful("has an option " + shortened(text) + " that may name a program in a file")
		case strings.Contains(text, "system"), strings.Contains(strings.ReplaceAll(text, "||", ""), "|"), strings.IndexByte(text, '@') >= 0:
			e.doubtful("has a program that may start other programs")
		case strings.Contains(text, "print") && strings.IndexByte(text, '>') >= 0:
			e.doubtful("has a program that may write files")
		}
	}
}

// sed doubts a script of which it is not known that it neither runs commands nor writes
// files, as e and w do, and s with one of them behind it.
func (e *effects) sed() {
	words := e.command.words
	var scripts []string
	operand := ""
	for i := 1; i < len(words); i++ {
		text := words[i].text
		take := func(value string, with bool) {
			if i++; with {
				i--
			} else if i < len(words) {
				value = words[i].text
			}
			scripts = append(scripts, value)
		}
		of, value, with := strings.Cut(text, "=")
		switch {
		case len(text) < 2 || text[0] != '-':
			if operand == "" { // a BSD's -i has an empty one behind it
				operand = text
			}
		case of == "--expression":
			take(value, with)
		case slices.Contains(strings.Fields("-- --quiet --silent --regexp-extended --in-place --separate --null-data --zero-terminated --sandbox --posix"), of):
		case text[1] == '-':
			e.doubtful("has an option " + shortened(text) + " that is not known")
		default:
			for n := 1; n < len(text) && text[n] != 'i'; n++ { // what is behind -i is a suffix
				if text[n] == 'e' {
					take(text[n+1:], n+1 < len(text))
					break
				}
				if strings.IndexByte("nErszu", text[n]) < 0 {
					e.doubtful("has an option " + shortened(text) + " that is not known")
				}
			}
		}
	}
	if scripts == nil {
		scripts = []string{operand}
	}
	if !slices.ContainsFunc(scripts, func(script string) bool { return !edits(script) }) {
		return
	}
	e.doubtful("has a script that may start other programs or write files")
}

// edits reports whether a script of sed has only commands that are known to do no more
// than edit the text.
func edits(script string) bool {
	for {
		script = strings.TrimLeft(script, " \t\n;{}!,~+0123456789$")
		if script == "" {
			return true
		}
		name := script[0]
		script = script[1:]
		ok := true
		switch name {
		case '/': // an address
			script, ok = past(script, '/')
			script = strings.TrimLeft(script, "IM")
		case 's', 'y':
			if script == "" {
				return false
			}
			delimiter := script[0]
			if script, ok = past(script[1:], delimiter); ok {
				script, ok = past(script, delimiter)
			}
			script = strings.TrimLeft(script, "gpiIM0123456789")
		case 'p', 'P', 'd', 'D', 'q', 'Q', 'n', 'N', 'h', 'H', 'g', 'G', 'x', 'l', '=':
		default:
			ok = false
		}
		if !ok {
			return false
		}
	}
}

// past is what stands behind the next delimiter. Whether one in a set of characters is one
// is different in one sed and another, so a script with such is not read.
func past(script string, delimiter byte) (rest string, ok bool) {
	if delimiter == '\n' || delimiter == '\\' {
		return "", false
	}
	sets := 0
	for i := 0; i < len(script); i++ {
		switch c := script[i]; {
		case c == '\\':
			i++
		case c == delimiter:
			return script[i+1:], sets == 0
		case c == '[':
			sets++
		case c == ']' && sets > 0 && script[i-1] != '[' && script[i-1] != '^':
			sets--
		}
	}
	return "", false
}

// git starts other programs by some of its options and subcommands. What its
// configuration makes it start is not seen.
func (e *effects) git() {
	words := e.command.words
	i := 1
options:
	for ; i < len(words); i++ {
		text := words[i].text
		switch {
		case !words[i].known():
			e.doubtful("has an option that is only known when it runs")
			return
		case text == "-C":
			i++
		case text == "", text[0] != '-':
			break options
		case text == "--no-pager", text == "-P", text == "--no-optional-locks", text == "--literal-pathspecs", text == "--version", text == "--help":
		default: // such as -c, which sets configuration
			e.doubtful("has an option " + shortened(text) + " that can make git start other programs")
			i += valued(text)
		}
	}
	if i >= len(words) {
		return
	}
	subcommand := words[i].text
	for n := i + 1; n < len(words); n++ {
		e.gitArgument(subcommand, n)
	}
	switch subcommand {
	case "bisect":
		if i+2 < len(words) && words[i+1].text == "run" {
			e.runs(i+2, "")
		}
	case "submodule":
		for n := i + 1; n < len(words); n++ {
			if words[n].text != "foreach" {
				continue
			}
			for n++; n < len(words) && strings.HasPrefix(words[n].text, "-"); n++ {
			}
			e.doubtful("runs a command in every submodule")
			e.reads(e.command.joined(min(n, len(words))), plainly)
		}
	case "config":
		if len(words) > i+2 && words[i+1].text != "--get" && words[i+1].text != "get" && words[i+1].text != "--list" && words[i+1].text != "-l" {
			e.doubtful("may change git's configuration, which can make git start other programs")
			e.last(i)
		}
	case "filter-branch", "instaweb", "daemon", "send-email", "remote-ext", "maintenance", "difftool", "mergetool", "hook", "shell",
		"for-each-repo", "credential":
		e.doubtful("can make git start other programs")
		e.last(i)
	}
}

// last reads the quoted arguments behind i as command lines.
func (e *effects) last(i int) {
	for _, w := range e.command.words[i+1:] {
		text := w.text
		if _, value, is := strings.Cut(text, "="); is {
			text = value
		}
		if w.quoted {
			e.reads(strings.TrimPrefix(text, "!"), plainly)
		}
	}
	e.unknown(i + 1)
}

// valued is how many words the option takes for its value.
func valued(option string) int {
	switch option {
	case "-c", "--config-env", "--git-dir", "--work-tree", "--namespace", "--super-prefix", "--exec-path":
		return 1
	default:
		return 0
	}
}

// gitArgument finds what an argument of a subcommand makes git run or write.
// Long options may be cut short.
func (e *effects) gitArgument(subcommand string, n int) {
	words := e.command.words
	text := words[n].text
	if strings.HasPrefix(text, "ext::") {
		e.doubtful("starts a program for its connection")
		e.reads(strings.TrimPrefix(text, "ext::"), plainly)
		return
	}
	runs := ""
	if name, value, with := strings.Cut(text, "="); len(name) > 3 && strings.HasPrefix(name, "--") {
		for _, option := range []string{
			"--exec", "--extcmd", "--upload-pack", "--receive-pack", "--open-files-in-pager", "--sendmail-cmd", "--smtp-server", "--config",
			"--template", "--tool",
		} {
			if strings.HasPrefix(option, name) {
				runs = value
				if !with && n+1 < len(words) {
					runs = words[n+1].text
				}
				e.doubtful("has an option " + shortened(name) + " that can make git start other programs")
			}
		}
		for _, option := range []string{"--output", "--output-directory"} {
			if strings.HasPrefix(option, name) {
				e.writeOption(n, value, with)
			}
		}
	}
	for _, letter := range shortOptions(subcommand) {
		if value, is := shortOption(text, letter); is {
			runs = value
			if runs == "" && n+1 < len(words) {
				runs = words[n+1].text
			}
			e.doubtful("has an option -" + string(letter) + " that can make git start other programs")
		}
	}
	if runs != "" {
		e.reads(runs, plainly)
	}
	switch subcommand {
	case "archive", "format-patch", "bugreport", "diagnose":
		if value, is := shortOption(text, 'o'); is {
			e.writeOption(n, value, value != "")
		}
	}
}

// shortOption is the value of a short option in a word that may hold several, such as
// -nOrm. That a letter may belong to the value of one before it is not looked at.
func shortOption(text string, letter byte) (value string, is bool) {
	if len(text) < 2 || text[0] != '-' || text[1] == '-' {
		return "", false
	}
	_, value, is = strings.Cut(text[1:], string(letter))
	return value, is
}

// shortOptions are the subcommand's short options that name a program or set
// configuration.
func shortOptions(subcommand string) []byte {
	switch subcommand {
	case "rebase":
		return []byte("x")
	case "grep":
		return []byte("O")
	case "clone":
		return []byte("uc")
	default:
		return nil
	}
}

// writeOption collects the file that an option writes.
func (e *effects) writeOption(n int, value string, with bool) {
	words := e.command.words
	doubt := words[n].doubt
	if !with && n+1 < len(words) {
		value, doubt = words[n+1].text, words[n+1].doubt
	}
	if value == "" {
		doubt = "writes to a file that is only known when it runs"
	}
	e.writes(Write{Path: value, Doubt: doubt})
}
