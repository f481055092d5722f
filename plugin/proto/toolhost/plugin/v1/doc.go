// Package pluginv1 is the wire between host and plugin, version 1: generated from
// the .proto files beside it, which document it. Only plugin/internal/wire uses
// it; everybody else speaks plain values.
package pluginv1
