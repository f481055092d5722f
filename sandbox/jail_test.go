package sandbox

import (
	"context"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/toolhost/toolhost/scope"
)

// confined starts a program in a jail and gives what it prints.
func confined(t *testing.T, spec Spec) (out string, exit Exit, err error) {
	t.Helper()
	owner := scope.New(context.Background(), "jail")
	defer owner.Close(context.Background())
	p, err := Start(t.Context(), owner, launcher(reaperRole), spec)
	if err != nil {
		return "", Exit{}, err
	}
	defer p.Kill(context.Background())
	var errs string
	done := make(chan struct{})
	go func() {
		defer close(done)
		b, _ := io.ReadAll(p.Stderr)
		errs = string(b)
	}()
	b, err := io.ReadAll(p.Stdout)
	<-p.Gone()
	p.Kill(context.Background())
	<-done
	return string(b) + errs, p.Exit(), err
}

func TestJailShell(t *testing.T) {
	dir := t.TempDir()
	os.WriteFile(dir+"/f", []byte("f\n"), 0o644)
	out, exit, err := confined(t, Spec{
		Path: "/bin/sh", Args: []string{"-c", "id; echo $$; ls -la / /tmp /dev; cat /proc/self/status | grep -i cap; cat " + dir + "/f; echo x > " + dir + "/g; echo y > /tmp/y; cat /tmp/y; ls /proc; pwd; env; ulimit -a; cat /proc/mounts; cat /etc/shadow; cat /etc/passwd"},
		Env: []string{"PATH=/usr/bin:/bin"}, Dir: dir,
		Policy: &Policy{Profile: Command, Read: []string{dir}},
	})
	t.Log(out, exit, err)
	programs := &Programs{}
	program, release, err := programs.Copy("/bin/echo")
	if err != nil {
		t.Fatal(err)
	}
	defer release()
	out, exit, err = confined(t, Spec{Path: "/bin/echo", Args: []string{"hello"}, Env: []string{}, Policy: &Policy{System: true}, Program: program})
	if strings.TrimSpace(out) != "hello" {
		t.Error(out, exit, err, program)
	}
}

func TestProbe(t *testing.T) {
	owner := scope.New(context.Background(), "probe")
	defer owner.Close(context.Background())
	if f := Probe(t.Context(), owner, launcher(reaperRole)); f.Tier != Strict {
		t.Error(f)
	}
}
