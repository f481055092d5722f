package control

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/toolhost/toolhost/service/permission"
)

const (
	// listingTime is how long hosts have to answer when they are listed.
	listingTime = 2 * time.Second
	// answerTime is how long a host may take to answer a request.
	answerTime = 15 * time.Second
	// silence is after how long a host that is watched and says nothing is taken for
	// dead.
	silence = 3 * heartbeat
	// maxReceived is how much is read of an answer, or of a line.
	maxReceived = 8 << 20
	// retry is after how long a host whose queue of connections is full is tried again.
	retry = 20 * time.Millisecond
)

var (
	// ErrStranger says that a socket is not served by the user.
	ErrStranger = errors.New("another user listens at it: do not trust what is there")
	// ErrClosed says that a host ended, or closed its socket, while it was watched.
	ErrClosed = errors.New("the host closed its control socket")
	// ErrSilent says that a host does not answer in time.
	ErrSilent = errors.New("the host does not answer: it may be stopped, or too busy")
)

// A Client speaks to one host. Its methods may be called concurrently, and fail
// with an [Error] when the host says no. ctx bounds the request; without an end it
// is given fifteen seconds, watching apart.
type Client struct {
	pid     int
	path    string
	http    *http.Client
	silence time.Duration
}

// Hosts finds every host of the user that answers, in the order of their pids; an
// empty dir is [DefaultDir]. No directory is no hosts. The error is about the
// directory, or joins those of the hosts that did not answer within two seconds or
// in a way that is understood; the others are returned beside it. Sockets that
// killed hosts left are removed. The caller closes the clients.
func Hosts(ctx context.Context, dir string) ([]*Client, error) {
	if dir == "" {
		dir = DefaultDir()
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, fmt.Errorf("control directory: %w", err)
	}
	if err := checkDir(dir); errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	} else if err != nil {
		return nil, err
	}
	names, _, err := sockets(dir)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, listingTime, ErrSilent)
	defer cancel()
	clients, errs := make([]*Client, len(names)), make([]error, len(names))
	var asking errgroup.Group
	for i, name := range names {
		asking.Go(func() error {
			clients[i], errs[i] = find(ctx, filepath.Join(dir, name))
			return nil
		})
	}
	_ = asking.Wait() // the errors are kept, each
	clients = slices.DeleteFunc(clients, func(c *Client) bool { return c == nil })
	slices.SortFunc(clients, func(a, b *Client) int {
		if a.pid != b.pid {
			return a.pid - b.pid
		}
		return strings.Compare(a.path, b.path)
	})
	return clients, errors.Join(errs...)
}

// find makes a client of a socket at which a host answers. It is nil, without an
// error, when nobody is there any more.
func find(ctx context.Context, path string) (*Client, error) {
	c := newClient(path)
	status, err := c.Status(ctx)
	switch {
	case err == nil:
		c.pid = status.Pid
		return c, nil
	case refused(err):
		return nil, removeSocket(path)
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	}
	c.Close()
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE) {
		return nil, nil // it ended just now
	}
	return nil, err
}

func newClient(path string) *Client {
	c := &Client{path: path, silence: silence}
	c.pid, _ = pidOf(filepath.Base(path))
	c.http = &http.Client{Transport: &http.Transport{
		DialContext:         func(ctx context.Context, _, _ string) (net.Conn, error) { return dial(ctx, path) },
		MaxIdleConnsPerHost: 1, IdleConnTimeout: idle / 6, // the server never closes one that is about to be used
		DisableCompression: true, ResponseHeaderTimeout: answerTime, MaxResponseHeaderBytes: maxHeader,
	}}
	return c
}

// dial connects to a host of the user. One that is too busy to accept is tried
// until ctx is over.
func dial(ctx context.Context, path string) (net.Conn, error) {
	for {
		conn, err := connect(ctx, path)
		switch {
		case err == nil:
			uid, _, err := peer(conn)
			if err == nil && uid != os.Geteuid() {
				err = ErrStranger
			}
			if err != nil {
				_ = conn.Close()
				return nil, err
			}
			return conn, nil
		case !errors.Is(err, syscall.EAGAIN):
			return nil, err
		}
		select {
		case <-time.After(retry):
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// Pid is the host's process.
func (c *Client) Pid() int { return c.pid }

// Path is where its socket is.
func (c *Client) Path() string { return c.path }

// Close gives back what the client has. Requests that are under way are not ended;
// their ctx is for that.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// Status asks the host what it does.
func (c *Client) Status(ctx context.Context) (status Status, err error) {
	err = c.do(ctx, http.MethodGet, "/v1/status", nil, &status)
	return status, err
}

// StatusTree is Status with what the host owns, and the processes beside calls.
func (c *Client) StatusTree(ctx context.Context) (status Status, err error) {
	err = c.do(ctx, http.MethodGet, "/v1/status?tree", nil, &status)
	return status, err
}

// Reload has the host load its configuration anew. The error is about the asking; what
// could not be done is in what is returned. ctx bounds the waiting alone: the host goes on
// with what it began, for two minutes at most.
func (c *Client) Reload(ctx context.Context) (Reload, error) {
	for reload, err := range received[Reload](ctx, c, http.MethodPost, "/v1/reload") {
		return reload, err
	}
	return Reload{}, ErrClosed
}

// Log gives the last lines of what a plugin wrote, or all that is kept of it if lines is
// negative. An empty location is the only one that has the plugin.
func (c *Client) Log(ctx context.Context, location, plugin string, lines int) (log Log, err error) {
	err = c.do(ctx, http.MethodGet, "/v1/logs?"+logQuery(location, plugin, lines), nil, &log)
	return log, err
}

// FollowLog gives what [Client.Log] does, and then what is written, until that has Ended.
// It ends with an error as [Client.Watch] does, unless the loop is left. A loop that is slow
// misses what is not kept any more, which is counted in Lost.
func (c *Client) FollowLog(ctx context.Context, location, plugin string, lines int) iter.Seq2[Log, error] {
	return func(yield func(Log, error) bool) {
		for log, err := range received[Log](ctx, c, http.MethodGet, "/v1/logs/follow?"+logQuery(location, plugin, lines)) {
			if !yield(log, err) || log.Ended != "" {
				return
			}
		}
	}
}

func logQuery(location, plugin string, lines int) string {
	query := url.Values{"plugin": {plugin}}
	if location != "" {
		query.Set("location", location)
	}
	if lines >= 0 {
		query.Set("lines", strconv.Itoa(lines))
	}
	return query.Encode()
}

// Pending lists the requests that are to be answered.
func (c *Client) Pending(ctx context.Context) (list List, err error) {
	err = c.do(ctx, http.MethodGet, "/v1/approvals", nil, &list)
	return list, err
}

// Reply answers a request; see [permission.Queue.Reply]. The By of the answer is not
// sent: the host knows who answers. The error is [permission.ErrNotPending],
// [permission.ErrNotSavable], [permission.ErrSaving] or [ErrNotShown], another [Error],
// or about the connection; then it is not known whether the host took the answer.
func (c *Client) Reply(ctx context.Context, id string, answer permission.Answer) ([]string, error) {
	if id == "" || id == "." || id == ".." { // no id, but a path
		return nil, permission.ErrNotPending
	}
	body := replyBody{Answer: answer.Kind, Feedback: answer.Feedback}
	if answer.Expires != 0 {
		body.Expires = answer.Expires.String()
	}
	var others released
	err := c.do(ctx, http.MethodPost, "/v1/approvals/"+url.PathEscape(id), body, &others)
	if e := new(Error); errors.As(err, &e) {
		return e.Released, err
	}
	return others.Released, err
}

// RejectSession rejects every request of a session and says how many those were.
func (c *Client) RejectSession(ctx context.Context, session, feedback string) (int, error) {
	var all rejected
	err := c.do(ctx, http.MethodPost, "/v1/sessions/reject", sessionBody{session, feedback}, &all)
	return all.Rejected, err
}

// do sends a request and reads the answer.
func (c *Client) do(ctx context.Context, method, path string, body, into any) error {
	if _, bounded := ctx.Deadline(); !bounded {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, answerTime, ErrSilent)
		defer cancel()
	}
	response, err := c.send(ctx, method, path, body)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	raw, err := io.ReadAll(io.LimitReader(response.Body, maxReceived+1))
	if err != nil {
		return c.failed(ctx, err)
	}
	if len(raw) > maxReceived {
		return c.failed(ctx, fmt.Errorf("the answer has more than %d bytes", maxReceived))
	}
	if err := json.Unmarshal(raw, into); err != nil {
		return c.failed(ctx, fmt.Errorf("the answer is not understood: %w", err))
	}
	return nil
}

// send sends a request. An answer that is an error is returned as one.
func (c *Client) send(ctx context.Context, method, path string, body any) (*http.Response, error) {
	var content io.Reader
	if body != nil {
		encoded, err := encode(body)
		if err != nil {
			return nil, err
		}
		content = bytes.NewReader(encoded)
	}
	request, err := http.NewRequestWithContext(ctx, method, "http://toolhost"+path, content)
	if err != nil {
		return nil, err
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := c.http.Do(request)
	if err != nil {
		return nil, c.failed(ctx, err)
	}
	if response.StatusCode == http.StatusOK {
		return response, nil
	}
	defer response.Body.Close()
	raw, _ := io.ReadAll(io.LimitReader(response.Body, maxBody)) // whatever there is of it
	e := new(Error)
	if err := json.Unmarshal(raw, e); err != nil || e.Code == "" {
		return nil, c.failed(ctx, fmt.Errorf("the answer is not understood: %s", response.Status))
	}
	return nil, e
}

// failed says what was wrong with the connection, and to whom.
func (c *Client) failed(ctx context.Context, err error) error {
	if e := new(url.Error); errors.As(err, &e) {
		err = e.Err // the URL says nothing
	}
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	return fmt.Errorf("host %d (%s): %w", c.pid, c.path, err)
}

// Watch gives the list at once and after each change, of which several may be one.
// It ends with an error, unless the loop is left: the cause of ctx when that is over,
// [ErrClosed], [ErrSilent], an [Error], or what is wrong with the connection. A loop
// that takes nothing for ten seconds while there is much to take is given up by the
// host, which is [ErrClosed] too; it may watch again.
func (c *Client) Watch(ctx context.Context) iter.Seq2[List, error] {
	return received[List](ctx, c, http.MethodGet, "/v1/approvals/watch")
}

// received asks for lines, each a value.
func received[T any](ctx context.Context, c *Client, method, path string) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		var none T
		ctx, cancel := context.WithCancelCause(ctx)
		defer cancel(nil)
		alive := time.AfterFunc(c.silence, func() { cancel(ErrSilent) })
		defer alive.Stop()
		response, err := c.send(ctx, method, path, nil)
		if err != nil {
			yield(none, err)
			return
		}
		defer response.Body.Close()
		lines := bufio.NewScanner(response.Body)
		lines.Buffer(nil, maxReceived)
		for lines.Scan() {
			alive.Reset(c.silence)
			if len(lines.Bytes()) == 0 {
				continue
			}
			var value T
			if err := json.Unmarshal(lines.Bytes(), &value); err != nil {
				yield(none, c.failed(ctx, fmt.Errorf("the answer is not understood: %w", err)))
				return
			}
			alive.Stop() // the loop may take its time
			if !yield(value, nil) {
				return
			}
			alive.Reset(c.silence)
		}
		err = lines.Err()
		if err == nil || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, syscall.ECONNRESET) {
			err = ErrClosed
		}
		yield(none, c.failed(ctx, err))
	}
}
