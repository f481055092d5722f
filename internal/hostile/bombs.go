package hostile

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"sync"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

const chunk = 4 << 20

// bomb takes up to a size of something, says how much it got, and gives it back.
func bomb(name string, t Target) (Outcome, error) {
	bombs := map[string]func(Target) (int, error){
		"memory":         func(t Target) (int, error) { return memoryBomb(t.Size, unix.MAP_PRIVATE|unix.MAP_ANON, -1) },
		"memory, shared": func(t Target) (int, error) { return memoryBomb(t.Size, unix.MAP_SHARED|unix.MAP_ANON, -1) },
		"memory, as a stack": func(t Target) (int, error) {
			return memoryBomb(t.Size, unix.MAP_PRIVATE|unix.MAP_ANON|unix.MAP_GROWSDOWN, -1)
		},
		"memory, of /dev/zero": func(t Target) (int, error) {
			file, err := os.OpenFile("/dev/zero", os.O_RDWR, 0)
			if err != nil {
				return 0, err
			}
			defer file.Close()
			return memoryBomb(t.Size, unix.MAP_SHARED, int(file.Fd()))
		},
		"memory, of the first stack": func(t Target) (int, error) { return stackBomb(t.Size) },
		"threads":                    threadBomb,
		"processes":                  forkBomb,
		"files in /tmp":              func(t Target) (int, error) { return diskBomb("/tmp", t.Size) },
		"files in its own":           func(t Target) (int, error) { return diskBomb(t.OtherDir, t.Size) },
		"descriptors":                descriptorBomb,
		"processors":                 processorBomb,
	}
	run := bombs[name]
	if run == nil {
		return Outcome{}, fmt.Errorf("there is no bomb %q", name)
	}
	got, err := run(t)
	o := outcomeOf(err)
	o.Got = got
	return o, nil
}

// memoryBomb takes bytes, and writes to each page.
func memoryBomb(size, flags, fd int) (got int, err error) {
	var all [][]byte
	defer func() {
		for _, b := range all {
			_ = unix.Munmap(b)
		}
	}()
	for got < size {
		b, err := unix.Mmap(fd, 0, chunk, unix.PROT_READ|unix.PROT_WRITE, flags)
		if err != nil {
			return got, err
		}
		all = append(all, b)
		for at := 0; at < len(b); at += 4096 {
			b[at] = 1
		}
		got += chunk
	}
	return got, nil
}

// stackBomb lets the stack of the first thread grow, page by page, as the kernel does at a touch.
func stackBomb(size int) (got int, err error) {
	// Refused where the hard limit is lower: it is tried all the same.
	raising := unix.Setrlimit(unix.RLIMIT_STACK, &unix.Rlimit{Cur: uint64(size) + chunk, Max: uint64(size) + chunk}) //nolint:gosec // it is positive
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if recover() != nil {
			err = errors.Join(unix.EFAULT, raising)
		}
	}()
	top := unsafe.Pointer(unsafe.StringData(os.Args[0])) // where the kernel put it: above the stack
	for ; got < size; got += os.Getpagesize() {
		*(*byte)(unsafe.Add(top, -got-os.Getpagesize()-stackUsed)) = 1
	}
	return got, nil
}

// stackUsed is more than is between the arguments of a process and the end of its stack, and less than what that may be.
const stackUsed = 256 << 10

// threadBomb takes threads. The Go runtime ends the program when it is refused one.
func threadBomb(t Target) (int, error) {
	var running, over sync.WaitGroup
	end := make(chan struct{})
	for range t.Size {
		running.Add(1)
		over.Go(func() {
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			running.Done()
			<-end
		})
	}
	running.Wait()
	close(end)
	over.Wait()
	return t.Size, nil
}

// forkBomb takes processes that do nothing.
func forkBomb(t Target) (int, error) {
	var all []int
	defer func() {
		for _, pid := range all {
			_ = unix.Kill(pid, unix.SIGKILL)
			_ = waitFor(pid)
		}
	}()
	for len(all) < t.Size {
		pid, err := forkTo(uintptr(unix.SIGCHLD), steps([7]uintptr{unix.SYS_PPOLL}))
		if err != 0 {
			return len(all), err
		}
		all = append(all, int(pid))
	}
	return len(all), nil
}

func diskBomb(dir string, size int) (got int, err error) {
	path := filepath.Join(dir, "bomb")
	file, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, file.Close(), os.Remove(path)) }()
	for data := make([]byte, chunk); got < size; {
		n, err := file.Write(data)
		got += n
		if err != nil {
			return got, err
		}
	}
	return got, nil
}

func descriptorBomb(t Target) (int, error) {
	var all []int
	defer func() {
		for _, fd := range all {
			_ = unix.Close(fd)
		}
	}()
	for len(all) < t.Size {
		fd, err := unix.FcntlInt(0, unix.F_DUPFD_CLOEXEC, 3)
		if err != nil {
			return len(all), err
		}
		all = append(all, fd)
	}
	return len(all), nil
}

// processorBomb keeps every processor busy for a while, by more threads than there are.
func processorBomb(t Target) (int, error) {
	until := time.Now().Add(2 * time.Second)
	var all sync.WaitGroup
	for range t.Size {
		all.Go(func() {
			runtime.LockOSThread()
			for time.Now().Before(until) {
			}
		})
	}
	all.Wait()
	return t.Size, nil
}
