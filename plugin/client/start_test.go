package client_test

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/toolhost/toolhost/plugin/client"
)

// What is wrong before a plugin is ready, in words that say what to do. In each
// case the handling is all that makes the error so; without the check of the
// handshake, say, go-plugin calls most of them "Unrecognized remote plugin
// message".
func TestStartFails(t *testing.T) {
	t.Parallel()
	certificate := someCertificate()
	tests := []struct {
		name string
		kind string
		args []string
		want []string
	}{
		{"exits", "exits", nil, []string{"plugin exits: its process ", " ended: exit status 7", "no barometer"}},
		{"case F17 killed before the handshake", "killed", nil, []string{" ended: signal: killed"}},
		{"case F10 prints first", "hi", nil, []string{`it printed "hi" on its standard output before its handshake`, "print to standard error"}},
		{"prints and exits", "hi-exits", nil, []string{`it printed "hi" on its standard output`}},
		{"case F10 prints without end of line", "mebibyte", nil, []string{`it printed "xxx`, "bytes more"}},
		{"prints many lines", "lines", nil, []string{`it printed "x" on its standard output`}},

		{"announces tcp", "handshake", []string{"1|1|tcp|127.0.0.1:1|grpc|" + certificate}, []string{`it has the network "tcp", this host needs unix`}},
		{"announces a socket outside", "handshake", []string{"1|1|unix|/var/run/docker.sock|grpc|" + certificate}, []string{`"/var/run/docker.sock", which is not in its own directory`}},
		{"announces a socket outside by dots", "handshake", []string{"1|1|unix|DIR/../plugin1|grpc|" + certificate}, []string{"which is not in its own directory"}},
		{"announces a spelling", "handshake", []string{"1|1|unix|DIR//plugin1|grpc|" + certificate}, []string{"which is not in its own directory"}},
		{"announces an abstract socket", "handshake", []string{"1|1|unix|@x|grpc|" + certificate}, []string{"which is not in its own directory"}},
		{"announces a link", "handshake", []string{"1|1|unix|DIR/link|grpc|" + certificate}, []string{"which is no socket"}},
		{"announces a file", "handshake", []string{"1|1|unix|DIR/file|grpc|" + certificate}, []string{"which is no socket"}},
		{"announces nothing that is there", "handshake", []string{"1|1|unix|DIR/none|grpc|" + certificate}, []string{"no such file"}},
		{"announces no certificate", "handshake", []string{"1|1|unix|DIR/plugin1|grpc|"}, []string{"no certificate"}},
		{"announces a bad certificate", "handshake", []string{"1|1|unix|DIR/plugin1|grpc|" + strings.Repeat("!", 60)}, []string{"a certificate that cannot be read"}},
		{"announces no certificate in its certificate", "handshake", []string{"1|1|unix|DIR/plugin1|grpc|" + strings.Repeat("A", 60)}, []string{"error parsing server cert"}},
		{"announces an old form", "handshake", []string{"1|1|unix|DIR/plugin1"}, []string{`it has the transport "netrpc", this host needs grpc`}},
		{"case F11 core version", "handshake", []string{"2|1|unix|DIR/plugin1|grpc|" + certificate}, []string{`it is incompatible: it has version "2" of go-plugin's handshake, this host needs 1`}},
		{"case F11 version 0", "raw-version-0", nil, []string{`it is incompatible: it has version "0" of the plugin protocol, this host needs 1`}},
		{"case F11 version 99", "raw-version-99", nil, []string{`it is incompatible: it has version "99" of the plugin protocol, this host needs 1`}},
		{"case F11 cookie", "raw-cookie", nil, []string{"It is incompatible: it does not know the cookie TOOLHOST_PLUGIN=toolhost.plugin.v1"}},
		{"case F11 net/rpc", "raw-netrpc", nil, []string{`it is incompatible: it has the transport "netrpc", this host needs grpc`}},
		{"exits after its handshake", "announces", []string{"exits"}, []string{" ended: exit status 5"}},

		{"fails to describe itself", "raw-describe-fails", nil, []string{"describe: Internal: no\uFFFD[2J idea\nwho I am"}},
		{"exits when it describes itself", "raw-describe-exits", nil, []string{"describe: its process ", " ended: exit status 4"}},
		{"needs an unknown service", "raw-describe-needs", nil, []string{`it needs the service "root\x1b[2J", which this host does not have`}},
		{"opens no session", "raw-no-session", nil, []string{"without having opened its session"}},
		{"leaves while it activates", "raw-leaves-in-activate", nil, []string{"it closed its connection to the host"}},
		{"fails to activate", "activate-fail", nil, []string{"activate: no\uFFFD[2J weather\ntoday"}},
		{"panics when it activates", "activate-panic", nil, []string{"activate: panic in Activate: no weather", "plugins_test.go"}},
		{"exits when it activates", "activate-exits", nil, []string{"activate: its process ", " ended: exit status 3", "no barometer"}},
		{"needs what was not granted", "needs-files", nil, []string{"was not granted filesystem:read: add it to its grants"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			var err error
			within(t, patience, "failing", func() { err = b.startFails(b.spec(tt.kind, tt.args...)) })
			wantIn(t, err.Error(), append(tt.want, "plugin "+tt.kind+": ")...)
			if strings.ContainsAny(err.Error(), "\x1b\r\u2028") {
				t.Errorf("error has control characters: %q", err)
			}
		})
	}
}

// A plugin that keeps the host waiting: silent, stopped, or hanging at each step.
// go-plugin alone would wait for a minute, or for ever.
func TestStartIsBounded(t *testing.T) {
	t.Parallel()
	hints := map[client.State]string{
		client.Starting:    "it printed no handshake: its main must call Serve",
		client.Negotiating: "it printed its handshake and does not answer",
		client.Activating:  "its Activate has not returned",
	}
	for state, plugins := range map[client.State][][]string{
		client.Starting:    {{"silent"}, {"stopped"}},
		client.Negotiating: {{"announces", "stops"}, {"announces", "hangs"}, {"raw-describe-hangs"}, {"raw-describe-stops"}},
		client.Activating:  {{"activate-hangs"}, {"activate-stops"}},
	} {
		for _, args := range plugins {
			t.Run(strings.Join(args, " "), func(t *testing.T) {
				t.Parallel()
				b := newBench(t)
				b.host.StartTimeout = 700 * time.Millisecond
				var err error
				within(t, b.host.StartTimeout+closing, "failing", func() { err = b.startFails(b.spec(args[0], args[1:]...)) })
				wantIn(t, err.Error(), "it was not ready within 700ms")
				if !strings.Contains(b.logged(), "state="+string(state)) {
					t.Skipf("the machine is too slow: %v", err)
				}
				wantIn(t, err.Error(), hints[state])
			})
		}
	}
}

// A start that nobody wants any more, in each state: the caller gives it up, or
// the scope is closed. Without ending the process go-plugin's Start cannot be
// stopped.
func TestStartIsGivenUp(t *testing.T) {
	t.Parallel()
	states := map[client.State]string{
		client.Starting: "silent", client.Negotiating: "raw-describe-hangs", client.Activating: "activate-hangs",
	}
	for state, kind := range states {
		t.Run("the caller while "+string(state), func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			ctx, cancel := context.WithCancelCause(context.Background())
			gone := errors.New("nobody wants it")
			err := whileStarting(t, b, ctx, state, b.spec(kind), func() { cancel(gone) })
			if !errors.Is(err, gone) {
				t.Errorf("error = %v, want that it was given up", err)
			}
			wantIn(t, err.Error(), "it was given up while it was "+string(state))
		})
		t.Run("the scope while "+string(state), func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			err := whileStarting(t, b, context.Background(), state, b.spec(kind), func() {
				within(t, closing, "closing", func() {
					if err := b.scope.Close(context.Background()); err != nil {
						t.Error(err)
					}
				})
			})
			wantIn(t, err.Error(), "it was closed while it started")
		})
	}
}

// whileStarting does something once a start is in a state, and gives its error.
func whileStarting(t *testing.T, b *bench, ctx context.Context, state client.State, spec client.Spec, do func()) error {
	failed := make(chan error, 1)
	go func() {
		_, err := client.Start(ctx, b.scope, b.host, spec)
		failed <- err
	}()
	eventually(t, "the state "+string(state), func() bool {
		return strings.Contains(b.logged(), "state="+string(state)) && len(marked(b.mark)) > 0
	})
	do()
	select {
	case err := <-failed:
		if err == nil {
			t.Fatal("it started")
		}
		return err
	case <-time.After(closing):
		t.Fatal("the start does not end")
		return nil
	}
}

// Closing the scope at any moment of a start leaves nothing, and the start ends.
func TestClosingDuringStart(t *testing.T) {
	t.Parallel()
	for n := range 12 {
		b := openBench(t)
		go func() {
			time.Sleep(time.Duration(n) * 8 * time.Millisecond)
			_ = b.scope.Close(context.Background())
		}()
		i, err := client.Start(context.Background(), b.scope, b.host, b.spec("many"))
		switch {
		case err == nil:
			<-i.Gone() // it was ready before
		case !strings.Contains(err.Error(), "closed"):
			t.Errorf("error = %v, want that it was closed", err)
		}
		if err := b.scope.Close(context.Background()); err != nil {
			t.Error(err)
		}
		b.wantNothingLeft()
	}
}

// A plugin's introduction is shown in a table, so it is short and clean.
func TestIntroductionIsBounded(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	s := b.start("raw-describe-odd").Status()
	for _, text := range []string{s.Name, s.Version, s.SDK} {
		if len(text) > 150 || strings.ContainsAny(text, "\x1b\n\u2028\u202e") {
			t.Errorf("introduction = %q", text)
		}
	}
}

func TestSettings(t *testing.T) {
	t.Parallel()
	schema := `{"type":"object","properties":{"units":{"enum":["metric"],"description":"How to measure.\nOne word."}},"additionalProperties":false}`
	tests := []struct{ name, kind, schema, settings, want string }{
		{"valid", "settings", schema, `{"units":"metric"}`, ""},
		{"none", "settings", schema, "", ""},
		{"invalid", "settings", schema, `{"units":"imperial"}`, `; it says of units: "How to measure.\nOne word."`},
		{"unknown key", "settings", schema, `{"unit":"metric"}`, "its settings are invalid"},
		{"bad schema", "settings", `{"type":"nonsense"}`, `{}`, "the schema of its settings is invalid"},
		{"not wanted", "many", "", `{}`, "it takes no settings: remove them"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			var args []string
			if tt.schema != "" {
				args = []string{tt.schema}
			}
			spec := b.spec(tt.kind, args...)
			spec.Settings = []byte(tt.settings)
			if tt.want != "" {
				wantIn(t, b.startFails(spec).Error(), tt.want)
				return
			}
			b.startSpec(spec)
			if tt.settings != "" {
				eventually(t, "the settings", func() bool { return strings.Contains(b.logged(), "units are metric") })
			}
		})
	}
}

// Nothing begins when the command cannot be one.
func TestSpecIsChecked(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for name, spec := range map[string]client.Spec{
		"no name": {Command: []string{"/bin/true"}}, "no command": {Name: "x"}, "a relative command": {Name: "x", Command: []string{"true"}},
	} {
		if err := b.startFails(spec); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	spec := b.spec("many")
	spec.Root = t.TempDir() + "/none"
	if err := b.startFails(spec); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("error = %v, want one that names the missing root", err)
	}
}
