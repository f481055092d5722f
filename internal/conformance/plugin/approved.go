package main

import (
	"context"
	"errors"

	"github.com/toolhost/toolhost/plugin/sdk"
)

type message struct {
	Message string `json:"message" jsonschema:"what the person is told"`
}

// approved are the tools that need an approval, by the rules of the configuration that make conformance runs with. The
// suite knows them as tools that ask the person something.
func approved() sdk.Tools {
	return sdk.Tools{
		"test_elicitation": sdk.NewPrepared("An action that is shown to the person and then done",
			func(_ context.Context, _ sdk.Call, in message) (sdk.Preparation[string], error) {
				return sdk.Preparation[string]{
					Review:   in.Message,
					Requests: []sdk.PermissionRequest{{Resources: []string{"person"}}},
					Commit:   func(context.Context, sdk.Call) (string, error) { return "done as it was shown: " + in.Message, nil },
				}, nil
			},
			func(context.Context, sdk.Call, message) (string, error) {
				return "", errors.New("every call of this tool is prepared")
			}, sdk.NoEffect),
		"test_input_required_result_elicitation":    answer("Hello!"),
		"test_input_required_result_request_state":  answer("state-ok"),
		"test_input_required_result_tampered_state": answer("state-ok"),
		"test_input_required_result_capabilities":   answer("done"),
		"test_input_required_result_multi_round":    answer("done, after two questions", "step one", "step two"),
	}
}

// answer is a tool that asks for each of the resources, or for all of them at once where it names none.
func answer(text string, resources ...string) sdk.Tool {
	requests := make([]sdk.PermissionRequest, len(resources))
	for i, resource := range resources {
		requests[i].Resources = []string{resource}
	}
	return sdk.New("An answer that needs an approval", func(context.Context, sdk.Call, struct{}) (string, error) {
		return text, nil
	}, sdk.NoEffect, sdk.Requires(requests...))
}
