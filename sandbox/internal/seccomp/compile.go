package seccomp

import (
	"fmt"
	"math"
	"slices"

	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

// What a filter is given, a struct seccomp_data: offsets of its 32-bit words. Both architectures are little-endian.
const (
	callOffset         = 0
	architectureOffset = 4
	argsOffset         = 16 // 8 bytes each, the lower half first
)

// maxInstructions is the kernel's limit for a filter.
const maxInstructions = 4096

// compile assembles a filter that answers as decide does.
func (t table) compile() ([]unix.SockFilter, error) {
	program := []bpf.Instruction{
		load(architectureOffset),
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: native, SkipTrue: 1},
		answer(kill),
		load(callOffset),
	}
	program = append(program, search(t.ranges())...)
	if len(program) > maxInstructions {
		return nil, fmt.Errorf("the filter of system calls has %d instructions, the kernel takes %d", len(program), maxInstructions)
	}
	raw, err := bpf.Assemble(program)
	if err != nil {
		return nil, fmt.Errorf("assemble the filter of system calls: %w", err)
	}
	filter := make([]unix.SockFilter, len(raw))
	for i, r := range raw {
		filter[i] = unix.SockFilter{Code: r.Op, Jt: r.Jt, Jf: r.Jf, K: r.K}
	}
	return filter, nil
}

// A callRange is the calls from first up to the next range, which have one rule.
type callRange struct {
	first uint32
	rule  rule
}

// ranges covers all numbers, in order.
func (t table) ranges() []callRange {
	ranges := []callRange{{0, t.rule(0)}}
	for call := uint32(1); call <= newest+1; call++ {
		next, last := t.rule(call), ranges[len(ranges)-1].rule
		if !next.always() || !last.always() || next.otherwise != last.otherwise {
			ranges = append(ranges, callRange{call, next})
		}
	}
	return append(ranges, callRange{foreign, rule{otherwise: kill}})
}

// search finds the range of the number that was loaded and answers by its rule. It does not fall through. Binary search
// keeps it to eight comparisons or so; and a kernel that finds a number always allowed, whatever the arguments,
// does not run the filter for it at all.
func search(ranges []callRange) []bpf.Instruction {
	if len(ranges) == 1 {
		return ranges[0].rule.instructions()
	}
	half := len(ranges) / 2
	below, above := search(ranges[:half]), search(ranges[half:])
	program := skipFrom(ranges[half].first, len(below))
	return append(append(program, below...), above...)
}

// skipFrom skips count instructions when what was loaded is value or more. A conditional jump reaches 255 instructions far.
func skipFrom(value uint32, count int) []bpf.Instruction {
	if count <= math.MaxUint8 {
		return []bpf.Instruction{bpf.JumpIf{Cond: bpf.JumpGreaterOrEqual, Val: value, SkipTrue: uint8(count)}}
	}
	return []bpf.Instruction{
		bpf.JumpIf{Cond: bpf.JumpGreaterOrEqual, Val: value, SkipFalse: 1},
		bpf.Jump{Skip: uint32(count)},
	}
}

func (r rule) instructions() []bpf.Instruction {
	var program []bpf.Instruction
	for _, b := range r.branches {
		program = append(program, b.instructions()...)
	}
	return append(program, answer(r.otherwise))
}

// instructions answers when all tests hold and goes on behind itself when one does not. It is written from its end, since
// every test skips what follows it.
func (b branch) instructions() []bpf.Instruction {
	program := []bpf.Instruction{answer(b.verdict)}
	for _, t := range slices.Backward(b.tests) {
		program = append(t.instructions(len(program)), program...)
	}
	return program
}

// instructions skips rest instructions when the test does not hold. A branch has a handful of tests, so that a skip is short.
func (t test) instructions(rest int) []bpf.Instruction {
	program := []bpf.Instruction{load(argsOffset + 8*uint32(t.arg))}
	if t.mask != ^uint32(0) {
		program = append(program, bpf.ALUOpConstant{Op: bpf.ALUOpAnd, Val: t.mask})
	}
	cond := bpf.JumpEqual
	if t.least {
		cond = bpf.JumpGreaterOrEqual
	}
	return append(program, bpf.JumpIf{Cond: cond, Val: t.value, SkipFalse: uint8(rest)})
}

func load(offset uint32) bpf.Instruction { return bpf.LoadAbsolute{Off: offset, Size: 4} }

func answer(v verdict) bpf.Instruction { return bpf.RetConstant{Val: uint32(v)} }
