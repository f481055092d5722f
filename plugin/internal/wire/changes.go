package wire

import (
	"context"
	"fmt"

	"google.golang.org/grpc"

	pluginv1 "github.com/toolhost/toolhost/plugin/proto/toolhost/plugin/v1"
	"github.com/toolhost/toolhost/service"
)

// FileSystemWrite is the host's filesystem service, for changing. A stage belongs to
// the call whose token staged it, and to the action that this call prepared. Errors are
// [*service.FileError] or [*tool.Refusal]; anything else means that the connection broke.
type FileSystemWrite interface {
	Stage(ctx context.Context, change service.Change) (stage uint64, staged service.Staged, err error)
	Commit(ctx context.Context, stage uint64) error
	Unstage(ctx context.Context, stage uint64) error
}

// ServeFileSystemWrite puts f on server.
func ServeFileSystemWrite(server grpc.ServiceRegistrar, f FileSystemWrite) {
	pluginv1.RegisterFileSystemWriteServiceServer(server, &changesServer{files: f})
}

type changesServer struct {
	pluginv1.UnimplementedFileSystemWriteServiceServer
	files FileSystemWrite
}

func (s *changesServer) Stage(ctx context.Context, r *pluginv1.StageRequest) (*pluginv1.StageResponse, error) {
	var stage uint64
	var staged service.Staged
	change, err := changeFromWire(r)
	if err == nil {
		stage, staged, err = s.files.Stage(ctx, change)
	}
	e, err := serviceError(err)
	out := &pluginv1.StageResponse{Error: e, Stage: stage, Diff: text(staged.Diff), Irreversible: staged.Irreversible}
	for _, resource := range staged.Resources {
		out.Resources = append(out.Resources, []byte(resource))
	}
	for _, f := range staged.Files {
		out.Files = append(out.Files, &pluginv1.FileChange{
			Kind: string(f.Kind), Path: []byte(f.Path), Resolved: []byte(f.Resolved), From: []byte(f.From),
			Added: int64(f.Added), Removed: int64(f.Removed), Size: f.Size, Names: int64(f.Names), Notes: texts(f.Notes),
		})
	}
	return out, err
}

func (s *changesServer) Commit(ctx context.Context, r *pluginv1.CommitRequest) (*pluginv1.CommitResponse, error) {
	e, err := serviceError(s.files.Commit(ctx, r.GetStage()))
	return &pluginv1.CommitResponse{Error: e}, err
}

func (s *changesServer) Unstage(ctx context.Context, r *pluginv1.UnstageRequest) (*pluginv1.UnstageResponse, error) {
	return &pluginv1.UnstageResponse{}, s.files.Unstage(ctx, r.GetStage())
}

func changeFromWire(r *pluginv1.StageRequest) (service.Change, error) {
	switch c := r.GetChange().(type) {
	case *pluginv1.StageRequest_Write:
		return service.WriteFile{Path: c.Write.GetPath(), Content: c.Write.GetContent(), CreateOnly: c.Write.GetCreateOnly()}, nil
	case *pluginv1.StageRequest_Edit:
		edit := service.EditFile{Path: c.Edit.GetPath()}
		for _, x := range c.Edit.GetReplacements() {
			edit.Replacements = append(edit.Replacements, service.Replacement{Old: x.GetOld(), New: x.GetNew(), All: x.GetAll()})
		}
		return edit, nil
	case *pluginv1.StageRequest_Patch:
		return service.ApplyPatch{Text: c.Patch.GetText()}, nil
	case *pluginv1.StageRequest_Move:
		return service.MoveFile{From: c.Move.GetFrom(), To: c.Move.GetTo()}, nil
	case *pluginv1.StageRequest_Remove:
		return service.RemoveFile{Path: c.Remove.GetPath(), Recursive: c.Remove.GetRecursive()}, nil
	case *pluginv1.StageRequest_MakeDirectory:
		return service.MakeDirectory{Path: c.MakeDirectory.GetPath()}, nil
	default:
		return nil, &service.FileError{Kind: service.FileBadQuery, Detail: "the change is of a kind that this host does not know; it is older than the plugin"}
	}
}

func changeToWire(change service.Change) (*pluginv1.StageRequest, error) {
	switch c := change.(type) {
	case service.WriteFile:
		return &pluginv1.StageRequest{Change: &pluginv1.StageRequest_Write{
			Write: &pluginv1.WriteFile{Path: text(c.Path), Content: c.Content, CreateOnly: c.CreateOnly},
		}}, nil
	case service.EditFile:
		edit := &pluginv1.EditFile{Path: text(c.Path)}
		for _, x := range c.Replacements {
			edit.Replacements = append(edit.Replacements, &pluginv1.Replacement{Old: text(x.Old), New: text(x.New), All: x.All})
		}
		return &pluginv1.StageRequest{Change: &pluginv1.StageRequest_Edit{Edit: edit}}, nil
	case service.ApplyPatch:
		return &pluginv1.StageRequest{Change: &pluginv1.StageRequest_Patch{Patch: &pluginv1.ApplyPatch{Text: text(c.Text)}}}, nil
	case service.MoveFile:
		return &pluginv1.StageRequest{Change: &pluginv1.StageRequest_Move{Move: &pluginv1.MoveFile{From: text(c.From), To: text(c.To)}}}, nil
	case service.RemoveFile:
		return &pluginv1.StageRequest{Change: &pluginv1.StageRequest_Remove{
			Remove: &pluginv1.RemoveFile{Path: text(c.Path), Recursive: c.Recursive},
		}}, nil
	case service.MakeDirectory:
		return &pluginv1.StageRequest{Change: &pluginv1.StageRequest_MakeDirectory{MakeDirectory: &pluginv1.MakeDirectory{Path: text(c.Path)}}}, nil
	default:
		return nil, fmt.Errorf("a change of type %T cannot be sent", change)
	}
}

// NewFileSystemWrite is the client of the filesystem on the other side of conn.
func NewFileSystemWrite(conn grpc.ClientConnInterface) FileSystemWrite {
	return &changesClient{pluginv1.NewFileSystemWriteServiceClient(conn)}
}

type changesClient struct {
	client pluginv1.FileSystemWriteServiceClient
}

func (c *changesClient) Stage(ctx context.Context, change service.Change) (uint64, service.Staged, error) {
	request, err := changeToWire(change)
	if err != nil {
		return 0, service.Staged{}, err
	}
	r, err := c.client.Stage(outgoing(ctx), request)
	if err != nil {
		return 0, service.Staged{}, err
	}
	staged := service.Staged{Diff: r.GetDiff(), Irreversible: r.GetIrreversible()}
	for _, resource := range r.GetResources() {
		staged.Resources = append(staged.Resources, string(resource))
	}
	for _, f := range r.GetFiles() {
		staged.Files = append(staged.Files, service.FileChange{
			Kind: service.ChangeKind(f.GetKind()), Path: string(f.GetPath()), Resolved: string(f.GetResolved()), From: string(f.GetFrom()),
			Added: int(f.GetAdded()), Removed: int(f.GetRemoved()), Size: f.GetSize(), Names: int(f.GetNames()), Notes: f.GetNotes(),
		})
	}
	return r.GetStage(), staged, plainError(r.GetError())
}

func (c *changesClient) Commit(ctx context.Context, stage uint64) error {
	r, err := c.client.Commit(outgoing(ctx), &pluginv1.CommitRequest{Stage: stage})
	if err != nil {
		return err
	}
	return plainError(r.GetError())
}

func (c *changesClient) Unstage(ctx context.Context, stage uint64) error {
	_, err := c.client.Unstage(outgoing(ctx), &pluginv1.UnstageRequest{Stage: stage})
	return err
}
