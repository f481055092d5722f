package layering

import (
	"os"
	"testing"
)

// TestRepository holds this repository against the rules. Every other test of the package shows that a rule can be broken.
func TestRepository(t *testing.T) {
	found, err := check(os.DirFS("../.."), toolhost())
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range found {
		t.Error(f)
	}
}
