// Package bench measures what a call and the life of a plugin cost, as ratios to a bare go-plugin plugin in the same run.
// It holds nothing but tests: make bench runs its benchmarks and prints a table of the ratios beside their targets.
//
// The test binary is host, reaper, plugin and baseline at once, so that all of them have the same packages to initialise.
// A benchmark runs the two sides of a ratio in turn, round after round, and each line of the table is the median of the
// rounds' ratios: what else the machine does then falls on both sides. Absolute figures are printed for orientation; they
// drift with the machine.
package bench
