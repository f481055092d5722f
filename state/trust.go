package state

import (
	"context"
	"database/sql"
	"encoding/hex"
	"errors"
	"fmt"
	"path/filepath"
	"time"
)

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
	return nil
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

// Trust records that the file's content is trusted, in place of what was recorded
// for that path before. It is durable when Trust returns.
func (s *Store) Trust(ctx context.Context, record TrustRecord) error {
	if err := record.check(); err != nil {
		return err
	}
	return s.use(ctx, func(db *sql.DB) error {
		_, err := db.ExecContext(ctx, `INSERT INTO trust (path, digest, by, at) VALUES (?, ?, ?, ?)
			ON CONFLICT (path) DO UPDATE SET digest = excluded.digest, by = excluded.by, at = excluded.at`,
			record.Path, record.Digest, record.By, record.At.UnixMilli())
		return err
	})
}

// RevokeTrust removes the record of the file at path and says whether there was one.
func (s *Store) RevokeTrust(ctx context.Context, path string) (bool, error) {
	var removed int64
	err := s.ifExists(ctx, func(db *sql.DB) error {
		result, err := db.ExecContext(ctx, "DELETE FROM trust WHERE path = ?", path)
		if err != nil {
			return err
		}
		removed, err = result.RowsAffected()
		return err
	})
	return removed > 0, err
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
