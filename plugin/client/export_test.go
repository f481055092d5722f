package client

import "errors"

// CloseOutput closes the host's side of the plugin's output.
func (i *Incarnation) CloseOutput() error {
	running := i.proc.get()
	return errors.Join(running.Stdout.Close(), running.Stderr.Close())
}

// Connections notes the connections of go-plugin.
type Connections = connections

// Close and Broken are what an incarnation does with them.
func (c *connections) Close()       { c.close() }
func (c *connections) Broken() bool { return c.broken() }

// Note is the interceptor.
var Note = (*connections).note

// Exported for the tests.
var (
	DialPeer  = socketPlace{}.dial
	RemoveAll = removeAll
)

// Without gives the host without a feature.
func (h Host) Without(feature string) Host {
	h.withheld = feature
	return h
}

// PromptExit is what every plugin has in its environment for the race detector.
func PromptExit() []string { return promptExit() }
