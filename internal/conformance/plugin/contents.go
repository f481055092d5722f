package main

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"

	"github.com/toolhost/toolhost/plugin/sdk"
)

// The smallest files of their kinds.
const (
	redDot  = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAAAABJRU5ErkJggg=="
	silence = "UklGRiYAAABXQVZFZm10IBAAAAABAAEAQB8AAAB9AAACABAAZGF0YQIAAAA="
)

// contents are the tools that answer with each kind of content.
func contents() sdk.Tools {
	return sdk.Tools{
		"test_simple_text": sdk.New("A line of text", func(context.Context, sdk.Call, struct{}) (string, error) {
			return "This is a simple text response for testing.", nil
		}, sdk.NoEffect, sdk.Title("Simple text")),
		"test_image_content": blocks("An image", sdk.Image(file(redDot), "image/png")),
		"test_audio_content": blocks("A sound", sdk.Audio(file(silence), "audio/wav")),
		"test_embedded_resource": blocks("A resource",
			sdk.TextResource("test://embedded-resource", "text/plain", "This is an embedded resource content.")),
		"test_multiple_content_types": blocks("Text, an image and a resource",
			sdk.Text("Multiple content types test:"), sdk.Image(file(redDot), "image/png"),
			sdk.TextResource("test://mixed-content-resource", "application/json", `{"test":"data","value":123}`)),
		"test_error_handling": sdk.New("A failure, always", func(context.Context, sdk.Call, struct{}) (string, error) {
			return "", sdk.Failure("This tool intentionally returns an error for testing")
		}, sdk.NoEffect),
		"test_large_output": sdk.New("More text than a model sees", largeOutput, sdk.NoEffect),
	}
}

// blocks is a tool that answers with the same content always, and has no structured value.
func blocks(description string, content ...sdk.Content) sdk.Tool {
	return sdk.Dynamic(sdk.Declaration{Description: description},
		func(context.Context, sdk.Call, json.RawMessage) (sdk.Result, error) {
			return sdk.Result{Content: content}, nil
		},
		sdk.NoEffect)
}

func file(encoded string) []byte {
	data, err := base64.StdEncoding.DecodeString(encoded)
	if err != nil {
		panic(err) // a constant of this file is wrong
	}
	return data
}

type lines struct {
	Lines int `json:"lines"`
}

// largeOutput writes 10,000 lines of twelve bytes, so that most of them are kept and not shown.
func largeOutput(_ context.Context, call sdk.Call, _ struct{}) (lines, error) {
	const all = 10_000
	for n := range all {
		if _, err := fmt.Fprintf(call.Output(), "line %06d\n", n); err != nil {
			return lines{n}, err
		}
	}
	return lines{all}, nil
}
