package sdk_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/toolhost/toolhost/plugin/sdk"
	"github.com/toolhost/toolhost/plugin/sdk/sdktest"
	"github.com/toolhost/toolhost/tool"
)

type Place struct {
	Name string `json:"name" jsonschema:"a town"`
}

type Forecast struct {
	Sky   string   `json:"sky"`
	Hours []string `json:"hours"`
}

// weather is a plugin with one tool.
func weather(name string, t sdk.Tool) sdk.Plugin {
	return sdk.Plugin{
		Name: "weather", Version: "1.0.0",
		Activate: func(ctx context.Context, loc sdk.Location) error {
			_, err := loc.Tools.Register(ctx, sdk.Tools{name: t})
			return err
		},
	}
}

// A typed tool: the schemas come from the types of the handler.
func ExampleNew() {
	forecast := sdk.New("Forecast for a town", func(_ context.Context, _ sdk.Call, in Place) (Forecast, error) {
		return Forecast{Sky: "clear over " + in.Name, Hours: []string{"06", "12"}}, nil
	}, sdk.Network)

	call(weather("forecast", forecast), "forecast", `{"name": "Oslo"}`)
	call(weather("forecast", forecast), "forecast", `{"town": "Oslo"}`)
	// Output:
	// completed: {"sky":"clear over Oslo","hours":["06","12"]}
	// rejected: invalid_input
}

// A structured value that is smaller than the output, and what the model reads in
// other words.
func ExampleNewProjected() {
	forecast := sdk.NewProjected("Forecast for a town",
		func(_ context.Context, _ sdk.Call, in Place) (Forecast, error) {
			return Forecast{Sky: "clear", Hours: []string{"06", "12", "18"}}, nil
		},
		func(in Place, out Forecast) (struct {
			Sky string `json:"sky"`
		}, []sdk.Content) {
			return struct {
					Sky string `json:"sky"`
				}{out.Sky}, []sdk.Content{
					sdk.Text(fmt.Sprintf("It will be %s over %s.", out.Sky, in.Name)),
				}
		})

	call(weather("forecast", forecast), "forecast", `{"name": "Oslo"}`)
	// Output:
	// completed: {"sky":"clear"}
	// It will be clear over Oslo.
}

// A projection with an image: the model sees the picture, the caller gets its size.
func ExampleNewProjected_image() {
	type size struct {
		Bytes int `json:"bytes"`
	}
	radar := sdk.NewProjected("Radar image of a town",
		func(_ context.Context, _ sdk.Call, in Place) ([]byte, error) { return []byte("\x89PNG…"), nil },
		func(in Place, out []byte) (size, []sdk.Content) {
			return size{len(out)}, []sdk.Content{sdk.Text("Rain near " + in.Name), sdk.Image(out, "image/png")}
		}, sdk.Network)

	call(weather("radar", radar), "radar", `{"name": "Oslo"}`)
	// Output:
	// completed: {"bytes":7}
	// Rain near Oslo
	// (image/png)
}

// Effects, permissions and targets that depend on the arguments: without a Commit
// the handler runs once they are granted.
func ExampleNewPrepared_effects() {
	type page struct {
		URL   string `json:"url"`
		Cache bool   `json:"cache"`
	}
	fetch := sdk.NewPrepared("Fetch a page",
		func(_ context.Context, _ sdk.Call, in page) (sdk.Preparation[string], error) {
			p := sdk.Preparation[string]{Effects: sdk.Network, Requests: []sdk.PermissionRequest{{Resources: []string{in.URL}}}}
			if in.Cache {
				p.Effects |= sdk.Write
				p.Targets = []string{"cache"}
			}
			return p, nil
		},
		func(_ context.Context, _ sdk.Call, in page) (string, error) { return "<html>", nil },
		sdk.Network, sdk.Write)

	call(weather("fetch", fetch), "fetch", `{"url": "https://example.org", "cache": false}`)
	// Output:
	// weather/fetch of https://example.org is allowed
	// completed: "<html>"
	// <html>
}

// A prepared tool: what will be done is described, approved, and then done once, or
// discarded.
func ExampleNewPrepared() {
	type station struct {
		Name string `json:"name"`
	}
	remove := sdk.NewPrepared("Remove a station",
		func(_ context.Context, _ sdk.Call, in station) (sdk.Preparation[string], error) {
			return sdk.Preparation[string]{
				Effects:      sdk.Write,
				Irreversible: true,
				Requests:     []sdk.PermissionRequest{{Resources: []string{in.Name}}},
				Review:       "Removes the station " + in.Name + " and its 12 readings.",
				Commit: func(context.Context, sdk.Call) (string, error) {
					return "removed " + in.Name, nil
				},
				Discard: func() { fmt.Println(in.Name, "stays") },
			}, nil
		},
		func(context.Context, sdk.Call, station) (string, error) {
			return "", errors.New("every call of this tool is prepared")
		},
		sdk.Write, sdk.Irreversible)

	call(weather("remove", remove), "remove", `{"name": "harbour"}`)
	call(weather("remove", remove), "remove", `{"name": "castle"}`)
	// Output:
	// weather/remove of harbour is allowed
	// completed: "removed harbour"
	// removed harbour
	// weather/remove of castle is refused
	// castle stays
	// rejected: denied
}

// A tool that changes a file through the host, which works the change out, shows it to
// whoever is asked, and makes it once.
func ExampleFileSystemWriter() {
	type line struct {
		Text string `json:"text"`
	}
	type noted struct {
		Lines int `json:"lines"`
	}
	diary := sdk.Plugin{
		Name: "diary", Version: "1.0.0", Needs: []sdk.Service{sdk.FileSystemWrite},
		Activate: func(ctx context.Context, loc sdk.Location) error {
			files, err := loc.FileSystemWrite()
			if err != nil {
				return err
			}
			prepare := func(ctx context.Context, _ sdk.Call, in line) (sdk.Preparation[noted], error) {
				stage, err := files.Stage(ctx, sdk.WriteFile{Path: "diary.txt", Content: []byte(in.Text + "\n"), CreateOnly: true})
				if err != nil {
					return sdk.Preparation[noted]{}, sdk.ToFailure(err)
				}
				return sdk.Preparation[noted]{
					Requests: []sdk.PermissionRequest{{Resources: stage.Staged().Resources}},
					Commit: func(ctx context.Context, _ sdk.Call) (noted, error) {
						return noted{Lines: stage.Staged().Files[0].Added}, sdk.ToFailure(stage.Commit(ctx))
					},
				}, nil
			}
			handler := func(context.Context, sdk.Call, line) (noted, error) {
				return noted{}, errors.New("every call of this tool is prepared")
			}
			project := func(in line, out noted) (noted, []sdk.Content) {
				return out, []sdk.Content{sdk.Text("noted: " + in.Text)}
			}
			_, err = loc.Tools.Register(ctx, sdk.Tools{
				"note": sdk.NewPreparedProjected("Begin the diary", prepare, handler, project, sdk.Read, sdk.Write),
			})
			return err
		},
	}

	call(diary, "note", `{"text": "rain"}`)
	// Output:
	// diary/note of diary.txt is allowed
	// completed: {"lines":1}
	// noted: rain
}

// Permissions that every call needs, and what a call is about, said once.
func ExampleRequires() {
	forecast := sdk.New("Forecast for a town", func(_ context.Context, _ sdk.Call, in Place) (string, error) {
		return "clear", nil
	}, sdk.Network, sdk.Requires(sdk.PermissionRequest{Resources: []string{"api.example.org"}}))

	call(weather("forecast", forecast), "forecast", `{"name": "Oslo"}`)
	// Output:
	// weather/forecast of api.example.org is allowed
	// completed: "clear"
	// clear
}

// A tool that cannot be called now says why.
func ExampleUnavailable() {
	forecast := sdk.New("Forecast for a town", func(_ context.Context, _ sdk.Call, in Place) (string, error) {
		return "clear", nil
	}, sdk.Network, sdk.Unavailable("there is no API key: set WEATHER_TOKEN"))

	call(weather("forecast", forecast), "forecast", `{"name": "Oslo"}`)
	// Output: rejected: unavailable
}

// Progress of a call, for the person who waits.
func ExampleCall_Progress() {
	download := sdk.New("Download the archive", func(_ context.Context, call sdk.Call, _ struct{}) (int, error) {
		call.Progress(0, 2, "asking")
		call.Progress(2, 2, "done")
		return 2, nil
	}, sdk.Network)

	t := &exampleTB{}
	defer t.end()
	plugin := sdktest.Start(t, weather("download", download), sdktest.Options{})
	outcome, err := plugin.CallProgress(context.Background(), "download", `{}`, func(p sdktest.Progress) {
		fmt.Printf("%g of %g: %s\n", p.Done, p.Total, p.Message)
	})
	fmt.Println(outcome.Status, err)
	// Output:
	// 0 of 2: asking
	// 2 of 2: done
	// completed <nil>
}

// Output of any size is streamed. The model reads its head and tail, and where the
// whole is.
func ExampleCall_Output() {
	readings := sdk.New("All readings", func(_ context.Context, call sdk.Call, _ struct{}) (int, error) {
		for n := range 100_000 {
			if _, err := fmt.Fprintf(call.Output(), "reading %d\n", n); err != nil {
				return n, err
			}
		}
		return 100_000, nil
	}, sdk.Read)

	t := &exampleTB{}
	defer t.end()
	outcome := sdktest.Start(t, weather("readings", readings), sdktest.Options{}).Call("readings", `{}`)
	first, _, _ := strings.Cut(outcome.Text, "\n")
	fmt.Println(outcome.Status, first)
	fmt.Printf("the model reads at most 50 KiB: %t\n", len(outcome.Text) <= 50<<10)
	fmt.Printf("the whole has %d lines\n", outcome.Retained[0].Lines)
	// Output:
	// completed reading 0
	// the model reads at most 50 KiB: true
	// the whole has 100000 lines
}

// A tool that had to drop something says so.
func ExampleCall_Lost() {
	tail := sdk.New("The end of the log", func(_ context.Context, call sdk.Call, _ struct{}) (string, error) {
		call.Lost(4096)
		return "last line", nil
	}, sdk.Read)

	t := &exampleTB{}
	defer t.end()
	outcome := sdktest.Start(t, weather("tail", tail), sdktest.Options{}).Call("tail", `{}`)
	fmt.Println(outcome.Text, outcome.Lost)
	// Output: last line 4096
}

// A file of any size is read as a stream, with what the standard library has for that.
func ExampleRoot_Reader() {
	type file struct {
		Path string `json:"path"`
	}
	plugin := sdk.Plugin{
		Name: "digests", Version: "1.0.0", Needs: []sdk.Service{sdk.FileSystemRead},
		Activate: func(ctx context.Context, loc sdk.Location) error {
			files, err := loc.FileSystem()
			if err != nil {
				return err
			}
			_, err = loc.Tools.Register(ctx, sdk.Tools{
				"sha256": sdk.New("Digest of a file", func(ctx context.Context, _ sdk.Call, in file) (string, error) {
					root, err := files.ResolveRoot(ctx, in.Path)
					if err != nil {
						return "", sdk.ToFailure(err)
					}
					content := root.Reader(ctx, 0)
					defer content.Close()
					hash := sha256.New()
					if _, err := io.Copy(hash, content); err != nil {
						return "", sdk.ToFailure(err)
					}
					return hex.EncodeToString(hash.Sum(nil)), nil
				}, sdk.Read),
			})
			return err
		},
	}

	t := &exampleTB{}
	defer t.end()
	started := sdktest.Start(t, plugin, sdktest.Options{Files: map[string]string{"greeting": "hello"}})
	fmt.Println(started.Call("sha256", `{"path": "greeting"}`).Text)
	fmt.Println(started.Call("sha256", `{"path": "."}`))
	// Output:
	// 2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824
	// failed: failure: .: is a directory; list it, or name a file in it
}

// A tool whose schemas are known only when the plugin runs.
func ExampleDynamic() {
	double := sdk.Dynamic(sdk.Declaration{
		Description: "Twice a number",
		Input:       json.RawMessage(`{"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}`),
		Output:      json.RawMessage(`{"type": "integer"}`),
	}, func(_ context.Context, _ sdk.Call, input json.RawMessage) (sdk.Result, error) {
		var in struct{ N int }
		if err := json.Unmarshal(input, &in); err != nil {
			return sdk.Result{}, err
		}
		return sdk.Result{Output: fmt.Append(nil, 2*in.N)}, nil
	}, sdk.NoEffect)

	call(weather("double", double), "double", `{"n": 21}`)
	// Output: completed: 42
}

// A dynamic tool can prepare its calls as well.
func ExampleDynamicPrepared() {
	drop := sdk.DynamicPrepared(sdk.Declaration{
		Description: "Drop a table",
		Input:       json.RawMessage(`{"type": "object", "properties": {"table": {"type": "string"}}, "required": ["table"]}`),
	}, func(_ context.Context, _ sdk.Call, input json.RawMessage) (sdk.Preparation[sdk.Result], error) {
		return sdk.Preparation[sdk.Result]{
			Effects: sdk.Write, Irreversible: true, Review: "Drops " + string(input),
			Requests: []sdk.PermissionRequest{{Resources: []string{"database"}}},
			Commit: func(context.Context, sdk.Call) (sdk.Result, error) {
				return sdk.Result{Output: json.RawMessage(`"dropped"`)}, nil
			},
		}, nil
	}, func(context.Context, sdk.Call, json.RawMessage) (sdk.Result, error) {
		return sdk.Result{}, errors.New("every call of this tool is prepared")
	}, sdk.Write, sdk.Irreversible)

	call(weather("drop", drop), "drop", `{"table": "readings"}`)
	// Output:
	// weather/drop of database is allowed
	// completed: "dropped"
	// dropped
}

// What the model should read is a failure; any other error is for the operator.
func ExampleFailure() {
	forecast := sdk.New("Forecast for a town", func(_ context.Context, _ sdk.Call, in Place) (Forecast, error) {
		if in.Name == "Atlantis" {
			return Forecast{}, sdk.Failure("there is no such town: give one that is on the map")
		}
		return Forecast{}, errors.New("the barometer is broken")
	})

	call(weather("forecast", forecast), "forecast", `{"name": "Atlantis"}`)
	call(weather("forecast", forecast), "forecast", `{"name": "Oslo"}`)
	// Output:
	// failed: failure: there is no such town: give one that is on the map
	// error: internal: the tool is unavailable
}

// Settings have the type that the plugin says, and fit its schema.
func ExampleLocation_Settings() {
	type settings struct {
		Units string `json:"units" jsonschema:"metric or imperial"`
	}
	plugin := sdk.Plugin{
		Name: "weather", Version: "1.0.0", Settings: settings{},
		Activate: func(ctx context.Context, loc sdk.Location) error {
			var s settings
			if err := loc.Settings(&s); err != nil {
				return err
			}
			fmt.Println("units are", s.Units)
			return nil
		},
	}

	activate(plugin, `{"units": "metric"}`)
	activate(plugin, `{"unit": "metric"}`)
	// Output:
	// units are metric
	// plugin weather: its settings are invalid
}

// call activates a plugin, calls one of its tools, and shows the outcome. Everything
// is permitted but the castle.
func call(p sdk.Plugin, name, input string) {
	t := &exampleTB{}
	defer t.end()
	plugin := sdktest.Start(t, p, sdktest.Options{Permission: func(r sdk.PermissionRequest) error {
		if r.Resources[0] == "castle" {
			fmt.Println(r.Action, "of castle is refused")
			return errors.New("it is not yours")
		}
		fmt.Printf("%s of %s is allowed\n", r.Action, r.Resources[0])
		return nil
	}})
	switch outcome := plugin.Call(name, input); outcome.Status {
	case "completed":
		fmt.Printf("%s: %s\n", outcome.Status, outcome.Structured)
		for _, c := range outcome.Content {
			if c.Type == tool.TextContent {
				fmt.Println(c.Text)
			} else {
				fmt.Printf("(%s)\n", c.MIMEType)
			}
		}
	case "rejected":
		fmt.Printf("%s: %s\n", outcome.Status, outcome.Error.Kind)
	default:
		fmt.Printf("%s: %s: %s\n", outcome.Status, outcome.Error.Kind, outcome.Error.Message)
	}
}

func activate(p sdk.Plugin, settings string) {
	t := &exampleTB{}
	defer t.end()
	if _, err := sdktest.Activate(t, p, sdktest.Options{Settings: json.RawMessage(settings)}); err != nil {
		reason, _, _ := strings.Cut(err.Error(), " invalid") // and where
		fmt.Println(reason + " invalid")
	}
}

// exampleTB lets package sdktest run in an example, which has no testing.T.
type exampleTB struct {
	testing.TB
	cleanups []func()
}

func (t *exampleTB) Helper()                   {}
func (t *exampleTB) Log(...any)                {}
func (t *exampleTB) Cleanup(f func())          { t.cleanups = append(t.cleanups, f) }
func (t *exampleTB) Fatal(args ...any)         { panic(fmt.Sprint(args...)) }
func (t *exampleTB) Errorf(f string, a ...any) { panic(fmt.Sprintf(f, a...)) }

func (t *exampleTB) TempDir() string {
	dir, err := os.MkdirTemp("", "example")
	if err != nil {
		panic(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

func (t *exampleTB) end() {
	for _, cleanup := range slices.Backward(t.cleanups) {
		cleanup()
	}
}
