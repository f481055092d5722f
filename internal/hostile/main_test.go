package hostile

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"go.uber.org/goleak"
)

// The roles that the test binary plays when it is run again.
const (
	judgeRole  = "__judge"  // a host that has its plugins attack, and says what came of it
	victimRole = "__victim" // a host that has its plugins leave processes behind, and waits to be killed
)

// tableVariable names a file for the table.
const tableVariable = "TOOLHOST_HOSTILE_TABLE"

// requireVariable names the tier that a machine must have: a skip is a failure then.
const requireVariable = "TOOLHOST_REQUIRE_TIER"

func TestMain(m *testing.M) {
	if len(os.Args) > 2 {
		switch os.Args[1] {
		case judgeRole:
			os.Exit(say(judge(os.Args[2])))
		case victimRole:
			os.Exit(say(nil, leaveDaemons(os.Args[2])))
		}
	}
	goleak.VerifyTestMain(m)
}

// say prints what a role found out, for the test that started it.
func say(found any, err error) int {
	if err == nil {
		err = json.NewEncoder(os.Stdout).Encode(found)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// build builds the plugin, which is a program of its own as any plugin is, and the launcher, which is the one that users have:
// neither with the race detector, whose memory limits are not meant for, and without the C library, so that they need
// nothing of the machine. It gives their directory.
func build(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for name, source := range map[string]string{"plugin": "./plugin", "launcher": "../../cmd/host"} {
		command := exec.Command("go", "build", "-o", filepath.Join(dir, name), source)
		command.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := command.CombinedOutput(); err != nil {
			t.Fatalf("build the %s: %v\n%s", name, err, out)
		}
	}
	return dir
}
