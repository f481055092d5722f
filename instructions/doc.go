// Package instructions finds the files of instructions that a project has for
// agents, such as AGENTS.md, near the paths that a call was about (law 30).
//
// # What is found
//
// For each target, the files with one of the configured names in every directory
// from the Location's root down to it: to the target itself where it is a
// directory, else to the directory that it is in, and no further than there are
// directories. Targets are taken by their words: "a/../b" is "b", and what goes
// through a link is looked for as it is spelled. A target that is outside of the
// root, or that is no path at all, is ignored. So is what lies deeper than
// [MaxDepth] directories.
//
// Everything is read through the Location's filesystem, so no link leads out of
// the root, and only what the rules allow to be read without asking anybody,
// judged by the spelled and the resolved path (law 39). What cannot be read, or is
// no text, is left out: a call is not to fail by what a repository holds.
//
// # What is given
//
// The root's files come first, then the deeper ones. Each is given once to a
// session, also when it can be reached by several names; it counts as given only
// when it is, so what did not fit into one call comes with a later one. The bounds
// are the constants of this package. Texts have no control characters but the ends
// of lines and tabs, and no escape sequences: what a person would not see a model
// is not told either.
package instructions
