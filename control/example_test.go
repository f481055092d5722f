package control_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/toolhost/toolhost/config"
	"github.com/toolhost/toolhost/control"
	"github.com/toolhost/toolhost/host"
	"github.com/toolhost/toolhost/scope"
	"github.com/toolhost/toolhost/service/permission"
	"github.com/toolhost/toolhost/tool"
)

// A program embeds a host and lets the user's other programs answer what it asks;
// one of them finds it, waits for a request, and says yes.
func Example() {
	if err := run(context.Background()); err != nil {
		fmt.Println(err)
	}
	// Output:
	// git/push wants main: approved
	// the call goes on
}

func run(ctx context.Context) (err error) {
	base, err := os.MkdirTemp("", "th")
	if err != nil {
		return err
	}
	defer os.RemoveAll(base)
	dir := filepath.Join(base, "toolhost")

	// The program.
	queue := permission.NewQueue(permission.QueueOptions{})
	h, err := host.Open(ctx, &config.Config{}, host.Options{Approver: queue})
	if err != nil {
		return err
	}
	life := scope.New(ctx, "program")
	defer func() { err = errors.Join(err, life.Close(context.WithoutCancel(ctx)), h.Close(ctx)) }()
	if _, err := control.Listen(life, control.Options{Dir: dir, Host: h, Queue: queue, Version: "1.0"}); err != nil {
		return err
	}
	answered := make(chan error, 1)
	if err := life.Go("a call", func(ctx context.Context) error {
		caller := permission.Caller{Identity: tool.Identity{Session: "s", Agent: "main", Message: "m", Call: "c"}, Tool: "git/push", Plugin: "git"}
		answered <- permission.New(&permission.Policy{}, queue).Gate(caller).Assert(ctx,
			tool.PermissionRequest{Action: "git/push", Resources: []string{"main"}})
		return nil
	}); err != nil {
		return err
	}

	// Another program of the user.
	hosts, err := control.Hosts(ctx, dir)
	if err != nil {
		return err
	}
	for _, c := range hosts {
		defer c.Close()
		if err := approveFirst(ctx, c); err != nil {
			return err
		}
	}
	if err := <-answered; err != nil {
		return err
	}
	fmt.Println("the call goes on")
	return nil
}

func approveFirst(ctx context.Context, c *control.Client) error {
	for list, err := range c.Watch(ctx) {
		if err != nil {
			return err
		}
		if len(list.Approvals) == 0 {
			continue
		}
		p := list.Approvals[0]
		_, err := c.Reply(ctx, p.ID, permission.Answer{Kind: permission.Once})
		if err == nil {
			fmt.Printf("%s wants %s: approved\n", p.Action, p.Resources[0])
		}
		return err
	}
	return nil
}
