package commit

import (
	"context"
	"crypto/sha256"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"github.com/toolhost/toolhost/service"
	"github.com/toolhost/toolhost/service/filesystem/internal/beneath"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// place is a root for the tests.
type place struct {
	t   *testing.T
	dir string
	fd  int
}

func newPlace(t *testing.T, files map[string]string) *place {
	t.Helper()
	p := &place{t: t, dir: t.TempDir()}
	for name, content := range files {
		p.write(name, content)
	}
	f, err := os.Open(p.dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	p.fd = int(f.Fd())
	return p
}

func (p *place) path(name string) string { return filepath.Join(p.dir, name) }

func (p *place) write(name, content string) {
	p.t.Helper()
	if err := os.MkdirAll(filepath.Dir(p.path(name)), 0o755); err != nil {
		p.t.Fatal(err)
	}
	if err := os.WriteFile(p.path(name), []byte(content), 0o644); err != nil {
		p.t.Fatal(err)
	}
}

// before is what is there now.
func (p *place) before(name string) Before {
	p.t.Helper()
	info, err := beneath.Lstat(p.fd, name)
	if err != nil {
		p.t.Fatal(err)
	}
	b := Before{Info: info}
	switch info.Kind {
	case service.RegularFile:
		content, err := os.ReadFile(p.path(name))
		if err != nil {
			p.t.Fatal(err)
		}
		b.Digest = sha256.Sum256(content)
	case service.Symlink:
		b.Target, err = os.Readlink(p.path(name))
	case service.Directory:
		b.Tree, err = Tree(p.t.Context(), p.fd, name, 100)
	}
	if err != nil {
		p.t.Fatal(err)
	}
	return b
}

// plan is a plan of the steps, about the directories as they are.
func (p *place) plan(steps ...Step) Plan {
	p.t.Helper()
	plan := Plan{Directories: map[string]beneath.Info{}, Steps: steps}
	for _, s := range steps {
		for _, path := range []string{s.Path, s.To} {
			for dir := dirOf(path); path != ""; dir = dirOf(dir) {
				if info, err := beneath.Lstat(p.fd, dir); err == nil {
					plan.Directories[dir] = info
				}
				if dir == "." {
					break
				}
			}
		}
	}
	return plan
}

// tree is all that is there: content by name, directories with a slash, links with an
// arrow.
func (p *place) tree() map[string]string {
	p.t.Helper()
	all := map[string]string{}
	err := filepath.WalkDir(p.dir, func(path string, d os.DirEntry, err error) error {
		name := strings.TrimPrefix(strings.TrimPrefix(path, p.dir), "/")
		switch {
		case err != nil || name == "":
			return err
		case d.IsDir():
			all[name+"/"] = ""
		case d.Type()&os.ModeSymlink != 0:
			target, err := os.Readlink(path)
			all[name] = "-> " + target
			return err
		case !d.Type().IsRegular():
			all[name] = d.Type().String()
		default:
			content, err := os.ReadFile(path)
			all[name] = string(content)
			return err
		}
		return nil
	})
	if err != nil {
		p.t.Fatal(err)
	}
	return all
}

func (p *place) want(want map[string]string) {
	p.t.Helper()
	got := p.tree()
	for name, content := range want {
		if have, ok := got[name]; !ok || have != content {
			p.t.Errorf("%s is %q (there: %v), want %q", name, have, ok, content)
		}
	}
	for name := range got {
		if _, ok := want[name]; !ok {
			p.t.Errorf("%s is there", name)
		}
	}
}

// Each step alone, and what is left.
func TestRun(t *testing.T) {
	p := newPlace(t, map[string]string{"f": "old", "d/g": "g", "gone": "x", "moved": "m", "tree/a/b": "b", "tree/c": "c"})
	if err := os.Symlink("f", p.path("link")); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(p.path("f"), 0o640); err != nil {
		t.Fatal(err)
	}
	err := Run(t.Context(), p.fd, p.plan(
		Step{Kind: MakeDirectory, Path: "new"},
		Step{Kind: MakeDirectory, Path: "new/deep"},
		Step{Kind: Create, Path: "new/deep/file", Content: []byte("created"), Executable: true},
		Step{Kind: Replace, Path: "f", Content: []byte("replaced"), Before: p.before("f")},
		Step{Kind: Remove, Path: "gone", Before: p.before("gone")},
		Step{Kind: Remove, Path: "link", Before: p.before("link")},
		Step{Kind: Remove, Path: "tree", Before: p.before("tree")},
		Step{Kind: Move, Path: "moved", To: "d/moved", Before: p.before("moved")},
	))
	if err != nil {
		t.Fatal(err)
	}
	p.want(map[string]string{"f": "replaced", "d/": "", "d/g": "g", "d/moved": "m", "new/": "", "new/deep/": "", "new/deep/file": "created"})
	if info, err := os.Stat(p.path("f")); err != nil || info.Mode().Perm() != 0o640 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	if info, err := os.Stat(p.path("new/deep/file")); err != nil || info.Mode().Perm()&0o100 == 0 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
}

// What changed between the plan and the commit refuses it, and leaves nothing behind
// (law 27): everything else is as it was, and what changed as it became.
//
// Seen to fail: without the comparison of digests; of directories; of trees; of links.
func TestLaw27WhatChangedRefuses(t *testing.T) {
	outside := t.TempDir()
	for name, tt := range map[string]struct {
		step   func(p *place) Step
		change func(p *place) error
	}{
		"the bytes":        {replaceF, func(p *place) error { return os.WriteFile(p.path("d/f"), []byte("other"), 0o644) }},
		"as many bytes":    {replaceF, func(p *place) error { return os.WriteFile(p.path("d/f"), []byte("odl"), 0o644) }},
		"the file is gone": {replaceF, func(p *place) error { return os.Remove(p.path("d/f")) }},
		"the file is a link": {replaceF, func(p *place) error {
			return errors.Join(os.WriteFile(outside+"/f", []byte("old"), 0o644), os.Remove(p.path("d/f")), os.Symlink(outside+"/f", p.path("d/f")))
		}},
		"the file is a pipe":      {replaceF, func(p *place) error { return errors.Join(os.Remove(p.path("d/f")), unix.Mkfifo(p.path("d/f"), 0o644)) }},
		"the file is a directory": {replaceF, func(p *place) error { return errors.Join(os.Remove(p.path("d/f")), os.Mkdir(p.path("d/f"), 0o755)) }},
		"the directory is another one": {replaceF, func(p *place) error {
			return errors.Join(os.Rename(p.path("d"), p.path("was")), os.Mkdir(p.path("d"), 0o755), os.WriteFile(p.path("d/f"), []byte("old"), 0o644))
		}},
		"the directory is a link": {replaceF, func(p *place) error {
			return errors.Join(os.Rename(p.path("d"), p.path("was")), os.Symlink(p.path("was"), p.path("d")))
		}},
		"the directory is a link out": {createG, func(p *place) error {
			return errors.Join(os.Rename(p.path("d"), p.path("was")), os.Symlink(outside, p.path("d")))
		}},
		"the name is taken":           {createG, func(p *place) error { return os.WriteFile(p.path("d/g"), nil, 0o644) }},
		"the name is taken by a link": {createG, func(p *place) error { return os.Symlink(outside+"/later", p.path("d/g")) }},
		"what is removed changed":     {removeF, func(p *place) error { return os.WriteFile(p.path("d/f"), []byte("other"), 0o644) }},
		"more is removed": {func(p *place) Step { return Step{Kind: Remove, Path: "d", Before: p.before("d")} },
			func(p *place) error { return os.WriteFile(p.path("d/more"), nil, 0o644) }},
		"other bytes are removed": {func(p *place) Step { return Step{Kind: Remove, Path: "d", Before: p.before("d")} },
			func(p *place) error { return os.WriteFile(p.path("d/f"), []byte("odl"), 0o644) }},
		"the link leads elsewhere": {func(p *place) Step {
			if err := os.Symlink("f", p.path("d/l")); err != nil {
				p.t.Fatal(err)
			}
			return Step{Kind: Remove, Path: "d/l", Before: p.before("d/l")}
		}, func(p *place) error { return errors.Join(os.Remove(p.path("d/l")), os.Symlink("g", p.path("d/l"))) }},
		"the new name is taken": {moveF, func(p *place) error { return os.WriteFile(p.path("to"), nil, 0o644) }},
		"another file is moved": {moveF, func(p *place) error {
			return errors.Join(os.WriteFile(p.path("d/x"), []byte("old"), 0o644), os.Rename(p.path("d/x"), p.path("d/f")))
		}},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPlace(t, map[string]string{"d/f": "old", "other": "other"})
			plan := p.plan(
				Step{Kind: MakeDirectory, Path: "made"},
				Step{Kind: Create, Path: "made/new", Content: []byte("new")},
				Step{Kind: Replace, Path: "other", Content: []byte("changed"), Before: p.before("other")},
				tt.step(p),
			)
			if err := tt.change(p); err != nil {
				t.Fatal(err)
			}
			want := p.tree()
			err := Run(t.Context(), p.fd, plan)
			if e, ok := errors.AsType[*service.FileError](err); !ok || e.Kind != service.FileStale || e.Path == "" {
				t.Errorf("got %v", err)
			}
			p.want(want)
			if left, err := os.ReadDir(outside); err != nil || name != "the file is a link" && len(left) > 0 && left[0].Name() != "f" {
				t.Errorf("outside: %v, %v", left, err)
			}
		})
	}
}

func replaceF(p *place) Step {
	return Step{Kind: Replace, Path: "d/f", Content: []byte("new"), Before: p.before("d/f")}
}
func removeF(p *place) Step { return Step{Kind: Remove, Path: "d/f", Before: p.before("d/f")} }
func moveF(p *place) Step   { return Step{Kind: Move, Path: "d/f", To: "to", Before: p.before("d/f")} }
func createG(*place) Step   { return Step{Kind: Create, Path: "d/g", Content: []byte("g")} }

// What changes between the last look and the change itself is seen in what comes out,
// and everything is taken back.
//
// Seen to fail: without the look at what was removed, or moved; without the one at the
// directories in the end; without the undoing of each kind of step.
func TestLaw27TheLastMoment(t *testing.T) {
	for name, tt := range map[string]struct {
		step   func(p *place) Step
		change func(p *place) error
	}{
		"replaced by name": {replaceF, func(p *place) error {
			return errors.Join(os.WriteFile(p.path("d/x"), []byte("theirs"), 0o644), os.Rename(p.path("d/x"), p.path("d/f")))
		}},
		"written":              {replaceF, func(p *place) error { return os.WriteFile(p.path("d/f"), []byte("theirs"), 0o644) }},
		"gone":                 {replaceF, func(p *place) error { return os.Remove(p.path("d/f")) }},
		"removed, and written": {removeF, func(p *place) error { return os.WriteFile(p.path("d/f"), []byte("theirs"), 0o644) }},
		"created":              {createG, func(p *place) error { return os.WriteFile(p.path("d/g"), []byte("theirs"), 0o644) }},
		"moved over":           {moveF, func(p *place) error { return os.WriteFile(p.path("to"), []byte("theirs"), 0o644) }},
		"another one is moved": {moveF, func(p *place) error {
			return errors.Join(os.WriteFile(p.path("d/x"), []byte("theirs"), 0o644), os.Rename(p.path("d/x"), p.path("d/f")))
		}},
		"the directory is away": {replaceF, func(p *place) error {
			return errors.Join(os.Rename(p.path("d"), p.path("away")), os.Mkdir(p.path("d"), 0o755))
		}},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPlace(t, map[string]string{"d/f": "old", "other": "other", "gone": "gone"})
			plan := p.plan(
				Step{Kind: MakeDirectory, Path: "made"},
				Step{Kind: Create, Path: "made/new", Content: []byte("new")},
				Step{Kind: Replace, Path: "other", Content: []byte("changed"), Before: p.before("other")},
				Step{Kind: Remove, Path: "gone", Before: p.before("gone")},
				tt.step(p),
			)
			r := newRun(p.fd, plan)
			defer r.close()
			if err := r.begin(t.Context()); err != nil {
				t.Fatal(err)
			}
			if err := tt.change(p); err != nil {
				t.Fatal(err)
			}
			err := r.show()
			if err == nil {
				t.Fatal("nothing was noticed")
			}
			if err = r.back(err); err == nil {
				t.Error("nothing is said")
			} else if e, ok := errors.AsType[*service.FileError](err); !ok || e.Kind != service.FileStale {
				t.Errorf("got %v", err)
			}
			want := map[string]string{"d/": "", "d/f": "old", "other": "other", "gone": "gone"}
			switch name {
			case "replaced by name", "written", "removed, and written", "another one is moved":
				want["d/f"] = "theirs"
			case "gone":
				delete(want, "d/f")
			case "created":
				want["d/g"] = "theirs"
			case "moved over":
				want["to"] = "theirs"
			case "the directory is away":
				delete(want, "d/f")
				want["away/"], want["away/f"] = "", "old"
			}
			p.want(want)
		})
	}
}

// A plan that is cancelled changes nothing.
func TestRunCancelled(t *testing.T) {
	p := newPlace(t, map[string]string{"f": "old"})
	ctx, cancel := context.WithCancelCause(t.Context())
	cause := errors.New("enough")
	cancel(cause)
	plan := p.plan(Step{Kind: MakeDirectory, Path: "made"}, Step{Kind: Replace, Path: "f", Content: []byte("new"), Before: p.before("f")})
	if err := Run(ctx, p.fd, plan); !errors.Is(err, cause) {
		t.Errorf("got %v", err)
	}
	p.want(map[string]string{"f": "old"})
}

// What the system refuses is said, and changes nothing.
func TestRunRefused(t *testing.T) {
	if os.Getuid() == 0 {
		t.Skip("root is refused nothing")
	}
	p := newPlace(t, map[string]string{"d/f": "old", "g": "g"})
	plan := p.plan(
		Step{Kind: Replace, Path: "g", Content: []byte("new"), Before: p.before("g")},
		Step{Kind: Replace, Path: "d/f", Content: []byte("new"), Before: p.before("d/f")},
	)
	if err := os.Chmod(p.path("d"), 0o555); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.Chmod(p.path("d"), 0o755) })
	if e, ok := errors.AsType[*service.FileError](Run(t.Context(), p.fd, plan)); !ok || e.Kind != service.FileDenied || e.Path != "d/f" {
		t.Errorf("got %v", e)
	}
	p.want(map[string]string{"d/": "", "d/f": "old", "g": "g"})
}
