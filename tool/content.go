package tool

// ContentType tells the kinds of content apart. The values are those of the
// Model Context Protocol's content blocks.
type ContentType string

// The kinds of content.
const (
	// TextContent has Text.
	TextContent ContentType = "text"
	// ImageContent has Data and MIMEType.
	ImageContent ContentType = "image"
	// AudioContent has Data and MIMEType.
	AudioContent ContentType = "audio"
	// ResourceLink has URI, and may have Name, Description and MIMEType.
	ResourceLink ContentType = "resource_link"
	// EmbeddedResource has URI and either Text or Data, which is what stands there, and
	// may have MIMEType.
	EmbeddedResource ContentType = "resource"
)

// Content is one block of what the model reads. Which fields count depends on
// Type; the others are empty.
type Content struct {
	Type        ContentType `json:"type"`
	Text        string      `json:"text,omitempty"`
	Data        []byte      `json:"data,omitempty"` // base64 in JSON
	MIMEType    string      `json:"mime_type,omitempty"`
	URI         string      `json:"uri,omitempty"`
	Name        string      `json:"name,omitempty"`
	Description string      `json:"description,omitempty"`
}

// Text is a block of text.
func Text(text string) Content { return Content{Type: TextContent, Text: text} }

// Image is a picture of the given media type, such as "image/png".
func Image(data []byte, mimeType string) Content {
	return Content{Type: ImageContent, Data: data, MIMEType: mimeType}
}

// Audio is a sound of the given media type, such as "audio/wav".
func Audio(data []byte, mimeType string) Content {
	return Content{Type: AudioContent, Data: data, MIMEType: mimeType}
}

// Link refers to something that can be read elsewhere.
func Link(uri, name string) Content {
	return Content{Type: ResourceLink, URI: uri, Name: name}
}

// TextResource is what stands at the URI, as text that is not empty. The media type,
// such as "text/markdown", may be empty. A model sees no more of the text than of any
// other (law 17).
func TextResource(uri, mimeType, text string) Content {
	return Content{Type: EmbeddedResource, URI: uri, MIMEType: mimeType, Text: text}
}

// DataResource is what stands at the URI, as bytes, of which there is at least one. The
// media type, such as "application/pdf", may be empty.
func DataResource(uri, mimeType string, data []byte) Content {
	return Content{Type: EmbeddedResource, URI: uri, MIMEType: mimeType, Data: data}
}
