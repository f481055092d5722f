package tool

import "context"

// A Preparation is what a tool says that one call would do, before anything is
// done (law 25). All of it describes what will run, which is the prepared action
// where there is one, and not the raw call.
type Preparation struct {
	// Effects is what this call may do. Nothing stands for all that the tool declared
	// at registration; what goes beyond that is a contradiction (law 23).
	Effects Effects
	// Irreversible says that what the call does cannot be undone.
	Irreversible bool
	// Requests are the permissions that the call needs, in the order in which they
	// are asked for (law 33); 64 at most.
	Requests []PermissionRequest
	// Targets are the paths that the call is about, relative to the Location's root,
	// for the instructions that stand near them (law 30); 256 at most. They are no
	// permission.
	Targets []string
	// Action is what runs in place of the executor. Nil means that the call is
	// direct: the executor runs once the requests are granted.
	Action *Action
}

// An Action is what a tool prepared: a change that is ready to be made, once. It
// belongs to whoever received the preparation, with an error or without, who calls
// exactly one of Commit and Discard, exactly once (law 26). It dies with the process that made it.
type Action struct {
	// Review is the tool's own description of the action, for whoever approves it. It
	// is shown as the tool's words.
	Review string
	// Diff is what the host itself knows that the action would change in files, from the
	// bytes that will be written (law 25). It is empty where the action changes none
	// through the host.
	Diff string
	// Waiting, if it is not nil, is called when a person begins to be asked about the
	// action: nobody else waits for it any longer.
	Waiting func()
	// Commit runs the action in place of [Tool.Execute] and under the same terms. The
	// call is the one that was prepared, input included.
	Commit func(ctx context.Context, call Call) (Result, error)
	// Discard releases what the action holds when it is not committed. ctx bounds it.
	Discard func(ctx context.Context)
}
