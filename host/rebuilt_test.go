package host_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/toolhost/toolhost/config"
	"github.com/toolhost/toolhost/host"
	"github.com/toolhost/toolhost/state"
)

// The program of a plugin that is not pinned may be rebuilt: it runs, and that it is
// another one than at the last start is said, once (law 40).
//
// Seen to fail: without the look at the program when its plugin starts.
func TestLaw40RebuiltProgramIsSaid(t *testing.T) {
	program := filepath.Join(t.TempDir(), "plugin")
	if err := copyFile(program, "/proc/self/exe"); err != nil {
		t.Fatal(err)
	}
	store := state.New(state.Options{Dir: t.TempDir()})
	defer func() { _ = store.Close() }()
	start := func() string {
		t.Helper()
		cfg := configure(t, []string{"a"})
		cfg.Locations[0].Plugins = []config.Plugin{{Name: "probe", Command: []string{program, "__plugin", "probe"}}}
		log := new(lines)
		o := options()
		o.State, o.Log = store, slog.New(slog.NewTextHandler(log, nil))
		h, err := host.Open(context.Background(), cfg, o)
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range activate(t, h, "a").Plugins() {
			if p.Reason != "" || len(p.Tools) == 0 {
				t.Errorf("plugin: %+v", p)
			}
		}
		if err := h.Close(context.Background()); err != nil {
			t.Error(err)
		}
		return log.String()
	}
	for i, want := range []bool{false, false, true, false} {
		if i == 2 {
			if err := rebuild(program); err != nil {
				t.Fatal(err)
			}
		}
		log := start()
		if got := strings.Contains(log, "the program of a plugin changed"); got != want {
			t.Errorf("start %d: said %v, want %v: %s", i, got, want, log)
		}
	}
}

func copyFile(to, from string) error {
	source, err := os.Open(from)
	if err != nil {
		return err
	}
	defer func() { _ = source.Close() }() // it was only read
	file, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o700)
	if err != nil {
		return err
	}
	_, err = io.Copy(file, source)
	return errors.Join(err, file.Close())
}

// rebuild makes of the program another one that does the same.
func rebuild(program string) error {
	other := program + ".new"
	if err := copyFile(other, program); err != nil {
		return err
	}
	file, err := os.OpenFile(other, os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		return err
	}
	_, err = file.WriteString("\n")
	return errors.Join(err, file.Close(), os.Rename(other, program))
}
