package host

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/fsnotify/fsnotify"

	"github.com/toolhost/toolhost/config"
	"github.com/toolhost/toolhost/location"
	"github.com/toolhost/toolhost/scope"
)

// WatchOptions say what is watched, and what is done then.
type WatchOptions struct {
	// Load loads the configuration anew, with its trust and its layers: see
	// [config.Load]. Its error leaves everything as it is, and is what [Host.Stale] says.
	Load func(ctx context.Context) (*config.Config, error)
	// Files are watched beside those that the configuration was read from: where one may
	// appear, say.
	Files []string
	// Quiet is how long nothing may have changed before a change counts: 200 ms if it is
	// 0. Patience is how long a configuration that changes all the time, or is away, is
	// waited for at most: two seconds if it is 0.
	Quiet, Patience time.Duration
}

// The defaults of watching.
const (
	DefaultQuiet    = 200 * time.Millisecond
	DefaultPatience = 2 * time.Second
	// lookAnyway is how often the files are looked at although nothing was noticed: not
	// every filesystem tells.
	lookAnyway = 15 * time.Second
)

// Watch reloads the host when a file changes from which it was configured, or one that a
// plugin consists of: its executable, what an argument of its command names, and its
// pinned files. The directories are watched, so that a file that is replaced by renaming
// is seen; a change counts when the file has stayed the same for a moment, so that one
// that is being written is seen once and whole. What becomes of it says the event of the
// reload, [Host.Stale], and the status of each plugin.
//
// It watches until stop is called, or the host is closed. The error is about watching at
// all.
func (h *Host) Watch(options WatchOptions) (stop func(), err error) {
	if options.Load == nil {
		return nil, errors.New("watch: nothing loads the configuration: set WatchOptions.Load")
	}
	options.Quiet, options.Patience = cmp.Or(options.Quiet, DefaultQuiet), cmp.Or(options.Patience, DefaultPatience)
	life, err := h.life.Fork("watch")
	if err != nil {
		return nil, errClosed
	}
	end := func() { _ = life.Close(context.Background()) } // what it has cannot fail to be released
	w := &watcher{host: h, options: options}
	if w.system, err = fsnotify.NewWatcher(); err != nil {
		end()
		return nil, fmt.Errorf("watch: %w", err)
	}
	if err := life.Defer("watched directories", func(context.Context) error { return w.system.Close() }); err != nil {
		return nil, err
	}
	w.follow(h.Config())
	w.known = w.look(h.Config())
	w.last = w.known
	if err := w.run(life); err != nil {
		end()
		return nil, err
	}
	return end, nil
}

// A watcher notices changes of files. One goroutine has it.
type watcher struct {
	host    *Host
	options WatchOptions
	system  *fsnotify.Watcher
	deaf    bool      // it was said that some cannot be
	known   looks     // as of the last reload
	last    looks     // as of the last look
	since   time.Time // when a change was noticed that is not dealt with; zero if there is none
}

// looks are what files look like, by path.
type looks struct{ configs, programs map[string]string }

func (l looks) same(other looks) bool {
	return maps.Equal(l.configs, other.configs) && maps.Equal(l.programs, other.programs)
}

// away reports whether a file of the configuration that was there is not.
func (l looks) away(before looks) bool {
	for path, look := range l.configs {
		if look == "" && before.configs[path] != "" {
			return true
		}
	}
	return false
}

func (w *watcher) run(life *scope.Scope) error {
	return life.Go("watch", func(ctx context.Context) error {
		quiet := time.NewTimer(lookAnyway)
		defer quiet.Stop()
		for {
			select {
			case _, ok := <-w.system.Events:
				if !ok {
					return nil
				}
				if w.since.IsZero() || time.Since(w.since) < w.options.Patience {
					quiet.Reset(w.options.Quiet)
				}
				if w.since.IsZero() {
					w.since = time.Now()
				}
			case err, ok := <-w.system.Errors:
				if !ok {
					return nil
				}
				w.host.options.Log.Debug("watching", slog.Any("error", err))
				quiet.Reset(w.options.Quiet) // some were missed
			case <-quiet.C:
				quiet.Reset(w.settle(ctx))
			case <-ctx.Done():
				return nil
			}
		}
	})
}

// settle looks at the files and deals with what changed and is quiet. It gives how long
// to wait for the next look.
func (w *watcher) settle(ctx context.Context) time.Duration {
	cfg := w.host.Config()
	w.follow(cfg)
	now := w.look(cfg)
	before := w.last
	w.last = now
	if now.same(w.known) {
		w.since = time.Time{}
		return lookAnyway
	}
	if w.since.IsZero() {
		w.since = time.Now()
	}
	late := time.Since(w.since) >= w.options.Patience
	configured := !maps.Equal(now.configs, w.known.configs)
	switch {
	case configured && (late || now.same(before) && !now.away(w.known)):
		w.reconfigure(ctx, now)
	case !configured && now.same(before):
		w.known, w.since = now, time.Time{}
		w.reload(ctx, cfg)
	}
	return w.options.Quiet
}

// reconfigure loads the configuration and makes the host what it says.
func (w *watcher) reconfigure(ctx context.Context, now looks) {
	cfg, err := w.options.Load(ctx)
	if ctx.Err() != nil {
		return
	}
	if after := w.look(w.host.Config()); !maps.Equal(after.configs, now.configs) && time.Since(w.since) < 2*w.options.Patience {
		w.last = after // it changed while it was read
		return
	}
	w.since = time.Time{}
	if err != nil {
		w.known.configs = now.configs
		w.host.notLoaded(err)
		return
	}
	w.follow(cfg)
	next := w.look(cfg)
	for path, look := range now.configs { // what changed since then is another change
		if _, there := next.configs[path]; there {
			next.configs[path] = look
		}
	}
	w.known = next
	w.reload(ctx, cfg)
}

func (w *watcher) reload(ctx context.Context, cfg *config.Config) {
	if _, err := w.host.Reload(ctx, cfg); err != nil && ctx.Err() == nil {
		w.host.options.Log.Error("what changed is not in effect", slog.Any("error", err))
	}
}

// notLoaded notes that the configuration cannot be loaded; all stays as it is.
func (h *Host) notLoaded(err error) {
	h.setStale(err)
	for _, l := range h.Active() {
		l.SetStale(err.Error())
	}
	h.options.Log.Error("the configuration cannot be loaded, and the last good one serves", slog.Any("error", err))
	if h.events != nil {
		h.events.put(location.Event{Kind: location.EventReload, At: time.Now(), Reason: err.Error()})
	}
}

// look looks at the files of a configuration.
func (w *watcher) look(cfg *config.Config) looks {
	l := looks{map[string]string{}, map[string]string{}}
	for _, file := range cfg.Files {
		l.configs[file.Path] = lookOf(file.Path)
	}
	for _, path := range w.options.Files {
		l.configs[path] = lookOf(path)
	}
	for _, path := range programs(cfg) {
		l.programs[path] = lookOf(path)
	}
	return l
}

// programs are the files that the plugins consist of, as far as they are named.
func programs(cfg *config.Config) (paths []string) {
	for _, l := range cfg.Locations {
		for _, p := range l.Plugins {
			for _, part := range p.Command {
				if filepath.IsAbs(part) {
					paths = append(paths, part)
				}
			}
			for _, f := range p.Files {
				paths = append(paths, f.Path)
			}
		}
	}
	return paths
}

// lookOf tells a file apart from what it was before any change; empty for none.
func lookOf(path string) string {
	info, err := os.Stat(path)
	if err != nil {
		return ""
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok || info.IsDir() {
		return "no file"
	}
	return fmt.Sprint(stat.Dev, stat.Ino, stat.Size, stat.Mtim, stat.Ctim)
}

// follow watches the directories in which the files of a configuration are, those to
// which links lead included, or the nearest that there is; and no others.
func (w *watcher) follow(cfg *config.Config) {
	wanted := map[string]struct{}{}
	files := append(programs(cfg), w.options.Files...)
	for _, f := range cfg.Files {
		files = append(files, f.Path)
	}
	for _, path := range files {
		wanted[nearestDir(filepath.Dir(path))] = struct{}{}
		if real, err := filepath.EvalSymlinks(path); err == nil {
			wanted[filepath.Dir(real)] = struct{}{}
		}
	}
	for _, gone := range w.system.WatchList() {
		if _, ok := wanted[gone]; !ok {
			_ = w.system.Remove(gone) // it may be gone
		}
	}
	for dir := range wanted {
		if err := w.system.Add(dir); err != nil {
			if !w.deaf {
				w.host.options.Log.Warn("a directory cannot be watched: changes in it are seen late", slog.String("directory", dir), slog.Any("error", err))
			}
			w.deaf = true
		}
	}
}

// nearestDir is the directory, or the nearest above it that there is.
func nearestDir(dir string) string {
	for {
		if info, err := os.Stat(dir); err == nil && info.IsDir() || dir == filepath.Dir(dir) {
			return dir
		}
		dir = filepath.Dir(dir)
	}
}
