package cgroup

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// A process is started in the group, ended with it, and the group is removed. Limits that
// this machine cannot set are said.
//
// Seen to fail: with a Kill that does nothing; with Lacks left empty, where there is no
// controller.
func TestGroup(t *testing.T) {
	g, err := Make(Limits{Memory: 64 << 20, Processes: 10, CPU: 0.5})
	if err != nil {
		t.Skipf("this user has no control group to write in: %v", err)
	}
	sleep := exec.Command("sleep", "1000")
	sleep.SysProcAttr = &syscall.SysProcAttr{UseCgroupFD: true, CgroupFD: g.FD(), Pdeathsig: syscall.SIGKILL}
	if err := sleep.Start(); err != nil {
		t.Fatal(err)
	}
	content, err := os.ReadFile("/proc/" + strconv.Itoa(sleep.Process.Pid) + "/cgroup")
	if err != nil || !strings.Contains(string(content), filepath.Base(g.dir)) {
		t.Errorf("it is in %q, %v", content, err)
	}
	missing := 0
	for _, name := range []string{"memory.max", "pids.max", "cpu.max"} {
		if unix.Access(filepath.Join(g.dir, name), unix.F_OK) != nil {
			missing++
		}
	}
	if len(g.Lacks) != missing {
		t.Errorf("lacks %q, and %d files are missing", g.Lacks, missing)
	}
	if err := g.Kill(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- sleep.Wait() }()
	select {
	case <-ended:
	case <-time.After(5 * time.Second):
		_ = sleep.Process.Kill()
		t.Error("it lives")
		<-ended
	}
	if err := g.Remove(); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(g.dir); !os.IsNotExist(err) {
		t.Errorf("the group is left: %v", err)
	}
}

// What killed hosts left is removed by the next one, with the processes in it, and nothing
// else is; a host that is alone in its group makes room in it (law 41).
//
// Seen to fail: without the sweep; without the lock; without the kill; without the move.
func TestLaw41RoomAndSweep(t *testing.T) {
	parent, err := own()
	if err != nil {
		t.Skipf("this machine has no control groups of version 2: %v", err)
	}
	given, err := os.MkdirTemp(parent, "given-")
	if err != nil {
		t.Skipf("this user has no control group to write in: %v", err)
	}
	t.Cleanup(func() {
		for _, name := range []string{leaf, prefix + "empty", prefix + "busy", prefix + "living", "toolhost-other", ""} {
			_ = os.Remove(filepath.Join(given, name))
		}
	})
	for _, name := range []string{prefix + "empty", prefix + "busy", prefix + "living", "toolhost-other"} {
		if err := os.Mkdir(filepath.Join(given, name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	sleeping := func(group string) *exec.Cmd {
		dir, err := os.Open(filepath.Join(given, group))
		if err != nil {
			t.Fatal(err)
		}
		defer dir.Close()
		sleep := exec.Command("sleep", "1000")
		sleep.SysProcAttr = &syscall.SysProcAttr{UseCgroupFD: true, CgroupFD: int(dir.Fd()), Pdeathsig: syscall.SIGKILL}
		if err := sleep.Start(); err != nil {
			t.Fatal(err)
		}
		return sleep
	}
	busy, living := sleeping(prefix+"busy"), sleeping(prefix+"living")
	held, free, err := lock(filepath.Join(given, prefix+"living"))
	if err != nil || !free {
		t.Fatal(free, err)
	}
	defer held.Close()
	dir, err := os.Open(given)
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	again := exec.Command(self, "-test.run=^TestGroup$", "-test.v")
	again.SysProcAttr = &syscall.SysProcAttr{UseCgroupFD: true, CgroupFD: int(dir.Fd()), Pdeathsig: syscall.SIGKILL}
	if out, err := again.CombinedOutput(); err != nil || !strings.Contains(string(out), "--- PASS") {
		t.Errorf("%v\n%s", err, out)
	}
	entries, err := os.ReadDir(given)
	if err != nil {
		t.Fatal(err)
	}
	var left []string
	for _, e := range entries {
		if e.IsDir() {
			left = append(left, e.Name())
		}
	}
	ended := make(chan error, 1)
	go func() { ended <- busy.Wait() }()
	select {
	case <-ended:
	case <-time.After(5 * time.Second):
		_ = busy.Process.Kill()
		<-ended
		t.Error("what is in the group of a killed host lives")
	}
	if err := living.Process.Signal(syscall.SIGTERM); err != nil {
		t.Error(err)
	}
	_ = living.Wait()
	if got := living.ProcessState.Sys().(syscall.WaitStatus).Signal(); got != syscall.SIGTERM {
		t.Errorf("what was in the group of a host that lives ended with %v", got)
	}
	left = slices.DeleteFunc(left, func(name string) bool { return name == prefix+"busy" }) // the next one does
	if got := strings.Join(left, " "); got != leaf+" toolhost-other "+prefix+"living" {
		t.Errorf("left are %q", got)
	}
}
