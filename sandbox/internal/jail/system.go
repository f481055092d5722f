package jail

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// systemTrees are what programs of the machine need to run: programs, libraries, and the
// settings that any of them reads. Nothing in them is a user's. Those that a machine does
// not have, or has as a link, are left out.
func systemTrees(network bool) []string {
	all := []string{
		"/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/nix/store", "/gnu/store",
		"/etc/alternatives", "/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.conf.d", "/etc/localtime", "/etc/mime.types",
		"/etc/ca-certificates", "/etc/pki/tls/certs", "/etc/pki/ca-trust", "/etc/ssl/certs", "/etc/ssl/openssl.cnf",
	}
	if network {
		all = append(all, "/etc/resolv.conf", "/etc/services", "/etc/protocols", "/etc/gai.conf")
	}
	return all
}

// systemLinks are those that lead from the root into /usr on most machines.
func systemLinks() []string {
	return []string{"/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32"}
}

// system adds what the machine's programs expect in the root. It runs while the old root
// can still be read.
func (b *builder) system() error {
	for _, path := range systemLinks() {
		target, err := os.Readlink(path)
		if err != nil {
			continue
		}
		if err := unix.Symlinkat(target, b.root, path[1:]); err != nil && !errors.Is(err, unix.EEXIST) {
			return fmt.Errorf("link %s: %w", path, err)
		}
	}
	links := map[string]string{
		"/dev/fd": "/proc/self/fd", "/dev/stdin": "/proc/self/fd/0", "/dev/stdout": "/proc/self/fd/1", "/dev/stderr": "/proc/self/fd/2",
	}
	if b.plan.Command {
		links["/dev/ptmx"] = "pts/ptmx"
	}
	for path, target := range links {
		if err := b.makeParents(path[1:]); err != nil {
			return err
		}
		if err := unix.Symlinkat(target, b.root, path[1:]); err != nil && !errors.Is(err, unix.EEXIST) {
			return fmt.Errorf("link %s: %w", path, err)
		}
	}
	hosts := "127.0.0.1 localhost\n::1 localhost\n"
	if b.plan.Network {
		if own, err := os.ReadFile("/etc/hosts"); err == nil {
			hosts = string(own)
		}
	}
	for path, content := range map[string]string{
		"/etc/passwd":        fmt.Sprintf("user:x:%d:%d::/tmp:/bin/sh\n", b.plan.UID, b.plan.GID),
		"/etc/group":         fmt.Sprintf("user:x:%d:\n", b.plan.GID),
		"/etc/hosts":         hosts,
		"/etc/nsswitch.conf": "passwd: files\ngroup: files\nhosts: files dns\n",
	} {
		if err := b.makeParents(path[1:]); err != nil {
			return err
		}
		if err := b.makeFile(path[1:], content); err != nil && !errors.Is(err, unix.EEXIST) {
			return fmt.Errorf("make %s: %w", path, err)
		}
	}
	if b.plan.Network {
		return b.resolver()
	}
	return nil
}

// resolver copies the file that says who knows names, where it is a link, as on most
// machines.
func (b *builder) resolver() error {
	const path = "/etc/resolv.conf"
	real, err := filepath.EvalSymlinks(path)
	if errors.Is(err, os.ErrNotExist) || real == path {
		return nil // there is none, or it was shared
	}
	content, err := os.ReadFile(real)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if err := b.makeFile(path[1:], string(content)); err != nil && !errors.Is(err, unix.EEXIST) {
		return fmt.Errorf("make %s: %w", path, err)
	}
	return nil
}
