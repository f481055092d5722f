package command

import "strings"

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
