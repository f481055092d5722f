//go:build !race

package host_test

// rounds is how often the host is opened and closed against a baseline.
const rounds = 200
