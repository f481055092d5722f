package wire

import (
	"context"

	"google.golang.org/grpc"

	pluginv1 "github.com/toolhost/toolhost/plugin/proto/toolhost/plugin/v1"
	"github.com/toolhost/toolhost/tool"
)

// Permission is the host's permission service. Assert's error is a
// [*tool.Refusal] when the answer is no.
type Permission interface {
	Assert(ctx context.Context, r tool.PermissionRequest) error
}

// ServePermission puts p on server.
func ServePermission(server grpc.ServiceRegistrar, p Permission) {
	pluginv1.RegisterPermissionServiceServer(server, &permissionServer{permission: p})
}

type permissionServer struct {
	pluginv1.UnimplementedPermissionServiceServer
	permission Permission
}

func (s *permissionServer) Assert(ctx context.Context, r *pluginv1.AssertRequest) (*pluginv1.AssertResponse, error) {
	e, err := serviceError(s.permission.Assert(ctx, tool.PermissionRequest{
		Action: r.GetAction(), Resources: r.GetResources(), Save: r.GetSave(), Metadata: r.GetMetadata(),
	}))
	return &pluginv1.AssertResponse{Error: e}, err
}

// NewPermission is the client of the permission service on the other side of conn.
func NewPermission(conn grpc.ClientConnInterface) Permission {
	return &permissionClient{pluginv1.NewPermissionServiceClient(conn)}
}

type permissionClient struct {
	client pluginv1.PermissionServiceClient
}

func (c *permissionClient) Assert(ctx context.Context, r tool.PermissionRequest) error {
	out, err := c.client.Assert(outgoing(ctx), &pluginv1.AssertRequest{
		Action: text(r.Action), Resources: texts(r.Resources), Save: texts(r.Save), Metadata: metadataToWire(r.Metadata),
	})
	if err != nil {
		return err
	}
	return plainError(out.GetError())
}
