package laws

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/toolhost/toolhost/tool"
	"github.com/toolhost/toolhost/tool/registry"
)

// One call runs exactly one of the executor and the commit of what was prepared, at most once, also when it fails; both
// serve several calls at once. The host never retries. Seen to fail: with the executor run in place of the commit, and
// with a call that failed run again.
func TestLaw01SingleExecutor(t *testing.T) {
	everyTransport(t, func(t *testing.T, w *world) {
		p := w.peer("a")
		p.register(map[string]spec{"plain": {Says: "plain"}, "prepares": {Says: "prepares", Prepares: true}})
		for _, tt := range []struct {
			name       string
			o          order
			want, deed string
		}{
			{"plain", order{}, `completed: "plain"…`, "execute"},
			{"plain", order{Do: "error", Text: "x"}, "error, internal, ran true: …", "execute"},
			{"plain", order{Do: "panic", Text: "x"}, "error, internal, ran true: …", "execute"},
			{"plain", order{Do: "fail", Text: "x"}, "failed, failure, ran true: x", "execute"},
			{"prepares", order{}, `completed: "prepares"…`, "prepare, execute"},
			{"prepares", order{Prepare: &preparation{Action: true}}, `completed: "prepares"…`, "prepare, commit"},
			{"prepares", order{Do: "error", Prepare: &preparation{Action: true}}, "error, internal, ran true: …", "prepare, commit"},
		} {
			e := w.call(tt.name, tt.o)
			w.want(e, tt.want)
			if got := w.did(e.call); got != tt.deed {
				t.Errorf("%s %s: got %s, want %s", tt.name, tt.o, got, tt.deed)
			}
		}
		var calls []running
		for range 8 {
			calls = append(calls,
				w.begin(w.request("plain", order{Do: "wait"}.String())),
				w.begin(w.request("prepares", order{Do: "wait", Prepare: &preparation{Action: true}}.String())))
		}
		for _, c := range calls {
			eventually(t, "all run at the same time", func() bool {
				return strings.Contains(w.did(c.call)+".", "e.") || strings.Contains(w.did(c.call), "commit")
			})
		}
		w.releaseAll()
		for i, c := range calls {
			w.want(c.wait(t), []string{`completed: "plain"…`, `completed: "prepares"…`}[i%2])
			if got, want := w.did(c.call), []string{"execute, released", "prepare, commit, released"}[i%2]; got != want {
				t.Errorf("call %d: got %s, want %s", i, got, want)
			}
		}
	})
}

// The key given at registration is the authored name; the effective one is made of it as the law says, and the canonical
// id is made of the authored one. Seen to fail: with a canonical id made of the normalised name.
func TestLaw02Names(t *testing.T) {
	everyTransport(t, func(t *testing.T, w *world) {
		long := strings.Repeat("long.", 20)
		s := w.peer("a.b").offers(command{Tools: map[string]spec{
			"plain": {Says: "plain"}, "a b/ä": {Says: "odd"}, long: {Says: long},
			"execute": {}, "output_read": {}, "output_search": {}, "output.read": {}, "": {}, "bad\nname": {}, strings.Repeat("x", 257): {},
		}})
		if got, want := len(s.refused), 7; got != want {
			t.Errorf("refused %q, want those that are reserved, empty, too long, or with control characters", s.refusedNames())
		}
		shortened := strings.Repeat("long_", 11) + "_"
		var got []string
		for _, d := range w.definitions() {
			got = append(got, strings.Replace(d.Name, shortened, "SHORT_", 1)+" = "+d.ID)
		}
		if len(got) != 3 || got[0] != "a_b__ = a.b/a b/ä" || !strings.HasPrefix(got[1], "SHORT_") || len(got[1]) != len("SHORT_12345678 = a.b/")+len(long) || got[2] != "plain = a.b/plain" {
			t.Errorf("got %q", got)
		}
		e := w.call("a_b__", order{Do: "show"})
		w.want(e, `completed: "{\"do\":\"show\"}"…`)
		if d := w.deeds(e.call); len(d) != 1 || d[0].Tool != "a.b/a b/ä" || d[0].Says != "odd" {
			t.Errorf("got %+v, want the canonical id", d)
		}
		for _, asked := range w.approver.questions() {
			if asked != "a.b/a b/ä *" {
				t.Errorf("asked %q, want the canonical id", asked)
			}
		}
	})
}

// Within one owner the latest active registration of a name wins; closing reveals; between plugins a name has one owner.
// Seen to fail: with the oldest registration winning, and with a registration that gives up its names when it is closed.
func TestLaw03ScopedRegistration(t *testing.T) {
	everyTransport(t, func(t *testing.T, w *world) {
		a := w.peer("a")
		says := func(name, want string) {
			t.Helper()
			got := w.call(name, order{})
			if want == "" {
				w.want(got, "rejected, …")
				return
			}
			w.want(got, fmt.Sprintf("completed: %q…", want))
		}
		one := a.register(map[string]spec{"x": {Says: "one"}, "only": {Says: "only"}})
		two := a.register(map[string]spec{"x": {Says: "two"}})
		three := a.register(map[string]spec{"x": {Says: "three"}})
		says("x", "three")
		two.close() // a loser
		says("x", "three")
		three.close() // the winner
		says("x", "one")
		two.close() // again
		three.close()
		says("x", "one")
		says("only", "only")

		b := w.peer("b")
		b.offers(command{Tools: map[string]spec{"x": {Says: "b"}, "theirs": {Says: "theirs"}}})
		says("x", "") // two outside plugins: neither
		says("theirs", "theirs")
		for _, owner := range []string{"a", "b"} {
			if got := w.Refusals(owner); len(got) != 1 || got[0].Name != "x" {
				t.Errorf("%s: got %v, want that x is reported", owner, got)
			}
		}
		builtin := w.peerOf(registry.Owner{Name: "builtin", Builtin: true, Digest: "builtin"})
		builtin.register(map[string]spec{"x": {Says: "builtin"}, "theirs": {Says: "builtin"}})
		says("x", "builtin")
		says("theirs", "builtin")
		c := w.peerOf(registry.Owner{Name: "c", Override: []string{"x"}, Digest: "c"})
		c.offers(command{Tools: map[string]spec{"x": {Says: "c"}, "theirs": {Says: "c"}}})
		says("x", "c")
		says("theirs", "builtin")
		c.crash() // and nobody moves in
		says("x", "")
		c.start()
		c.register(map[string]spec{"x": {Says: "c again"}})
		says("x", "c again")
		one.close()
		says("x", "c again")

		equal := a.offers(command{Tools: map[string]spec{"y.z": {Says: "1"}, "y_z": {Says: "2"}, "y z": {Says: "3"}, "apart": {Says: "apart"}}})
		if got := equal.refusedNames(); got != "y z y.z y_z" {
			t.Errorf("refused %q, want all that become equal", got)
		}
		says("y_z", "")
		says("apart", "apart")
	})
}

// What the caller does later to what it registered changes nothing; one value may stand under two names and with two
// owners. Seen to fail: with the requests of a tool not copied.
func TestLaw04CapturedValues(t *testing.T) {
	everyTransport(t, func(t *testing.T, w *world) {
		if w.over != fake { // over the wire there are only copies; that of the SDK is proved in sdk.TestLaw04CapturedValues
			a, b := w.peer("a"), w.peer("b")
			same := spec{Says: "same", Description: "same"}
			a.register(map[string]spec{"one": same, "two": same})
			b.register(map[string]spec{"three": same})
			for _, name := range []string{"one", "two", "three"} {
				w.want(w.call(name, order{}), `completed: "same"…`)
			}
			return
		}
		value := (&peer{w: w}).body().tool(spec{
			Says: "before", Description: "before", Input: `{"type":"object","properties":{"a":{"type":"string"}}}`,
			Requests: []tool.PermissionRequest{{Action: "a/one", Resources: []string{"before"}}}, Targets: []string{"a"},
		})
		tools := map[string]tool.Tool{"one": value, "two": value}
		if _, report := w.Register(registry.Owner{Name: "a"}, tools); len(report.Refused) > 0 {
			t.Fatal(report)
		}
		before := quoted(w.definitions())
		copy(value.Input, bytes.Repeat([]byte(" "), len(value.Input)))
		value.Requests[0].Action, value.Requests[0].Resources[0], value.Targets[0] = "a/after", "after", "after"
		tools["one"] = tool.Tool{Description: "after"}
		delete(tools, "two")
		tools["three"] = value
		if after := quoted(w.definitions()); !bytes.Equal(before, after) {
			t.Errorf("got %s\nwant %s", after, before)
		}
		for _, name := range []string{"one", "two"} {
			w.want(w.call(name, order{}), `completed: "before"…`)
		}
		if got := w.approver.questions(); len(got) != 2 || got[0] != "a/one before" {
			t.Errorf("asked %q, want what was requested before", got)
		}
		other := newWorld(t, fake, t.TempDir(), settings{})
		other.Register(registry.Owner{Name: "a"}, map[string]tool.Tool{"one": w.peer("x").body().tool(spec{Says: "elsewhere"})})
		other.want(other.call("one", order{}), `completed: "elsewhere"…`)
	})
}

// A tool with an invalid name or schema is refused with the fragment, and the others stand. Seen to fail: with one bad
// tool refusing the whole registration.
func TestLaw05OneBadTool(t *testing.T) {
	everyTransport(t, func(t *testing.T, w *world) {
		s := w.peer("a").offers(command{Tools: map[string]spec{
			"good":       {Says: "good"},
			"type":       {Input: `{"type":"object","properties":{"n":{"type":"int"}}}`},
			"no object":  {Input: `{"type":"array"}`},
			"no json":    {Input: `{"type":`},
			"output":     {Output: `{"minimum":"5"}`},
			"structured": {Structured: `{"$ref":"#/nowhere"}`},
			"remote":     {Input: `{"type":"object","properties":{"a":{"$ref":"https://example.com/a.json"}}}`},
			"bad\x00":    {},
			"also good":  {Says: "also good"},
		}})
		for name, want := range map[string]string{
			"type": `"int"`, "no object": `array`, "no json": `end of the text`, "output": `minimum`,
			"structured": `nowhere`, "remote": `example.com`, "bad\x00": "control characters",
		} {
			if got := s.refused[name]; !strings.Contains(got, want) && name != "bad\x00" {
				t.Errorf("%s: got %q, want it refused for %q", name, got, want)
			}
		}
		if len(s.refused) != 7 {
			t.Errorf("refused %q", s.refusedNames())
		}
		if got := w.Refusals("a"); len(got) != 7 {
			t.Errorf("the registry reports %v", got)
		}
		w.want(w.call("good", order{}), `completed: "good"…`)
		w.want(w.call("also_good", order{}), `completed: "also good"…`)
	})
}

// A Location's tools win over the program's, which share the type and get no service. Seen to fail: with the gate handed
// to application tools, and with those tools beside the Location's.
func TestLaw06Placements(t *testing.T) {
	everyTransport(t, func(t *testing.T, w *world) {
		gated := make(chan bool, 1)
		application, _ := w.Register(registry.Owner{Name: "program", Application: true}, map[string]tool.Tool{
			"shared": (&peer{w: w}).body().tool(spec{Says: "program"}),
			"own": {Execute: func(_ context.Context, call tool.Call) (tool.Result, error) {
				gated <- call.Gate != nil
				return said("own"), nil
			}},
		})
		w.want(w.call("shared", order{}), `completed: "program"…`)
		standing := w.peer("a").register(map[string]spec{"shared": {Says: "plugin"}})
		w.want(w.call("shared", order{}), `completed: "plugin"…`)
		w.want(w.call("own", order{}), `completed: "own"…`)
		if <-gated {
			t.Error("a tool of the program got a service of the Location")
		}
		standing.close()
		w.Forget("a")
		w.want(w.call("shared", order{}), `completed: "program"…`)
		application.Close()
	})
}

// A call runs the tool that its request advertised, whatever was registered since; a restart is no replacement. Seen to
// fail: with the latest tool run, and with any digest taken for the same one.
func TestLaw07CapturedExecution(t *testing.T) {
	everyTransport(t, func(t *testing.T, w *world) {
		p := w.peer("a")
		first := p.register(map[string]spec{"x": {Says: "first", Description: "x"}})
		captured := w.Capture()
		in := func() ended { return w.callIn(context.Background(), captured, w.request("x", "")) }
		p.register(map[string]spec{"x": {Says: "second", Description: "x"}})
		w.want(in(), `completed: "first"…`)
		first.close()
		w.want(in(), `completed: "first"…`)
		w.want(w.call("x", order{}), `completed: "second"…`)

		// The process is gone: unavailable, and never a different tool.
		p.crash()
		w.want(in(), `rejected, unavailable, ran false: …`)
		p.start()
		other := p.register(map[string]spec{"x": {Says: "another", Description: "another"}})
		w.want(in(), `rejected, unavailable, ran false: …`)
		w.want(w.call("x", order{}), `completed: "another"…`)
		other.close()
		p.register(map[string]spec{"x": {Says: "same again", Description: "x"}})
		w.want(in(), `completed: "same again"…`)

		// Equal bytes under another digest are another tool.
		p.crash()
		p.owner.Digest = "another digest"
		p.start()
		p.register(map[string]spec{"x": {Says: "stranger", Description: "x"}})
		w.want(in(), `rejected, unavailable, ran false: …`)
	})
}

// The same registrations give the same bytes, sorted by name, in whatever order they came. Seen to fail: with names in
// the order of a map.
func TestLaw08DeterministicAdvertisement(t *testing.T) {
	everyTransport(t, func(t *testing.T, w *world) {
		specs := map[string]map[string]spec{}
		for _, owner := range []string{"a", "b"} {
			tools := map[string]spec{}
			for n := range 20 {
				tools[fmt.Sprint(owner, "-", n)] = spec{
					Title: "T", Description: fmt.Sprint("D", n), Effects: uint16(tool.Read | tool.Network), Irreversible: n%2 == 0,
					Input:  `{"type":"object", "properties":{"b":{"type":"string"},"a":{"type":"integer"}}, "required":["b","a"]}`,
					Output: `{"type":"object"}`,
				}
			}
			specs[owner] = tools
		}
		a, b := w.peer("a"), w.peer("b")
		a.register(specs["a"])
		b.register(specs["b"])
		want := quoted(w.definitions())
		if again := quoted(w.definitions()); !bytes.Equal(again, want) {
			t.Errorf("got %s\nwant %s", again, want)
		}
		names := w.names()
		for i := 1; i < len(names); i++ {
			if names[i-1] >= names[i] {
				t.Errorf("%q stands before %q", names[i-1], names[i])
			}
		}
		other := newWorld(t, w.over, t.TempDir(), settings{})
		other.peer("b").register(specs["b"])
		other.peer("a").register(specs["a"])
		if got := quoted(other.definitions()); !bytes.Equal(got, want) {
			t.Errorf("in another order\n got %s\nwant %s", got, want)
		}
	})
}

// On an untrusted plugin's connection the services do not exist, and it cannot reach another's registration. Seen to
// fail: with any action assertable, and with services that the SDK hands out whatever was granted (which the host then
// did not know).
func TestLaw09NarrowCapability(t *testing.T) {
	everyTransport(t, func(t *testing.T, w *world) {
		if w.over == fake {
			t.Skip("a fake has no connection, and so no services on it")
		}
		w.write("f", "secret")
		a, b := w.peer("a"), w.peer("b")
		a.register(map[string]spec{"x": {Says: "a"}})
		b.register(map[string]spec{"read": {}, "y": {Says: "b"}})
		for _, o := range []order{{Do: "read", Text: "f"}, {Do: "assert", Text: "f"}} {
			e := w.call("read", o)
			w.want(e, "error, internal, ran true: the tool is unavailable")
			if !strings.Contains(e.cause(), "was not granted") {
				t.Errorf("%s: got %s, want that the grant is missing", o, e.cause())
			}
		}
		// Registrations have the same numbers in every plugin; closing one's own touches no other's.
		b.register(map[string]spec{"z": {Says: "z"}}).close()
		w.want(w.call("x", order{}), `completed: "a"…`)
		// Another's canonical id cannot be asserted.
		granted := newWorld(t, w.over, t.TempDir(), settings{grants: services()})
		granted.peer("c").register(map[string]spec{"forge": {}})
		granted.want(granted.call("forge", order{Do: "assert", Action: "a/x", Text: "f"}),
			`rejected, denied, ran true: a/x of "f" is denied: plugin c may assert only its own actions, c/…`)
	})
}

// A tool that says that it is unavailable is in no list, with its reason beside it; called all the same, it grants
// nothing. Seen to fail: with tools listed though they are unavailable.
func TestLaw10Visibility(t *testing.T) {
	everyTransport(t, func(t *testing.T, w *world) {
		p := w.peer("a")
		hidden := p.register(map[string]spec{"x": {Says: "x", Unavailable: "no network today"}, "y": {Says: "y"}})
		if got := strings.Join(w.names(), " "); got != "y" {
			t.Errorf("listed %q, want y alone", got)
		}
		if got := w.Capture().Unavailable(); len(got) != 1 || got[0].Name != "x" || got[0].Unavailable != "no network today" {
			t.Errorf("unavailable %+v", got)
		}
		e := w.call("x", order{})
		w.want(e, `rejected, unavailable, ran false: tool "x" is unavailable: no network today`)
		if d := w.did(e.call); d != "" {
			t.Errorf("it did %s", d)
		}
		// What a captured list hides is checked all the same when it is called.
		captured := w.Capture()
		hidden.close()
		p.register(map[string]spec{"x": {Says: "x"}})
		w.want(w.callIn(context.Background(), captured, w.request("x", "")), `rejected, unavailable, ran false: …`)
		w.want(w.call("x", order{}), `completed: "x"…`)
	})
}

// Compiling a schema loads nothing: a listener on loopback is not dialled, a FIFO is not opened. Seen to fail: with a
// loader over HTTP, and with one that opens files.
func TestLaw05NothingIsLoaded(t *testing.T) {
	everyTransport(t, func(t *testing.T, w *world) {
		dialled, url := listen(t)
		fifo := filepath.Join(w.dir, "schema.json")
		mkfifo(t, fifo)
		tools := map[string]spec{}
		for i, ref := range []string{url + "/a.json", "file://" + fifo, fifo, "schema.json", "//" + strings.TrimPrefix(url, "http://") + "/a"} {
			tools[fmt.Sprint("ref", i)] = spec{Input: fmt.Sprintf(`{"type":"object","properties":{"a":{"$ref":%q}}}`, ref)}
			tools[fmt.Sprint("dialect", i)] = spec{Input: fmt.Sprintf(`{"$schema":%q,"type":"object"}`, ref)}
			tools[fmt.Sprint("based", i)] = spec{Output: fmt.Sprintf(`{"$id":%q,"properties":{"a":{"$ref":"other.json"}}}`, ref)}
			tools[fmt.Sprint("dynamic", i)] = spec{Structured: fmt.Sprintf(`{"properties":{"a":{"$dynamicRef":%q}}}`, ref)}
		}
		s := w.peer("a").offers(command{Tools: tools})
		if len(s.refused) != len(tools) {
			t.Errorf("%d of %d are refused: %v", len(s.refused), len(tools), s.refused)
		}
		if n := dialled(); n > 0 {
			t.Errorf("%d connections were made", n)
		}
		// Whoever had opened the FIFO would be found waiting in it: a writer meets nobody.
		if f, err := os.OpenFile(fifo, os.O_WRONLY|nonblocking, 0); err == nil {
			f.Close()
			t.Error("somebody has the FIFO open")
		}
	})
}
