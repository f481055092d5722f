package control

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/toolhost/toolhost/location"
	"github.com/toolhost/toolhost/scope"
)

const (
	// maxReloads is how many reloads run or wait at a time, and reloadTime how long one may
	// take.
	maxReloads = 4
	reloadTime = 2 * time.Minute
	// maxTree is how many names a tree has at most, maxName how long each is, and maxLine
	// how much of a command line is told.
	maxTree = 5000
	maxName = 200
	maxLine = 1000
	// lookForEnd is how often it is looked whether a plugin that is followed is still there.
	lookForEnd = time.Second
)

func (s *Server) status(r *http.Request) (any, error) {
	now, withTree := s.options.Host.Status(), r.URL.Query().Has("tree")
	status := Status{
		Pid: os.Getpid(), Version: s.options.Version, Started: s.started, Socket: s.path, Locations: []Location{},
		Pending: len(s.queue.Pending()), Approvals: s.options.Queue != nil, Reloads: s.options.Reload != nil, Stale: now.Stale,
	}
	for _, l := range now.Locations {
		one := Location{Name: l.Name, Root: l.Root, Plugins: l.Plugins, Stale: l.Stale, Calls: l.Calls, Suspended: l.Suspended}
		for _, p := range l.Processes {
			if p.Result != nil {
				continue
			}
			one.Running++
			if withTree {
				one.Processes = append(one.Processes, Process{p.ID, p.Session, p.Plugin, p.Started, beginning(p.Line, maxLine)})
			}
		}
		status.Locations = append(status.Locations, one)
	}
	if withTree {
		room := maxTree
		tree := treeOf(s.options.Host.Tree(), &room)
		status.Tree = &tree
	}
	if s.options.Audit != nil {
		failures, last := s.options.Audit.Failures()
		if status.Audit.Failures = failures; last != nil {
			status.Audit.LastFailure = last.Error()
		}
	}
	return status, nil
}

// treeOf is as much of a tree as there is room for.
func treeOf(t scope.Tree, room *int) Tree {
	tree := Tree{Name: beginning(t.Name, maxName)}
	*room--
	for _, name := range t.Owned {
		if *room <= 0 {
			tree.More++
			continue
		}
		*room--
		tree.Owned = append(tree.Owned, beginning(name, maxName))
	}
	for _, fork := range t.Forks {
		if *room <= 0 {
			tree.More++
			continue
		}
		tree.Forks = append(tree.Forks, treeOf(fork, room))
	}
	return tree
}

// beginning is the first bytes of a text, up to the end of a character.
func beginning(text string, most int) string {
	if len(text) <= most {
		return text
	}
	for most > 0 && !utf8.RuneStart(text[most]) {
		most--
	}
	return text[:most] + "…"
}

// A stream is an answer in lines that come one by one. A client that takes none of it for
// as long as it has patience is given up; nobody else waits for it.
type stream struct {
	http.ResponseWriter
	control  *http.ResponseController
	patience time.Duration
}

func (s *Server) stream(w http.ResponseWriter) *stream {
	w.Header().Set("Content-Type", "application/x-ndjson")
	return &stream{w, http.NewResponseController(w), s.pace.patience}
}

// write reports whether the client took it.
func (s *stream) write(line []byte) bool {
	if err := s.control.SetWriteDeadline(time.Now().Add(s.patience)); err != nil {
		return false
	}
	_, err := s.Write(line)
	return err == nil && s.control.Flush() == nil
}

// alive writes an empty line.
func (s *stream) alive() bool { return s.write([]byte("\n")) }

func (s *stream) send(value any) bool {
	line, err := encode(value)
	return err == nil && s.write(line)
}

// reload loads the configuration anew. It goes on when the client is gone, since half of
// it may have been done; empty lines say meanwhile that the host is alive.
func (s *Server) reload(w http.ResponseWriter, r *http.Request) {
	if s.options.Reload == nil {
		status, e := failure(&Error{Code: CodeUnknown, Message: "this host does not load its configuration anew: end it, and start it again"})
		send(w, status, e)
		return
	}
	select {
	case s.reloads <- struct{}{}:
	default:
		send(w, http.StatusServiceUnavailable, &Error{Code: CodeBusy, Message: "enough reloads wait already: try again when they are done"})
		return
	}
	done := make(chan Reload, 1)
	if err := s.life.Go("reload", func(ctx context.Context) error {
		defer func() { <-s.reloads }()
		ctx, cancel := context.WithTimeoutCause(ctx, reloadTime, fmt.Errorf("it took longer than %v", reloadTime))
		defer cancel()
		report, err := s.options.Reload(ctx)
		result := Reload{Report: report}
		if err != nil {
			result.Error = err.Error()
		}
		done <- result
		return nil
	}); err != nil {
		<-s.reloads
		return // the server is closed
	}
	to := s.stream(w)
	beat := time.NewTicker(s.pace.heartbeat)
	defer beat.Stop()
	for there := to.alive(); there; {
		select {
		case result := <-done:
			to.send(result)
			return
		case <-beat.C:
			there = to.alive()
		case <-r.Context().Done():
			return
		}
	}
}

// place is where one plugin's log is.
type place struct {
	location *location.Location
	plugin   string
	tail     *location.Tail
}

// find finds a plugin by its name, in the Location that is named or in the only one that has
// it.
func (s *Server) find(r *http.Request) (place, error) {
	plugin, in := r.URL.Query().Get("plugin"), r.URL.Query().Get("location")
	var found []place
	var names, places []string
	for _, l := range s.options.Host.Active() {
		if in != "" && l.Name() != in {
			continue
		}
		if tail := l.Log(plugin); tail != nil {
			found, places = append(found, place{l, plugin, tail}), append(places, l.Name())
		}
		for _, p := range l.Plugins() {
			names = append(names, p.Name)
		}
	}
	switch {
	case len(found) == 1:
		return found[0], nil
	case len(found) > 1:
		return place{}, invalid("plugin %.64q is in several Locations: say in which of %s", plugin, beginning(strings.Join(places, ", "), maxLine))
	default:
		return place{}, &Error{Code: CodeUnknown, Message: fmt.Sprintf("there is no plugin %.64q where it was looked for; there are: %s",
			plugin, cmp.Or(beginning(strings.Join(names, ", "), maxLine), "none, as no such Location is active"))}
	}
}

// wantedLines is how many lines of what there is are asked for; all, if nothing is said.
func wantedLines(r *http.Request) (int, error) {
	text := r.URL.Query().Get("lines")
	if text == "" {
		return -1, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 {
		return 0, invalid("lines %.32q is no number from 0", text)
	}
	return n, nil
}

// lastLines is the end of a text of whole lines.
func lastLines(text string, n int) string {
	at := len(text)
	for ; n > 0 && at > 0; n-- {
		at = strings.LastIndexByte(text[:at-1], '\n') + 1
	}
	if n < 0 {
		at = 0
	}
	return text[at:]
}

// kept is the end of what a plugin wrote, as far as it is asked for, and where it ends.
func (s *Server) kept(r *http.Request) (p place, log Log, next int64, err error) {
	n, err := wantedLines(r)
	if err != nil {
		return p, log, 0, err
	}
	if p, err = s.find(r); err != nil {
		return p, log, 0, err
	}
	log = Log{Location: p.location.Name(), Plugin: p.plugin}
	log.Text, next, log.Lost = p.tail.Since(0)
	if n >= 0 {
		log.Text, log.Lost = lastLines(log.Text, n), 0
	}
	return p, log, next, nil
}

func (s *Server) log(r *http.Request) (any, error) {
	_, log, _, err := s.kept(r)
	return log, err
}

// follow writes a [Log] at once, and another one when there is more. A client that is slow
// is told how much it missed, and one that takes nothing is given up.
func (s *Server) follow(w http.ResponseWriter, r *http.Request) {
	leave, err := s.enter()
	if err != nil {
		status, e := failure(err)
		send(w, status, e)
		return
	}
	defer leave()
	p, log, at, err := s.kept(r)
	if err != nil {
		status, e := failure(err)
		send(w, status, e)
		return
	}
	to := s.stream(w)
	beat, look := time.NewTicker(s.pace.heartbeat), time.NewTicker(lookForEnd)
	defer beat.Stop()
	defer look.Stop()
	for there := to.send(log); there; {
		select {
		case <-p.tail.Changed(at):
			log.Text, at, log.Lost = p.tail.Since(at)
			there = to.send(log) && s.rest(r)
		case <-look.C:
			if p.location.Log(p.plugin) == p.tail {
				continue
			}
			log.Text, _, log.Lost = p.tail.Since(at)
			log.Ended = "the plugin is not there any more: it was removed from the configuration, or its Location was closed"
			to.send(log)
			return
		case <-beat.C:
			there = to.alive()
		case <-r.Context().Done():
			return
		}
	}
}

// rest lets a burst of lines become one, and reports whether the client is still there.
func (s *Server) rest(r *http.Request) bool {
	select {
	case <-time.After(s.pace.pause):
		return true
	case <-r.Context().Done():
		return false
	}
}

// enter counts one who watches.
func (s *Server) enter() (leave func(), err error) {
	select {
	case s.watchers <- struct{}{}:
		return func() { <-s.watchers }, nil
	default:
		return nil, &Error{Code: CodeBusy, Message: "too many watch this host already: end one of them, or list from time to time"}
	}
}
