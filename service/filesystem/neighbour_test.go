package filesystem

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/toolhost/toolhost/service"
)

// neighbourTime is how long the hostile neighbour is at work; TOOLHOST_NEIGHBOUR says
// otherwise, as in make neighbour.
func neighbourTime(t *testing.T) time.Duration {
	t.Helper()
	text := os.Getenv("TOOLHOST_NEIGHBOUR")
	if text == "" {
		return 2 * time.Second
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// A neighbour who swaps directories, links and bytes in a loop brings about no write and
// no read outside the root, no file of which half is new, no file that is left over, and
// no success that is not on disk (laws 25 to 28, case A05).
//
// Seen to fail: with directories that are opened by name, not compared, and not looked
// for afterwards.
func TestLaw27HostileNeighbour(t *testing.T) {
	const size = 4 << 10
	base := t.TempDir()
	root, outside := filepath.Join(base, "root"), filepath.Join(base, "outside")
	page := func(letter byte) []byte { return bytes.Repeat([]byte{letter}, size) }
	for _, dir := range []string{root + "/p", root + "/q"} {
		write(t, dir, "f | "+string(page('o')), "mine | "+string(page('0')), "theirs | "+string(page('a')), "x/keep | k")
	}
	write(t, outside, "f | "+string(page('#')), "mine | "+string(page('#')), "theirs | "+string(page('#')), "x/keep | k", "new/deep/1 | n")
	before := tree(t, outside)
	f := open(t, root)
	ctx, cancel := context.WithTimeout(t.Context(), neighbourTime(t))
	defer cancel()
	var neighbours, work sync.WaitGroup
	var made, refused [5]atomic.Int64
	forever := func(group *sync.WaitGroup, do func(i int)) {
		group.Go(func() {
			for i := 0; ctx.Err() == nil; i++ {
				do(i)
			}
		})
	}

	mine, err := os.Open(root + "/p") // the two directories, whatever they are called
	if err != nil {
		t.Fatal(err)
	}
	defer mine.Close()
	other, err := os.Open(root + "/q")
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	pause := func() { time.Sleep(time.Duration(rand.N(2000)) * time.Microsecond) }
	back := func(away string) { // also if a directory was made where there was none
		for os.Rename(away, root+"/p") != nil && ctx.Err() == nil {
			_ = os.RemoveAll(root + "/p")
		}
	}
	within := func(dir *os.File, name string) string { return fmt.Sprintf("/proc/self/fd/%d/%s", dir.Fd(), name) }

	// The directory p is itself, a link out, a link to the other one, the other one, or gone.
	forever(&neighbours, func(i int) {
		switch rand.N(4) {
		case 0:
			_ = os.Rename(root+"/p", root+"/away")
			_ = os.Symlink(outside, root+"/p")
			pause()
			back(root + "/away")
		case 1:
			_ = unix.Renameat2(unix.AT_FDCWD, root+"/p", unix.AT_FDCWD, root+"/q", unix.RENAME_EXCHANGE)
			pause()
			_ = unix.Renameat2(unix.AT_FDCWD, root+"/p", unix.AT_FDCWD, root+"/q", unix.RENAME_EXCHANGE)
		case 2:
			_ = os.Rename(root+"/p", root+"/away")
			_ = os.Symlink("q", root+"/p")
			pause()
			back(root + "/away")
		case 3:
			_ = os.Rename(root+"/p", root+"/q/deep")
			pause()
			back(root + "/q/deep")
		}
		pause()
	})
	// The file f is another one, a link out, or gone.
	forever(&neighbours, func(i int) {
		for _, dir := range []*os.File{mine, other} {
			name := within(dir, fmt.Sprint(".n", i))
			if rand.N(3) == 0 {
				_ = os.Symlink(outside+"/f", name)
			} else {
				_ = os.WriteFile(name, page(byte('p'+rand.N(8))), 0o644)
			}
			_ = os.Rename(name, within(dir, "f"))
			_ = os.Remove(name)
		}
		pause()
	})
	// The file theirs is written in place.
	forever(&neighbours, func(i int) {
		if file, err := os.OpenFile(within(other, "theirs"), os.O_WRONLY, 0); err == nil {
			_, _ = file.WriteAt([]byte{byte('a' + rand.N(26))}, int64(rand.N(size)))
			_ = file.Close()
		}
		pause()
	})

	try := func(kind int, change service.Change, check func()) {
		s, err := f.Stage(ctx, by("s"), change)
		if err == nil {
			pause()
			err = s.Commit(ctx, by("s"))
		}
		if err != nil {
			refused[kind].Add(1)
			return
		}
		made[kind].Add(1)
		if check != nil {
			check()
		}
	}
	forever(&work, func(i int) { // only this writes mine: what it is told was written is there
		letter := byte('A' + i%26)
		var old [2]byte
		for k, dir := range []*os.File{mine, other} {
			old[k] = first(dir, "mine")
		}
		try(0, service.EditFile{Path: "p/mine", Replacements: []service.Replacement{
			{Old: strings.Repeat(string(old[0]), size), New: strings.Repeat(string(letter), size)},
		}}, func() {
			if first(mine, "mine") != letter && first(other, "mine") != letter {
				t.Errorf("a write of %c was said to be made, and is not on disk", letter)
			}
		})
	})
	forever(&work, func(i int) {
		letter := byte('A' + i%26)
		if c := first(mine, "f"); c != 0 {
			try(1, service.EditFile{Path: "p/f", Replacements: []service.Replacement{{Old: strings.Repeat(string(c), size), New: strings.Repeat(string(letter), size)}}}, nil)
		}
		try(4, service.EditFile{Path: "q/theirs", Replacements: []service.Replacement{{Old: string(first(other, "theirs")), New: "zz", All: true}}}, nil)
	})
	forever(&work, func(i int) {
		try(2, service.WriteFile{Path: fmt.Sprintf("p/new/deep/%d", i%7), Content: []byte("new"), CreateOnly: true}, nil)
		if i%10 == 9 {
			try(3, service.RemoveFile{Path: "p/new", Recursive: true}, nil)
		}
	})
	forever(&work, func(i int) { // nobody reads half of a file, or another one
		r, err := f.ResolveRoot(ctx, by("reader"), "p/f")
		if err != nil {
			return
		}
		defer r.Close()
		p, err := r.Read(ctx, service.ReadQuery{})
		if err == nil && p.Size > 0 && (p.Size != size || strings.Trim(p.Text, p.Text[:1]) != "") {
			t.Errorf("half a file: %d bytes, %.20q", p.Size, p.Text)
		}
		if err == nil && strings.HasPrefix(p.Text, "#") {
			t.Errorf("read a file outside, as %s", r.Info().Resolved)
		}
	})
	work.Wait()
	neighbours.Wait()
	for kind := range made {
		t.Logf("%d: %d made, %d refused", kind, made[kind].Load(), refused[kind].Load())
	}
	if made[0].Load() == 0 || refused[0].Load() == 0 || made[2].Load() == 0 {
		t.Error("nothing was made, or nothing refused")
	}
	if after := tree(t, outside); !maps.Equal(before, after) {
		t.Errorf("outside there are %d files of %d, or others", len(after), len(before))
	}
	for name := range tree(t, root) {
		if strings.Contains(name, ".toolhost-") {
			t.Errorf("%s is left over", name)
		}
	}
	if held := f.staged.all(); held != 0 || len(f.turns.files) > 0 {
		t.Errorf("%d bytes and %d turns are still held", held, len(f.turns.files))
	}
}

// first is how a file in a directory begins; 0 if it cannot be read.
func first(dir *os.File, name string) byte {
	fd, err := unix.Openat(int(dir.Fd()), name, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return 0
	}
	defer unix.Close(fd)
	var b [1]byte
	if n, _ := unix.Pread(fd, b[:], 0); n != 1 {
		return 0
	}
	return b[0]
}
