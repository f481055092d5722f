package sandbox

import (
	"errors"
	"fmt"
	"math"
	"os"

	"github.com/creack/pty"
	"golang.org/x/sys/unix"
)

// A TerminalSize is the size of a terminal in characters, each from 1 to 65,535.
type TerminalSize struct{ Columns, Rows int }

func (s TerminalSize) check() error {
	for _, side := range []int{s.Columns, s.Rows} {
		if side < 1 || side > math.MaxUint16 {
			return fmt.Errorf("there is no terminal of %d columns and %d rows", s.Columns, s.Rows)
		}
	}
	return nil
}

// winsize is the size as the kernel has it.
func (s TerminalSize) winsize() *unix.Winsize {
	return &unix.Winsize{Col: uint16(s.Columns), Row: uint16(s.Rows)} //nolint:gosec // check bounds them
}

// Resize gives the terminal of the program another size, and the program a SIGWINCH. It fails
// where there is none, and after Kill.
func (p *Process) Resize(size TerminalSize) error {
	if p.Terminal == nil {
		return errors.New("the process has no terminal")
	}
	if err := size.check(); err != nil {
		return err
	}
	conn, err := p.Terminal.SyscallConn()
	if err != nil {
		return err
	}
	set := conn.Control(func(fd uintptr) { err = unix.IoctlSetWinsize(int(fd), unix.TIOCSWINSZ, size.winsize()) })
	return errors.Join(set, err)
}

// openTerminal makes a terminal: the side of who holds it, and the side of the program.
func openTerminal(size TerminalSize) (holder, program *os.File, err error) {
	opened, program, err := pty.Open()
	if err != nil {
		return nil, nil, fmt.Errorf("make a terminal: %w", err)
	}
	defer opened.Close() // it would block whoever reads it
	fd, err := unix.FcntlInt(opened.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	if err == nil {
		if holder, err = terminalFile(fd); err == nil {
			err = errors.Join(unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, size.winsize()), unix.SetNonblock(int(program.Fd()), false))
		}
	}
	if err != nil {
		closeAll(holder, program)
		return nil, nil, fmt.Errorf("make a terminal: %w", err)
	}
	return holder, program, nil
}

// terminalFile is the holder's side as a file whose reading ends when it is closed.
func terminalFile(fd int) (*os.File, error) {
	if err := unix.SetNonblock(fd, true); err != nil {
		_ = unix.Close(fd)
		return nil, err
	}
	return os.NewFile(uintptr(fd), "terminal"), nil
}

// socketPair is by what a terminal is handed over.
func socketPair() (ours, theirs *os.File, err error) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, err
	}
	return os.NewFile(uintptr(pair[0]), "terminals"), os.NewFile(uintptr(pair[1]), "terminals"), nil
}

// giveTerminal hands a terminal over.
func giveTerminal(over int, terminal *os.File) error {
	return unix.Sendmsg(over, []byte{0}, unix.UnixRights(int(terminal.Fd())), nil, 0)
}

// takeTerminal takes the terminal that was handed over before.
func takeTerminal(from *os.File) (*os.File, error) {
	word, rights := make([]byte, 1), make([]byte, unix.CmsgSpace(4))
	_, n, _, _, err := unix.Recvmsg(int(from.Fd()), word, rights, unix.MSG_DONTWAIT|unix.MSG_CMSG_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("take the terminal: %w", err)
	}
	messages, err := unix.ParseSocketControlMessage(rights[:n])
	if err != nil || len(messages) != 1 {
		return nil, errors.New("take the terminal: the launcher gave none")
	}
	fds, err := unix.ParseUnixRights(&messages[0])
	if err != nil || len(fds) != 1 {
		return nil, errors.New("take the terminal: the launcher gave none")
	}
	return terminalFile(fds[0])
}
