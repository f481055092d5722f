package document

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// show is the tree in one line.
func show(n *Node) string {
	switch n.Kind {
	case Null:
		return "null"
	case Text:
		return fmt.Sprintf("%q", n.Text)
	case Sequence:
		var items []string
		for _, item := range n.Items {
			items = append(items, show(item))
		}
		return "[" + strings.Join(items, " ") + "]"
	case Mapping:
		var entries []string
		for _, e := range n.Entries {
			entries = append(entries, fmt.Sprintf("%q@%d:%d=%s", e.Key, e.At.Line, e.At.Column, show(e.Value)))
		}
		return "{" + strings.Join(entries, " ") + "}"
	default:
		return n.Text
	}
}

func TestParse(t *testing.T) {
	for _, c := range []struct{ name, text, want string }{
		{"empty", "", "null"},
		{"comments only", "# a\n\n# b\n", "null"},
		{"one document with its marks", "---\na: b\n...\n", `{"a"@2:1="b"}`},
		{"byte order mark, carriage returns", "\ufeffa: b\r\nc: d\r\n", `{"a"@1:1="b" "c"@2:1="d"}`},
		{"block", "a:\nb:\n  - x\n  -\n  - {}\n  - []\n", `{"a"@1:1=null "b"@2:1=["x" null {} []]}`},
		{"quoted, folded, literal", "a: 'it''s'\nb: \"\\u00e9\\n\"\nc: |\n  x\n  y\nd: >-\n  x\n  y\n", `{"a"@1:1="it's" "b"@2:1="é\n" "c"@3:1="x\ny\n" "d"@6:1="x y"}`},
		{"order is kept", "z: 1\na: 2\nm: 3\n", `{"z"@1:1=1 "a"@2:1=2 "m"@3:1=3}`},
		{"keys with anything in them", "a.b: 1\n'C D': 2\na/b: 3\n1: 4\ntrue: 5\n~: 6\n1.50: 7\n", `{"a.b"@1:1=1 "C D"@2:1=2 "a/b"@3:1=3 "1"@4:1=4 "true"@5:1=5 "~"@6:1=6 "1.50"@7:1=7}`},
		{"flow", "{a: [1, {b: c,},], d}", `{"a"@1:2=[1 {"b"@1:10="c"}] "d"@1:20=null}`},
		{"colons inside of texts", "{w: {g: [filesystem:read, a:b:c, 1:2, x:80:null], h: http://h:80/p, i:, l:m}}", `{"w"@1:2={"g"@1:6=["filesystem:read" "a:b:c" "1:2" "x:80:null"] "h"@1:51="http://h:80/p" "i"@1:69=null "l:m"@1:73=null}}`},
		{"JSON without spaces", `{"a":1,"b":"c","d":[2],"e":{"f":null}}`, `{"a"@1:2=1 "b"@1:8="c" "d"@1:16=[2] "e"@1:24={"f"@1:29=null}}`},
		{"JSON with tabs", "{\n\t\"a\":\t1,\n\t\"b\": \"\\/\\ud83d\\ude00\"\n}", `{"a"@2:2=1 "b"@3:2="/😀"}`},
		{"columns count characters", "{é: 1, b: 2}", `{"é"@1:2=1 "b"@1:8=2}`},
		{"booleans and nulls", "[true, False, ~, null, yes, 'true', \"null\"]", `[true false null null "yes" "true" "null"]`},
		{"numbers keep their digits", "[9007199254740993, 123456789012345678901234567890, 0.10, 1e400, -2.5E-3, -0]", `[9007199254740993 123456789012345678901234567890 0.10 1e400 -2.5E-3 -0]`},
		{"numbers that JSON spells otherwise", "[+1, .5, -.5, 1., 0x1F, 0o17, -0x10]", `[1 0.5 -0.5 1 31 15 -16]`},
		{"texts that look like numbers", "[1.0.0, 1:30, 2026-01-01, 1e, 0xZZ, '12', e5, -]", `["1.0.0" "1:30" "2026-01-01" "1e" "0xZZ" "12" "e5" "-"]`},
	} {
		t.Run(c.name, func(t *testing.T) {
			root, mistakes := Parse([]byte(c.text))
			if len(mistakes) != 0 {
				t.Fatalf("mistakes: %v", mistakes)
			}
			if got := show(root); got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
		})
	}
}

// TestCaseG05CommentsInsideOfTexts: what looks like a comment inside of a text is
// text.
func TestCaseG05CommentsInsideOfTexts(t *testing.T) {
	root, mistakes := Parse([]byte(`{"url":"http://h//p","rule":"open(//srv/share/**)","s":"/* no */ \\\" // x", "c": "# no", d: e#f} # yes`))
	want := `{"url"@1:2="http://h//p" "rule"@1:22="open(//srv/share/**)" "s"@1:52="/* no */ \\\" // x" "c"@1:78="# no" "d"@1:91="e#f"}`
	if len(mistakes) != 0 || show(root) != want {
		t.Errorf("got  %s %v\nwant %s", show(root), mistakes, want)
	}
}

func TestParseMistakes(t *testing.T) {
	for _, c := range []struct {
		name, text string
		want       []Mistake
	}{
		{"syntax", "a: [1, 2\n", []Mistake{{Position{1, 4}, "sequence end token ']' not found"}}},
		{"tab as indentation", "plugins:\n\tx: {}\n", []Mistake{{Position{2, 2}, `found character '	' that cannot start any token`}}},
		{"star without quotes", "- {resource: *, effect: allow}\n", []Mistake{{Position{1, 14}, `a text that begins with "*" must be put in quotes; aliases are not part of a config file`}}},
		{"pattern without quotes", "resource: **/x\n", []Mistake{{Position{1, 11}, `a text that begins with "*" must be put in quotes; aliases are not part of a config file`}}},
		{"anchor", "a: &x [1]\n", []Mistake{{Position{1, 4}, `a text that begins with "&" must be put in quotes; anchors are not part of a config file`}}},
		{"tag", "a: !!binary aGk=\n", []Mistake{{Position{1, 4}, `a text that begins with "!" must be put in quotes; tags are not part of a config file`}}},
		{"key of several lines", "a: 1\n? b\n: c\n", []Mistake{{Position{2, 1}, `a text that begins with "?" must be put in quotes; keys of several lines are not part of a config file`}}},
		{"directive", "%YAML 1.1\n---\na: yes\n", []Mistake{{Position{1, 1}, `directives are not part of a config file`}}},
		{"merge key", "a:\n  <<: {b: 1}\n", []Mistake{{Position{2, 3}, `merge keys are not part of a config file`}}},
		{"empty item before another key", "a:\n- b\n-\nc: d\n", []Mistake{{Position{3, 1}, `item of the list is empty; write "- null" if that is meant`}}},
		{"text that goes on", "a:\n  - b\n   - c\n", []Mistake{{Position{3, 4}, `text goes on in another line: put it in quotes, or mend the indentation`}}},
		{"text that goes on behind carriage returns", "a: b\r\n  c\r\n", []Mistake{{Position{1, 1}, `text goes on in another line: put it in quotes, or mend the indentation`}}},
		{"colon with a quote behind it in braces", "{a:'b', c: d}\n", []Mistake{{Position{1, 3}, `":" must be followed by a space, or the text put in quotes`}}},
		{"colon with a bracket behind it in braces", "{a: 1, c:[d]}\n", []Mistake{{Position{1, 9}, `":" must be followed by a space, or the text put in quotes`}}},
		{"colon in a key without quotes", "{a:b: c}\n", []Mistake{{Position{1, 3}, `":" must be followed by a space, or the text put in quotes`}}},
		{"colon with a dash behind it in braces", "{a:- b}\n", []Mistake{{Position{1, 3}, `":" must be followed by a space, or the text put in quotes`}}},
		{"colon with a space before it only", "{a :b}\n", []Mistake{{Position{1, 4}, `":" must be followed by a space, or the text put in quotes`}}},
		{"comment glued to a colon in braces", "{a:# b\n, c: d}\n", []Mistake{{Position{1, 3}, `":" must be followed by a space, or the text put in quotes`}}},
		{"not UTF-8", "a: b\nc: é\xff\n", []Mistake{{Position{2, 5}, "file is not UTF-8 here"}}},
		{"control character", "a: b\nc: \x00\n", []Mistake{{Position{2, 4}, "file has the control character U+0000 here"}}},
		{"a line that is none", "a: b # fine\rc: d\n", []Mistake{{Position{1, 12}, "file has a carriage return here that ends no line: what follows would be read as a line and not be seen as one"}}},
		{"control character in a key", `{"a\u0000b": 1, "ok": 2}`, []Mistake{{Position{1, 2}, `key "a\x00b" has a control character`}}},
		{"too large", strings.Repeat("#", MaxBytes+1), []Mistake{{Position{1, 1}, "file has more than 1048576 bytes"}}},
		{"duplicate keys, all of them", "a: 1\nb: {c: 1, c: 2}\na: 3\n", []Mistake{
			{Position{2, 11}, `key "c" is already there at line 2`},
			{Position{3, 1}, `key "a" is already there at line 1`},
		}},
		{"duplicate keys, spelled differently", "a: 1\n\"a\": 2\n", []Mistake{{Position{2, 1}, `key "a" is already there at line 1`}}},
		{"second document", "a: 1\n---\nb: 2\n", []Mistake{{Position{3, 2}, "file has a second document; everything belongs in one"}}},
		{"key that is a collection", "{[a]: b}\n", []Mistake{{Position{1, 5}, "found an invalid key for this map"}}},
		{"numbers that YAMLs read differently", "[017, 1_000, 0b11, .inf]\n", []Mistake{
			{Position{1, 2}, "number 017 is not read alike by every YAML: write it in plain decimal, or put it in quotes"},
			{Position{1, 7}, "number 1_000 is not read alike by every YAML: write it in plain decimal, or put it in quotes"},
			{Position{1, 14}, "number 0b11 is not read alike by every YAML: write it in plain decimal, or put it in quotes"},
			{Position{1, 20}, ".inf is no number that JSON has; put it in quotes if it is a text"},
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if _, got := Parse([]byte(c.text)); !reflect.DeepEqual(got, c.want) {
				t.Errorf("got  %v\nwant %v", got, c.want)
			}
		})
	}
}

// TestBounds: what would take the parser, its stack or the memory too far is a
// mistake. Each was seen to hang, to end the process, or to pass without its bound.
func TestBounds(t *testing.T) {
	var keys, indented strings.Builder
	for i := range maxKeys + 1 {
		fmt.Fprintf(&keys, "k%d: v\n", i)
	}
	for i := range 1000 {
		fmt.Fprintf(&indented, "%s- \n", strings.Repeat(" ", i))
	}
	const size = MaxBytes / 4 // far over each bound
	for _, c := range []struct {
		name, text, want string
	}{
		{"brackets", strings.Repeat("[", size), "brackets are nested more than 32 deep"},
		{"braces", strings.Repeat("{a: ", size/4), "brackets are nested more than 32 deep"},
		{"dashes", strings.Repeat("- ", size/2), "line opens more than 64 collections"},
		{"colons", strings.Repeat("a: ", size/3), "line opens more than 64 collections"},
		{"long key", strings.Repeat("k", maxKey+1) + ": v\n", "key has more than 1024 bytes"},
		{"indentation", indented.String(), "values are nested more than 32 deep"},
		{"keys", keys.String(), "file has more than 10000 keys outside of braces"},
		{"tokens", "[" + strings.Repeat("[],", size/3) + "]", "file has more than 100000 tokens"},
	} {
		t.Run(c.name, func(t *testing.T) {
			began := time.Now()
			_, mistakes := Parse([]byte(c.text))
			t.Logf("%d bytes took %v", len(c.text), time.Since(began))
			if len(mistakes) == 0 || mistakes[0].Text != c.want && mistakes[len(mistakes)-1].Text != c.want {
				t.Errorf("got %.5v, want %s", mistakes, c.want)
			}
		})
	}
}

// TestOneLine: what stands in one line takes no longer than what stands in many;
// a file of the largest size is read or refused in far less than it would take in
// the square of it. Each was seen to take more than a minute, with the characters
// of the line counted anew for each token, or with an error that draws the file.
func TestOneLine(t *testing.T) {
	repeat := func(before, each, after string) string {
		return before + strings.Repeat(each, (MaxBytes-len(before)-len(after))/len(each)) + after
	}
	for name, text := range map[string]string{
		"list":              repeat("a: [", "nnnnnnnnnnnnnnnnnnnnn, ", "]"),
		"list of texts":     repeat("[", `"nnnnnnnnnnnnnnnnnnnn",`, "]"),
		"mapping":           "{" + strings.Repeat(`"nnnnnnn": 1, `, 24_000) + "}",
		"keys only":         repeat("{", "nnnnnnnnnnnnnnnnnnnnn, ", "}"),
		"empty lists":       "[" + strings.Repeat("[],", 33_000) + "]",
		"spaces":            "[" + strings.Repeat(" ", MaxBytes/2) + strings.Repeat("n,", 49_000) + "]",
		"commas":            "[" + strings.Repeat(",", 99_000) + "]",
		"list that goes on": "[" + strings.Repeat("n,", 49_000),
		"colons":            "[" + strings.Repeat("n: ", 49_000),
		"colons in a text":  repeat("{n: n", ":n", "}"),
	} {
		t.Run(name, func(t *testing.T) {
			began := time.Now()
			root, mistakes := Parse([]byte(text))
			took := time.Since(began)
			t.Logf("%d bytes took %v", len(text), took)
			if root == nil && len(mistakes) == 0 {
				t.Error("neither a tree nor a mistake")
			}
			if took > 20*time.Second {
				t.Errorf("it took %v", took)
			}
		})
	}
}

// TestLongLine: a line may hold more than 64 collections and keys, if they are in
// brackets. Seen to fail with a bound that counts those too.
func TestLongLine(t *testing.T) {
	text := `{"a": {"k": {}`
	for i := range 100 {
		text += fmt.Sprintf(`, "k%d": {"x": [%d]}`, i, i)
	}
	root, mistakes := Parse([]byte(text + "}}"))
	if len(mistakes) > 0 || len(root.Entries) != 1 || len(root.Entries[0].Value.Entries) != 101 {
		t.Errorf("got %v, %v", root, mistakes)
	}
}

// toJSON is the value of a node as encoding/json would read it.
func toJSON(n *Node) any {
	switch n.Kind {
	case Bool:
		return n.Text == "true"
	case Number:
		return json.Number(n.Text)
	case Text:
		return n.Text
	case Sequence:
		items := []any{}
		for _, item := range n.Items {
			items = append(items, toJSON(item))
		}
		return items
	case Mapping:
		object := map[string]any{}
		for _, e := range n.Entries {
			object[e.Key] = toJSON(e.Value)
		}
		return object
	default:
		return nil
	}
}

// TestJSONIsYAML: whatever JSON says, the same values come out.
func TestJSONIsYAML(t *testing.T) {
	text := rapid.OneOf(
		rapid.StringOf(rapid.RuneFrom([]rune(`ab:#,[]{}"'\/*&!|>%@- <~`+"`?=.0é😀\n\t\u2028\u0085"))),
		rapid.SampledFrom([]string{"", "<<", "null", "true", "12", "- a", "a: b", "# c", "---", "...", "&a", "*a", "!!str", "~", "=", "0x1F"}),
	)
	key := text.Filter(func(s string) bool { return !strings.ContainsAny(s, "\n\t\u0085") })
	var value func(depth int) *rapid.Generator[any]
	value = func(depth int) *rapid.Generator[any] {
		options := []*rapid.Generator[any]{
			rapid.Just[any](nil),
			rapid.Bool().AsAny(),
			text.AsAny(),
			rapid.SampledFrom([]json.Number{"0", "-1", "9007199254740993", "0.10", "1e400", "-2.5E-3", "1E+2"}).AsAny(),
		}
		if depth > 0 {
			options = append(options, rapid.SliceOfN(value(depth-1), 0, 3).AsAny(), rapid.MapOfN(key, value(depth-1), 0, 3).AsAny())
		}
		return rapid.OneOf(options...)
	}
	rapid.Check(t, func(t *rapid.T) {
		want := any(rapid.MapOfN(key, value(3), 0, 4).Draw(t, "value"))
		var data []byte
		var err error
		switch rapid.IntRange(0, 2).Draw(t, "indent") {
		case 0:
			data, err = json.Marshal(want)
		case 1:
			data, err = json.MarshalIndent(want, "", "  ")
		default:
			data, err = json.MarshalIndent(want, "", "\t")
		}
		if err != nil {
			t.Fatal(err)
		}
		root, mistakes := Parse(data)
		if len(mistakes) != 0 {
			t.Fatalf("%s\nmistakes: %v", data, mistakes)
		}
		if got := toJSON(root); !reflect.DeepEqual(got, want) {
			t.Fatalf("%s\ngot  %#v\nwant %#v", data, got, want)
		}
	})
}

func FuzzParse(f *testing.F) {
	for _, seed := range []string{
		"", "a: b\n", "{\"a\": [1, 2.5e3, null, true]}", "a: &x [*x]\n", "a: |\n  x\n", "? a\n: b\n", "{a:b, c: d:e}", "- - - a\n", "a: !!str b\n---\nc\n",
		"%YAML 1.2\n---\na: 'b\n", "a: >+\n\n b\n\n", "\ufeff# c\r\n", "a:\n  b: {c: [d, e: f]}\n<<: *x\n", "- \"\\x41\\\n  b\"\n",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		root, mistakes := Parse(data)
		if root == nil && len(mistakes) == 0 {
			t.Error("neither a tree nor a mistake")
		}
		for _, m := range mistakes {
			if m.At.Line < 1 || m.At.Column < 1 || m.Text == "" {
				t.Errorf("mistake without a place or a text: %+v", m)
			}
		}
		if root == nil {
			return
		}
		walk(t, root, 0)
	})
}

func walk(t *testing.T, n *Node, depth int) {
	if depth > MaxDepth+1 {
		t.Fatal("nested too deep")
	}
	if n.Kind == Number && !json.Valid([]byte(n.Text)) && n.Text != "" {
		t.Errorf("%q is no JSON number", n.Text)
	}
	for _, item := range n.Items {
		walk(t, item, depth+1)
	}
	seen := map[string]bool{}
	for _, e := range n.Entries {
		if seen[e.Key] {
			t.Errorf("key %q twice", e.Key)
		}
		seen[e.Key] = true
		walk(t, e.Value, depth+1)
	}
}
