// Package layering holds the house in order: it reads every Go file of the repository, without compiling any, and says
// where one breaks a rule that the compiler does not know.
//
// The rules are of three kinds. Imports follow the table in house.go: a package imports only what stands before it there,
// and a package that does not stand there at all has no place yet. What a plugin's author meets is free of the transport
// and of every engine. And each file keeps the habits that can be read off it: small files, commented packages, telling
// names, goroutines that a scope owns, no init functions, no package variables that change.
//
// Where a rule has to be broken, an exception in house.go names the one place and the reason. An exception that nothing
// needs any more is itself a finding.
//
// The package exists for its own test. Nothing imports it.
package layering
