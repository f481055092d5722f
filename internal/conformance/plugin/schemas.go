package main

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/toolhost/toolhost/plugin/sdk"
)

// vocabulary is the schema that the suite wants to find in the list of tools, keyword by keyword.
const vocabulary = `{
	"$schema": "https://json-schema.org/draft/2020-12/schema",
	"type": "object",
	"$defs": {
		"address": {
			"$anchor": "addressDef",
			"type": "object",
			"properties": {"street": {"type": "string"}, "city": {"type": "string"}}
		}
	},
	"properties": {
		"name": {"type": "string"},
		"address": {"$ref": "#/$defs/address"},
		"contactMethod": {"type": "string", "enum": ["phone", "email"]},
		"phone": {"type": "string"},
		"email": {"type": "string"}
	},
	"allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
	"if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
	"then": {"required": ["phone"]},
	"else": {"required": ["email"]},
	"additionalProperties": false
}`

// mirrored is a schema of which one property also stands in a header of the request.
const mirrored = `{
	"type": "object",
	"properties": {
		"region": {"type": "string", "description": "also in the header Mcp-Param-Region", "x-mcp-header": "Region"},
		"level": {"type": "integer", "description": "in the body only"}
	}
}`

type numbers struct {
	A int `json:"a" jsonschema:"a number"`
	B int `json:"b" jsonschema:"another one"`
}

type sum struct {
	Sum int `json:"sum" jsonschema:"of the two"`
}

// schemas are the tools that are about what they take and give.
func schemas() sdk.Tools {
	return sdk.Tools{
		"json_schema_2020_12_tool": echo("A schema with the vocabulary of JSON Schema 2020-12", vocabulary),
		"test_x_mcp_header":        echo("A property that is mirrored into a header", mirrored),
		"test_structured_output":   sdk.New("The sum of two numbers, as a value", add, sdk.NoEffect, sdk.Title("Sum")),
		"test_projected_output": sdk.NewProjected("The sum of two numbers, as a value and as text", add,
			func(in numbers, out sum) (sum, []sdk.Content) {
				return out, []sdk.Content{sdk.Text(fmt.Sprintf("%d and %d are %d", in.A, in.B, out.Sum))}
			}, sdk.NoEffect),
	}
}

func add(_ context.Context, _ sdk.Call, in numbers) (sum, error) { return sum{in.A + in.B}, nil }

// echo is a tool that answers with the input that was validated.
func echo(description, schema string) sdk.Tool {
	return sdk.Dynamic(sdk.Declaration{Description: description, Input: json.RawMessage(schema)},
		func(_ context.Context, _ sdk.Call, input json.RawMessage) (sdk.Result, error) {
			return sdk.Result{Content: []sdk.Content{sdk.Text(string(input))}}, nil
		}, sdk.NoEffect)
}
