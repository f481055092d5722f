package state

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"syscall"
	"time"
)

// followEvery is how often a reader that follows looks for new lines.
const followEvery = 100 * time.Millisecond

// An AuditFilter says which entries are wanted: those that have what is not empty in
// it. The zero value wants all.
type AuditFilter struct {
	// Since is when the oldest happened.
	Since               time.Time
	Kind                AuditKind
	Session, Tool, Root string
	// Limit is how many of what is there are wanted, the newest; 0 means all, and -1
	// none, which is for who follows what comes.
	Limit int
}

func (f AuditFilter) wants(e AuditEntry) bool {
	return !e.At.Before(f.Since) && (f.Kind == "" || f.Kind == e.Kind) && (f.Session == "" || f.Session == e.Session) &&
		(f.Tool == "" || f.Tool == e.Tool) && (f.Root == "" || f.Root == e.Root)
}

// An AuditReader reads the audit log. It is for one reading at a time.
type AuditReader struct {
	dir     string
	filter  AuditFilter
	skipped atomic.Int64
}

// ReadAudit makes a reader of the log in the state directory, empty for [DefaultDir].
// It needs no [Audit] and locks nothing: whoever appends does not notice.
func ReadAudit(dir string, filter AuditFilter) *AuditReader {
	return &AuditReader{dir: dir, filter: filter}
}

// Skipped is how many lines were no entries: torn by the death of who wrote them, or
// changed by somebody; and how many of what has the name of a file of the log is no
// file. It may be called while the log is read.
func (r *AuditReader) Skipped() int64 { return r.skipped.Load() }

// Entries are the entries that are wanted, in the order in which they were appended,
// the oldest first. No log is no entries. An error, also of ctx, is the last that is
// yielded.
func (r *AuditReader) Entries(ctx context.Context) iter.Seq2[AuditEntry, error] {
	return r.read(ctx, false)
}

// Follow are the entries of Entries, and then those that are appended, as they come,
// until ctx ends, which is no error. What is rotated meanwhile is not missed, unless
// all files are, faster than it is read.
func (r *AuditReader) Follow(ctx context.Context) iter.Seq2[AuditEntry, error] {
	return r.read(ctx, true)
}

func (r *AuditReader) read(ctx context.Context, follow bool) iter.Seq2[AuditEntry, error] {
	return func(yield func(AuditEntry, error) bool) {
		reading := &auditReading{AuditReader: r, yield: func(e AuditEntry) bool { return yield(e, nil) }, odd: map[int]bool{}}
		err := reading.run(ctx, follow)
		if err == nil || errors.Is(err, errEnough) || follow && ctx.Err() != nil {
			return
		}
		yield(AuditEntry{}, fmt.Errorf("audit log: %w", err))
	}
}

// errEnough: who reads wants no more.
var errEnough = errors.New("enough was read")

// An auditReading is one reading of the log.
type auditReading struct {
	*AuditReader
	yield func(AuditEntry) bool
	files []*auditLines // the oldest first; those before the last are read
	odd   map[int]bool  // those that are no regular files
}

func (r *auditReading) run(ctx context.Context, follow bool) (err error) {
	dir := r.dir
	if dir == "" {
		if dir, err = DefaultDir(); err != nil {
			return err
		}
	}
	defer func() { r.close(len(r.files)) }()
	if r.files, err = r.open(dir); err != nil {
		return err
	}
	if err := r.existing(ctx, follow); err != nil || !follow {
		return err
	}
	tick := time.NewTicker(followEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-tick.C:
		}
		if err := r.step(ctx, dir); err != nil {
			return err
		}
	}
}

// close closes the first n files.
func (r *auditReading) close(n int) {
	for _, f := range r.files[:n] {
		f.file.Close()
	}
	r.files = r.files[n:]
}

// existing reads what is there when the reading begins.
func (r *auditReading) existing(ctx context.Context, follow bool) error {
	limit := r.filter.Limit
	if limit == 0 {
		return r.all(ctx, r.yield, follow)
	}
	var kept []AuditEntry
	err := r.all(ctx, func(e AuditEntry) bool {
		if limit > 0 {
			kept = append(kept, e)
		}
		if len(kept) >= 2*limit && limit > 0 {
			kept = slices.Delete(kept, 0, len(kept)-limit)
		}
		return true
	}, follow)
	if err != nil {
		return err
	}
	for _, e := range kept[max(0, len(kept)-max(0, limit)):] {
		if !r.yield(e) {
			return errEnough
		}
	}
	return nil
}

// all reads all open files, and keeps the last open; its last line may be a part of
// one that is being written, if there is more to come.
func (r *auditReading) all(ctx context.Context, take func(AuditEntry) bool, more bool) error {
	for i, file := range r.files {
		for {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			line, whole, err := file.next()
			if err != nil {
				return err
			}
			if !whole && i == len(r.files)-1 && more {
				break
			}
			if len(line) > 0 && !r.line(line, take) {
				return errEnough
			}
			if !whole {
				break
			}
		}
	}
	r.close(max(0, len(r.files)-1))
	return nil
}

// line gives the entry of a line to take, if there is one that is wanted.
func (r *auditReading) line(line []byte, take func(AuditEntry) bool) bool {
	var entry AuditEntry
	if json.Unmarshal(line, &entry) != nil || entry.Kind == "" || entry.At.IsZero() {
		r.skipped.Add(1)
		return true
	}
	return !r.filter.wants(entry) || take(entry)
}

// step reads what was appended since the last step.
func (r *auditReading) step(ctx context.Context, dir string) error {
	if len(r.files) > 0 {
		info, err := os.Lstat(filepath.Join(dir, auditName(0)))
		if err == nil && os.SameFile(info, r.files[0].info) || errors.Is(err, fs.ErrNotExist) {
			return r.all(ctx, r.yield, true)
		}
	}
	// Another file is the newest; there may be some between the two.
	files, err := r.open(dir)
	if err != nil {
		return err
	}
	if len(r.files) > 0 {
		newer, err := newerThan(files, r.files[0])
		if err != nil {
			return err
		}
		files = newer
	}
	r.files = append(r.files, files...)
	return r.all(ctx, r.yield, true)
}

// newerThan closes the files up to the one that was read, and returns the others. If
// that one is there no more, those are older to which nothing was appended since.
func newerThan(files []*auditLines, read *auditLines) ([]*auditLines, error) {
	info, err := read.file.Stat()
	first := slices.IndexFunc(files, func(f *auditLines) bool { return os.SameFile(f.info, read.info) }) + 1
	found := first > 0
	for err == nil && !found && first < len(files) && files[first].info.ModTime().Before(info.ModTime()) {
		first++
	}
	for i, f := range files {
		if i < first || err != nil {
			f.file.Close()
		}
	}
	return files[first:], err
}

// open opens all files of the log, the oldest first. It does so from the newest on: a
// file that moves meanwhile gets a higher number, so it is found twice and not never.
// What is no regular file is skipped.
func (r *auditReading) open(dir string) (files []*auditLines, err error) {
	for n := range MaxAuditFiles {
		f, err := openAuditLines(filepath.Join(dir, auditName(n)))
		switch {
		case errors.Is(err, fs.ErrNotExist):
		case errors.Is(err, errNoFile):
			if !r.odd[n] {
				r.odd[n] = true
				r.skipped.Add(1)
			}
		case err != nil:
			for _, f := range files {
				f.file.Close()
			}
			return nil, err
		case slices.ContainsFunc(files, func(other *auditLines) bool { return os.SameFile(other.info, f.info) }):
			f.file.Close()
		default:
			files = append(files, f)
		}
	}
	slices.Reverse(files)
	return files, nil
}

// errNoFile: what has the name of a file is none.
var errNoFile = errors.New("no regular file")

// auditLines are the lines of one file.
type auditLines struct {
	file   *os.File
	info   os.FileInfo
	reader *bufio.Reader
	line   []byte // what was read of a line
	long   bool   // it is too long: its parts are dropped
	whole  bool   // it was given
}

func openAuditLines(path string) (*auditLines, error) {
	file, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		if info, statErr := os.Stat(path); statErr == nil && !info.Mode().IsRegular() { // a socket, say
			return nil, errNoFile
		}
		return nil, err
	}
	info, err := file.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = errNoFile
	}
	if err != nil {
		file.Close()
		return nil, err
	}
	return &auditLines{file: file, info: info, reader: bufio.NewReaderSize(file, 16<<10)}, nil
}

// next is the next line, or what there is of it yet: then it is not whole, and the
// next time there may be more of it. A line that is too long is given as one that is
// no entry. It is valid until the next call.
func (f *auditLines) next() (line []byte, whole bool, err error) {
	if f.whole {
		f.line, f.long, f.whole = f.line[:0], false, false
	}
	for {
		part, err := f.reader.ReadSlice('\n')
		if f.long = f.long || len(f.line)+len(part) > MaxAuditLine; f.long {
			f.line = append(f.line[:0], '-')
		} else {
			f.line = append(f.line, part...)
		}
		switch {
		case err == nil:
			f.whole = true
			return bytes.TrimSuffix(f.line, []byte("\n")), true, nil
		case errors.Is(err, io.EOF):
			return f.line, false, nil
		case !errors.Is(err, bufio.ErrBufferFull):
			return nil, false, err
		}
	}
}
