package mcpserver

import (
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/toolhost/toolhost/tool"
)

// outputScheme begins the addresses of kept outputs.
const outputScheme = "toolhost://outputs/"

// outputLink is where the whole of an output can be read.
func outputLink(kept tool.Retained) mcp.Content {
	size := kept.Bytes
	return &mcp.ResourceLink{
		URI: outputScheme + kept.Handle, Name: kept.Handle, Title: "The whole output", Size: &size,
		Description: "the whole of the output that was cut; ?offset=N&limit=N reads a part of it, in bytes",
	}
}
func (f *face) addResources() {}
