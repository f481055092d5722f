// Package jail is what a launcher does to itself before it becomes, or starts, a program
// that is not trusted: it runs as the first process of its namespaces, builds a root of
// what was granted, gives up every right, and has the kernel refuse the rest (law 46).
//
// The order matters: [Build] needs the rights that [Drop] gives up, and after [Seal] there
// is no call left but the one that runs the program. All of it happens on one locked
// thread, whose rights, rules and filter are what the program gets.
//
// It knows the kernel, and neither plugins nor where a plan comes from.
package jail
