// Package cgroup keeps the control group of one confined tree: its memory, its processes
// and its processors together, and its end at one stroke. It is for version 2 of control
// groups, below the group that the host itself is in, where that can be written.
package cgroup

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Limits are what a group may use; 0 is no bound.
type Limits struct {
	Memory    int64   // bytes
	Processes int     // with their threads
	CPU       float64 // processors
}

// A Group is a control group of its own. Its owner calls Remove when the tree is gone.
type Group struct {
	// Lacks are the limits that could not be set, in words.
	Lacks []string

	dir  string
	file *os.File
}

// Make makes a group. An error says why there is none: there are no control groups of
// version 2, or this user may not write in its own. Limits that cannot be set are no
// error, and are in Lacks.
func Make(limits Limits) (*Group, error) {
	parent, err := own()
	if err != nil {
		return nil, err
	}
	sweep(parent)
	makeRoom(parent)
	for _, controller := range []string{"+memory", "+pids", "+cpu"} {
		_ = os.WriteFile(filepath.Join(parent, "cgroup.subtree_control"), []byte(controller), 0)
	}
	g, err := makeLocked(parent)
	if err != nil {
		return nil, err
	}
	g.set(limits)
	return g, nil
}

const (
	// prefix is how the names of groups begin that are locked while their host lives.
	prefix = "toolhost-tree-"
	// leaf is the group that the host moves to, for its own has to be without processes.
	leaf = "toolhost-host"
	// sweepMost is how many groups are looked at, so that a tree does not wait for them.
	sweepMost = 256
)

// makeLocked makes a group and locks it. The kernel takes the lock away with the process.
func makeLocked(parent string) (*Group, error) {
	for {
		dir, err := os.MkdirTemp(parent, prefix)
		if err != nil {
			return nil, fmt.Errorf("no control group can be made, start the host in one of its own (systemd-run --user --scope -p Delegate=yes): %w", err)
		}
		file, free, err := lock(dir)
		switch {
		case errors.Is(err, os.ErrNotExist), err == nil && !free:
			continue // another host swept it before it was locked
		case err != nil:
			return nil, errors.Join(fmt.Errorf("no control group can be used: %w", err), os.Remove(dir))
		}
		return &Group{dir: dir, file: file}, nil
	}
}

// lock opens a group and locks it, unless somebody else has it locked. It is
// os.ErrNotExist that the group is gone, also by the time that it was locked.
func lock(dir string) (file *os.File, free bool, err error) {
	file, err = os.OpenFile(dir, os.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
	if err != nil {
		return nil, false, err
	}
	for {
		err = unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if !errors.Is(err, unix.EINTR) {
			break
		}
	}
	if errors.Is(err, unix.EWOULDBLOCK) {
		return nil, false, file.Close()
	}
	var opened, named os.FileInfo
	if err == nil {
		opened, err = file.Stat()
	}
	if err == nil {
		named, err = os.Lstat(dir)
	}
	if err == nil && !os.SameFile(opened, named) {
		err = os.ErrNotExist
	}
	if err != nil {
		return nil, false, errors.Join(err, file.Close())
	}
	return file, true, nil
}

// sweep removes the groups of hosts that were killed, and ends what is still in them: a
// group that no process has locked is of no host that lives, and nothing but a confined
// tree is ever put into one.
func sweep(parent string) {
	old, err := filepath.Glob(filepath.Join(parent, prefix+"*"))
	if err != nil {
		return
	}
	for _, dir := range old[:min(len(old), sweepMost)] {
		file, free, err := lock(dir)
		if err != nil || !free {
			continue
		}
		if os.Remove(dir) != nil {
			_ = os.WriteFile(filepath.Join(dir, "cgroup.kill"), []byte("1"), 0)
			_ = os.Remove(dir) // or the next one does, when its processes are gone
		}
		_ = file.Close()
	}
}

// makeRoom moves this process to a group below its own, if it is alone there: only a
// group without processes can bound those below it. So a host that was given a group, as
// by systemd-run --user --scope -p Delegate=yes, can use it.
func makeRoom(parent string) {
	alone := strconv.Itoa(os.Getpid())
	procs, err := os.ReadFile(filepath.Join(parent, "cgroup.procs"))
	if err != nil || strings.TrimSpace(string(procs)) != alone {
		return
	}
	below := filepath.Join(parent, leaf)
	if err := os.Mkdir(below, 0o755); err != nil && !errors.Is(err, os.ErrExist) {
		return
	}
	_ = os.WriteFile(filepath.Join(below, "cgroup.procs"), []byte(alone), 0) // or it stays, and there are no bounds
}

func (g *Group) set(limits Limits) {
	write := func(name, value, what string) {
		if err := os.WriteFile(filepath.Join(g.dir, name), []byte(value), 0); err != nil {
			g.Lacks = append(g.Lacks, what)
		}
	}
	if limits.Memory > 0 {
		write("memory.max", strconv.FormatInt(limits.Memory, 10), "the memory of all of its processes together")
		_ = os.WriteFile(filepath.Join(g.dir, "memory.swap.max"), []byte("0"), 0) // or it is slow before it ends
		_ = os.WriteFile(filepath.Join(g.dir, "memory.oom.group"), []byte("1"), 0)
	}
	if limits.Processes > 0 {
		write("pids.max", strconv.Itoa(limits.Processes), "the number of its processes by a control group")
	}
	if limits.CPU > 0 {
		const period = 100_000 // microseconds
		write("cpu.max", fmt.Sprintf("%d %d", int(limits.CPU*period), period), "its processors")
	}
}

// FD is a descriptor of the group, to start a process in it.
func (g *Group) FD() int { return int(g.file.Fd()) }

// Kill ends all processes of the group (since Linux 5.14).
func (g *Group) Kill() error {
	return os.WriteFile(filepath.Join(g.dir, "cgroup.kill"), []byte("1"), 0)
}

// removePatience is for a process that has ended and is still being taken down.
const removePatience = 500 * time.Millisecond

// Remove removes the group, in which there is no process any more.
func (g *Group) Remove() error {
	_ = g.file.Close()
	for until := time.Now().Add(removePatience); ; {
		err := os.Remove(g.dir)
		if !errors.Is(err, syscall.EBUSY) || time.Now().After(until) {
			return err
		}
		time.Sleep(time.Millisecond) //nolint:forbidigo // there is no event for it
	}
}

// own is the directory of the group that this process is in.
func own() (string, error) {
	content, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return "", fmt.Errorf("there are no control groups: %w", err)
	}
	for line := range strings.Lines(string(content)) {
		path, found := strings.CutPrefix(strings.TrimSuffix(line, "\n"), "0::")
		if !found {
			continue
		}
		for _, mount := range []string{"/sys/fs/cgroup", "/sys/fs/cgroup/unified"} {
			var fs unix.Statfs_t
			if unix.Statfs(mount, &fs) == nil && fs.Type == unix.CGROUP2_SUPER_MAGIC {
				return strings.TrimSuffix(filepath.Join(mount, path), "/"+leaf), nil
			}
		}
	}
	return "", errors.New("there are no control groups of version 2")
}
