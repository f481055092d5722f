package lines

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"strings"
)

// MaxAttributes is how many attributes of a record are kept.
const MaxAttributes = 64

// A Record is what a line says.
type Record struct {
	Level   slog.Level
	Message string
	// Attributes are keys and values in turn.
	Attributes []string
}

// ParseHclog reads a line of hclog's JSON form. It is not ok for any other line.
// Fields of a wrong type are taken as they are; go-plugin would panic at them.
func ParseHclog(line []byte) (r Record, ok bool) {
	if !bytes.HasPrefix(line, []byte("{")) {
		return Record{}, false
	}
	decoder := json.NewDecoder(bytes.NewReader(line))
	decoder.UseNumber()
	var fields map[string]any
	if decoder.Decode(&fields) != nil || decoder.More() {
		return Record{}, false
	}
	level, hasLevel := fields["@level"]
	message, hasMessage := fields["@message"]
	if !hasLevel && !hasMessage {
		return Record{}, false
	}
	r.Level = levelOf(fmt.Sprint(level))
	if hasMessage {
		r.Message = fmt.Sprint(message)
	}
	keys := make([]string, 0, len(fields))
	for key := range fields {
		if !strings.HasPrefix(key, "@") {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	for _, key := range keys {
		r.Attributes = append(r.Attributes, key, fmt.Sprint(fields[key]))
	}
	return r.Bounded(), true
}

func levelOf(name string) slog.Level {
	switch strings.ToLower(name) {
	case "trace", "debug":
		return slog.LevelDebug
	case "warn", "warning":
		return slog.LevelWarn
	case "error":
		return slog.LevelError
	default:
		return slog.LevelInfo
	}
}

// Bounded is the record with clean texts, of [MaxAttributes] attributes and [Max]
// bytes at most in all. An odd attribute at the end is dropped.
func (r Record) Bounded() Record {
	out := Record{Level: r.Level, Message: Clean(r.Message)}
	room := Max - len(out.Message)
	for pair := range slices.Chunk(r.Attributes, 2) {
		if len(pair) < 2 || len(out.Attributes) == 2*MaxAttributes {
			break
		}
		key, value := CleanShort(pair[0], 64), pair[1]
		if room -= len(key); room <= 0 {
			break
		}
		value = CleanShort(value, room)
		room -= len(value)
		out.Attributes = append(out.Attributes, key, value)
	}
	return out
}
