package wire

import (
	"context"

	"google.golang.org/grpc/metadata"
)

// tokenKey is the metadata key of the token that says to which live call a
// callback belongs.
const tokenKey = "toolhost-token"

type tokenContext struct{}

// WithToken gives a context whose callbacks carry token.
func WithToken(ctx context.Context, token string) context.Context {
	return context.WithValue(ctx, tokenContext{}, token)
}

// HasToken reports whether ctx comes from a call or an activation.
func HasToken(ctx context.Context) bool {
	_, ok := ctx.Value(tokenContext{}).(string)
	return ok
}

// outgoing puts the token into the metadata of a callback.
func outgoing(ctx context.Context) context.Context {
	if token, ok := ctx.Value(tokenContext{}).(string); ok {
		return metadata.AppendToOutgoingContext(ctx, tokenKey, token)
	}
	return ctx
}

// IncomingToken is the token of a callback on the serving side, or "".
func IncomingToken(ctx context.Context) string {
	values := metadata.ValueFromIncomingContext(ctx, tokenKey)
	if len(values) != 1 {
		return ""
	}
	return values[0]
}
