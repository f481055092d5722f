package layering

// module is the path of the product's module. Packages are named relative to it, so that "tool/registry" stands for
// module + "/tool/registry".
const module = "github.com/toolhost/toolhost"

// maxLines is how long a file may be that is neither generated nor a test.
const maxLines = 500

// A house is the order of the packages, and what else is to hold among them.
type house struct {
	rows       []row
	libraries  []library
	seclusions []seclusion
	exposures  []exposure
	exceptions []exception
}

// A row is a place in the order. Packages of one row stand side by side and do not import each other.
//
// A name may end in "/*" for every package right below a folder, or in "/..." for every package anywhere below it. Beside
// what it names, a package brings its own internals (everything under its folder internal/, which the compiler already
// keeps to it) and its test support (a package right below it that is named like it with "test" at the end).
type row struct {
	packages []string
	// never lists imports that are refused although the order would allow them, of this module or not; each stands for
	// what is below it too.
	never []string
	// only, if it is not nil, lists all that is allowed of this module.
	only []string
	// std says that nothing outside the standard library is allowed.
	std bool
	// forTests says that only tests and test support import it.
	forTests bool
	// why is the reason for never, only and std, told to whoever breaks them.
	why string
}

// A library is a module, or a folder of modules, that has a home. Libraries that are not listed may be used anywhere.
type library struct {
	path  string
	homes []string // packages of the house, as in a row
	why   string
}

// A seclusion is a package of the house whose importers are listed, whatever the order says.
type seclusion struct {
	packages  string
	importers []string
	why       string
}

// An exposure is a package whose exported declarations are a promise to others, and what must not appear in them, nor, for
// what is unreachable, anywhere below it.
type exposure struct {
	pkg string
	// hidden lists what no exported declaration may name, of this module or not.
	hidden []string
	// unreachable lists packages of the house that it may not import, directly or through others.
	unreachable []string
	why         string
}

// An exception is one place that may break one rule.
type exception struct {
	rule  rule
	where string // as the finding says it
	why   string
}

// toolhost returns the house as it is meant to be. Lowest first: what stands on a line imports only what stands on the
// lines before it.
func toolhost() house {
	return house{
		rows: []row{
			{
				packages: []string{"scope"}, only: []string{}, std: true,
				why: "lifetimes know nothing else",
			},
			{
				packages: []string{"internal/program"}, only: []string{}, std: true,
				why: "it counts, and knows nothing else",
			},
			{
				packages: []string{"internal/unseen"}, only: []string{}, std: true,
				why: "it knows characters, and nothing else",
			},
			{
				packages: []string{"tool"}, never: []string{"os/exec", "net/http"},
				why: "the tool contract is plain values; it knows neither processes nor connections",
			},
			{
				packages: []string{"tool/schema"}, only: []string{}, never: []string{"os/exec", "net/http"},
				why: "schemas and values are text; nothing is loaded for them",
			},
			{
				packages: []string{"service"}, never: []string{"os/exec", "net/http"},
				why: "the contracts of the services are plain values and know no engine",
			},
			{packages: []string{"state"}},
			{
				packages: []string{"sandbox"}, never: []string{"tool", "service", "state"},
				why: "the sandbox confines a process, whatever runs in it; it knows neither tools nor plugins",
			},
			{packages: []string{"tool/output"}},
			{packages: []string{"service/filesystem/ignore"}},
			{
				packages: []string{"service/permission/command"}, only: []string{},
				why: "taking a command line apart knows neither rules nor calls",
			},
			{packages: []string{"service/filesystem", "service/permission", "service/process"}},
			{
				packages: []string{"service/permission/shown"}, never: []string{"os/exec", "net/http"},
				why: "how a request is shown knows nothing of who shows it",
			},
			{
				packages: []string{"tool/registry"}, never: []string{"sandbox", "service/process", "os/exec"},
				why: "the registry settles calls and does not know that tools run in processes",
			},
			{
				packages: []string{"plugin/proto/..."}, only: []string{},
				why: "the wire has no behaviour",
			},
			{packages: []string{"plugin/internal/wire"}},
			{packages: []string{"plugin/sdk"}},
			{
				packages: []string{"plugin/broker"}, never: []string{"sandbox", "os/exec"},
				why: "the broker serves a connection and does not know how a process is started",
			},
			{packages: []string{"plugin/client"}},
			{packages: []string{"plugin/sdk/sdktest"}, forTests: true},
			{packages: []string{"config"}},
			{
				packages: []string{"instructions"}, never: []string{"plugin"},
				why: "finding the project's instructions knows the filesystem and what was shown, not where paths come from",
			},
			{packages: []string{"location"}},
			{packages: []string{"host"}},
			{
				packages: []string{"mcpserver", "control"}, never: []string{"plugin/client", "sandbox", "os/exec"},
				why: "a face speaks for a host and does not know that plugins are processes",
			},
			{
				packages: []string{"plugins/*"}, only: []string{"plugin/sdk"},
				why: "a built-in imports plugin/sdk only, exactly as a stranger would",
			},
			{packages: []string{"cmd/host"}},

			// Outside the house. An example is a stranger: a module of its own, built against the product.
			{
				packages: []string{"examples/*"}, only: []string{"plugin/sdk"},
				why: "an example imports plugin/sdk only: it is what a stranger would copy",
			},
			{
				packages: []string{"internal/conformance/plugin"}, only: []string{"plugin/sdk"},
				why: "a judge's fixtures come from a plugin like any other",
			},
			{
				packages: []string{"internal/hostile"}, only: []string{"plugin/sdk"},
				why: "an attacker is a plugin like any other",
			},
			{
				packages: []string{"internal/hostile/plugin"}, only: []string{"internal/hostile", "plugin/sdk"},
				why: "an attacker is a plugin like any other",
			},
			{packages: []string{"internal/layering"}, only: []string{}, why: "it reads the others as text"},
			{packages: []string{"internal/bench"}, only: []string{}, why: "it holds nothing but tests"},
			{packages: []string{"internal/laws"}, only: []string{}, why: "it holds nothing but tests"},
			{packages: []string{"internal/chaos"}, only: []string{}, why: "it holds nothing but tests"},
		},

		libraries: []library{
			{
				path: "google.golang.org/grpc", homes: underPlugin(),
				why: "the transport is known under plugin/ only",
			},
			{
				path: "google.golang.org/protobuf", homes: underPlugin(),
				why: "the transport is known under plugin/ only",
			},
			{
				path: "github.com/hashicorp", homes: underPlugin(),
				why: "go-plugin and its logger are known under plugin/ only",
			},
			{
				path: "github.com/santhosh-tekuri/jsonschema", homes: []string{"tool/schema"},
				why: "schemas are compiled in one place, which loads nothing",
			},
			{path: "modernc.org/sqlite", homes: []string{"state"}, why: "what outlives a host has one owner"},
			{path: "github.com/knadh/koanf", homes: []string{"config"}, why: "config is read in one place"},
			{path: "github.com/goccy/go-yaml", homes: []string{"config"}, why: "config is read in one place"},
			{path: "github.com/spf13", homes: []string{"cmd/host"}, why: "only the command has a command line"},
			{
				path: "mvdan.cc/sh", homes: []string{"service/permission/command"},
				why: "command lines are taken apart in one place",
			},
			{
				path: "github.com/modelcontextprotocol/go-sdk", homes: []string{"mcpserver", "plugins/*"},
				why: "the Model Context Protocol is a face, or a plugin",
			},
		},

		seclusions: []seclusion{
			{
				packages: "plugin/proto/...", importers: underPlugin(),
				why: "generated wire types stop at plugin/internal/wire and at the servers and clients beside it",
			},
			{
				packages: "plugins/*", importers: []string{"cmd/host"},
				why: "only the command links the built-ins",
			},
		},

		exposures: []exposure{
			{
				pkg: "plugin/sdk", hidden: transport(), unreachable: hostSide(),
				why: "a plugin's author meets the project's own types and pulls in no engine",
			},
			{
				pkg: "plugin/sdk/sdktest", hidden: transport(),
				why: "a plugin's author meets the project's own types",
			},
			{
				pkg: "plugin/broker", hidden: []string{"plugin/proto"},
				why: "generated wire types do not leave the package that speaks them",
			},
			{
				pkg: "plugin/client", hidden: []string{"plugin/proto"},
				why: "generated wire types do not leave the package that speaks them",
			},
		},

		exceptions: []exception{
			{ruleGo, "internal/hostile.attempt", "an attack is made on a thread that ends with it, and that must not be another's"},
			{ruleGo, "sandbox.endSignals", "the reaper is a process of its own: it holds no scope, and its goroutines end with it"},
			{ruleGo, "plugin/sdk.takeStdio", "the lifeline is watched for as long as the process lasts, and ends it"},
		},
	}
}

// underPlugin is where both sides of the wire are spoken.
func underPlugin() []string {
	return []string{
		"plugin/proto/...", "plugin/internal/wire", "plugin/sdk", "plugin/broker", "plugin/client", "plugin/sdk/sdktest",
	}
}

// transport is what carries calls between the processes.
func transport() []string {
	return []string{
		"plugin/proto", "google.golang.org/grpc", "google.golang.org/protobuf", "github.com/hashicorp/go-plugin",
		"github.com/hashicorp/go-hclog",
	}
}

// hostSide is all that runs in the host only.
func hostSide() []string {
	return []string{
		"internal/program", "internal/unseen", "state", "sandbox", "tool/schema", "tool/output", "tool/registry", "service/filesystem", "service/permission", "service/process",
		"plugin/broker", "plugin/client", "config", "instructions", "location", "host", "mcpserver", "control",
	}
}
