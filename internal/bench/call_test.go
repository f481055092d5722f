package bench

import (
	"encoding/json"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
)

// callers is how many call at the same time, where that is measured.
const callers = 64

// inTurn is a side that makes calls one after the other: the microseconds of one.
func inTurn(tb testing.TB, calls int, call func() error) func() float64 {
	return func() float64 {
		return milliseconds(func() {
			for range calls {
				if err := call(); err != nil {
					tb.Fatal(err)
				}
			}
		}) / float64(calls) * 1e3
	}
}

// byMany is a side with many callers: the calls of all of them in a second.
func byMany(tb testing.TB, callsEach int, call func() error) func() float64 {
	return func() float64 {
		begin := time.Now()
		var calling errgroup.Group
		for range callers {
			calling.Go(func() error {
				for range callsEach {
					if err := call(); err != nil {
						return err
					}
				}
				return nil
			})
		}
		if err := calling.Wait(); err != nil {
			tb.Fatal(err)
		}
		return float64(callers*callsEach) / time.Since(begin).Seconds()
	}
}

// sides are the plugins of a measurement of calls, with an input of a size.
type sides struct {
	host       *shipped
	plain, tls *bare
	input      json.RawMessage
}

func openSides(tb testing.TB, size int) *sides {
	tb.Helper()
	s := &sides{host: openShipped(tb), input: queryOf(tb, size)}
	i := s.host.startOutside(tb)
	tb.Cleanup(func() { end(tb, i) })
	s.plain = startBare(tb, false)
	tb.Cleanup(s.plain.kill)
	s.tls = startBare(tb, true)
	tb.Cleanup(s.tls.kill)
	return s
}

func (s *sides) full() error       { return s.host.call("echo_outside", s.input) }
func (s *sides) unconfined() error { return s.host.call("echo_free", s.input) }
func (s *sides) unread() error     { return s.host.call("raw_outside", s.input) }
func (s *sides) asking() error     { return s.host.call("ask_outside", s.input) }
func (s *sides) unary() error      { return s.plain.unary(s.input) }
func (s *sides) unaryTLS() error   { return s.tls.unary(s.input) }
func (s *sides) streamTLS() error  { return s.tls.stream(s.input) }

func measureCall(tb testing.TB, n size, t *table) {
	s := openSides(tb, 1<<10)
	free := s.host.startFree(tb, "free")
	tb.Cleanup(func() { end(tb, free) })
	figures := interleave(n.rounds,
		inTurn(tb, n.calls, s.full), inTurn(tb, n.calls, s.unary), inTurn(tb, n.calls, s.unaryTLS),
		inTurn(tb, n.calls, s.streamTLS), inTurn(tb, n.calls, s.asking), inTurn(tb, n.calls, s.unconfined),
	)
	t.add(callJailed, figures[0], figures[5])
	t.add(callUnary, figures[0], figures[1])
	t.add(callTLS, figures[0], figures[2])
	t.add(callLike, figures[0], figures[3])
	t.add(callback, figures[4], figures[0])
}

func measureConcurrent(tb testing.TB, n size, t *table) {
	s := openSides(tb, 1<<10)
	figures := interleave((n.rounds+3)/4,
		byMany(tb, n.concurrent, s.full), byMany(tb, n.concurrent, s.unary), byMany(tb, n.concurrent, s.unaryTLS),
	)
	t.add(atOnce, figures[0], figures[1])
	t.add(atOnceTLS, figures[0], figures[2])
}

func measureLargeAtOnce(tb testing.TB, n size, t *table) {
	s := openSides(tb, 64<<10)
	figures := interleave((n.rounds+7)/8, byMany(tb, n.concurrent, s.full), byMany(tb, n.concurrent, s.unary))
	t.add(largeAtOnce, figures[0], figures[1])
}

func measureLarge(tb testing.TB, n size, t *table) {
	s := openSides(tb, 64<<10)
	figures := interleave((n.rounds+1)/2,
		inTurn(tb, n.calls, s.full), inTurn(tb, n.calls, s.unary), inTurn(tb, n.calls, s.unaryTLS), inTurn(tb, n.calls, s.unread),
	)
	t.add(largeRaw, figures[3], figures[1])
	t.add(large, figures[0], figures[1])
	t.add(largeTLS, figures[0], figures[2])
}
