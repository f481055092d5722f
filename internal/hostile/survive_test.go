package hostile

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"
)

// What a plugin leaves behind, in a session of its own and adopted by nobody, is gone within two seconds after the host was
// killed, even if the plugin killed the reaper before (laws 41, 46). Without confinement it stays.
func TestLaw41DaemonOfAHostilePlugin(t *testing.T) {
	programs := build(t)
	for _, who := range users() {
		t.Run(who.name, func(t *testing.T) {
			s := setUp(t, programs, who)
			words := fmt.Sprintf("daemon-%d-%d", os.Getpid(), who.id)
			command := s.run(victimRole, words, who)
			out, err := command.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := command.Start(); err != nil {
				t.Fatal(err)
			}
			var left map[string]Outcome
			line, err := bufio.NewReader(out).ReadBytes('\n')
			if err == nil {
				err = json.Unmarshal(line, &left)
			}
			if err != nil {
				t.Fatal(err, command.Wait())
			}
			alive := func(column string) []int { return processesOf(WordStay, words+"-"+column) }
			for _, column := range []string{off, exec_} {
				if !left[column].Done || !eventually(2*time.Second, func() bool { return len(alive(column)) == 1 }) {
					t.Errorf("%s: got %+v and processes %v, want that one is left, or the test proves nothing", column, left[column], alive(column))
				}
			}
			orphaned := func() bool {
				all := alive(off)
				return len(all) == 1 && !strings.Contains(commandOf(parentOf(all[0])), Launcher)
			}
			if !eventually(2*time.Second, orphaned) {
				t.Error("off: the reaper is still there")
			}
			if left[strict].Done {
				t.Error("strict: a process was made")
			}
			if err := command.Process.Kill(); err != nil {
				t.Fatal(err)
			}
			_ = command.Wait() // it was killed
			for _, column := range []string{strict, exec_} {
				if !eventually(2*time.Second, func() bool { return len(alive(column)) == 0 }) {
					t.Errorf("%s: processes %v are left", column, alive(column))
				}
			}
			for _, pid := range alive(off) {
				t.Logf("off: process %d outlives the host", pid)
				_ = syscall.Kill(pid, syscall.SIGKILL)
			}
		})
	}
}

func commandOf(pid int) string {
	line, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	return string(line)
}

func parentOf(pid int) int {
	stat, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	var parent int
	_, after, _ := strings.Cut(string(stat), ") ")
	_, _ = fmt.Sscanf(after, "%c %d", new(rune), &parent)
	return parent
}
