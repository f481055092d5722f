package registry

import (
	"errors"
	"fmt"

	"github.com/toolhost/toolhost/tool"
	"github.com/toolhost/toolhost/tool/schema"
)

// settle validates what the executor returned and makes the settlement of a
// completed call (laws 11, 16). An error is a [*tool.Error], mostly of kind invalid output;
// what is wrong is in its cause, since only the author of the tool can mend it.
func (e *entry) settle(result tool.Result) (tool.Settlement, error) {
	if n := max(len(result.Output), len(result.Structured)); n > schema.MaxValueBytes {
		return tool.Settlement{}, tool.Errorf(tool.KindTooLarge, "%w", fmt.Errorf("output of %s has %d bytes: at most %d", e.definition.ID, n, schema.MaxValueBytes))
	}
	output, err := decode(result.Output, e.output)
	if err != nil {
		return tool.Settlement{}, e.invalid("output", err)
	}
	structured := result.Structured
	if len(structured) == 0 {
		structured = result.Output
		err = check(output, len(structured) > 0, e.structured)
	} else {
		_, err = decode(structured, e.structuredSchema())
	}
	if err != nil {
		return tool.Settlement{}, e.invalid("structured value", err)
	}
	content, err := contentOf(result.Content, output)
	if err != nil {
		return tool.Settlement{}, e.invalid("content", err)
	}
	return tool.Settlement{
		Status: tool.Completed, Structured: structured, Content: content, Ran: true, Lost: max(0, result.Lost),
	}, nil
}

func (e *entry) invalid(what string, err error) error {
	return tool.Errorf(tool.KindInvalidOutput, "%s of %s is invalid: %w", what, e.definition.ID, err)
}

var errNoValue = errors.New("there is none, and the tool declares a schema for it")

// decode reads a value strictly and validates it. Nothing is a value only where no
// schema asks for one.
func decode(raw []byte, of *schema.Schema) (any, error) {
	switch {
	case len(raw) == 0 && of == nil:
		return nil, nil
	case len(raw) == 0:
		return nil, errNoValue
	case of == nil:
		return schema.Decode(raw)
	}
	return of.Decode(raw)
}

// check validates a value that was decoded before, if a schema asks for it.
func check(v any, given bool, of *schema.Schema) error {
	switch {
	case of == nil:
		return nil
	case !given:
		return errNoValue
	}
	return of.Check(v)
}

// contentOf is what the model reads: a copy of what the tool gave, of each block
// what belongs to its type, and text that is valid UTF-8. Without any, an output
// that is a string is also given as text (law 16).
func contentOf(given []tool.Content, output any) ([]tool.Content, error) {
	if text, ok := output.(string); ok && len(given) == 0 {
		return []tool.Content{tool.Text(text)}, nil
	}
	content := make([]tool.Content, len(given))
	for i, block := range given {
		var err error
		if content[i], err = cleanContent(block); err != nil {
			return nil, fmt.Errorf("block %d %w", i, err)
		}
	}
	return content, nil
}

func cleanContent(block tool.Content) (tool.Content, error) {
	switch block.Type {
	case tool.TextContent:
		return tool.Text(clean(block.Text)), nil
	case tool.ImageContent, tool.AudioContent:
		if len(block.Data) == 0 || block.MIMEType == "" {
			return tool.Content{}, fmt.Errorf("is %s without data or media type", block.Type)
		}
		return tool.Content{Type: block.Type, Data: block.Data, MIMEType: clean(block.MIMEType)}, nil
	case tool.ResourceLink:
		if block.URI == "" {
			return tool.Content{}, errors.New("is a resource link without URI")
		}
		return tool.Content{
			Type: block.Type, URI: clean(block.URI), Name: clean(block.Name),
			Description: clean(block.Description), MIMEType: clean(block.MIMEType),
		}, nil
	case tool.EmbeddedResource:
		switch {
		case block.URI == "":
			return tool.Content{}, errors.New("is a resource without URI")
		case (block.Text == "") == (len(block.Data) == 0):
			return tool.Content{}, errors.New("is a resource without exactly one of text and data")
		}
		return tool.Content{
			Type: block.Type, URI: clean(block.URI), MIMEType: clean(block.MIMEType), Text: clean(block.Text), Data: block.Data,
		}, nil
	default:
		return tool.Content{}, fmt.Errorf("has the unknown type %.40q", block.Type)
	}
}
