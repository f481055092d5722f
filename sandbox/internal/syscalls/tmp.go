// Package syscalls is temporary.
package syscalls

import "golang.org/x/sys/unix"

type Options struct {
	Exec, Network bool
	ExecFD        int
}

func Plugin(o Options) ([]unix.SockFilter, error)  { return nil, nil }
func Command(o Options) ([]unix.SockFilter, error) { return nil, nil }
func Apply([]unix.SockFilter) error                { return nil }
