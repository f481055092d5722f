package state

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/toolhost/toolhost/tool"
)

// TestReadOnlyState: what is recorded can be read where nothing can be written,
// whether or not the database was closed before; what writes says that it cannot.
// Seen to fail with a database that is opened for writing only.
func TestReadOnlyState(t *testing.T) {
	if os.Geteuid() == 0 {
		t.Skip("modes stop nobody who is root")
	}
	for name, closed := range map[string]bool{"closed before": true, "open elsewhere": false} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			writer := New(Options{Dir: dir})
			defer writer.Close()
			mustTrust(t, writer, record("/p", 1))
			c := writer.OpenCalls()
			defer c.Close()
			mustEnd(t, c, mustStart(t, c, "0"))
			if closed {
				if err := c.Close(); err != nil {
					t.Fatal(err)
				}
				if err := writer.Close(); err != nil {
					t.Fatal(err)
				}
			}
			chmod(t, dir, 0o400, 0o500)
			defer chmod(t, dir, 0o600, 0o700)

			s := open(t, dir)
			records, err := s.CallRecords(t.Context(), CallFilter{})
			if got := statuses(records); !slices.Equal(got, []string{"0 " + string(tool.Completed)}) || err != nil {
				t.Errorf("got %q, %v", got, err)
			}
			if got, err := s.TrustRecords(t.Context()); !slices.Equal(got, []TrustRecord{record("/p", 1)}) || err != nil {
				t.Errorf("got %v, %v", got, err)
			}
			if got, found, err := s.Trusted(t.Context(), "/p"); !found || got != record("/p", 1) || err != nil {
				t.Errorf("got %v, %v, %v", got, found, err)
			}
			if _, err := s.Abandoned(t.Context()); !isUnwritable(err) || !strings.Contains(err.Error(), dir) {
				t.Errorf("Abandoned: got %v", err)
			}
		})
	}
}

// chmod changes the modes of the files in a directory, and its own.
func chmod(t *testing.T, dir string, file, self os.FileMode) {
	t.Helper()
	if err := os.Chmod(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(dir, fileName+"*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range files {
		if err := os.Chmod(name, file); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chmod(dir, self); err != nil {
		t.Fatal(err)
	}
}
