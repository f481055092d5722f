package config

import (
	"encoding/json"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v5"
	"pgregory.net/rapid"

	"github.com/toolhost/toolhost/config/internal/document"
)

func compileSchema(t *testing.T) *jsonschema.Schema {
	t.Helper()
	compiler := jsonschema.NewCompiler()
	compiler.LoadURL = func(string) (io.ReadCloser, error) { return nil, errors.New("the schema refers to something outside") }
	if err := compiler.AddResource("config.json", strings.NewReader(string(Schema()))); err != nil {
		t.Fatal(err)
	}
	schema, err := compiler.Compile("config.json")
	if err != nil {
		t.Fatal(err)
	}
	return schema
}

// plain is a node as a validator of JSON wants it.
func plain(n *document.Node) any {
	switch n.Kind {
	case document.Bool:
		return n.Text == "true"
	case document.Number:
		return json.Number(n.Text)
	case document.Text:
		return n.Text
	case document.Sequence:
		items := []any{}
		for _, item := range n.Items {
			items = append(items, plain(item))
		}
		return items
	case document.Mapping:
		object := map[string]any{}
		for _, e := range n.Entries {
			object[e.Key] = plain(e.Value)
		}
		return object
	default:
		return nil
	}
}

func parseText(t *testing.T, text string) *document.Node {
	t.Helper()
	root, wrong := document.Parse([]byte(text))
	if len(wrong) > 0 {
		t.Fatalf("%s: %v", text, wrong)
	}
	return root
}

func TestSchemaValidatesTheExamples(t *testing.T) {
	schema := compileSchema(t)
	for _, text := range []string{
		exampleFile,
		"plugins: null\npermissions: []\n",
		"output: {max_lines: 2000, max_bytes: 51200, retention: 168h, quota: 500MB, tools: {weather/forecast: {max_lines: 10}}}\ninstructions: [AGENTS.md]\n",
		"plugins: {a: {command: [./a], sandbox: {mode: off, fs: {read: [/srv, ~/x, ..], write: []}, net: host, exec: true, limits: {memory: 1e9, processes: 64, files: 64, cpu: 0.1}}}}\n",
		"plugins: {a: {command: [./a], sandbox: {fs: null, exec: null, limits: {memory: 512MiB, cpu: 1024, files: null}}}, b: {sandbox: null}}\n",
		"output: {quota: 500000000, tools: null, max_lines: null}\ninstructions: []\n",
		"locations: {a: {root: ~/x, plugins: {filesystem: null}, permissions: [{action: read, resource: x, effect: deny}]}}\n",
	} {
		if err := schema.Validate(plain(parseText(t, text))); err != nil {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// TestSchemaHasTheKeysOfTheLoader: each key that the schema describes is one that
// the loader takes at that place, each has a description, and there is none
// beside them.
func TestSchemaHasTheKeysOfTheLoader(t *testing.T) {
	var schema map[string]any
	if err := json.Unmarshal(Schema(), &schema); err != nil {
		t.Fatal(err)
	}
	var keys []string
	var walk func(schema map[string]any, path string, around func(inner string) string)
	walk = func(schema map[string]any, path string, around func(string) string) {
		for name, property := range sub(schema, "properties") {
			property := property.(map[string]any)
			keys = append(keys, path+name)
			if property["description"] == nil {
				t.Errorf("%s%s has no description", path, name)
			}
			inner := func(value string) string { return around("{" + name + ": " + value + "}") }
			for key, known := range map[string]bool{name: true, name + "x": false} {
				root := parseText(t, around("{"+key+": null}"))
				f := fileForm()
				unknown := slices.ContainsFunc(f.Check(root), func(m document.Mistake) bool { return strings.HasPrefix(m.Text, "unknown key") })
				if unknown == known {
					t.Errorf("%s%s: unknown to the loader is %v", path, key, unknown)
				}
			}
			walk(property, path+name+".", inner)
		}
		if items := sub(schema, "items"); items != nil {
			walk(items, path+"[].", func(inner string) string { return around("[" + inner + "]") })
		}
		if each := sub(schema, "additionalProperties"); each != nil {
			walk(each, path+"*.", func(inner string) string { return around("{n: " + inner + "}") })
		}
	}
	walk(schema, "", func(inner string) string { return inner })

	plugin := []string{"builtin", "command", "sha256", "files", "grants", "settings", "env", "override", "sandbox", "sandbox.mode", "sandbox.fs", "sandbox.fs.read", "sandbox.fs.write",
		"sandbox.net", "sandbox.exec", "sandbox.limits", "sandbox.limits.memory", "sandbox.limits.processes", "sandbox.limits.files", "sandbox.limits.cpu"}
	rule := []string{"action", "resource", "effect", "reason", "agent"}
	want := []string{"audit", "audit.redact", "locations", "locations.*.root"}
	for _, at := range []string{"", "locations.*."} {
		for _, key := range []string{"plugins", "permissions", "instructions", "output", "output.max_lines", "output.max_bytes", "output.retention",
			"output.quota", "output.tools", "output.tools.*.max_lines", "output.tools.*.max_bytes"} {
			want = append(want, at+key)
		}
		for _, key := range plugin {
			want = append(want, at+"plugins.*."+key)
		}
		for _, key := range rule {
			want = append(want, at+"permissions.[]."+key)
		}
	}
	slices.Sort(keys)
	slices.Sort(want)
	if !slices.Equal(keys, want) {
		t.Errorf("got  %q\nwant %q", keys, want)
	}
}

func sub(schema map[string]any, key string) map[string]any {
	found, _ := schema[key].(map[string]any)
	return found
}

// TestSchemaAllowsWhatTheLoaderAllows, and refuses the loader's unknown keys and
// wrong types.
func TestSchemaAllowsWhatTheLoaderAllows(t *testing.T) {
	schema := compileSchema(t)
	scalar := rapid.SampledFrom([]string{"null", "~/x", "./x", `""`, "3", "true", "x", "~", "a b", `"*"`, "read", "deny", "permission", "A_B", digestA, "a/b", "[]", "{}", "é",
		"2000", "-1", "1.5", "1e4", "2000.0", "1e999", "1048577", "168h", "1m30s", ".5h", "1d", "500MB", "64 MiB", "2 XB", "filesystem/read", "off", "strict", "host", "false", "0.1", "0.0999999999999999999", "64", "1024.5", "17179869184"})
	keys := rapid.SampledFrom([]string{"plugins", "permissions", "locations", "root", "builtin", "command", "sha256", "files", "grants", "settings",
		"env", "override", "action", "resource", "effect", "reason", "agent", "output", "instructions", "max_lines", "max_bytes", "retention", "quota", "tools", "sandbox", "mode",
		"fs", "read", "write", "net", "exec", "limits", "memory", "processes", "cpu", "a", "C D", "x.y", "a/b", "plugin"})
	var value func(depth int) *rapid.Generator[string]
	value = func(depth int) *rapid.Generator[string] {
		if depth == 0 {
			return scalar
		}
		return rapid.Custom(func(t *rapid.T) string {
			switch rapid.IntRange(0, 3).Draw(t, "kind") {
			case 0:
				return scalar.Draw(t, "scalar")
			case 1:
				return "[" + strings.Join(rapid.SliceOfN(value(depth-1), 0, 2).Draw(t, "items"), ", ") + "]"
			default:
				var entries []string
				for _, key := range rapid.SliceOfNDistinct(keys, 0, 4, rapid.ID).Draw(t, "keys") {
					entries = append(entries, key+": "+value(depth-1).Draw(t, "value"))
				}
				return "{" + strings.Join(entries, ", ") + "}"
			}
		})
	}
	valid := rapid.SampledFrom([]string{
		`{plugins: {a: VALUE}}`, `{plugins: {a: {settings: VALUE}}}`, `{permissions: [{action: read, resource: VALUE, effect: deny}]}`,
		`{permissions: [{action: a, resource: b, effect: VALUE}]}`, `{locations: {a: {root: VALUE}}}`, `{locations: {a: {root: x, plugins: VALUE}}}`,
		`{plugins: {a: {command: VALUE}}}`, `{plugins: {a: {env: VALUE, grants: VALUE, override: VALUE}}}`, `{plugins: {a: {files: VALUE}}}`, `VALUE`,
		`{plugins: {a: {sandbox: VALUE}}}`, `{plugins: {a: {sandbox: {mode: VALUE}}}}`, `{plugins: {a: {sandbox: {net: VALUE}}}}`, `{plugins: {a: {sandbox: {exec: VALUE}}}}`,
		`{plugins: {a: {sandbox: {fs: {read: VALUE}}}}}`, `{plugins: {a: {sandbox: {limits: VALUE}}}}`, `{plugins: {a: {sandbox: {limits: {cpu: VALUE}}}}}`,
		`{plugins: {a: {sandbox: {limits: {memory: VALUE}}}}}`, `{plugins: {a: {sandbox: {limits: {files: VALUE}}}}}`,
		`{output: VALUE}`, `{output: {max_lines: VALUE, max_bytes: VALUE}}`, `{output: {retention: VALUE}}`, `{output: {quota: VALUE}}`,
		`{output: {tools: VALUE}}`, `{output: {tools: {a/b: VALUE}}}`, `{instructions: VALUE}`, `{locations: {a: {root: x, instructions: VALUE, output: VALUE}}}`,
		`{permissions: [{action: read, effect: deny}]}`, `{permissions: [{action: read, resource: x}]}`, `{locations: {a: {plugins: VALUE}}}`,
	})
	agreed := 0
	rapid.Check(t, func(t *rapid.T) {
		text := strings.ReplaceAll(valid.Draw(t, "frame"), "VALUE", value(rapid.IntRange(0, 4).Draw(t, "depth")).Draw(t, "value"))
		root, wrong := document.Parse([]byte(text))
		if len(wrong) > 0 {
			t.Skip(text)
		}
		f := fileForm()
		mistakes := f.Check(root)
		bySchema := schema.Validate(plain(root))
		if len(mistakes) == 0 && root.Kind != document.Null {
			agreed++
		}
		switch {
		case len(mistakes) == 0 && bySchema != nil:
			t.Fatalf("%s\nthe loader takes it, the schema does not: %v", text, bySchema)
		case len(mistakes) > 0 && bySchema == nil:
			for _, m := range mistakes {
				beyondSchemas := []string{"is not valid: a tool is taken over by", "is the host's own", "is not valid: a retention is between"}
				if !slices.ContainsFunc(beyondSchemas, func(text string) bool { return strings.Contains(m.Text, text) }) {
					t.Fatalf("%s\nthe schema takes it, the loader does not: %v", text, m)
				}
			}
		}
	})
	if agreed == 0 && !testing.Short() { // of a few checks none may be
		t.Error("not one valid file was made")
	}
}
