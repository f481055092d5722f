package output

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/klauspost/compress/zstd"

	"github.com/toolhost/toolhost/tool"
)

// A file is frames of zstd, each of frameBytes of the output but the last, which
// may be shorter. Behind them is a frame that readers of zstd skip: its header, a
// trailer as JSON, and a footer that says how long the trailer is.
const (
	frameBytes  = 1 << 20
	frameMargin = 64 << 10 // that a frame of incompressible bytes may be larger; far above what zstd adds
	skipMagic   = 0x184d2a5e
	skipHeader  = 8
	footerMagic = "toolout1"
	footerBytes = 4 + len(footerMagic)
	maxTrailer  = 256 << 20
)

// trailer says what is in a file.
type trailer struct {
	Meta   Meta    `json:"meta"`
	Frames []int64 `json:"frames"` // the sizes of the frames, as compressed
}

// A packer compresses frames. It may be used again.
type packer struct {
	encoder *zstd.Encoder
	raw     []byte // less than a frame
	packed  []byte
}

func newPacker() *packer {
	encoder, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(1),
		zstd.WithWindowSize(256<<10), zstd.WithLowerEncoderMem(true))
	if err != nil {
		panic(err) // the options are constants
	}
	return &packer{encoder: encoder}
}

// A writing is one output on its way to the disk. It is not for concurrent use.
type writing struct {
	store  *Store
	handle string
	file   *os.File // under its temporary name
	packer *packer
	frames []int64
	packed int64 // bytes of the frames
	raw    int64
	lines  int64 // ends of lines
	last   byte
}

// create begins an output. The caller ends it with commit or discard.
func (s *Store) create() (*writing, error) {
	if err := s.prepare(); err != nil {
		return nil, s.cannotKeep(err)
	}
	for {
		handle := strings.ToLower(rand.Text())
		file, err := createLocked(s.path(handle) + temporary)
		if errors.Is(err, errSwept) {
			continue
		}
		if err != nil {
			return nil, s.cannotKeep(err)
		}
		return &writing{store: s, handle: handle, file: file, packer: s.packers.Get().(*packer)}, nil
	}
}

// errSwept says that a sweep took the new file for an abandoned one.
var errSwept = errors.New("was swept")

// createLocked makes a file that there was not, for nobody but the user whatever
// the umask, and locks it.
func createLocked(path string) (*os.File, error) {
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL|syscall.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, err
	}
	err = file.Chmod(0o600)
	if err == nil {
		err = lockNew(file)
	}
	if err != nil {
		return nil, errors.Join(err, os.Remove(path), file.Close())
	}
	return file, nil
}

func lockNew(file *os.File) error {
	if err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX); err != nil {
		return &fs.PathError{Op: "flock", Path: file.Name(), Err: err}
	}
	info, err := file.Stat()
	if err != nil {
		return err
	}
	if info.Sys().(*syscall.Stat_t).Nlink == 0 {
		return errSwept
	}
	return nil
}

// Write takes the next bytes of the output.
func (w *writing) Write(p []byte) (int, error) {
	n := len(p)
	if n == 0 {
		return 0, nil
	}
	w.raw += int64(n)
	w.last = p[n-1]
	for len(p) > 0 {
		if len(w.packer.raw) == 0 && len(p) >= frameBytes {
			if err := w.writeFrame(p[:frameBytes]); err != nil {
				return 0, err
			}
			p = p[frameBytes:]
			continue
		}
		part := p[:min(len(p), frameBytes-len(w.packer.raw))]
		w.packer.raw = append(w.packer.raw, part...)
		p = p[len(part):]
		if len(w.packer.raw) == frameBytes {
			if err := w.flush(); err != nil {
				return 0, err
			}
		}
	}
	return n, nil
}

// flush writes the frame that is begun.
func (w *writing) flush() error {
	frame := w.packer.raw
	w.packer.raw = frame[:0]
	return w.writeFrame(frame)
}

func (w *writing) writeFrame(frame []byte) error {
	w.lines += int64(linesIn(frame))
	w.packer.packed = w.packer.encoder.EncodeAll(frame, w.packer.packed[:0])
	size := int64(len(w.packer.packed))
	if w.packed+size > w.store.quota {
		return w.store.tooLarge()
	}
	if _, err := w.file.Write(w.packer.packed); err != nil {
		return w.store.cannotKeep(err)
	}
	w.packed += size
	w.frames = append(w.frames, size)
	return nil
}

// commit completes the output and publishes it. After an error, which is the cause of
// ctx where that is done, the caller discards.
func (w *writing) commit(ctx context.Context, o Origin, kind Kind, lost int64) (Meta, error) {
	if len(w.packer.raw) > 0 {
		if err := w.flush(); err != nil {
			return Meta{}, err
		}
	}
	if w.raw > 0 && w.last != '\n' {
		w.lines++
	}
	now := time.Now().UTC()
	meta := Meta{
		Handle: w.handle, Origin: o, At: now, Expires: now.Add(w.store.retention), Kind: kind,
		Bytes: w.raw, Lines: w.lines, Compressed: w.packed, Lost: lost,
	}
	end, err := trailer{meta, w.frames}.encode()
	if err != nil {
		return Meta{}, err
	}
	meta.Compressed += int64(len(end))
	if _, err := w.file.Write(end); err != nil {
		return Meta{}, w.store.cannotKeep(err)
	}
	if meta.Compressed > w.store.quota {
		return Meta{}, w.store.tooLarge()
	}
	path := w.store.path(w.handle)
	if err := os.Rename(w.file.Name(), path); err != nil {
		return Meta{}, w.store.cannotKeep(err)
	}
	// Behind the renaming, so that of several writers the last makes room for all.
	if err := w.store.makeRoom(ctx, w.handle); err != nil {
		if problem := os.Remove(path); problem != nil {
			w.store.log.Warn("retained output that nobody was told of stays", "error", problem)
		}
		return Meta{}, err
	}
	_ = w.file.Close() // everything was written; a lock is all that it holds
	w.file = nil
	w.release()
	return meta, nil
}

// discard removes what was written, unless it was published. It may be called again.
func (w *writing) discard() {
	if w.file == nil {
		return
	}
	if err := errors.Join(os.Remove(w.file.Name()), w.file.Close()); err != nil && !errors.Is(err, fs.ErrNotExist) {
		w.store.log.Warn("half written output stays until the next sweep", "error", err)
	}
	w.file = nil
	w.release()
}

func (w *writing) release() {
	w.packer.raw = w.packer.raw[:0]
	w.store.packers.Put(w.packer)
	w.packer = nil
}

// tooLarge is the error of an output for which no room can be made.
func (s *Store) tooLarge() error {
	return s.cannotKeep(fmt.Errorf("this output alone is over the quota of %d bytes; raise it, or let the tool write less", s.quota))
}

// cannotKeep is the error of a call whose output could not be kept: what happened,
// and what to do.
func (s *Store) cannotKeep(err error) error {
	advice := ""
	switch {
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		advice = "; free some space on its disk, or remove outputs: toolhost outputs prune --all"
	case errors.Is(err, fs.ErrNotExist):
		advice = "; the directory was removed meanwhile, run the tool again"
	case errors.Is(err, fs.ErrPermission), errors.Is(err, syscall.EROFS):
		advice = "; make the directory writable for its user"
	}
	return tool.Errorf(tool.KindRetention, "%w", fmt.Errorf("keep an output in %s: %w%s", s.dir, err, advice))
}

// encode is the skippable frame.
func (t trailer) encode() ([]byte, error) {
	body, err := json.Marshal(t)
	if err != nil {
		return nil, err
	}
	frame := binary.LittleEndian.AppendUint32(nil, skipMagic)
	frame = binary.LittleEndian.AppendUint32(frame, uint32(len(body)+footerBytes))
	frame = append(frame, body...)
	frame = binary.LittleEndian.AppendUint32(frame, uint32(len(body)))
	return append(frame, footerMagic...), nil
}

// errDamaged says that a file is not what commit wrote.
var errDamaged = errors.New("file is damaged; remove it by its handle: toolhost outputs prune HANDLE")

// readTrailer reads the end of a file of that size, and where the frames begin.
func readTrailer(file io.ReaderAt, size int64) (trailer, []int64, error) {
	var t trailer
	footer := make([]byte, footerBytes)
	if size < skipHeader+int64(footerBytes) {
		return t, nil, errDamaged
	}
	if _, err := file.ReadAt(footer, size-int64(footerBytes)); err != nil {
		return t, nil, err
	}
	length := int64(binary.LittleEndian.Uint32(footer))
	start := size - int64(footerBytes) - length
	if string(footer[4:]) != footerMagic || length > maxTrailer || start < skipHeader {
		return t, nil, errDamaged
	}
	body := make([]byte, length)
	if _, err := file.ReadAt(body, start); err != nil {
		return t, nil, err
	}
	if json.Unmarshal(body, &t) != nil {
		return t, nil, errDamaged
	}
	starts := make([]int64, 0, len(t.Frames)+1)
	at := int64(0)
	for _, frame := range t.Frames {
		starts = append(starts, at)
		if frame <= 0 || frame > frameBytes+frameMargin {
			return t, nil, errDamaged
		}
		at += frame
	}
	if at != start-skipHeader || t.Meta.Bytes < 0 || (t.Meta.Bytes+frameBytes-1)/frameBytes != int64(len(t.Frames)) {
		return t, nil, errDamaged
	}
	t.Meta.Compressed = size
	return t, append(starts, at), nil
}

// An unpacker decompresses frames. It may be used again.
type unpacker struct {
	decoder *zstd.Decoder
	packed  []byte
	raw     []byte
}

func newUnpacker() *unpacker {
	decoder, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true),
		zstd.WithDecoderMaxMemory(frameBytes+frameMargin))
	if err != nil {
		panic(err) // the options are constants
	}
	return &unpacker{decoder: decoder}
}

// A Kept is one output that is open for reading. It is safe for concurrent use.
type Kept struct {
	store  *Store
	meta   Meta
	starts []int64 // of the frames, and their end

	mu       sync.Mutex // guards the rest
	file     *os.File   // nil when closed
	unpacker *unpacker  // nil until it is needed
	frame    int        // whose bytes are in unpacker.raw; -1 for none
}

func (s *Store) open(handle string) (*Kept, error) {
	if err := s.check(); err != nil {
		return nil, err
	}
	file, err := os.OpenFile(s.path(handle), os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	info, err := file.Stat()
	switch {
	case err != nil:
	case !info.Mode().IsRegular():
		err = errDamaged
	case time.Since(info.ModTime()) > s.retention:
		err = fmt.Errorf("%w: it is expired", fs.ErrNotExist)
	}
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	end, starts, err := readTrailer(file, info.Size())
	if err == nil && end.Meta.Handle != handle {
		err = errDamaged
	}
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return &Kept{store: s, meta: end.Meta, starts: starts, file: file, frame: -1}, nil
}

// Meta describes the output.
func (k *Kept) Meta() Meta { return k.meta }

// ReadAt reads a range as [io.ReaderAt] has it. It decompresses the frames that the
// range touches, one at a time, and keeps the last one for the next read.
func (k *Kept) ReadAt(p []byte, offset int64) (int, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.file == nil {
		return 0, fs.ErrClosed
	}
	if offset < 0 {
		return 0, fmt.Errorf("output %s: offset %d is below 0", k.meta.Handle, offset)
	}
	n := 0
	for n < len(p) && offset < k.meta.Bytes {
		if err := k.load(int(offset / frameBytes)); err != nil {
			return n, fmt.Errorf("output %s: %w", k.meta.Handle, err)
		}
		part := copy(p[n:], k.unpacker.raw[offset%frameBytes:])
		n += part
		offset += int64(part)
	}
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

// load decompresses one frame.
func (k *Kept) load(frame int) error {
	if frame == k.frame {
		return nil
	}
	if k.unpacker == nil {
		k.unpacker = k.store.unpackers.Get().(*unpacker)
	}
	u := k.unpacker
	k.frame = -1
	size := k.starts[frame+1] - k.starts[frame]
	u.packed = append(u.packed[:0], make([]byte, size)...)
	if _, err := k.file.ReadAt(u.packed, k.starts[frame]); err != nil {
		return err
	}
	var err error
	u.raw, err = u.decoder.DecodeAll(u.packed, u.raw[:0])
	if err != nil {
		return fmt.Errorf("%w (%w)", errDamaged, err)
	}
	if want := min(k.meta.Bytes-int64(frame)*frameBytes, frameBytes); int64(len(u.raw)) != want {
		return errDamaged
	}
	k.frame = frame
	return nil
}

// Close closes the file. It may be called again.
func (k *Kept) Close() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.file == nil {
		return nil
	}
	err := k.file.Close()
	k.file = nil
	if k.unpacker != nil {
		k.store.unpackers.Put(k.unpacker)
		k.unpacker = nil
	}
	return err
}
