// Command outline is a plugin of toolhost. Its tool lists the headings of a
// Markdown file.
package main

import (
	"context"

	"github.com/toolhost/toolhost/plugin/sdk"
)

type input struct {
	Path string `json:"path" jsonschema:"the Markdown file, relative to the root of the project"`
}

type heading struct {
	Line int    `json:"line"`
	Text string `json:"text"`
}

func main() { sdk.Serve(plugin()) }

func plugin() sdk.Plugin {
	return sdk.Plugin{
		Name: "outline", Version: "1.0.0", Needs: []sdk.Service{sdk.FileSystemRead},
		Activate: func(ctx context.Context, loc sdk.Location) error {
			files, err := loc.FileSystem()
			if err != nil {
				return err
			}
			_, err = loc.Tools.Register(ctx, sdk.Tools{
				"outline": sdk.New("List the headings of a Markdown file", outline(files), sdk.Read),
			})
			return err
		},
	}
}

func outline(files *sdk.FileSystem) func(context.Context, sdk.Call, input) ([]heading, error) {
	return func(ctx context.Context, _ sdk.Call, in input) ([]heading, error) {
		file, err := files.ResolveRoot(ctx, in.Path)
		if err != nil {
			return nil, sdk.ToFailure(err)
		}
		found, err := file.Grep(ctx, sdk.GrepQuery{Pattern: "^#{1,6} "})
		if err != nil {
			return nil, sdk.ToFailure(err)
		}
		headings := []heading{}
		for _, match := range found.Matches {
			headings = append(headings, heading{match.Line, match.Text})
		}
		return headings, nil
	}
}
