package glob

import (
	"os"
	"slices"
	"strings"
	"testing"
)

func TestTypeOf(t *testing.T) {
	for name, want := range map[string]string{
		"go": "a.go x/.b.go", "golang": "a.go x/.b.go", "make": "Makefile x/Makefile rules.mk", "c": "a.c a.h", "docker": "Dockerfile", "ts": "a.d.ts b.tsx",
	} {
		typ, err := TypeOf(name)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, path := range []string{
			"a.go", "x/.b.go", "go", "x.go/a", "Makefile", "x/Makefile", "Makefile.txt", "rules.mk", "a.c", "a.h", "a.cc", "Dockerfile", "a.d.ts", "b.tsx", "a.GO",
		} {
			if typ.Match(path) {
				got = append(got, path)
			}
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%s: got %q, want %q", name, got, want)
		}
	}
}

// A name that is not known is answered with those that are, the near ones first.
func TestTypeOfUnknown(t *testing.T) {
	for name, near := range map[string]string{
		"pyton": "did you mean python?", "Go": "did you mean go", "tsx": "did you mean tex or ts?", "jsno": "did you mean js or json?", "*.rs": "did you mean rust?", "javascrpt": "did you mean java or js?",
		"qqq": "", "": "", "e": "", strings.Repeat("x", 5000): "",
	} {
		_, err := TypeOf(name)
		if err == nil || !strings.Contains(err.Error(), near) || near == "" && strings.Contains(err.Error(), "did you mean") {
			t.Errorf("%.20s: %v", name, err)
		}
		if err != nil && (!strings.Contains(err.Error(), "? Known are asm, bazel, c, ") && !strings.Contains(err.Error(), "\" is not known. Known are asm, bazel, c, ") || len(err.Error()) > 1000) {
			t.Errorf("%.20s: %d bytes: %v", name, len(err.Error()), err)
		}
	}
}

// The table is sorted, and names every type once.
func TestFileTypes(t *testing.T) {
	var first, all []string
	for _, typ := range fileTypes() {
		names := strings.Fields(typ.names)
		first, all = append(first, names[0]), append(all, names...)
		for pattern := range strings.FieldsSeq(typ.patterns) {
			if name := strings.TrimPrefix(pattern, "*."); strings.ContainsAny(name, `*?[]{}\/`) {
				t.Errorf("%s: %q is neither a name nor an ending", typ.names, pattern)
			}
		}
	}
	if !slices.IsSorted(first) {
		t.Error("not sorted")
	}
	slices.Sort(all)
	if unique := slices.Compact(slices.Clone(all)); len(unique) != len(all) {
		t.Errorf("a name is there twice: %q", all)
	}
}

// The documentation of service/filesystem lists the types that there are, with their other names.
func TestTypesAreDocumented(t *testing.T) {
	doc, err := os.ReadFile("../../doc.go")
	if err != nil {
		t.Fatal(err)
	}
	_, list, _ := strings.Cut(string(doc), "Grep's Type is one of: ")
	list, _, _ = strings.Cut(list, ". A type is told")
	list = strings.ReplaceAll(strings.ReplaceAll(list, "\n// ", " "), "\n//", " ")
	var want []string
	for _, typ := range fileTypes() {
		names := strings.Fields(typ.names)
		if others := strings.Join(names[1:], ", "); others != "" {
			names[0] += " (" + others + ")"
		}
		want = append(want, names[0])
	}
	if want := strings.Join(want, ", "); list != want {
		t.Errorf("the documentation has\n%s\nwant\n%s", list, want)
	}
}
