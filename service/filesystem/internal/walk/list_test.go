package walk

import (
	"runtime"
	"sync/atomic"
	"testing"

	"github.com/toolhost/toolhost/service"
)

// Little is read ahead of a listing that ends soon, however long the first name takes to be delivered.
//
// Seen to fail: with names that count for what they take alone.
func TestListReadsLittleAhead(t *testing.T) {
	w := at(t, wide(t, 100, 100))
	const limit = 100
	var judged atomic.Int32
	shown := 0
	err := List(t.Context(), Listing{
		Dir: w.Dir, Depth: 2, Limit: limit, Workers: 2,
		Allows: func(string) bool { judged.Add(1); return true },
	}, func(n Name) bool {
		for i := 0; i < 100_000 && shown == 0; i++ {
			runtime.Gosched()
		}
		if shown++; n.Kind != service.Directory && n.Kind != service.RegularFile {
			t.Errorf("%+v", n)
		}
		return shown < limit
	})
	// What is enough, and what each worker is at.
	if most := int32(limit + readBehind + 3*(limit+1)); err != nil || shown != limit || judged.Load() > most {
		t.Errorf("%d names were judged for %d, want at most %d: %v", judged.Load(), shown, most, err)
	}
}
