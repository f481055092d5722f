package client_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/toolhost/toolhost/plugin/client"
	"github.com/toolhost/toolhost/scope"
)

// Rights that a plugin took from its directory, from what is in it or from the run
// directory keep nothing from being removed. Rights bind only an ordinary user, so
// only one sees it fail without giveRights in removeAll, and with holdOwn giving
// none.
func TestRemoveAllWithoutRights(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name string
		bare []string // what is without rights, below the run directory
	}{
		{"own", []string{"p1"}},
		{"own and all in it", []string{"p1/a/b", "p1/a", "p1"}},
		{"run directory", []string{"."}},
		{"everything", []string{"p1/a/b", "p1/a", "p1", "."}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			owner := scope.New(context.Background(), "host")
			run, err := client.OpenRunDir(owner)
			if err != nil {
				t.Fatal(err)
			}
			for _, plugin := range []string{"p1", "p2"} {
				if err := os.MkdirAll(filepath.Join(run, plugin, "a", "b", "c"), 0o700); err != nil {
					t.Fatal(err)
				}
				write(t, filepath.Join(run, plugin, "a", "b", "file"), "", 0)
			}
			takeRights := func() {
				for _, path := range tt.bare {
					if err := os.Chmod(filepath.Join(run, path), 0); err != nil && !errors.Is(err, os.ErrNotExist) {
						t.Fatal(err)
					}
				}
			}
			takeRights()
			if err := client.RemoveAll(run + "/p1"); err != nil {
				t.Error(err)
			}
			takeRights()
			if err := client.RemoveAll(run + "/p2"); err != nil {
				t.Error(err)
			}
			left, err := os.ReadDir(run)
			if tt.name == "own" && (err != nil || len(left) > 0) {
				t.Errorf("left: %v, %v", left, err)
			}
			takeRights()
			if err := owner.Close(context.Background()); err != nil {
				t.Error(err)
			}
			if _, err := os.Lstat(run); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("the run directory is left: %v", err)
			}
		})
	}
}

// A link in place of a directory is removed and leads to nothing, and what has no
// rights outside stays as it is.
func TestRemoveAllReplacedByALink(t *testing.T) {
	t.Parallel()
	precious := t.TempDir() + "/precious"
	if err := errors.Join(os.MkdirAll(precious+"/p1", 0o700), os.Chmod(precious, 0o500)); err != nil {
		t.Fatal(err)
	}
	defer os.Chmod(precious, 0o700) // so that it can be removed
	run := t.TempDir()
	for _, link := range []string{"/p1", "/p2"} {
		if err := os.Symlink(precious, run+link); err != nil {
			t.Fatal(err)
		}
		if link == "/p2" { // it cannot be removed, by an ordinary user, before rights are given
			if err := os.Chmod(run, 0o500); err != nil {
				t.Fatal(err)
			}
		}
		if err := client.RemoveAll(run + link); err != nil && link == "/p1" {
			t.Error(err)
		}
	}
	if info, err := os.Stat(precious); err != nil || info.Mode().Perm() != 0o500 {
		t.Errorf("outside: %v, %v", info, err)
	}
	if _, err := os.Stat(precious + "/p1"); err != nil {
		t.Error(err)
	}
	if left, err := os.ReadDir(run); err != nil || len(left) > 0 {
		t.Errorf("left: %v, %v", left, err)
	}
}

// A tree that is deeper than there are descriptors, and deeper than a path is
// long, is removed. The limit is that of a process, so the test is one of its own.
// Seen to fail with os.RemoveAll alone, and without giveRights in flatten as an
// ordinary user.
func TestRemoveAllDeep(t *testing.T) {
	const variable = "TEST_REMOVE_ALL_DEEP"
	if dir := os.Getenv(variable); dir != "" {
		removeDeep(t, dir)
		return
	}
	t.Parallel()
	dir := t.TempDir() + "/p"
	child := exec.Command("/proc/self/exe", "-test.run=^TestRemoveAllDeep$", "-test.v")
	child.Env = append(os.Environ(), variable+"="+dir)
	if out, err := child.CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
	if _, err := os.Lstat(dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("it is left: %v", err)
	}
}

func removeDeep(t *testing.T, dir string) {
	t.Helper()
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	at, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	for range 3000 {
		if err := unix.Mkdirat(at, "d", 0o700); err != nil {
			t.Fatal(err)
		}
		below, err := unix.Openat(at, "d", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		if err := errors.Join(err, unix.Fchmod(at, 0o500), unix.Close(at)); err != nil {
			t.Fatal(err)
		}
		at = below
	}
	if err := errors.Join(unix.Close(at), client.RemoveAll(t.TempDir())); err != nil { // whatever is opened once
		t.Fatal(err)
	}
	// Room for the three that are needed, above those that this process has.
	next, err := syscall.Dup(0)
	if err != nil {
		t.Fatal(err)
	}
	_ = syscall.Close(next)
	limit := syscall.Rlimit{Cur: uint64(next) + 6, Max: uint64(next) + 6}
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	if err := client.RemoveAll(dir); err != nil {
		t.Fatal(fmt.Errorf("with %d descriptors: %w", limit.Cur, err))
	}
}
