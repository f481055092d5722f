package state

import (
	"encoding/json"
	"os"
	"regexp"
	"strings"
	"testing"
)

// TestAuditHasNoSecrets: wherever they are, hunter2 is in no line, and what is not
// secret is. Seen to fail with keys that are compared without decoding them.
func TestAuditHasNoSecrets(t *testing.T) {
	key := "-----BEGIN OPENSSH PRIVATE KEY-----\nhunter2\nhunter2==\n-----END OPENSSH PRIVATE KEY-----"
	quoted := func(text string) string { return string(quoteJSON(text)) }
	for name, c := range map[string]struct {
		input, want string
	}{
		"key":              {`{"password":"hunter2","keep":"it"}`, `{"password":"[redacted]","keep":"it"}`},
		"spelled":          {`{"DB_Pass\u0077ord" : "hunter2", "X-Api-Key":"hunter2","accessToken":"hunter2"}`, ""},
		"escaped":          {`{"password":"a\"hunter2\\","b":1}`, `{"password":"[redacted]","b":1}`},
		"nested":           {`{"secrets":{"a":["hunter2",{"b":"hunter2"}]},"keep":"it"}`, `{"secrets":"[redacted]","keep":"it"}`},
		"deep":             {`[[{"a":{"token":"hunter2"}}],"it"]`, `[[{"a":{"token":"[redacted]"}}],"it"]`},
		"number":           {`{"api_key":12345,"max_tokens":100,"tokens":["hunter2"],"password":null}`, `{"api_key":"[redacted]","max_tokens":100,"tokens":"[redacted]","password":null}`},
		"private key":      {`{"content":` + quoted("a\n"+key+"\nb") + `}`, `{"content":"a\n-----BEGIN OPENSSH PRIVATE KEY-----[redacted]-----END OPENSSH PRIVATE KEY-----\nb"}`},
		"cut private key":  {`{"content":` + quoted(strings.TrimSuffix(key, "-----END OPENSSH PRIVATE KEY-----")) + `}`, ""},
		"header":           {`{"command":"curl -H 'Authorization: Digest a hunter2' http://x"}`, `{"command":"curl -H 'Authorization: [redacted]' http://x"}`},
		"bearer":           {`["Bearer hunter2.hunter2"]`, `["Bearer [redacted]"]`},
		"escaped bearer":   {`["\u0042earer hunter2.hunter2"]`, `["Bearer [redacted]"]`},
		"assignment":       {`{"command":"GITHUB_TOKEN=hunter2 gh pr list"}`, `{"command":"GITHUB_TOKEN=[redacted] gh pr list"}`},
		"option":           {`{"command":"mysql --password hunter2 -u root"}`, `{"command":"mysql --password [redacted] -u root"}`},
		"quoted option":    {`{"command":"x --api-key='hunter2 hunter2' y"}`, `{"command":"x --api-key=[redacted] y"}`},
		"address":          {`{"url":"https://me:hunter2@example.com/a"}`, `{"url":"https://me:[redacted]@example.com/a"}`},
		"JSON in a string": {`{"body":"{\"user\":\"it\",\"password\":\"hunter2\"}"}`, `{"body":"{\"user\":\"it\",\"password\":[redacted]}"}`},
		"given out":        {`{"a":"ghp_hunter2hunter2hunter2hunter2"}`, `{"a":"[redacted]"}`},
		"torn":             {`{"a":1,"password":"hunter2`, quoted(`{"a":1,"password":"[redacted]"`)},
		"torn in a value":  {`{"secret":{"a":["hunter2"`, ""},
		"not JSON":         {`password=hunter2 and more`, quoted(`password=[redacted] and more`)},
		"not JSON at all":  {"\x00\xffpassword: hunter2", ""},
		"configured":       {`{"pin":4711,"note":"code hunter2!"}`, quoted(`{"pin":[redacted],"note":"code [redacted]!"}`)},
		"prose":            {`{"text":"the token is in the basic plan; secretary, 1 token"}`, `{"text":"the token is in the basic plan; secretary, 1 token"}`},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			a := audit(t, dir, regexp.MustCompile(`\b4711\b`), regexp.MustCompile(`code (hunter2)`))
			e := AuditEntry{Kind: AuditStart, Input: json.RawMessage(c.input)}
			if name != "number" { // where the rest is no text of a line of its own
				e.Resources, e.Reason, e.Extra = []string{"x", c.input}, c.input, map[string]string{"a": c.input, "token": "hunter2"}
			}
			given := strings.Clone(c.input)
			resources := []string{"x", c.input}
			mustAppend(t, a, e)
			raw, err := os.ReadFile(auditFileOf(dir, 0))
			if err != nil {
				t.Fatal(err)
			}
			got := mustRead(t, dir, AuditFilter{}, 0)[0]
			if c.want != "" && string(got.Input) != c.want {
				t.Errorf("got %s\nwant %s", got.Input, c.want)
			}
			if strings.Contains(string(got.Input), "hunter2") {
				t.Errorf("the input has it: %s", got.Input)
			}
			if name == "key" && strings.Contains(string(raw), "hunter2") {
				t.Errorf("the line has it: %s", raw)
			}
			if string(e.Input) != given || len(e.Resources) > 0 && e.Resources[1] != resources[1] {
				t.Error("what was handed in was changed")
			}
		})
	}
}

// TestAuditRedactsResources as they are spelled there.
func TestAuditRedactsResources(t *testing.T) {
	dir := t.TempDir()
	a := audit(t, dir)
	mustAppend(t, a, AuditEntry{
		Kind: AuditRequest, Resources: []string{"curl https://me:hunter2@example.com", "PASSWORD=hunter2 make"}, Reason: "Bearer hunter2hunter2",
		Extra: map[string]string{"client_secret": "hunter2", "command": "x --token hunter2"},
	})
	raw, err := os.ReadFile(auditFileOf(dir, 0))
	if err != nil || strings.Contains(string(raw), "hunter2") || !strings.Contains(string(raw), "example.com") {
		t.Errorf("got %s, %v", raw, err)
	}
}

// TestAuditRedactsWhatIsCut: a secret that would be cut in two is found before. Seen to
// fail with a small window, and with strings that are decoded only if they are whole.
func TestAuditRedactsWhatIsCut(t *testing.T) {
	dir := t.TempDir()
	a := audit(t, dir, regexp.MustCompile(`<(?:hunter2)+>`))
	for _, before := range []int{0, 150, 40_000, MaxAuditLine - 300, MaxAuditLine - 40, MaxAuditLine, redactWindow - 20} {
		x := strings.Repeat("x", before)
		for _, secret := range []string{"<" + strings.Repeat("hunter2", 100) + ">", `password="` + strings.Repeat("hunter2", 20_000) + `"`} {
			text := x + " " + secret + " " + strings.Repeat("y", MaxAuditLine)
			mustAppend(t, a, AuditEntry{Kind: AuditStart, Input: quoteJSON(text)})
			mustAppend(t, a, AuditEntry{Kind: AuditStart, Reason: text})
			mustAppend(t, a, AuditEntry{Kind: AuditStart, Input: json.RawMessage(`{"x":"` + x + `","token":` + string(quoteJSON(secret)))})
		}
	}
	for i, e := range mustRead(t, dir, AuditFilter{}, 0) {
		if strings.Contains(string(e.Input)+e.Reason, "hunter") {
			t.Errorf("entry %d has it", i)
		}
	}
}

// FuzzAuditRedact: any input gives a line that can be read, and a valid input stays
// valid but for what configured patterns do; and whatever text is before it, a secret
// within the same quotes is not there any more.
func FuzzAuditRedact(f *testing.F) {
	for _, seed := range []string{`{"password":"x","a":[1,{"token":2}]}`, `{"a":"\u00`, `"`, `{"secret":`, `{"secret":[}`, "password=\"a\\", `{"a":1}}`, `[{"token":{"a":"]"}},2]`} {
		f.Add([]byte(seed), "-----BEGIN PRIVATE KEY-----")
	}
	r := newRedactor(nil)
	f.Fuzz(func(t *testing.T, input []byte, text string) {
		e := AuditEntry{Kind: AuditStart, Input: input, Reason: text, Resources: []string{text}}
		line, err := encodeAudit(r.entry(e))
		var back AuditEntry
		if err != nil || len(line) > MaxAuditLine || json.Unmarshal(line, &back) != nil || strings.Count(string(line), "\n") != 1 {
			t.Fatalf("got %q, %v", line, err)
		}
		const secret = "hunter2XYZZY"
		if e := r.entry(AuditEntry{Input: json.RawMessage(`{"a":` + string(quoteJSON(text)) + `,"password":` + string(quoteJSON(text+secret)) + `}`)}); strings.Contains(string(e.Input), secret) {
			t.Fatalf("a value of JSON: %s", e.Input)
		}
		word := "--password='" + strings.ReplaceAll(text, "'", "") + secret + "' x"
		if clean := r.text(word, 0); strings.Contains(clean, secret) {
			t.Fatalf("%q became %q", word, clean)
		}
		if json.Valid(input) && len(input) < MaxAuditLine/8 && !json.Valid(r.json(input)) {
			t.Fatalf("%q became %q", input, r.json(input))
		}
	})
}
