package sdk

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"github.com/toolhost/toolhost/plugin/internal/wire"
	"github.com/toolhost/toolhost/scope"
	"github.com/toolhost/toolhost/tool"
)

// server is the plugin's side of the wire: one activation of one plugin.
type server struct {
	plugin    Plugin
	connect   func(id uint32) (wire.Connection, error)
	lost      func(error) // the host is gone, or done with the plugin
	executors executors
	life      *scope.Scope

	mu        sync.Mutex
	activated bool            // under mu
	conn      wire.Connection // under mu; set once
}

// newServer makes the plugin's side. connect dials the host's services; lost is
// called once when the session is over, with nil when the host ended it.
func newServer(p Plugin, connect func(id uint32) (wire.Connection, error), lost func(error)) *server {
	return &server{
		plugin: p, connect: connect, lost: lost,
		executors: executors{all: map[uint64]Tool{}, closed: map[uint64]time.Time{}},
		life:      scope.New(context.Background(), "plugin "+p.Name),
	}
}

var _ wire.Plugin = (*server)(nil)

// Adapt gives the plugin's side of the wire without a process, for package
// sdktest. connect dials the host's services, lost is called when the session is
// over, and release ends what the activation started.
func Adapt(p Plugin, connect func(id uint32) (wire.Connection, error), lost func(error)) (_ wire.Plugin, release func(context.Context) error) {
	s := newServer(p, connect, lost)
	return s, s.close
}

func (s *server) Describe(context.Context, []string) (wire.Description, error) {
	if err := s.plugin.check(); err != nil {
		return wire.Description{}, err
	}
	settings, err := s.plugin.settingsSchema()
	if err != nil {
		return wire.Description{}, err
	}
	d := wire.Description{Name: s.plugin.Name, Version: s.plugin.Version, SDK: "toolhost-go/" + Version, Settings: settings}
	for _, need := range s.plugin.Needs {
		d.Services = append(d.Services, string(need))
	}
	return d, nil
}

func (s *server) Activate(ctx context.Context, a wire.Activation) error {
	s.mu.Lock()
	again := s.activated
	s.activated = true
	s.mu.Unlock()
	if again {
		return errors.New("the plugin is already activated: a process serves one activation")
	}
	conn, err := s.connect(a.ServicesID)
	if err != nil {
		return fmt.Errorf("connect to the host's services: %w", err)
	}
	s.mu.Lock()
	s.conn = conn
	s.mu.Unlock()
	if err := s.openSession(ctx, conn); err != nil {
		return err
	}
	loc := Location{
		Name: a.Location, Root: a.Root, Plugin: a.Plugin, Tools: Registrar{s}, Log: s.openLog(conn), settings: a.Settings,
	}
	if slices.Contains(a.Grants, string(FileSystemRead)) {
		loc.fileSystem = &FileSystem{wire.NewFileSystem(conn)}
	}
	if slices.Contains(a.Grants, string(Permissions)) {
		loc.permission = &Permission{wire.NewPermission(conn)}
	}
	return s.activate(ctx, loc)
}

// openSession attaches to the host, and holds the stream for as long as the
// process lives.
func (s *server) openSession(ctx context.Context, conn wire.Connection) error {
	opened, ended := make(chan struct{}), make(chan error, 1)
	err := s.life.Go("session", func(life context.Context) error {
		err := wire.NewSession(conn).Attach(life, func() { close(opened) })
		ended <- err
		s.lost(err)
		return nil
	})
	if err != nil {
		return err
	}
	select {
	case <-opened:
		return nil
	case err := <-ended:
		return fmt.Errorf("open the session: %w", err)
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (s *server) activate(ctx context.Context, loc Location) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic in Activate: %v\n\n%s", p, debug.Stack())
		}
	}()
	return s.plugin.Activate(ctx, loc)
}

func (s *server) Execute(ctx context.Context, e wire.Execution, progress func(tool.Progress)) (tool.Result, error) {
	t, ok := s.executors.get(e.Executor)
	if !ok {
		return tool.Result{}, fmt.Errorf("%s: its registration was closed", e.Tool)
	}
	if _, bounded := ctx.Deadline(); !bounded && e.Deadline > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, e.Deadline)
		defer cancel()
	}
	running := &running{send: progress}
	defer running.end()
	return t.run(ctx, Call{
		SessionID: e.Identity.Session, Agent: e.Identity.Agent, MessageID: e.Identity.Message, CallID: e.Identity.Call,
		HostMade: e.Identity.HostMade, Tool: e.Tool, progress: running.report,
	}, e.Input)
}

// running keeps the events of a call in order, and none after its end.
type running struct {
	mu   sync.Mutex
	send func(tool.Progress) // under mu; nil once the handler returned
}

func (r *running) report(p tool.Progress) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.send != nil {
		r.send(p)
	}
}

func (r *running) end() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.send = nil
}

func (s *server) Drain(ctx context.Context) error {
	if s.plugin.Drain == nil {
		return nil
	}
	return s.plugin.Drain(ctx)
}

// tools is the registration on the host.
func (s *server) tools() wire.Tools {
	s.mu.Lock()
	defer s.mu.Unlock()
	return wire.NewTools(s.conn)
}

// close ends what the activation started.
func (s *server) close(ctx context.Context) error {
	s.mu.Lock()
	conn := s.conn
	s.mu.Unlock()
	err := s.life.Close(ctx)
	if conn != nil {
		err = errors.Join(err, conn.Close())
	}
	return err
}
