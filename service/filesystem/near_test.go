package filesystem

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/toolhost/toolhost/service"
)

// A name that is missing is answered with those that could have been meant, the best
// first and three at most, and is never opened as one of them (case A07, both ways).
//
// Seen to fail: without the order; without the bound of three; with other names beside
// twins; with files where a directory was meant; without the look for what was to be in
// it.
func TestCaseA07NearNames(t *testing.T) {
	root := t.TempDir()
	write(t, root,
		"README.md", "main.go", "main_test.go", "config.yaml", ".env.local", "utils/strings.go", "util_test.go", "classes/", "a", "b", "cd",
		"src/handler/serve.go", "src/handlers.go", "number1", "number2", "number3", "number4", "Twin", "twins", "apatterx", "patterm", "link -> src",
	)
	f := open(t, root)
	for path, want := range map[string]string{
		"raedme.md":            `did you mean "README.md"?`,
		"README.txt":           `did you mean "README.md"?`,
		"README":               `did you mean "README.md"?`,
		"mian.go":              `did you mean "main.go"?`,
		"config.yml":           `did you mean "config.yaml"?`,
		".env":                 `did you mean ".env.local"?`,
		"util/strings.go":      `did you mean "utils/strings.go"?`,
		"util/nothing.go":      `there is no "util" in "."; did you mean "utils"?`,
		"class":                `did you mean "classes"?`,
		"src/handlr/serve.go":  `there is no "handlr" in "src"; did you mean "src/handler/serve.go"?`,
		"src/handlers/new.go":  `did you mean "src/handler"?`,
		"src/handler/serve.rs": `did you mean "src/handler/serve.go"?`,
		"link/handler/serv.go": `did you mean "src/handler/serve.go"?`,
		"number":               `did you mean "number1" or "number2" or "number3"?`,
		"pattern":              `did you mean "patterm" or "apatterx"?`,
		"twin":                 `did you mean "Twin"? It differs in spaces, accents or case`,
		"c":                    "",
		"x":                    "",
		"nothing like it":      "",
		"strings.go":           "", // which is elsewhere: no tree is searched for it
	} {
		_, err := f.ResolveRoot(t.Context(), Caller{Gate: &rules{}}, path)
		wantError(t, err, service.FileNotFound, "does not exist")
		if got := err.Error(); !strings.HasSuffix(got, want) || (want == "") != !strings.Contains(got, "did you mean") {
			t.Errorf("%s: got %q, want …%s", path, got, want)
		}
	}
}

// What list does not allow is named in no error, nor is what lies in it. Seen to fail:
// without the gate in nearby, and without the one for what is deeper.
func TestLaw39NearNames(t *testing.T) {
	root := t.TempDir()
	write(t, root, "secret.txt", "secrets/key", "public/key", "public/kex")
	f := open(t, root)
	gate := &rules{deny: func(action, resource string) bool {
		return action == service.ActionList && (strings.HasPrefix(resource, "secret") || resource == "public/key")
	}}
	for path, want := range map[string]string{
		"secret.md": `secret.md: does not exist; list "." shows what is there`, "secrte/key": `secrte/key: does not exist: there is no "secrte" in "."; list "." shows what is there`,
		"publik/key":  `publik/key: does not exist: there is no "publik" in "."; did you mean "public"?`,
		"public/ket":  "public/ket: does not exist; did you mean \"public/kex\"?",
		"public/kexy": `public/kexy: does not exist; did you mean "public/kex"?`,
	} {
		_, err := f.ResolveRoot(t.Context(), Caller{Gate: gate}, path)
		if err == nil || err.Error() != want {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

// BenchmarkNearNames is a miss beside 100,000 names.
func BenchmarkNearNames(b *testing.B) {
	root := b.TempDir()
	for i := range lookAtNames {
		file, err := os.Create(filepath.Join(root, fmt.Sprintf("component_%06d.go", i)))
		if err != nil {
			b.Fatal(err)
		}
		file.Close()
	}
	f := open(b, root)
	for b.Loop() {
		if _, err := f.ResolveRoot(b.Context(), Caller{Gate: &rules{}}, "component_00000.go"); err == nil {
			b.Fatal("it is there")
		}
	}
}
