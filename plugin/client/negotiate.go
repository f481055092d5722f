package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc/status"

	"github.com/toolhost/toolhost/plugin/broker"
	"github.com/toolhost/toolhost/plugin/client/internal/lines"
	"github.com/toolhost/toolhost/plugin/internal/wire"
	"github.com/toolhost/toolhost/service"
	"github.com/toolhost/toolhost/tool"
	"github.com/toolhost/toolhost/tool/schema"
)

// maxIntroduction is the most bytes that are kept of what a plugin calls itself.
const maxIntroduction = 128

// features are the additions to the version that this host understands.
func (h Host) features() []string {
	return slices.DeleteFunc([]string{wire.FeatureAwait, wire.FeatureLease}, func(f string) bool { return f == h.withheld })
}

// negotiated is what the two sides agreed on.
type negotiated struct {
	plugin   wire.Plugin
	grants   []service.Grant
	features []string // that both understand
}

// negotiate learns what the plugin is, and settles what it gets and how it is
// called: on leased streams, if it knows them, and otherwise with a stream for every
// call, which any plugin serves.
func (i *Incarnation) negotiate(ctx context.Context, link *link) (*negotiated, error) {
	n := &negotiated{plugin: wire.NewPlugin(link.conn)}
	d, err := n.plugin.Describe(ctx, i.host.features())
	if err != nil {
		return nil, fmt.Errorf("describe: %w", i.explain(ctx, err))
	}
	i.mu.Lock()
	i.status.Name = lines.CleanShort(d.Name, maxIntroduction)
	i.status.Version = lines.CleanShort(d.Version, maxIntroduction)
	i.status.SDK = lines.CleanShort(d.SDK, maxIntroduction)
	i.mu.Unlock()
	n.features = slices.DeleteFunc(i.host.features(), func(f string) bool { return !slices.Contains(d.Features, f) })
	i.awaits = slices.Contains(n.features, wire.FeatureAwait)
	if slices.Contains(n.features, wire.FeatureLease) {
		leasing := wire.NewLeasing(link.conn)
		if err := i.life.Defer("leased streams", func(context.Context) error {
			leasing.Close()
			return nil
		}); err != nil {
			return nil, err
		}
		n.plugin = leasing
	}
	if err := checkSettings(i.spec.Settings, d.Settings); err != nil {
		return nil, lasting(err)
	}
	n.grants = slices.Clone(i.spec.Grants)
	for _, name := range d.Services {
		grant, err := service.ParseGrant(name)
		switch {
		case err != nil:
			return nil, lasting(fmt.Errorf("it needs the service %s, which this host does not have", excerpt(name)))
		case slices.Contains(n.grants, grant):
		case i.spec.Builtin:
			n.grants = append(n.grants, grant)
		default:
			return nil, lasting(fmt.Errorf("it needs the service %s: add it to its grants", grant))
		}
	}
	i.mu.Lock()
	i.status.Grants = slices.Clone(n.grants)
	i.mu.Unlock()
	return n, nil
}

// checkSettings validates the settings against the schema that the plugin
// describes. Without a schema there are no settings.
func checkSettings(settings, described []byte) error {
	if len(described) == 0 {
		if len(settings) == 0 {
			return nil
		}
		return errors.New("it takes no settings: remove them")
	}
	compiled, err := schema.Compile(described)
	if err != nil {
		return fmt.Errorf("the schema of its settings is invalid: %w", err)
	}
	if len(settings) == 0 {
		settings = []byte("{}")
	}
	if err := compiled.Validate(settings); err != nil {
		return fmt.Errorf("its settings are invalid: %w%s", err, wanted(err, described))
	}
	return nil
}

// wanted is what the plugin itself says of the setting that is the first to be invalid, to
// stand behind the error, or nothing. It is the plugin's text, and bounded.
func wanted(err error, described []byte) string {
	value, is := errors.AsType[*schema.InvalidValue](err)
	if !is {
		return ""
	}
	var settings struct {
		Properties map[string]struct{ Description string }
	}
	name := strings.TrimPrefix(value.Problems[0].Path, "/")
	if json.Unmarshal(described, &settings) != nil || settings.Properties[name].Description == "" {
		return ""
	}
	return fmt.Sprintf("; it says of %s: %s", name, excerpt(settings.Properties[name].Description))
}

// activate serves the granted services and lets the plugin build its tools.
func (i *Incarnation) activate(ctx context.Context, link *link, n *negotiated) error {
	b, err := broker.New(broker.Options{
		Plugin: i.spec.Name, Grants: n.grants, FileSystem: i.host.FileSystem, Process: i.host.Process, Profile: i.spec.Profile,
		Activation: i.host.Activation,
		Session:    (*session)(i), Log: i.logs, Tools: (*registrations)(i), Contradicted: i.contradicted,
	})
	if err != nil {
		return err
	}
	i.mu.Lock()
	i.plugin, i.broker = n.plugin, b
	i.mu.Unlock()
	id, err := i.serve(link, b)
	if err != nil {
		return fmt.Errorf("serve its services: %w", err)
	}
	lease, err := b.BeginActivation()
	if err != nil {
		return err
	}
	defer lease.End()
	names := make([]string, len(n.grants))
	for k, grant := range n.grants {
		names[k] = string(grant)
	}
	err = n.plugin.Activate(ctx, wire.Activation{
		ServicesID: id, Plugin: i.spec.Name, Location: i.spec.Location, Root: i.spec.Root,
		Settings: i.spec.Settings, Grants: names, Token: lease.Token(), Features: n.features,
	})
	if err != nil {
		return fmt.Errorf("activate: %w", i.explain(ctx, err))
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	if !i.attached {
		return errors.New("activate: it answered without having opened its session: its SDK must attach before it does")
	}
	return nil
}

// contradicted reports what was refused for the effects of a call.
func (i *Incarnation) contradicted(c tool.Contradiction) {
	i.logs.warn("the plugin tried more than the call may do", "tool", c.Tool, "during", c.During,
		"allowed", c.Allowed.String(), "wanted", c.Wanted.String())
	if i.host.Contradicted != nil {
		i.host.Contradicted(c)
	}
}

// session is how long the plugin is wanted: as long as the incarnation's scope.
type session Incarnation

var _ wire.Session = (*session)(nil)

func (s *session) Attach(ctx context.Context, opened func()) error {
	i := (*Incarnation)(s)
	i.mu.Lock()
	i.attached = true
	i.mu.Unlock()
	opened()
	select {
	case <-i.life.Context().Done():
	case <-ctx.Done():
		i.disconnected()
	}
	return nil
}

// disconnected is called when a connection of the plugin is gone. Losing it is
// losing the plugin, whether its process still runs or not.
func (i *Incarnation) disconnected() {
	if i.life.Context().Err() != nil {
		return
	}
	if exit := i.exited(); exit != "" {
		i.lost(errors.New(exit))
	} else {
		i.lost(errors.New("it closed its connection to the host"))
	}
}

// errLate is the cause of a start that took too long.
var errLate = errors.New("it was not ready in time")

// explain finds the reason behind an error of go-plugin or of the transport: what
// the plugin did wrong, or how it ended, says more than that a library could not
// go on.
func (i *Incarnation) explain(ctx context.Context, err error) error {
	if remote, ok := errors.AsType[*wire.RemoteError](err); ok {
		return said(remote)
	}
	if i.proc != nil {
		if problem := i.proc.handshakeProblem(); problem != nil {
			return lasting(problem)
		}
	}
	awaitDeadline(ctx, err)
	if ctx.Err() == nil {
		// Waiting for the end of the process may be what ends ctx.
		if exit := i.exited(); exit != "" {
			if i.foreign() != "" {
				return lasting(errors.New(exit))
			}
			return errors.New(exit)
		}
	}
	switch cause := context.Cause(ctx); {
	case errors.Is(cause, errLate):
		return i.late()
	case cause != nil:
		return cause
	default:
		return said(err)
	}
}

// late says what a plugin has not done in time, and what to look for.
func (i *Incarnation) late() error {
	hint := ""
	switch i.Status().State {
	case Starting:
		hint = "it printed no handshake: its main must call Serve and not wait for anything before"
	case Negotiating:
		hint = "it printed its handshake and does not answer"
	case Activating:
		hint = "its Activate has not returned"
	}
	text := fmt.Sprintf("it was not ready within %s: %s", i.host.startTimeout(), hint)
	if words := i.logs.lastWords(); words != "" {
		text += "\n" + indent(words)
	}
	return errors.New(text)
}

// foreign recognises, by the words of go-plugin, a plugin that was made for
// another host.
func (i *Incarnation) foreign() string {
	if !strings.Contains(i.logs.lastWords(), "not meant to be executed directly") {
		return ""
	}
	handshake := wire.Handshake()
	return fmt.Sprintf("\nIt is incompatible: it does not know the cookie %s=%s of this host: it is a plugin for another program, or needs another SDK",
		handshake.MagicCookieKey, handshake.MagicCookieValue)
}

// exited describes the end of the process with the tail of its log, after
// waiting a moment for it; "" while it runs.
func (i *Incarnation) exited() string {
	if i.proc == nil {
		return "" // it has no process of its own
	}
	running := i.proc.get()
	if running == nil {
		return ""
	}
	select {
	case <-running.Exited():
	case <-time.After(exitPatience):
		return ""
	}
	select {
	case <-i.proc.drained:
	case <-time.After(wordsPatience):
	}
	if i.proc.wasKilled() {
		return "" // that it ended explains nothing
	}
	i.noteExit(running.Exit().String())
	text := fmt.Sprintf("its process %d ended: %s", running.Pid(), running.Exit())
	if words := i.logs.lastWords(); words != "" {
		text += "\n" + indent(words)
	}
	if i.Status().State == Starting {
		text += i.foreign()
	}
	return text
}

func indent(text string) string { return "    " + strings.ReplaceAll(text, "\n", "\n    ") }

// said is an error in the words of a plugin, fit to be shown. Of gRPC's own words
// it keeps what says more than that an RPC failed.
func said(err error) error {
	text := err.Error()
	if s, ok := status.FromError(err); ok {
		text = fmt.Sprintf("%s: %s", s.Code(), s.Message())
	}
	return &wordsError{lines.CleanText(text), err}
}

// wordsError is an error whose text was cleaned.
type wordsError struct {
	text string
	err  error
}

func (e *wordsError) Error() string { return e.text }
func (e *wordsError) Unwrap() error { return e.err }
