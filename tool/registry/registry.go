package registry

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/toolhost/toolhost/scope"
	"github.com/toolhost/toolhost/tool"
	"github.com/toolhost/toolhost/tool/output"
)

const (
	// DefaultDeadline is how long a call may take when nothing else is said.
	DefaultDeadline = 5 * time.Minute
	// DefaultSuspension is how long a suspended call waits when nothing else is said.
	DefaultSuspension = 10 * time.Minute
	// StopGrace is how long a cancelled executor may take to return before its call
	// ends without it.
	StopGrace = time.Second
	// PinFor is how long a captured tool can be called after its registration was
	// closed, while what runs it is there (law 7).
	PinFor = 15 * time.Minute
	// MaxNames is how many names one owner may claim.
	MaxNames = 10_000
)

// Options is what a registry needs. Gate and Scope are required.
type Options struct {
	// Gate makes a gate of one call. It is called once for each call before anything
	// is asked, and once more before that for one that is prepared, possibly
	// concurrently, and returns no nil.
	Gate func(Caller) tool.Gate
	// Scope owns the goroutines of the calls. When its context is cancelled, running
	// calls are, and end as unavailable.
	Scope *scope.Scope
	// Deadline bounds the work of a call that names no deadline; 0 is
	// [DefaultDeadline].
	Deadline time.Duration
	// Suspension is how long a suspended call waits; 0 is [DefaultSuspension].
	Suspension time.Duration
	// Output bounds what a model sees and keeps the whole (laws 17, 18). Nil bounds
	// by the default limits and keeps nothing, so that what is over them fails.
	Output *output.Keeper
	// Journal records calls that may do more than read (law 15). Nil records nothing.
	Journal Journal
	// Recorder is told what becomes of calls. It may be nil.
	Recorder Recorder
	// Began is told of every call whose tool was found, before anything is done for it;
	// [Recorder.Ended] is told of its end. It must not block, and may be nil.
	Began func(Record)
	// Hooks are those of the embedding program (law 21).
	Hooks Hooks
	// Instructions finds those that belong to the targets of a completed call (law
	// 30). Its error is logged and harms no call. It may be nil.
	Instructions func(ctx context.Context, gate tool.Gate, session string, targets []string) ([]tool.Instruction, error)
	// Contradicted is told what a tool would have done beyond its effects (law 23).
	// It must not block, and may be nil.
	Contradicted func(tool.Contradiction)
	// Log takes what nobody is returned: refused tools, contradictions, hooks that
	// break, and executors that do not stop. Nil discards it.
	Log *slog.Logger
}

// A Journal records calls that may do more than read, before they run and when
// they ended.
type Journal interface {
	// Start records that the call is about to run. An error keeps it from running.
	// ended records how it ended; it is called once and its failing is the journal's
	// to report. It must be safe for concurrent use.
	Start(ctx context.Context, start tool.Start) (ended func(tool.Status, tool.Kind), err error)
}

// A Caller says whose call a gate is for, and what the call may do.
type Caller struct {
	Identity tool.Identity
	// Tool is the canonical id of the tool that is called.
	Tool string
	// Plugin is the name of its owner, Builtin whether that ships with the host, and
	// Digest what stands for it ([Owner.Digest]). Definition stands for what the tool
	// says of itself; it is empty for one that is built in.
	Plugin             string
	Builtin            bool
	Digest, Definition string
	// Input is the call's, as it was validated. It must not be changed.
	Input json.RawMessage
	// Preparing is true for the gate of a tool that prepares the call: it answers
	// from rules alone and asks nobody (law 25).
	Preparing bool
	// Explaining says that the call is not made, and only explained: what its gate
	// answers is recorded nowhere ([Capture.Plan]).
	Explaining bool
	// Effects, Irreversible, Review and Diff are what the call may do and, in the tool's
	// own words and in the host's, will do. They are empty while it is being prepared.
	Effects      tool.Effects
	Irreversible bool
	Review, Diff string
	// Asking is called by the gate before it asks a person, and answered when it has
	// the answer or gave up: the call's deadline stands still meanwhile, and the call
	// may be suspended (law 37). It is nil while the call is being prepared.
	Asking func(tool.PermissionRequest) (answered func())
}

// An Owner is who registers tools.
type Owner struct {
	// Name is the plugin's key in config (see [tool.CheckPluginName]).
	Name string
	// Builtin is true for what ships with the host. It comes first where names
	// collide, and asserts its permissions itself (laws 3, 33).
	Builtin bool
	// Application is true for the embedding program's own tools: they come after those
	// of the Location, and are given none of its services (law 6).
	Application bool
	// Host is true for the host's own tools, which alone may have the names that are
	// reserved (law 2). It implies Builtin.
	Host bool
	// Override holds the names that the owner may take from others, as authored or
	// as effective names.
	Override []string
	// Digest stands for everything that makes the owner behave as it does: its
	// executable and its grants. Where it is equal and not empty, equal definitions
	// are the same tool, also in another registration (law 7).
	Digest string
}

// A Refusal is one tool that is registered and cannot be called, or was not
// registered at all.
type Refusal struct {
	// Owner and Name are whose tool it is and its authored name.
	Owner, Name string
	// Reason is for the author of the tool or of the config. Its length is bounded.
	Reason string
}

// A Report is what became of one registration.
type Report struct {
	// Refused are the tools that cannot be called now, sorted by name. All others of
	// the registration can.
	Refused []Refusal
	// Doubts are parts of the schemas of those that contradict each other, sorted by
	// name. They are enforced as they stand.
	Doubts []Refusal
}

// A Registry holds the registrations of one Location. All methods may be called
// concurrently.
type Registry struct {
	options Options // with the defaults filled in
	log     *slog.Logger
	schemas schemas

	mu          sync.Mutex                 // guards what follows
	owners      map[string]*owner          // by name
	claims      map[string][]*owner        // by effective name, those who claim it
	told        map[collision]struct{}     // collisions that were logged
	latest      *view                      // of what is effective now; nil when that changed
	subscribers map[chan struct{}]struct{} // each has room for one
	acting      bool                       // changes are told when they are complete

	waiting suspensions

	output  atomic.Pointer[output.Keeper]
	opened  time.Time
	running atomic.Int64 // calls
	used    atomic.Int64 // when it last was, since opened
}

// A collision is one owner that does not get a name that it claims.
type collision struct{ owner, name string }

// A Registration is a set of tools that stands until it is closed.
type Registration struct {
	registry *Registry
	owner    Owner
	budget   *budget
	set      *Set              // nil for one that stands by itself
	entries  map[string]*entry // by effective name
	refused  []Refusal         // for what they are, not for whom they collide with
	doubts   []Refusal         // of the entries

	published bool        // under registry.mu
	closed    atomic.Bool // written under registry.mu
	closedAt  time.Time   // under registry.mu
	lost      bool        // under registry.mu: what runs the tools is gone
}

// New makes an empty registry.
func New(options Options) (*Registry, error) {
	if options.Gate == nil {
		return nil, errors.New("registry: Options.Gate is nil: every call needs a gate")
	}
	if options.Scope == nil {
		return nil, errors.New("registry: Options.Scope is nil: calls need an owner")
	}
	options.Deadline = cmp.Or(max(options.Deadline, 0), DefaultDeadline)
	options.Suspension = cmp.Or(max(options.Suspension, 0), DefaultSuspension)
	options.Log = cmp.Or(options.Log, slog.New(slog.DiscardHandler))
	options.Hooks = options.Hooks.clone()
	if options.Output == nil {
		options.Output = output.NewKeeper(output.KeeperOptions{Limits: output.DefaultLimits()})
	}
	r := &Registry{
		options:     options,
		log:         options.Log,
		owners:      make(map[string]*owner),
		claims:      make(map[string][]*owner),
		told:        make(map[collision]struct{}),
		subscribers: make(map[chan struct{}]struct{}),
		opened:      time.Now(),
	}
	r.output.Store(options.Output)
	return r, nil
}

// Register adds tools by their authored names. Those that are valid appear in one
// act; the others are in the report, each with its reason (laws 3, 5). Tools and
// schemas are copied: what the caller does later to the map or the values in it
// changes nothing (law 4).
//
// Registrations of one owner are prepared one after another. What their schemas
// occupy is bounded by [MaxSchemaSize]; closing a registration makes room.
//
// The owner's settings hold for all its registrations, those of its newest active
// one.
func (r *Registry) Register(by Owner, tools map[string]tool.Tool) (*Registration, Report) {
	by.Override = slices.Clone(by.Override)
	by.Builtin = by.Builtin || by.Host

	r.mu.Lock()
	o := r.owner(by.Name)
	o.pending++ // nobody forgets it meanwhile
	r.mu.Unlock()

	registration := &Registration{registry: r, owner: by, budget: &o.budget}
	r.fill(registration, tools)

	r.mu.Lock()
	o.pending--
	r.publish(registration)
	r.changed()
	report := Report{Refused: r.refusals(registration), Doubts: slices.Clone(registration.doubts)}
	collisions := r.newCollisions(registration)
	r.mu.Unlock()

	r.logRefused(slices.Concat(registration.refused, collisions))
	return registration, report
}

// fill prepares the tools of a registration that nobody sees yet.
func (r *Registry) fill(registration *Registration, tools map[string]tool.Tool) {
	registration.budget.turn.Lock()
	registration.entries, registration.refused = r.prepare(registration.owner, registration.budget, tools)
	registration.budget.turn.Unlock()
	for _, e := range registration.entries {
		e.registration = registration
		registration.doubts = append(registration.doubts, e.doubts()...)
	}
	slices.SortFunc(registration.doubts, byName)
}

// release takes back what its schemas were charged with.
func (registration *Registration) release() {
	for _, e := range registration.entries {
		registration.budget.release(e)
	}
}

// limit refuses the names with which o would claim more than it may. r.mu is held.
func (registration *Registration) limit(o *owner) {
	room := MaxNames - len(o.claimed)
	for _, name := range sortedKeys(registration.entries) {
		if o.claims(name) {
			continue
		}
		if room--; room < 0 {
			e := registration.entries[name]
			registration.refused = append(registration.refused, e.refusal(tooMany(o.name)))
			registration.budget.release(e)
			delete(registration.entries, name)
		}
	}
}

// Close takes exactly this registration away. Calls that captured one of its tools
// still run it for [PinFor], as long as what runs it is there (law 7); calls that
// run are left to whoever executes them. Closing twice is closing once (law 3).
func (registration *Registration) Close() { registration.close(false) }

// Lost closes the registration because what runs its tools is gone. Calls that
// captured one of them run the same tool of a later registration, if there is one,
// and end as unavailable otherwise (law 7).
func (registration *Registration) Lost() { registration.close(true) }

func (registration *Registration) close(lost bool) {
	r := registration.registry
	r.mu.Lock()
	defer r.mu.Unlock()
	registration.closeLocked(lost)
}

// closeLocked is close. r.mu is held.
func (registration *Registration) closeLocked(lost bool) {
	r := registration.registry
	registration.lost = registration.lost || lost
	if registration.closed.Swap(true) {
		return
	}
	registration.closedAt = time.Now()
	registration.release()
	if s := registration.set; s != nil {
		s.active = slices.DeleteFunc(s.active, func(other *Registration) bool { return other == registration })
	}
	if registration.published {
		r.changed()
		r.owner(registration.owner.Name).close(registration)
	}
}

// Forget drops the owner's claims on names that none of its active registrations
// holds. It is for an owner that will not come back, or that came back with other
// tools; until then nobody else gets those names (law 3).
func (r *Registry) Forget(owner string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.forget(owner)
}

// forget is Forget. r.mu is held.
func (r *Registry) forget(owner string) {
	o, ok := r.owners[owner]
	if !ok {
		return
	}
	r.changed()
	for name := range o.claimed {
		if o.top(name) == nil {
			r.unclaim(name, o)
		}
	}
	if len(o.active)+o.pending == 0 {
		delete(r.owners, owner)
	}
}

// Refusals are the tools of an owner's active registrations that cannot be called
// now, sorted by name: those that are invalid, and those whose names others have,
// also when that was found later.
func (r *Registry) Refusals(owner string) []Refusal {
	r.mu.Lock()
	defer r.mu.Unlock()
	o, ok := r.owners[owner]
	if !ok {
		return nil
	}
	var all []Refusal
	for _, registration := range o.active {
		all = append(all, r.refusals(registration)...)
	}
	slices.SortFunc(all, byName)
	return slices.Compact(all)
}

// Doubts are what is doubtful in the schemas of an owner's active registrations,
// sorted by name.
func (r *Registry) Doubts(owner string) []Refusal {
	r.mu.Lock()
	defer r.mu.Unlock()
	o, ok := r.owners[owner]
	if !ok {
		return nil
	}
	var all []Refusal
	for _, registration := range o.active {
		all = append(all, registration.doubts...)
	}
	slices.SortFunc(all, byName)
	return slices.Compact(all)
}

// owner finds or makes the owner. r.mu is held.
func (r *Registry) owner(name string) *owner {
	o, ok := r.owners[name]
	if !ok {
		o = newOwner(name)
		r.owners[name] = o
	}
	return o
}

// claim records that o claims the name. r.mu is held.
func (r *Registry) claim(name string, o *owner) {
	if !o.claims(name) {
		o.claimed[name] = struct{}{}
		r.claims[name] = append(r.claims[name], o)
	}
}

// unclaim takes that back. r.mu is held.
func (r *Registry) unclaim(name string, o *owner) {
	delete(o.claimed, name)
	delete(r.told, collision{o.name, name})
	rest := slices.DeleteFunc(r.claims[name], func(other *owner) bool { return other == o })
	if r.claims[name] = rest; len(rest) == 0 {
		delete(r.claims, name)
	}
}

// refusals are the tools of the registration that cannot be called now. r.mu is
// held.
func (r *Registry) refusals(registration *Registration) []Refusal {
	all := slices.Clone(registration.refused)
	o := r.owners[registration.owner.Name]
	for name, e := range registration.entries {
		if reason := collides(name, o, r.claims[name]); reason != "" {
			all = append(all, e.refusal(reason))
		}
	}
	slices.SortFunc(all, byName)
	return all
}

// newCollisions are the collisions over the registration's names, whoever loses,
// that were not told before. r.mu is held.
func (r *Registry) newCollisions(registration *Registration) []Refusal {
	var found []Refusal
	for name := range registration.entries {
		for _, o := range r.claims[name] {
			reason := collides(name, o, r.claims[name])
			if _, told := r.told[collision{o.name, name}]; told || reason == "" {
				continue
			}
			r.told[collision{o.name, name}] = struct{}{}
			authored := name
			if e := o.top(name); e != nil {
				authored = e.authored
			}
			found = append(found, Refusal{Owner: o.name, Name: authored, Reason: reason})
		}
	}
	return found
}

// logRefused says what was refused, and of very many the first.
func (r *Registry) logRefused(refused []Refusal) {
	const most = 50
	slices.SortFunc(refused, byName)
	for i, x := range refused {
		if i == most {
			r.log.Warn("tools refused", slog.String("plugin", x.Owner), slog.Int("more", len(refused)-most))
			return
		}
		r.log.Warn("tool refused", slog.String("plugin", x.Owner), slog.String("tool", x.Name), slog.String("reason", x.Reason))
	}
}

func byName(a, b Refusal) int {
	return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Owner, b.Owner), cmp.Compare(a.Reason, b.Reason))
}
