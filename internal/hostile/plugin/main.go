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
	runtime.LockOSThread() // attacks are made on threads that end with them, as this one would not
	if len(os.Args) < 2 {
		os.Exit(2)
	}
	switch os.Args[1] {
	case hostile.WordEnd:
		return
	case hostile.WordUser:
		if os.Geteuid() == os.Getuid() && os.Getegid() == os.Getgid() {
			os.Exit(int(syscall.EACCES))
		}
		return
	case hostile.WordStay:
		hostile.Stay()
		return
	}
	inherited := hostile.Inherited()
	sdk.Serve(hostile.Plugin(os.Args[1], inherited))
}
