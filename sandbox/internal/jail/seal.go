package jail

import (
	"errors"
	"fmt"
	"os"

	"github.com/landlock-lsm/go-landlock/landlock"
	ll "github.com/landlock-lsm/go-landlock/landlock/syscall"
	"golang.org/x/sys/unix"
)

// landlockFloor is the oldest version of Landlock that is taken, of Linux 6.2: an older
// one lets a file be cut that may not be written.
const landlockFloor = 3

// Rights of files, from linux/landlock.h.
const (
	rightsFile  = ll.AccessFSExecute | ll.AccessFSReadFile | ll.AccessFSWriteFile | ll.AccessFSTruncate // of what is no directory
	rightsRead  = ll.AccessFSReadFile | ll.AccessFSReadDir
	rightsWrite = rightsRead | ll.AccessFSWriteFile | ll.AccessFSTruncate | ll.AccessFSRemoveDir | ll.AccessFSRemoveFile |
		ll.AccessFSMakeDir | ll.AccessFSMakeReg | ll.AccessFSMakeSock | ll.AccessFSMakeFifo | ll.AccessFSMakeSym | ll.AccessFSRefer
	rightsDevice = ll.AccessFSReadFile | ll.AccessFSWriteFile
	rightsRun    = ll.AccessFSReadFile | ll.AccessFSExecute
)

// Restrict has Landlock hold the calling thread, and what it runs, to what the plan says:
// a second wall behind the root, of another make. It is called inside the root that [Build]
// made, after [Drop].
func Restrict(plan Plan) error {
	abi, err := ll.LandlockGetABIVersion()
	switch {
	case errors.Is(err, unix.EOPNOTSUPP):
		return fmt.Errorf("this kernel has Landlock and does not use it: add landlock to its parameter lsm=, after what /sys/kernel/security/lsm has now: %w", err)
	case err != nil:
		return fmt.Errorf("this kernel has no Landlock (Linux 6.2 has), or a container's seccomp profile hides it: %w", err)
	case abi < landlockFloor:
		return fmt.Errorf("this kernel has version %d of Landlock, and %d is needed, which Linux 6.2 has: %w", abi, landlockFloor, unix.ENOSYS)
	}
	config := configOf(abi)
	if plan.Network {
		config.HandledAccessNet = 0
	}
	fd, flags, err := config.NewRulesetFD(rules(plan, abi)...)
	if err != nil {
		return fmt.Errorf("make the rules of Landlock: %w", err)
	}
	defer unix.Close(fd) //nolint:errcheck // it is enforced by then
	if err := ll.LandlockRestrictSelf(fd, flags); err != nil {
		return fmt.Errorf("enforce the rules of Landlock: %w", err)
	}
	return nil
}

// configOf is the most that a version can refuse. The best-effort mode of the library is
// not used, for it can come to nothing.
func configOf(abi int) landlock.Config {
	all := []landlock.Config{landlock.V3, landlock.V4, landlock.V5, landlock.V6}
	return all[min(abi-landlockFloor, len(all)-1)]
}

// AsksDevices says whether Landlock refuses to ask a device something here, as it does
// from its version 5 on.
func AsksDevices() bool {
	abi, err := ll.LandlockGetABIVersion()
	return err == nil && abi >= asksSince
}

// asksSince is the version of Landlock that can refuse to ask a device something.
const asksSince = 5

func rules(plan Plan, abi int) []landlock.Rule {
	var all []landlock.Rule
	allow := func(rights landlock.AccessFSSet, paths ...string) {
		for _, path := range paths {
			info, err := os.Stat(path)
			if err != nil {
				continue // it is not in the jail
			}
			if !info.IsDir() {
				rights &= rightsFile
			}
			all = append(all, landlock.PathAccess(rights, path))
		}
	}
	run := landlock.AccessFSSet(0)
	if plan.Exec || plan.Command {
		run = ll.AccessFSExecute
	}
	allow(ll.AccessFSReadDir, "/") // of which there is nothing but what follows
	allow(rightsRead|run, plan.Read...)
	allow(rightsRead|run, plan.Protect...)
	allow(rightsWrite|run, plan.Write...)
	allow(rightsWrite|run, plan.Private...)
	allow(rightsRun, plan.Run...)
	allow(rightsDevice, devices(plan)...)
	if plan.Command {
		terminal := landlock.AccessFSSet(rightsDevice)
		if abi >= asksSince {
			terminal |= ll.AccessFSIoctlDev
		}
		all = append(all, landlock.PathAccess(terminal, terminals))
		if _, err := os.Stat(ownTerminal); err == nil {
			all = append(all, landlock.PathAccess(terminal, ownTerminal))
		}
	}
	if plan.System {
		allow(rightsRead|run, systemTrees(plan.Network)...)
		allow(rightsRead, "/proc", "/etc", "/dev")
	}
	return all
}
