// Command plugin is the hostile plugin. Its first argument is its name.
package main

import (
	"os"
	"runtime"
	"syscall"

	"github.com/toolhost/toolhost/internal/hostile"
	"github.com/toolhost/toolhost/plugin/sdk"
)

func main() {
	runtime.LockOSThread()    // attacks are made on threads that end with them, as this one would not
	os.Exit(run(os.Args[1:])) //nolint:forbidigo // this is a main
}

func run(args []string) int {
	if len(args) == 0 {
		return 2
	}
	switch args[0] {
	case hostile.WordEnd:
	case hostile.WordUser:
		if os.Geteuid() == os.Getuid() && os.Getegid() == os.Getgid() {
			return int(syscall.EACCES)
		}
	case hostile.WordStay:
		hostile.Stay()
	default:
		inherited := hostile.Inherited()
		sdk.Serve(hostile.Plugin(args[0], inherited))
	}
	return 0
}
