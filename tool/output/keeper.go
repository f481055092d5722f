package output

import (
	"github.com/toolhost/toolhost/tool"
)

// The hard ceilings of one call's answer. What is beyond them ends the call as too
// large (law 17); no limits of a Location raise them.
const (
	// MaxStructured is the most bytes of a structured value beside content.
	MaxStructured = 1 << 20
	// MaxMedia is the most bytes of all images and sounds of one call together.
	MaxMedia = 16 << 20
	// MaxLinks is the most bytes of all links of one call together, names and
	// descriptions included.
	MaxLinks = 64 << 10
	// MaxBlocks is the most blocks of content.
	MaxBlocks = 256
)

// Limits is how much text of one call a model sees: both hold. Zero is none, not a
// default; a preview then is its mark alone. Below zero is zero.
type Limits struct {
	// MaxLines counts lines; a last line without its end counts.
	MaxLines int
	// MaxBytes counts bytes of UTF-8, the mark in a preview included, unless the mark
	// alone has more.
	MaxBytes int
}

// DefaultLimits are those of law 17: 2,000 lines and 50 KiB.
func DefaultLimits() Limits { return Limits{MaxLines: 2000, MaxBytes: 50 << 10} }

// Origin says whose output it is.
type Origin struct {
	// Location is the root of the Location.
	Location string `json:"location"`
	// Session is the conversation; only it reads the output again.
	Session string `json:"session"`
	// Tool is the canonical id of the tool.
	Tool string `json:"tool"`
	// Call is the id of the tool call.
	Call string `json:"call"`
}

// KeeperOptions describe a [Keeper].
type KeeperOptions struct {
	// Store keeps what is cut. Without one, what would be cut ends its call as failed
	// retention.
	Store *Store
	// Location is the root of the Location, as in [Origin]: the Keeper's tools read
	// outputs of this one only. It stands in for an Origin that has none.
	Location string
	// Limits are those of every tool that PerTool does not name.
	Limits Limits
	// PerTool has the limits of single tools, by canonical id.
	PerTool map[string]Limits
}

// A Keeper bounds the outputs of one Location. It is safe for concurrent use and
// holds no resource.
type Keeper struct{ options KeeperOptions }

// NewKeeper makes a Keeper. The options are not to be changed any more.
func NewKeeper(options KeeperOptions) *Keeper { return &Keeper{options: options} }

// limits are those of the tool.
func (k *Keeper) limits(id string) Limits {
	l, ok := k.options.PerTool[id]
	if !ok {
		l = k.options.Limits
	}
	return Limits{MaxLines: max(l.MaxLines, 0), MaxBytes: max(l.MaxBytes, 0)}
}

// Begin begins the bounding of one call. It is cheap, and nothing is on disk
// before something is over the limits. The caller ends it with [Bounding.Discard].
func (k *Keeper) Begin(o Origin) *Bounding {
	if o.Location == "" {
		o.Location = k.options.Location
	}
	return &Bounding{store: k.options.Store, limits: k.limits(o.Tool), origin: o}
}

// Tools are the host's own tools, which run in this process: output_read and
// output_search, by their names. They read what was kept for their caller's
// session in this Location, and answer of anything else that it is not there.
func (k *Keeper) Tools() map[string]tool.Tool {
	return map[string]tool.Tool{"output_read": k.readTool(), "output_search": k.searchTool()}
}
