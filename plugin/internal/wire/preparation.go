package wire

import (
	"errors"
	"fmt"

	pluginv1 "github.com/toolhost/toolhost/plugin/proto/toolhost/plugin/v1"
	"github.com/toolhost/toolhost/tool"
)

// Bounds of what a tool says that a call would do. A person may have to read it.
const (
	// MaxRequests is how many permissions one call may need.
	MaxRequests = 64
	// MaxTargets is how many paths one call may be about, MaxTarget the most bytes of
	// one.
	MaxTargets = 256
	MaxTarget  = 4096
	// MaxReview is where the description of an action is cut, in bytes.
	MaxReview = 64 << 10

	maxResources    = 1000
	maxMetadata     = 64
	maxRequestBytes = 256 << 10
	maxUnavailable  = 1 << 10
)

// Preparation is what one call would do.
type Preparation struct {
	Effects      tool.Effects
	Irreversible bool
	Requests     []tool.PermissionRequest
	Targets      []string
	// Prepared says that the plugin keeps an action, under the number that the host
	// gave, and Review describes it.
	Prepared bool
	Review   string
}

// CheckRequest bounds what a plugin may put before the rules and a person.
func CheckRequest(r tool.PermissionRequest) error {
	if max(len(r.Resources), len(r.Save)) > maxResources || len(r.Metadata) > maxMetadata || requestSize(r) > maxRequestBytes {
		return fmt.Errorf("a permission request has at most %d resources, %d patterns to save, %d metadata and %d bytes: ask for less at once",
			maxResources, maxResources, maxMetadata, maxRequestBytes)
	}
	return nil
}

func requestSize(r tool.PermissionRequest) int {
	size := len(r.Action)
	for _, list := range [][]string{r.Resources, r.Save} {
		for _, text := range list {
			size += len(text)
		}
	}
	for key, value := range r.Metadata {
		size += len(key) + len(value)
	}
	return size
}

// CheckNeeds bounds the requests and the targets of a call, together with the
// bytes of all requests. size is what both have in bytes.
func CheckNeeds(requests []tool.PermissionRequest, targets []string) (size int, err error) {
	if len(requests) > MaxRequests || len(targets) > MaxTargets {
		return 0, fmt.Errorf("it has %d permission requests and %d targets; at most %d and %d", len(requests), len(targets), MaxRequests, MaxTargets)
	}
	for _, r := range requests {
		if err := CheckRequest(r); err != nil {
			return 0, err
		}
		size += requestSize(r)
	}
	if size > maxRequestBytes {
		return 0, fmt.Errorf("its permission requests have %d bytes; at most %d", size, maxRequestBytes)
	}
	for _, target := range targets {
		if len(target) > MaxTarget {
			return 0, fmt.Errorf("it has a target of %d bytes; at most %d", len(target), MaxTarget)
		}
		size += len(target)
	}
	return size, nil
}

// preparationToWire refuses what the other side would refuse, where the author can
// read why.
func preparationToWire(p Preparation) (*pluginv1.Preparation, error) {
	if _, err := CheckNeeds(p.Requests, p.Targets); err != nil {
		return nil, fmt.Errorf("the preparation is too large: %w", err)
	}
	out := &pluginv1.Preparation{
		Effects: effectsToWire(p.Effects), Irreversible: p.Irreversible, Requests: requestsToWire(p.Requests),
	}
	for _, target := range p.Targets {
		out.Targets = append(out.Targets, []byte(target))
	}
	if p.Prepared {
		out.Action = &pluginv1.PreparedAction{Review: cutAt(p.Review, MaxReview)}
	}
	return out, nil
}

func preparationResponse(p Preparation, err error) *pluginv1.PrepareResponse {
	var out *pluginv1.Preparation
	if err == nil {
		out, err = preparationToWire(p)
	}
	if err == nil {
		return &pluginv1.PrepareResponse{Outcome: &pluginv1.PrepareResponse_Preparation{Preparation: out}}
	}
	failed, errored := outcomeOf(err)
	if failed != nil {
		return &pluginv1.PrepareResponse{Outcome: &pluginv1.PrepareResponse_Failed{Failed: failed}}
	}
	return &pluginv1.PrepareResponse{Outcome: &pluginv1.PrepareResponse_Errored{Errored: errored}}
}

// preparationFromWire believes nothing that it can check. What is over a bound is
// an error and not cut: with fewer requests a call would be allowed more.
func preparationFromWire(r *pluginv1.PrepareResponse) (Preparation, error) {
	switch outcome := r.GetOutcome().(type) {
	case *pluginv1.PrepareResponse_Failed:
		return Preparation{}, failureFromWire(outcome.Failed)
	case *pluginv1.PrepareResponse_Errored:
		return Preparation{}, remoteError(outcome.Errored)
	case *pluginv1.PrepareResponse_Preparation:
		p := outcome.Preparation
		if len(p.GetRequests()) > MaxRequests || len(p.GetTargets()) > MaxTargets {
			return Preparation{}, fmt.Errorf("the plugin sent a preparation with %d permission requests and %d targets; at most %d and %d",
				len(p.GetRequests()), len(p.GetTargets()), MaxRequests, MaxTargets)
		}
		out := Preparation{
			Effects: effectsFromWire(p.GetEffects()), Irreversible: p.GetIrreversible(), Requests: requestsFromWire(p.GetRequests()),
			Prepared: p.GetAction() != nil, Review: cutAt(p.GetAction().GetReview(), MaxReview),
		}
		for _, target := range p.GetTargets() {
			out.Targets = append(out.Targets, string(target))
		}
		if _, err := CheckNeeds(out.Requests, out.Targets); err != nil {
			return Preparation{}, fmt.Errorf("the plugin sent a preparation that is too large: %w", err)
		}
		return out, nil
	default:
		return Preparation{}, errors.New("the plugin answered with an outcome that this version of the protocol does not have")
	}
}

func requestsToWire(list []tool.PermissionRequest) []*pluginv1.PermissionRequest {
	out := make([]*pluginv1.PermissionRequest, 0, len(list))
	for _, r := range list {
		out = append(out, &pluginv1.PermissionRequest{
			Action: text(r.Action), Resources: texts(r.Resources), Save: texts(r.Save), Metadata: metadataToWire(r.Metadata),
		})
	}
	return out
}

func requestsFromWire(list []*pluginv1.PermissionRequest) []tool.PermissionRequest {
	var out []tool.PermissionRequest
	for _, r := range list {
		out = append(out, tool.PermissionRequest{
			Action: r.GetAction(), Resources: r.GetResources(), Save: r.GetSave(), Metadata: r.GetMetadata(),
		})
	}
	return out
}

func metadataToWire(m map[string]string) map[string]string {
	out := make(map[string]string, len(m))
	for k, v := range m {
		out[text(k)] = text(v)
	}
	return out
}
