package form

import "encoding/json"

// Schema is the JSON Schema, of draft 2020-12, for the files of this form. It
// allows all that [Form.Check] allows; what takes more than a regular expression
// to check it leaves to it.
func (f *Form) Schema() []byte {
	schema := f.schema()
	schema["$schema"] = "https://json-schema.org/draft/2020-12/schema"
	text, err := json.MarshalIndent(schema, "", "  ")
	if err != nil {
		panic(err) // maps of texts and lists always have a JSON text
	}
	return append(text, '\n')
}

// schema is the schema of the form. The keys of a map are sorted when it is
// written, so it is the same each time.
func (f *Form) schema() map[string]any {
	schema := map[string]any{}
	if f.About != "" {
		schema["description"] = f.About
	}
	if f.Kind == Text {
		schema["type"] = "string"
		if f.OneOf != nil {
			schema["enum"] = f.OneOf
		}
		if f.Pattern != "" {
			schema["pattern"] = f.Pattern
		}
		return schema
	}
	types := []string{"object"}
	switch f.Kind {
	case Integer, Size:
		types[0] = "integer"
		schema["minimum"], schema["maximum"] = f.Min, f.Max
		if f.Kind == Size {
			types = append(types, "string")
			schema["pattern"] = sizePattern
		}
	case Decimal:
		types[0] = "number"
		schema["minimum"], schema["maximum"] = f.Least, f.Utmost
	case Switch:
		types[0] = "boolean"
	case List:
		types[0] = "array"
		schema["items"] = f.Each.schema()
		if f.Most > 0 {
			schema["maxItems"] = f.Most
		}
		switch {
		case f.Arguments:
			schema["minItems"] = 1
		case f.Each.Kind == Text:
			schema["uniqueItems"] = true
		}
	case Object:
		properties, required := map[string]any{}, []string{}
		for i := range f.Keys {
			properties[f.Keys[i].Name] = f.Keys[i].Form.schema()
			if f.Keys[i].Required {
				required = append(required, f.Keys[i].Name)
			}
		}
		schema["properties"], schema["additionalProperties"] = properties, false
		if len(required) > 0 {
			schema["required"] = required
		}
	case Table:
		schema["propertyNames"], schema["additionalProperties"] = f.Names.schema(), f.Each.schema()
		if f.Most > 0 {
			schema["maxProperties"] = f.Most
		}
	}
	if !f.hasRequired() {
		types = append(types, "null") // which counts as missing
	}
	schema["type"] = types
	return schema
}
