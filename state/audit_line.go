package state

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/toolhost/toolhost/tool"
)

// encodeAudit makes the line of an entry. What makes it too long is cut: each text to
// what the others leave to it.
func encodeAudit(e AuditEntry) ([]byte, error) {
	for most := MaxAuditLine; ; {
		line, err := encodeLine(e, most)
		if err != nil || len(line) <= MaxAuditLine {
			return line, err
		}
		// By as much as it is too long, and some more for what does not shrink.
		most = most * MaxAuditLine / len(line) * 15 / 16
	}
}

// encodeLine makes a line with texts of so many bytes at most.
func encodeLine(e AuditEntry, most int) ([]byte, error) {
	// First of all, so that a large input is not encoded to be thrown away.
	if len(e.Input) > most {
		e.Input = quoteJSON(cutTo(inputText(e.Input), most))
	}
	for _, text := range []*string{
		&e.Root, &e.Session, &e.Agent, &e.Message, &e.Call, &e.Tool, &e.Plugin, &e.Action, &e.Effect, &e.Answer, &e.Rule, &e.Reason,
		&e.Request, &e.By,
	} {
		*text = cutTo(*text, most)
	}
	e.Status, e.ErrorKind = tool.Status(cutTo(string(e.Status), most)), tool.Kind(cutTo(string(e.ErrorKind), most))
	e.Resources, e.Extra = cutList(e.Resources, most), cutExtra(e.Extra, most)
	e.Effects, e.Patterns = cutList(e.Effects, most), cutList(e.Patterns, most)
	var line bytes.Buffer
	encoder := json.NewEncoder(&line)
	encoder.SetEscapeHTML(false) // so that a command can be read
	if err := encoder.Encode(e); err != nil {
		return nil, err
	}
	return escapeControls(line.Bytes()), nil
}

// listShare is how many bytes of what a text may have stand for one element of a list.
const listShare = 64

// cutList keeps the first elements, each cut.
func cutList(list []string, most int) []string {
	keep := min(len(list), max(1, most/listShare))
	short := make([]string, 0, keep+1)
	for _, text := range list[:keep] {
		short = append(short, cutTo(text, most))
	}
	if cut := len(list) - keep; cut > 0 {
		short = append(short, fmt.Sprintf("…[%d more cut]", cut))
	}
	return short
}

// cutExtra keeps the first keys, each cut, and so its value.
func cutExtra(extra map[string]string, most int) map[string]string {
	keys := slices.Sorted(maps.Keys(extra))
	keep := min(len(keys), max(1, most/listShare))
	short := make(map[string]string, keep+1)
	for _, key := range keys[:keep] {
		short[cutTo(key, most)] = cutTo(extra[key], most)
	}
	if cut := len(keys) - keep; cut > 0 {
		short["…"] = fmt.Sprintf("[%d more cut]", cut)
	}
	return short
}

// inputText is what is in an input that is a string already, or its JSON.
func inputText(input json.RawMessage) string {
	var text string
	if json.Unmarshal(input, &text) == nil {
		return text
	}
	return string(input)
}

// cutMark ends a text that was cut.
const cutMark = "…[cut]"

// cutTo is the beginning of a text that is longer than most, with a mark.
func cutTo(text string, most int) string {
	if len(text) <= most {
		return text
	}
	for most > 0 && !utf8.RuneStart(text[most]) {
		most--
	}
	return text[:most] + cutMark
}

// quoteJSON makes a string of JSON.
func quoteJSON(text string) json.RawMessage {
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	_ = encoder.Encode(text) // a string can always be encoded
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}

// escapeControls escapes what JSON allows in a string as it is and a terminal might
// act on: control characters, and those that change the direction or cannot be seen.
// What is not UTF-8 becomes the replacement character.
func escapeControls(line []byte) []byte {
	body := bytes.TrimSuffix(line, []byte("\n"))
	if !bytes.ContainsFunc(body, isUnsafe) {
		return line
	}
	var b strings.Builder
	for _, r := range string(body) { // utf8.RuneError for what is not UTF-8
		switch {
		case !isUnsafe(r):
			b.WriteRune(r)
		case r > 0xffff:
			high, low := (r-0x10000)>>10+0xd800, (r-0x10000)&0x3ff+0xdc00
			fmt.Fprintf(&b, `\u%04x\u%04x`, high, low)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
	}
	return []byte(b.String() + "\n")
}

func isUnsafe(r rune) bool {
	if r <= '~' {
		return r < ' '
	}
	return r == utf8.RuneError || unicode.IsControl(r) || unicode.In(r, unicode.Cf, unicode.Zl, unicode.Zp)
}
