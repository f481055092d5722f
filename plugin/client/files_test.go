package client_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/toolhost/toolhost/plugin/client"
	"github.com/toolhost/toolhost/scope"
)

// Files that are not the plugin that was pinned, or no plugin at all: none of
// them runs, and each is told by its own reason (case F13).
func TestCaseF13WrongFiles(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	script := filepath.Join(dir, "script")
	write(t, script, "#!/bin/sh\n: > \""+dir+"/ran\"\n", 0o700)
	write(t, dir+"/empty", "", 0o700)
	write(t, dir+"/data", "#!/bin/sh\n", 0o600)
	write(t, dir+"/text", "neither a program nor a script\n", 0o700)
	write(t, dir+"/loader", "#!/no/such/interpreter\n", 0o700)
	if err := errors.Join(os.Mkdir(dir+"/directory", 0o700), syscall.Mkfifo(dir+"/pipe", 0o700)); err != nil {
		t.Fatal(err)
	}
	wrong := strings.Repeat("0", 64)
	digest := digestOf(t, script)
	tests := []struct {
		name, file, sha256 string
		files              map[string]string
		want               []string
	}{
		{"missing", "none", "", nil, []string{dir + "/none does not exist"}},
		{"missing, pinned", "none", wrong, nil, []string{dir + "/none does not exist"}},
		{"directory", "directory", "", nil, []string{"is a directory, not an executable"}},
		{"pipe", "pipe", wrong, nil, []string{"is not a regular file"}},
		{"empty", "empty", "", nil, []string{dir + "/empty is empty"}},
		{"not executable", "data", "", nil, []string{"is not executable: chmod +x it"}},
		{"not a program", "text", "", nil, []string{"neither a program for this machine nor a script"}},
		{"no interpreter", "loader", "", nil, []string{"/no/such/interpreter does not exist"}},
		{"wrong digest", "script", wrong, nil, []string{script, "the file is not the one that was pinned", "its sha256 is " + digest + ", pinned is " + wrong}},
		{"wrong digest of a further file", "script", digest, map[string]string{dir + "/data": wrong}, []string{dir + "/data", "is not the one that was pinned"}},
		{"missing further file", "script", digest, map[string]string{dir + "/none": wrong}, []string{dir + "/none", "no such file"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			spec := b.spec("x")
			spec.Command, spec.SHA256, spec.Files = []string{filepath.Join(dir, tt.file)}, tt.sha256, tt.files
			err := b.startFails(spec)
			wantIn(t, err.Error(), append(tt.want, "plugin x: ")...)
			if errors.Is(err, client.ErrDigest) != strings.HasPrefix(tt.name, "wrong digest") {
				t.Errorf("error wraps ErrDigest: %t", errors.Is(err, client.ErrDigest))
			}
			if _, err := os.Stat(dir + "/ran"); err == nil {
				t.Error("it ran")
			}
		})
	}
}

// A file that is exchanged all the while either is the pinned one or does not
// run: what was hashed is what is executed. Checking first and running the path
// after it fails within a few rounds.
func TestCaseF13SwappedAfterTheCheck(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	dir := t.TempDir()
	path := dir + "/plugin"
	good := "#!/bin/sh\nexit 11\n"
	bad := "#!/bin/sh\n: > \"" + dir + "/ran\"\n"
	write(t, path, good, 0o700)
	spec := b.spec("swapped")
	spec.Command, spec.SHA256 = []string{path}, digestOf(t, path)
	var over atomic.Bool
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for n := 0; !over.Load(); n++ {
			next := fmt.Sprintf("%s/next%d", dir, n%2)
			_ = os.WriteFile(next, []byte([]string{bad, good}[n%2]), 0o700)
			_ = os.Rename(next, path)
		}
	}()
	ran, refused := 0, 0
	for range 30 {
		switch err := b.startFails(spec); {
		case errors.Is(err, client.ErrDigest):
			refused++
		case strings.Contains(err.Error(), "exit status 11"):
			ran++
		case strings.Contains(err.Error(), "does not exist"): // between two renames it cannot be seen
		default:
			t.Errorf("error = %v", err)
		}
	}
	over.Store(true)
	<-ended
	if _, err := os.Stat(dir + "/ran"); err == nil {
		t.Error("what was not pinned has run")
	}
	t.Logf("ran %d times, refused %d times", ran, refused)
}

// A verified copy is what runs, under its own name and read-only; further files
// take the place of the arguments that name them. Names that this package uses
// itself are no obstacle.
func TestVerifiedCopy(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	dir := t.TempDir()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	path, config := dir+"/tmp", dir+"/config"
	copyFile(t, exe, path)
	write(t, config, "units: metric\n", 0o600)
	spec := b.spec("many", config)
	spec.Command[0] = path
	spec.SHA256 = strings.ToUpper(digestOf(t, path))
	spec.Files = map[string]string{config: digestOf(t, config)}
	spec.Command[2] = "many"
	spec.Command = spec.Command[:3]
	b.startSpec(spec)
	write(t, path, "an upgrade on disk", 0o700)
	ran := strings.Fields(value[shellOut](b, "shell", `{"text":"readlink /proc/$PPID/exe; stat -c %a /proc/$PPID/exe -L"}`).Out)
	if len(ran) != 2 || !strings.HasPrefix(ran[0], b.host.RunDir+"/p") || filepath.Base(ran[0]) != "tmp" || ran[1] != "500" {
		t.Errorf("%q runs, want the copy", ran)
	}
}

func TestVerifiedArguments(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	script := t.TempDir() + "/plugin.sh"
	write(t, script, "echo \"$0\" $1 >&2; cat \"$0\" >&2; exit 9\n", 0o600)
	spec := b.spec("script")
	spec.Command = []string{"/bin/sh", script, "argument"}
	spec.Files = map[string]string{script: digestOf(t, script)}
	wantIn(t, b.startFails(spec).Error(), "exit status 9", b.host.RunDir+"/p", "/1/plugin.sh argument", "exit 9")
}

// The run directory is short, private and gone with its scope (cases F07 and F08).
func TestCaseF08RunDir(t *testing.T) {
	long := filepath.Join(t.TempDir(), strings.Repeat("long", 25))
	readOnly := t.TempDir()
	if err := errors.Join(os.MkdirAll(long, 0o700), os.Chmod(readOnly, 0o500)); err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name, runtime, tmp string
		want               string // where it is
	}{
		{"long paths", long, long, "/tmp"},
		{"none", "", "", "/tmp"},
		{"relative", "here", "there", "/tmp"},
		{"missing", "/no/such/directory", "", "/tmp"},
		{"a file", "/dev/null", "/dev/full", "/tmp"},
		{"the first", "/var/tmp", "/tmp", "/var/tmp"},
	}
	if os.Getuid() != 0 {
		tests = append(tests, struct{ name, runtime, tmp, want string }{"read-only", readOnly, "", "/tmp"})
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Setenv("XDG_RUNTIME_DIR", tt.runtime)
			t.Setenv("TMPDIR", tt.tmp)
			owner := scope.New(context.Background(), "host")
			dir, err := client.OpenRunDir(owner)
			if err != nil {
				t.Fatal(err)
			}
			info, err := os.Stat(dir)
			if err != nil || info.Mode().Perm() != 0o700 || filepath.Dir(dir) != tt.want {
				t.Errorf("OpenRunDir = %s, %v, %v", dir, info, err)
			}
			write(t, dir+"/left", "", 0o600)
			if err := owner.Close(context.Background()); err != nil {
				t.Error(err)
			}
			if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("it is left: %v", err)
			}
		})
	}
	b := newBench(t)
	spec := b.spec("many")
	b.host.RunDir = long
	wantIn(t, b.startFails(spec).Error(), "a socket in it would have a path of over 107 bytes")
	if left, _ := os.ReadDir(long); len(left) > 0 {
		t.Errorf("%v is left in a directory that was not taken", left)
	}
	if err := os.RemoveAll(long); err != nil { // the bench looks whether its directory is gone
		t.Error(err)
	}
}

// A plugin may make what cannot simply be removed, and links out of its directory.
func TestRemoveAll(t *testing.T) {
	t.Parallel()
	outside := t.TempDir()
	write(t, outside+"/kept", "", 0o600)
	if err := os.Chmod(outside, 0o500); err != nil {
		t.Fatal(err)
	}
	defer os.Chmod(outside, 0o700) // so that it can be removed
	dir := t.TempDir() + "/p"
	if err := errors.Join(
		os.MkdirAll(dir+"/a/b", 0o700), os.WriteFile(dir+"/a/b/c", nil, 0o400), os.Symlink(outside, dir+"/a/link"),
		os.Chmod(dir+"/a/b", 0), os.Chmod(dir+"/a", 0o500),
	); err != nil {
		t.Fatal(err)
	}
	if err := client.RemoveAll(dir); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("it is left: %v", err)
	}
	if info, err := os.Stat(outside); err != nil || info.Mode().Perm() != 0o500 {
		t.Errorf("outside: %v, %v", info, err)
	}
	if _, err := os.Stat(outside + "/kept"); err != nil {
		t.Error(err)
	}
}

// A run directory on a full or read-only file system fails the start, in words,
// and leaves nothing.
func TestNoRoomInTheRunDirectory(t *testing.T) {
	t.Parallel()
	if os.Getuid() != 0 {
		t.Skip("mounting needs root")
	}
	for name, options := range map[string]string{"full": "size=64k,nr_inodes=8", "read-only": "ro"} {
		t.Run(name, func(t *testing.T) {
			b := openBench(t)
			defer b.scope.Close(context.Background())
			dir := t.TempDir()
			if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, strings.TrimPrefix(options, "ro")); err != nil {
				t.Skip("mount:", err)
			}
			defer syscall.Unmount(dir, syscall.MNT_DETACH)
			if options == "ro" {
				if err := syscall.Mount("tmpfs", dir, "tmpfs", syscall.MS_REMOUNT|syscall.MS_RDONLY, ""); err != nil {
					t.Skip("mount:", err)
				}
			} else {
				write(t, dir+"/full", strings.Repeat("x", 60<<10), 0o600)
			}
			b.host.RunDir = dir
			spec := b.spec("many")
			spec.SHA256 = digestOf(t, spec.Command[0])
			_, err := client.Start(context.Background(), b.scope, b.host, spec)
			want := map[string]error{"full": syscall.ENOSPC, "read-only": syscall.EROFS}[name]
			if !errors.Is(err, want) {
				t.Errorf("error = %v, want %v", err, want)
			}
			if left, _ := filepath.Glob(dir + "/p*"); len(left) > 0 {
				t.Errorf("%v is left", left)
			}
		})
	}
}

func write(t testing.TB, path, text string, mode os.FileMode) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), mode); err != nil {
		t.Fatal(err)
	}
}

func copyFile(t testing.TB, from, to string) {
	t.Helper()
	in, err := os.Open(from)
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_WRONLY, 0o700)
	if err != nil {
		t.Fatal(err)
	}
	_, err = io.Copy(out, in)
	if err := errors.Join(err, out.Close()); err != nil {
		t.Fatal(err)
	}
}

func digestOf(t testing.TB, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}
