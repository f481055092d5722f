// Package tool is the contract of a tool as plain values: what a tool says of
// itself ([Tool], [Definition]), who calls it ([Identity], [Call]), what a call
// may do ([Effects], [Preparation]), what it gives back ([Result], [Content]), and how the call
// ends ([Settlement], [Suspension], [Failure], [Error]).
//
// It also owns names ([EffectiveName], [CanonicalID], law 2). Schemas are package
// schema's.
//
// The package knows nothing of processes, of gRPC, or of Locations. Values are
// plain: they may be copied, and none holds a resource.
package tool
