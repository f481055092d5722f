package state

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"sync"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"
)

// fileName is the name of the database in the state directory.
const fileName = "state.db"

// Options says where the state is. The zero value is the user's own place.
type Options struct {
	// Dir is the directory of the database; empty for [DefaultDir]. It is created
	// with mode 0700 by the first write.
	Dir string
}

// DefaultDir is where the user's state is: toolhost below XDG_STATE_HOME, or below
// ~/.local/state when that is unset or not absolute.
func DefaultDir() (string, error) {
	if base := os.Getenv("XDG_STATE_HOME"); filepath.IsAbs(base) {
		return filepath.Join(base, "toolhost"), nil
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return "", fmt.Errorf("state directory is unknown: set XDG_STATE_HOME or HOME: %w", err)
	}
	return filepath.Join(home, ".local", "state", "toolhost"), nil
}

// A Store is the user's durable state. It is safe for concurrent use. Every
// error names the database's file.
type Store struct {
	options Options

	mu sync.Mutex // guards db
	db *sql.DB    // nil until it is needed
}

// New makes a store. It touches nothing on disk.
func New(options Options) *Store { return &Store{options: options} }

// Close releases the database, if it was ever opened. A store that is used again
// opens it again.
func (s *Store) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.db == nil {
		return nil
	}
	err := s.db.Close()
	s.db = nil
	return err
}

// Path is the file of the database, which need not exist yet.
func (s *Store) Path() (string, error) {
	dir := s.options.Dir
	if dir == "" {
		var err error
		if dir, err = DefaultDir(); err != nil {
			return "", err
		}
	}
	return filepath.Join(dir, fileName), nil
}

// ifExists runs query on the database, and not at all when there is none yet: asking
// creates nothing.
func (s *Store) ifExists(ctx context.Context, query func(*sql.DB) error) error {
	path, err := s.Path()
	if err != nil {
		return err
	}
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return s.use(ctx, query)
}

// use runs change on the database, which is created when there is none yet.
func (s *Store) use(ctx context.Context, change func(*sql.DB) error) error {
	path, err := s.Path()
	if err != nil {
		return err
	}
	db, err := s.open(ctx, path)
	if err == nil {
		err = change(db)
	}
	if err != nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	if err != nil {
		return fmt.Errorf("state database %s: %w%s", path, err, advice(err))
	}
	return nil
}

// open returns the open database; one that could not be opened is tried again
// by the next call.
func (s *Store) open(ctx context.Context, path string) (*sql.DB, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.db != nil {
		return s.db, nil
	}
	if err := prepareFile(path); err != nil {
		return nil, err
	}
	dsn := url.URL{Scheme: "file", Path: path, RawQuery: url.Values{
		"_pragma": {"busy_timeout(5000)", "journal_mode(wal)"},
		"_txlock": {"immediate"},
	}.Encode()}
	db, err := sql.Open("sqlite", dsn.String())
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(1)
	if err := migrate(ctx, db); err != nil {
		return nil, errors.Join(err, db.Close())
	}
	s.db = db
	return db, nil
}

// prepareFile makes the directory and the file, for nobody but the user. The
// files that SQLite puts beside it get the mode of the database.
func prepareFile(path string) error {
	dir := filepath.Dir(path)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	info, err := os.Stat(dir)
	if err != nil {
		return err
	}
	if info.Mode().Perm()&0o022 != 0 {
		return fmt.Errorf("directory can be written by others; run: chmod 700 %s", dir)
	}
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	defer file.Close()
	if info, err = file.Stat(); err != nil {
		return err
	}
	if info.Mode().Perm() != 0o600 {
		return file.Chmod(0o600)
	}
	return nil
}

// migrations lead from each version of the schema to the next; the database's
// user_version counts those that were applied. A migration is never changed.
func migrations() []string {
	return []string{
		`CREATE TABLE trust (
			path   TEXT    NOT NULL PRIMARY KEY,
			digest TEXT    NOT NULL,
			by     TEXT    NOT NULL,
			at     INTEGER NOT NULL -- milliseconds since 1970
		) STRICT, WITHOUT ROWID`,
	}
}

// migrate brings the schema up to date. The transaction takes the write lock at
// its beginning, so of several processes one migrates and the others find it done.
func migrate(ctx context.Context, db *sql.DB) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // does nothing after Commit
	var version int
	if err := tx.QueryRowContext(ctx, "PRAGMA user_version").Scan(&version); err != nil {
		return err
	}
	all := migrations()
	if version > len(all) {
		return fmt.Errorf("schema version %d is newer than this program, which knows %d: upgrade toolhost", version, len(all))
	}
	for i, statement := range all[version:] {
		if _, err := tx.ExecContext(ctx, statement); err != nil {
			return fmt.Errorf("migrate to schema version %d: %w", version+i+1, err)
		}
	}
	if version < len(all) {
		if _, err := tx.ExecContext(ctx, fmt.Sprintf("PRAGMA user_version = %d", len(all))); err != nil {
			return err
		}
	}
	return tx.Commit()
}

// advice is what to do about an error of the database, to stand behind it.
func advice(err error) string {
	var failure *sqlite.Error
	if !errors.As(err, &failure) {
		return ""
	}
	switch failure.Code() & 0xff { // the rest of the code is detail
	case sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CORRUPT:
		return "; move the file away to begin anew (what was trusted has to be trusted again)"
	case sqlite3.SQLITE_FULL:
		return "; free some space on its disk"
	case sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN:
		return "; its directory must be writable"
	case sqlite3.SQLITE_BUSY:
		return "; another process kept it locked for 5 s"
	default:
		return ""
	}
}
