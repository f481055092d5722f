package commit

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/toolhost/toolhost/service"
)

// leaveRecord makes a plan's record, and lets go of it as a killed host does.
func (p *place) leaveRecord(plan Plan, marks string) *run {
	p.t.Helper()
	r := newRun(p.fd, plan)
	var err error
	if r.record, err = plan.Records.begin(r.actions); err == nil {
		err = errors.Join(r.record.mark(marks), r.record.release())
	}
	if err != nil {
		p.t.Fatal(err)
	}
	return r
}

// What somebody did since the host was killed is kept: it is put back, or left and said,
// and said again, until its name is free (laws 27, 41).
//
// Seen to fail: without a look at the digest of what stands beside; with a move that takes
// the place of what is there; with the record removed all the same; without the done mark,
// and with it believed always.
func TestLaw41RecoverKeepsWhatIsTheUsers(t *testing.T) {
	type change = func(p *place, r *run)
	ready, done := readyMark, readyMark+doneMark
	for name, tt := range map[string]struct {
		step  func(p *place) Step
		marks string
		as    change // how the host and others left it
		want  map[string]string
		state State
		left  bool
	}{
		"written to at the last moment": {replaceF, ready, func(p *place, r *run) {
			p.write("d/"+r.actions[0].aside, "theirs")
			p.write("d/f", "new")
		}, map[string]string{"d/f": "theirs"}, Unchanged, false},
		"written to at the last moment, and since": {replaceF, done, func(p *place, r *run) {
			p.write("d/"+r.actions[0].aside, "theirs")
			p.write("d/f", "later")
		}, map[string]string{"d/f": "later", "d/ASIDE": "theirs"}, Left, true},
		"changed since it was replaced": {replaceF, ready, func(p *place, r *run) {
			p.write("d/"+r.actions[0].aside, "old")
			p.write("d/f", "later")
		}, map[string]string{"d/f": "later"}, Changed, false},
		"half written": {replaceF, "", func(p *place, r *run) {
			p.write("d/"+r.actions[0].aside, "ne")
		}, map[string]string{"d/f": "old"}, Unchanged, false},
		"a link in its place": {replaceF, "", func(p *place, r *run) {
			if err := os.Symlink("f", p.path("d/"+r.actions[0].aside)); err != nil {
				p.t.Fatal(err)
			}
		}, map[string]string{"d/f": "old", "d/ASIDE": "-> f"}, Left, true},
		"a directory in its place": {replaceF, ready, func(p *place, r *run) {
			p.write("d/"+r.actions[0].aside+"/x", "x")
		}, map[string]string{"d/f": "old", "d/ASIDE/": "", "d/ASIDE/x": "x"}, Left, true},
		"its name taken since it was removed": {removeF, ready, func(p *place, r *run) {
			p.rename("d/f", "d/"+r.actions[0].aside)
			p.write("d/f", "theirs")
		}, map[string]string{"d/f": "theirs", "d/ASIDE": "old"}, Left, true},
		"removed, and changed at the last moment": {removeF, done, func(p *place, r *run) {
			p.rename("d/f", "d/"+r.actions[0].aside)
			p.write("d/"+r.actions[0].aside, "theirs")
		}, map[string]string{"d/f": "theirs"}, Unchanged, false},
		"removed for good": {removeF, done, func(p *place, r *run) {
			p.rename("d/f", "d/"+r.actions[0].aside)
		}, map[string]string{}, Changed, false},
		"with both names": {removeF, ready, func(p *place, r *run) {
			if err := os.Link(p.path("d/f"), p.path("d/"+r.actions[0].aside)); err != nil {
				p.t.Fatal(err)
			}
		}, map[string]string{"d/f": "old"}, Unchanged, false},
		"a tree with something new": {removeTree, done, func(p *place, r *run) {
			p.rename("tree", r.actions[0].aside)
			p.write(r.actions[0].aside+"/a/new", "new")
		}, map[string]string{"d/f": "old", "tree/": "", "tree/a/": "", "tree/a/new": "new"}, Partly, false},
		"a tree that is half removed": {removeTree, done, func(p *place, r *run) {
			p.rename("tree", r.actions[0].aside)
			if err := os.Remove(p.path(r.actions[0].aside + "/a/b")); err != nil {
				p.t.Fatal(err)
			}
		}, map[string]string{"d/f": "old"}, Changed, false},
		"its directory gone": {replaceF, ready, func(p *place, _ *run) {
			p.rename("d", "e")
		}, map[string]string{"e/": "", "e/f": "old"}, Gone, false},
		"a link in place of its directory": {replaceF, ready, func(p *place, r *run) {
			p.write("d/"+r.actions[0].aside, "new")
			p.rename("d", "e")
			if err := os.Symlink("e", p.path("d")); err != nil {
				p.t.Fatal(err)
			}
		}, map[string]string{"d": "-> e", "e/": "", "e/f": "old", "e/ASIDE": "new"}, Gone, false},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPlace(t, map[string]string{"d/f": "old"})
			p.write("tree/a/b", "b")
			plan := p.plan(tt.step(p))
			plan.Records = Records{Dir: p.dir + ".records/changes", Root: p.dir}
			r := p.leaveRecord(plan, tt.marks)
			tt.as(p, r)
			for range 2 { // what is left is said again
				did := p.recover()
				if len(did) != 1 || did[0].State != tt.state {
					t.Errorf("recovered is %+v, want %s", did, tt.state)
				}
				if p.records() > 0 != tt.left {
					t.Errorf("%d records are left", p.records())
				}
				want := map[string]string{}
				for name, content := range tt.want {
					want[strings.Replace(name, "ASIDE", r.actions[0].aside, 1)] = content
				}
				if _, ok := want["tree/"]; !ok && name[:6] != "a tree" {
					maps.Copy(want, map[string]string{"tree/": "", "tree/a/": "", "tree/a/b": "b"})
				}
				if _, ok := want["e/"]; !ok {
					want["d/"] = ""
				}
				p.want(want)
				if !tt.left {
					break
				}
			}
		})
	}
}

func removeTree(p *place) Step { return Step{Kind: Remove, Path: "tree", Before: p.before("tree")} }

func (p *place) rename(from, to string) {
	p.t.Helper()
	if err := os.Rename(p.path(from), p.path(to)); err != nil {
		p.t.Fatal(err)
	}
}

// Hosts of one Location change files while others recover: nothing of a change that is
// being made is touched, and of those that were interrupted each is dealt with once
// (law 41).
//
// Seen to fail: without the lock of a record; without linked in begin.
func TestLaw41RecoverBesideLivingHosts(t *testing.T) {
	p := newPlace(t, nil)
	records := Records{Dir: p.dir + ".records/changes", Root: p.dir}
	other := Records{Dir: records.Dir, Root: "/another"}
	const hosts, left = 4, 300
	for i := range left {
		name := fmt.Sprint("left", i)
		p.write(name, "old")
		plan := p.plan(Step{Kind: Remove, Path: name, Before: p.before(name)})
		plan.Records = records
		p.rename(name, p.leaveRecord(plan, readyMark).actions[0].aside)
	}
	for i := range hosts {
		p.write(fmt.Sprint("f", i), "0")
	}
	foreign := p.plan()
	foreign.Records = other
	p.leaveRecord(foreign, "")
	stop := make(chan struct{})
	var living, recovering sync.WaitGroup
	var recovered atomic.Int64
	for range 3 {
		recovering.Go(func() {
			for {
				did, err := Recover(context.Background(), p.fd, records)
				if err != nil {
					t.Error(err)
				}
				recovered.Add(int64(len(did)))
				select {
				case <-stop:
					return
				default:
				}
			}
		})
	}
	living.Go(func() {
		for range 1000 {
			made, err := records.begin(nil)
			if err != nil || !made.linked() {
				t.Errorf("a record was swept as it was made: %v", err)
				return
			}
			if err := made.remove(); err != nil {
				t.Error(err)
			}
		}
	})
	for i := range hosts {
		living.Go(func() {
			name := fmt.Sprint("f", i)
			for n := range 50 {
				plan := p.plan(Step{Kind: Replace, Path: name, Content: []byte(fmt.Sprint(n + 1)), Before: p.before(name)})
				plan.Records = records
				if err := Run(context.Background(), p.fd, plan); err != nil {
					t.Errorf("%s: %v", name, err)
				}
			}
		})
	}
	living.Wait()
	close(stop)
	recovering.Wait()
	want := map[string]string{}
	for i := range left {
		want[fmt.Sprint("left", i)] = "old"
	}
	for i := range hosts {
		want[fmt.Sprint("f", i)] = "50"
	}
	p.want(want)
	if recovered.Load() != left || p.records() != 1 {
		t.Errorf("%d were recovered, want each of %d once; %d records are there, want that of another root", recovered.Load(), left, p.records())
	}
}

// Records that others could have put there, and links in place of them, are not believed,
// and those that cannot be read are said and keep no other from being (law 41).
//
// Seen to fail: without the look at the owner, the mode and the root.
func TestLaw41RecordsOfOthersAreNotBelieved(t *testing.T) {
	setUp := func(t *testing.T) (*place, Records, string) {
		t.Helper()
		p := newPlace(t, map[string]string{"f": "old"})
		plan := p.plan(Step{Kind: Remove, Path: "f", Before: p.before("f")})
		plan.Records = Records{Dir: p.dir + ".records/changes", Root: p.dir}
		aside := p.leaveRecord(plan, readyMark).actions[0].aside
		p.rename("f", aside)
		return p, plan.Records, aside
	}
	for name, spoil := range map[string]func(records Records, record string) error{
		"a directory that others can write to": func(records Records, _ string) error { return os.Chmod(records.Dir, 0o777) },
		"a directory of somebody else": func(records Records, _ string) error {
			if os.Geteuid() != 0 {
				return os.Chmod(records.Dir, 0o777)
			}
			return os.Chown(records.Dir, 12345, 12345)
		},
		"a link to the directory": func(records Records, _ string) error {
			return errors.Join(os.Rename(records.Dir, records.Dir+"2"), os.Symlink(records.Dir+"2", records.Dir))
		},
		"a link to the record": func(records Records, record string) error {
			return errors.Join(os.Rename(record, records.Dir+"/../record"), os.Symlink("../record", record))
		},
		"a damaged record": func(_ Records, record string) error { return os.WriteFile(record, []byte("{\n"), 0o600) },
		"a newer record": func(records Records, record string) error {
			return os.WriteFile(record, fmt.Appendf(nil, `{"Version":2,"Root":%q}`+"\n", base64.StdEncoding.EncodeToString([]byte(records.Root))), 0o600)
		},
		"a name of the user's": func(records Records, record string) error {
			root := base64.StdEncoding.EncodeToString([]byte(records.Root))
			return os.WriteFile(record, fmt.Appendf(nil, `{"Version":1,"Root":%q,"Steps":[{"Aside":"Zg=="}]}`+"\n", root), 0o600)
		},
		"another root's": func(records Records, record string) error {
			return os.WriteFile(record, []byte(`{"Version":1,"Root":"YQ=="}`+"\n"), 0o600)
		},
	} {
		t.Run(name, func(t *testing.T) {
			p, records, aside := setUp(t)
			names, err := filepath.Glob(records.Dir + "/*")
			if err != nil || len(names) != 1 {
				t.Fatal(names, err)
			}
			if err := spoil(records, names[0]); err != nil {
				t.Fatal(err)
			}
			if did, err := Recover(t.Context(), p.fd, records); err == nil || len(did) > 0 {
				t.Errorf("recovered is %+v, %v, want an error", did, err)
			}
			p.want(map[string]string{aside: "old"})
		})
	}
}

// A change that cannot be recorded is not made; one that is over leaves no record, and one
// of which something is left does.
//
// Seen to fail: with the error of begin, or of a mark, left out.
func TestLaw41WhatIsNotRecordedIsNotDone(t *testing.T) {
	p := newPlace(t, map[string]string{"f": "old"})
	records := Records{Dir: p.dir + ".records/changes", Root: p.dir}
	p.write("../"+filepath.Base(p.dir)+".records", "a file")
	plan := p.plan(Step{Kind: Replace, Path: "f", Content: []byte("new"), Before: p.before("f")})
	plan.Records = records
	wantKind(t, Run(t.Context(), p.fd, plan), service.FileIO, "", "could not be recorded")
	p.want(map[string]string{"f": "old"})
	if err := os.Remove(p.dir + ".records"); err != nil {
		t.Fatal(err)
	}
	r := newRun(p.fd, plan)
	var err error
	if r.record, err = plan.Records.begin(r.actions); err != nil {
		t.Fatal(err)
	}
	r.record.file.Close()
	if err := r.mark(readyMark); err == nil {
		t.Error("a mark that cannot be written is no error")
	}
	if err := Run(t.Context(), p.fd, plan); err != nil {
		t.Fatal(err)
	}
	if p.records() != 1 { // that of r
		t.Errorf("%d records are left", p.records())
	}
	if did := p.recover(); len(did) != 1 || did[0].State != Changed {
		t.Errorf("recovered is %+v", did)
	}
	p.want(map[string]string{"f": "new"})
}
