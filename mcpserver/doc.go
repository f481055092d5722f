// Package mcpserver is the face of a host for agents: the Model Context Protocol, on
// the protocol's official SDK, in both of its eras (up to revision 2025-11-25 with
// sessions, and 2026-07-28 without).
//
// A [Server] speaks for the Locations of one host. Each Location has one server of the
// SDK, which knows nothing but what the Location's registry says: what is listed is a
// capture, what is called runs what was captured, and what a client is told of an end
// is made of the settlement. The SDK validates neither input nor output; the registry
// does.
//
// # Captures
//
// In the first era a session's calls run what its last tools/list showed, whatever is
// registered since (law 7). In the second a call names no list, so it is captured at the
// call.
//
// # Results
//
// Clients show their model the content of a result, or if there is one the structured
// value alone. A tool that is projected (law 16) has content for the model: it declares no
// structured value to clients, and gives one only to a call that asks for it in its _meta,
// with "toolhost/structured": true. Any other tool declares its output, which is given as
// text too, up to 8 KiB, or beyond that as text alone where it was not declared.
//
// # Approvals
//
// Every question goes to the host's [permission.Queue], through an [Approver], which
// must be the host's. So it can be answered by whoever comes first: the person at the
// client, through an elicitation, or anybody at the host's control socket. In the first
// era the client is asked while the call waits. In the second the call is suspended
// (law 37), the client is given the questions with a sealed state, and the same call
// with the answers and that state resumes what was suspended: it commits what was shown.
// A client that cannot be asked gets the [Fallback].
package mcpserver
