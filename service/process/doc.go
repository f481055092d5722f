// Package process is the engine of a Location's process service: it runs command lines, each
// in the command profile of package sandbox, and ends them with all that they started. Its
// values are those of package service; it knows nothing of plugins and of how they are reached.
package process
