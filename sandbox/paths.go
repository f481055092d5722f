package sandbox

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// A PathError says why a path of a policy cannot be given to a confined process.
type PathError struct {
	// Path is the path as the policy has it.
	Path string
	// Resolved is what it is once its links are followed; empty if that is not known or is
	// the same.
	Resolved string
	// Detail says why not, and what to do.
	Detail string
	// Err is what the system says, or nil.
	Err error
}

// Error has the path, what it resolves to, and the detail.
func (e *PathError) Error() string {
	if e.Resolved == "" {
		return fmt.Sprintf("path %q: %s", e.Path, e.Detail)
	}
	return fmt.Sprintf("path %q, which is %q: %s", e.Path, e.Resolved, e.Detail)
}

// Unwrap is what the system says.
func (e *PathError) Unwrap() error { return e.Err }

// Resolve is the policy with the paths that its Read and Write stand for: those with
// their links followed, sorted, and without those that another one holds. A path to read
// inside one to write is left out, one to write inside one to read stays. It is done once,
// when a process is about to be started, and what it returns is what is to be opened to
// the process: without following a link again, since what could be swapped for a link
// meanwhile was not looked at.
//
// Nothing is given by which a process would get at more than what is named:
//   - the root directory;
//   - /proc, /sys, /dev, /run (for its sockets, and but for /run/media), and the kernel's
//     file systems wherever else they are mounted;
//   - the forbidden directories, such as the host's own state, which are absolute and need
//     not exist;
//   - what is below one of these;
//   - home, the home directory, itself, though what is below it is given;
//   - a directory that holds one of these;
//   - what is neither a file nor a directory: a socket would be a way out. One that lies in
//     a directory that is given is not found here.
//
// The error joins a [PathError] for each path that is refused, in order, or says that the
// mounts of the machine are not known. It looks at files, changes none, and may be
// called concurrently.
func (p Policy) Resolve(forbidden []string, home string) (Policy, error) {
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return Policy{}, fmt.Errorf("what is mounted is not known: %w", err)
	}
	r := resolver{refused: systemPlaces(kernelMounts(string(mounts)))}
	r.refuse(place{path: home, what: "the home directory", open: true}) // named first: it usually holds the others
	for _, dir := range forbidden {
		r.refuse(place{path: dir, what: "which is the host's own"})
	}
	read, write := r.all(p.Read), r.all(p.Write)
	if err := errors.Join(r.mistakes...); err != nil {
		return Policy{}, err
	}
	p.Write = outermost(write)
	p.Read = slices.DeleteFunc(outermost(read), func(path string) bool { return isBelowAny(p.Write, path) })
	return p, nil
}

// A place is a directory that is not given, and neither is what holds it.
type place struct {
	path string // absolute
	what string // for people, behind the path
	// but are directories in it that are given all the same.
	but []string
	// open says that what is below it may be given all the same.
	open bool
	// spelled says that not even the spelling of a path may lead through it: what it
	// resolves to is another thing each time.
	spelled bool

	family family
}

func (p place) inside() string {
	return fmt.Sprintf("it is in %s, %s: leave it out", strconv.Quote(p.path), p.what)
}

// systemPlaces are those of the system, with the mount points of the kernel's own file
// systems, which may be anywhere.
func systemPlaces(mounts []string) []place {
	var r resolver
	for _, path := range []string{"/proc", "/sys", "/dev"} {
		r.refuse(place{path: path, what: "by which the whole machine is reached", spelled: true})
	}
	r.refuse(place{path: "/run", what: "which has the sockets of services", but: []string{"/run/media"}})
	known := len(r.refused)
	for _, path := range mounts {
		if !slices.ContainsFunc(r.refused[:known], func(p place) bool { return isBelow(p.path, path) }) {
			r.refuse(place{path: path, what: "where a file system of the kernel's is mounted"})
		}
	}
	return r.refused
}

// kernelMounts are the mount points, in the text of mountinfo(5), of file systems by which
// one gets at processes, devices and the kernel.
func kernelMounts(mountinfo string) []string {
	var points []string
	for line := range strings.Lines(mountinfo) {
		fields, rest, found := strings.Cut(line, " - ")
		words, types := strings.Fields(fields), strings.Fields(rest)
		if !found || len(words) < 5 || len(types) == 0 {
			continue
		}
		switch types[0] {
		case "proc", "sysfs", "devtmpfs", "devpts", "cgroup", "cgroup2", "debugfs", "tracefs", "securityfs", "bpf", "configfs", "binfmt_misc":
			points = append(points, unescape(words[4]))
		}
	}
	return points
}

// unescape takes the octal escapes out of a path of mountinfo.
func unescape(path string) string {
	var out strings.Builder
	for i := 0; i < len(path); i++ {
		if code := path[i:min(i+4, len(path))]; code[0] == '\\' && len(code) == 4 {
			if value, err := strconv.ParseUint(code[1:], 8, 8); err == nil {
				out.WriteByte(byte(value))
				i += 3
				continue
			}
		}
		out.WriteByte(path[i])
	}
	return out.String()
}

// resolver resolves the paths of one policy and collects what is wrong with them.
type resolver struct {
	refused  []place
	mistakes []error
}

// refuse adds a place, if there is one, as it is spelled, and as it is resolved if that is another.
func (r *resolver) refuse(p place) {
	if p.path == "" {
		return
	}
	p.path = filepath.Clean(p.path)
	if !filepath.IsAbs(p.path) {
		r.mistakes = append(r.mistakes, fmt.Errorf("%s is to be kept from a confined process and is not absolute", strconv.Quote(p.path)))
		return
	}
	p.family = familyOf(p.path)
	r.refused = append(r.refused, p)
	if resolved := asFarAsItExists(p.path); resolved != p.path {
		p.path, p.family = resolved, familyOf(resolved)
		r.refused = append(r.refused, p)
	}
}

// all resolves paths; those that are wrong are left out and reported.
func (r *resolver) all(paths []string) []string {
	var resolved []string
	for _, path := range paths {
		if target, mistake := r.resolve(path); mistake != nil {
			r.mistakes = append(r.mistakes, mistake)
		} else {
			resolved = append(resolved, target)
		}
	}
	return resolved
}

func (r *resolver) resolve(path string) (string, *PathError) {
	switch {
	case !filepath.IsAbs(path):
		return "", &PathError{Path: path, Detail: "it is not absolute: write it from / on"}
	case strings.ContainsRune(path, 0):
		return "", &PathError{Path: path, Detail: "it has a zero byte, which no path has: leave it out"}
	}
	spelled := filepath.Clean(path)
	for _, p := range r.refused {
		if p.spelled && isBelow(p.path, spelled) {
			return "", &PathError{Path: path, Detail: p.inside()}
		}
	}
	resolved, err := filepath.EvalSymlinks(spelled)
	if err != nil {
		return "", &PathError{Path: path, Detail: whyUnresolved(spelled, err), Err: err}
	}
	mistake := &PathError{Path: path}
	if resolved != path {
		mistake.Resolved = resolved
	}
	if mistake.Detail = r.whyRefused(resolved); mistake.Detail != "" {
		return "", mistake
	}
	info, err := os.Lstat(resolved)
	switch {
	case err != nil: // it is gone again
		mistake.Detail, mistake.Err = whyUnresolved(resolved, err), err
	case !info.IsDir() && !info.Mode().IsRegular():
		mistake.Detail = "it is neither a file nor a directory: leave it out"
	default:
		return resolved, nil
	}
	return "", mistake
}

func whyUnresolved(path string, err error) string {
	switch _, there := os.Lstat(path); {
	case errors.Is(err, fs.ErrNotExist) && there == nil:
		return "it is a link to what does not exist: mend it, or leave it out"
	case errors.Is(err, fs.ErrNotExist):
		return "it does not exist: make it first, or leave it out"
	case errors.Is(err, fs.ErrPermission):
		return "this user may not look at it: leave it out"
	default:
		return fmt.Sprintf("its links cannot be followed (%v): mend them, or leave it out", err)
	}
}

// whyRefused says why a path that has no links is not given; empty if it is.
func (r *resolver) whyRefused(path string) string {
	if path == "/" {
		return "it is the root of everything: name the directories below it that are needed"
	}
	family := familyOf(path)
	for _, p := range r.refused {
		above, below := isBelow(p.path, path) || p.family.isOf(family), isBelow(path, p.path) || family.isOf(p.family)
		switch {
		case above && below && p.open:
			return fmt.Sprintf("it is %s: name what is needed in it", p.what)
		case above && !p.open && !isBelowAny(p.but, path):
			return p.inside()
		case below:
			return fmt.Sprintf("it holds %s, %s: name what is needed beside that", strconv.Quote(p.path), p.what)
		}
	}
	return ""
}

// family is what a path is to the system, and the directories above it: what is mounted at
// a second place, or spelled in another case where that makes no difference, is the same by
// that and by nothing else.
type family struct {
	self  fs.FileInfo // nil if it is not there
	lines []fs.FileInfo
}

func familyOf(path string) family {
	var f family
	for at := path; ; at = filepath.Dir(at) {
		if info, err := os.Stat(at); err == nil {
			f.lines = append(f.lines, info)
			if at == path {
				f.self = info
			}
		}
		if at == "/" {
			return f
		}
	}
}

// isOf says whether f is other or one of the directories above it.
func (f family) isOf(other family) bool {
	return f.self != nil && slices.ContainsFunc(other.lines, func(info fs.FileInfo) bool { return os.SameFile(f.self, info) })
}

// asFarAsItExists follows the links of a path as far as there is something.
func asFarAsItExists(path string) string {
	if resolved, err := filepath.EvalSymlinks(path); err == nil {
		return resolved
	}
	above := filepath.Dir(path)
	if above == path {
		return path
	}
	return filepath.Join(asFarAsItExists(above), filepath.Base(path))
}

// outermost sorts paths and leaves out those that are below another, or are another.
func outermost(paths []string) []string {
	var kept []string
	for _, path := range slices.Sorted(slices.Values(paths)) { // what holds a path comes before it
		if !isBelowAny(kept, path) {
			kept = append(kept, path)
		}
	}
	return kept
}

func isBelowAny(dirs []string, path string) bool {
	return slices.ContainsFunc(dirs, func(dir string) bool { return isBelow(dir, path) })
}

// isBelow says whether path is dir or below it, as they are written. Both are absolute and
// clean.
func isBelow(dir, path string) bool {
	return dir == "/" || path == dir || strings.HasPrefix(path, dir+"/")
}
