package layering

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestPromises(t *testing.T) {
	const pluginv1 = `import pluginv1 "` + module + `/plugin/proto/toolhost/plugin/v1"` + "\n"
	const grpc = `import "google.golang.org/grpc"` + "\n"
	const goPlugin = `import "github.com/hashicorp/go-plugin"` + "\n"
	for _, tt := range []struct {
		name, pkg, text string
		want            []string
	}{
		{"a parameter", "plugin/sdk", pluginv1 + "func F(*pluginv1.Tool) {}", []string{"exposure plugin/sdk.F"}},
		{"a result", "plugin/sdk", grpc + "func F() (_ *grpc.Server, _ error) { return }", []string{"exposure plugin/sdk.F"}},
		{"a method", "plugin/sdk", pluginv1 + "type T struct{}\nfunc (T) F(pluginv1.Tool) {}", []string{"exposure plugin/sdk.T.F"}},
		{"a method of what is not exported", "plugin/sdk", pluginv1 + "type t struct{}\nfunc (t) F(pluginv1.Tool) {}", nil},
		{"a function that is not exported", "plugin/sdk", pluginv1 + "func f(pluginv1.Tool) {}", nil},
		{"a body", "plugin/sdk", pluginv1 + "func F() { _ = pluginv1.Tool{} }", nil},
		{"a field", "plugin/sdk", pluginv1 + "type T struct { A, B *pluginv1.Tool }", []string{"exposure plugin/sdk.T"}},
		{"a field that is not exported", "plugin/sdk", pluginv1 + "type T struct { a, b *pluginv1.Tool }", nil},
		{"an embedded field", "plugin/sdk", pluginv1 + "type T struct { pluginv1.Tool }", []string{"exposure plugin/sdk.T"}},
		{"a method of an interface", "plugin/sdk", grpc + "type T interface { F(grpc.CallOption) }", []string{"exposure plugin/sdk.T"}},
		{"an alias", "plugin/sdk", pluginv1 + "type T = pluginv1.Tool", []string{"exposure plugin/sdk.T"}},
		{"a bound of a type parameter", "plugin/sdk", grpc + "type T[P grpc.CallOption] struct{}", []string{"exposure plugin/sdk.T"}},
		{"a variable by its type", "plugin/sdk", pluginv1 + "var V pluginv1.Tool", []string{"exposure plugin/sdk.V"}},
		{"a variable by its value", "plugin/sdk", goPlugin + "var V = plugin.HandshakeConfig{}", []string{"exposure plugin/sdk.V"}},
		{"a package known by what it calls itself", "plugin/sdk",
			strings.Replace(pluginv1, "pluginv1 ", "", 1) + "func F(made.Tool) {}", []string{"exposure plugin/sdk.F"}},
		{"a package known by its path without the version", "plugin/sdk",
			`import "google.golang.org/grpc/v2"` + "\nfunc F(grpc.Server) {}", []string{"exposure plugin/sdk.F"}},
		{"a promise to tests", "plugin/sdk/sdktest", grpc + "func F(grpc.Server) {}", []string{"exposure plugin/sdk/sdktest.F"}},
		{"the broker serves on a server that it is given", "plugin/broker", grpc + "func F(*grpc.Server) {}", nil},
		{"but keeps the messages to itself", "plugin/broker", pluginv1 + "func F(*pluginv1.Tool) {}",
			[]string{"exposure plugin/broker.F"}},
		{"as does the client", "plugin/client", pluginv1 + "func F(*pluginv1.Tool) {}", []string{"exposure plugin/client.F"}},
		{"converting is what wire is for", "plugin/internal/wire", pluginv1 + "func F(*pluginv1.Tool) {}", nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			files := body(tt.pkg, tt.text)
			files[tt.pkg+"/a_test.go"] = "package x_test\n" + grpc + "func F(grpc.Server) {}\n" // tests promise nothing
			files["plugin/proto/toolhost/plugin/v1/a.go"] = "// Package made is made up.\npackage made\n"
			if diff := cmp.Diff(append([]string{}, tt.want...), lookAt(t, withoutExceptions(), files)); diff != "" {
				t.Errorf("findings (-want +got):\n%s", diff)
			}
		})
	}
}

func TestReaches(t *testing.T) {
	for _, tt := range []struct {
		name  string
		files map[string][]string
		want  []string
	}{
		{"contracts", map[string][]string{
			"plugin/sdk/a.go":           {"./tool", "./service", "./plugin/internal/wire"},
			"plugin/internal/wire/a.go": {"./tool", "./service", "./scope"},
		}, nil},
		{"an engine", map[string][]string{"plugin/sdk/a.go": {"./service/permission"}},
			[]string{"exposure plugin/sdk -> service/permission"}},
		{"an engine's part", map[string][]string{"plugin/sdk/a.go": {"./service/filesystem/ignore"}},
			[]string{"exposure plugin/sdk -> service/filesystem/ignore"}},
		{"an engine through another package", map[string][]string{
			"plugin/sdk/a.go":           {"./plugin/internal/wire"},
			"plugin/internal/wire/a.go": {"./tool/registry"},
		}, []string{"exposure plugin/sdk -> tool/registry"}},
		{"an engine through its own internals", map[string][]string{
			"plugin/sdk/a.go":               {"./plugin/sdk/internal/loop"},
			"plugin/sdk/internal/loop/a.go": {"./state"},
		}, []string{"exposure plugin/sdk -> state"}},
		{"an engine in a test", map[string][]string{"plugin/sdk/a_test.go": {"./service/filesystem"}}, nil},
		{"an engine behind sdktest", map[string][]string{"plugin/sdk/sdktest/a.go": {"./plugin/client", "./plugin/broker"}}, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			files := map[string]string{}
			for path, imports := range tt.files {
				files[path] = source(path, imports...)
			}
			if diff := cmp.Diff(append([]string{}, tt.want...), lookAt(t, withoutExceptions(), files)); diff != "" {
				t.Errorf("findings (-want +got):\n%s", diff)
			}
		})
	}
}
