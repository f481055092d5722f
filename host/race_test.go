//go:build race

package host_test

// The race detector makes the keys of a handshake ten times as expensive.
const rounds = 10
