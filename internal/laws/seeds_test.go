package laws

import (
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// SEEDS.md names tests that exist, in each of its rows, or one of the four decisions, or the issue that will close it.
func TestSeeds(t *testing.T) {
	t.Parallel()
	raw, err := os.ReadFile("SEEDS.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, problem := range seedProblems(string(raw), testsBelow(t, filepath.Join("..", ".."))) {
		t.Error(problem)
	}
}

// The check itself finds what is wrong.
func TestSeedsAreChecked(t *testing.T) {
	t.Parallel()
	tests := map[string]bool{"tool.TestA": true}
	for text, want := range map[string]string{
		"| 1.1 | x | `tool.TestA` |": "", "| 1.1 | x | decision: dyn compatibility |": "", "| 1.1 | x | the commands issue |": "",
		"| 1.1 | x | `tool.TestB` |": "no test", "| 1.1 | x | `other.TestA` |": "no test", "| 1.1 | x | it is so |": "proves nothing",
		"| 1.1 | x | decision: we like it |": "no decision", "| 1.1 | x | the some other issue |": "proves nothing",
		"| 1.2 | x | `tool.TestA` |": "1.1 is missing", "": "no rows",
		"| 1.1 | x | `tool.TestA` |\n| 1.1 | x | `tool.TestA` |": "1.2 is missing", "| 1.1 | x |": "three columns",
	} {
		got := strings.Join(seedProblems(text, tests), "; ")
		if want == "" && got != "" || !strings.Contains(got, want) {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
}

var (
	seedRow   = regexp.MustCompile(`(?m)^\| (\d)\.(\d+) \|(.*)\|$`)
	seedProof = regexp.MustCompile("`([a-z/]+)\\.((?:Test|Fuzz|Example)\\w*)`")
	issue     = regexp.MustCompile(`the (approvals|mutations|commands) issue`)
	decided   = regexp.MustCompile(`decision: ([^;|(]*)`)
)

func seedProblems(text string, tests map[string]bool) (problems []string) {
	rows := seedRow.FindAllStringSubmatch(text, -1)
	if len(rows) == 0 {
		return []string{"there are no rows"}
	}
	next := map[string]int{}
	for _, row := range rows {
		no := row[1] + "." + row[2]
		next[row[1]]++
		if want := row[1] + "." + strconv.Itoa(next[row[1]]); no != want {
			problems = append(problems, no+" stands where "+want+" is missing")
		}
		columns := strings.SplitN(row[3], "|", 3)
		if len(columns) != 2 {
			problems = append(problems, no+" has not three columns")
			continue
		}
		proof := columns[1]
		named := seedProof.FindAllStringSubmatch(proof, -1)
		for _, name := range named {
			if !tests[name[1]+"."+name[2]] {
				problems = append(problems, no+": there is no test "+name[1]+"."+name[2])
			}
		}
		decisions := decided.FindAllStringSubmatch(proof, -1)
		for _, d := range decisions {
			if !isDecided(strings.TrimSpace(d[1])) {
				problems = append(problems, no+": "+d[1]+" is no decision that was made")
			}
		}
		if len(named)+len(decisions) == 0 && !issue.MatchString(proof) {
			problems = append(problems, no+" proves nothing")
		}
	}
	return problems
}

// isDecided knows the four.
func isDecided(what string) bool {
	switch what {
	case "Effect and Standard Schema", "`name`", "dyn compatibility", "a scope owned by the host instead of the plugin":
		return true
	default:
		return false
	}
}

var testFunction = regexp.MustCompile(`(?m)^func ((?:Test|Fuzz|Example)\w*)\(`)

// testsBelow are the tests of the repository, as folder.Name.
func testsBelow(t *testing.T, root string) map[string]bool {
	t.Helper()
	tests := map[string]bool{}
	if err := filepath.WalkDir(root, func(path string, entry os.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		folder, err := filepath.Rel(root, filepath.Dir(path))
		if err != nil {
			return err
		}
		text, err := os.ReadFile(path)
		for _, f := range testFunction.FindAllStringSubmatch(string(text), -1) {
			tests[filepath.ToSlash(folder)+"."+f[1]] = true
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	return tests
}
