package registry

// Subscribe gives a channel that receives when what is effective may have changed:
// once for any number of changes since it was last read. Who reads it captures
// anew and compares. stop ends the subscription; the channel is never closed.
func (r *Registry) Subscribe() (changes <-chan struct{}, stop func()) {
	c := make(chan struct{}, 1)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.subscribers[c] = struct{}{}
	return c, func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		delete(r.subscribers, c)
		r.touch()
	}
}

// changed forgets what was effective and tells the subscribers, of an act that has
// several parts when it has ended. r.mu is held.
func (r *Registry) changed() {
	r.latest = nil
	if r.acting {
		return
	}
	for c := range r.subscribers {
		select {
		case c <- struct{}{}:
		default: // it has not read the last one yet
		}
	}
}

// act does several things of which subscribers are told once. r.mu is held.
func (r *Registry) act(f func()) {
	r.acting = true
	f()
	r.acting = false
	r.changed()
}
