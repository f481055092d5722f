package beneath

import (
	"bytes"
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"golang.org/x/sys/unix"
)

// list is an access control list as the system keeps it: of the owner, one more user,
// the group, a mask and the others.
func list(user uint32, user6, mask, others uint16) []byte {
	var b bytes.Buffer
	for _, v := range []any{
		uint32(2),
		uint16(1), uint16(6), ^uint32(0), uint16(2), user6, user, uint16(4), uint16(0), ^uint32(0),
		uint16(16), mask, ^uint32(0), uint16(32), others, ^uint32(0),
	} {
		if err := binary.Write(&b, binary.LittleEndian, v); err != nil {
			panic(err) // a buffer takes everything
		}
	}
	return b.Bytes()
}

// A file that takes the place of another one lets in whom that did, and nobody that its
// directory would let in; and it runs as nobody else (law 27).
//
// Seen to fail: without what is taken away; with the capability copied.
func TestLaw27ResembleIsNoWider(t *testing.T) {
	dir := t.TempDir()
	original := filepath.Join(dir, "f")
	if err := os.WriteFile(original, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := unix.Setxattr(original, "user.note", []byte("kept"), 0); errors.Is(err, unix.EOPNOTSUPP) {
		t.Skip("this filesystem keeps no attributes")
	} else if err != nil {
		t.Fatal(err)
	}
	if err := unix.Setxattr(dir, "system.posix_acl_default", list(65534, 6, 6, 4), 0); errors.Is(err, unix.EOPNOTSUPP) {
		t.Skip("this filesystem has no access control lists")
	} else if err != nil {
		t.Fatal(err)
	}
	// The capability to bind low ports; only root may give it.
	capable := []byte{1, 0, 0, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}
	_ = unix.Setxattr(original, capability, capable, 0)
	d := openDir(t, dir)
	old, err := Open(d, "f", unix.O_RDONLY)
	if err != nil {
		t.Fatal(err)
	}
	defer Close(old)
	fd, err := Create(d, "new", 0o666)
	if err != nil {
		t.Fatal(err)
	}
	defer Close(fd)
	if names, err := attributes(fd); err != nil || !slices.Contains(names, "system.posix_acl_access") {
		t.Fatalf("nothing is inherited: %q, %v", names, err)
	}
	if err := Resemble(fd, old); err != nil {
		t.Fatal(err)
	}
	names, err := attributes(fd)
	if err != nil || !slices.Contains(names, "user.note") || slices.Contains(names, "system.posix_acl_access") || slices.Contains(names, capability) {
		t.Errorf("the new file has %q, %v", names, err)
	}
	if info, err := os.Stat(filepath.Join(dir, "new")); err != nil || info.Mode() != 0o600 {
		t.Errorf("its mode is %v, %v", info.Mode(), err)
	}
}

// Where the system cannot promise that a name is free, a move is made in steps, and
// still replaces nothing.
func TestMoveStepwise(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"f", "taken", "d/f", "full/f"} {
		if err := errors.Join(os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755), os.WriteFile(filepath.Join(dir, name), []byte(name), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("f", filepath.Join(dir, "l")); err != nil {
		t.Fatal(err)
	}
	d := openDir(t, dir)
	for _, from := range []string{"f", "l", "d"} {
		for _, to := range []string{"taken", "full"} {
			if err := moveStepwise(d, from, d, to); !errors.Is(err, unix.EEXIST) {
				t.Errorf("%s to %s: %v", from, to, err)
			}
		}
		was, err := LstatName(d, from)
		if err != nil {
			t.Fatal(err)
		}
		if err := moveStepwise(d, from, d, from+"2"); err != nil {
			t.Errorf("%s: %v", from, err)
		}
		if now, err := LstatName(d, from+"2"); err != nil || !now.Same(was) {
			t.Errorf("%s is another one, or gone: %v", from, err)
		}
		if _, err := LstatName(d, from); !errors.Is(err, unix.ENOENT) {
			t.Errorf("%s is still there: %v", from, err)
		}
	}
	if err := moveStepwise(d, "nothing", d, "x"); !errors.Is(err, unix.ENOENT) {
		t.Errorf("got %v", err)
	}
}
