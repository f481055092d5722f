// Package service is the contract of the trusted services, as plain values: what
// a tool may ask of the filesystem and of the permission service of its
// Location, and what it gets back. The engines behind it live in
// service/filesystem and service/permission; the broker carries the values
// across the process line.
package service
