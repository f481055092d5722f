package sdk

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"github.com/toolhost/toolhost/plugin/internal/wire"
	"github.com/toolhost/toolhost/scope"
)

// server is the plugin's side of the wire: one activation of one plugin.
type server struct {
	plugin    Plugin
	connect   func(id uint32) (wire.Connection, error)
	lost      func(error) // the host is gone, or done with the plugin
	executors executors
	actions   actions
	live      live
	life      *scope.Scope

	mu        sync.Mutex
	activated bool            // under mu
	key       string          // under mu: the plugin's, in the configuration
	conn      wire.Connection // under mu; set once
}

// newServer makes the plugin's side. connect dials the host's services; lost is
// called once when the session is over, with nil when the host ended it.
func newServer(p Plugin, connect func(id uint32) (wire.Connection, error), lost func(error)) *server {
	return &server{
		plugin: p, connect: connect, lost: lost,
		executors: executors{all: map[uint64]Tool{}, closed: map[uint64]time.Time{}},
		actions: actions{all: map[uint64]*action{}, discarded: func(err error) {
			fmt.Fprintln(os.Stderr, err) // which is the host's log
		}},
		live: live{all: map[string]chan struct{}{}},
		life: scope.New(context.Background(), "plugin "+p.Name),
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
	d := wire.Description{
		Name: s.plugin.Name, Version: s.plugin.Version, SDK: "toolhost-go/" + Version, Settings: settings,
		Features: []string{wire.FeatureAwait, wire.FeatureLease},
	}
	for _, need := range s.plugin.Needs {
		d.Services = append(d.Services, string(need))
	}
	return d, nil
}

func (s *server) Activate(ctx context.Context, a wire.Activation) error {
	s.mu.Lock()
	again := s.activated
	s.activated, s.key = true, a.Plugin
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
	if slices.Contains(a.Grants, string(FileSystemWrite)) {
		loc.writer = &FileSystemWriter{wire.NewFileSystemWrite(conn)}
	}
	if slices.Contains(a.Grants, string(Permissions)) {
		loc.permission = &Permission{wire.NewPermission(conn)}
	}
	if slices.Contains(a.Grants, string(Commands)) {
		loc.process = &Processes{wire.NewProcess(conn)}
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

func (s *server) Drain(ctx context.Context) error {
	s.actions.dropAll()
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

// id is the canonical id of a tool of this plugin.
func (s *server) id(name string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.key + "/" + name
}

// close ends what the activation started.
func (s *server) close(ctx context.Context) error {
	s.mu.Lock()
	conn := s.conn
	s.mu.Unlock()
	s.actions.dropAll()
	err := s.life.Close(ctx)
	if conn != nil {
		err = errors.Join(err, conn.Close())
	}
	return err
}
