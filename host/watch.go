package host

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
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
	// [config.Load]. Its error leaves everything as it is, unless it gives a configuration
	// as well, see [Host.ReloadFrom], and is what [Host.Stale] says.
	Load func(ctx context.Context) (*config.Config, error)
	// Files are watched beside those that the configuration was read from: where one may
	// appear, say.
	Files []string
	// Quiet is how long nothing may have changed before a change counts: 200 ms if it is
	// 0. Patience is how long a configuration that is away is waited for at most, and after
	// which [Host.Stale] says of one that changes all the time, or was emptied, that it is
	// not loaded until it is whole: two seconds if it is 0.
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
	w.follow()
	w.known = w.look()
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
	noted   string    // why a change of the configuration is not loaded, if that was said
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

// asIn makes what files look like what they looked like before, where that is known.
func (l looks) asIn(before looks) {
	for path := range l.configs {
		if look, known := before.configs[path]; known {
			l.configs[path] = look
		}
	}
	for path := range l.programs {
		if look, known := before.programs[path]; known {
			l.programs[path] = look
		}
	}
}

// paths are those of all files.
func (l looks) paths() []string {
	return slices.Concat(slices.Collect(maps.Keys(l.configs)), slices.Collect(maps.Keys(l.programs)))
}

func (w *watcher) run(life *scope.Scope) error {
	return life.Go("watch", func(ctx context.Context) error {
		quiet := time.NewTimer(lookAnyway)
		defer quiet.Stop()
		asleep := true
		for {
			select {
			case _, ok := <-w.system.Events:
				if !ok {
					return nil
				}
				if asleep { // else a look is near
					asleep = false
					quiet.Reset(w.options.Quiet)
				}
			case err, ok := <-w.system.Errors:
				if !ok {
					return nil
				}
				w.host.options.Log.Debug("watching", slog.Any("error", err))
				asleep = false
				quiet.Reset(w.options.Quiet) // some were missed
			case <-quiet.C:
				wait := w.settle(ctx)
				asleep = wait == lookAnyway
				quiet.Reset(wait)
			case <-ctx.Done():
				return nil
			}
		}
	})
}

// settle looks at the files and deals with what changed and is quiet. It gives how long
// to wait for the next look.
//
// A file of the configuration that changes, or was emptied, is never loaded: it is being
// written. After a while that is said, and the programs are looked after meanwhile.
func (w *watcher) settle(ctx context.Context) time.Duration {
	w.follow()
	now := w.look()
	before := w.last
	w.last = now
	if now.same(w.known) && w.noted == "" {
		w.since = time.Time{}
		return lookAnyway
	}
	if w.since.IsZero() {
		w.since = time.Now()
	}
	late := time.Since(w.since) >= w.options.Patience
	configured := w.noted != "" || !maps.Equal(now.configs, w.known.configs)
	if configured {
		why := w.written(now, before)
		if why == "" && (late || !now.away(w.known)) {
			w.reconfigure(ctx, now)
			return w.options.Quiet
		}
		if !late {
			return w.options.Quiet
		}
		w.note(why)
	}
	switch {
	case maps.Equal(now.programs, w.known.programs):
		if now.same(before) {
			return lookAnyway // an event comes first, as soon as something changes
		}
	case !maps.Equal(now.programs, before.programs):
	case !configured && w.host.Stale() != "": // it may be what a newer configuration waits for
		w.reconfigure(ctx, now)
	default:
		w.known.programs = now.programs
		if !configured {
			w.since = time.Time{}
		}
		w.reloadPrograms(ctx)
	}
	return w.options.Quiet
}

// written is why files of the configuration are taken as being written; empty when they
// are not.
func (w *watcher) written(now, before looks) string {
	for _, path := range slices.Sorted(maps.Keys(now.configs)) {
		look, was := now.configs[path], w.known.configs[path]
		switch {
		case look != before.configs[path]:
			return fmt.Sprintf("%s keeps changing: the last good configuration serves until it stays the same for %s", path, w.options.Quiet)
		case strings.HasPrefix(look, emptyFile) && was != "" && !strings.HasPrefix(was, emptyFile) && !w.readEmpty(path):
			return path + " is empty, as while it is written: the last good configuration serves; `toolhost reload` takes it as it is"
		}
	}
	return ""
}

// readEmpty reports whether a file was empty already when it was last loaded, by whomever.
func (w *watcher) readEmpty(path string) bool {
	_, wanted := w.host.configs()
	nothing := fmt.Sprintf("%x", sha256.Sum256(nil))
	return slices.ContainsFunc(wanted.Files, func(f config.File) bool { return f.Path == path && f.Digest == nothing })
}

// note says once why a change of the configuration is not loaded.
func (w *watcher) note(why string) {
	if why != w.noted {
		w.noted = why
		w.host.notLoaded(errors.New(why))
	}
}

// errUnsettled says that the configuration was not loaded, and nothing is to be said of it.
var errUnsettled = errors.New("what was loaded is no news")

// reconfigure loads the configuration and makes the host what it says, unless it changed
// while it was read. It is loaded when no other reload runs: a reload that somebody asked
// for meanwhile is not undone by what was read before it (law 40).
func (w *watcher) reconfigure(ctx context.Context, now looks) {
	var seen looks
	changed := false
	_, err := w.host.ReloadFrom(ctx, func(ctx context.Context) (*config.Config, error) {
		cfg, err := w.options.Load(ctx)
		seen = w.look(cfg)
		for path, look := range now.configs {
			changed = changed || seen.configs[path] != look
		}
		if changed || cfg == nil && err != nil && err.Error() == w.host.Stale() {
			return nil, errUnsettled
		}
		return cfg, err
	})
	if ctx.Err() != nil || changed {
		return
	}
	rebuilt := !maps.Equal(now.programs, w.known.programs)
	w.since, w.noted = time.Time{}, ""
	w.follow()
	w.known = w.look()
	w.known.asIn(seen) // what changed since then is another change
	if err == nil {
		return
	}
	if !errors.Is(err, errUnsettled) {
		w.host.options.Log.Error("what changed is not in effect", slog.Any("error", err))
	}
	if rebuilt {
		w.reloadPrograms(ctx)
	}
}

func (w *watcher) reloadPrograms(ctx context.Context) {
	if err := w.host.reloadPrograms(ctx); err != nil && ctx.Err() == nil {
		w.host.options.Log.Error("a program that changed does not serve", slog.Any("error", err))
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

// look looks at the files of what is configured in effect, of what is wanted, and of more.
func (w *watcher) look(more ...*config.Config) looks {
	l := looks{map[string]string{}, map[string]string{}}
	for _, path := range w.options.Files {
		l.configs[path] = lookOf(path)
	}
	for _, cfg := range w.configs(more...) {
		for _, file := range cfg.Files {
			l.configs[file.Path] = lookOf(file.Path)
		}
		for _, path := range programs(cfg) {
			l.programs[path] = lookOf(path)
		}
	}
	return l
}

// configs are those whose files matter: a wanted one may come into effect by a change of
// its programs.
func (w *watcher) configs(more ...*config.Config) []*config.Config {
	effective, wanted := w.host.configs()
	all := append([]*config.Config{effective}, more...)
	if wanted != effective {
		all = append(all, wanted)
	}
	return slices.DeleteFunc(all, func(cfg *config.Config) bool { return cfg == nil })
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
	look := fmt.Sprint(stat.Dev, stat.Ino, stat.Size, stat.Mtim, stat.Ctim)
	if info.Mode().IsRegular() && stat.Size == 0 {
		return emptyFile + look
	}
	return look
}

// emptyFile begins what an empty file looks like.
const emptyFile = "empty "

// follow watches the directories in which the files of the configurations are, those to
// which links lead included, or the nearest that there is; and no others.
func (w *watcher) follow() {
	wanted := map[string]struct{}{}
	for _, path := range w.look().paths() {
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
