package process

import (
	"sync"

	"github.com/toolhost/toolhost/service"
)

// kept is the output of a process that runs beside its call: its beginning and its end. It is
// safe for concurrent use.
type kept struct {
	mu      sync.Mutex // guards what follows
	head    []byte
	ring    []byte // the last bytes of what is longer; byte n of the output stands at n modulo its length
	written int64
	changed chan struct{} // closed when something is written, or ended; nil if nobody waits
	ended   bool
}

// add takes the next piece, whoever wrote it.
func (k *kept) add(data []byte) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if room := service.HeadOutput - len(k.head); room > 0 {
		k.head = append(k.head, data[:min(room, len(data))]...)
	}
	at := k.written
	k.written += int64(len(data))
	defer k.tell()
	if k.written <= service.HeadOutput {
		return
	}
	if k.ring == nil {
		k.ring = make([]byte, service.TailOutput)
	}
	if far := len(data) - len(k.ring); far > 0 {
		data, at = data[far:], at+int64(far)
	}
	start := int(at % int64(len(k.ring)))
	n := copy(k.ring[start:], data)
	copy(k.ring, data[n:])
}

// end says that nothing more comes.
func (k *kept) end() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.ended = true
	k.tell()
}

func (k *kept) tell() {
	if k.changed != nil {
		close(k.changed)
		k.changed = nil
	}
}

// total is how much was written.
func (k *kept) total() int64 {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.written
}

// news gives a channel that is closed when there is more than at since, or nil if there is
// already, or nothing comes.
func (k *kept) news(since int64) <-chan struct{} {
	k.mu.Lock()
	defer k.mu.Unlock()
	if since < 0 || k.written > since || k.ended {
		return nil
	}
	if k.changed == nil {
		k.changed = make(chan struct{})
	}
	return k.changed
}

// part is what is kept from a byte on, or, below 0, of the last bytes.
func (k *kept) part(since int64) (from int64, data []byte, dropped int64) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if since < 0 {
		since = max(0, k.written+since)
	}
	from = min(since, k.written)
	if from < int64(len(k.head)) {
		end := min(len(k.head), int(from)+service.MaxOutputPart)
		return from, append([]byte(nil), k.head[from:end]...), 0
	}
	if first := k.written - int64(len(k.ring)); from < first {
		from, dropped = first, first-from
	}
	n := min(k.written-from, service.MaxOutputPart)
	data = make([]byte, 0, n)
	if n > 0 {
		start := from % int64(len(k.ring))
		data = append(data, k.ring[start:min(start+n, int64(len(k.ring)))]...)
		data = append(data, k.ring[:n-int64(len(data))]...)
	}
	return from, data, dropped
}
