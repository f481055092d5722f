package service

import (
	"fmt"
	"slices"
	"strings"
)

// A Grant is a service that config gives to a plugin. Each is a service that
// exists on the plugin's connection or does not.
type Grant string

// The grants that there are.
const (
	// GrantFileSystemRead gives [FileSystem].
	GrantFileSystemRead Grant = "filesystem:read"
	// GrantFileSystemWrite gives [FileSystemWrite].
	GrantFileSystemWrite Grant = "filesystem:write"
	// GrantPermission gives [Permission].
	GrantPermission Grant = "permission"
	// GrantProcess gives [Process].
	GrantProcess Grant = "process"
)

// Grants lists every grant, sorted.
func Grants() []Grant {
	return []Grant{GrantFileSystemRead, GrantFileSystemWrite, GrantPermission, GrantProcess}
}

// ParseGrant checks that name is a grant.
func ParseGrant(name string) (Grant, error) {
	if g := Grant(name); slices.Contains(Grants(), g) {
		return g, nil
	}
	known := make([]string, 0, len(Grants()))
	for _, g := range Grants() {
		known = append(known, string(g))
	}
	return "", fmt.Errorf("grant %q is unknown; the grants are %s", name, strings.Join(known, ", "))
}
