//go:build amd64 || arm64

package seccomp

import "golang.org/x/sys/unix"

// A moded call gives a file its mode.
type moded struct {
	call uint32
	mode int // its argument
	// flags is the argument that says whether a file is made, without which the mode has no meaning; 0 if there is none.
	flags int
}

// modes are the calls that give a file its mode, but for openat2: that has it in memory.
func modes() []moded {
	return append(oldModes(),
		moded{call: unix.SYS_FCHMOD, mode: 1}, moded{call: unix.SYS_FCHMODAT, mode: 2}, moded{call: unix.SYS_FCHMODAT2, mode: 2},
		moded{call: unix.SYS_MKNODAT, mode: 2}, moded{call: unix.SYS_OPENAT, mode: 3, flags: 2})
}

// tmpFile is the flag of open by which a file without a name is made, as asm-generic/fcntl.h has it.
const tmpFile = 0x400000

// refuseModes refuses to give a file any of the bits by which a program has the rights of its owner or group whoever runs it:
// left where others run it, it would give them those of the user, from outside of every sandbox. openat2 is answered as by a
// kernel that does not have it.
func (t table) refuseModes(bits ...uint32) {
	for _, m := range modes() {
		for _, bit := range bits {
			set := masked(m.mode, bit, bit)
			if m.flags == 0 {
				t.refuseIf(m.call, set)
				continue
			}
			for _, flag := range []uint32{unix.O_CREAT, tmpFile} {
				t.refuseIf(m.call, masked(m.flags, flag, flag), set)
			}
		}
	}
	t.set(refuse(unix.ENOSYS), unix.SYS_OPENAT2)
}

// delegate is the request for a lease of a directory, as linux/fcntl.h has it.
const delegate = 0x410

// refuseLeases refuses to have the kernel hold up whoever writes to a file, or changes a directory, that it may only read.
func (t table) refuseLeases() {
	for _, request := range []uint32{unix.F_SETLEASE, delegate} {
		t.refuseIf(unix.SYS_FCNTL, is(1, request))
	}
}

// refuseIf refuses a call that is otherwise answered as before.
func (t table) refuseIf(call uint32, tests ...test) {
	r, ok := t.rules[call]
	if !ok {
		r.otherwise = t.otherwise
	}
	r.branches = append(r.branches, branch{tests, refuse(unix.EPERM)})
	t.rules[call] = r
}
