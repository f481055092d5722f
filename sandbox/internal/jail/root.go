package jail

import (
	"cmp"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Bounds of what is in memory: the root itself, which holds no content, the number of
// files in a private directory, and of terminals, of which the machine has so many.
const (
	rootBytes    = 1 << 20
	privateFiles = 1 << 16
	maxTerminals = 64
)

// A tree is something that is to be seen in the jail.
type tree struct {
	path  string // where
	fd    int    // a mount that is nowhere yet
	isDir bool
}

// A builder is a root that is being built.
type builder struct {
	plan  Plan
	lacks Lacks
	trees []tree
	root  int // the new root's mount
}

// Build makes a root of what the plan says, moves into it, and leaves the old one behind:
// nothing of that can be named any more. It needs CAP_SYS_ADMIN in a user namespace of its
// own, with namespaces for mounts and processes that belong to that. The root is read-only;
// what is shared has no devices in it, and no program gives other rights.
func Build(plan Plan) (Lacks, error) {
	b := &builder{plan: plan, root: -1}
	defer b.close()
	// What is mounted here is not to be seen outside, nor the other way round.
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return 0, fmt.Errorf("make the mounts private: %w", err)
	}
	if err := b.collect(); err != nil {
		return 0, err
	}
	if err := b.open(); err != nil {
		return 0, err
	}
	if plan.System { // before anything of the machine's is where these files are made
		if err := b.system(); err != nil {
			return 0, err
		}
	}
	for _, t := range b.trees {
		if err := b.place(t); err != nil {
			return 0, fmt.Errorf("put %s into the jail: %w", t.path, err)
		}
	}
	return b.lacks, b.enter()
}

func (b *builder) close() {
	for _, t := range b.trees {
		_ = unix.Close(t.fd)
	}
	if b.root >= 0 {
		_ = unix.Close(b.root)
	}
}

// collect takes hold of everything while it can be named, outer before inner.
func (b *builder) collect() error {
	const common = unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV
	type shared struct {
		path     string
		set      uint64
		optional bool
	}
	var all []shared
	for _, path := range b.plan.Read {
		all = append(all, shared{path, common | unix.MOUNT_ATTR_RDONLY, false})
	}
	for _, path := range b.plan.Write {
		all = append(all, shared{path, common, false})
	}
	for _, path := range b.plan.Protect {
		all = append(all, shared{path, common | unix.MOUNT_ATTR_RDONLY, true})
	}
	for _, path := range holders(b.plan.Protect, b.plan.Write) {
		all = append(all, shared{path, common, true})
	}
	for _, path := range devices(b.plan) {
		// A device can be written to all the same; but not its mode, nor its times, which are the machine's.
		all = append(all, shared{path, unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NOEXEC | unix.MOUNT_ATTR_RDONLY, true})
	}
	if b.plan.System {
		for _, path := range systemTrees(b.plan.Network) {
			all = append(all, shared{path, common | unix.MOUNT_ATTR_RDONLY, true})
		}
	}
	for _, s := range all {
		t, err := clone(s.path, s.set)
		if s.optional && (errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ELOOP) || errors.Is(err, unix.ENOTDIR)) {
			continue
		}
		if err != nil {
			return fmt.Errorf("share %s: %w", s.path, err)
		}
		b.trees = append(b.trees, t)
	}
	for _, path := range b.plan.Private {
		fd, err := memory(b.plan.PrivateBytes, "0700")
		if err != nil {
			return fmt.Errorf("make %s: %w", path, err)
		}
		b.trees = append(b.trees, tree{path, fd, true})
	}
	if err := b.collectProc(); err != nil {
		return err
	}
	if b.plan.Command {
		if err := b.collectTerminals(); err != nil {
			return err
		}
	}
	slices.SortStableFunc(b.trees, func(x, y tree) int {
		return cmp.Compare(strings.Count(x.path, "/"), strings.Count(y.path, "/"))
	})
	return nil
}

// holders are the directories between what is protected and what is written. Each is a mount
// of its own too, which the kernel does not rename: what is protected in a directory that is
// renamed goes along, and another one could be made in its place.
func holders(protect, write []string) []string {
	var all []string
	for _, path := range protect {
		for dir := filepath.Dir(path); !slices.Contains(write, dir) && !slices.Contains(all, dir) &&
			slices.ContainsFunc(write, func(outer string) bool { return strings.HasPrefix(dir, outer+"/") }); dir = filepath.Dir(dir) {
			all = append(all, dir)
		}
	}
	return all
}

// devices are what is in /dev. A plugin without programs has no /dev/zero: what is mapped of that and shared is memory that
// no limit of a process counts.
func devices(plan Plan) []string {
	all := []string{"/dev/null", "/dev/full", "/dev/random", "/dev/urandom"}
	if plan.Exec || plan.Command {
		all = append(all, "/dev/zero")
	}
	if plan.Command {
		all = append(all, ownTerminal)
	}
	return all
}

// ownTerminal is whatever terminal controls who opens it. Without one the kernel says so at
// once, and there is none that was not made in the jail (case B08).
const ownTerminal = "/dev/tty"

// terminals is where they are made.
const terminals = "/dev/pts"

// collectTerminals makes a place for terminals of the jail's own.
func (b *builder) collectTerminals() error {
	fd, err := filesystem("devpts", map[string]string{
		"ptmxmode": "0666", "mode": "0620", "max": strconv.Itoa(maxTerminals),
	}, unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NOEXEC)
	if err != nil {
		return fmt.Errorf("make %s: %w", terminals, err)
	}
	b.trees = append(b.trees, tree{terminals, fd, true})
	return nil
}

// clone gives a mount of what is at a path, with all that is mounted below it. A link on
// the way is ELOOP.
func clone(path string, set uint64) (tree, error) {
	source, err := unix.Openat2(unix.AT_FDCWD, path, &unix.OpenHow{
		Flags: unix.O_PATH | unix.O_CLOEXEC | unix.O_NOFOLLOW, Resolve: unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS,
	})
	if err != nil {
		return tree{}, err
	}
	defer unix.Close(source) //nolint:errcheck // it only names a file
	var info unix.Stat_t
	if err := unix.Fstat(source, &info); err != nil {
		return tree{}, err
	}
	kind := info.Mode & unix.S_IFMT
	if kind == unix.S_IFLNK {
		return tree{}, unix.ELOOP
	}
	fd, err := unix.OpenTree(source, "", unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_EMPTY_PATH|unix.AT_RECURSIVE)
	if err != nil {
		return tree{}, err
	}
	attr := unix.MountAttr{Attr_set: set}
	if err := unix.MountSetattr(fd, "", unix.AT_EMPTY_PATH|unix.AT_RECURSIVE, &attr); err != nil {
		_ = unix.Close(fd)
		return tree{}, err
	}
	return tree{path, fd, kind == unix.S_IFDIR}, nil
}

// memory gives a mount of an empty directory in memory.
func memory(size int64, mode string) (int, error) {
	return filesystem("tmpfs", map[string]string{
		"size": strconv.FormatInt(size, 10), "nr_inodes": strconv.Itoa(privateFiles), "mode": mode,
	}, unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NODEV)
}

// filesystem gives a mount of a new filesystem.
func filesystem(kind string, options map[string]string, attributes int) (int, error) {
	context, err := unix.Fsopen(kind, unix.FSOPEN_CLOEXEC)
	if err != nil {
		return -1, err
	}
	defer unix.Close(context) //nolint:errcheck // the mount is what is kept
	for key, value := range options {
		if err := unix.FsconfigSetString(context, key, value); err != nil {
			return -1, fmt.Errorf("%s=%s: %w", key, value, err)
		}
	}
	if err := unix.FsconfigCreate(context); err != nil {
		return -1, err
	}
	return unix.Fsmount(context, unix.FSMOUNT_CLOEXEC, attributes)
}

// collectProc makes the /proc of the jail, where the program may need one, and bounds the
// number of processes through it. It shows the processes of the jail and nothing of the
// machine. Where the machine hides parts of its own, as in a container, there is none.
func (b *builder) collectProc() error {
	const attributes = unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV | unix.MOUNT_ATTR_NOEXEC
	whole, err := filesystem("proc", nil, attributes)
	if err != nil {
		b.lacks |= NoProcessBound | NoProc
		return nil
	}
	defer unix.Close(whole) //nolint:errcheck // the other one is kept
	if err := b.boundProcesses(whole); err != nil {
		b.lacks |= NoProcessBound
	}
	if !b.plan.System {
		return nil
	}
	options := map[string]string{"subset": "pid"}
	if b.plan.Command {
		options = nil // programs such as top read what is not of a process, too
	}
	fd, err := filesystem("proc", options, attributes|unix.MOUNT_ATTR_RDONLY)
	if err != nil {
		b.lacks |= NoProc
		return nil
	}
	b.trees = append(b.trees, tree{"/proc", fd, true})
	return nil
}

// boundProcesses sets how large the number of a process may be in this namespace, which
// bounds how many there are, threads included, also for root (since Linux 6.14).
func (b *builder) boundProcesses(proc int) error {
	most := max(b.plan.Processes, 1) + reservedPids
	if err := setNumber(proc, "sys/kernel/pid_max", most); err != nil {
		return err
	}
	// The kernel uses those once, and when the numbers begin anew no more. A kernel that
	// cannot be told to begin there lets that many more processes be.
	_ = setNumber(proc, "sys/kernel/ns_last_pid", reservedPids)
	return nil
}

func setNumber(proc int, name string, number int) error {
	fd, err := unix.Openat(proc, name, unix.O_WRONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd) //nolint:errcheck // a write to it is seen at once
	_, err = unix.Write(fd, []byte(strconv.Itoa(number)))
	return err
}

// reservedPids is how many numbers the kernel keeps for its own at least.
const reservedPids = 300

// open makes the new root, and puts it where it can be built on: over a directory of the
// old one, which is seen by nobody else.
func (b *builder) open() (err error) {
	if b.root, err = memory(rootBytes, "0755"); err != nil {
		return fmt.Errorf("make a root: %w", err)
	}
	if err := unix.MoveMount(b.root, "", unix.AT_FDCWD, "/tmp", unix.MOVE_MOUNT_F_EMPTY_PATH); err != nil {
		return fmt.Errorf("mount a root: %w", err)
	}
	return nil
}

// place puts a tree where it is to be seen.
func (b *builder) place(t tree) error {
	at, err := b.target(t.path, t.isDir)
	if err != nil {
		return err
	}
	defer unix.Close(at) //nolint:errcheck // it only names a place
	return unix.MoveMount(t.fd, "", at, "", unix.MOVE_MOUNT_F_EMPTY_PATH|unix.MOVE_MOUNT_T_EMPTY_PATH)
}

// target is a place in the new root, which is made if it is not there. It must not lead
// out of it: what is below may be shared with others.
func (b *builder) target(path string, isDir bool) (int, error) {
	how := unix.OpenHow{
		Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS,
	}
	rel := strings.TrimPrefix(path, "/")
	fd, err := unix.Openat2(b.root, rel, &how)
	if !errors.Is(err, unix.ENOENT) {
		return fd, err
	}
	if err := b.makeParents(rel); err != nil {
		return -1, err
	}
	if isDir {
		err = unix.Mkdirat(b.root, rel, 0o755)
	} else {
		err = b.makeFile(rel, "")
	}
	if err != nil && !errors.Is(err, unix.EEXIST) {
		return -1, err
	}
	return unix.Openat2(b.root, rel, &how)
}

func (b *builder) makeParents(rel string) error {
	for at, r := range rel {
		if r != '/' {
			continue
		}
		if err := unix.Mkdirat(b.root, rel[:at], 0o755); err != nil && !errors.Is(err, unix.EEXIST) {
			return err
		}
	}
	return nil
}

func (b *builder) makeFile(rel, content string) error {
	fd, err := unix.Openat(b.root, rel, unix.O_CREAT|unix.O_EXCL|unix.O_WRONLY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o444)
	if err != nil {
		return err
	}
	_, err = unix.Write(fd, []byte(content))
	return errors.Join(err, unix.Close(fd))
}

// enter makes the new root the root, and the old one unreachable.
func (b *builder) enter() error {
	if err := unix.Fchdir(b.root); err != nil {
		return err
	}
	if err := unix.PivotRoot(".", "."); err != nil {
		return fmt.Errorf("change the root: %w", err)
	}
	if err := unix.Unmount(".", unix.MNT_DETACH); err != nil {
		return fmt.Errorf("leave the old root: %w", err)
	}
	attr := unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY | unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV}
	if err := unix.MountSetattr(unix.AT_FDCWD, "/", 0, &attr); err != nil {
		return fmt.Errorf("make the root read-only: %w", err)
	}
	if err := unix.Chdir("/"); err != nil {
		return err
	}
	return b.begin()
}

// A DirectoryError is that there is no directory to begin in, or, with 0, another one.
type DirectoryError struct{ Number unix.Errno }

func (e *DirectoryError) Error() string {
	return fmt.Sprintf("the working directory is not there, or another one (%d)", int(e.Number))
}

// begin goes where the program begins. Once it is there the directory stays what it is.
func (b *builder) begin() error {
	if b.plan.Dir == "" || !filepath.IsAbs(b.plan.Dir) {
		return nil
	}
	err := unix.Chdir(b.plan.Dir)
	if !b.plan.DirIs {
		return nil // or it begins at the root
	}
	var info unix.Stat_t
	if err == nil {
		err = unix.Stat(".", &info)
	}
	if number, ok := errors.AsType[unix.Errno](err); ok {
		return &DirectoryError{number}
	}
	if info.Dev != b.plan.DirDevice || info.Ino != b.plan.DirInode {
		return &DirectoryError{}
	}
	return nil
}
