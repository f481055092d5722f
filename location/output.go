package location

import (
	"context"

	"github.com/toolhost/toolhost/tool/output"
)

// Output reads a part of an output that was kept for the session in this Location; what
// it gives and its errors are those of [output.Keeper.Range]. It needs no permission:
// the session was given what the output is of.
func (l *Location) Output(ctx context.Context, session, handle string, offset, limit int64) (output.Part, error) {
	return l.current().outputs.Range(ctx, session, handle, offset, limit)
}
