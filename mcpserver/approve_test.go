package mcpserver

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/toolhost/toolhost/service/permission"
	"github.com/toolhost/toolhost/tool"
)

// byHand are the options of a client that declares elicitation and leaves the rounds of
// a call to the test.
func byHand() *mcp.ClientOptions {
	return &mcp.ClientOptions{
		MultiRoundTrip: &mcp.MultiRoundTripOptions{Disabled: true},
		ElicitationHandler: func(context.Context, *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
			return nil, errors.New("this client is not asked by a request")
		},
	}
}

// recorded is a tool that keeps what it was called with.
type recorded struct {
	mu    sync.Mutex
	calls []tool.Call // under mu
}

func (r *recorded) tool() tool.Tool {
	return tool.Tool{Description: "for a test", Input: anyObject, Execute: func(_ context.Context, call tool.Call) (tool.Result, error) {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.calls = append(r.calls, call)
		return tool.Result{Output: json.RawMessage(`"ran"`)}, nil
	}}
}

// inputs are those of the calls that ran.
func (r *recorded) inputs() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := []string{}
	for _, call := range r.calls {
		all = append(all, string(call.Input))
	}
	return all
}

func (r *recorded) wantInputs(t *testing.T, want ...string) {
	t.Helper()
	if got := r.inputs(); !slices.Equal(got, want) {
		t.Errorf("ran with %s, want %s", got, want)
	}
}

// ask calls a tool, whose call is then suspended.
func ask(t *testing.T, session *mcp.ClientSession, name, arguments string) (*mcp.CallToolParams, *mcp.CallToolResult) {
	t.Helper()
	params := &mcp.CallToolParams{Name: name, Arguments: json.RawMessage(arguments)}
	result, err := session.CallTool(t.Context(), params)
	if err != nil {
		t.Fatal(err)
	}
	if !result.NeedsInput() || result.RequestState == "" || len(result.Content) > 0 {
		t.Fatalf("not suspended: %+v %s", result, text(result))
	}
	return params, result
}

// reply is the call again, with an answer to all that was asked.
func reply(params *mcp.CallToolParams, asked *mcp.CallToolResult, action, answer string) *mcp.CallToolParams {
	again := *params
	again.RequestState, again.InputResponses = asked.RequestState, mcp.InputResponseMap{}
	for id := range asked.InputRequests {
		again.InputResponses[id] = &mcp.ElicitResult{Action: action, Content: map[string]any{formAnswer: answer}}
	}
	return &again
}

// code is that of an error of the protocol, with its words.
func code(err error) (int64, string) {
	wire, ok := errors.AsType[*jsonrpc.Error](err)
	if !ok {
		return 0, fmt.Sprint(err)
	}
	return wire.Code, wire.Message
}

// settled waits until nothing is left of the calls that were asked for.
func (s *served) settled(t *testing.T) {
	t.Helper()
	a := s.options.Approver
	eventually(t, func() string {
		a.mu.Lock()
		conversations := len(a.calls)
		a.mu.Unlock()
		pending, suspended := len(s.queue.Pending()), len(s.location(t, "a").Suspended())
		if conversations+pending+suspended == 0 {
			return ""
		}
		return fmt.Sprintf("%d conversations, %d requests and %d suspended calls are left", conversations, pending, suspended)
	})
}

// eventually waits until nothing is wrong any more.
func eventually(t *testing.T, wrong func() string) {
	t.Helper()
	last := ""
	for deadline := time.Now().Add(20 * time.Second); time.Now().Before(deadline); time.Sleep(2 * time.Millisecond) {
		if last = wrong(); last == "" {
			return
		}
	}
	t.Fatal(last)
}

// overEach runs a test over each transport.
func overEach(t *testing.T, run func(t *testing.T, over string)) {
	for _, over := range transports() {
		t.Run(over, func(t *testing.T) { run(t, over) })
	}
}

// In the era without sessions a question comes with the form and a state, and the answer
// commits what was shown, once.
//
// Seen to fail: with states that are not spent.
func TestLaw37AnswerCommitsWhatWasShownOnce(t *testing.T) {
	overEach(t, func(t *testing.T, over string) {
		ran := new(recorded)
		s := serve(t, Deny, map[string]tool.Tool{"act": ran.tool()})
		session := s.connect(t, over, withoutSessions, byHand())
		params, asked := ask(t, session, "act", `{"a":1,"b":"x"}`)
		ran.wantInputs(t)
		if len(asked.InputRequests) != 1 {
			t.Fatalf("asked %+v", asked.InputRequests)
		}
		for id, request := range asked.InputRequests {
			form, ok := request.(*mcp.ElicitParams)
			if !ok || form.Mode != "form" || !strings.Contains(form.Message, `{"a":1,"b":"x"}`) || !strings.Contains(form.Message, "program/act") {
				t.Errorf("the form %+v", request)
			}
			if _, shown := s.queue.Find(id); !shown {
				t.Error("the request is not in the queue")
			}
		}
		result, err := session.CallTool(t.Context(), reply(params, asked, "accept", "once"))
		if err != nil || result.IsError || text(result) != `"ran"` && text(result) != "ran" {
			t.Errorf("got %+v %s, %v", result, text(result), err)
		}
		ran.wantInputs(t, `{"a":1,"b":"x"}`)
		_, err = session.CallTool(t.Context(), reply(params, asked, "accept", "once"))
		if got, words := code(err); got != jsonrpc.CodeInvalidParams || !strings.Contains(words, "the call may have run") {
			t.Errorf("replayed: %d %s", got, words)
		}
		ran.wantInputs(t, `{"a":1,"b":"x"}`)
		s.settled(t)
	})
}

// A state is good for nothing but the call that it was given for, and what is refused
// runs nothing and spends nothing.
//
// Seen to fail: without the additional data of the seal.
func TestLaw37ForeignStateIsRefused(t *testing.T) {
	ran, other := new(recorded), new(recorded)
	s := serve(t, Deny, map[string]tool.Tool{"act": ran.tool(), "other": other.tool()})
	process := serve(t, Deny, map[string]tool.Tool{"act": ran.tool()})
	session := s.connect(t, "http", withoutSessions, byHand())
	params, asked := ask(t, session, "act", `{"a":1}`)
	good := reply(params, asked, "accept", "once")
	changed := func(change func(*mcp.CallToolParams)) *mcp.CallToolParams {
		p := *good
		change(&p)
		return &p
	}
	state := good.RequestState
	flipped := func(i int) string {
		c := byte('A')
		if state[i] == c {
			c = 'B'
		}
		return state[:i] + string(c) + state[i+1:]
	}
	elsewhere := s.connectTo(t, "b", "http", withoutSessions, byHand())
	foreign := process.connect(t, "http", withoutSessions, byHand())
	for name, try := range map[string]struct {
		session *mcp.ClientSession
		params  *mcp.CallToolParams
	}{
		"first byte":       {session, changed(func(p *mcp.CallToolParams) { p.RequestState = flipped(0) })},
		"a byte":           {session, changed(func(p *mcp.CallToolParams) { p.RequestState = flipped(len(state) / 2) })},
		"truncated":        {session, changed(func(p *mcp.CallToolParams) { p.RequestState = state[:len(state)-2] })},
		"a byte only":      {session, changed(func(p *mcp.CallToolParams) { p.RequestState = "A" })},
		"longer":           {session, changed(func(p *mcp.CallToolParams) { p.RequestState += "AAAA" })},
		"no base64":        {session, changed(func(p *mcp.CallToolParams) { p.RequestState = "?" + state })},
		"other arguments":  {session, changed(func(p *mcp.CallToolParams) { p.Arguments = json.RawMessage(`{"a":2}`) })},
		"a number's form":  {session, changed(func(p *mcp.CallToolParams) { p.Arguments = json.RawMessage(`{"a":1.0}`) })},
		"more arguments":   {session, changed(func(p *mcp.CallToolParams) { p.Arguments = json.RawMessage(`{"a":1,"b":null}`) })},
		"no arguments":     {session, changed(func(p *mcp.CallToolParams) { p.Arguments = nil })},
		"other tool":       {session, changed(func(p *mcp.CallToolParams) { p.Name = "other" })},
		"no such tool":     {session, changed(func(p *mcp.CallToolParams) { p.Name = "nothing" })},
		"other Location":   {elsewhere, good},
		"other process":    {foreign, good},
		"unknown response": {foreign, changed(func(p *mcp.CallToolParams) { p.InputResponses = nil })},
	} {
		t.Run(name, func(t *testing.T) {
			result, err := try.session.CallTool(t.Context(), try.params)
			if got, words := code(err); got != jsonrpc.CodeInvalidParams || !strings.Contains(words, "requestState") {
				t.Errorf("got %+v, %d %s", result, got, words)
			}
			ran.wantInputs(t)
			other.wantInputs(t)
		})
	}
	good.Arguments = json.RawMessage("{ \"\\u0061\" :\t1 }\n")
	if result, err := session.CallTool(t.Context(), good); err != nil || result.IsError {
		t.Errorf("the same in another spelling: %+v, %v", result, err)
	}
	ran.wantInputs(t, `{"a":1}`)
	s.settled(t)
}

// Arguments are the same however their keys are ordered and spaced, and a call is bound
// to the digest of what was shown of its tool.
//
// Seen to fail: with the digest of the definition not compared.
func TestLaw37OtherSpellingAndOtherDefinition(t *testing.T) {
	ran := new(recorded)
	s := serve(t, Deny, map[string]tool.Tool{"act": ran.tool()})
	session := s.connect(t, "stdio", withoutSessions, byHand())
	params, asked := ask(t, session, "act", `{"a":{"x":[1,2.50],"y":null},"b":"é"}`)
	again := reply(params, asked, "accept", "once")
	again.Arguments = json.RawMessage(` {"b":"\u00e9", "a": {"y":null,"x":[1, 2.50]}}`)
	if result, err := session.CallTool(t.Context(), again); err != nil || result.IsError {
		t.Errorf("got %+v, %v", result, err)
	}
	ran.wantInputs(t, `{"a":{"x":[1,2.50],"y":null},"b":"é"}`)

	params, asked = ask(t, session, "act", `{}`)
	s.program.Close()
	changed := ran.tool()
	changed.Description = "another one"
	if _, err := s.host.Register("program", map[string]tool.Tool{"act": changed}); err != nil {
		t.Fatal(err)
	}
	result, err := session.CallTool(t.Context(), reply(params, asked, "accept", "once"))
	if err != nil || !result.IsError || result.Meta[metaRan] != false || !strings.Contains(text(result), "the answer was not used") {
		t.Errorf("another definition: %+v %s, %v", result, text(result), err)
	}
	if len(ran.inputs()) != 1 {
		t.Errorf("ran with %s", ran.inputs())
	}
	s.settled(t)
}

// A form that was accepted without an answer in it is no yes, and the model is told that it
// was that; a reason that was given is kept. Seen to fail without the words.
func TestAcceptedWithoutAnAnswer(t *testing.T) {
	ran := new(recorded)
	s := serve(t, Deny, map[string]tool.Tool{"act": ran.tool()})
	session := s.connect(t, "stdio", withoutSessions, byHand())
	for want, content := range map[string]map[string]any{
		"the form was accepted without an answer in it, which is no yes": nil,
		"not now": {formReason: "not now"},
	} {
		params, asked := ask(t, session, "act", `{}`)
		again := reply(params, asked, "accept", "")
		for id := range again.InputResponses {
			again.InputResponses[id] = &mcp.ElicitResult{Action: "accept", Content: content}
		}
		result, err := session.CallTool(t.Context(), again)
		if err != nil || !result.IsError || result.Meta[metaKind] != string(tool.KindDeclined) || !strings.Contains(text(result), "was declined: "+want) {
			t.Errorf("got %+v %s, %v", result, text(result), err)
		}
	}
	ran.wantInputs(t)
	s.settled(t)
}

// What was suspended in a Location that was closed since is said to have lapsed, and is
// not run.
func TestLaw37LapsedWithItsLocation(t *testing.T) {
	ran := new(recorded)
	s := serve(t, Deny, map[string]tool.Tool{"act": ran.tool()})
	session := s.connect(t, "http", withoutSessions, byHand())
	params, asked := ask(t, session, "act", `{}`)
	if err := s.location(t, "a").Close(context.Background()); err != nil {
		t.Fatal(err)
	}
	result, err := session.CallTool(t.Context(), reply(params, asked, "accept", "once"))
	if err != nil || !result.IsError || !strings.Contains(text(result), "lapsed") || result.Meta[metaKind] != string(tool.KindTimedOut) {
		t.Errorf("got %+v %s, %v", result, text(result), err)
	}
	ran.wantInputs(t)
	s.settled(t)
}

// A client that never comes back leaves nothing behind, and what comes too late is
// refused and runs nothing.
//
// Seen to fail: without the timer of the conversation; without the expiry in the seal.
func TestLaw37ClientThatNeverRetries(t *testing.T) {
	overEach(t, func(t *testing.T, over string) {
		ran := new(recorded)
		s := serve(t, Deny, map[string]tool.Tool{"act": ran.tool()}, func(w *setup) { w.suspension = 200 * time.Millisecond })
		session := s.connect(t, over, withoutSessions, byHand())
		params, asked := ask(t, session, "act", `{}`)
		s.settled(t)
		_, err := session.CallTool(t.Context(), reply(params, asked, "accept", "once"))
		if got, words := code(err); got != jsonrpc.CodeInvalidParams || !strings.Contains(words, "expired") {
			t.Errorf("got %d %s", got, words)
		}
		ran.wantInputs(t)
		s.settled(t)
	})
}

// A question that is answered at the host gives the client the outcome when it comes
// back, whatever it brings.
func TestLaw37AnsweredAtTheHost(t *testing.T) {
	for _, c := range []struct {
		kind permission.AnswerKind
		want string
		ran  []string
	}{{permission.Once, "ran", []string{`{}`}}, {permission.Reject, "declined: program/act of \"*\" was declined: not now", nil}} {
		t.Run(string(c.kind), func(t *testing.T) {
			ran := new(recorded)
			s := serve(t, Deny, map[string]tool.Tool{"act": ran.tool()})
			session := s.connect(t, "http", withoutSessions, byHand())
			params, asked := ask(t, session, "act", `{}`)
			id := slices.Collect(maps.Keys(asked.InputRequests))[0]
			if _, err := s.queue.Reply(t.Context(), id, permission.Answer{Kind: c.kind, Feedback: "not now"}); err != nil {
				t.Fatal(err)
			}
			result, err := session.CallTool(t.Context(), reply(params, asked, "accept", "once"))
			if err != nil || !strings.Contains(text(result), c.want) || result.IsError == (c.ran != nil) {
				t.Errorf("got %+v %s, %v", result, text(result), err)
			}
			ran.wantInputs(t, c.ran...)
			s.settled(t)
		})
	}
}

// A state with no answer is asked again, with a new state.
//
// Seen to fail: with a missing answer taken for a no.
func TestUnansweredIsAskedAgain(t *testing.T) {
	ran := new(recorded)
	s := serve(t, Deny, map[string]tool.Tool{"act": ran.tool()})
	session := s.connect(t, "stdio", withoutSessions, byHand())
	params, asked := ask(t, session, "act", `{}`)
	empty := *params
	empty.RequestState = asked.RequestState
	again, err := session.CallTool(t.Context(), &empty)
	if err != nil || !again.NeedsInput() || len(again.InputRequests) != 1 || again.RequestState == asked.RequestState {
		t.Fatalf("got %+v, %v", again, err)
	}
	ran.wantInputs(t)
	result, err := session.CallTool(t.Context(), reply(params, again, "cancel", ""))
	if err != nil || !result.IsError || result.Meta[metaKind] != string(tool.KindCancelled) {
		t.Errorf("dismissed: %+v %s, %v", result, text(result), err)
	}
	ran.wantInputs(t)
	s.settled(t)
}
