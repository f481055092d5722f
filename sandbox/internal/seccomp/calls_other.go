//go:build !amd64 && !arm64

package seccomp

import (
	"errors"
	"fmt"
	"runtime"
)

const (
	native  = 0
	foreign = 1
	newest  = 0
)

func pluginRules(Options) (table, error) { return noTable() }

func commandRules(Options) (table, error) { return noTable() }

func noTable() (table, error) {
	return table{}, fmt.Errorf("there is a filter of system calls for amd64 and arm64, none for %s: %w", runtime.GOARCH, errors.ErrUnsupported)
}
