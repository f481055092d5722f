package jail

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// Bounds that every jail has.
const (
	maxFile    = 16 << 30 // bytes of one file
	maxLocked  = 64 << 10 // bytes of locked memory
	maxSignals = 1024     // that wait
	maxStack   = 8 << 20  // bytes of the stack of the first thread, which is not counted as memory that is written in
)

// Limit sets the bounds of what one process uses. The memory is what it can write in, as
// programs reserve addresses that they never use.
func Limit(plan Plan) error {
	bounds := map[int]uint64{
		unix.RLIMIT_CORE:       0,
		unix.RLIMIT_FSIZE:      maxFile,
		unix.RLIMIT_MEMLOCK:    maxLocked,
		unix.RLIMIT_MSGQUEUE:   0,
		unix.RLIMIT_NICE:       0,
		unix.RLIMIT_RTPRIO:     0,
		unix.RLIMIT_SIGPENDING: maxSignals,
		unix.RLIMIT_NPROC:      uint64(max(plan.Processes, 1)), //nolint:gosec // it is positive
		unix.RLIMIT_NOFILE:     uint64(max(plan.Files, 1)),     //nolint:gosec // it is positive
		unix.RLIMIT_DATA:       uint64(max(plan.Memory, 1)),    //nolint:gosec // it is positive
	}
	if !plan.Command { // some commands raise it
		bounds[unix.RLIMIT_STACK] = maxStack
	}
	for resource, most := range bounds {
		if err := limit(resource, most); err != nil {
			return fmt.Errorf("limit %d to %d: %w", resource, most, err)
		}
	}
	return nil
}

// limit lowers a limit, and leaves one that is lower.
func limit(resource int, most uint64) error {
	var old unix.Rlimit
	if err := unix.Getrlimit(resource, &old); err != nil {
		return err
	}
	most = min(most, old.Max)
	return unix.Setrlimit(resource, &unix.Rlimit{Cur: most, Max: most})
}

// securebits are those by which root gets no capabilities, each with its lock, as
// linux/securebits.h has them: NOROOT, NO_SETUID_FIXUP, NO_CAP_AMBIENT_RAISE.
const securebits = 1<<0 | 1<<1 | 1<<2 | 1<<3 | 1<<6 | 1<<7

// lastCapability is one after any that there may be.
const lastCapability = 63

// Drop gives up every capability of the calling thread, for itself and for what it runs,
// and all means to get one. It leaves its groups where the kernel lets it: in a user
// namespace of an ordinary user they stay, and give nothing that can be named in the jail.
func Drop() error {
	if _, _, err := unix.RawSyscall(unix.SYS_SETGROUPS, 0, 0, 0); err != 0 && err != unix.EPERM {
		return fmt.Errorf("leave the groups: %w", err)
	}
	if err := unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0); err != nil {
		return fmt.Errorf("clear the ambient capabilities: %w", err)
	}
	for c := uintptr(0); c <= lastCapability; c++ {
		err := unix.Prctl(unix.PR_CAPBSET_DROP, c, 0, 0, 0)
		if errors.Is(err, unix.EINVAL) {
			break // there are no more
		}
		if err != nil {
			return fmt.Errorf("drop capability %d: %w", c, err)
		}
	}
	if err := unix.Prctl(unix.PR_SET_SECUREBITS, securebits, 0, 0, 0); err != nil {
		return fmt.Errorf("lock the securebits: %w", err)
	}
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var none [2]unix.CapUserData
	if err := unix.Capset(&header, &none[0]); err != nil {
		return fmt.Errorf("drop the capabilities: %w", err)
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("give up new privileges: %w", err)
	}
	return nil
}
