package sandbox

import (
	"context"
	"io"
	"os"
	"testing"
	"time"

	"github.com/toolhost/toolhost/scope"
)

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "__launch" {
		os.Exit(Main(os.Args[2:]))
	}
	os.Exit(m.Run())
}

func TestSmoke(t *testing.T) {
	sc := scope.New(context.Background(), "t")
	for _, l := range []Launcher{{Path: "/proc/self/exe", Args: []string{"__launch"}}, {}} {
		p, err := Start(context.Background(), sc, l, Spec{Path: "/bin/sh", Args: []string{"-c", "setsid sleep 300 & setsid sh -c 'sleep 301 & sleep 302' & echo hi; exit 3"}, Dir: "/"})
		if err != nil {
			t.Fatal(err)
		}
		<-p.Exited()
		out, _ := io.ReadAll(p.Stdout)
		t.Log(string(out), p.Exit(), p.Method())
		s := time.Now()
		t.Log(p.Kill(context.Background()), time.Since(s))
	}
	if err := sc.Close(context.Background()); err != nil {
		t.Fatal(err)
	}
	_, err := Start(context.Background(), scope.New(context.Background(), "t"), Launcher{Path: "/proc/self/exe", Args: []string{"__launch"}}, Spec{Path: "/nope", Dir: "/"})
	t.Log(err)
}
