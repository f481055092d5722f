package tool

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

const (
	// MaxName is the most characters of an effective name.
	MaxName = 64
	// MaxAuthoredName is the most bytes of an authored name.
	MaxAuthoredName = 256

	shortenedStem = 55 // what a shortened name keeps of the long one
	shortenedHash = 4  // bytes of the hash, two hex digits each
)

// Normalize replaces every character of an authored name outside [A-Za-z0-9_-]
// by "_", and each byte that is not UTF-8 as well (law 2). The result may be
// longer than an effective name; see [EffectiveName].
func Normalize(authored string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case 'a' <= r && r <= 'z', 'A' <= r && r <= 'Z', '0' <= r && r <= '9', r == '_', r == '-':
			return r
		}
		return '_'
	}, authored)
}

// EffectiveName is the name under which a model sees the tool (law 2): the
// normalised name, which if it is longer than [MaxName] is shortened to its first
// 55 characters, "_", and the first 8 hex digits of its SHA-256. The hash is of
// the normalised name and not of the authored one, so that applying
// EffectiveName again changes nothing and names that are equal when normalised
// stay equal (law 3 refuses both).
//
// It is defined for every string; whether the name may be registered is for
// [CheckName] to say.
func EffectiveName(authored string) string {
	name := Normalize(authored)
	if len(name) <= MaxName {
		return name
	}
	hash := sha256.Sum256([]byte(name))
	return name[:shortenedStem] + "_" + hex.EncodeToString(hash[:shortenedHash])
}

// CheckName reports why a tool cannot be registered under the authored name: it
// is empty, over [MaxAuthoredName] bytes, not UTF-8, holds control characters
// (the canonical id stands in rules and logs as it was authored), or its
// effective name is one that the host keeps for itself.
func CheckName(authored string) error {
	if err := checkName(authored); err != nil {
		return err
	}
	if Reserved(EffectiveName(authored)) {
		return fmt.Errorf("tool name %q is reserved for the host: choose another", authored)
	}
	return nil
}

// CheckReservedName is CheckName for the host's own tools, which may only have the
// names that the host keeps for itself.
func CheckReservedName(authored string) error {
	if !Reserved(authored) {
		return fmt.Errorf("tool name %q is not one that the host keeps for itself", authored)
	}
	return nil
}

func checkName(authored string) error {
	switch {
	case authored == "":
		return fmt.Errorf("tool name is empty")
	case len(authored) > MaxAuthoredName:
		return fmt.Errorf("tool name %q… has %d bytes: at most %d", authored[:16], len(authored), MaxAuthoredName)
	case !utf8.ValidString(authored):
		return fmt.Errorf("tool name %q is not valid UTF-8", authored)
	case strings.ContainsFunc(authored, unicode.IsControl):
		return fmt.Errorf("tool name %q has control characters", authored)
	}
	return nil
}

// Reserved reports whether the host keeps the effective name for itself (law 2).
func Reserved(name string) bool {
	return slices.Contains([]string{"execute", "output_read", "output_search"}, name)
}

// CanonicalID is what rules, approvals and the audit call the tool, whatever its
// effective name is: the plugin's key in config, "/", and the authored name as it
// was written (law 2). The plugin's key holds no "/", so that two tools never
// share an id (see [CheckPluginName]).
func CanonicalID(plugin, authored string) string { return plugin + "/" + authored }

// CheckPluginName reports why a plugin cannot have this key: it must be 1 to
// [MaxName] characters of [A-Za-z0-9_.-].
func CheckPluginName(plugin string) error {
	if plugin == "" {
		return fmt.Errorf("plugin name is empty")
	}
	if len(plugin) > MaxName {
		return fmt.Errorf("plugin name %q… has %d bytes: at most %d", plugin[:16], len(plugin), MaxName)
	}
	if strings.ReplaceAll(plugin, ".", "_") != Normalize(plugin) {
		return fmt.Errorf("plugin name %q may only have the characters A-Z, a-z, 0-9, \"_\", \"-\" and \".\"", plugin)
	}
	return nil
}
