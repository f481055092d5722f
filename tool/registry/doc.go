// Package registry decides which tool a name stands for, and runs the calls of
// tools from beginning to end. It is one of the two boundaries of trust: what of
// a plugin reaches a model passes here.
//
// # Registrations
//
// An owner (a plugin by its key in config, or the embedding program) registers
// tools with [Registry.Register] and takes them away again by closing the
// [Registration]. What is effective is a function of the registrations and of
// nothing else (law 3):
//
//   - Within one owner the latest active registration of a name wins. Closing it
//     reveals the one below, closing another one changes nothing.
//   - Between owners a name has one owner. A single owner whose config says
//     override for that name has it; else a single built-in; else a single other
//     owner. Where two are equal neither has it, and both are told. The embedding
//     program's own tools come after all of them (law 6).
//
// An owner claims a name from its first registration until [Registry.Forget], also
// while it has no active registration. So a plugin that crashes takes its tools
// with it, and nobody else moves into their names before it is back.
//
// # Calls
//
// A model request captures what is effective once ([Registry.Capture]); its calls
// run what was captured, whatever is registered later (law 7). [Capture.Call] is
// the life of a call: hooks, resolve, validate the input, prepare, authorize,
// record the start, execute or commit, validate the output, bound, find
// instructions, hooks. It ends in one settlement, or in an interruption when the
// caller's context is over (laws 14, 15). [Capture.Batch] runs the calls of one
// message.
//
// A call that waits for a person is not over. Its clock stands still, and if its
// request says so it is suspended: Call returns, and the Location owns the call
// until it is resumed, withdrawn, or lapses (law 37).
//
// The structured value of a settlement is whole or absent. A tool that gives no
// content has its structured value measured instead; where that is over the limits
// it is kept, taken out of the settlement, and a preview of it stands as content. A
// face whose protocol wants a structured value for a declared output schema has
// none then, and says in its own way that the answer is no structured one; it
// never gets a value that is cut, or that does not fit the schema.
//
// # Goroutines
//
// The package starts goroutines only in the scope that it is given. An executor
// that outlives its call is the scope's to report.
package registry
