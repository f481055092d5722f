package host

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/toolhost/toolhost/config"
	"github.com/toolhost/toolhost/location"
)

// A Report is what became of a reload.
type Report struct {
	// Locations are those that were active, and those that are configured now, by name.
	Locations []location.Report `json:"locations"`
}

// Reload makes the host what is configured now, without stopping what did not change
// (laws 7, 43). Each active Location is reloaded by itself, all at the same time; see
// [location.Location.Reload]. One that is not configured any more, or has another root
// now, is closed as soon as its calls have ended, and within the time of a drain; one
// that is new, or not active, is activated when it is asked for.
//
// A Location whose plugins do not start as they are configured now stays as it was, and
// is opened so again; the others go on. The error then joins the reasons, and the report
// has them as well. Reloads come one after another, and ctx bounds all of it.
//
// The configuration must not be changed afterwards.
func (h *Host) Reload(ctx context.Context, cfg *config.Config) (Report, error) {
	if cfg == nil {
		return Report{}, errNoConfiguration
	}
	return h.ReloadFrom(ctx, func(context.Context) (*config.Config, error) { return cfg, nil })
}

// ReloadFrom is Reload with a configuration that is loaded when no other reload runs, so
// that what is in effect afterwards is not older than what was there when it was called. If
// it cannot be loaded all stays as it is: that is the error, and what [Host.Stale] says.
//
// load may give both: a configuration that is to be in effect, and why it is not all that is
// configured, such as that a file is not trusted as it is now. That is then the error too, and
// what [Host.Stale] says.
func (h *Host) ReloadFrom(ctx context.Context, load func(context.Context) (*config.Config, error)) (Report, error) {
	select {
	case h.reloading <- struct{}{}:
		defer func() { <-h.reloading }()
	case <-ctx.Done():
		return Report{}, context.Cause(ctx)
	}
	cfg, why := load(ctx)
	switch {
	case ctx.Err() != nil:
		return Report{}, context.Cause(ctx)
	case errors.Is(why, errUnsettled):
		return Report{}, why
	case cfg == nil:
		err := cmp.Or(why, errNoConfiguration)
		h.notLoaded(err)
		return Report{}, err
	}
	before, remain, vanish, err := h.adopt(cfg)
	if err != nil {
		return Report{}, err
	}
	var report Report
	for name, a := range vanish {
		report.Locations = append(report.Locations, location.Report{Location: name, Closed: true})
		h.retireActivation(a)
	}
	report.Locations = append(report.Locations, h.reloadAll(ctx, cfg, remain)...)
	for _, l := range cfg.Locations {
		if remain[l.Name] == nil {
			report.Locations = append(report.Locations, location.Report{Location: l.Name, Inactive: true})
		}
	}
	slices.SortStableFunc(report.Locations, func(a, b location.Report) int { return strings.Compare(a.Location, b.Location) })
	var stale []error
	if why != nil {
		stale = append(stale, why)
		for _, l := range h.Active() {
			l.SetStale(why.Error())
		}
	}
	for _, r := range report.Locations {
		if r.Stale != "" {
			stale = append(stale, fmt.Errorf("location %s: %s", r.Location, r.Stale))
			h.keepAsItWas(r.Location, before)
		}
	}
	err = errors.Join(stale...)
	h.setStale(err)
	return report, err
}

var errNoConfiguration = errors.New("reload: there is no configuration")

// reloadPrograms reloads each active Location as it is configured in effect, for programs
// that may be other ones now. Whatever is noted about a newer configuration stays.
func (h *Host) reloadPrograms(ctx context.Context) error {
	select {
	case h.reloading <- struct{}{}:
		defer func() { <-h.reloading }()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	active := h.Active()
	failed := make([]error, len(active))
	var reloading errgroup.Group
	for i, l := range active {
		reloading.Go(func() error {
			if r := l.ReloadPrograms(ctx); r.Stale != "" && !l.Closed() {
				failed[i] = fmt.Errorf("location %s: %s", r.Location, r.Stale)
			}
			return nil
		})
	}
	_ = reloading.Wait() // each keeps its own error
	return errors.Join(failed...)
}

// adopt makes the configuration the one by which Locations are opened. It tells which
// of the present ones remain, and which are not of it.
func (h *Host) adopt(cfg *config.Config) (before *config.Config, remain, vanish map[string]*activation, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return nil, nil, nil, errClosed
	}
	before, h.config, h.wanted = h.config, cfg, cfg
	remain, vanish = map[string]*activation{}, map[string]*activation{}
	for name, a := range h.locations {
		if a.over() {
			continue
		}
		if next := named(cfg, name); next != nil && next.Root == a.root {
			remain[name] = a
			continue
		}
		vanish[name] = a
		delete(h.locations, name)
	}
	return before, remain, vanish, nil
}

// named finds a Location by its name, or nothing.
func named(cfg *config.Config, name string) *config.Location {
	i := slices.IndexFunc(cfg.Locations, func(l config.Location) bool { return l.Name == name })
	if i < 0 {
		return nil
	}
	return &cfg.Locations[i]
}

func (h *Host) reloadAll(ctx context.Context, cfg *config.Config, activations map[string]*activation) []location.Report {
	reports := make([]location.Report, 0, len(activations))
	into := make(chan location.Report, len(activations))
	var reloading errgroup.Group
	for name, a := range activations {
		reloading.Go(func() error {
			into <- reloadOne(ctx, name, a, *named(cfg, name))
			return nil
		})
	}
	_ = reloading.Wait() // the reports say it
	for range activations {
		reports = append(reports, <-into)
	}
	return reports
}

// reloadOne reloads a Location, when it is active.
func reloadOne(ctx context.Context, name string, a *activation, cfg config.Location) location.Report {
	select {
	case <-a.done:
	case <-ctx.Done():
		return location.Report{Location: name, Stale: context.Cause(ctx).Error()}
	}
	if a.location == nil { // it could not be opened, and will be tried as it is now
		return location.Report{Location: name, Inactive: true}
	}
	return a.location.Reload(ctx, cfg)
}

// keepAsItWas puts back how a Location was configured, for when it is opened again.
func (h *Host) keepAsItWas(name string, before *config.Config) {
	was := named(before, name)
	if was == nil {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	effective := *h.config
	effective.Locations = slices.Clone(effective.Locations)
	if i := slices.IndexFunc(effective.Locations, func(l config.Location) bool { return l.Name == name }); i >= 0 {
		effective.Locations[i] = *was
	}
	h.config = &effective
}

// retireActivation closes what was, or is being, activated, when its calls have ended.
func (h *Host) retireActivation(a *activation) {
	_ = h.life.Go("end of an activation", func(ctx context.Context) error { // or the host closes it
		select {
		case <-a.done:
			if a.location != nil {
				h.retire(a.location, h.drain())
			}
		case <-ctx.Done():
		}
		return nil
	})
}

// drain is how long what is replaced may take to end.
func (h *Host) drain() time.Duration {
	return max(cmp.Or(h.options.Supervision.Drain, location.DefaultDrain), 0)
}

// Stale is why what is configured is not in effect: the configuration has mistakes, or a
// Location could not become what it says. It is empty when all is well.
func (h *Host) Stale() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.stale
}

func (h *Host) setStale(err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.stale = ""
	if err != nil {
		h.stale = err.Error()
	}
}

// Config is what is configured now, with the Locations that could not become what the
// last reload said as they are. It must not be changed.
func (h *Host) Config() *config.Config {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.config
}

// configs are what is in effect and what the last reload was to put into effect: the same,
// unless a Location could not become what it says.
func (h *Host) configs() (effective, wanted *config.Config) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.config, h.wanted
}
