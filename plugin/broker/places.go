package broker

import (
	"context"
	"errors"

	"github.com/toolhost/toolhost/service"
	"github.com/toolhost/toolhost/service/filesystem"
	"github.com/toolhost/toolhost/service/process"
	"github.com/toolhost/toolhost/tool"
)

// Places finds the directories of a Location in which commands run, as [process.Options] want
// them: with the same care as files are opened. An empty path is the root. Errors are
// [*service.ProcessError]s, or the context's cause. It may be called concurrently for as long
// as files is open.
func Places(files *filesystem.FileSystem) func(ctx context.Context, gate tool.Gate, path string) (process.Place, error) {
	return func(ctx context.Context, gate tool.Gate, path string) (process.Place, error) {
		if path == "" {
			path = "."
		}
		root, err := files.ResolveRoot(ctx, filesystem.Caller{Gate: gate}, path)
		if err != nil {
			return process.Place{}, noPlace(err)
		}
		defer func() { _ = root.Close() }() // which was only looked at
		info := root.Info()
		if info.Kind != service.Directory {
			return process.Place{}, badDirectory(path, "is a file, and commands run in a directory; name the one that it is in")
		}
		place := process.Place{Path: info.Resolved}
		place.Device, place.Inode = root.ID()
		return place, nil
	}
}

// noPlace says why there is no such directory, and what to do.
func noPlace(err error) error {
	file, ok := errors.AsType[*service.FileError](err)
	if !ok {
		return err
	}
	switch file.Kind {
	case service.FileOutside:
		return badDirectory(file.Path, "leads out of the root; commands run in the root or in a directory below it")
	case service.FileNotFound:
		return badDirectory(file.Path, file.Detail+"; commands run in a directory that is there, such as \".\", the root")
	default:
		return badDirectory(file.Path, file.Detail+"; name another directory, such as \".\", the root")
	}
}

func badDirectory(path, detail string) error {
	return &service.ProcessError{Kind: service.ProcessBadDirectory, Subject: path, Detail: detail}
}
