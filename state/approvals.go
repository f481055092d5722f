package state

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// The bounds of saved approvals.
const (
	// MaxApprovals is how many approvals are saved at most.
	MaxApprovals = 10_000
	// MaxApprovalPatterns is how many patterns one approval has at most.
	MaxApprovalPatterns = 64
	// MaxApprovalText is how many bytes each text of an approval has at most.
	MaxApprovalText = 4096
)

// An ApprovalKey is what an approval is for (law 34): one resolved root, one plugin as
// it is now, one action.
type ApprovalKey struct {
	// Root is the root directory of the Location, absolute, clean and without links.
	Root string
	// Plugin is the plugin's name. A built-in is known by it alone; Digest stands for
	// what makes any other plugin behave as it does, and is never empty for one.
	Plugin  string
	Builtin bool
	Digest  string
	// Definition is the digest of the tool's definition for a dynamic tool, else empty.
	Definition string
	Action     string
}

// check reports a key that nothing can be saved for.
func (k ApprovalKey) check() error {
	switch {
	case !filepath.IsAbs(k.Root) || filepath.Clean(k.Root) != k.Root:
		return fmt.Errorf("approval has the root %q: it must be absolute and clean", k.Root)
	case k.Plugin == "":
		return errors.New("approval names no plugin")
	case k.Builtin && k.Digest != "":
		return fmt.Errorf("approval has a digest for the built-in %q, which is known by its name alone", k.Plugin)
	case !k.Builtin && k.Digest == "":
		return fmt.Errorf("approval has no digest for the plugin %q, and it is not a built-in", k.Plugin)
	case k.Action == "":
		return errors.New("approval names no action")
	}
	for name, text := range map[string]string{
		"root": k.Root, "plugin": k.Plugin, "digest": k.Digest, "definition": k.Definition, "action": k.Action,
	} {
		if len(text) > MaxApprovalText {
			return fmt.Errorf("approval has a %s of %d bytes: there may be %d", name, len(text), MaxApprovalText)
		}
	}
	return nil
}

// An Approval is a recorded "always": what was shown to a person and is allowed from
// then on.
type Approval struct {
	// ID names it. It is above 0 and never used again.
	ID int64 `json:"id"`
	// Root, Plugin, Builtin, Digest, Definition and Action are its [ApprovalKey].
	Root       string `json:"root"`
	Plugin     string `json:"plugin"`
	Builtin    bool   `json:"builtin,omitempty"`
	Digest     string `json:"digest,omitempty"`
	Definition string `json:"definition,omitempty"`
	Action     string `json:"action"`
	// Tool is the canonical id of the tool that asked, for showing. It says nothing
	// about what is allowed.
	Tool string `json:"tool,omitempty"`
	// Patterns are exactly those that were shown, in their order.
	Patterns []string `json:"patterns"`
	// By and Why are who answered and for what reason; they may be empty.
	By  string `json:"by,omitempty"`
	Why string `json:"why,omitempty"`
	// At is when it was answered, and Expires when it ends to count: zero for one that
	// holds until it is revoked. Both are to the millisecond.
	At      time.Time `json:"at"`
	Expires time.Time `json:"expires,omitzero"`
}

// Key is what the approval is for.
func (a Approval) Key() ApprovalKey {
	return ApprovalKey{Root: a.Root, Plugin: a.Plugin, Builtin: a.Builtin, Digest: a.Digest, Definition: a.Definition, Action: a.Action}
}

// check reports an approval that must not be saved.
func (a Approval) check(now time.Time) error {
	if err := a.Key().check(); err != nil {
		return err
	}
	if n := len(a.Patterns); n == 0 || n > MaxApprovalPatterns {
		return fmt.Errorf("approval has %d patterns: there must be 1 to %d", n, MaxApprovalPatterns)
	}
	for i, pattern := range a.Patterns {
		switch {
		case pattern == "":
			return fmt.Errorf("approval has an empty pattern at %d", i)
		case len(pattern) > MaxApprovalText:
			return fmt.Errorf("approval has a pattern of %d bytes at %d: there may be %d", len(pattern), i, MaxApprovalText)
		case strings.ContainsRune(pattern, 0):
			return fmt.Errorf("approval has a NUL in the pattern at %d", i)
		}
	}
	for name, text := range map[string]string{"tool": a.Tool, "by": a.By, "why": a.Why} {
		if len(text) > MaxApprovalText {
			return fmt.Errorf("approval has a text of %d bytes for %q: there may be %d", len(text), name, MaxApprovalText)
		}
	}
	if !a.Expires.IsZero() && !a.Expires.After(now) {
		return fmt.Errorf("approval expired at %s, before it is saved", a.Expires.UTC().Format(time.RFC3339))
	}
	return nil
}

// SaveApproval saves exactly the patterns of a (laws 34 and 45) and returns what is
// saved, with its id; the id of a is not looked at, and a zero At is now. It is durable
// when SaveApproval returns: neither the death of the process nor a failure of the
// machine loses it. The same patterns for the same key are saved once: of the two,
// the one that holds longer stays, under the first one's id. It is an error if a is
// not valid, and if [MaxApprovals] others are saved already. ctx bounds the waiting
// for other processes, which is 5 s at most.
func (s *Store) SaveApproval(ctx context.Context, a Approval) (Approval, error) {
	now := time.Now()
	if a.At.IsZero() {
		a.At = now
	}
	if err := a.check(now); err != nil {
		return Approval{}, err
	}
	var saved Approval
	err := s.changeApprovals(ctx, s.use, now, func(tx *sql.Tx) error {
		found, err := findApproval(ctx, tx, a)
		if err != nil {
			return err
		}
		switch {
		case found.ID == 0:
			saved, err = insertApproval(ctx, tx, a)
		case !found.Expires.IsZero() && (a.Expires.IsZero() || a.Expires.UnixMilli() > found.Expires.UnixMilli()):
			saved, err = prolongApproval(ctx, tx, found.ID, a)
		default:
			saved = found
		}
		return err
	})
	if err != nil {
		return Approval{}, err
	}
	return saved, nil
}

// findApproval finds the one with the same key and patterns; its ID is 0 if there is none.
func findApproval(ctx context.Context, tx *sql.Tx, a Approval) (Approval, error) {
	rows, err := tx.QueryContext(ctx, "SELECT "+approvalColumns+` FROM approvals
		WHERE root = ? AND plugin = ? AND action = ? AND builtin = ? AND digest = ? AND definition = ? AND patterns = ?`,
		a.Root, a.Plugin, a.Action, a.Builtin, a.Digest, a.Definition, joinPatterns(a.Patterns))
	found, err := scanApprovals(rows, err)
	if err != nil || len(found) == 0 {
		return Approval{}, err
	}
	return found[0], nil
}

func insertApproval(ctx context.Context, tx *sql.Tx, a Approval) (Approval, error) {
	var count int
	if err := tx.QueryRowContext(ctx, "SELECT count(*) FROM approvals").Scan(&count); err != nil {
		return Approval{}, err
	}
	if count >= MaxApprovals {
		return Approval{}, fmt.Errorf("%d approvals are saved already: revoke some of them", count)
	}
	return one(tx.QueryContext(ctx, `INSERT INTO approvals
		(root, plugin, builtin, digest, definition, action, tool, patterns, by, why, at, expires)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) RETURNING `+approvalColumns,
		a.Root, a.Plugin, a.Builtin, a.Digest, a.Definition, a.Action, a.Tool, joinPatterns(a.Patterns), a.By, a.Why,
		a.At.UnixMilli(), expiry(a.Expires)))
}

func prolongApproval(ctx context.Context, tx *sql.Tx, id int64, a Approval) (Approval, error) {
	return one(tx.QueryContext(ctx, "UPDATE approvals SET by = ?, why = ?, at = ?, expires = ? WHERE id = ? RETURNING "+approvalColumns,
		a.By, a.Why, a.At.UnixMilli(), expiry(a.Expires), id))
}

// one reads the only row of a query.
func one(rows *sql.Rows, err error) (Approval, error) {
	found, err := scanApprovals(rows, err)
	if err == nil && len(found) != 1 {
		err = sql.ErrNoRows
	}
	if err != nil {
		return Approval{}, err
	}
	return found[0], nil
}

// An ApprovalFilter says which approvals are meant: those that have what is not empty
// in it. The zero value means all of them.
type ApprovalFilter struct{ Root, Plugin, Action string }

// where is the filter's condition, and its arguments.
const approvalsWhere = "(?1 = '' OR root = ?1) AND (?2 = '' OR plugin = ?2) AND (?3 = '' OR action = ?3)"

// Approvals lists the saved approvals that count, the oldest first. Where there is no
// database there are none, and none is made; one that cannot be written is read all
// the same.
func (s *Store) Approvals(ctx context.Context, filter ApprovalFilter) ([]Approval, error) {
	var found []Approval
	err := s.read(ctx, func(db *sql.DB) error {
		rows, err := db.QueryContext(ctx, "SELECT "+approvalColumns+" FROM approvals WHERE "+approvalsWhere+
			" AND (expires = 0 OR expires > ?4) ORDER BY id", filter.Root, filter.Plugin, filter.Action, time.Now().UnixMilli())
		found, err = scanApprovals(rows, err)
		return err
	})
	if err != nil {
		return nil, err
	}
	return found, nil
}

// RevokeApproval removes the approval and says whether there was one that counted.
// From its return on, no process finds it in a view. It is as durable as saving one.
func (s *Store) RevokeApproval(ctx context.Context, id int64) (bool, error) {
	n, err := s.revoke(ctx, "id = ?1", id)
	return n > 0, err
}

// RevokeApprovals removes the approvals that filter means, in one act, and says how
// many that counted there were. The zero filter revokes all.
func (s *Store) RevokeApprovals(ctx context.Context, filter ApprovalFilter) (int, error) {
	return s.revoke(ctx, approvalsWhere, filter.Root, filter.Plugin, filter.Action)
}

func (s *Store) revoke(ctx context.Context, where string, args ...any) (int, error) {
	var removed int64
	err := s.changeApprovals(ctx, s.ifExists, time.Now(), func(tx *sql.Tx) error {
		result, err := tx.ExecContext(ctx, "DELETE FROM approvals WHERE "+where, args...)
		if err != nil {
			return err
		}
		removed, err = result.RowsAffected()
		return err
	})
	if err != nil {
		return 0, err
	}
	return int(removed), nil
}

// changeApprovals makes one change whole or not at all, after what is expired was
// removed. on is use or ifExists.
func (s *Store) changeApprovals(ctx context.Context, on func(context.Context, func(*sql.DB) error) error, now time.Time, change func(*sql.Tx) error) error {
	return on(ctx, func(db *sql.DB) error {
		tx, err := db.BeginTx(ctx, nil)
		if err != nil {
			return err
		}
		defer func() { _ = tx.Rollback() }() // does nothing after Commit
		if _, err := tx.ExecContext(ctx, "DELETE FROM approvals WHERE expires <> 0 AND expires <= ?", now.UnixMilli()); err != nil {
			return err
		}
		if err := change(tx); err != nil {
			return err
		}
		return tx.Commit()
	})
}

const approvalColumns = "id, root, plugin, builtin, digest, definition, action, tool, patterns, by, why, at, expires"

// scanApprovals reads and closes the rows of a query that gave err.
func scanApprovals(rows *sql.Rows, err error) ([]Approval, error) {
	if err != nil {
		return nil, err
	}
	defer func() { _ = rows.Close() }() // rows.Err has what matters
	var found []Approval
	for rows.Next() {
		var a Approval
		var patterns []byte
		var at, expires int64
		err := rows.Scan(&a.ID, &a.Root, &a.Plugin, &a.Builtin, &a.Digest, &a.Definition, &a.Action, &a.Tool,
			&patterns, &a.By, &a.Why, &at, &expires)
		if err != nil {
			return nil, err
		}
		a.Patterns, a.At = splitPatterns(patterns), time.UnixMilli(at).UTC()
		if expires != 0 {
			a.Expires = time.UnixMilli(expires).UTC()
		}
		found = append(found, a)
	}
	return found, rows.Err()
}

// joinPatterns makes one value of the patterns, byte for byte: a path need not be UTF-8.
func joinPatterns(patterns []string) []byte { return []byte(strings.Join(patterns, "\x00")) }

func splitPatterns(joined []byte) []string { return slices.Clip(strings.Split(string(joined), "\x00")) }

// expiry is 0 for an approval without one.
func expiry(at time.Time) int64 {
	if at.IsZero() {
		return 0
	}
	return at.UnixMilli()
}
