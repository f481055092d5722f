//go:build amd64 || arm64

package seccomp

import (
	"runtime"
	"testing"

	"golang.org/x/sys/unix"
)

// onThread runs f on a thread that ends with it, and with it whatever f put on.
func onThread(t testing.TB, f func()) {
	t.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // never unlocked, so the thread ends
		f()
	}()
	<-done
}

// noNewPrivs is for the calling thread.
func noNewPrivs(t testing.TB) {
	t.Helper()
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		t.Error(err)
	}
}

// unshare fails with EPERM where a filter is on.
func unshare() error { return unix.Unshare(unix.CLONE_NEWTIME | 1<<20) }

// Only the thread that asks for it gets the filter. Seen to fail with SECCOMP_FILTER_FLAG_TSYNC.
func TestApplyIsForTheThread(t *testing.T) {
	filter, err := Command(Options{})
	if err != nil {
		t.Fatal(err)
	}
	onThread(t, func() {
		noNewPrivs(t)
		if err := Apply(filter); err != nil {
			t.Error(err)
		}
		if err := unshare(); err != unix.EPERM {
			t.Errorf("unshare = %v, want EPERM", err)
		}
	})
	onThread(t, func() {
		if err := unshare(); err != unix.EINVAL {
			t.Errorf("on another thread: unshare = %v, want EINVAL", err)
		}
	})
}

// Root could put one on without no_new_privs. Seen to fail without the check.
func TestApplyWantsNoNewPrivs(t *testing.T) {
	filter, err := Command(Options{})
	if err != nil {
		t.Fatal(err)
	}
	onThread(t, func() {
		const want = "no_new_privs is not set on this thread, set it before the filter of system calls"
		if err := Apply(filter); err == nil || err.Error() != want {
			t.Errorf("Apply = %v, want %q", err, want)
		}
		if err := unshare(); err != unix.EINVAL {
			t.Errorf("unshare = %v, want EINVAL", err)
		}
	})
}

func TestApplyNothing(t *testing.T) {
	onThread(t, func() {
		noNewPrivs(t)
		if err := Apply(nil); err == nil {
			t.Error("an empty filter was put on")
		}
	})
}

// What a call costs under a filter: one that is always allowed, one whose arguments are looked at, and one that is refused.
func BenchmarkCall(b *testing.B) {
	calls := []struct {
		name string
		args [4]uintptr
	}{
		{"getppid", [4]uintptr{unix.SYS_GETPPID}},
		{"ioctl", [4]uintptr{unix.SYS_IOCTL, bad, unix.TCGETS}},
		{"chroot", [4]uintptr{unix.SYS_CHROOT, bad}},
	}
	for _, n := range []filterName{off, plugin, command} {
		for _, c := range calls {
			b.Run(string(n)+"/"+c.name, func(b *testing.B) {
				onThread(b, func() {
					if err := confine(n); err != nil {
						b.Error(err)
					}
					for b.Loop() {
						_, _, _ = unix.RawSyscall(c.args[0], c.args[1], c.args[2], c.args[3])
					}
				})
			})
		}
	}
}

// What it costs to make a filter.
func BenchmarkPlugin(b *testing.B) {
	for b.Loop() {
		if _, err := Plugin(Options{ExecFD: execFD}); err != nil {
			b.Fatal(err)
		}
	}
}

// What it costs to put one on.
func BenchmarkApply(b *testing.B) {
	filter, err := Plugin(Options{ExecFD: execFD})
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		onThread(b, func() {
			noNewPrivs(b)
			if err := Apply(filter); err != nil {
				b.Error(err)
			}
		})
	}
}
