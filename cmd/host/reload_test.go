package main

import (
	"context"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"

	"github.com/toolhost/toolhost/host"
	"github.com/toolhost/toolhost/service/permission"
	"github.com/toolhost/toolhost/state"
)

// A file that changes while a host runs is in effect as it was trusted, with what it denies
// now, whether that is noticed or asked for; and it is said that it is not trusted (law 40).
//
// Seen to fail: with nothing held.
func TestLaw40NewDeniesHoldInARunningHost(t *testing.T) {
	isolate(t)
	dir := t.TempDir()
	const trusted = "plugins: {}\npermissions: [{action: read, resource: .env, effect: allow}]\n"
	file := write(t, filepath.Join(dir, "toolhost.yaml"), trusted)
	toolhost(t, "-C", dir, "trust", "--yes")
	a := &app{dir: dir, state: state.New(state.Options{}), stdout: newOutput(&screen{}), stderr: newOutput(&screen{})}
	t.Cleanup(func() { _ = a.state.Close() })
	cfg, err := a.load(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	err = a.withHost(t.Context(), cfg, approver{}, a.loadAgain, slog.New(slog.DiscardHandler), func(ctx context.Context, h *host.Host) error {
		l, err := h.Location(ctx, "")
		if err != nil {
			return err
		}
		effect := func(path string) permission.Effect {
			return h.Config().Locations[0].Policy.Evaluate("read", path, "").Effect
		}
		load := loader(a.loadAgain)
		for denied, again := range map[string]func() error{
			"asked":   func() error { _, err := load.reload(ctx, h); return err },
			"noticed": func() error { _, err := h.ReloadFrom(ctx, load.of(h)); return err }, // as by the watch
			"anew":    func() error { _, err := load.reload(ctx, h); return err },
		} {
			write(t, file, "plugins: {more: {command: [./more]}}\npermissions: [{action: '*', resource: '*', effect: allow}, {action: read, resource: "+denied+", effect: deny}]\n")
			if err := again(); err == nil || !strings.Contains(err.Error(), "is not trusted as it is now") {
				t.Errorf("%s: got %v", denied, err)
			}
			if effect(denied) != permission.Deny || effect(".env") != permission.Allow || effect("id_rsa") == permission.Deny || len(l.Plugins()) != 0 {
				t.Errorf("%s: %v, what was trusted %v, plugins %+v", denied, effect(denied), effect(".env"), l.Plugins())
			}
			if h.Stale() == "" || l.Stale() == "" {
				t.Errorf("%s: it is not said", denied)
			}
		}
		write(t, file, trusted)
		if _, err := load.reload(ctx, h); err != nil || h.Stale() != "" || l.Stale() != "" || effect("asked") == permission.Deny {
			t.Errorf("as it was: %v, stale %q", err, h.Stale())
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
