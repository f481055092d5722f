package state

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// The bounds of the records of programs.
const (
	// MaxPrograms is how many records are kept; the oldest go.
	MaxPrograms = 10_000
	// MaxProgramSize is how many bytes a program may have to be looked at.
	MaxProgramSize = 1 << 30
)

// racy is how old the last change of a file must be when it is read, for its
// times to prove that it did not change since: those of some filesystems are
// as coarse as two seconds.
const racy = 2 * time.Second

// A ProgramRecord says what an executable file was when it was last looked at
// (law 40).
type ProgramRecord struct {
	// Path is the file's place, absolute and clean. A link is followed.
	Path string `json:"path"`
	// SHA256 is the digest of the content, 64 lower-case hex digits.
	SHA256 string `json:"sha256"`
	// Size is in bytes.
	Size int64 `json:"size"`
	// ModTime and ChangeTime are the file's own (mtime and ctime), to the nanosecond.
	ModTime    time.Time `json:"mtime"`
	ChangeTime time.Time `json:"ctime"`
	// Device and Inode are what the file is known by in its filesystem.
	Device uint64 `json:"device"`
	Inode  uint64 `json:"inode"`
	// At is when it was looked at, before it was read.
	At time.Time `json:"at"`
}

// A ProgramChange says that the program at a path is another than it was.
type ProgramChange struct {
	Path      string `json:"path"`
	OldSHA256 string `json:"old_sha256"`
	NewSHA256 string `json:"new_sha256"`
}

// check reports a record that could never be found or matched again.
func (r ProgramRecord) check() error {
	if !filepath.IsAbs(r.Path) || filepath.Clean(r.Path) != r.Path {
		return fmt.Errorf("program record has the path %q: it must be absolute and clean", r.Path)
	}
	if sum, err := hex.DecodeString(r.SHA256); err != nil || len(sum) != 32 || hex.EncodeToString(sum) != r.SHA256 {
		return fmt.Errorf("program record has the digest %q: it must be 64 lower-case hex digits", r.SHA256)
	}
	return nil
}

// isOf says that the file is still the one that was read. It is not believed of a
// file that had changed so shortly before that a further change may not show.
func (r ProgramRecord) isOf(now ProgramRecord) bool {
	return r.Size == now.Size && r.Device == now.Device && r.Inode == now.Inode &&
		r.ModTime.Equal(now.ModTime) && r.ChangeTime.Equal(now.ChangeTime) &&
		r.At.Sub(r.ChangeTime) > racy
}

// LookAtProgram reads the executable file at path, which is absolute and clean, and
// returns what it is now. Anything but a regular file of at most [MaxProgramSize]
// bytes is an error, and is not waited for; a file that is not there is
// [fs.ErrNotExist]. ctx bounds the reading. Nothing is recorded.
func LookAtProgram(ctx context.Context, path string) (ProgramRecord, error) {
	if _, err := statProgram(path); err != nil { // opening a device may do something
		return ProgramRecord{}, err
	}
	file, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK|syscall.O_NOCTTY, 0)
	if err != nil {
		return ProgramRecord{}, programError(path, err)
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return ProgramRecord{}, programError(path, err)
	}
	record, err := programRecord(path, info)
	if err != nil {
		return ProgramRecord{}, err
	}
	hash := sha256.New()
	n, err := io.Copy(hash, io.LimitReader(untilDone{ctx, file}, MaxProgramSize+1))
	if err == nil && n > MaxProgramSize {
		err = errTooLarge
	}
	if err != nil {
		return ProgramRecord{}, programError(path, err)
	}
	record.SHA256 = hex.EncodeToString(hash.Sum(nil))
	return record, nil
}

// statProgram is what is known of the file without reading it.
func statProgram(path string) (ProgramRecord, error) {
	info, err := os.Stat(path)
	if err != nil {
		return ProgramRecord{}, programError(path, err)
	}
	return programRecord(path, info)
}

var (
	errIrregular = errors.New("it is not a regular file")
	errTooLarge  = fmt.Errorf("it has more than %d bytes", int64(MaxProgramSize))
)

func programRecord(path string, info fs.FileInfo) (ProgramRecord, error) {
	stat, ok := info.Sys().(*syscall.Stat_t)
	switch {
	case !ok || !info.Mode().IsRegular():
		return ProgramRecord{}, programError(path, errIrregular)
	case info.Size() > MaxProgramSize:
		return ProgramRecord{}, programError(path, errTooLarge)
	}
	return ProgramRecord{
		Path: path, Size: info.Size(), ModTime: info.ModTime(), ChangeTime: time.Unix(stat.Ctim.Unix()),
		Device: stat.Dev, Inode: stat.Ino, At: time.Now(),
	}, nil
}

// programError names the program, once.
func programError(path string, err error) error {
	if failure, ok := errors.AsType[*fs.PathError](err); ok {
		err = failure.Err
	}
	return fmt.Errorf("program %s: %w", path, err)
}

// untilDone reads until ctx is over.
type untilDone struct {
	ctx  context.Context //nolint:containedctx // of the call that reads
	from io.Reader
}

// Read implements [io.Reader].
func (r untilDone) Read(p []byte) (int, error) {
	if r.ctx.Err() != nil {
		return 0, context.Cause(r.ctx)
	}
	return r.from.Read(p)
}

// Program returns the record of the program at path, and whether there is one.
// Where there is no database yet there is none, and none is made.
func (s *Store) Program(ctx context.Context, path string) (ProgramRecord, bool, error) {
	var record ProgramRecord
	found := false
	err := s.read(ctx, func(db *sql.DB) (err error) {
		record, found, err = selectProgram(ctx, db, path)
		return err
	})
	if err != nil || !found {
		return ProgramRecord{}, false, err
	}
	return record, true, nil
}

// RecordProgram records what the program at a path is, in place of what was
// recorded for it before.
func (s *Store) RecordProgram(ctx context.Context, record ProgramRecord) error {
	if err := record.check(); err != nil {
		return err
	}
	return s.change(ctx, func(tx *sql.Tx) error { return upsertProgram(ctx, tx, record) })
}

// ProgramChanged compares the program at path with its record, and records what it
// is now. It returns a change if the content is another than what was recorded, and
// nil if it is the same or was never recorded before. A change is told once: of
// several who ask at the same time, in this process or another, to one of them.
//
// A program whose size, place and times are as they were is not read. The errors
// are those of [LookAtProgram] and of the database; ctx bounds both.
func (s *Store) ProgramChanged(ctx context.Context, path string) (*ProgramChange, error) {
	now, err := statProgram(path)
	if err != nil {
		return nil, err
	}
	record, found, err := s.Program(ctx, path)
	if err != nil || found && record.isOf(now) {
		return nil, err
	}
	if now, err = LookAtProgram(ctx, path); err != nil {
		return nil, err
	}
	return s.swapProgram(ctx, now)
}

// swapProgram records a program and says how it differs from what is recorded then.
func (s *Store) swapProgram(ctx context.Context, now ProgramRecord) (change *ProgramChange, err error) {
	if err := now.check(); err != nil {
		return nil, err
	}
	err = s.change(ctx, func(tx *sql.Tx) error {
		last, found, err := selectProgram(ctx, tx, now.Path)
		if err != nil {
			return err
		}
		if found && last.SHA256 != now.SHA256 {
			change = &ProgramChange{Path: now.Path, OldSHA256: last.SHA256, NewSHA256: now.SHA256}
		}
		return upsertProgram(ctx, tx, now)
	})
	if err != nil {
		return nil, err
	}
	return change, nil
}

func selectProgram(ctx context.Context, from interface {
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}, path string) (ProgramRecord, bool, error) {
	record := ProgramRecord{Path: path}
	var mtime, ctime, at, device, inode int64
	row := from.QueryRowContext(ctx, "SELECT digest, size, mtime, ctime, device, inode, at FROM programs WHERE path = ?", path)
	err := row.Scan(&record.SHA256, &record.Size, &mtime, &ctime, &device, &inode, &at)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return ProgramRecord{}, false, nil
	case err != nil:
		return ProgramRecord{}, false, err
	}
	record.ModTime, record.ChangeTime, record.At = time.Unix(0, mtime).UTC(), time.Unix(0, ctime).UTC(), time.Unix(0, at).UTC()
	record.Device, record.Inode = uint64(device), uint64(inode) // SQLite's integers have a sign
	return record, true, nil
}

// upsertProgram records a program, and lets the oldest go if there are too many.
func upsertProgram(ctx context.Context, tx *sql.Tx, r ProgramRecord) error {
	_, err := tx.ExecContext(ctx, `INSERT OR REPLACE INTO programs (path, digest, size, mtime, ctime, device, inode, at)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?)`,
		r.Path, r.SHA256, r.Size, r.ModTime.UnixNano(), r.ChangeTime.UnixNano(), int64(r.Device), int64(r.Inode), r.At.UnixNano())
	if err != nil {
		return err
	}
	_, err = tx.ExecContext(ctx, `DELETE FROM programs WHERE path IN (
		SELECT path FROM programs WHERE path <> ? ORDER BY at LIMIT max(0, (SELECT count(*) FROM programs) - ?))`, r.Path, MaxPrograms)
	return err
}
