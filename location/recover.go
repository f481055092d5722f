package location

import (
	"context"
	"fmt"
	"log/slog"
	"time"
)

// changesDir is where changes are recorded while they are made, beside the database of
// the state.
const changesDir = "changes"

// recoverPatience bounds how long a Location that opens deals with what a killed host
// left in its root. The rest is for the next that opens.
const recoverPatience = 5 * time.Second

var errRecovering = fmt.Errorf("it took longer than %v, and is gone on with the next time", recoverPatience)

// recoverChanges deals with the changes that killed hosts were in the middle of, before
// anybody looks at the files, and says what became of them. It fails nothing.
func (l *Location) recoverChanges(ctx context.Context) {
	ctx, cancel := context.WithTimeoutCause(ctx, recoverPatience, errRecovering)
	defer cancel()
	recovered, err := l.files.Recover(ctx)
	for _, r := range recovered {
		level, says := slog.LevelWarn, "a host was killed while it changed this file, which is whole"
		if !r.Whole {
			level, says = slog.LevelError, "a host was killed while it changed this file; look at it"
		}
		l.log.Log(ctx, level, says, slog.String("path", r.Path), slog.String("is", r.State), slog.String("detail", r.Detail))
	}
	if err != nil {
		l.log.Error("what killed hosts left of changes of files is not all dealt with", slog.Any("error", err))
	}
}
