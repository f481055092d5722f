package form

import (
	"fmt"
	"slices"
	"strings"

	"github.com/toolhost/toolhost/config/internal/document"
)

// Check reports everything in a file that its form does not allow. A mapping or a
// list that is null counts as one that is not there.
func (f *Form) Check(root *document.Node) []document.Mistake {
	c := checker{top: f}
	c.check("", root, f)
	return c.mistakes
}

// checker holds a file against its form.
type checker struct {
	top      *Form
	mistakes []document.Mistake
}

func (c *checker) mistake(at document.Position, format string, args ...any) {
	c.mistakes = append(c.mistakes, document.Mistake{At: at, Text: fmt.Sprintf(format, args...)})
}

// check checks a node. path names it in messages; it is empty for the file itself.
func (c *checker) check(path string, n *document.Node, f *Form) {
	if n.Kind == document.Null && f.Kind != Text { // as if it were not there
		if f.hasRequired() {
			c.mistake(n.At, "%s is empty", path)
		}
		return
	}
	if want := f.Kind.node(); n.Kind != want && (f.Kind != Size || n.Kind != document.Text) {
		hint := ""
		switch {
		case f.Kind == Text && (n.Kind == document.Number || n.Kind == document.Bool):
			hint = ": put it in quotes"
		case (f.Kind == Integer || f.Kind == Decimal) && n.Kind == document.Text, f.Kind == Switch && (n.Text == "true" || n.Text == "false"):
			hint = ": write it without quotes"
		}
		c.mistake(n.At, "%s must be %s, not %s%s", orFile(path), want, n.Kind, hint)
		return
	}
	switch f.Kind {
	case Text:
		c.text(path, n, f)
	case Integer, Size:
		if _, err := f.Number(n); err != nil {
			c.mistake(n.At, "%s %s is not valid: %v", path, Quote(n.Text), err)
		}
	case Decimal:
		if _, err := f.Decimal(n); err != nil {
			c.mistake(n.At, "%s %s is not valid: %v", path, Quote(n.Text), err)
		}
	case List:
		if c.tooMany(path, n, len(n.Items), f) {
			return
		}
		if f.Arguments && len(n.Items) == 0 {
			c.mistake(n.At, "%s is empty", path)
		}
		c.items(path, n, f)
	case Object:
		c.object(path, n, f)
	case Table:
		if c.tooMany(path, n, len(n.Entries), f) {
			return
		}
		for _, e := range n.Entries {
			if err := f.Names.Verify(e.Key); err != nil {
				c.mistake(e.At, "name %s in %s is not valid: %v", Quote(e.Key), path, err)
			}
			c.check(join(path, e.Key), e.Value, f.Each)
		}
	}
}

// tooMany reports a collection that is over its bound, in which nothing else is
// looked at.
func (c *checker) tooMany(path string, n *document.Node, count int, f *Form) bool {
	if f.Most == 0 || count <= f.Most {
		return false
	}
	c.mistake(n.At, "%s has %d entries; it may have %d", path, count, f.Most)
	return true
}

// node is the kind of node that the kind of form describes.
func (k Kind) node() document.Kind {
	switch k {
	case Text:
		return document.Text
	case List:
		return document.Sequence
	case Integer, Size, Decimal:
		return document.Number
	case Switch:
		return document.Bool
	default:
		return document.Mapping
	}
}

func (c *checker) text(path string, n *document.Node, f *Form) {
	shown := f.shown(n.Text)
	switch {
	case strings.ContainsRune(n.Text, 0):
		c.mistake(n.At, "%s has the control character U+0000", path)
	case f.OneOf != nil && !slices.Contains(f.OneOf, n.Text):
		c.mistake(n.At, "%s%s is unknown; it is one of %s%s", path, shown, strings.Join(f.OneOf, ", "), DidYouMean(n.Text, f.OneOf))
	case f.Verify != nil:
		if err := f.Verify(n.Text); err != nil {
			c.mistake(n.At, "%s%s is not valid: %v", path, shown, err)
		}
	}
}

// shown is a text of the file for a message, to stand behind its path.
func (f *Form) shown(text string) string {
	if f.Hidden {
		return ""
	}
	return " " + Quote(text)
}

// items checks the items of a list; the same text twice is a slip.
func (c *checker) items(path string, n *document.Node, f *Form) {
	seen := map[string]bool{}
	for i, item := range n.Items {
		at := fmt.Sprintf("%s[%d]", path, i)
		c.check(at, item, f.Each)
		if f.Arguments || item.Kind != document.Text { // arguments of a command may repeat
			continue
		}
		if seen[item.Text] {
			c.mistake(item.At, "%s%s is there twice", at, f.Each.shown(item.Text))
		}
		seen[item.Text] = true
	}
}

func (c *checker) object(path string, n *document.Node, f *Form) {
	present := map[string]bool{}
	for _, e := range n.Entries {
		present[e.Key] = true
		if known := f.Key(e.Key); known != nil {
			c.check(join(path, e.Key), e.Value, known)
			continue
		}
		where := ""
		if path != "" {
			where = " in " + path
		}
		c.mistake(e.At, "unknown key %s%s%s", Quote(e.Key), where, c.unknownKeyHint(e.Key, f))
	}
	for _, k := range f.Keys {
		if k.Required && !present[k.Name] {
			c.mistake(n.At, "%s has no %s", path, k.Name)
		}
	}
}

// maxHints is how many mistakes are found before the hints end, which take longer
// than all else and which nobody reads any more then.
const maxHints = 100

// unknownKeyHint helps with a key that is misspelled, or in the wrong place.
func (c *checker) unknownKeyHint(name string, f *Form) string {
	if len(c.mistakes) >= maxHints {
		return ""
	}
	if hint := DidYouMean(name, f.KeyNames()); hint != "" {
		return hint
	}
	if place, ok := c.top.placeOf(name, ""); ok {
		if place == "" {
			return "; it belongs at the top of the file"
		}
		return "; it belongs in " + place
	}
	return "; the keys here are " + strings.Join(f.KeyNames(), ", ")
}

// placeOf finds an object of the form that has the key.
func (f *Form) placeOf(name, path string) (place string, ok bool) {
	if f.Key(name) != nil {
		return path, true
	}
	for i := range f.Keys {
		if place, ok = f.Keys[i].Form.placeOf(name, join(path, f.Keys[i].Name)); ok {
			return place, true
		}
	}
	switch {
	case f.Each == nil:
		return "", false
	case f.Kind == Table:
		return f.Each.placeOf(name, path+".NAME")
	default:
		return f.Each.placeOf(name, path+"[…]")
	}
}

// orFile names the node at path.
func orFile(path string) string {
	if path == "" {
		return "file"
	}
	return path
}

// join is the path of a key; a name that could be misread, or that is long, is in
// quotes and cut.
func join(path, name string) string {
	const plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-"
	if name == "" || len(name) > 64 || strings.Trim(name, plain) != "" {
		name = Quote(name)
	}
	if path == "" {
		return name
	}
	return path + "." + name
}
