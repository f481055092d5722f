package config

import (
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	"github.com/toolhost/toolhost/config/internal/document"
	"github.com/toolhost/toolhost/config/internal/form"
	"github.com/toolhost/toolhost/service"
	"github.com/toolhost/toolhost/service/permission"
	"github.com/toolhost/toolhost/tool"
)

// The keys of config, each named once.
const (
	keyPlugins      = "plugins"
	keyPermissions  = "permissions"
	keyOutput       = "output"
	keyInstructions = "instructions"
	keyAudit        = "audit"
	keyLocations    = "locations"

	keyRoot = "root"

	keyBuiltin  = "builtin"
	keyCommand  = "command"
	keySHA256   = "sha256"
	keyFiles    = "files"
	keyGrants   = "grants"
	keySettings = "settings"
	keyEnv      = "env"
	keyOverride = "override"
	keySandbox  = "sandbox"

	keyMode      = "mode"
	keyFS        = "fs"
	keyRead      = "read"
	keyWrite     = "write"
	keyNet       = "net"
	keyExec      = "exec"
	keyLimits    = "limits"
	keyMemory    = "memory"
	keyProcesses = "processes"
	keyCPU       = "cpu"

	keyAction   = "action"
	keyResource = "resource"
	keyEffect   = "effect"
	keyReason   = "reason"
	keyAgent    = "agent"

	keyMaxLines  = "max_lines"
	keyMaxBytes  = "max_bytes"
	keyRetention = "retention"
	keyQuota     = "quota"
	keyTools     = "tools"

	keyRedact = "redact"
)

// The bounds of what a file may list. A project's file is read before anybody
// trusts it, and what its denies mean takes time in the product of some of these.
const (
	maxPlugins      = 256 // of a file, in all of its Locations
	maxLocations    = 64
	maxRules        = 1024 // of a file's top, and of a Location
	maxInstructions = 16
	maxItems        = 256 // of every other list
	maxUntrusted    = 8   // files of a project that are read for their denies
	maxPath         = 4095
	maxAction       = 512
)

// hostPlugin is the first part of the ids of the host's own tools.
const hostPlugin = "toolhost"

// pluginMarks are what may stand inside of a plugin's name beside letters and
// digits.
const pluginMarks = " ._-"

// fileForm describes a whole config file.
func fileForm() form.Form {
	return form.Form{Kind: form.Object, About: "Configuration of toolhost.", Keys: []form.Key{
		{Name: keyPlugins, Form: pluginsForm()},
		{Name: keyPermissions, Form: permissionsForm()},
		{Name: keyOutput, Form: outputForm()},
		{Name: keyInstructions, Form: instructionsForm()},
		{Name: keyAudit, Form: auditForm()},
		{Name: keyLocations, Form: locationsForm()},
	}}
}

// userFileForm describes the user's own file, which has no roots.
func userFileForm() form.Form {
	f := fileForm()
	f.Keys = slices.DeleteFunc(f.Keys, func(k form.Key) bool { return k.Name == keyLocations })
	return f
}

func locationsForm() form.Form {
	return form.Form{
		Kind:  form.Table,
		Most:  maxLocations,
		About: "Several Locations by name; what stands at the top of the file holds for all of them. Without this key the file's directory is the one Location.",
		Names: &form.Form{
			Kind: form.Text, About: "The name of the Location.",
			Pattern: `^[A-Za-z0-9]([A-Za-z0-9 ._/-]{0,62}[A-Za-z0-9])?$`,
			Verify:  func(name string) error { return checkName(name, pluginMarks+"/") },
		},
		Each: &form.Form{Kind: form.Object, About: "A project root with what holds for it beside the top of the file.", Keys: []form.Key{
			{Name: keyRoot, Required: true, Form: form.Form{
				Kind: form.Text, About: "The root directory, relative to this file; ~/ is the home directory.", Pattern: `^(~/|[^~])`, Verify: checkPath,
			}},
			{Name: keyPlugins, Form: pluginsForm()},
			{Name: keyPermissions, Form: permissionsForm()},
			{Name: keyOutput, Form: outputForm()},
			{Name: keyInstructions, Form: instructionsForm()},
		}},
	}
}

func pluginsForm() form.Form {
	return form.Form{
		Kind:  form.Table,
		Most:  maxPlugins,
		About: "The plugins by name. A plugin's name is the first part of its tools' ids, as in weather/forecast.",
		Names: &form.Form{
			Kind: form.Text, About: "The name of the plugin.",
			Pattern: `^[A-Za-z0-9]([A-Za-z0-9 ._-]{0,62}[A-Za-z0-9])?$`,
			Verify:  checkPluginName,
		},
		Each: &form.Form{Kind: form.Object, About: "A plugin. With neither command nor builtin it is the built-in of that name, or adds to the user's entry of that name.", Keys: []form.Key{
			{Name: keyBuiltin, Form: form.Form{Kind: form.Text, About: "The built-in plugin that this is, for one that is wanted twice or under another name."}},
			{Name: keyCommand, Form: form.Form{
				Kind: form.List, Most: maxItems, Arguments: true, About: "The program and its arguments. The program is a path, relative to this file; PATH is not searched.",
				Each: &form.Form{Kind: form.Text},
			}},
			{Name: keySHA256, Form: digestForm("The SHA-256 that the program must have, in hex. A program that has another one is not started.")},
			{Name: keyFiles, Form: form.Form{
				Kind: form.Table, Most: maxItems, About: "Further files that are pinned, by path, such as what an interpreter runs.",
				Names: &form.Form{Kind: form.Text, About: "The path, relative to this file.", Pattern: `^(~/|[^~])`, Verify: checkPath},
				Each:  new(digestForm("The SHA-256 that the file must have, in hex.")),
			}},
			{Name: keyGrants, Form: form.Form{
				Kind: form.List, Most: maxItems, About: "The services that the plugin is given. A built-in gets what it declares.",
				Each: &form.Form{Kind: form.Text, OneOf: grantNames()},
			}},
			{Name: keySettings, Form: form.Form{Kind: form.Anything, About: "The plugin's own settings, an object that only the plugin understands."}},
			{Name: keyEnv, Form: form.Form{
				Kind: form.List, Most: maxItems, About: "The names of environment variables that are passed through to the plugin and, with the grant process, to the commands that it runs; nothing else of the environment is passed to the plugin.",
				Each: &form.Form{Kind: form.Text, Pattern: `^[A-Za-z_][A-Za-z0-9_]*$`, Verify: checkVariable, Hidden: true},
			}},
			{Name: keyOverride, Form: form.Form{
				Kind: form.List, Most: maxItems, About: "The names of tools that the plugin may take over from another plugin.",
				Each: &form.Form{Kind: form.Text, Pattern: `^[A-Za-z0-9_-]{1,64}$`, Verify: checkToolName},
			}},
			{Name: keySandbox, Form: sandboxForm()},
		}},
	}
}

func permissionsForm() form.Form {
	return form.Form{
		Kind:  form.List,
		Most:  maxRules,
		About: "What calls may do. The last rule of this file that matches wins; across files the strictest answer holds.",
		Each: &form.Form{Kind: form.Object, About: "A rule. In action and resource, * is any characters and ? is one character.", Keys: []form.Key{
			{Name: keyAction, Required: true, Form: form.Form{
				Kind: form.Text, About: "What is done: " + strings.Join(permission.Actions(), ", ") + ", or the id of a tool of a plugin that is not built in, plugin/tool.", Verify: checkAction,
			}},
			{Name: keyResource, Required: true, Form: form.Form{
				Kind: form.Text, About: "What it is done to: a path relative to the root, the pattern of a search, or what the tool says. In a path * crosses directories; dir/* is what is in dir.",
			}},
			{Name: keyEffect, Required: true, Form: form.Form{Kind: form.Text, About: "The answer.", OneOf: permission.Effects()}},
			{Name: keyReason, Form: form.Form{Kind: form.Text, About: "Why; whoever is refused is told."}},
			{Name: keyAgent, Form: form.Form{Kind: form.Text, About: "The agent that the rule is for; every agent if it is missing."}},
		}},
	}
}

// Schema is the JSON Schema of a config file, for editors.
func Schema() []byte {
	f := fileForm()
	return f.Schema()
}

func digestForm(about string) form.Form {
	return form.Form{Kind: form.Text, About: about, Pattern: `^[0-9A-Fa-f]{64}$`, Verify: checkDigest}
}

func grantNames() []string {
	var names []string
	for _, g := range service.Grants() {
		names = append(names, string(g))
	}
	return names
}

// checkName checks a name of the user's. A plugin's must not have the slash of
// canonical ids nor the wildcards of rules, and all are shown in terminals.
func checkName(name, inside string) error {
	isOuter := func(r rune) bool { return r < 0x80 && (isLetter(r) || '0' <= r && r <= '9') }
	runes := []rune(name)
	valid := len(runes) > 0 && len(runes) <= 64 && isOuter(runes[0]) && isOuter(runes[len(runes)-1]) &&
		!slices.ContainsFunc(runes, func(r rune) bool { return !isOuter(r) && !strings.ContainsRune(inside, r) })
	if !valid {
		var marks []string
		for _, r := range inside {
			marks = append(marks, fmt.Sprintf("%q", r))
		}
		return fmt.Errorf("a name has 1 to 64 letters and digits of ASCII, and inside of it %s", strings.Join(marks, ", "))
	}
	return nil
}

// checkPluginName also keeps the names of the host for its own tools.
func checkPluginName(name string) error {
	if strings.EqualFold(name, hostPlugin) || strings.EqualFold(name, "host") {
		return fmt.Errorf("the name is the host's own; choose another")
	}
	return checkName(name, pluginMarks)
}

func isLetter(r rune) bool { return 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' }

func checkPath(path string) error {
	if path == "" {
		return fmt.Errorf("a path is not empty; this directory is %q", ".")
	}
	if len(path) > maxPath {
		return fmt.Errorf("a path has at most %d bytes", maxPath)
	}
	if strings.HasPrefix(path, "~") && !strings.HasPrefix(path, "~/") {
		return fmt.Errorf("only %q stands for a home directory; write the path", "~/")
	}
	return nil
}

// checkAction bounds an action; what else must hold is for the rules of the file.
func checkAction(action string) error {
	if len(action) > maxAction {
		return fmt.Errorf("an action has at most %d bytes", maxAction)
	}
	return nil
}

func checkDigest(digest string) error {
	if sum, err := hex.DecodeString(digest); err != nil || len(sum) != 32 {
		return fmt.Errorf("a SHA-256 has 64 hex digits, as sha256sum prints them")
	}
	return nil
}

// checkVariable checks the name of a variable. Those by which the host speaks to
// a plugin are never passed through: a plugin would take the words of the host's
// own host for the host's.
func checkVariable(name string) error {
	for i, r := range name {
		if !isLetter(r) && r != '_' && (i == 0 || r < '0' || r > '9') {
			name = ""
			break
		}
	}
	if name == "" {
		return fmt.Errorf("an item is the name of a variable, of letters, digits and %q; values do not belong here", "_")
	}
	switch {
	case strings.HasPrefix(name, "TOOLHOST_") || slices.Contains(handshakeVariables(), name):
		return fmt.Errorf("%s is the host's own and is never passed through", name)
	case slices.Contains(shellVariables(), name):
		return fmt.Errorf("%s makes a shell run, or do, what is in no command line that was judged, and is never passed through", name)
	}
	return nil
}

// shellVariables are those by which a shell that is not interactive reads a file, or takes
// options. They are refused of every plugin, since what one is granted may change.
func shellVariables() []string { return []string{"BASHOPTS", "BASH_ENV", "ENV", "SHELLOPTS"} }

// handshakeVariables are those that go-plugin sets for a plugin.
func handshakeVariables() []string {
	return []string{
		"PLUGIN_CLIENT_CERT", "PLUGIN_MAX_PORT", "PLUGIN_MIN_PORT", "PLUGIN_MULTIPLEX_GRPC",
		"PLUGIN_PROTOCOL_VERSIONS", "PLUGIN_UNIX_SOCKET_DIR", "PLUGIN_UNIX_SOCKET_GROUP",
	}
}

func checkToolName(name string) error {
	if err := tool.CheckName(name); err != nil {
		return err
	}
	if effective := tool.EffectiveName(name); effective != name {
		return fmt.Errorf("a tool is taken over by the name that is shown to models, here %s", effective)
	}
	return nil
}

// checkCount bounds the plugins of all Locations together.
func checkCount(root *document.Node) []document.Mistake {
	largest := len(entries(root, keyPlugins))
	count := largest
	for _, e := range entries(root, keyLocations) {
		here := len(entries(e.Value, keyPlugins))
		largest, count = max(largest, here), count+here
	}
	if count <= maxPlugins || largest > maxPlugins { // which the form reports
		return nil
	}
	return []document.Mistake{{At: root.At, Text: fmt.Sprintf("file has %d plugins; it may have %d", count, maxPlugins)}}
}

// checkPrograms checks what the keys of one entry say together about its program.
// What pins a program stands beside it, so that the two are trusted as one.
func checkPrograms(root *document.Node) (found []document.Mistake) {
	sections := []*document.Node{root}
	for _, e := range entries(root, keyLocations) {
		sections = append(sections, e.Value)
	}
	for _, section := range sections {
		for _, e := range entries(section, keyPlugins) {
			found = append(found, checkProgram(e)...)
		}
	}
	return found
}

func checkProgram(e document.Entry) (found []document.Mistake) {
	add := func(at document.Position, format string, args ...any) {
		found = append(found, document.Mistake{At: at, Text: fmt.Sprintf("plugin %s: ", form.Quote(e.Key)) + fmt.Sprintf(format, args...)})
	}
	command := value(e.Value, keyCommand)
	if command != nil && value(e.Value, keyBuiltin) != nil {
		add(e.At, "it has both a command and a builtin, and can be only one of them")
	}
	for _, key := range []string{keySHA256, keyFiles} {
		if pin := value(e.Value, key); pin != nil && command == nil {
			add(pin.At, "%s pins the command, which must stand in the same entry", key)
		}
	}
	if command == nil || len(command.Items) == 0 || command.Items[0].Kind != document.Text {
		return found
	}
	program := command.Items[0]
	if err := checkPath(program.Text); err != nil {
		add(program.At, "program %s is not valid: %v", form.Quote(program.Text), err)
	} else if !strings.Contains(program.Text, "/") {
		add(program.At, "program %s must be a path, such as %s beside this file; PATH is not searched", form.Quote(program.Text), form.Quote("./"+program.Text))
	}
	return found
}
