package sandbox

import (
	"bytes"
	"cmp"
	"encoding/gob"
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/toolhost/toolhost/sandbox/internal/cgroup"
	"github.com/toolhost/toolhost/sandbox/internal/jail"
)

// A JailError is that a process could not be confined, or not be run in its confinement.
type JailError struct{ reason string }

func (e *JailError) Error() string { return "it cannot be confined: " + e.reason }

// namespaces are those that a confined process has of its own.
const namespaces = unix.CLONE_NEWUSER | unix.CLONE_NEWPID | unix.CLONE_NEWNS | unix.CLONE_NEWIPC | unix.CLONE_NEWUTS | unix.CLONE_NEWCGROUP

// insideID is the number that root has in a jail: one that is nobody's root.
const insideID = 1000

// privateBytes bounds each private directory of a jail.
const privateBytes = 256 << 20

// launchJail starts the launcher in namespaces of its own, with a plan.
func (p *Process) launchJail(launcher Launcher, spec Spec) error {
	if launcher.Path == "" {
		return errors.New("a confined process needs a launcher")
	}
	plan := planOf(spec)
	file, err := inMemory(plan)
	if err != nil {
		return err
	}
	defer file.Close()
	uid, gid := os.Geteuid(), os.Getegid()
	flags := uintptr(namespaces)
	if !spec.Policy.Network {
		flags |= unix.CLONE_NEWNET
	}
	attr := &os.ProcAttr{
		Env:   reaperEnvironment(),
		Files: []*os.File{p.pipes.reaperLifeline, p.pipes.programStdout, p.pipes.programStderr, p.pipes.report, p.pipes.programStdin, file, nil, p.pipes.giveTerminal},
		Sys: &syscall.SysProcAttr{
			Setsid: true, Pdeathsig: syscall.SIGKILL, Cloneflags: flags,
			UidMappings: []syscall.SysProcIDMap{{ContainerID: plan.UID, HostID: uid, Size: 1}},
			GidMappings: []syscall.SysProcIDMap{{ContainerID: plan.GID, HostID: gid, Size: 1}},
			// Not root inside, it would lose them by being run. To set up, and to give up.
			AmbientCaps: []uintptr{unix.CAP_SYS_ADMIN, unix.CAP_SETPCAP},
		},
	}
	if !plan.Init && !plan.Probe {
		attr.Files[0] = p.pipes.programStdin // which is its lifeline
		attr.Files[programFile] = spec.Program.file
	}
	if !plan.Probe {
		p.bound(plan, spec.Policy.Limits.CPU, attr.Sys)
	}
	argv := append(append([]string{launcher.Path}, launcher.Args...), confinedWord)
	p.top, err = whileBusy(func() (*os.Process, error) { return os.StartProcess(launcher.Path, argv, attr) })
	if err != nil {
		p.unbound()
		return &JailError{reason: fmt.Sprintf("start the launcher in namespaces of its own: %v%s", explain(launcher.Path, err), hint(err))}
	}
	return nil
}

// bound puts the tree into a control group of its own, where there can be one.
func (p *Process) bound(plan jail.Plan, cpu float64, attr *syscall.SysProcAttr) {
	group, err := cgroup.Make(cgroup.Limits{Memory: plan.Memory, Processes: plan.Processes, CPU: cpu})
	if err != nil {
		p.ungrouped = "its memory is bounded for each process, not for all together: " + err.Error()
		if cpu > 0 {
			p.ungrouped += "; and so its processors are not bounded"
		}
		return
	}
	p.group = group
	attr.UseCgroupFD, attr.CgroupFD = true, group.FD()
}

// unbound removes the control group, in which nothing is left.
func (p *Process) unbound() {
	if p.group != nil {
		_ = p.group.Remove() // an empty one that stays takes nothing
	}
}

// planOf is what a spec says, for a launcher.
func planOf(spec Spec) jail.Plan {
	policy := spec.Policy
	plan := jail.Plan{
		Probe: spec.probe,
		Init:  !spec.becomes() && !spec.probe,
		Path:  spec.Path, Args: append([]string{cmp.Or(spec.Name, spec.Path)}, spec.Args...), Env: spec.Env, Dir: spec.Dir,
		Read: policy.Read, Write: policy.Write, Protect: policy.Protect,
		Private: append([]string{"/tmp"}, policy.Private...), PrivateBytes: privateBytes,
		System: policy.System || policy.Exec || policy.Profile == Command, Network: policy.Network,
		Exec: policy.Exec, Command: policy.Profile == Command,
		Memory: orDefault(policy.Limits.Memory, DefaultMemory), Processes: orDefault(policy.Limits.Processes, DefaultProcesses),
		Files: orDefault(policy.Limits.Files, DefaultFiles), UID: inside(os.Geteuid()), GID: inside(os.Getegid()),
	}
	plan.NoInput = spec.Terminal == nil && spec.stdin() == StdinEmpty
	if size := spec.Terminal; size != nil {
		plan.Columns, plan.Rows = size.Columns, size.Rows
	}
	if is := spec.DirIs; is != nil {
		plan.DirIs, plan.DirDevice, plan.DirInode = true, is.Device, is.Inode
	}
	if program := spec.Program; program != nil {
		plan.Run = append(plan.Run, program.path)
		if program.Interpreter != "" {
			plan.Run = append(plan.Run, program.Interpreter)
		}
	}
	return plan
}

func orDefault[T int | int64](value, otherwise T) T {
	if value == 0 {
		return otherwise
	}
	return value
}

// inside is what a user or group is called in a jail. To be called root would be to be
// treated as root by programs.
func inside(id int) int {
	if id == 0 {
		return insideID
	}
	return id
}

// inMemory gives a file that holds the plan.
func inMemory(plan jail.Plan) (*os.File, error) {
	var b bytes.Buffer
	if err := gob.NewEncoder(&b).Encode(plan); err != nil {
		return nil, fmt.Errorf("write the plan: %w", err)
	}
	fd, err := unix.MemfdCreate("plan", unix.MFD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("write the plan: %w", err)
	}
	file := os.NewFile(uintptr(fd), "plan")
	if _, err = file.Write(b.Bytes()); err == nil {
		_, err = file.Seek(0, 0)
	}
	if err != nil {
		_ = file.Close()
		return nil, fmt.Errorf("write the plan: %w", err)
	}
	return file, nil
}

// watchJail follows a confined tree. The launcher has nothing more to say once it became
// the program, since the kernel closes where it reports to.
func (p *Process) watchJail(spec Spec, running chan error) {
	exited := p.listen(spec, running)
	if p.Pid() == 0 {
		p.pid.Store(int64(p.Top()))
		tell(running, nil) // unless something was told before
	}
	awaitExit(p.Top())
	ended := p.reap() // not before all other processes of the namespace are gone
	p.unbound()
	p.proven = true
	if !exited {
		p.exit = ended
		close(p.exited)
	}
}

// Root is the directory that a confined process has as its root, as the host names it, or
// empty for one that is not confined. What is below was made by the process: links in
// it lead anywhere.
func (p *Process) Root() string {
	if p.method != MethodNamespace {
		return ""
	}
	return fmt.Sprintf("/proc/%d/root", p.Top())
}

// Lacks says in words which bounds of a confined process could not be set.
func (p *Process) Lacks() []string {
	var all []string
	lacks := jail.Lacks(p.lacks.Load()) //nolint:gosec // a few bits
	if p.ungrouped != "" {
		all = append(all, p.ungrouped)
	}
	if p.group != nil && len(p.group.Lacks) > 0 {
		all = append(all, "its control group does not bound "+strings.Join(p.group.Lacks, ", nor "))
	}
	if lacks&jail.NoProcessBound != 0 && os.Geteuid() == 0 {
		all = append(all, "the number of its processes is bounded by nothing but a control group, as the host runs as root")
	}
	if lacks&jail.NoProc != 0 {
		all = append(all, "it has no /proc")
	}
	return all
}

// hint says what would let a user have namespaces, and mounts in them.
func hint(err error) string {
	if !errors.Is(err, syscall.EPERM) && !errors.Is(err, syscall.ENOSPC) && !errors.Is(err, syscall.EACCES) && !errors.Is(err, syscall.EINVAL) {
		return ""
	}
	for _, setting := range []struct{ path, bad, say string }{
		{"/proc/sys/user/max_user_namespaces", "0", "sysctl user.max_user_namespaces is 0, raise it"},
		{"/proc/sys/kernel/unprivileged_userns_clone", "0", "sysctl kernel.unprivileged_userns_clone is 0, set it to 1"},
		{"/proc/sys/kernel/apparmor_restrict_unprivileged_userns", "1", "sysctl kernel.apparmor_restrict_unprivileged_userns is 1: set it to 0, or give this program an AppArmor profile that allows userns"},
	} {
		if content, err := os.ReadFile(setting.path); err == nil && string(bytes.TrimSpace(content)) == setting.bad {
			return "; " + setting.say
		}
	}
	if errors.Is(err, syscall.ENOSPC) {
		return "; sysctl user.max_user_namespaces, or another one below user, is used up: raise it, also in the namespace that this is in"
	}
	if os.Geteuid() == 0 {
		return "; root needs CAP_SYS_ADMIN and CAP_SETFCAP for it, and in a container a seccomp and an AppArmor profile that allow unshare and mount " +
			"(of docker: --cap-add SYS_ADMIN --security-opt seccomp=unconfined --security-opt apparmor=unconfined)"
	}
	return "; something allows users no namespaces or no mounts in them, as in a container the seccomp and AppArmor profiles do: allow unshare and mount " +
		"(of docker: --security-opt seccomp=unconfined --security-opt apparmor=unconfined --security-opt systempaths=unconfined)"
}

// pointer is for the one system call that package unix has not.
func pointer[T any](p *T) uintptr { return uintptr(unsafe.Pointer(p)) }
