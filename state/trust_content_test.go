package state

import (
	"crypto/sha256"
	"encoding/hex"
	"path/filepath"
	"strings"
	"testing"
)

// withContent is a record of that content.
func withContent(path, content string) TrustRecord {
	sum := sha256.Sum256([]byte(content))
	r := record(path, 1)
	r.Digest, r.Content = hex.EncodeToString(sum[:]), content
	return r
}

func wantContent(t *testing.T, s *Store, path, want string, wantKnown bool) {
	t.Helper()
	got, known, err := s.TrustedContent(t.Context(), path)
	if string(got) != want || known != wantKnown || err != nil {
		t.Errorf("%s: got %.60q, %v, %v\nwant %.60q, %v", path, got, known, err, want, wantKnown)
	}
}

// TestLaw40TrustedContentIsKept, so that it can be said what changed since: with its
// record, and no longer. Seen to fail without the deletion in Trust, and without the
// one in RevokeTrust.
func TestLaw40TrustedContentIsKept(t *testing.T) {
	s := open(t, filepath.Join(t.TempDir(), "toolhost"))
	wantContent(t, s, "/p", "", false) // where there is no database
	large := strings.Repeat("\x00\xff\n", MaxTrustContent/3) + "x"
	for path, content := range map[string]string{"/p": "a: 1\n", "/empty": "", "/large": large} {
		mustTrust(t, s, withContent(path, content))
	}
	mustTrust(t, s, record("/unknown", 1))
	wantContent(t, s, "/p", "a: 1\n", true)
	wantContent(t, s, "/empty", "", true)
	wantContent(t, s, "/large", large, true)
	wantContent(t, s, "/unknown", "", false)

	records, err := s.TrustRecords(t.Context())
	if err != nil || len(records) != 4 {
		t.Fatalf("got %d records, %v", len(records), err)
	}
	for _, r := range records {
		one, found, err := s.Trusted(t.Context(), r.Path)
		if r.Content != "" || one != r || !found || err != nil {
			t.Errorf("%s: what is listed has %d bytes of content, what is looked up is %+v, %v, %v", r.Path, len(r.Content), one, found, err)
		}
	}

	mustTrust(t, s, withContent("/p", "a: 2\n"))
	wantContent(t, s, "/p", "a: 2\n", true)
	mustTrust(t, s, record("/p", 3))
	wantContent(t, s, "/p", "", false)
	if removed, err := s.RevokeTrust(t.Context(), "/large"); !removed || err != nil {
		t.Errorf("RevokeTrust: got %v, %v", removed, err)
	}
	wantContent(t, s, "/large", "", false)
}

func TestBadTrustContentIsRefused(t *testing.T) {
	s := open(t, filepath.Join(t.TempDir(), "toolhost"))
	other := withContent("/p", "a")
	other.Content = "b"
	for name, r := range map[string]TrustRecord{
		"too large": withContent("/p", strings.Repeat("x", MaxTrustContent+1)), "of another digest": other,
	} {
		if err := s.Trust(t.Context(), r); err == nil || !strings.HasPrefix(err.Error(), "trust record has a content of ") {
			t.Errorf("%s: got %v", name, err)
		}
	}
	if _, found, err := s.Trusted(t.Context(), "/p"); found || err != nil {
		t.Errorf("got %v, %v", found, err)
	}
}

// TestMigrationKeepsTrustWithoutContent: a database of the version before contents
// and programs were kept has its records still, of unknown content.
func TestMigrationKeepsTrustWithoutContent(t *testing.T) {
	s := open(t, t.TempDir())
	mustTrust(t, s, withContent("/p", "a: 1\n"))
	want, err := s.TrustRecords(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.db.Exec("DROP TABLE trust_contents; DROP TABLE programs; DROP TABLE seen_files; PRAGMA user_version = 3"); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	wantContent(t, s, "/p", "", false)
	if got, found, err := s.Trusted(t.Context(), "/p"); got != want[0] || !found || err != nil {
		t.Errorf("got %+v, %v, %v\nwant %+v", got, found, err, want[0])
	}
	mustTrust(t, s, withContent("/p", "a: 2\n"))
	wantContent(t, s, "/p", "a: 2\n", true)
	if _, found, err := s.Program(t.Context(), "/p"); found || err != nil {
		t.Errorf("Program: got %v, %v", found, err)
	}
}
