//go:build race

package laws

// raceEnabled says that everything takes several times as long.
const raceEnabled = true
