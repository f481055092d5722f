package wire

import (
	"fmt"
	"strings"

	pluginv1 "github.com/toolhost/toolhost/plugin/proto/toolhost/plugin/v1"
	"github.com/toolhost/toolhost/tool"
)

var effects = [...]struct {
	plain tool.Effects
	wire  pluginv1.Effect
}{
	{tool.Read, pluginv1.Effect_EFFECT_READ},
	{tool.Write, pluginv1.Effect_EFFECT_WRITE},
	{tool.Process, pluginv1.Effect_EFFECT_PROCESS},
	{tool.Network, pluginv1.Effect_EFFECT_NETWORK},
	{tool.UserInteraction, pluginv1.Effect_EFFECT_USER_INTERACTION},
	{tool.Delegation, pluginv1.Effect_EFFECT_DELEGATION},
	{tool.None, pluginv1.Effect_EFFECT_NONE},
}

func effectsToWire(e tool.Effects) []pluginv1.Effect {
	var out []pluginv1.Effect
	for _, known := range effects {
		if e&known.plain != 0 {
			out = append(out, known.wire)
		}
	}
	return out
}

// effectsFromWire treats an effect that it does not know as one that may be
// anything: unknown means all (law 23).
func effectsFromWire(list []pluginv1.Effect) tool.Effects {
	var out tool.Effects
next:
	for _, e := range list {
		for _, known := range effects {
			if known.wire == e {
				out |= known.plain
				continue next
			}
		}
		return tool.AllEffects
	}
	return out
}

// RemoteTool is a tool as it crosses the line: without its executor, which stays
// in the plugin under a number.
type RemoteTool struct {
	Name     string
	Executor uint64
	Tool     tool.Tool // Prepare and Execute are nil
	// Prepares says that the plugin is asked what each call would do.
	Prepares bool
}

func toolToWire(t RemoteTool) *pluginv1.Tool {
	return &pluginv1.Tool{
		Name: text(t.Name), Title: text(t.Tool.Title), Description: text(t.Tool.Description),
		InputSchema: t.Tool.Input, OutputSchema: t.Tool.Output, StructuredSchema: t.Tool.Structured,
		Effects: effectsToWire(t.Tool.Effects), Executor: t.Executor,
		Irreversible: t.Tool.Irreversible, Requests: requestsToWire(t.Tool.Requests), Targets: texts(t.Tool.Targets),
		Unavailable: text(t.Tool.Unavailable), Prepares: t.Prepares,
	}
}

func toolFromWire(t *pluginv1.Tool) RemoteTool {
	return RemoteTool{
		Name: t.GetName(), Executor: t.GetExecutor(), Prepares: t.GetPrepares(),
		Tool: tool.Tool{
			Title: t.GetTitle(), Description: t.GetDescription(),
			Input: t.GetInputSchema(), Output: t.GetOutputSchema(), Structured: t.GetStructuredSchema(),
			Effects: effectsFromWire(t.GetEffects()), Irreversible: t.GetIrreversible(),
			Requests: requestsFromWire(t.GetRequests()), Targets: t.GetTargets(),
			Unavailable: cutAt(t.GetUnavailable(), maxUnavailable),
		},
	}
}

func identityToWire(id tool.Identity) *pluginv1.Identity {
	return &pluginv1.Identity{
		Session: text(id.Session), Agent: text(id.Agent), Message: text(id.Message), Call: text(id.Call), HostMade: id.HostMade,
	}
}

func identityFromWire(id *pluginv1.Identity) tool.Identity {
	return tool.Identity{
		Session: id.GetSession(), Agent: id.GetAgent(), Message: id.GetMessage(), Call: id.GetCall(),
		HostMade: id.GetHostMade(),
	}
}

func contentToWire(list []tool.Content) ([]*pluginv1.Content, error) {
	out := make([]*pluginv1.Content, 0, len(list))
	for i, c := range list {
		var block pluginv1.Content
		switch c.Type {
		case tool.TextContent:
			block.Block = &pluginv1.Content_Text{Text: &pluginv1.TextBlock{Text: text(c.Text)}}
		case tool.ImageContent:
			block.Block = &pluginv1.Content_Image{Image: &pluginv1.MediaBlock{Data: c.Data, MimeType: text(c.MIMEType)}}
		case tool.AudioContent:
			block.Block = &pluginv1.Content_Audio{Audio: &pluginv1.MediaBlock{Data: c.Data, MimeType: text(c.MIMEType)}}
		case tool.ResourceLink:
			block.Block = &pluginv1.Content_Link{Link: &pluginv1.LinkBlock{
				Uri: text(c.URI), Name: text(c.Name), Description: text(c.Description), MimeType: text(c.MIMEType),
			}}
		case tool.EmbeddedResource:
			resource := pluginv1.ResourceBlock{Uri: text(c.URI), MimeType: text(c.MIMEType)}
			switch {
			case c.Text != "" && len(c.Data) > 0:
				return nil, fmt.Errorf("content %d is a resource with both text and data: give one of them", i)
			case len(c.Data) > 0:
				resource.Contents = &pluginv1.ResourceBlock_Data{Data: c.Data}
			default:
				resource.Contents = &pluginv1.ResourceBlock_Text{Text: text(c.Text)}
			}
			block.Block = &pluginv1.Content_Resource{Resource: &resource}
		default:
			return nil, fmt.Errorf("content %d has the unknown type %q", i, c.Type)
		}
		out = append(out, &block)
	}
	return out, nil
}

// contentFromWire leaves a block of a kind that it does not know without a type,
// for the registry to refuse.
func contentFromWire(list []*pluginv1.Content) []tool.Content {
	if len(list) == 0 {
		return nil
	}
	out := make([]tool.Content, 0, len(list))
	for _, c := range list {
		switch block := c.GetBlock().(type) {
		case *pluginv1.Content_Text:
			out = append(out, tool.Text(block.Text.GetText()))
		case *pluginv1.Content_Image:
			out = append(out, tool.Image(block.Image.GetData(), block.Image.GetMimeType()))
		case *pluginv1.Content_Audio:
			out = append(out, tool.Audio(block.Audio.GetData(), block.Audio.GetMimeType()))
		case *pluginv1.Content_Link:
			out = append(out, tool.Content{
				Type: tool.ResourceLink, URI: block.Link.GetUri(), Name: block.Link.GetName(),
				Description: block.Link.GetDescription(), MIMEType: block.Link.GetMimeType(),
			})
		case *pluginv1.Content_Resource: // of text and data a message has one at most
			out = append(out, tool.Content{
				Type: tool.EmbeddedResource, URI: block.Resource.GetUri(), MIMEType: block.Resource.GetMimeType(),
				Text: block.Resource.GetText(), Data: block.Resource.GetData(),
			})
		default:
			out = append(out, tool.Content{})
		}
	}
	return out
}

// text makes a string fit for a message: one that is not UTF-8 could not be sent.
func text(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }

func texts(list []string) []string {
	out := make([]string, len(list))
	for i, s := range list {
		out[i] = text(s)
	}
	return out
}
