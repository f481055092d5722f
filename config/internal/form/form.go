// Package form describes what a config file may look like, and says of a file
// where it looks otherwise, and of the description what an editor needs to know of
// it.
package form

import "slices"

// A Kind is what a form describes.
type Kind uint8

// The kinds.
const (
	// Anything is a mapping that only the plugin understands.
	Anything Kind = iota
	// Text is a text.
	Text
	// List is a list of values of one form.
	List
	// Object is a mapping with the keys that are listed.
	Object
	// Table is a mapping with names of the user's.
	Table
	// Integer is a whole number within bounds.
	Integer
	// Size is a whole number of bytes within bounds, or a text with a unit, such as
	// 500MB.
	Size
	// Decimal is a number within bounds, which need not be whole.
	Decimal
	// Switch is true or false.
	Switch
)

// A Form describes a part of a config file. Files are checked against it and the
// JSON Schema is made of it, so the two cannot differ.
type Form struct {
	Kind  Kind
	About string // for people, in the JSON Schema

	Keys []Key // of an Object

	Names *Form // of a Table: what a name must be, a Text with a Verify
	Each  *Form // of a Table, every value; of a List, every item

	// Most is how many values a Table or a List has at most; 0 is no bound.
	Most int

	// Arguments makes a List one that is not empty, and in which a text may repeat.
	Arguments bool

	Min, Max      int64   // of an Integer and a Size
	Least, Utmost float64 // of a Decimal

	OneOf   []string                // of a Text: all that it may be
	Pattern string                  // of a Text: what Verify says as far as a regular expression can, for editors only
	Verify  func(text string) error // of a Text: what else must hold
	Hidden  bool                    // of a Text: it may be a secret by mistake and is never quoted
}

// A Key is a key of an Object.
type Key struct {
	Name     string
	Required bool
	Form     Form
}

// Key returns the form of the value of a key, or nil.
func (f *Form) Key(name string) *Form {
	i := slices.IndexFunc(f.Keys, func(k Key) bool { return k.Name == name })
	if i < 0 {
		return nil
	}
	return &f.Keys[i].Form
}

// KeyNames lists the keys.
func (f *Form) KeyNames() []string {
	names := make([]string, 0, len(f.Keys))
	for _, k := range f.Keys {
		names = append(names, k.Name)
	}
	return names
}

// hasRequired says whether a value without any key is not valid.
func (f *Form) hasRequired() bool {
	return slices.ContainsFunc(f.Keys, func(k Key) bool { return k.Required })
}
