package seccomp

import (
	"slices"

	"golang.org/x/sys/unix"
)

// A verdict is what the kernel does with a call.
type verdict uint32

const (
	allow verdict = unix.SECCOMP_RET_ALLOW
	kill  verdict = unix.SECCOMP_RET_KILL_PROCESS
)

// refuse makes the call fail.
func refuse(number unix.Errno) verdict { return unix.SECCOMP_RET_ERRNO | verdict(number) }

// A test looks at one argument. Every argument that is tested is an int to the kernel, or has no meaning beyond the lower 32
// bits, and the kernel does not look at the upper ones: nor does a test, or a call could slip by with one set.
type test struct {
	arg   int // 0 to 5
	mask  uint32
	value uint32
	least bool // value or more, unsigned, in place of equal
}

// is holds for value.
func is(arg int, value uint32) test { return masked(arg, ^uint32(0), value) }

// masked holds when the bits of mask are those of value.
func masked(arg int, mask, value uint32) test { return test{arg: arg, mask: mask, value: value} }

// none holds when no bit is set of the first argument.
func none(bits uint32) test { return masked(0, bits, 0) }

// atLeast holds for value and more, unsigned.
func atLeast(arg int, value uint32) test {
	return test{arg: arg, mask: ^uint32(0), value: value, least: true}
}

func (t test) holds(args [6]uint64) bool {
	got := uint32(args[t.arg]) & t.mask
	if t.least {
		return got >= t.value
	}
	return got == t.value
}

// A branch is a verdict for when all of its tests hold.
type branch struct {
	tests   []test
	verdict verdict
}

// A rule is what is said to one call: the first branch that holds, or otherwise.
type rule struct {
	branches  []branch
	otherwise verdict
}

// onlyIf allows a call when one of the branches of tests holds, and refuses it if not.
func onlyIf(either ...[]test) rule {
	r := rule{otherwise: refuse(unix.EPERM)}
	for _, tests := range either {
		r.branches = append(r.branches, branch{tests, allow})
	}
	return r
}

// values are branches of tests, one for each value of an argument.
func values(arg int, of ...uint32) [][]test {
	tests := make([][]test, len(of))
	for i, value := range of {
		tests[i] = []test{is(arg, value)}
	}
	return tests
}

// always is a rule that does not look at the arguments.
func (r rule) always() bool { return len(r.branches) == 0 }

func (r rule) decide(args [6]uint64) verdict {
	for _, b := range r.branches {
		if !slices.ContainsFunc(b.tests, func(t test) bool { return !t.holds(args) }) {
			return b.verdict
		}
	}
	return r.otherwise
}

// A table says what is answered to every call of this architecture.
type table struct {
	rules     map[uint32]rule
	otherwise verdict // for a call without a rule that is not newer than the table
}

func (t table) set(v verdict, calls ...uint32) {
	for _, call := range calls {
		t.rules[call] = rule{otherwise: v}
	}
}

func (t table) rule(call uint32) rule {
	if call > newest {
		return rule{otherwise: refuse(unix.ENOSYS)}
	}
	if r, ok := t.rules[call]; ok {
		return r
	}
	return rule{otherwise: t.otherwise}
}

func (t table) decide(call uint32, args [6]uint64) verdict {
	if call >= foreign {
		return kill
	}
	return t.rule(call).decide(args)
}
