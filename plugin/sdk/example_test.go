package sdk_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/toolhost/toolhost/plugin/sdk"
	"github.com/toolhost/toolhost/plugin/sdk/sdktest"
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

// A tool whose model reads less than the output, and in other words.
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

// call activates a plugin, calls one of its tools, and shows the outcome.
func call(p sdk.Plugin, name, input string) {
	t := &exampleTB{}
	defer t.end()
	switch outcome := sdktest.Start(t, p, sdktest.Options{}).Call(name, input); outcome.Status {
	case "completed":
		fmt.Printf("%s: %s\n", outcome.Status, outcome.Structured)
		if outcome.Text != "" {
			fmt.Println(outcome.Text)
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
