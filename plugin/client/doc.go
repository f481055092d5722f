// Package client owns one incarnation of a plugin: one process, from its start
// to its end. [Start] verifies the executable, runs it in a tree of its own,
// shakes hands through go-plugin, serves the granted services on a brokered
// connection, and activates the plugin, whose tools it offers as [tool.Tool]
// values.
//
// go-plugin does the handshake, the transport security and the broker. What it
// leaves to chance, this package does itself: it reads the plugin's output, it
// notices the end of the process, and it ends the tree, each within a bound.
//
// A plugin is called on leased streams if it says that it knows them, and with a
// stream for every call otherwise, which any plugin serves: the events of a call,
// and what becomes of one that is cancelled, are the same; see package wire.
//
// Nothing is used again at a restart: another start is another incarnation.
package client
