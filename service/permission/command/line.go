package command

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"mvdan.cc/sh/v3/syntax"
)

// The bounds of what is read. A line beyond one of them has a doubt.
const (
	MaxLine     = 64 << 10 // bytes of a line
	MaxCommands = 1000     // simple commands, also possible ones, and writes of a line
	MaxDepth    = 24       // commands that stand in the argument of one another
	maxOpenings = 4096     // brackets, substitutions and keywords that the parser may have to nest
	maxRead     = 4 * MaxLine
	maxBraces   = 256 // words that one word with braces may become
)

// A Line is what a command line would run and write, as far as it can be told.
type Line struct {
	// Commands are the simple commands in order of their reading, outer ones before
	// those in their arguments.
	Commands []Command
	// Writes are the files that redirections write.
	Writes []Write
	// Moves says that the line may change its working directory, so that a relative
	// path is not relative to the one in which the line starts.
	Moves bool
	// Doubt is why the line is not fully told by its commands and writes, in words
	// that follow "it"; empty when it is.
	Doubt string
}

// A Command is one simple command.
type Command struct {
	// Raw is its words as they were written, joined by single spaces.
	Raw string
	// Plain is its words without quoting, joined by single spaces. What is only known
	// when the line runs stands in it as it was written.
	Plain string
	// Spellings are further texts by which the command can be meant: with the base
	// name in the place of a path, with the assignments in front, without what may
	// expand to nothing.
	Spellings []string
	// Doubt is why it cannot be told what is run, in words that follow "it"; empty
	// when it can.
	Doubt string
	// Possible says that this may be no command at all: it is what stands behind the
	// name of a program of which it is not known whether it runs its arguments.
	Possible bool
}

// A Write is the target of a redirection.
type Write struct {
	// Path is the file as it is spelled, without quoting.
	Path string
	// Doubt is why the file cannot be told, as in [Command].
	Doubt string
}

// Read takes a line apart. It never fails: what it cannot take apart has a
// doubt. It takes time in proportion to the line, up to its bounds, and is safe
// for concurrent use.
func Read(line string) Line {
	r := reader{budget: maxRead}
	if len(line) > MaxLine {
		r.doubt(fmt.Sprintf("has %d bytes, and at most %d are read", len(line), MaxLine))
		r.out.Commands = []Command{{Raw: line, Plain: line, Doubt: r.out.Doubt}}
		return r.out
	}
	r.text(line, 0, plainly)
	for i := 0; r.readsInput && i < len(r.documents) && !r.full(); i++ { // a document may have documents
		r.text(r.documents[i], 1, plainly)
	}
	r.out.Doubt = firstOf(r.exceeded, r.out.Doubt)
	return r.out
}

// certainty is how sure it is that what is read is run at all.
type certainty bool

const (
	plainly  certainty = false
	possibly certainty = true
)

// reader collects what a line does.
type reader struct {
	out Line
	// budget is the bytes that may still be parsed, so that lines in lines cost no
	// more than their number.
	budget int
	// seen has what was collected: some texts are read twice.
	seen map[collected]bool
	// documents are the here-documents and here-strings, for a shell that reads its
	// commands from its input.
	documents  []string
	readsInput bool
	// exceeded is the bound that the line is beyond, in words.
	exceeded string
}

// doubt notes why the line is not fully told; the first reason stands.
func (r *reader) doubt(why string) {
	if r.out.Doubt == "" {
		r.out.Doubt = why
	}
}

// exceeds notes that the line is beyond a bound.
func (r *reader) exceeds(why string) { r.exceeded = firstOf(r.exceeded, why) }

// full reports whether nothing more is collected, and says so.
func (r *reader) full() bool {
	if len(r.out.Commands)+len(r.out.Writes) < MaxCommands {
		return false
	}
	r.exceeds(fmt.Sprintf("has more than %d commands", MaxCommands))
	return true
}

// text reads a command line that stands depth lines deep. Of one that is only
// possible nothing is doubtful, and nothing is written.
func (r *reader) text(text string, depth int, sure certainty) {
	if depth > MaxDepth {
		r.exceeds(fmt.Sprintf("has commands more than %d deep in one another", MaxDepth))
		return
	}
	if sure == possibly {
		doubt, writes := r.out.Doubt, len(r.out.Writes)
		defer func() { r.out.Doubt, r.out.Writes = doubt, r.out.Writes[:writes] }()
	}
	if strings.IndexByte(text, 0) >= 0 {
		r.doubt("has a NUL in it")
		text = strings.ReplaceAll(text, "\x00", "")
	}
	if strings.IndexByte(text, '\r') >= 0 {
		r.doubt("has carriage returns, which shells take for different things")
	}
	if strings.ContainsFunc(text, controls) {
		r.doubt("has control characters, which a terminal takes for editing")
	}
	if !utf8.ValidString(text) {
		r.doubt("is not UTF-8")
		text = strings.ToValidUTF8(text, "\uFFFD")
	}
	if openings(text) > maxOpenings {
		r.unparsed(text, fmt.Sprintf("has more than %d brackets", maxOpenings), sure)
		return
	}
	if cut, is := commented(text); is {
		r.doubt("has a backslash at the end of a line with a #, which may be a comment")
		r.parse(cut, syntax.LangBash, depth, sure)
	}
	r.parse(text, syntax.LangBash, depth, sure)
	if differs(text) {
		r.parse(text, syntax.LangPOSIX, depth, sure)
	}
}

// controls are the characters that change a line where it is typed: those of ASCII but for tabs,
// ends of lines, and what has a doubt of its own.
func controls(c rune) bool {
	return c < ' ' && c != '\t' && c != '\n' && c != '\r' && c != 0 || c == 0x7f
}

// unparsed collects a text that could not be taken apart as if it were one
// command, and what stands between its operators as others.
func (r *reader) unparsed(text, why string, sure certainty) {
	r.doubt(why)
	r.undivided(text, why, sure)
	for piece := range strings.FieldsFuncSeq(text, func(c rune) bool { return strings.ContainsRune(";&|()\n`", c) }) {
		for {
			piece = strings.TrimLeft(piece, "!{ \t")
			word, rest, _ := strings.Cut(piece, " ")
			if keyword(word) == 0 {
				break
			}
			piece = rest
		}
		r.undivided(piece, why, sure)
	}
}

func (r *reader) undivided(text, why string, sure certainty) {
	if text = strings.TrimSpace(text); text != "" {
		r.collect(Command{Raw: text, Plain: text, Doubt: why, Possible: bool(sure)})
	}
}

// parse reads the text in one language.
func (r *reader) parse(text string, language syntax.LangVariant, depth int, sure certainty) {
	if r.budget -= len(text); r.budget < 0 {
		r.exceeds("has too many lines in lines")
		return
	}
	s := script{reader: r, text: text, language: language, depth: depth, sure: sure}
	if err := s.statements(); err == nil {
		return
	} else if language == syntax.LangBash {
		r.unparsed(text, "cannot be parsed: "+err.Error(), sure)
	} else {
		r.doubt("is read differently by a POSIX shell: " + err.Error())
	}
}

// statements visits the statements up to the first error: a shell has run them
// when it meets the error. The parser is a stranger's: its panic is an error.
func (s *script) statements() (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("the parser failed: %v", v)
		}
	}()
	text := s.text
	if s.language == syntax.LangPOSIX {
		text = strings.ReplaceAll(text, "&>", "& >") // there it is two operators
		s.text = text
	}
	parser := syntax.NewParser(syntax.Variant(s.language))
	for statement, failure := range parser.StmtsSeq(strings.NewReader(text)) {
		switch {
		case err != nil: // it goes on after an error and must not be stopped then
		case failure != nil:
			err = failure
		default:
			syntax.Walk(statement, s.visit)
		}
	}
	return err
}

// collect adds a command once.
func (r *reader) collect(c Command) {
	if r.full() {
		return
	}
	key := collected{c.Raw, c.Plain, c.Doubt, c.Possible}
	if r.seen == nil {
		r.seen = make(map[collected]bool)
	}
	if !r.seen[key] {
		r.seen[key] = true
		r.out.Commands = append(r.out.Commands, c)
	}
}

// collected is what makes a command the same as another one.
type collected struct {
	raw, plain, doubt string
	possible          bool
}

// openings counts what may make the parser go one level deeper.
func openings(text string) int {
	n, start := 0, 0
	for i := range len(text) {
		switch c := text[i]; c {
		case '(', '{', '[', '`', '!':
			n++
		case ' ', '\t', '\n', ';', '&', '|':
			n += keyword(text[start:i])
			start = i + 1
		}
	}
	return n
}

func keyword(word string) int {
	switch word {
	case "if", "elif", "while", "until", "for", "case", "select", "function", "time", "coproc", "then", "else", "do":
		return 1
	default:
		return 0
	}
}

// commented is the text with the backslashes taken from the ends of its lines
// that have a # in them, if there are such: in a comment they continue no line,
// which the parser does not know.
func commented(text string) (cut string, is bool) {
	if strings.IndexByte(text, '#') < 0 || !strings.Contains(text, "\\\n") {
		return text, false
	}
	lines := strings.SplitAfter(text, "\n")
	for i, line := range lines {
		if head, ends := strings.CutSuffix(line, "\\\n"); ends && strings.IndexByte(line, '#') >= 0 {
			lines[i], is = head+"\n", true
		}
	}
	return strings.Join(lines, ""), is
}

// differs reports whether a POSIX shell might read the text as something else
// than bash.
func differs(text string) bool {
	return strings.ContainsAny(text, "([{$<`") || strings.Contains(text, "&>") || strings.Contains(text, "|&")
}
