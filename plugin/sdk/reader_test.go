package sdk_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/toolhost/toolhost/plugin/sdk"
	"github.com/toolhost/toolhost/plugin/sdk/sdktest"
)

// reading is a plugin whose tool does what a test says with a file.
func reading(path string, do func(ctx context.Context, root *sdk.Root) error) sdk.Plugin {
	return sdk.Plugin{Name: "reading", Version: "1", Activate: func(ctx context.Context, loc sdk.Location) error {
		files, err := loc.FileSystem()
		if err != nil {
			return err
		}
		_, err = loc.Tools.Register(ctx, sdk.Tools{
			"try": sdk.New("Try", func(ctx context.Context, _ sdk.Call, _ struct{}) (string, error) {
				root, err := files.ResolveRoot(ctx, path)
				if err == nil {
					err = do(ctx, root)
				}
				if err != nil {
					return "", sdk.Failure(err.Error())
				}
				return "ok", nil
			}, sdk.Read),
		})
		return err
	}}
}

// try runs what a test does with a file.
func try(t *testing.T, files map[string]string, path string, do func(ctx context.Context, root *sdk.Root) error) {
	t.Helper()
	if o := sdktest.Start(t, reading(path, do), sdktest.Options{Files: files}).Call("try", "{}"); o.Text != "ok" {
		t.Error(o)
	}
}

// A Reader is one as the standard library means it, on bytes of any kind and number.
func TestReader(t *testing.T) {
	for _, size := range []int{0, 1, 64 << 10, 64<<10 + 1, 5 << 20} {
		content := strings.Repeat("\x00\xff some bytes\r\n", size/15+1)[:size]
		try(t, map[string]string{"f": content}, "f", func(ctx context.Context, root *sdk.Root) error {
			for _, offset := range []int{0, 1, size / 2, size, size + 9} {
				got, err := io.ReadAll(root.Reader(ctx, int64(offset)))
				if want := content[min(offset, size):]; err != nil || string(got) != want {
					return fmt.Errorf("from %d: got %d bytes, %w, want %d", offset, len(got), err, len(want))
				}
			}
			if size > 1<<20 {
				return nil // it reads single bytes
			}
			return iotest.TestReader(root.Reader(ctx, 0), []byte(content))
		})
	}
}

// What ends a Reader is what its last Read says, and every further one.
func TestReaderEnds(t *testing.T) {
	files := map[string]string{"dir/f": strings.Repeat("x", 4<<20)}
	fail := func(what string, err, want error) error {
		if !errors.Is(err, want) {
			return fmt.Errorf("%s: got %w, want %w", what, err, want)
		}
		return nil
	}
	try(t, files, "dir/f", func(ctx context.Context, root *sdk.Root) error {
		buf := make([]byte, 10)
		closed := root.Reader(ctx, 0)
		_, first := closed.Read(buf)
		if err := errors.Join(first, closed.Close(), closed.Close()); err != nil {
			return err
		}
		_, again := closed.Read(buf)

		leaving, leave := context.WithCancelCause(ctx)
		why := errors.New("enough")
		left := root.Reader(leaving, 0)
		_, first = left.Read(buf)
		leave(why)
		_, drained := io.Copy(io.Discard, left)

		released := root.Reader(ctx, 0)
		_, before := released.Read(buf)
		if err := errors.Join(first, before, root.Close(ctx)); err != nil {
			return err
		}
		_, after := io.Copy(io.Discard, released)
		_, twice := released.Read(buf)
		if stale := (*sdk.FileError)(nil); !errors.As(after, &stale) || !errors.Is(twice, after) {
			return fmt.Errorf("after the handle: got %w, then %w", after, twice)
		}
		return errors.Join(fail("closed", again, os.ErrClosed), fail("cancelled", drained, why))
	})
	try(t, files, "dir/f", func(ctx context.Context, root *sdk.Root) error {
		_, negative := root.Reader(ctx, -1).Read(make([]byte, 1))
		_, outside := root.Reader(context.Background(), 0).Read(make([]byte, 1))
		bad, broken := (*sdk.FileError)(nil), (*sdk.ServiceError)(nil)
		if !errors.As(negative, &bad) || !errors.As(outside, &broken) {
			return fmt.Errorf("got %w and %w", negative, outside)
		}
		return nil
	})
	try(t, files, "dir", func(ctx context.Context, root *sdk.Root) error {
		_, err := root.Reader(ctx, 0).Read(make([]byte, 1))
		if e := (*sdk.FileError)(nil); !errors.As(err, &e) || e.Path != "dir" {
			return fmt.Errorf("a directory: got %w", err)
		}
		return nil
	})
}
