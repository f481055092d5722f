package seccomp

import "golang.org/x/sys/unix"

func oldAttempts(all []filterName) []attempt {
	type args = [6]uintptr
	return []attempt{
		{"iopl", unix.SYS_IOPL, args{100}, all, 0},
		{"ioperm", unix.SYS_IOPERM, args{1 << 20, 1, 1}, all, 0},
		{"modify_ldt", unix.SYS_MODIFY_LDT, args{100}, all, 0},
		{"open", unix.SYS_OPEN, args{bad, 0, 0}, nil, 0},
	}
}
