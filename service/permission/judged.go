package permission

import "unicode/utf8"

// The bounds of what is told of the parts of command lines.
const (
	// MaxJudged is how many parts a request lists at most.
	MaxJudged = 64
	// maxJudgedText is the most bytes of one text of a part, and maxJudgedSize of all.
	maxJudgedText = 512
	maxJudgedSize = 16 << 10
)

// Judged is what one part of a command line that is asked for was judged to be (law 38).
// A request lists those parts that had an answer, in the order of their judgement,
// [MaxJudged] at most; when there are more, those that ask are listed first.
type Judged struct {
	// Kind is one of the kinds of parts of a command line.
	Kind PartKind
	// Action is [service.ActionShell], or [service.ActionEdit] for a file that is written.
	Action string
	// Text is what was judged: a command without quoting, or the path of a file, relative
	// to the root where it is below it. It is empty for the line as a whole.
	Text string
	// Effect is the answer, Allow or Ask.
	Effect Effect
	// Why is its ground in words, such as "by toolhost.yaml:12".
	Why string
	// Cut says that Text or Why is only the beginning of it.
	Cut bool
}

// listed is what is told of the parts, and how many that had an answer are left out.
func listed(parts []Part) (judged []Judged, unlisted int) {
	told := make(map[int]Judged)
	size := 0
	for _, effect := range []Effect{Ask, Allow} {
		for i := range parts {
			if parts[i].Effect != effect {
				continue
			}
			j := parts[i].judged()
			if size += len(j.Text) + len(j.Why); len(told) == MaxJudged || size > maxJudgedSize {
				size = maxJudgedSize // what follows is left out as well
				unlisted++
				continue
			}
			told[i] = j
		}
	}
	for i := range parts {
		if j, is := told[i]; is {
			judged = append(judged, j)
		}
	}
	return judged, unlisted
}

// judged is what is told of the part.
func (p *Part) judged() Judged {
	j := Judged{Kind: p.Kind, Action: p.Action, Effect: p.Effect}
	v := p.verdict
	v.Command = "" // it is the text
	var cutText, cutWhy bool
	if p.Kind != PartDoubt {
		j.Text, cutText = start(p.Text, maxJudgedText)
	}
	j.Why, cutWhy = start(v.ground(), maxJudgedText)
	j.Cut = cutText || cutWhy
	return j
}

// start is how a text begins, cut between characters.
func start(text string, most int) (begins string, cut bool) {
	if len(text) <= most {
		return text, false
	}
	for most > 0 && !utf8.RuneStart(text[most]) {
		most--
	}
	return text[:most], true
}
