package output

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strconv"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/toolhost/toolhost/tool"
)

// The hard ceilings of one call's answer. What is beyond them ends the call as too
// large (law 17); no limits of a Location raise them.
const (
	// MaxStructured is the most bytes of a structured value beside content.
	MaxStructured = 1 << 20
	// MaxMedia is the most bytes of all images, sounds and resources that are no text of
	// one call together.
	MaxMedia = 16 << 20
	// MaxLinks is the most bytes of all links of one call together, names and
	// descriptions included, and of the URIs and media types of what is given itself.
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
	// Session is the conversation; only it reads the output again. Whatever is not UTF-8
	// is quoted where it is kept.
	Session string `json:"session"`
	// Tool is the canonical id of the tool.
	Tool string `json:"tool"`
	// Call is the id of the tool call.
	Call string `json:"call"`
}

// exact is a text that JSON keeps apart from every other: one that is not UTF-8 is
// quoted, and one that looks quoted too.
func exact(text string) string {
	if utf8.ValidString(text) && !strings.HasPrefix(text, `"`) {
		return text
	}
	return strconv.Quote(text)
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
	o.Location = cmp.Or(o.Location, k.options.Location)
	o = Origin{exact(o.Location), exact(o.Session), exact(o.Tool), exact(o.Call)}
	return &Bounding{store: k.options.Store, limits: k.limits(o.Tool), origin: o}
}

// Tools are the host's own tools, which run in this process: output_read and
// output_search, by their names. They read what was kept for their caller's
// session in this Location, and answer of anything else that it is not there.
func (k *Keeper) Tools() map[string]tool.Tool {
	return map[string]tool.Tool{"output_read": k.readTool(), "output_search": k.searchTool()}
}

// A Bounding bounds the output of one call. It is safe for concurrent use, so
// that an executor which outlives its call does no harm.
type Bounding struct {
	store  *Store
	limits Limits
	origin Origin

	mu      sync.Mutex // guards the rest
	over    bool       // bound or discarded
	shown   *measure   // nil before the first text
	pending []byte     // the raw text, as long as it fits the limits
	writing *writing   // the raw text where it does not
	problem error      // why the streamed text could not be kept
	paths   []string
}

// errOver is the error of who writes to a call that is over.
var errOver = errors.New("output comes too late: the call is over")

// piece is how many bytes of text are taken in one go, under the lock and without
// a look at a context.
const piece = 64 << 10

// Write takes streamed text of the call; see [tool.Call.Output]. It may be of any
// size and is held in bounded memory. An error is a [*tool.Error] of
// [tool.KindRetention], which the end of a completed or failed call then is as well,
// or says that the call is over: Write then ends within a piece of 64 KiB.
func (b *Bounding) Write(p []byte) (int, error) {
	for n := 0; ; {
		next := min(n+piece, len(p))
		if err := b.take(p[n:next]); err != nil {
			return n, err
		}
		if n = next; n == len(p) {
			return n, nil
		}
	}
}

// take takes a piece of streamed text.
func (b *Bounding) take(p []byte) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case b.over:
		return errOver
	case b.problem != nil:
		return b.problem
	case len(p) == 0:
		return nil
	}
	if b.shown == nil {
		b.shown = newMeasure(b.limits)
	}
	// What is longer than the limits is either cut or was changed: it will be kept.
	if b.writing == nil && len(b.pending)+len(p) <= b.limits.MaxBytes {
		b.pending = append(b.pending, p...)
	} else if b.problem = b.keep(p); b.problem != nil {
		b.drop()
		return b.problem
	}
	b.shown.write(p)
	return nil
}

// keep sends raw text to the store, that which is pending first.
func (b *Bounding) keep(p []byte) error {
	if b.writing == nil {
		if b.store == nil {
			return tool.Errorf(tool.KindRetention, "%w", errNoStore)
		}
		w, err := b.store.create()
		if err != nil {
			return err
		}
		b.writing = w
		if _, err := w.Write(b.pending); err != nil {
			return err
		}
		b.pending = nil
	}
	_, err := b.writing.Write(p)
	return err
}

var errNoStore = errors.New("output is over its limits, and there is no store to keep the whole in")

// Bound bounds the settlement of a completed or failed call in place, once.
// What is cut or changed is kept first, and named in Retained. Any other settlement
// stays as it is, whatever became of what the call streamed: a refusal is not masked
// by a full disk (law 36). An error is a [*tool.Error] of [tool.KindRetention] or
// [tool.KindTooLarge], or the cause of ctx, within 100 ms of its end but for a string
// that is given as text too, which is compared in one go, some 5 ms a MiB; the
// settlement is then unchanged and must not be published. Where there is nothing to
// cut ctx is not looked at.
func (b *Bounding) Bound(ctx context.Context, s *tool.Settlement) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.over {
		return tool.Errorf(tool.KindInternal, "%w", errOver)
	}
	defer b.release()
	if s.Status != tool.Completed && s.Status != tool.Failed {
		return nil // its words are the host's own
	}
	if b.problem != nil {
		return b.problem
	}
	if s.Status == tool.Failed {
		return b.failed(ctx, s)
	}
	return b.completed(ctx, s)
}

// completed bounds what a call gave back.
func (b *Bounding) completed(ctx context.Context, s *tool.Settlement) error {
	if b.shown == nil && len(s.Content) == 0 {
		return b.structured(ctx, s)
	}
	if len(s.Structured) > MaxStructured && !mirrored(s) {
		return tooLarge("structured value has %d bytes beside content: at most %d", len(s.Structured), MaxStructured)
	}
	content := s.Content
	if b.shown != nil {
		content = slices.Concat([]tool.Content{tool.Text(string(b.pending))}, content)
	}
	if err := checkContent(content); err != nil {
		return err
	}
	var texts []string
	for _, c := range s.Content {
		if hasText(c) {
			texts = append(texts, c.Text)
		}
	}
	if b.shown == nil && len(texts) == 0 {
		return nil
	}
	if b.shown == nil && plainly(texts, b.limits) && len(content) <= MaxBlocks {
		return nil
	}
	text, changed, err := b.text(ctx, texts, KindText, s)
	if err != nil {
		return err
	}
	if changed && !fits(s.Structured, b.limits) && mirrored(s) {
		s.Structured = nil
	}
	switch {
	case changed:
		s.Content = replaceText(takenOut(content), text)
	case len(content) > MaxBlocks:
		s.Content = replaceText(content, joined(content))
	default:
		s.Content = content
	}
	return nil
}

// mirrored reports whether the content is no more than the structured value given as
// text, as it is for an output that is a string (law 16). It has no content of its
// own then.
func mirrored(s *tool.Settlement) bool {
	if len(s.Content) != 1 || s.Content[0].Type != tool.TextContent || len(s.Structured) < len(s.Content[0].Text)+2 || s.Structured[0] != '"' {
		return false
	}
	var text string
	return json.Unmarshal(s.Structured, &text) == nil && text == s.Content[0].Text
}

// structured bounds a structured value that has no content beside it.
func (b *Bounding) structured(ctx context.Context, s *tool.Settlement) error {
	if len(s.Structured) == 0 || fits(s.Structured, b.limits) {
		return nil
	}
	text, _, err := b.text(ctx, []string{view(s.Structured)}, KindJSON, s)
	if err != nil {
		return err
	}
	s.Structured, s.Content = nil, []tool.Content{tool.Text(text)}
	return nil
}

// failed bounds a failure's message, before which stands what the call streamed.
func (b *Bounding) failed(ctx context.Context, s *tool.Settlement) error {
	if s.Error == nil || s.Error.Kind != tool.KindFailure {
		return nil
	}
	text, changed, err := b.text(ctx, []string{s.Error.Message}, KindText, s)
	if err != nil {
		return err
	}
	if !changed && b.shown.streamed > 0 {
		text, changed = joined([]tool.Content{tool.Text(string(b.pending)), tool.Text(s.Error.Message)}), true
	}
	if changed {
		s.Error = &tool.Error{Kind: s.Error.Kind, Message: text, Cause: s.Error.Cause}
	}
	return nil
}

// text bounds the streamed text and the texts behind it. If what is shown is not
// what came, it is the answer, and what came is kept.
func (b *Bounding) text(ctx context.Context, texts []string, kind Kind, s *tool.Settlement) (string, bool, error) {
	blocks := len(texts)
	if b.shown == nil {
		b.shown = newMeasure(b.limits)
	} else {
		b.shown.streamed = b.shown.raw
		blocks++
	}
	for _, text := range texts {
		b.shown.separate()
		if err := inPieces(ctx, text, func(p []byte) error { b.shown.write(p); return nil }); err != nil {
			return "", false, err
		}
	}
	v := b.shown.verdict()
	if v.unchanged && b.writing == nil {
		return "", false, nil
	}
	meta, err := b.publish(ctx, texts, kind, s.Lost)
	if err != nil {
		return "", false, err
	}
	s.Retained = append(slices.Clone(s.Retained), tool.Retained{Handle: meta.Handle, Bytes: meta.Bytes, Lines: meta.Lines})
	if v.fits {
		return string(v.all.text), true, nil
	}
	return v.preview(b.limits, mark{handle: meta.Handle, bytes: meta.Bytes, lost: s.Lost, blocks: blocks}), true, nil
}

// publish keeps the raw text, streamed and not.
func (b *Bounding) publish(ctx context.Context, texts []string, kind Kind, lost int64) (Meta, error) {
	if err := b.keep(nil); err != nil {
		return Meta{}, err
	}
	for _, text := range texts {
		if w := b.writing; w.raw > 0 && w.last != '\n' {
			if err := b.keep([]byte{'\n'}); err != nil {
				return Meta{}, err
			}
		}
		if err := inPieces(ctx, text, b.keep); err != nil {
			return Meta{}, err
		}
	}
	meta, err := b.writing.commit(ctx, b.origin, kind, lost)
	if err != nil {
		return Meta{}, err
	}
	b.paths = append(b.paths, b.store.path(meta.Handle))
	return meta, nil
}

// inPieces gives a text to take, a piece at a time, until ctx is done.
func inPieces(ctx context.Context, text string, take func([]byte) error) error {
	for p := bytesOf(text); len(p) > 0; {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		n := min(len(p), piece)
		if err := take(p[:n]); err != nil {
			return err
		}
		p = p[n:]
	}
	return nil
}

// Discard releases what Bound did not publish. It may be called at any time, and
// again.
func (b *Bounding) Discard() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.release()
}

func (b *Bounding) release() {
	b.over = true
	b.drop()
}

// drop lets go of the text and of what is written of it, at once where the disk is
// full: the executor may run on for long.
func (b *Bounding) drop() {
	if b.writing != nil {
		b.writing.discard()
	}
	b.writing, b.pending, b.shown = nil, nil, nil
}

// Paths are the files of what was kept, for hooks (law 21); never for a model.
func (b *Bounding) Paths() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.paths)
}
