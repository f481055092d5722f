package command

import (
	"path"
	"strings"
)

// A simple is a simple command that is being judged: words that stand in the
// line by themselves, or behind a program that runs them.
type simple struct {
	words []word
	// front is the assignments in front.
	front string
	// doubt is what is doubtful about it so far.
	doubt string
	depth int
}

// name is the base name of the program.
func (c simple) name() string { return base(c.words[0].text) }

func base(text string) string {
	if strings.IndexByte(text, '/') < 0 {
		return text
	}
	return path.Base(text)
}

// behind is the command that the words from i on are.
func (c simple) behind(i int, doubt string) simple {
	return simple{words: c.words[i:], doubt: firstOf(c.doubt, doubt), depth: c.depth + 1}
}

// joined is the texts of the words from i on, as a command line.
func (c simple) joined(i int) string {
	var b strings.Builder
	for n, w := range c.words[i:] {
		if n > 0 {
			b.WriteByte(' ')
		}
		b.WriteString(w.text)
	}
	return b.String()
}

// command collects the command and what it runs.
func (s *script) command(c simple) {
	if c.depth > MaxDepth {
		s.exceeds("has commands too deep in one another")
		return
	}
	if s.full() {
		return
	}
	inner := &effects{script: s, command: &c}
	head := c.words[0]
	switch {
	case head.doubt != "", head.pattern, head.home:
		c.doubt = firstOf(c.doubt, firstOf(head.doubt, "has a pattern in the place of the command"))
		inner.unknown(1)
	case strings.TrimSpace(head.text) != head.text, head.text == "", strings.ContainsAny(head.text, " \t\n"):
		c.doubt = firstOf(c.doubt, "has spaces in the name of the command")
		inner.unknown(1)
	default:
		inner.of(c.name())
	}
	for _, w := range c.words {
		c.doubt = firstOf(c.doubt, w.doubt)
	}
	s.collect(s.told(c))
	for _, then := range inner.then {
		then()
	}
}

// told is the command as it is reported.
func (s *script) told(c simple) Command {
	var raw, bare strings.Builder
	elided := false
	for i, w := range c.words {
		if i > 0 {
			raw.WriteByte(' ')
		}
		raw.WriteString(w.raw)
		if w.bare != w.text {
			elided = true
		}
		if w.bare == "" && !w.quoted && w.text != "" {
			continue // it may be no word at all
		}
		if bare.Len() > 0 {
			bare.WriteByte(' ')
		}
		bare.WriteString(w.bare)
	}
	told := Command{Raw: raw.String(), Plain: c.joined(0), Doubt: c.doubt, Possible: bool(s.sure)}
	spell := func(text string) {
		if text != "" && text != told.Raw && text != told.Plain {
			told.Spellings = append(told.Spellings, text)
		}
	}
	named := func(text, head string) {
		spell(text)
		rest := strings.TrimPrefix(text, head)
		if name := base(head); name != head || strings.ToLower(name) != name {
			spell(name + rest)
			spell(strings.ToLower(name) + rest)
		}
	}
	named(told.Plain, c.words[0].text)
	if elided {
		head, _, _ := strings.Cut(bare.String(), " ")
		named(bare.String(), head)
	}
	if c.front != "" {
		spell(c.front + " " + told.Raw)
		spell(c.front + " " + told.Plain)
	}
	return told
}

// effects finds what a command runs, by the name of its program. What it finds
// is collected after the command itself.
type effects struct {
	*script
	command *simple
	then    []func()
}

// doubtful says why it cannot be told what the command runs.
func (e *effects) doubtful(why string) { e.command.doubt = firstOf(e.command.doubt, why) }

// runs says that the words from i on are a command.
func (e *effects) runs(i int, doubt string) {
	if i < len(e.command.words) {
		c := e.command.behind(i, doubt)
		e.then = append(e.then, func() { e.script.command(c) })
	}
}

// reads says that a text is a command line.
func (e *effects) reads(text string, sure certainty) {
	depth, sure := e.command.depth+1, sure || e.sure
	e.then = append(e.then, func() { e.reader.text(text, depth, sure) })
}

// line says that the word at i is a command line.
func (e *effects) line(i int) {
	if i < len(e.command.words) {
		e.reads(e.command.words[i].text, plainly)
	}
}

// of finds what the program of that name runs.
func (e *effects) of(name string) {
	name = strings.ToLower(name)
	switch {
	case shell(name):
		e.shell(name)
		return
	case e.builtin(name):
		return
	case e.special(name):
		return
	}
	if w, is := wrapperOf(name); is {
		e.wrapper(w)
		return
	}
	if s, is := starterOf(name); is {
		e.starter(name, s)
	}
	switch name {
	case "awk", "gawk", "mawk", "nawk":
		e.awk()
	case "sed", "gsed":
		e.sed()
	}
	if opaque(name) {
		e.doubtful("runs a command that is in its arguments")
		e.unknown(1)
		return
	}
	// A program in a file of its own may be anything, whatever it is called.
	if e.command.words[0].text == name && data(name) {
		return
	}
	e.unknown(1)
}

// unknown looks for commands in the words from i on, behind a program of which
// it is not known whether it runs them: what is named like a program that is
// seldom an argument is taken for a command, the rest for a possible one.
func (e *effects) unknown(i int) {
	words := e.command.words
	text := e.command.joined(0)
	at := 0
	for n := range i {
		at += len(words[n].text) + 1
	}
	found := false
	for n := i; n < len(words); n++ {
		w, rest := words[n], text[min(at, len(text)):]
		at += len(w.text) + 1
		if !found && w.known() && likely(base(w.text)) {
			found = true
			e.runs(n, "")
		}
		e.possible(rest)
		if _, value, is := strings.Cut(w.text, "="); is {
			e.possible(rest[len(w.text)-len(value):])
		}
		if slash := strings.LastIndexByte(w.text, '/'); slash >= 0 {
			e.possible(rest[slash+1:])
		}
		if w.quoted && strings.ContainsAny(w.text, " \t\n;&|()`$") {
			e.reads(w.text, possibly)
		}
	}
}

// possible collects what may be a command.
func (e *effects) possible(text string) {
	if text != "" {
		e.then = append(e.then, func() { e.collect(Command{Raw: text, Plain: text, Possible: true}) })
	}
}
