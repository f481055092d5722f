package scope_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/toolhost/toolhost/scope"
)

// What was acquired is released newest first, and every error comes with its path.
func Example() {
	host := scope.New(context.Background(), "host")
	release := func(name string, err error) func(context.Context) error {
		return func(context.Context) error {
			fmt.Println("release", name)
			return err
		}
	}
	host.Defer("lock", release("lock", nil))
	location, _ := host.Fork("location a")
	location.Defer("directory", release("directory", errors.New("not empty")))
	location.Defer("process", release("process", nil))

	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	fmt.Println(host.Close(ctx))
	// Output:
	// release process
	// release directory
	// release lock
	// host/location a/directory: not empty
}

// A server: what stops it is deferred after it was started, what it uses before.
func ExampleScope_Go() {
	s := scope.New(context.Background(), "server")
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		fmt.Println(err)
		return
	}
	s.Go("accept", func(context.Context) error {
		for {
			conn, err := listener.Accept()
			if errors.Is(err, net.ErrClosed) {
				fmt.Println("accept ended")
				return nil
			}
			if err != nil {
				return err
			}
			conn.Close()
		}
	})
	s.Defer("listener", func(context.Context) error { return listener.Close() })

	fmt.Println(s.Close(context.Background()))
	// Output:
	// accept ended
	// <nil>
}

// What may be released before its scope is acquired in a fork.
func ExampleScope_Fork() {
	host := scope.New(context.Background(), "host")
	upload, _ := host.Fork("upload")
	upload.Defer("temporary file", func(context.Context) error {
		fmt.Println("file removed")
		return nil
	})

	fmt.Println(host.Tree())
	fmt.Println(upload.Close(context.Background()))
	fmt.Println(host.Tree())
	fmt.Println(host.Close(context.Background()))
	// Output:
	// {host [] [{upload [temporary file] []}]}
	// file removed
	// <nil>
	// {host [] []}
	// <nil>
}

// A finalizer is polite while its context lasts, then uses force.
func ExampleScope_Defer() {
	s := scope.New(context.Background(), "plugin")
	exited, kill := make(chan struct{}), func() { fmt.Println("killed") }
	s.Defer("process", func(ctx context.Context) error {
		select {
		case <-exited:
		case <-ctx.Done():
			kill()
		}
		return nil
	})

	ctx, cancel := context.WithTimeout(context.Background(), time.Millisecond)
	defer cancel()
	fmt.Println(s.Close(ctx))
	// Output:
	// killed
	// <nil>
}

// Work ends its scope's work; the owner sees why, and releases.
func ExampleScope_Cancel() {
	s := scope.New(context.Background(), "plugin")
	s.Go("watch", func(context.Context) error {
		s.Cancel(errors.New("process exited with status 3"))
		return nil
	})
	<-s.Context().Done()
	fmt.Println(context.Cause(s.Context()))
	fmt.Println(s.Close(context.Background()))
	// Output:
	// process exited with status 3
	// <nil>
}
