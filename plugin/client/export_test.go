package client

import "errors"

// CloseOutput closes the host's side of the plugin's output.
func (i *Incarnation) CloseOutput() error {
	running := i.proc.get()
	return errors.Join(running.Stdout.Close(), running.Stderr.Close())
}

// Exported for the tests.
var (
	DialPeer  = dialPeer
	RemoveAll = removeAll
)
