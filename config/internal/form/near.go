package form

import (
	"fmt"
	"strings"
)

// Quote is a value of the file for a message, cut when it is long.
func Quote(text string) string {
	const most = 60
	count := 0
	for i := range text {
		if count == most {
			text = text[:i] + "…"
			break
		}
		count++
	}
	return fmt.Sprintf("%q", text)
}

// DidYouMean is the nearest of the valid names, to stand behind a message, or
// nothing when none is near.
func DidYouMean(name string, valid []string) string {
	if near := nearest(name, valid); near != "" {
		return fmt.Sprintf(" (did you mean %q?)", near)
	}
	return ""
}

// nearest is the valid name that takes the fewest changes to reach, a third of its
// letters at most; of several the first.
func nearest(name string, valid []string) string {
	const longest = 64 // comparing takes time in the product of the lengths
	best, fewest := "", len(name)+1
	if len(name) > longest {
		return ""
	}
	for _, candidate := range valid {
		if len(candidate) > longest {
			continue
		}
		changes := distance(strings.ToLower(name), strings.ToLower(candidate))
		if changes < fewest && changes <= max(1, len(candidate)/3) {
			best, fewest = candidate, changes
		}
	}
	return best
}

// distance is how many letters must be put in, taken away, replaced, or swapped
// with their neighbour to make b of a.
func distance(a, b string) int {
	rows := make([][]int, len(a)+1)
	for i := range rows {
		rows[i] = make([]int, len(b)+1)
		rows[i][0] = i
	}
	for j := range rows[0] {
		rows[0][j] = j
	}
	for i := 1; i <= len(a); i++ {
		for j := 1; j <= len(b); j++ {
			replace := 1
			if a[i-1] == b[j-1] {
				replace = 0
			}
			rows[i][j] = min(rows[i-1][j]+1, rows[i][j-1]+1, rows[i-1][j-1]+replace)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				rows[i][j] = min(rows[i][j], rows[i-2][j-2]+1)
			}
		}
	}
	return rows[len(a)][len(b)]
}
