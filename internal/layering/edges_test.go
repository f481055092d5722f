package layering

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
)

// source makes a Go file of the package that path lies in, which imports what is given. Imports that begin with "./" are of
// this module; one that begins with "name=" has a name.
func source(path string, imports ...string) string {
	elements := strings.Split(path, "/")
	var b strings.Builder
	fmt.Fprintf(&b, "// Package %[1]s is made up.\npackage %[1]s\n\n", elements[len(elements)-2])
	for _, i := range imports {
		name, path, named := strings.Cut(i, "=")
		if !named {
			name, path = "", i
		}
		if below, own := strings.CutPrefix(path, "./"); own {
			path = module + "/" + below
		}
		fmt.Fprintf(&b, "import %s %q\n", name, path)
	}
	return b.String()
}

// lookAt checks files, given by path, and returns "rule where" of each finding.
func lookAt(t *testing.T, h house, files map[string]string) []string {
	t.Helper()
	fsys := fstest.MapFS{}
	for path, text := range files {
		fsys[path] = &fstest.MapFile{Data: []byte(text)}
	}
	found, err := check(fsys, h)
	if err != nil {
		t.Fatal(err)
	}
	got := []string{}
	for _, f := range found {
		got = append(got, fmt.Sprintf("%s %s", f.rule, f.where))
	}
	return slices.Compact(got)
}

// withoutExceptions is the house as it is, for trees that are made up.
func withoutExceptions() house {
	h := toolhost()
	h.exceptions = nil
	return h
}

func TestEdges(t *testing.T) {
	for _, tt := range []struct {
		name    string
		file    string
		imports []string
		want    []string
	}{
		// The order.
		{"what stands above may be imported", "location/a.go", []string{"./config", "./plugin/client", "./scope"}, nil},
		{"what stands below may not", "config/a.go", []string{"./location"}, []string{"order config -> location"}},
		{"nor what stands beside", "service/permission/a.go", []string{"./service/filesystem"},
			[]string{"order service/permission -> service/filesystem"}},
		{"nor the same row by another name", "plugins/process/a.go", []string{"./plugins/filesystem"},
			[]string{"order plugins/process -> plugins/filesystem"}},
		{"the lowest imports nothing of the house", "scope/a.go", []string{"./tool"}, []string{"order scope -> tool"}},
		{"an import without a place", "host/a.go", []string{"./gadgets"}, []string{"order host -> gadgets"}},
		{"a package without a place", "gadgets/a.go", nil, []string{"home gadgets"}},
		{"a folder of a place is no place", "host/gadgets/a.go", nil, []string{"home host/gadgets"}},
		{"a test may look anywhere", "scope/a_test.go", []string{"./host", "./plugins/filesystem", "modernc.org/sqlite"}, nil},

		// What else the rows say.
		{"scope is of the standard library", "scope/a.go", []string{"context", "os/exec"}, nil},
		{"scope takes no library", "scope/a.go", []string{"golang.org/x/sync/errgroup"},
			[]string{"order scope -> golang.org/x/sync/errgroup"}},
		{"the contract knows no processes", "tool/a.go", []string{"os/exec"}, []string{"order tool -> os/exec"}},
		{"the sandbox knows no tools", "sandbox/a.go", []string{"./tool"}, []string{"order sandbox -> tool"}},
		{"the sandbox knows no plugins", "sandbox/a.go", []string{"./plugin/client"},
			[]string{"order sandbox -> plugin/client"}},
		{"the sandbox may use a scope", "sandbox/a.go", []string{"./scope", "golang.org/x/sys/unix"}, nil},
		{"the registry knows no processes", "tool/registry/a.go", []string{"./sandbox", "./tool/output"},
			[]string{"order tool/registry -> sandbox"}},
		{"the broker starts nothing", "plugin/broker/a.go", []string{"os/exec", "./service/filesystem"},
			[]string{"order plugin/broker -> os/exec"}},
		{"a face knows no plugin processes", "mcpserver/a.go", []string{"./plugin/client", "./host"},
			[]string{"order mcpserver -> plugin/client"}},

		// Built-ins and examples.
		{"a built-in imports the sdk", "plugins/filesystem/a.go", []string{"./plugin/sdk", "golang.org/x/text"}, nil},
		{"and nothing else", "plugins/filesystem/a.go", []string{"./tool"}, []string{"order plugins/filesystem -> tool"}},
		{"its internals neither", "plugins/filesystem/internal/render/a.go", []string{"./service"},
			[]string{"order plugins/filesystem/internal/render -> service"}},
		{"only the command links built-ins", "cmd/host/a.go", []string{"./plugins/filesystem", "./host"}, nil},
		{"the host does not", "host/a.go", []string{"./plugins/filesystem"}, []string{"order host -> plugins/filesystem"}},
		{"an example imports the sdk", "examples/weather/a.go", []string{"./plugin/sdk"}, nil},
		{"and nothing else of the house", "examples/weather/a.go", []string{"./host"},
			[]string{"order examples/weather -> host"}},

		// The wire and other libraries with a home.
		{"the wire is spoken by both sides", "plugin/client/a.go",
			[]string{"./plugin/proto/toolhost/plugin/v1", "google.golang.org/grpc", "github.com/hashicorp/go-plugin"}, nil},
		{"and by nobody above them", "location/a.go", []string{"./plugin/proto/toolhost/plugin/v1"},
			[]string{"order location -> plugin/proto/toolhost/plugin/v1"}},
		{"the wire itself has no behaviour", "plugin/proto/toolhost/plugin/v1/a.go", []string{"./tool"},
			[]string{"order plugin/proto/toolhost/plugin/v1 -> tool"}},
		{"grpc stays under plugin", "host/a.go", []string{"google.golang.org/grpc/status"},
			[]string{"library host -> google.golang.org/grpc/status"}},
		{"an engine has no transport", "service/filesystem/a.go", []string{"google.golang.org/protobuf/proto"},
			[]string{"library service/filesystem -> google.golang.org/protobuf/proto"}},
		{"hclog stays under plugin", "cmd/host/a.go", []string{"github.com/hashicorp/go-hclog"},
			[]string{"library cmd/host -> github.com/hashicorp/go-hclog"}},
		{"only config reads yaml", "location/a.go", []string{"github.com/goccy/go-yaml/ast"},
			[]string{"library location -> github.com/goccy/go-yaml/ast"}},
		{"only the command has a command line", "host/a.go", []string{"github.com/spf13/cobra"},
			[]string{"library host -> github.com/spf13/cobra"}},
		{"a name that only begins alike is another library", "host/a.go", []string{"google.golang.org/grpcish"}, nil},

		// Internals and test support.
		{"a package imports its internals", "plugin/client/a.go", []string{"./plugin/client/internal/lines"}, nil},
		{"internals stand where their owner stands", "plugin/client/internal/lines/a.go", []string{"./location", "./scope"},
			[]string{"order plugin/client/internal/lines -> location"}},
		{"wire is in the table by itself", "plugin/internal/wire/a.go", []string{"./plugin/sdk"},
			[]string{"order plugin/internal/wire -> plugin/sdk"}},
		{"test support imports what it supports", "tool/tooltest/a.go", []string{"./tool", "./scope"}, nil},
		{"test support imports nothing above that", "tool/tooltest/a.go", []string{"./host"},
			[]string{"order tool/tooltest -> host"}},
		{"test support uses any library", "scope/scopetest/a.go", []string{"./scope", "pgregory.net/rapid", "modernc.org/sqlite"}, nil},
		{"the product does not import test support", "host/a.go", []string{"./tool/tooltest"},
			[]string{"order host -> tool/tooltest"}},
		{"sdktest is test support", "config/a.go", []string{"./plugin/sdk/sdktest"},
			[]string{"order config -> plugin/sdk/sdktest"}},
		{"test support may use test support", "plugins/filesystem/filesystemtest/a.go",
			[]string{"./plugin/sdk/sdktest", "./plugins/filesystem"}, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := lookAt(t, withoutExceptions(), map[string]string{tt.file: source(tt.file, tt.imports...)})
			if diff := cmp.Diff(append([]string{}, tt.want...), got); diff != "" {
				t.Errorf("findings (-want +got):\n%s", diff)
			}
		})
	}
}

// TestTable holds the table itself to what it is made of: a name stands once, every name that a rule uses stands in it,
// and every refusal has a reason.
func TestTable(t *testing.T) {
	h := toolhost()
	seen := map[string]bool{}
	for _, r := range h.rows {
		for _, name := range r.packages {
			if seen[name] {
				t.Errorf("%s stands twice", name)
			}
			seen[name] = true
		}
		if (r.never != nil || r.only != nil || r.std) && r.why == "" {
			t.Errorf("row %v refuses without a reason", r.packages)
		}
	}
	used := map[string][]string{"underPlugin": underPlugin(), "hostSide": hostSide()}
	for _, l := range h.libraries {
		used["library "+l.path] = l.homes
	}
	for _, s := range h.seclusions {
		used["seclusion "+s.packages] = append(s.importers, s.packages)
	}
	for _, e := range h.exposures {
		used["exposure "+e.pkg] = append(e.unreachable, e.pkg)
	}
	for by, names := range used {
		for _, name := range names {
			if !seen[name] {
				t.Errorf("%s names %s, which stands nowhere in the table", by, name)
			}
		}
	}
}

// TestHostSide: all that stands in the table and is not for a plugin's author is out of the author's reach.
func TestHostSide(t *testing.T) {
	author := []string{
		"scope", "tool", "service", "plugin/proto/...", "plugin/internal/wire", "plugin/sdk", "plugin/sdk/sdktest",
		// Refused everywhere, by the order or by the compiler.
		"plugins/*", "cmd/host", "examples/*", "internal/layering", "internal/bench", "internal/laws", "internal/chaos", "internal/conformance/plugin",
		"internal/hostile", "internal/hostile/plugin",
	}
	for _, r := range toolhost().rows {
		for _, name := range r.packages {
			reachable := !slices.ContainsFunc(hostSide(), func(base string) bool { return within(name, base) })
			if want := slices.Contains(author, name); reachable != want {
				t.Errorf("plugin/sdk may reach %s: got %t, want %t", name, reachable, want)
			}
		}
	}
}

func TestLoadSkips(t *testing.T) {
	broken := "package scope\nimport \"" + module + "/host\"\n"
	got := lookAt(t, withoutExceptions(), map[string]string{
		"scope/testdata/a.go":     broken,
		"vendor/scope/a.go":       broken,
		".cache/scope/a.go":       broken,
		"_old/scope/a.go":         broken,
		"tools/go.mod":            "module " + module + "/tools\n",
		"tools/a.go":              broken,
		"examples/weather/go.mod": "module " + module + "/examples/weather\n",
		"examples/weather/a.go":   source("examples/weather/a.go", "./host"),
		"scope/notes.txt":         "no Go",
	})
	want := []string{"order examples/weather -> host"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("findings (-want +got):\n%s", diff)
	}
}

func TestLoadRefusesWhatDoesNotParse(t *testing.T) {
	_, err := check(fstest.MapFS{"scope/a.go": {Data: []byte("package")}}, toolhost())
	if err == nil || !strings.Contains(err.Error(), "scope/a.go") {
		t.Errorf("got error %v, want one that names scope/a.go", err)
	}
}
