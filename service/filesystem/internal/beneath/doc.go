// Package beneath reaches files below an open directory without ever following
// a link: what is opened is what the path says, and lies below the directory,
// whatever is renamed or replaced in the meantime.
//
// It is all of the filesystem engine that is particular to Linux. On kernels, or
// under system call filters, without openat2 it opens one name after the other.
package beneath
