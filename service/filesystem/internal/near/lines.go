package near

import (
	"bytes"
	"fmt"
)

// eachLine calls do with the lines of a text, without their ends.
func eachLine(content []byte, do func(line []byte)) {
	for len(content) > 0 {
		line, rest, _ := bytes.Cut(content, newline)
		do(line)
		content = rest
	}
}

// lineOf is the line that a place is in, without its end.
func lineOf(content []byte, at int) []byte {
	line, _, _ := bytes.Cut(content[bytes.LastIndexByte(content[:at], '\n')+1:], newline)
	return line
}

// hash is that of FNV-1a over the folded line; 0 of a blank line.
func hash(line, buf []byte) (uint64, []byte) {
	buf = buf[:0]
	for i := 0; i < len(line); {
		var size int
		buf, size = appendFolded(buf, line[i:])
		i += size
	}
	if len(buf) == 0 {
		return 0, buf
	}
	h := uint64(14695981039346656037)
	for _, b := range buf {
		h = (h ^ uint64(b)) * 1099511628211
	}
	return h | 1, buf
}

const (
	// weightBytes is the length from which a line that is the same counts no more.
	weightBytes = 24
	// repeats is how many equal lines of what was looked for are told apart.
	repeats = 4
)

// lined finds the place where most lines are the same but for white space, letter
// case and typography. A place is where the first line would stand; each line that
// is the same speaks for the place that it would then have. Only as many places
// are open at a time as there are lines.
func (w window) lined(lines [][]byte) string {
	var buf []byte
	var h uint64
	where := map[uint64][]int{}
	for j, line := range lines {
		if h, buf = hash(line, buf); h != 0 && len(where[h]) < repeats {
			where[h] = append(where[h], j)
		}
	}
	open := make([]int, len(lines)) // the weight for each open place, by its line
	best, weight, total := 0, 0, 0
	closing := func(place int) { // nothing will speak for that place any more
		if place < 0 {
			return
		}
		speaks := &open[place%len(lines)]
		if *speaks > weight {
			best, weight = place, *speaks
		}
		*speaks = 0
	}
	eachLine(w.content, func(line []byte) {
		h, buf = hash(line, buf)
		for _, j := range where[h] {
			if place := total - j; place >= 0 {
				open[place%len(lines)] += min(len(buf), weightBytes)
			}
		}
		total++
		closing(total - len(lines))
	})
	for place := total - len(lines) + 1; place < total; place++ {
		closing(place)
	}
	if weight < weightBytes/3 {
		return ""
	}
	return w.compare(lines, best, total)
}

// compare says how many lines at a place are the same, and shows the first that is
// not.
func (w window) compare(lines [][]byte, place, total int) string {
	same, shown, i := 0, "", 0
	var buf []byte
	eachLine(w.content, func(line []byte) {
		j := i - place
		i++
		if j < 0 || j >= len(lines) {
			return
		}
		var got, want uint64
		got, buf = hash(line, buf)
		want, buf = hash(lines[j], buf)
		if got == want {
			same++
		} else if shown == "" {
			shown = fmt.Sprintf("; line %d is %s where %s was looked for", w.before+i, quote(line), quote(lines[j]))
		}
	})
	if end := place + len(lines); shown == "" && end > total && w.last {
		shown = fmt.Sprintf("; the file ends at line %d where %s was looked for", w.before+total, quote(lines[total-place]))
	}
	return fmt.Sprintf("the most similar are %s, where %d of %d lines are the same%s",
		lineNumbers(w.before+place+1, w.before+min(place+len(lines), total)), same, len(lines), shown)
}

// similar finds the line that shares most groups of three letters with the longest
// line of what was looked for.
func (w window) similar(lines [][]byte) string {
	most := longest(lines)
	key := fold(most[:min(len(most), 4<<10)])
	if len(key) < 4 {
		return ""
	}
	var known [1 << 13]bool
	distinct := 0
	for i := range len(key) - 2 {
		if k := &known[group(key[i:])]; !*k {
			*k = true
			distinct++
		}
	}
	var seen [1 << 13]int32 // the last line that had the group
	var buf, best []byte
	number, found, likest := int32(0), int32(0), 0.0
	eachLine(w.content, func(line []byte) {
		number++
		_, buf = hash(line[:min(len(line), 8<<10)], buf)
		shared := 0
		for i := range max(0, len(buf)-2) {
			if g := group(buf[i:]); known[g] && seen[g] != number {
				seen[g] = number
				shared++
			}
		}
		if likeness := 2 * float64(shared) / float64(distinct+max(distinct, len(buf)-2)); likeness > likest {
			likest, found, best = likeness, number, line
		}
	})
	if likest < 0.5 {
		return ""
	}
	return fmt.Sprintf("the most similar line is line %d: %s", w.before+int(found), quote(best))
}

func group(b []byte) uint32 {
	return (uint32(b[0])*2654435761 ^ uint32(b[1])*40503 ^ uint32(b[2])*97) >> 7 & (1<<13 - 1)
}
