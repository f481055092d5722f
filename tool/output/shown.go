package output

// Shown is what a terminal would leave of a text, without its control and as valid UTF-8: as a
// model is shown an output of which nothing is left out. A text that was cut anywhere may be
// given: half a character at its ends is U+FFFD, and of half an escape sequence what cannot be
// known to be one is shown.
func Shown(text []byte) string {
	m := newMeasure(Limits{MaxLines: len(text) + 1, MaxBytes: len(text) + 1})
	m.write(text)
	v := m.verdict()
	return string(v.all.text)
}
