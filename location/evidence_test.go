package location_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/toolhost/toolhost/config"
	"github.com/toolhost/toolhost/location"
	"github.com/toolhost/toolhost/plugin/client"
	"github.com/toolhost/toolhost/plugin/sdk"
	"github.com/toolhost/toolhost/scope"
	"github.com/toolhost/toolhost/service"
	"github.com/toolhost/toolhost/service/permission"
	"github.com/toolhost/toolhost/state"
	"github.com/toolhost/toolhost/tool"
	"github.com/toolhost/toolhost/tool/registry"
)

// hasher is a plugin that reads a file as a stream, to its end or not.
func hasher() sdk.Plugin {
	type input struct {
		Path  string `json:"path"`
		Bytes int64  `json:"bytes"`
	}
	return sdk.Plugin{Name: "hasher", Version: "1", Needs: []sdk.Service{sdk.FileSystemRead}, Activate: func(ctx context.Context, loc sdk.Location) error {
		files, err := loc.FileSystem()
		if err != nil {
			return err
		}
		_, err = loc.Tools.Register(ctx, sdk.Tools{
			"hash": sdk.New("Hash", func(ctx context.Context, _ sdk.Call, in input) (string, error) {
				root, err := files.ResolveRoot(ctx, in.Path)
				if err != nil {
					return "", sdk.ToFailure(err)
				}
				hash := sha256.New()
				if _, err := io.Copy(hash, io.LimitReader(root.Reader(ctx, 0), in.Bytes)); err != nil {
					return "", sdk.ToFailure(err)
				}
				return hex.EncodeToString(hash.Sum(nil)), nil
			}, sdk.Read),
		})
		return err
	}}
}

// reader is a Location with the filesystem tools, the hasher and a store, in which everything is
// allowed.
func reader(t *testing.T, root string, store *state.Store, log *slog.Logger) *location.Location {
	t.Helper()
	life := scope.New(context.Background(), "test")
	t.Cleanup(func() {
		if err := life.Close(context.Background()); err != nil {
			t.Error(err)
		}
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})
	runDir, err := client.OpenRunDir(life)
	if err != nil {
		t.Fatal(err)
	}
	everything := permission.List{Rules: []permission.Rule{{Action: parse(t, "*"), Resource: parse(t, "*"), Effect: permission.Allow}}}
	grants := []service.Grant{service.GrantFileSystemRead, service.GrantFileSystemWrite, service.GrantPermission}
	l, err := location.Open(t.Context(), life, config.Location{
		Name: "here", Root: root, Instructions: []string{"AGENTS.md"}, Policy: &permission.Policy{Lists: []permission.List{everything}},
		Plugins: []config.Plugin{
			{Name: "filesystem", Builtin: "filesystem", Grants: grants}, {Name: "hasher", Builtin: "hasher", Grants: grants},
		},
	}, location.Options{
		Launcher: launcher, Tier: tier(life), RunDir: runDir, State: store, Log: log,
		Builtins: map[string][]string{"filesystem": {"/proc/self/exe", "__filesystem"}, "hasher": {"/proc/self/exe", "__hasher"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// read calls the tool read for a session.
func read(t *testing.T, l *location.Location, session, path string) tool.Settlement {
	t.Helper()
	return call(t, l, session, "read", fmt.Sprintf(`{"path": %q}`, path))
}

func call(t *testing.T, l *location.Location, session, name, input string) tool.Settlement {
	t.Helper()
	settlement, err := l.Capture().Call(t.Context(), registry.Request{
		Identity: tool.Identity{Session: session, Agent: "main", Message: "m", Call: "c"}, Name: name,
		Input: []byte(input), Instructions: true,
	})
	if err != nil || settlement.Status != tool.Completed {
		t.Fatalf("%+v, %v", settlement, err)
	}
	return settlement
}

// What a call of the tool read gave a session is in the user's state under the real
// root, for the next command; the instructions that came with it are not.
//
// Seen to fail: with the root as it was declared; without the session in the broker's
// caller; with the session in the Finder's.
func TestLaw28EvidenceSpansCommands(t *testing.T) {
	base := t.TempDir()
	root, text := filepath.Join(base, "root"), []byte("one\ntwo\n")
	for name, content := range map[string][]byte{"dir/f": text, "dir/AGENTS.md": []byte("be kind\n")} {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	alias := filepath.Join(base, "alias")
	if err := os.Symlink(root, alias); err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(base, "state")
	s := read(t, reader(t, alias, state.New(state.Options{Dir: dir}), slog.New(slog.DiscardHandler)), "mine", "dir/f")
	if len(s.Instructions) != 1 {
		t.Errorf("got %d instructions, want those of the directory", len(s.Instructions))
	}

	next := state.New(state.Options{Dir: dir})
	defer next.Close()
	real, err := filepath.EvalSymlinks(root)
	if err != nil {
		t.Fatal(err)
	}
	want := sha256.Sum256(text)
	if got, ok, err := next.FileSeen(t.Context(), real, "mine", "dir/f"); !ok || !bytes.Equal(got, want[:]) || err != nil {
		t.Errorf("dir/f: got %x, %v, %v", got, ok, err)
	}
	for session, path := range map[string]string{"mine": "dir/AGENTS.md", "": "dir/AGENTS.md", "other": "dir/f"} {
		if _, ok, err := next.FileSeen(t.Context(), real, session, path); ok || err != nil {
			t.Errorf("%q and %s: seen %v, %v", session, path, ok, err)
		}
	}
}

// A plugin in a process of its own that reads all bytes of a file has read it for the
// session, and one that stops before has not.
func TestLaw28BytesSpanCommands(t *testing.T) {
	base := t.TempDir()
	root, content := filepath.Join(base, "root"), bytes.Repeat([]byte("\x00\xff"), 3<<20)
	if err := os.Mkdir(root, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"whole", "part"} {
		if err := os.WriteFile(filepath.Join(root, name), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	store := state.New(state.Options{Dir: filepath.Join(base, "state")})
	l := reader(t, root, store, slog.New(slog.DiscardHandler))
	want := sha256.Sum256(content)
	s := call(t, l, "mine", "hash", fmt.Sprintf(`{"path": "whole", "bytes": %d}`, len(content)+1))
	if got := string(s.Structured); got != fmt.Sprintf("%q", hex.EncodeToString(want[:])) {
		t.Errorf("the plugin read something else: %s", got)
	}
	call(t, l, "mine", "hash", `{"path": "part", "bytes": 100}`)
	real, err := filepath.EvalSymlinks(root)
	if err != nil {
		t.Fatal(err)
	}
	if got, ok, err := store.FileSeen(t.Context(), real, "mine", "whole"); !ok || !bytes.Equal(got, want[:]) || err != nil {
		t.Errorf("whole: got %x, %v, %v", got, ok, err)
	}
	if _, ok, err := store.FileSeen(t.Context(), real, "mine", "part"); ok || err != nil {
		t.Errorf("part: seen %v, %v", ok, err)
	}
}

// A state that cannot be written fails no reading, and is said once.
func TestLaw28EvidenceCannotBeKept(t *testing.T) {
	root := t.TempDir()
	for _, name := range []string{"a", "b"} {
		if err := os.WriteFile(filepath.Join(root, name), []byte("text\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	notDir := filepath.Join(t.TempDir(), "state")
	if err := os.WriteFile(notDir, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	l := reader(t, root, state.New(state.Options{Dir: notDir}), slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelWarn})))
	for _, name := range []string{"a", "b", "a"} {
		read(t, l, "mine", name)
	}
	if err := l.Close(context.Background()); err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(log.String(), "what sessions read is remembered by this process alone"); n != 1 {
		t.Errorf("said %d times:\n%s", n, &log)
	}
}
