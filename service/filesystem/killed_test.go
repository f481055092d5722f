package filesystem_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/toolhost/toolhost/service"
	"github.com/toolhost/toolhost/service/filesystem"
)

const (
	changingRoot = "TEST_CHANGING_ROOT"
	changingName = "TEST_CHANGING_NAME"
)

// content is what a file holds that is whole.
func content(version string) string { return strings.Repeat("line of "+version+"\n", 50) }

// change changes several files again and again until the process is killed.
func change(t *testing.T, root, name string) {
	t.Helper()
	f := openRecorded(t, root)
	do := func(c service.Change) {
		t.Helper()
		caller := filesystem.Caller{Gate: everything{}, Session: name}
		stage, err := f.Stage(context.Background(), caller, c)
		if err == nil {
			err = stage.Commit(context.Background(), caller)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	fmt.Println("ready")
	for n := 0; ; n++ {
		patch := "*** Begin Patch\n"
		version := fmt.Sprint(name, os.Getpid(), n) // another one than those of who was killed
		for i := range 4 {
			at := fmt.Sprintf("%s/%d", name, i)
			if old, err := os.ReadFile(filepath.Join(root, at)); err == nil {
				patch += "*** Update File: " + at + "\n@@\n"
				for line := range strings.Lines(string(old)) {
					patch += "-" + line
				}
			} else {
				patch += "*** Add File: " + at + "\n"
			}
			for line := range strings.Lines(content(version)) {
				patch += "+" + line
			}
		}
		do(service.ApplyPatch{Text: patch + "*** End Patch\n"})
		for _, at := range []string{name + "/tree/a/b", name + "/tree/c"} {
			do(service.WriteFile{Path: at, Content: []byte(content(version))})
		}
		do(service.RemoveFile{Path: name + "/tree", Recursive: true})
		do(service.RemoveFile{Path: name + "/3"})
	}
}

// everything is allowed.
type everything struct{}

func (everything) Permit(context.Context, string, ...string) error { return nil }
func (everything) Allows(string, string) bool                      { return true }
func (everything) Denies(string, string) bool                      { return false }

func openRecorded(t *testing.T, root string) *filesystem.FileSystem {
	t.Helper()
	f, err := filesystem.Open(root, filesystem.Options{Changes: root + ".state/changes"})
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// Of two hosts that change files below one root, one is killed at any time, many times
// over. The next one finds, and leaves, files that are whole, and the other is not
// disturbed (laws 27, 41).
//
// Seen to fail: without Recover; without the lock of a record.
func TestLaw41KilledAtAnyTime(t *testing.T) {
	if root := os.Getenv(changingRoot); root != "" {
		change(t, root, os.Getenv(changingName))
		return
	}
	root := t.TempDir()
	start := func(name string) *exec.Cmd {
		host := exec.Command("/proc/self/exe", "-test.run=^TestLaw41KilledAtAnyTime$")
		host.Env = append(os.Environ(), changingRoot+"="+root, changingName+"="+name)
		out, err := host.StdoutPipe()
		if err == nil {
			err = host.Start()
		}
		if err == nil {
			_, err = bufio.NewReader(out).ReadString('\n')
		}
		if err != nil {
			t.Fatal(err)
		}
		return host
	}
	if err := errors.Join(os.MkdirAll(root+"/killed", 0o700), os.MkdirAll(root+"/lives", 0o700)); err != nil {
		t.Fatal(err)
	}
	lives := start("lives")
	recovered := 0
	for round := 0; round < 25 || recovered == 0 && !t.Failed() && round < 400; round++ {
		host := start("killed")
		time.Sleep(time.Duration(rand.IntN(30_000)) * time.Microsecond)
		_ = host.Process.Kill()
		_ = host.Wait()
		f := openRecorded(t, root)
		did, err := f.Recover(t.Context())
		for _, r := range did {
			if !r.Whole || !strings.HasPrefix(r.Path, "killed/") {
				t.Errorf("recovered is %+v", r)
			}
		}
		if err := errors.Join(err, f.Close()); err != nil {
			t.Error(err)
		}
		recovered += len(did)
		wantWholeFiles(t, root+"/killed")
	}
	t.Logf("%d files were being changed", recovered)
	if recovered == 0 {
		t.Error("none was killed in the middle of a change: the test shows nothing")
	}
	_ = lives.Process.Signal(os.Interrupt)
	_ = lives.Wait()
	if !lives.ProcessState.Sys().(syscall.WaitStatus).Signaled() {
		t.Error("the other host failed")
	}
	f := openRecorded(t, root)
	if _, err := f.Recover(t.Context()); err != nil {
		t.Error(err)
	}
	if err := f.Close(); err != nil {
		t.Error(err)
	}
	wantWholeFiles(t, root)
	if left, err := os.ReadDir(root + ".state/changes"); err != nil || len(left) > 0 {
		t.Errorf("records are left: %v, %v", left, err)
	}
}

// wantWholeFiles fails if a file is not whole, or has a name that was not asked for.
func wantWholeFiles(t *testing.T, dir string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() && !strings.HasPrefix(d.Name(), ".") {
			return err
		}
		if strings.HasPrefix(d.Name(), ".") {
			return fmt.Errorf("%s is left", path)
		}
		text, err := os.ReadFile(path)
		line, _, _ := strings.Cut(string(text), "\n")
		if err == nil && string(text) != content(strings.TrimPrefix(line, "line of ")) {
			err = fmt.Errorf("%s has %d bytes and is not whole", path, len(text))
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}
