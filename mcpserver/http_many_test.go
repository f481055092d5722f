package mcpserver

import (
	"fmt"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

// Many sessions, and many callers at a time, take memory while they are there and none
// once they are gone; what calls take does not grow with how many there were. Breakage
// seen: captures that are not forgotten; a bound on calls that is never given back.
func TestManySessionsAndCallers(t *testing.T) {
	sessions, callers := load(1000, 200), 64
	s := serve(t, Deny, nil)
	l := s.listen(t, HTTPOptions{Limits: Limits{Calls: callers, Rate: 1e9, Burst: 1e9}})
	l.client.Transport.(*http.Transport).MaxIdleConnsPerHost = callers
	held := func() (kib int, goroutines int) {
		l.client.CloseIdleConnections()
		comesToHold(t, "quiet", func() bool { return len(l.listener.taken) <= 1 })
		return int(heap() >> 10), runtime.NumGoroutine()
	}
	atOnce := func(n int, do func(i int)) {
		var all sync.WaitGroup
		var next atomic.Int64
		for range callers {
			all.Go(func() {
				for i := int(next.Add(1)); i <= n; i = int(next.Add(1)) {
					do(i)
				}
			})
		}
		all.Wait()
	}
	begin := func(n int) []headers {
		hs := make([]headers, n)
		atOnce(n, func(i int) { hs[i-1] = l.session(nil) })
		return hs
	}
	call := strings.Replace(callOf(3, "list"), `"arguments":{}`, `"arguments":{"path":"."}`, 1)
	use := func(hs []headers) {
		atOnce(len(hs), func(i int) {
			h := hs[i%len(hs)].with("X-Caller", fmt.Sprint(i))
			list := fmt.Sprintf(`{"jsonrpc":"2.0","id":"list %d","method":"tools/list"}`, i)
			if a := l.ask(http.MethodPost, pathA, list, h); a.status != http.StatusOK || !strings.Contains(a.body, `"tools"`) {
				t.Errorf("list: %d %s", a.status, a.body)
			}
			mine := strings.Replace(call, `"id":3`, fmt.Sprintf(`"id":"call %d"`, i), 1)
			if a := l.ask(http.MethodPost, pathA, mine, h); a.status != http.StatusOK || !strings.Contains(a.body, `"isError":false`) && strings.Contains(a.body, `"isError"`) {
				t.Errorf("call: %d %s", a.status, a.body)
			}
			body, modern := sessionlessRequest(i, "tools/call", `"name":"list","arguments":{"path":"."}`)
			if a := l.ask(http.MethodPost, pathA, body, modern); a.status != http.StatusOK {
				t.Errorf("call without a session: %d %s", a.status, a.body)
			}
		})
	}
	end := func(hs []headers) {
		atOnce(len(hs), func(i int) {
			if a := l.ask(http.MethodDelete, pathA, "", hs[i-1]); a.status != http.StatusNoContent {
				t.Errorf("end: %d %s", a.status, a.body)
			}
		})
	}
	warm := begin(callers) // what is made once
	use(warm)
	end(warm)
	before, _ := held()
	_, goroutines := held()
	hs := begin(sessions)
	use(hs)
	during, _ := held()
	use(hs)
	later, _ := held()
	end(hs)
	after, _ := held()
	// A plugin keeps a stream for each call that ran at the same time.
	comesToHold(t, "the end of the sessions' goroutines", func() bool { return runtime.NumGoroutine() <= goroutines+callers })
	t.Logf("%d sessions, %d callers: heap %d KiB, with the sessions %d and later %d, and after %d", sessions, callers, before, during, later, after)
	if later > during+during/4+2048 {
		t.Errorf("the heap grew with calls, from %d to %d KiB", during, later)
	}
	if after > before+2048 {
		t.Errorf("the heap grew with sessions that are gone, from %d to %d KiB", before, after)
	}
	if each := (during - before) / sessions; each > 64 {
		t.Errorf("a session takes %d KiB", each)
	}
}
