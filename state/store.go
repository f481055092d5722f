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
	"sync/atomic"
	"syscall"
	"time"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"
)

// busyTimeout is how long a write waits for those of other processes.
const busyTimeout = 5 * time.Second

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

	view     ApprovalView
	recorded atomic.Int64 // how much evidence, by this process

	turn  chan struct{} // held to open and close; it guards what follows
	db    *sql.DB       // nil until it is needed
	quick *sql.DB       // the same, for what need not survive a failure of the machine
}

// New makes a store. It touches nothing on disk.
func New(options Options) *Store {
	s := &Store{options: options, turn: make(chan struct{}, 1)}
	s.view = ApprovalView{store: s, turn: make(chan struct{}, 1)}
	return s
}

// Close releases the database, if it was ever opened. A store that is used again
// opens it again.
func (s *Store) Close() error {
	s.turn <- struct{}{}
	defer func() { <-s.turn }()
	err := s.view.close()
	for _, db := range []**sql.DB{&s.db, &s.quick} {
		if *db != nil {
			err = errors.Join(err, (*db).Close())
			*db = nil
		}
	}
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

// read is ifExists for a query that writes nothing: a database that cannot be
// written is only read.
func (s *Store) read(ctx context.Context, query func(*sql.DB) error) error {
	path, err := s.Path()
	if err != nil {
		return err
	}
	writing := s.ifExists(ctx, query)
	if !isUnwritable(writing) {
		return writing
	}
	db, err := connectReading(ctx, path)
	if err == nil {
		err = errors.Join(query(db), db.Close())
	}
	return describe(ctx, path, err)
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
	return describe(ctx, path, err)
}

// describe makes an error that names the database and says what to do. An error
// of a context that is over is its cause.
func describe(ctx context.Context, path string, err error) error {
	if err == nil {
		return nil
	}
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	return fmt.Errorf("state database %s: %w%s", path, err, advice(err))
}

// open returns the open database; one that could not be opened is tried again
// by the next call.
func (s *Store) open(ctx context.Context, path string) (*sql.DB, error) {
	select {
	case s.turn <- struct{}{}:
		defer func() { <-s.turn }()
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	if s.db != nil {
		return s.db, nil
	}
	db, err := connect(ctx, path, busyTimeout)
	if err == nil {
		s.db = db
	}
	return db, err
}

// connect opens a connection of its own, which waits so long for other processes,
// with further pragmas, and brings the schema up to date.
func connect(ctx context.Context, path string, wait time.Duration, pragmas ...string) (*sql.DB, error) {
	if err := prepareFile(path); err != nil {
		return nil, err
	}
	db, err := openFile(path, url.Values{
		"_pragma": append([]string{fmt.Sprintf("busy_timeout(%d)", wait.Milliseconds()), "journal_mode(wal)"}, pragmas...),
		"_txlock": {"immediate"},
	})
	if err != nil {
		return nil, err
	}
	if err := patiently(ctx, time.Now().Add(wait), func() error { return migrate(ctx, db) }); err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return db, nil
}

// connectReading opens a connection that does not write, for a database that
// cannot be written. Without a log beside it nobody has it open, so nothing changes
// while it is read; SQLite would want to make the log otherwise.
func connectReading(ctx context.Context, path string) (*sql.DB, error) {
	options := url.Values{"_pragma": {fmt.Sprintf("busy_timeout(%d)", busyTimeout.Milliseconds())}, "mode": {"ro"}}
	if log, err := os.Stat(path + "-wal"); errors.Is(err, fs.ErrNotExist) || err == nil && log.Size() == 0 {
		options.Set("immutable", "1")
	}
	db, err := openFile(path, options)
	if err != nil {
		return nil, err
	}
	version, err := schemaVersion(ctx, db)
	if known := len(migrations()); err == nil && version < known {
		err = fmt.Errorf("schema version %d is older than this program's, %d, and cannot be changed: its directory must be writable", version, known)
	}
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return db, nil
}

func openFile(path string, options url.Values) (*sql.DB, error) {
	dsn := url.URL{Scheme: "file", Path: path, RawQuery: options.Encode()}
	db, err := sql.Open("sqlite", dsn.String())
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(1)
	return db, nil
}

// patiently tries again what finds the database locked. SQLite waits for others
// by itself, except where two who wait could wait for each other: when several
// open a database that is not in WAL mode yet.
func patiently(ctx context.Context, deadline time.Time, try func() error) error {
	for pause := time.Millisecond; ; pause = min(2*pause, 20*time.Millisecond) {
		err := try()
		left := time.Until(deadline)
		if !isBusy(err) || left <= 0 {
			return err
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(min(pause, left)):
		}
	}
}

// prepareFile makes the directory and the file, for nobody but the user. The
// files that SQLite puts beside it get the mode of the database.
func prepareFile(path string) error {
	if err := prepareDir(filepath.Dir(path)); err != nil {
		return err
	}
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return err
	}
	if info.Mode().Perm() != 0o600 {
		return file.Chmod(0o600)
	}
	return nil
}

// prepareDir makes the directory, for nobody but the user.
func prepareDir(dir string) error {
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
		`CREATE TABLE calls (
			id        INTEGER NOT NULL PRIMARY KEY, -- grows
			run       TEXT    NOT NULL,             -- of the host; empty once the call is closed
			root      TEXT    NOT NULL,
			session   TEXT    NOT NULL,
			agent     TEXT    NOT NULL,
			message   TEXT    NOT NULL,
			call      TEXT    NOT NULL,
			host_made INTEGER NOT NULL,
			tool      TEXT    NOT NULL,
			effects   TEXT    NOT NULL,             -- names, with commas
			started   INTEGER NOT NULL,             -- milliseconds since 1970
			ended     INTEGER NOT NULL,             -- the same, or 0
			status    TEXT    NOT NULL,
			kind      TEXT    NOT NULL
		) STRICT;
		CREATE INDEX calls_open ON calls (run) WHERE run <> '';
		CREATE TABLE seen_instructions (
			root    TEXT    NOT NULL,
			session TEXT    NOT NULL,
			path    TEXT    NOT NULL,
			at      INTEGER NOT NULL, -- milliseconds since 1970
			PRIMARY KEY (root, session, path)
		) STRICT, WITHOUT ROWID;
		CREATE INDEX seen_instructions_at ON seen_instructions (at)`,
		`CREATE TABLE approvals (
			id         INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT, -- of a revoked one is not used again
			root       TEXT    NOT NULL,
			plugin     TEXT    NOT NULL,
			builtin    INTEGER NOT NULL,
			digest     TEXT    NOT NULL, -- of the plugin; empty for a built-in
			definition TEXT    NOT NULL, -- its digest, for a dynamic tool; else empty
			action     TEXT    NOT NULL,
			tool       TEXT    NOT NULL,
			patterns   BLOB    NOT NULL, -- with NUL between them
			by         TEXT    NOT NULL,
			why        TEXT    NOT NULL,
			at         INTEGER NOT NULL, -- milliseconds since 1970
			expires    INTEGER NOT NULL  -- the same, or 0
		) STRICT;
		CREATE INDEX approvals_key ON approvals (root, plugin, action);
		CREATE INDEX approvals_expires ON approvals (expires) WHERE expires <> 0;
		-- Counts the changes of approvals, for those who look at nothing else.
		CREATE TABLE approval_changes (n INTEGER NOT NULL) STRICT;
		INSERT INTO approval_changes VALUES (0);
		CREATE TRIGGER approvals_insert AFTER INSERT ON approvals BEGIN UPDATE approval_changes SET n = n + 1; END;
		CREATE TRIGGER approvals_update AFTER UPDATE ON approvals BEGIN UPDATE approval_changes SET n = n + 1; END;
		CREATE TRIGGER approvals_delete AFTER DELETE ON approvals BEGIN UPDATE approval_changes SET n = n + 1; END`,
		// What was trusted is beside trust and not in it: a search of a table without rowids
		// reads the whole of each row that it passes.
		`CREATE TABLE trust_contents (
			path    TEXT NOT NULL PRIMARY KEY,
			content BLOB NOT NULL
		) STRICT;
		CREATE TABLE programs (
			path   TEXT    NOT NULL PRIMARY KEY,
			digest TEXT    NOT NULL,
			size   INTEGER NOT NULL,
			mtime  INTEGER NOT NULL, -- nanoseconds since 1970
			ctime  INTEGER NOT NULL, -- the same
			device INTEGER NOT NULL,
			inode  INTEGER NOT NULL,
			at     INTEGER NOT NULL  -- nanoseconds since 1970
		) STRICT, WITHOUT ROWID;
		CREATE INDEX programs_at ON programs (at)`,
		`CREATE TABLE seen_files (
			root    TEXT    NOT NULL,
			session TEXT    NOT NULL,
			path    TEXT    NOT NULL,
			content BLOB    NOT NULL, -- its SHA-256
			at      INTEGER NOT NULL, -- milliseconds since 1970
			PRIMARY KEY (root, session, path)
		) STRICT, WITHOUT ROWID;
		CREATE INDEX seen_files_at ON seen_files (at);
		CREATE INDEX seen_files_session ON seen_files (root, session, at)`,
	}
}

// migrate brings the schema up to date. One that is needs nobody to be waited for.
// Else the transaction takes the write lock at its beginning, so of several
// processes one migrates and the others find it done.
func migrate(ctx context.Context, db *sql.DB) error {
	all := migrations()
	if version, err := schemaVersion(ctx, db); err != nil || version == len(all) {
		return err
	}
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // does nothing after Commit
	version, err := schemaVersion(ctx, tx)
	if err != nil {
		return err
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

// schemaVersion is how many migrations were applied. It is an error if this
// program does not know all of them.
func schemaVersion(ctx context.Context, db interface {
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}) (int, error) {
	var version int
	if err := db.QueryRowContext(ctx, "PRAGMA user_version").Scan(&version); err != nil {
		return 0, err
	}
	if known := len(migrations()); version > known {
		return 0, fmt.Errorf("schema version %d is newer than this program, which knows %d: upgrade toolhost", version, known)
	}
	return version, nil
}

// isUnwritable says that the database, or its directory, cannot be written.
func isUnwritable(err error) bool {
	if errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.EROFS) {
		return true
	}
	failure, ok := errors.AsType[*sqlite.Error](err)
	return ok && (failure.Code()&0xff == sqlite3.SQLITE_READONLY || failure.Code()&0xff == sqlite3.SQLITE_CANTOPEN)
}

func isBusy(err error) bool {
	failure, ok := errors.AsType[*sqlite.Error](err)
	return ok && failure.Code()&0xff == sqlite3.SQLITE_BUSY
}

// advice is what to do about an error of the database, to stand behind it.
func advice(err error) string {
	var failure *sqlite.Error
	if !errors.As(err, &failure) {
		return ""
	}
	switch failure.Code() & 0xff { // the rest of the code is detail
	case sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CORRUPT:
		return "; move the file away to begin anew (what was trusted and approved has to be once more)"
	case sqlite3.SQLITE_FULL:
		return "; free some space on its disk"
	case sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN:
		return "; its directory must be writable"
	case sqlite3.SQLITE_BUSY:
		return "; another process keeps it locked"
	default:
		return ""
	}
}
