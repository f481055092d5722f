// Package wire carries plain values across the process line, for both sides. For
// each service of package toolhost.plugin.v1 it has an interface in plain values,
// an adapter that serves an implementation of it, and a client that is one. The
// generated types do not leave this package.
//
// An error of a service travels inside its response; a gRPC status says only
// that the transport, or the other side, broke.
package wire
