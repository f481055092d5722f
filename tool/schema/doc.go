// Package schema compiles JSON Schemas and reads JSON values by them (law 11): what
// was validated is what is used, digit by digit and key by key.
//
// [Compile] and [CompileInput] make a [Schema] of a document that refers to nothing
// outside itself; nothing is ever loaded, from the network or from a file (law 5).
// [Schema.Decode] reads a value strictly and validates it; [Decode] reads one
// without a schema. What compiling and validating may cost is bounded, since both
// come from plugins.
//
// Drafts 4, 6, 7, 2019-09 and 2020-12 are understood, by $schema; without it a
// schema is 2020-12. The package is plain values and knows nothing of tools.
package schema
