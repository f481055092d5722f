package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Bounds of one [SweepRunDirs]. What is beyond them is left to the next host that
// starts.
const (
	// sweepPatience is how long it takes at most.
	sweepPatience = 30 * time.Second
	// sweepNames is how many names of a directory are looked at.
	sweepNames = 1 << 17
)

// SweepRunDirs removes the run directories that this user's killed hosts left (law
// 41), and says how many. Those are directories of this user with a name of
// [OpenRunDir] that nobody else may enter and that no process has locked: the lock of a
// host that lives, or that is just starting, is held. No link is followed, and what
// is mounted there is not touched. Where others could have given such a name to a
// directory of the user's, nothing is removed.
//
// It may run beside any number of others, and takes half a minute at most; ctx ends it
// earlier, with its cause. Other errors say what could not be removed, and keep nothing
// else from being removed.
func SweepRunDirs(ctx context.Context) (removed int, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, sweepPatience, errSweepBusy)
	defer cancel()
	var errs []error
	for _, base := range runBases() {
		n, err := sweepBase(ctx, base)
		removed += n
		errs = append(errs, err)
		if ctx.Err() != nil {
			break
		}
	}
	return removed, errors.Join(errs...)
}

var errSweepBusy = fmt.Errorf("there was more than could be removed in %v; the next start goes on with it", sweepPatience)

// sweepBase sweeps one of the directories that run directories may be in.
func sweepBase(ctx context.Context, base string) (removed int, err error) {
	dir, err := os.OpenFile(base, os.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		return 0, nil // nothing was left where nothing can be
	}
	defer dir.Close()
	if !isOrderly(dir) {
		return 0, nil
	}
	var errs []error
	for looked := 0; looked < sweepNames; {
		names, err := dir.Readdirnames(1024)
		if err != nil {
			if !errors.Is(err, io.EOF) {
				errs = append(errs, err)
			}
			break
		}
		looked += len(names)
		for _, name := range names {
			if ctx.Err() != nil {
				return removed, errors.Join(append(errs, context.Cause(ctx))...)
			}
			if !isRunDir(name) {
				continue
			}
			gone, err := sweepRunDir(ctx, dir, name)
			if gone {
				removed++
			}
			errs = append(errs, err)
		}
	}
	return removed, errors.Join(errs...)
}

// isOrderly says whether nobody but this user and root can rename what is this user's
// in a directory.
func isOrderly(dir *os.File) bool {
	var info unix.Stat_t
	if unix.Fstat(fd(dir), &info) != nil {
		return false
	}
	mine := info.Uid == 0 || int(info.Uid) == os.Geteuid()
	return mine && (info.Mode&0o022 == 0 || info.Mode&unix.S_ISVTX != 0)
}

// isRunDir says whether a name is one that [OpenRunDir] gives.
func isRunDir(name string) bool {
	token, ok := strings.CutPrefix(name, runPrefix)
	return ok && len(token) == runToken && !strings.ContainsFunc(token, func(r rune) bool {
		return (r < 'A' || 'Z' < r) && (r < '2' || '7' < r)
	})
}

// sweepRunDir removes one run directory, and says whether it did. One that is in use,
// is somebody else's or is gone is no error.
func sweepRunDir(ctx context.Context, base *os.File, name string) (removed bool, err error) {
	if !isPrivate(base, name) {
		return false, nil
	}
	path := filepath.Join(base.Name(), name)
	dir, err := openOwn(fd(base), name) // a plugin may have taken the rights from it
	if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ELOOP) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("open %s: %w", path, err)
	}
	defer dir.Close()
	if free, err := lock(dir); err != nil || !free || !isStill(dir, path) {
		return false, err
	}
	if err := dismantle(dir, func() error { return context.Cause(ctx) }); err != nil {
		return false, fmt.Errorf("remove what a killed host left in %s: %w", path, err)
	}
	if err := unlessGone(unix.Unlinkat(fd(base), name, unix.AT_REMOVEDIR)); err != nil {
		return false, fmt.Errorf("remove %s, which a killed host left: %w", path, err)
	}
	return true, nil
}

// isPrivate says whether what has a name is this user's, and nobody else's to enter.
func isPrivate(base *os.File, name string) bool {
	var info unix.Stat_t
	err := unix.Fstatat(fd(base), name, &info, unix.AT_SYMLINK_NOFOLLOW)
	return err == nil && int(info.Uid) == os.Geteuid() && info.Mode&0o077 == 0
}
