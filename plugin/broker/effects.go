package broker

import (
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/toolhost/toolhost/tool"
)

// method is a method of a service, by its full name on the wire.
type method string

const (
	resolveRoot method = "/toolhost.plugin.v1.FileSystemReadService/ResolveRoot"
	release     method = "/toolhost.plugin.v1.FileSystemReadService/Release"
	read        method = "/toolhost.plugin.v1.FileSystemReadService/Read"
	readBytes   method = "/toolhost.plugin.v1.FileSystemReadService/ReadBytes"
	list        method = "/toolhost.plugin.v1.FileSystemReadService/List"
	glob        method = "/toolhost.plugin.v1.FileSystemReadService/Glob"
	grep        method = "/toolhost.plugin.v1.FileSystemReadService/Grep"
	stage       method = "/toolhost.plugin.v1.FileSystemWriteService/Stage"
	unstage     method = "/toolhost.plugin.v1.FileSystemWriteService/Unstage"
	commit      method = "/toolhost.plugin.v1.FileSystemWriteService/Commit"
	// In pieces they are answered by what answers them whole.
	listInPieces method = list + "InPieces"
	globInPieces method = glob + "InPieces"
	grepInPieces method = grep + "InPieces"
	assert       method = "/toolhost.plugin.v1.PermissionService/Assert"

	plan          method = "/toolhost.plugin.v1.ProcessService/Plan"
	run           method = "/toolhost.plugin.v1.ProcessService/Run"
	start         method = "/toolhost.plugin.v1.ProcessService/Start"
	output        method = "/toolhost.plugin.v1.ProcessService/Output"
	input         method = "/toolhost.plugin.v1.ProcessService/Input"
	stop          method = "/toolhost.plugin.v1.ProcessService/Stop"
	listProcesses method = "/toolhost.plugin.v1.ProcessService/List"
)

// takes is the table of law 24: the service that a method belongs to, as a
// contradiction names it, and the effects that a call must have for it. What is not
// in the table takes everything.
func (m method) takes() (service string, effects tool.Effects) {
	switch m {
	case resolveRoot, release, read, readBytes, list, glob, grep, listInPieces, globInPieces, grepInPieces:
		return "filesystem.read", tool.Read
	case stage, unstage: // it changes nothing, and is how a change is prepared (law 25)
		return "filesystem.stage", tool.Read
	case commit:
		return "filesystem.write", tool.Write
	case assert:
		return "permission", tool.None
	case plan, output, listProcesses: // a plan starts nothing, and is how a command is prepared (law 25)
		return "process.read", tool.Read
	case run, start, input, stop:
		return "process", tool.Process
	default:
		return string(m), tool.AllEffects
	}
}

// permits refuses a method that takes more than the effects of the call, in words
// that tell the author what to declare, and reports it.
func (l *Lease) permits(m method) error {
	service, wanted := m.takes()
	if l.effects.Has(wanted) {
		return nil
	}
	l.mu.Lock()
	again := l.told[service]
	l.told[service] = true
	l.mu.Unlock()
	if contradicted := l.broker.options.Contradicted; contradicted != nil && !again {
		contradicted(tool.Contradiction{
			Identity: l.whose, Tool: l.tool, During: service, Allowed: l.effects, Wanted: wanted,
		})
	}
	if l.silent != "" {
		return status.Errorf(codes.PermissionDenied, "%s takes the effect %s: while a call is being prepared, and during activation, a plugin only reads", service, wanted)
	}
	return status.Errorf(codes.PermissionDenied,
		"%s takes the effect %s and this call may do %s: declare the effect for the tool, and let its preparation, if it has one, say it", service, wanted, l.effects)
}
