//go:build race

package client

// promptExit keeps a plugin that was built with the race detector, as this host was, from sleeping for a second before it
// ends. A host that is not built with it passes nothing on.
func promptExit() []string { return []string{"GORACE=atexit_sleep_ms=0"} }
