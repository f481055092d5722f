package state

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"errors"
	"fmt"
	"path/filepath"
	"time"
)

// MaxTrustContent is how many bytes the content of a [TrustRecord] may have.
const MaxTrustContent = 1 << 20

// A TrustRecord says that the user trusts the content that a config file had.
// Another content is not trusted, and neither is the same content elsewhere.
type TrustRecord struct {
	// Path is the file's place, absolute, with the links of its directory resolved.
	Path string `json:"path"`
	// Digest is the SHA-256 of the content, 64 lower-case hex digits.
	Digest string `json:"sha256"`
	// By is who recorded it; it may be empty.
	By string `json:"by"`
	// At is when it was recorded, to the millisecond.
	At time.Time `json:"at"`
	// Content is what the file had, at most [MaxTrustContent] bytes, for [Store.Trust]
	// to keep; empty if it is not known. What is read has none: [Store.TrustedContent]
	// gives it.
	Content string `json:"-"`
}

// check reports a record that could never be found or matched again.
func (r TrustRecord) check() error {
	if !filepath.IsAbs(r.Path) || filepath.Clean(r.Path) != r.Path {
		return fmt.Errorf("trust record has the path %q: it must be absolute and clean", r.Path)
	}
	sum, err := hex.DecodeString(r.Digest)
	if err != nil || len(sum) != 32 || hex.EncodeToString(sum) != r.Digest {
		return fmt.Errorf("trust record has the digest %q: it must be 64 lower-case hex digits", r.Digest)
	}
	if len(r.Content) > MaxTrustContent {
		return fmt.Errorf("trust record has a content of %d bytes: it may have %d", len(r.Content), MaxTrustContent)
	}
	if r.Content != "" && !r.isKnown() {
		return fmt.Errorf("trust record has a content of another digest than %s", r.Digest)
	}
	return nil
}

// isKnown says that the content is the one of the digest; an empty one can be, too.
func (r TrustRecord) isKnown() bool {
	sum := sha256.Sum256([]byte(r.Content))
	return hex.EncodeToString(sum[:]) == r.Digest
}

// Trusted returns the record of the file at path, and whether there is one. It
// is for the caller to compare the digest. Where there is no database yet there
// is no record, and none is made. ctx bounds the waiting for other processes.
func (s *Store) Trusted(ctx context.Context, path string) (TrustRecord, bool, error) {
	record, found := TrustRecord{Path: path}, false
	err := s.read(ctx, func(db *sql.DB) error {
		var at int64
		row := db.QueryRowContext(ctx, "SELECT digest, by, at FROM trust WHERE path = ?", path)
		err := row.Scan(&record.Digest, &record.By, &at)
		if errors.Is(err, sql.ErrNoRows) {
			return nil
		}
		record.At, found = time.UnixMilli(at).UTC(), err == nil
		return err
	})
	if err != nil || !found {
		return TrustRecord{}, false, err
	}
	return record, true, nil
}

// TrustedContent returns the content of the record of the file at path, which is
// the caller's, and whether it is known: it is not where there is no record, nor of
// one that was made without.
func (s *Store) TrustedContent(ctx context.Context, path string) (content []byte, known bool, err error) {
	err = s.read(ctx, func(db *sql.DB) error {
		row := db.QueryRowContext(ctx, "SELECT content FROM trust_contents WHERE path = ?", path)
		err := row.Scan(&content)
		if errors.Is(err, sql.ErrNoRows) {
			return nil
		}
		known = err == nil
		return err
	})
	if err != nil || !known {
		return nil, false, err
	}
	return content, true, nil
}

// Trust records that the file's content is trusted, in place of what was recorded
// for that path before. It is durable when Trust returns.
func (s *Store) Trust(ctx context.Context, record TrustRecord) error {
	if err := record.check(); err != nil {
		return err
	}
	return s.change(ctx, func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, `INSERT INTO trust (path, digest, by, at) VALUES (?, ?, ?, ?)
			ON CONFLICT (path) DO UPDATE SET digest = excluded.digest, by = excluded.by, at = excluded.at`,
			record.Path, record.Digest, record.By, record.At.UnixMilli())
		if err != nil {
			return err
		}
		if _, err := tx.ExecContext(ctx, "DELETE FROM trust_contents WHERE path = ?", record.Path); err != nil || !record.isKnown() {
			return err
		}
		_, err = tx.ExecContext(ctx, "INSERT INTO trust_contents (path, content) VALUES (?, ?)", record.Path, []byte(record.Content))
		return err
	})
}

// RevokeTrust removes the record of the file at path and says whether there was one.
func (s *Store) RevokeTrust(ctx context.Context, path string) (bool, error) {
	var removed int64
	err := s.ifExists(ctx, func(db *sql.DB) error {
		return inTx(ctx, db, func(tx *sql.Tx) error {
			result, err := tx.ExecContext(ctx, "DELETE FROM trust WHERE path = ?", path)
			if err != nil {
				return err
			}
			if _, err := tx.ExecContext(ctx, "DELETE FROM trust_contents WHERE path = ?", path); err != nil {
				return err
			}
			removed, err = result.RowsAffected()
			return err
		})
	})
	if err != nil {
		return false, err
	}
	return removed > 0, nil
}

// change is use for what changes several rows at once, or none.
func (s *Store) change(ctx context.Context, change func(*sql.Tx) error) error {
	return s.use(ctx, func(db *sql.DB) error { return inTx(ctx, db, change) })
}

// inTx runs change in one transaction, which has the write lock from its beginning.
func inTx(ctx context.Context, db *sql.DB, change func(*sql.Tx) error) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // does nothing after Commit
	if err := change(tx); err != nil {
		return err
	}
	return tx.Commit()
}

// TrustRecords lists every record, sorted by path.
func (s *Store) TrustRecords(ctx context.Context) ([]TrustRecord, error) {
	var records []TrustRecord
	err := s.read(ctx, func(db *sql.DB) error {
		records = nil // it may be asked twice
		rows, err := db.QueryContext(ctx, "SELECT path, digest, by, at FROM trust ORDER BY path")
		if err != nil {
			return err
		}
		defer func() { _ = rows.Close() }() // rows.Err has what matters
		for rows.Next() {
			var record TrustRecord
			var at int64
			if err := rows.Scan(&record.Path, &record.Digest, &record.By, &at); err != nil {
				return err
			}
			record.At = time.UnixMilli(at).UTC()
			records = append(records, record)
		}
		return rows.Err()
	})
	return records, err
}
