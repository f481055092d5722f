package permission

import (
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// rule makes a rule that stands in a file of the test.
func rule(action, resource string, effect Effect) Rule {
	return Rule{Action: mustParse(action), Resource: mustParse(resource), Effect: effect, Source: "toolhost.yaml:1"}
}

func allow(action, resource string) Rule { return rule(action, resource, Allow) }
func ask(action, resource string) Rule   { return rule(action, resource, Ask) }
func deny(action, resource string) Rule  { return rule(action, resource, Deny) }

func list(rules ...Rule) List { return List{Rules: rules} }

// TestLaw31RuleEvaluation. Seen to fail with the first match winning, with the
// laxest file winning, and with the defaults counted as one more file.
func TestLaw31RuleEvaluation(t *testing.T) {
	defaults := list(allow("read", "*"), ask("read", "*.key"))
	for _, c := range []struct {
		name             string
		lists            []List
		action, resource string
		want             Effect
	}{
		{"last match wins", []List{list(deny("read", "*"), allow("read", "a*"))}, "read", "abc", Allow},
		{"last match wins, the other way", []List{list(allow("read", "a*"), deny("read", "*"))}, "read", "abc", Deny},
		{"a later rule that does not match changes nothing", []List{list(deny("read", "a"), allow("read", "b"))}, "read", "a", Deny},
		{"strictest file wins: deny", []List{list(deny("read", "*")), list(allow("read", "*"))}, "read", "a", Deny},
		{"strictest file wins, in either order", []List{list(allow("read", "*")), list(deny("read", "*"))}, "read", "a", Deny},
		{"strictest file wins: ask over allow", []List{list(allow("read", "*")), list(ask("read", "*"))}, "read", "a", Ask},
		{"a file without a match abstains", []List{list(deny("edit", "*")), list(allow("read", "*"))}, "read", "a", Allow},
		{"each file by itself: an allow does not undo another file's deny", []List{list(deny("read", "a")), list(allow("read", "a"))}, "read", "a", Deny},
		{"defaults speak when all abstain", []List{list(deny("edit", "*"))}, "read", "a", Allow},
		{"defaults do not speak otherwise", []List{list(allow("read", "*.key"))}, "read", "a.key", Allow},
		{"then it asks", nil, "edit", "a", Ask},
		{"then it asks, for a tool's own action too", nil, "weather/forecast", "*", Ask},
		{"wildcards in actions", []List{list(allow("weather/*", "*"))}, "weather/forecast", "Bern", Allow},
	} {
		t.Run(c.name, func(t *testing.T) {
			policy := &Policy{Lists: c.lists, Defaults: defaults}
			if got := policy.Evaluate(c.action, c.resource, ""); got.Effect != c.want {
				t.Errorf("%s of %q: got %s, want %s", c.action, c.resource, got, c.want)
			}
		})
	}
}

// TestLaw31Model compares Evaluate with the law's sentence, written down naively.
func TestLaw31Model(t *testing.T) {
	actions := []string{"read", "list", "edit", "grep", "p/t", "*", "p/*", "re?d"}
	resources := []string{"*", "a", "a/*", "*/b", "?", "*b*", "."}
	rules := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) Rule {
		r := rule(rapid.SampledFrom(actions).Draw(t, "action"), rapid.SampledFrom(resources).Draw(t, "resource"),
			rapid.SampledFrom([]Effect{Allow, Ask, Deny}).Draw(t, "effect"))
		r.Agent = rapid.SampledFrom([]string{"", "", "main", "helper"}).Draw(t, "agent")
		return r
	}), 0, 6)
	rapid.Check(t, func(t *rapid.T) {
		policy := &Policy{Defaults: List{Rules: rules.Draw(t, "defaults")}}
		for range rapid.IntRange(0, 3).Draw(t, "files") {
			policy.Lists = append(policy.Lists, List{Rules: rules.Draw(t, "rules"), DeniesOnly: rapid.Bool().Draw(t, "denies only")})
		}
		action := rapid.SampledFrom([]string{"read", "list", "edit", "grep", "p/t", "q/t"}).Draw(t, "action")
		resource := rapid.SampledFrom([]string{".", "a", "b", "a/b", "a/a", "x/y/b"}).Draw(t, "resource")
		agent := rapid.SampledFrom([]string{"main", "helper"}).Draw(t, "agent")

		fileSays := func(l List) Effect {
			said := Effect(0)
			for _, r := range l.Rules {
				if (r.Agent == "" || r.Agent == agent) && naiveMatch([]rune(r.Action.text), action) && naiveMatch([]rune(r.Resource.text), resource) {
					said = r.Effect
				}
			}
			if l.DeniesOnly && said != Deny {
				return 0
			}
			return said
		}
		want := Effect(0)
		for _, l := range policy.Lists {
			want = max(want, fileSays(l))
		}
		if want == 0 {
			want = fileSays(policy.Defaults)
		}
		if want == 0 {
			want = Ask
		}
		if got := policy.Evaluate(action, resource, agent); got.Effect != want {
			t.Fatalf("%s of %q for %s: got %s, want %s", action, resource, agent, got, want)
		}
		if got := New(policy, nil).policy.Evaluate(action, resource, agent); got.Effect != want {
			t.Fatalf("sorted: %s of %q for %s: got %s, want %s", action, resource, agent, got, want)
		}
	})
}

// TestLaw40DeniesOnly: of a file that is not trusted nothing but the denies
// holds. Seen to fail without the DeniesOnly check.
func TestLaw40DeniesOnly(t *testing.T) {
	untrusted := List{DeniesOnly: true, Rules: []Rule{allow("edit", "*"), deny("read", "*.txt"), allow("read", "ok.txt"), ask("read", "*.md")}}
	policy := &Policy{Lists: []List{untrusted}, Defaults: list(allow("read", "*"))}
	for _, c := range []struct {
		action, resource string
		want             Effect
	}{
		{"edit", "a", Ask},
		{"read", "a.txt", Deny},
		{"read", "ok.txt", Allow}, // no deny of its own; the defaults allow it
		{"read", "a.md", Allow},
		{"read", "a", Allow},
	} {
		if got := policy.Evaluate(c.action, c.resource, ""); got.Effect != c.want {
			t.Errorf("%s of %q: got %s, want %s", c.action, c.resource, got, c.want)
		}
	}
}

// TestListBase: rules that were written for another directory than the root
// judge the same files.
func TestListBase(t *testing.T) {
	for _, c := range []struct {
		root, base, action, resource string
		want                         Effect
	}{
		{"/p/sub", "/p", "read", "key", Deny},          // sub/key
		{"/p/sub", "/p", "read", "other", Allow},       // sub/other
		{"/p/sub", "/p", "list", ".", Deny},            // sub
		{"/p/sub", "/p", "grep", "sub/key", Deny},      // not a path: as it is
		{"/p/sub", "/p", "grep", "key", Allow},         // not a path: as it is
		{"/", "/p", "read", "p/sub/key", Deny},         // sub/key
		{"/", "/p", "read", "p", Allow},                // .
		{"/", "/p", "read", "q/sub/key", Allow},        // outside of the base
		{"/", "/p", "read", "pp/sub/key", Allow},       // outside of the base
		{"/p", "/p", "read", "sub/key", Deny},          // the same directory
		{"/p", "", "read", "sub/key", Deny},            // the same directory
		{"/q", "/p", "read", "sub/key", Allow},         // nothing in common
		{"/p/sub", "/", "read", "key", Allow},          // p/sub/key
		{"/sub", "/", "read", "key", Deny},             // sub/key
		{"/p", "/p/sub", "read", "sub/sub/key", Deny},  // sub/key
		{"/p", "/p/sub", "read", "../sub/k", Deny},     // no path at all
		{"/p/sub", "/p", "read", "x/../key", Deny},     // sub/key, after cleaning
		{"/p/sub", "/p", "read", "x/../other", Allow},  // sub/other, after cleaning
		{"/p/su", "/p", "read", "key", Allow},          // su/key
		{"/p/sub", "/p/sub/", "read", "x.txt", Allow},  // a base with a slash at its end
		{"/p", "/p/sub/", "read", "sub/sub/key", Deny}, // a base with a slash at its end
	} {
		l := list(deny("*", "sub/key"), deny("list", "sub"))
		l.Base = c.base
		policy := &Policy{Root: c.root, Lists: []List{l}, Defaults: list(allow("*", "*"))}
		if got := policy.Evaluate(c.action, c.resource, ""); got.Effect != c.want {
			t.Errorf("root %s, base %s, %s of %q: got %s, want %s", c.root, c.base, c.action, c.resource, got, c.want)
		}
	}
}

// TestCaseC19SpellingVariants: every spelling of a path gets the path's answer,
// and what is no path is denied. Seen to fail without the cleaning.
func TestCaseC19SpellingVariants(t *testing.T) {
	policy := &Policy{Lists: []List{list(deny("read", ".env"), deny("edit", "d/e"))}, Defaults: list(allow("*", "*"))}
	for _, resource := range []string{
		".env", "./.env", "a/../.env", ".//.env", ".env/", "./a/./../.env", ".env\x00x", "../w/.env", "/w/.env", "..", "", "a/../../.env",
	} {
		if got := policy.Evaluate("read", resource, ""); got.Effect != Deny {
			t.Errorf("read of %q: got %s, want denied", resource, got)
		}
	}
	if got := policy.Evaluate("edit", "./d//x/../e", ""); got.Effect != Deny {
		t.Errorf("edit: got %s, want denied", got)
	}
	for _, resource := range []string{"a", ".env2", "..a", "a..", "...", "."} {
		if got := policy.Evaluate("read", resource, ""); got.Effect != Allow {
			t.Errorf("read of %q: got %s, want allowed", resource, got)
		}
	}
	// A pattern of glob, or a tool's own resource, is no path and stays as it is.
	for _, action := range []string{"glob", "grep", "web/open"} {
		if got := policy.Evaluate(action, "https://h//p/../q", ""); got.Effect != Allow {
			t.Errorf("%s: got %s, want allowed", action, got)
		}
	}
}

// TestCaseC21MalformedRule: a rule that can match nothing, or less than it seems to,
// is an error. Seen to fail with ParsePattern in place of ParseAction and ParseResource.
func TestCaseC21MalformedRule(t *testing.T) {
	plugins := []string{"weather", "C D", "a.b"}
	unknown := ": an action is one of read, list, glob, grep, edit, shell, or plugin/tool of a configured plugin"
	for _, c := range []struct{ text, want string }{
		{"", `action: pattern is empty; "*" matches everything`},
		{"bash(", `action "bash(" is unknown` + unknown},
		{"proc.rum:*", `action "proc.rum:*" is unknown` + unknown},
		{"Read", `action "Read" is unknown` + unknown},
		{"weather", `action "weather" is unknown` + unknown},
		{"weather/", `action "weather/" is unknown` + unknown},
		{"wether/*", `action "wether/*" is unknown` + unknown},
		{"a/b", `action "a/b" is unknown` + unknown},
		{"x*/y", `action "x*/y" is unknown` + unknown},
	} {
		if _, err := ParseAction(c.text, plugins); err == nil || err.Error() != c.want {
			t.Errorf("action %q: got %v, want %s", c.text, err, c.want)
		}
	}
	for _, text := range []string{
		"read", "*", "gr?p", "weather/forecast", "weather/*", "w*", "?eather/x", "C D/x", "a.b/c/d", "*/forecast", "weather/?",
	} {
		if _, err := ParseAction(text, plugins); err != nil {
			t.Errorf("action %q: %v", text, err)
		}
	}

	for _, c := range []struct{ action, text, want string }{
		{"*", "", `resource: pattern is empty; "*" matches everything`},
		{"read", "", `resource: pattern is empty; "*" matches everything`},
		{"read", "/etc/passwd", `resource "/etc/passwd" matches no path: paths are relative to the Location's root`},
		{"read", "./.env", `resource "./.env" matches no path: paths are judged in their shortest form, such as ".env"`},
		{"edit", "a//b", `resource "a//b" matches no path: paths are judged in their shortest form, such as "a/b"`},
		{"list", "secret/", `resource "secret/" matches no path: what is below the directory is "secret/*"`},
		{"read", "../x", `resource "../x" matches no path: it leaves the Location's root`},
		{"read", "a/../..", `resource "a/../.." matches no path: it leaves the Location's root`},
		{"read", "**/*.pem", `resource "**/*.pem" does not match what it does in a glob: here * crosses directories, and the slash behind it must be there; write "*.pem"`},
		{"edit", "a/**/*.go", `resource "a/**/*.go" does not match what it does in a glob: here * crosses directories, and the slash behind it must be there; write "a/*.go"`},
		{"list", "**/.ssh", `resource "**/.ssh" does not match what it does in a glob: here * crosses directories, and the slash behind it must be there; write ".ssh" and "*/.ssh"`},
		{"read", "a/**/b/**/c", `resource "a/**/b/**/c" does not match what it does in a glob: here * crosses directories, and the slash behind it must be there; write "*" for any part of a path`},
	} {
		if _, err := ParseResource(c.text, mustParse(c.action)); err == nil || err.Error() != c.want {
			t.Errorf("resource %q: got %v, want %s", c.text, err, c.want)
		}
	}
	for _, c := range []struct{ action, text string }{
		{"read", "."}, {"read", "*"}, {"read", "secrets/**"}, {"read", `\**/x`}, {"glob", "**/x"}, {"read", "..."}, {"glob", "./x"}, {"*", "https://h//p"}, {"weather/x", "/"},
	} {
		if _, err := ParseResource(c.text, mustParse(c.action)); err != nil {
			t.Errorf("resource %q of %s: %v", c.text, c.action, err)
		}
	}

	if _, err := ParseEffect("Deny"); err == nil || err.Error() != `effect "Deny" is unknown; it is one of allow, ask, deny` {
		t.Errorf("effect: got %v", err)
	}
	for _, name := range Effects() {
		if e, err := ParseEffect(name); err != nil || e.String() != name {
			t.Errorf("effect %q: got %v, %v", name, e, err)
		}
	}
}

// TestCaseC23CanonicalIDs: a rule for one plugin's tool never applies to another
// whose name reads alike. Seen to fail with "/" and "_" taken for the same.
func TestCaseC23CanonicalIDs(t *testing.T) {
	for _, c := range []struct {
		action string
		want   map[string]Effect
	}{
		{"a_b/c", map[string]Effect{"a_b/c": Deny, "a/b_c": Ask, "a_b_c": Ask}},
		{"a/*", map[string]Effect{"a/b_c": Deny, "a_b/c": Ask, "a": Ask}},
		{"a_b/*", map[string]Effect{"a_b/c": Deny, "a/b_c": Ask}},
	} {
		policy := &Policy{Lists: []List{list(deny(c.action, "*"))}}
		for action, want := range c.want {
			if got := policy.Evaluate(action, "*", ""); got.Effect != want {
				t.Errorf("rule for %s, action %s: got %s, want %s", c.action, action, got, want)
			}
		}
	}
}

func TestAgentRules(t *testing.T) {
	helper := allow("edit", "*")
	helper.Agent = "helper"
	policy := &Policy{Lists: []List{list(deny("edit", "*"), helper)}}
	for agent, want := range map[string]Effect{"helper": Allow, "main": Deny, "": Deny, "Helper": Deny} {
		if got := policy.Evaluate("edit", "a", agent); got.Effect != want {
			t.Errorf("agent %q: got %s, want %s", agent, got, want)
		}
	}
}

func TestDefaults(t *testing.T) {
	policy := &Policy{Defaults: Defaults()}
	for resource, want := range map[string]Effect{
		"main.go": Allow, ".": Allow, ".envoy/x": Allow, "env": Allow, "keys/a.txt": Allow, "monkey": Allow, "a.key.go": Allow,
		".env": Ask, "a/b/.env": Ask, ".env.local": Ask, "a/.env.production": Ask, "x.pem": Ask, "a/x.key": Ask,
		"id_rsa": Ask, "home/.ssh/config": Ask, "a/id_ed25519_work": Ask, "a/.netrc": Ask,
		".env.example": Allow, "a/.env.sample": Allow, "id_rsa.pub": Allow, "a/.ssh/id_ed25519.pub": Allow,
		"id_rsa_dir/.env.pub": Ask,
	} {
		if got := policy.Evaluate("read", resource, ""); got.Effect != want {
			t.Errorf("read of %q: got %s, want %s", resource, got, want)
		}
	}
	for action, want := range map[string]Effect{
		"list": Allow, "glob": Allow, "grep": Allow, "edit": Ask, "weather/forecast": Ask, "shell": Ask, "": Ask,
	} {
		if got := policy.Evaluate(action, ".env", ""); got.Effect != want {
			t.Errorf("%s: got %s, want %s", action, got, want)
		}
	}
}

func TestVerdictText(t *testing.T) {
	secrets := deny("read", "*.env")
	secrets.Reason, secrets.Source = "secrets", "toolhost.yaml:12"
	policy := &Policy{Lists: []List{list(secrets, deny("read", "x"), allow("read", "y"))}, Defaults: Defaults()}
	for _, c := range []struct{ action, resource, want string }{
		{"read", "a.env", "denied by toolhost.yaml:12: secrets"},
		{"read", "x", "denied by toolhost.yaml:1"},
		{"read", "y", "allowed by toolhost.yaml:1"},
		{"read", "id_rsa", "asked for by default: may hold secrets"},
		{"edit", "z", "asked for: no rule speaks of it"},
		{"edit", "../z", "denied: it is not a path below the root"},
	} {
		if got := policy.Evaluate(c.action, c.resource, "").String(); got != c.want {
			t.Errorf("%s of %s: got %q, want %q", c.action, c.resource, got, c.want)
		}
	}
}

// TestEvaluateAllocatesNothing: it is asked once for every file of a search.
func TestEvaluateAllocatesNothing(t *testing.T) {
	policy := &Policy{Lists: []List{list(deny("read", "*secret*"), allow("read", "src/*")), list(ask("edit", "*"))}, Defaults: Defaults()}
	gate := New(policy, nil).Gate(Caller{Plugin: "filesystem", Builtin: true})
	if got := testing.AllocsPerRun(100, func() { gate.Allows("read", "docs/some/longer/path.md") }); got != 0 {
		t.Errorf("got %v allocations, want 0", got)
	}
}

func BenchmarkAllows(b *testing.B) {
	for _, rules := range []int{0, 10, 100} {
		b.Run(fmt.Sprintf("rules=%d", rules), func(b *testing.B) {
			var l List
			for i := range rules {
				l.Rules = append(l.Rules, deny("read", fmt.Sprintf("*/dir%d/*", i)))
			}
			gate := New(&Policy{Lists: []List{l}, Defaults: Defaults()}, nil).Gate(Caller{Builtin: true})
			resource := strings.Repeat("segment/", 6) + "file.go"
			b.ReportAllocs()
			for b.Loop() {
				gate.Allows("read", resource)
			}
		})
	}
}
