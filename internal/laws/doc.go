// Package laws is the law suite: laws 1 to 39 and the cases of permission, the same tests over an in-process fake, over gRPC in one process, and over
// a real plugin process. It holds nothing but tests.
//
// The tools of the suite are written once, as plain values whose behaviour is commanded by their input. The fake registers
// them as they are; the other two wrap them with the SDK, so that everything between the registry and the executor is the
// product's own. What a tool does it records in a file, which a test can read wherever the tool ran.
//
// SEEDS.md maps the contract that the project implements to the tests that prove it, in this package and elsewhere; a test
// reads it.
package laws
