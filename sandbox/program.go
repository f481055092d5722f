package sandbox

import (
	"bytes"
	"crypto/sha256"
	"debug/elf"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// A Program is an executable that was opened, and is run as it is, wherever it is. Of one
// that is pinned it is a verified copy, sealed in memory: nothing changes it, and what is
// run is what was verified, whatever happens to the file.
type Program struct {
	// SHA256 is the digest of the copy, in lower-case hex, or empty.
	SHA256 string
	// Interpreter is the loader that it names, or empty if it is linked statically.
	Interpreter string

	file *os.File
	path string // of the file itself, where it is no copy
}

// Programs keeps one copy of each pinned executable, as long as it is in use. Its methods
// may be called concurrently. The zero value is ready.
type Programs struct {
	mu   sync.Mutex
	held map[identity]*held // under mu
}

// identity is what the system says of a file that was not written since.
type identity struct {
	dev, ino     uint64
	size         int64
	mtime, ctime unix.Timespec
}

type held struct {
	program *Program
	users   int
}

// Open gives the program in a file. The caller calls release when nothing runs it any
// more. A file that is no ELF executable, such as a script, is [ErrNoELF].
func Open(path string) (program *Program, release func(), err error) {
	source, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0) // a pipe must not hold this up
	if err != nil {
		return nil, nil, err
	}
	if _, err = identify(source); err == nil {
		program = &Program{file: source, path: path}
		err = program.look(source)
	}
	if err != nil {
		_ = source.Close()
		return nil, nil, fmt.Errorf("%s: %w", path, err)
	}
	return program, func() { _ = source.Close() }, nil
}

// Copy is [Open] with a copy, of which one is made if there is none.
func (p *Programs) Copy(path string) (program *Program, release func(), err error) {
	source, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0) // a pipe must not hold this up
	if err != nil {
		return nil, nil, err
	}
	defer source.Close()
	id, err := identify(source)
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", path, err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	h := p.held[id]
	if h == nil {
		program, err := seal(source)
		if err != nil {
			return nil, nil, fmt.Errorf("%s: %w", path, err)
		}
		if again, err := identify(source); err != nil || again != id {
			_ = program.file.Close()
			return nil, nil, fmt.Errorf("%s: it is being written to, try again", path)
		}
		if p.held == nil {
			p.held = map[identity]*held{}
		}
		h = &held{program: program}
		p.held[id] = h
	}
	h.users++
	return h.program, sync.OnceFunc(func() { p.release(id) }), nil
}

func (p *Programs) release(id identity) {
	p.mu.Lock()
	defer p.mu.Unlock()
	h := p.held[id]
	if h.users--; h.users == 0 {
		delete(p.held, id)
		_ = h.program.file.Close()
	}
}

func identify(file *os.File) (identity, error) {
	var info unix.Stat_t
	if err := unix.Fstat(int(file.Fd()), &info); err != nil {
		return identity{}, err
	}
	if info.Mode&unix.S_IFMT != unix.S_IFREG {
		return identity{}, errors.New("it is not a regular file")
	}
	return identity{info.Dev, info.Ino, info.Size, info.Mtim, info.Ctim}, nil
}

// ErrNoELF is that a file is run by another program, or not at all.
var ErrNoELF = errors.New("it is neither a program for this machine (ELF) nor a script with a #! line")

// ErrNoMemory is that this machine runs nothing from memory (sysctl vm.memfd_noexec).
var ErrNoMemory = errors.New("this machine runs no programs from memory")

// seal copies an executable into memory while it is hashed, and lets nobody write to the
// copy any more.
func seal(source *os.File) (*Program, error) {
	program := &Program{}
	if err := program.look(source); err != nil {
		return nil, err
	}
	if info, err := source.Stat(); err != nil || info.Size() > maxProgram {
		return nil, errors.Join(err, fmt.Errorf("it is larger than %d MiB, and a pinned program is copied into memory", maxProgram>>20))
	}
	fd, err := unix.MemfdCreate("program", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING|unix.MFD_EXEC)
	if errors.Is(err, unix.EINVAL) { // before Linux 6.3 all of them can be run
		fd, err = unix.MemfdCreate("program", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	}
	if errors.Is(err, unix.EACCES) {
		return nil, ErrNoMemory
	}
	if err != nil {
		return nil, fmt.Errorf("copy it into memory: %w", err)
	}
	file := os.NewFile(uintptr(fd), "program")
	defer file.Close()
	hash := sha256.New()
	if _, err := io.Copy(io.MultiWriter(file, hash), io.LimitReader(source, maxProgram)); err != nil {
		return nil, fmt.Errorf("copy it into memory: %w", err)
	}
	program.SHA256 = hex.EncodeToString(hash.Sum(nil))
	const seals = unix.F_SEAL_SEAL | unix.F_SEAL_SHRINK | unix.F_SEAL_GROW | unix.F_SEAL_WRITE
	_, err = unix.FcntlInt(file.Fd(), unix.F_ADD_SEALS, seals|unix.F_SEAL_EXEC)
	if errors.Is(err, unix.EINVAL) { // before Linux 6.3
		_, err = unix.FcntlInt(file.Fd(), unix.F_ADD_SEALS, seals)
	}
	if err != nil {
		return nil, fmt.Errorf("seal its copy: %w", err)
	}
	// What somebody has open for writing is not run, sealed or not.
	if program.file, err = os.Open(fmt.Sprintf("/proc/self/fd/%d", fd)); err != nil {
		return nil, fmt.Errorf("copy it into memory: %w", err)
	}
	return program, nil
}

// maxProgram is how many bytes a program may have that is copied into memory.
const maxProgram = 512 << 20

// look finds out by what the program is loaded.
func (p *Program) look(file io.ReaderAt) error {
	magic := make([]byte, len(elf.ELFMAG))
	if _, err := file.ReadAt(magic, 0); err != nil || !bytes.Equal(magic, []byte(elf.ELFMAG)) {
		return ErrNoELF
	}
	headers, err := elf.NewFile(file)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrNoELF, err)
	}
	for _, header := range headers.Progs {
		if header.Type != elf.PT_INTERP {
			continue
		}
		loader, err := io.ReadAll(io.LimitReader(header.Open(), unix.PathMax))
		if err != nil {
			return fmt.Errorf("%w: %w", ErrNoELF, err)
		}
		p.Interpreter = string(bytes.TrimRight(loader, "\x00"))
	}
	return nil
}
