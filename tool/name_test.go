package tool

import (
	"regexp"
	"strings"
	"testing"
)

// Seen to fail: with [shortenedStem] at 56, and with the hash taken of the
// authored name.
func TestLaw02EffectiveNames(t *testing.T) {
	long := strings.Repeat("n", 55)
	tests := []struct{ authored, want string }{
		{"read", "read"},
		{"Read-File_2", "Read-File_2"},
		{"a.b", "a_b"},
		{"a b", "a_b"},
		{"a/b", "a_b"},
		{"ä", "_"}, // one character, two bytes
		{"工具", "__"},
		{"x\xffy", "x_y"},
		{strings.Repeat("n", 64), strings.Repeat("n", 64)},
		{strings.Repeat("n", 65), long + "_1e3fb6d5"},
		{strings.Repeat("n", 60) + ".tail", long + "_4e4ab26c"},
		{strings.Repeat("n", 60) + "_tail", long + "_4e4ab26c"}, // equal when normalised, equal when shortened
		{"", ""},
	}
	for _, tt := range tests {
		if got := EffectiveName(tt.authored); got != tt.want {
			t.Errorf("EffectiveName(%q) = %q, want %q", tt.authored, got, tt.want)
		}
	}
}

// Seen to fail: without the check for control characters.
func TestLaw02NamesThatAreRefused(t *testing.T) {
	tests := []struct{ authored, want string }{
		{"read", ""},
		{"a.b", ""},
		{"工具", ""},
		{"Execute", ""},
		{strings.Repeat("n", MaxAuthoredName), ""},
		{"", "empty"},
		{strings.Repeat("n", MaxAuthoredName+1), "257 bytes"},
		{"x\xffy", "UTF-8"},
		{"read\nrm", "control"},
		{"execute", "reserved"},
		{"output_read", "reserved"},
		{"output.search", "reserved"}, // what counts is the effective name
	}
	for _, tt := range tests {
		err := CheckName(tt.authored)
		if got := errorText(err); (tt.want == "") != (err == nil) || !strings.Contains(got, tt.want) {
			t.Errorf("CheckName(%.20q) = %q, want %q", tt.authored, got, tt.want)
		}
	}
}

// Two tools never share a canonical id, though their effective names are equal or
// their parts join to the same text.
//
// Seen to fail: with "_" in place of "/" in CanonicalID.
func TestCaseC23CanonicalIDs(t *testing.T) {
	ids := map[string]string{}
	for _, plugin := range []string{"a", "a_b", "a.b", "a-b"} {
		if err := CheckPluginName(plugin); err != nil {
			t.Errorf("CheckPluginName(%q) = %v", plugin, err)
		}
		for _, authored := range []string{"c", "b_c", "b/c", "b.c", "/c"} {
			id := CanonicalID(plugin, authored)
			if other, ok := ids[id]; ok {
				t.Errorf("%q is the id of %s and of %s %q", id, other, plugin, authored)
			}
			ids[id] = plugin + " " + authored
		}
	}
	for _, plugin := range []string{"", "a/b", "a b", "ä", strings.Repeat("a", 65), "a\n"} {
		if CheckPluginName(plugin) == nil {
			t.Errorf("CheckPluginName(%q) = nil, want an error", plugin)
		}
	}
}

func FuzzEffectiveName(f *testing.F) {
	for _, name := range []string{"read", "a.b", "ä", "x\xff", strings.Repeat("long ", 20), "execute"} {
		f.Add(name)
	}
	effective := regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)
	f.Fuzz(func(t *testing.T, authored string) {
		name := EffectiveName(authored)
		if authored != "" && !effective.MatchString(name) {
			t.Errorf("EffectiveName(%q) = %q", authored, name)
		}
		if again := EffectiveName(name); again != name {
			t.Errorf("EffectiveName(%q) = %q, and again %q", authored, name, again)
		}
		if CheckName(authored) == nil && Reserved(name) {
			t.Errorf("CheckName(%q) = nil, and its effective name %q is reserved", authored, name)
		}
	})
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
