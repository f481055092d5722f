package seccomp

import "golang.org/x/sys/unix"

const (
	native = unix.AUDIT_ARCH_AARCH64
	// foreign is the first negative number. This architecture has no second set of numbers.
	foreign = 1 << 31
)

// This architecture came late and has none of the calls that have a successor.

func oldFiles() []uint32 { return nil }

func oldWaits() []uint32 { return nil }

func oldModes() []moded { return nil }

func oldForks() []uint32 { return nil }

func oldDangers() []uint32 { return nil }
