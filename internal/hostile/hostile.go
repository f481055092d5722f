// Package hostile is a plugin that tries what no plugin may do: one attack after the other, each of which is first seen to
// succeed without confinement, so that it proves something, and then to be refused with it (law 46).
//
// The attacks are written by hand against the system, without its libraries where those would be polite. Program plugin is
// the plugin; the tests of this package are the host, the victims, and the judge. make sandbox prints what they found.
//
// No attack does harm where it succeeds: it takes a look, takes what it made away again, and leaves what it was aimed at
// as it was.
package hostile

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"runtime"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/toolhost/toolhost/plugin/sdk"
)

// A Target is what there is to be attacked, by the names that it has for the host.
type Target struct {
	Plugin    string `json:"plugin"`     // the program of the plugin
	SetUID    string `json:"setuid"`     // a program that changes the user who runs it; readable
	Readable  string `json:"readable"`   // a file that it may read
	Writable  string `json:"writable"`   // a directory that it may write in
	InGranted string `json:"in_granted"` // a socket that listens in that directory

	Secret  string `json:"secret"`  // a file of the user's
	Outside string `json:"outside"` // the directory that it is in, with a file "scratch"
	Handle  []byte `json:"handle"`  // names the secret to the kernel
	Kind    int32  `json:"kind"`    // of the handle

	HostProgram string `json:"host_program"`
	State       string `json:"state"`   // a file of the host's
	RunDir      string `json:"run_dir"` // the private directory of the host

	Host       int    `json:"host"`       // its process
	Address    uint64 `json:"address"`    // where Words are in its memory
	Words      string `json:"words"`      // also in its environment
	Descriptor int    `json:"descriptor"` // an open file of it
	Segment    int    `json:"segment"`    // of its shared memory

	TCP      string `json:"tcp"` // addresses of the test
	UDP      string `json:"udp"`
	Abstract string `json:"abstract"`
	Socket   string `json:"socket"`
	Datagram string `json:"datagram"`
	Other    string `json:"other"` // another plugin's
	OtherDir string `json:"other_dir"`

	Disk string `json:"disk"` // a block device
	Size int    `json:"size"` // of a bomb
}

// An Attack is one row of the table.
type Attack struct {
	// Name is what is tried.
	Name string
	// Root says that it takes root to succeed, confined or not.
	Root bool
	// Programs says that a plugin that may run programs was granted it.
	Programs bool
	// Network says that a plugin that may use the network was granted it.
	Network bool
	// May is what a machine may lack without which it does not succeed; empty for what succeeds on any.
	May string
	// Open is why confinement does not refuse it; empty for what it does refuse.
	Open string

	try func(Target) error
}

// Attacks are all rows, in the order of the table.
func Attacks() []Attack {
	var all []Attack
	for _, some := range [][]Attack{files(), granted(), machine(), sockets(), processes(), kernel(), programs()} {
		all = append(all, some...)
	}
	return all
}

// An Outcome is how an attack, or a bomb, ended.
type Outcome struct {
	// Done says that it succeeded.
	Done bool `json:"done"`
	// Refusal is by what it was refused: the name of an error of the system, or words.
	Refusal string `json:"refusal"`
	// Got is how much a bomb got.
	Got int `json:"got"`
}

type input struct {
	Name   string `json:"name"`
	Target Target `json:"target"`
}

// patience bounds an attack.
const patience = 10 * time.Second

// Plugin is the plugin. Its tools carry its name, so that several of them are in one Location. inherited is what it found
// open when it began.
func Plugin(name string, inherited []string) sdk.Plugin {
	return sdk.Plugin{Name: name, Version: "1.0.0", Activate: func(ctx context.Context, loc sdk.Location) error {
		_, err := loc.Tools.Register(ctx, sdk.Tools{
			"attack_" + name: sdk.New("Try one thing", func(_ context.Context, _ sdk.Call, in input) (Outcome, error) {
				for _, a := range Attacks() {
					if a.Name == in.Name {
						return attempt(a, in.Target), nil
					}
				}
				return Outcome{}, fmt.Errorf("there is no attack %q", in.Name)
			}, sdk.NoEffect),
			"bomb_" + name: sdk.New("Take all there is of one thing", func(_ context.Context, _ sdk.Call, in input) (Outcome, error) {
				return bomb(in.Name, in.Target)
			}, sdk.NoEffect),
			"daemon_" + name: sdk.New("Leave a process behind", func(_ context.Context, _ sdk.Call, in input) (Outcome, error) {
				return outcomeOf(leaveDaemon(in.Target)), nil
			}, sdk.NoEffect),
			"inherited_" + name: sdk.New("What was open at the beginning", func(context.Context, sdk.Call, struct{}) ([]string, error) {
				return inherited, nil
			}, sdk.NoEffect),
			"ping_" + name: sdk.New("Answer", func(context.Context, sdk.Call, struct{}) (bool, error) {
				return true, nil
			}, sdk.NoEffect),
		})
		return err
	}}
}

// attempt makes an attack on a thread of its own, which ends with it: whatever it changed of itself is gone.
func attempt(a Attack, t Target) Outcome {
	ended := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		ended <- a.try(t)
	}()
	select {
	case err := <-ended:
		return outcomeOf(err)
	case <-time.After(patience):
		return Outcome{Refusal: "it hung"}
	}
}

func outcomeOf(err error) Outcome {
	if err == nil {
		return Outcome{Done: true}
	}
	if number, ok := errors.AsType[syscall.Errno](err); ok && number != 0 {
		return Outcome{Refusal: unix.ErrnoName(number)}
	}
	if errors.Is(err, fs.ErrNotExist) {
		return Outcome{Refusal: "ENOENT"}
	}
	return Outcome{Refusal: err.Error()}
}

// Inherited are the descriptors beyond the first three that a process has at its beginning, but for those that the Go
// runtime opens itself to wait and to know its share of the processors.
func Inherited() []string {
	var found []string
	for fd := 3; fd < 4096; fd++ {
		if _, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); err != nil {
			continue
		}
		name := make([]byte, 256)
		n, err := unix.Readlink(fmt.Sprintf("/proc/self/fd/%d", fd), name)
		if err != nil {
			n = copy(name, "unknown")
		}
		switch name := string(name[:n]); {
		case strings.HasPrefix(name, "/sys/fs/cgroup/"), name == "anon_inode:[eventpoll]", name == "anon_inode:[eventfd]":
		default:
			found = append(found, fmt.Sprintf("%d: %s", fd, name))
		}
	}
	return found
}

// call is a system call.
func call(number uintptr, args ...uintptr) (uintptr, error) {
	var all [6]uintptr
	copy(all[:], args)
	got, _, err := unix.RawSyscall6(number, all[0], all[1], all[2], all[3], all[4], all[5])
	if err != 0 {
		return 0, err
	}
	return got, nil
}

// A step is a system call of a process that was just made: its number and its arguments, and what those point to.
type step struct {
	call [7]uintptr
	kept any
}

func steps(calls ...[7]uintptr) (all []step) {
	for _, c := range calls {
		all = append(all, step{call: c})
	}
	return all
}

// fork makes a process with further flags of clone, which takes steps and then ends, with the error of the first that fails
// as its status. It is waited for.
func fork(flags uintptr, steps ...step) error {
	pid, err := forkTo(uintptr(unix.SIGCHLD)|flags, steps)
	runtime.KeepAlive(steps)
	if err != 0 {
		return err
	}
	return waitFor(int(pid)) //nolint:gosec // it is one
}

// forkTo is fork without the waiting. A step that makes a process itself is the last one of who takes it, and what it made
// takes the rest. Nothing of the Go runtime works in a process that was made so: not even a check of the stack may be
// in it.
//
//go:nosplit
//go:norace
func forkTo(flags uintptr, steps []step) (uintptr, syscall.Errno) {
	pid, _, err := syscall.RawSyscall6(unix.SYS_CLONE, flags, 0, 0, 0, 0, 0)
	if err != 0 || pid != 0 {
		return pid, err
	}
	for i := range steps {
		s := &steps[i].call
		var made uintptr
		made, _, err = syscall.RawSyscall6(s[0], s[1], s[2], s[3], s[4], s[5], s[6])
		if err != 0 || s[0] == unix.SYS_CLONE && made != 0 {
			break
		}
	}
	for {
		_, _, _ = syscall.RawSyscall6(unix.SYS_EXIT_GROUP, uintptr(err), 0, 0, 0, 0, 0)
	}
}

// apart takes a step in a process of its own, as it would change this one. Where there can be none, it is taken here.
func apart(s step) error {
	err := fork(0, s)
	if !errors.Is(err, unix.EPERM) {
		return err
	}
	// It was refused the process, or the step.
	_, err = call(s.call[0], s.call[1:]...)
	runtime.KeepAlive(s)
	return err
}

func waitFor(pid int) error {
	var status unix.WaitStatus
	for {
		_, err := unix.Wait4(pid, &status, 0, nil)
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case err != nil:
			return err
		case status.Signaled():
			return fmt.Errorf("it was ended by %v", status.Signal())
		case status.ExitStatus() != 0:
			return syscall.Errno(status.ExitStatus()) //nolint:gosec // a byte
		}
		return nil
	}
}
