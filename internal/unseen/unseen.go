// Package unseen tells which characters a person does not see for what they are. It
// is asked wherever somebody decides about a text that they did not write.
package unseen

import (
	"strconv"
	"strings"
	"unicode"
)

// Is reports whether a character is shown as nothing, as a gap, on top of others, or
// changes how those beside it are shown: whatever is not printable but the common
// space, whatever a renderer may ignore, marks, and letters and symbols without ink. It
// goes by the properties that Unicode gives to characters, those without ink excepted:
// there is no property for that.
func Is(r rune) bool {
	if ' ' <= r && r <= '~' {
		return false
	}
	return !unicode.IsPrint(r) || blank(r) || unicode.In(r, unicode.Mn, unicode.Me) ||
		// This is Default_Ignorable_Code_Point, without what is in a category above.
		unicode.In(r, unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector)
}

// blank reports what has a width, and no ink.
func blank(r rune) bool {
	switch r {
	case '\u2800', // BRAILLE PATTERN BLANK
		'\u303f',                   // IDEOGRAPHIC HALF FILL SPACE
		'\U00013441', '\U00013442', // EGYPTIAN HIEROGLYPH FULL BLANK, HALF BLANK
		'\U0001d159': // MUSICAL SYMBOL NULL NOTEHEAD
		return true
	default:
		return false
	}
}

// Quote is a text in quotes, as Go spells it, without a character that is not seen.
func Quote(text string) string {
	if strings.ContainsFunc(text, func(r rune) bool { return unicode.IsPrint(r) && Is(r) }) {
		return strconv.QuoteToASCII(text) // which other quoting leaves as it is
	}
	return strconv.Quote(text)
}
