package hostile

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// files are attacks on what the plugin was not given.
func files() []Attack {
	return []Attack{
		{Name: "read a file of the user's", try: func(t Target) error { return read(t.Secret) }},
		{Name: "write to a file of the user's", try: func(t Target) error { return write(filepath.Join(t.Outside, "scratch")) }},
		{Name: "make a file beside it", try: func(t Target) error { return create(filepath.Join(t.Outside, "made")) }},
		{Name: "ask for its size and times", try: func(t Target) error { _, err := os.Stat(t.Secret); return err }},
		{Name: "change its mode", try: func(t Target) error { return os.Chmod(t.Secret, 0o600) }},
		{Name: "list its directory", try: func(t Target) error { _, err := os.ReadDir(t.Outside); return err }},
		{Name: "give it a second name where the plugin may write", try: func(t Target) error {
			return alias(t.Secret, filepath.Join(t.Writable, "alias"))
		}},
		{Name: "read it through a link where the plugin may write", try: func(t Target) error {
			link := filepath.Join(t.Writable, "link")
			if err := os.Symlink(t.Secret, link); err != nil {
				return err
			}
			return errors.Join(read(link), os.Remove(link))
		}},
		{Name: "read it through ..", try: func(t Target) error {
			return read(t.Writable + "/../" + filepath.Base(t.Outside) + "/" + filepath.Base(t.Secret))
		}},
		{Name: "read it through /proc/self/root", try: func(t Target) error { return read("/proc/self/root" + t.Secret) }},
		{Name: "read it through /proc/1/root", Root: true, May: "a root that may", try: func(t Target) error { return read("/proc/1/root" + t.Secret) }},
		{Name: "open it by a handle, without a path", Root: true, May: "a file system with handles", try: byHandle},
		{Name: "read the program of the host", try: func(t Target) error { return read(t.HostProgram) }},
		{Name: "read the state of the host", try: func(t Target) error { return read(t.State) }},
		{Name: "list the run directory of the host", try: func(t Target) error {
			found, err := os.ReadDir(t.RunDir)
			if err == nil && len(found) < 2 {
				return unix.ENOENT // of its own it is the only one
			}
			return err
		}},
		{Name: "list the directory of another plugin", try: func(t Target) error { _, err := os.ReadDir(t.OtherDir); return err }},
	}
}

// granted are attacks on what the plugin was given, beyond what it was given for.
func granted() []Attack {
	return []Attack{
		{Name: "write to a file that it may read", try: func(t Target) error { return write(t.Readable) }},
		{Name: "make a file where it may read", try: func(t Target) error { return create(filepath.Join(filepath.Dir(t.Readable), "made")) }},
		{Name: "change the mode of a file that it may read", try: func(t Target) error { return os.Chmod(t.Readable, 0o644) }},
		{Name: "change the times of a file that it may read", try: func(t Target) error { return os.Chtimes(t.Readable, time.Now(), time.Now()) }},
		{Name: "hold up who writes to a file that it may read, by a lease", May: "leases", try: func(t Target) error {
			file, err := os.Open(t.Readable)
			if err != nil {
				return err
			}
			defer file.Close() // ends the lease
			_, err = unix.FcntlInt(file.Fd(), unix.F_SETLEASE, unix.F_RDLCK)
			return err
		}},
		{Name: "change the mode of its own program", try: func(t Target) error { return os.Chmod(t.Plugin, 0o700) }},
		{Name: "give a file that it may read a second name where it may write", try: func(t Target) error {
			return alias(t.Readable, filepath.Join(t.Writable, "alias"))
		}},
		{Name: "leave a set-user-id program where it may write", try: func(t Target) error {
			return setUID(filepath.Join(t.Writable, "left"), func(path string) error {
				return errors.Join(create(path), os.WriteFile(path, nil, 0o600), unix.Chmod(path, unix.S_ISUID|0o755))
			})
		}},
		{Name: "the same, by its descriptor", try: func(t Target) error {
			return setUID(filepath.Join(t.Writable, "left"), func(path string) error {
				fd, err := unix.Open(path, unix.O_CREAT|unix.O_RDWR|unix.O_CLOEXEC, 0o600)
				if err != nil {
					return err
				}
				return errors.Join(unix.Fchmod(fd, unix.S_ISGID|0o755), unix.Close(fd))
			})
		}},
		{Name: "the same, as it is made", try: func(t Target) error {
			return setUID(filepath.Join(t.Writable, "left"), func(path string) error {
				fd, err := unix.Openat(unix.AT_FDCWD, path, unix.O_CREAT|unix.O_RDWR|unix.O_CLOEXEC, unix.S_ISUID|0o755)
				if err != nil {
					return err
				}
				return unix.Close(fd)
			})
		}},
		{Name: "the same, by openat2", try: func(t Target) error {
			return setUID(filepath.Join(t.Writable, "left"), func(path string) error {
				fd, err := unix.Openat2(unix.AT_FDCWD, path, &unix.OpenHow{Flags: unix.O_CREAT | unix.O_RDWR | unix.O_CLOEXEC, Mode: unix.S_ISUID | 0o755})
				if err != nil {
					return err
				}
				return unix.Close(fd)
			})
		}},
		{Name: "make a device where it may write", Root: true, try: func(t Target) error {
			path := filepath.Join(t.Writable, "device")
			return made(path, unix.Mknod(path, unix.S_IFCHR|0o600, int(unix.Mkdev(1, 3)))) //nolint:gosec // a small number
		}},
	}
}

// machine are attacks on devices and settings of the machine.
func machine() []Attack {
	all := []Attack{
		{Name: "read the disk itself", Root: true, May: "a block device", try: func(t Target) error { return read(t.Disk) }},
		{Name: "change the mode of /dev/null", Root: true, try: func(Target) error { return os.Chmod("/dev/null", 0o666) }},
		{Name: "read /etc/shadow", Root: true, May: "it", try: func(Target) error { return read("/etc/shadow") }},
		{Name: "write to the log of the kernel", Root: true, May: "/dev/kmsg", try: func(Target) error { return open("/dev/kmsg") }},
	}
	for _, path := range []string{"/proc/sys/kernel/core_pattern", "/proc/sysrq-trigger", "/sys/bus/cpu/drivers_autoprobe"} {
		all = append(all, Attack{Name: "write to " + path, Root: true, May: "it", try: func(Target) error { return open(path) }})
	}
	return all
}

func read(path string) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	_, err = file.Read(make([]byte, 1))
	return err
}

// open opens for writing, and writes nothing.
func open(path string) error {
	file, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	return file.Close()
}

func write(path string) error {
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		return err
	}
	_, err = file.WriteString("x")
	return errors.Join(err, file.Close())
}

func create(path string) error { return made(path, os.WriteFile(path, []byte("x"), 0o600)) }

// made takes away what was made, if it was.
func made(path string, err error) error {
	if err != nil {
		return err
	}
	return os.Remove(path)
}

func alias(path, other string) error {
	if err := os.Link(path, other); err != nil {
		return err
	}
	return errors.Join(open(other), os.Remove(other))
}

// setUID says whether a file got a bit by which it changes the user, or the group, of whoever runs it.
func setUID(path string, leave func(string) error) error {
	defer os.Remove(path) //nolint:errcheck // it may not have been made
	if err := leave(path); err != nil {
		return err
	}
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	if info.Mode()&(os.ModeSetuid|os.ModeSetgid) == 0 {
		return fmt.Errorf("it has mode %v", info.Mode())
	}
	return nil
}

// byHandle opens the secret on the file system of a directory that it may write in.
func byHandle(t Target) error {
	mount, err := unix.Open(t.Writable, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(mount) //nolint:errcheck // it was only read
	handle := make([]byte, 8+len(t.Handle))
	*(*uint32)(unsafe.Pointer(&handle[0])) = uint32(len(t.Handle)) //nolint:gosec // it is short
	*(*int32)(unsafe.Pointer(&handle[4])) = t.Kind
	copy(handle[8:], t.Handle)
	fd, err := call(unix.SYS_OPEN_BY_HANDLE_AT, uintptr(mount), uintptr(unsafe.Pointer(&handle[0])), unix.O_RDONLY|unix.O_CLOEXEC)
	if err != nil {
		return err
	}
	return unix.Close(int(fd))
}
