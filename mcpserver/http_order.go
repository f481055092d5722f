package mcpserver

import (
	"bytes"
	"context"
	"encoding/json"
	"hash/maphash"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"
)

// In a session a request and the notification that cancels it come in two HTTP requests,
// and the second may overtake the first; then the SDK knows nothing to cancel, and the
// request runs for nobody. The SDK cancels by id, and some time after it was told to; so it
// is told of nothing that is over, lest that hits a later request with the same id.

const (
	// maxEarly is how many notifications of a session are kept that came before the
	// request they cancel, and earlyFor how long. Of more, the oldest are forgotten.
	maxEarly = 64
	earlyFor = 30 * time.Second
	// maxSeen is of how many requests of a session it is known that they came. The id of
	// one of them is no early one: it ended, and may be used again.
	maxSeen = 256
	// arrivesWithin is how long a notification waits until the SDK has the request that it
	// cancels, which is in hand.
	arrivesWithin = 2 * time.Second
	// codeCancelled is the Language Server Protocol's RequestCancelled; that of this
	// protocol has no code, since nobody waits for the answer.
	codeCancelled = -32800
)

// An order is what a session knows of the ids of its requests, by their hashes. The zero
// value is empty and ready. It is safe for concurrent use.
type order struct {
	mu       sync.Mutex
	seen     []sighting          // under mu: a ring
	oldest   int                 // under mu: in seen, when it is full
	early    []early             // under mu: oldest first
	arriving map[uint64]*arrival // under mu: by id, of what the SDK may not have yet
	posts    map[string]*arrival // under mu: the same, by the name of the HTTP request
}

// A sighting is a request that came.
type sighting struct {
	id uint64
	in *arrival // what it came in, until it is known to be over
}

// early is a notification that came before the request it cancels.
type early struct {
	id uint64
	at time.Time
}

// An arrival is an HTTP request with requests in it.
type arrival struct {
	ids  []uint64
	rest int           // how many of them the SDK may not have yet
	runs int           // how many of them it has, and they have not ended
	over chan struct{} // closed when it has all of them, or the HTTP request ended
}

// arrive notes what comes in an HTTP request of that name, until end is called. Of its
// requests, cancelled are those that were cancelled before they came; awaits is what must
// be over before the SDK is told of what it cancels. If it cancels nothing that the SDK
// could have, and is nothing else, it is idle.
func (o *order) arrive(post string, messages []envelope, now time.Time) (cancelled []json.RawMessage, awaits []*arrival, idle bool, end func()) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.early = slices.DeleteFunc(o.early, func(e early) bool { return now.Sub(e.at) >= earlyFor })
	own := &arrival{over: make(chan struct{})}
	idle = len(messages) > 0
	for _, m := range messages {
		switch {
		case m.isRequest():
			idle = false
			id := hashed(m.id)
			if i := slices.IndexFunc(o.early, func(e early) bool { return e.id == id }); i >= 0 {
				o.early = slices.Delete(o.early, i, i+1)
				cancelled = append(cancelled, m.id)
			}
			if o.arriving[id] == nil { // or the SDK refuses it
				o.see(id, own)
				own.ids = append(own.ids, id)
				own.rest++
				set(&o.arriving, id, own)
			}
		case m.method == methodCancelled:
			var params struct {
				RequestID json.RawMessage `json:"requestId"`
			}
			if json.Unmarshal(m.params, &params) != nil || params.RequestID == nil {
				idle = false // the SDK says what is wrong
				continue
			}
			id := hashed(params.RequestID)
			came := slices.IndexFunc(o.seen, func(s sighting) bool { return s.id == id })
			if came >= 0 && o.seen[came].in != nil || came < 0 && len(o.seen) == maxSeen {
				idle = false
			}
			if before := o.arriving[id]; before != nil && before != own {
				awaits = append(awaits, before)
			}
			if came < 0 && !slices.ContainsFunc(o.early, func(e early) bool { return e.id == id }) {
				if len(o.early) == maxEarly {
					o.early = slices.Delete(o.early, 0, 1)
				}
				o.early = append(o.early, early{id, now})
			}
		default:
			idle = false
		}
	}
	if own.rest == 0 {
		return cancelled, awaits, idle, func() {}
	}
	set(&o.posts, post, own)
	return cancelled, awaits, idle, func() {
		o.mu.Lock()
		defer o.mu.Unlock()
		o.arrived(post, own)
	}
}

// set puts something into a map, which is made if there is none.
func set[K comparable, V any](all *map[K]V, key K, value V) {
	if *all == nil {
		*all = map[K]V{}
	}
	(*all)[key] = value
}

// see notes that an id was used. o.mu is held.
func (o *order) see(id uint64, in *arrival) {
	came := slices.IndexFunc(o.seen, func(s sighting) bool { return s.id == id })
	switch {
	case came >= 0:
		o.seen[came].in = in
	case len(o.seen) < maxSeen:
		o.seen = append(o.seen, sighting{id, in})
	default:
		o.seen[o.oldest] = sighting{id, in}
		o.oldest = (o.oldest + 1) % maxSeen
	}
}

// began notes that the SDK has a request of that HTTP request, and can cancel it, until it
// ended.
func (o *order) began(post string) (ended func()) {
	o.mu.Lock()
	defer o.mu.Unlock()
	a := o.posts[post]
	if a == nil {
		return func() {}
	}
	a.runs++
	if a.rest--; a.rest == 0 {
		o.arrived(post, a)
	}
	return func() {
		o.mu.Lock()
		defer o.mu.Unlock()
		if a.runs--; a.runs > 0 || a.rest > 0 {
			return
		}
		for i := range o.seen {
			if o.seen[i].in == a {
				o.seen[i].in = nil
			}
		}
	}
}

// arrived notes that there is nothing more to wait for. o.mu is held.
func (o *order) arrived(post string, a *arrival) {
	if o.posts[post] != a {
		return // it was noted before
	}
	delete(o.posts, post)
	for _, id := range a.ids {
		delete(o.arriving, id)
	}
	close(a.over)
}

// hashed stands for an id, however long it is and however its text is escaped.
func hashed(id json.RawMessage) uint64 {
	var text string
	if id[0] == '"' && json.Unmarshal(id, &text) == nil {
		return maphash.String(idSeed, `"`+text)
	}
	return maphash.Bytes(idSeed, id)
}

var idSeed = maphash.MakeSeed()

// serveInOrder serves messages of a session, so that a request which was cancelled does
// not run, whichever came first. In a batch it may begin, and ends at once.
func (d *door) serveInOrder(w http.ResponseWriter, r *http.Request, v *visit, said said) {
	post := r.Header.Get(headerPost)
	cancelled, awaits, idle, end := v.session.order.arrive(post, said.messages, time.Now())
	defer end()
	if len(cancelled) > 0 && !said.batch {
		v.session.order.began(post)() // it is over
		answerCancelled(w, cancelled[0])
		return
	}
	if idle && !said.batch { // the SDK has still to judge the rest of the HTTP request
		r.Body = io.NopCloser(strings.NewReader(cancelsNothing))
	}
	if len(awaits) > 0 {
		await(r.Context(), awaits)
	}
	if len(cancelled) > 0 {
		cancelWithin(r, cancelled)
	}
	d.withSessions.ServeHTTP(w, visiting(r, v))
}

// cancelsNothing is a notification that cancels a request which nobody makes.
const cancelsNothing = `{"jsonrpc":"2.0","method":"` + methodCancelled + `","params":{"requestId":"toolhost/over"}}`

// await waits for arrivals, so long at most.
func await(ctx context.Context, all []*arrival) {
	ctx, cancel := context.WithTimeout(ctx, arrivesWithin)
	defer cancel()
	for _, a := range all {
		select {
		case <-a.over:
		case <-ctx.Done():
			return
		}
	}
}

// answerCancelled answers a request that was cancelled before it came. An HTTP request
// needs an answer, though nobody waits for it.
func answerCancelled(w http.ResponseWriter, id json.RawMessage) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	wrong := faulty{id: id, code: codeCancelled, what: "the request was cancelled before it came, and did not run"}
	_, _ = w.Write(wrong.line())
}

// cancelWithin adds to a batch what cancels those of its requests.
func cancelWithin(r *http.Request, ids []json.RawMessage) {
	text, err := io.ReadAll(r.Body)
	if err != nil {
		panic(err) // it is in memory
	}
	text = bytes.TrimSuffix(bytes.TrimSpace(text), []byte("]"))
	for _, id := range ids {
		text = append(text, `,{"jsonrpc":"2.0","method":"`+methodCancelled+`","params":{"requestId":`...)
		text = append(append(text, id...), "}}"...)
	}
	r.Body = io.NopCloser(bytes.NewReader(append(text, ']')))
}
