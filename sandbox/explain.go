package sandbox

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"syscall"
	"time"
)

// A startError is an error of the system in words that say what to do.
type startError struct {
	words string
	err   error
}

func (e *startError) Error() string { return e.words }
func (e *startError) Unwrap() error { return e.err }

// explain says why the program at path cannot be run. The system has one error for several reasons, so the file is looked
// at; err is wrapped.
func explain(path string, err error) error {
	var number syscall.Errno
	if !errors.As(err, &number) {
		return err
	}
	return &startError{reason(path, number), err}
}

func reason(path string, number syscall.Errno) string {
	info, err := os.Stat(path)
	switch {
	case number == syscall.ENOENT && err != nil:
		return "does not exist"
	case number == syscall.ENOENT:
		if interpreter := interpreterOf(path); interpreter != "" {
			return fmt.Sprintf("its interpreter %s does not exist", interpreter)
		}
		return "the loader that it names does not exist, as when it was built for another system"
	case number == syscall.EACCES && err == nil && info.IsDir():
		return "is a directory"
	case number == syscall.EACCES && err == nil && info.Mode()&0o111 == 0:
		return "is not executable, chmod +x makes it so"
	case number == syscall.EACCES:
		return "may not be executed by this user, or from a file system that is mounted noexec"
	case number == syscall.ENOEXEC:
		return "is neither a program for this machine nor a script with a #! line"
	case number == syscall.ETXTBSY:
		return "is open for writing, close it first"
	default:
		return number.Error()
	}
}

// interpreterOf is the interpreter that a script names, or empty.
func interpreterOf(path string) string {
	file, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer file.Close()
	line, _ := bufio.NewReader(io.LimitReader(file, 256)).ReadString('\n') // the system reads no more either
	rest, script := strings.CutPrefix(line, "#!")
	if words := strings.Fields(rest); script && len(words) > 0 {
		return words[0]
	}
	return ""
}

// whileBusy calls run again while the executable is open for writing, for a quarter of a second at most. A host that has
// just written a copy and closed it meets that when it starts another process at the same time: between fork and exec
// the other one holds the descriptor too (go.dev/issue/22315).
func whileBusy[T any](run func() (T, error)) (T, error) {
	for pause := time.Millisecond; ; pause *= 2 {
		started, err := run()
		if !errors.Is(err, syscall.ETXTBSY) || pause > 128*time.Millisecond {
			return started, err
		}
		time.Sleep(pause) //nolint:forbidigo // there is no event for a file that is not written any more
	}
}
