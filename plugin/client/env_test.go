package client_test

import (
	"bufio"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/toolhost/toolhost/plugin/client"
	"github.com/toolhost/toolhost/plugin/internal/wire"
)

// A plugin sees what is on the list and what was passed through, and nothing of
// the host's environment (case B11). Once it serves, its children do not see
// go-plugin's variables either. Without SkipHostEnv the host's is appended.
func TestEnvironment(t *testing.T) {
	t.Setenv("HOST_SECRET", "x")
	b := newBench(t)
	spec := b.spec("many")
	spec.Env = append(spec.Env, "WEATHER_TOKEN=a=b", "LANG=de_DE.UTF-8", "TOOLHOST_PLUGIN=mine", "PLUGIN_UNIX_SOCKET_DIR=/elsewhere")
	b.startSpec(spec)
	want := []string{b.mark, "LANG=de_DE.UTF-8", "PATH=/usr/local/bin:/usr/bin:/bin", "TMPDIR=", "WEATHER_TOKEN=a=b"}
	all := value[[]string](b, "environ", `{}`)
	got := slices.DeleteFunc(slices.Clone(all), func(entry string) bool { return slices.Contains(client.PromptExit(), entry) })
	slices.Sort(got)
	if len(got) != len(want) {
		t.Fatalf("environment = %q, want %q", got, want)
	}
	var tmp string
	for n, entry := range got {
		if want[n] == "TMPDIR=" {
			tmp = strings.TrimPrefix(entry, "TMPDIR=")
			entry = "TMPDIR="
		}
		if entry != want[n] {
			t.Errorf("environment has %q, want %q", entry, want[n])
		}
	}
	if info, err := os.Stat(tmp); err != nil || !strings.HasPrefix(tmp, b.host.RunDir+"/") || info.Mode().Perm() != 0o700 {
		t.Errorf("TMPDIR = %s, %v, %v, want a directory of its own", tmp, info, err)
	}
	child := strings.FieldsSeq(value[shellOut](b, "shell", `{"text":"env"}`).Out)
	for entry := range child {
		name, _, _ := strings.Cut(entry, "=")
		if !slices.Contains([]string{"PWD", "OLDPWD", "SHLVL", "_"}, name) && !slices.Contains(all, entry) {
			t.Errorf("a child of the plugin sees %s", entry)
		}
	}
}

// Standard input is a lifeline of the host's own: a plugin and its children find
// it empty, and cannot eat what is meant for the host.
func TestStandardInput(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.start("many")
	if got := value[string](b, "stdin", `{}`); got != "" {
		t.Errorf("stdin = %q", got)
	}
	if got := value[shellOut](b, "shell", `{"text":"cat; echo end; ls -l /proc/self/fd/0"}`).Out; !strings.HasPrefix(got, "end") || !strings.Contains(got, "/dev/null") {
		t.Errorf("a child's stdin gives %q", got)
	}
}

// Whatever a plugin prints once it serves goes to the host's log, wherever it
// prints it, and the protocol stays whole. The working directory is the root.
func TestOutput(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	spec := b.spec("many")
	b.startSpec(spec)
	for _, where := range []string{"stdout", "stderr", "fd1", "fd2", "child", "standard log", "log"} {
		value[bool](b, "say", `{"where":"`+where+`","text":"1|1|tcp|printed to `+where+`\n"}`)
		eventually(t, "the line of "+where, func() bool { return strings.Contains(b.logged(), "printed to "+where) })
	}
	for line := range strings.Lines(b.logged()) {
		if strings.Contains(line, "printed to") && strings.Contains(line, "stream=stdout") {
			t.Errorf("it was printed where the protocol belongs: %s", line)
		}
	}
	value[bool](b, "say", `{"where":"stdout","times":64,"text":"`+strings.Repeat("x", 16<<10)+`"}`) // 1 MiB and no end of line
	value[bool](b, "say", `{"where":"fd1","times":64,"text":"`+strings.Repeat("x\\n", 8<<10)+`"}`)
	if got := value[string](b, "echo", `{"text":"still here"}`); got != "still here" {
		t.Errorf("echo = %q", got)
	}
	if got := strings.TrimSpace(value[shellOut](b, "shell", `{"text":"pwd -P"}`).Out); got != spec.Root {
		t.Errorf("the working directory is %s, want %s", got, spec.Root)
	}
}

// A plugin of go-plugin's, without the SDK, prints through go-plugin, in pieces.
func TestOutputOfARawPlugin(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	i := b.start("raw-prints")
	eventually(t, "the line", func() bool { return strings.Contains(b.logged(), "to stdout and to stderr") })
	b.close(i)
	wantIn(t, b.logged(), "no end of line")
}

// When the lifeline is closed the process ends by itself, whoever else looks
// after it.
func TestLifeline(t *testing.T) {
	t.Parallel()
	handshake := wire.Handshake()
	plugin := exec.Command("/proc/self/exe", "__plugin", "many")
	plugin.Env = []string{handshake.MagicCookieKey + "=" + handshake.MagicCookieValue, "PLUGIN_PROTOCOL_VERSIONS=1", "TMPDIR=" + t.TempDir()}
	stdin, err := plugin.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := plugin.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := plugin.Start(); err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(stdout).ReadString('\n'); !strings.HasPrefix(line, "1|1|unix|") {
		t.Errorf("handshake = %q, %v", line, err)
	}
	stdin.Close()
	kill := time.AfterFunc(patience, func() { _ = plugin.Process.Kill() })
	if err := plugin.Wait(); err == nil || !kill.Stop() {
		t.Errorf("it ended with %v, want by itself with a status", err)
	}
}

// A process that no host started says what it is.
func TestServeByHand(t *testing.T) {
	t.Parallel()
	for cookie, want := range map[string]string{"": "is a plugin of toolhost and does nothing by itself", "toolhost.plugin.v99": "many is incompatible: it has toolhost.plugin.v1, the host needs toolhost.plugin.v99"} {
		plugin := exec.Command("/proc/self/exe", "__plugin", "many")
		plugin.Env = []string{"TOOLHOST_PLUGIN=" + cookie}
		out, err := plugin.CombinedOutput()
		if err == nil || !strings.Contains(string(out), want) {
			t.Errorf("with the cookie %q: %v, %s", cookie, err, out)
		}
	}
}

// The log's reader may go: a plugin that logs all the while does not die of it,
// neither in a call (case F06) nor in a child, whose SIGPIPE is as usual.
func TestCaseF06LogReaderGone(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	i := b.start("noisy", "endless")
	if err := i.CloseOutput(); err != nil {
		t.Fatal(err)
	}
	if got := value[string](b, "wait", `{"millis":200}`); got != "waited" {
		t.Errorf("wait = %q", got)
	}
	got := value[shellOut](b, "shell", `{"text":"yes | head -c 2; sed -n s/SigIgn:.//p /proc/self/status"}`).Out
	ignored, err := strconv.ParseUint(strings.TrimSpace(strings.TrimPrefix(got, "y\n")), 16, 64)
	if err != nil || ignored&(1<<(syscall.SIGPIPE-1)) != 0 {
		t.Errorf("a child ignores SIGPIPE: %q, %v", got, err)
	}
	b.close(i)
}
