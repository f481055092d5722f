package config

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/toolhost/toolhost/service/permission"
)

// TestMistakes: every mistake has its line. The first of each case is a project's
// file, which is named like -c would, so that it need not be trusted.
func TestMistakes(t *testing.T) {
	const pluginKeys = "builtin, command, sha256, files, grants, settings, env, override, sandbox"
	for _, c := range []struct {
		name, text, want string
	}{
		{"syntax", "plugins: {filesystem: {}\n", "toolhost.yaml:1:10: could not find flow mapping end token '}'"},
		{"not a mapping", "- a\n", "toolhost.yaml:1:1: file must be a mapping, not a list"},
		{"just a text", "plugins\n", "toolhost.yaml:1:1: file must be a mapping, not a text"},
		{"duplicate key", "plugins:\n  filesystem: {}\n  filesystem: {}\n", `toolhost.yaml:3:3: key "filesystem" is already there at line 2`},

		{"misspelled key", "perrmissions: []\n", `toolhost.yaml:1:1: unknown key "perrmissions" (did you mean "permissions"?)`},
		{"key in another case", "Plugins: {}\n", `toolhost.yaml:1:1: unknown key "Plugins" (did you mean "plugins"?)`},
		{"unknown key", "servers: {}\n", `toolhost.yaml:1:1: unknown key "servers"; the keys here are plugins, permissions, output, instructions, audit, locations`},
		{"unknown key of a plugin", "plugins: {filesystem: {enviromment: {}}}\n", `toolhost.yaml:1:24: unknown key "enviromment" in plugins.filesystem; the keys here are ` + pluginKeys},
		{"misspelled key of a plugin", "plugins: {a b: {comand: [./x]}}\n", `toolhost.yaml:1:17: unknown key "comand" in plugins."a b" (did you mean "command"?)`},
		{"misplaced key", "plugins: {filesystem: {permissions: []}}\n", `toolhost.yaml:1:24: unknown key "permissions" in plugins.filesystem; it belongs at the top of the file`},
		{"misplaced key of a plugin", "command: [./x]\n", `toolhost.yaml:1:1: unknown key "command"; it belongs in plugins.NAME`},
		{"misplaced sandbox", "sandbox: {}\n", `toolhost.yaml:1:1: unknown key "sandbox"; it belongs in plugins.NAME`},
		{"misplaced key of a sandbox", "plugins: {w: {net: host}}\n", `toolhost.yaml:1:15: unknown key "net" in plugins.w; it belongs in plugins.NAME.sandbox`},
		{"misplaced root", "root: .\n", `toolhost.yaml:1:1: unknown key "root"; it belongs in locations.NAME`},
		{"misplaced key of a rule", "plugins: {filesystem: {effect: deny}}\n", `toolhost.yaml:1:24: unknown key "effect" in plugins.filesystem; it belongs in permissions[…]`},
		{"merge key", "plugins: {<<: {}}\n", "toolhost.yaml:1:11: merge keys are not part of a config file"},

		{"plugins are no list", "plugins: [filesystem]\n", "toolhost.yaml:1:10: plugins must be a mapping, not a list"},
		{"a plugin is no text", "plugins: {filesystem: yes}\n", "toolhost.yaml:1:23: plugins.filesystem must be a mapping, not a text"},
		{"command is no text", "plugins: {w: {command: ./w}}\n", "toolhost.yaml:1:24: plugins.w.command must be a list, not a text"},
		{"command is empty", "plugins: {w: {command: []}}\n", "toolhost.yaml:1:24: plugins.w.command is empty"},
		{"an argument is a number", "plugins: {w: {command: [./w, 8080]}}\n", "toolhost.yaml:1:30: plugins.w.command[1] must be a text, not a number: put it in quotes"},
		{"an argument is nothing", "plugins: {w: {command: [./w, ~]}}\n", "toolhost.yaml:1:30: plugins.w.command[1] must be a text, not nothing"},
		{"an argument has a NUL", `plugins: {w: {command: [./w, "a\0"]}}`, "toolhost.yaml:1:30: plugins.w.command[1] has the control character U+0000"},
		{"a bare program", "plugins: {w: {command: [python3, w.py]}}\n", `toolhost.yaml:1:25: plugin "w": program "python3" must be a path, such as "./python3" beside this file; PATH is not searched`},
		{"an empty program", `plugins: {w: {command: [""]}}`, `toolhost.yaml:1:25: plugin "w": program "" is not valid: a path is not empty; this directory is "."`},
		{"somebody's home", "plugins: {w: {command: [~ada/w]}}\n", `toolhost.yaml:1:25: plugin "w": program "~ada/w" is not valid: only "~/" stands for a home directory; write the path`},
		{"both command and builtin", "plugins: {w: {command: [./w], builtin: filesystem}}\n", `toolhost.yaml:1:11: plugin "w": it has both a command and a builtin, and can be only one of them`},
		{"digest without command", "plugins: {filesystem: {sha256: " + digestA + "}}\n", `toolhost.yaml:1:32: plugin "filesystem": sha256 pins the command, which must stand in the same entry`},
		{"bad digest", "plugins: {w: {command: [./w], sha256: 9f86}}\n", `toolhost.yaml:1:39: plugins.w.sha256 "9f86" is not valid: a SHA-256 has 64 hex digits, as sha256sum prints them`},
		{"bad digest of a file", "plugins: {w: {command: [./w], files: {a.py: abc}}}\n", `toolhost.yaml:1:45: plugins.w.files."a.py" "abc" is not valid: a SHA-256 has 64 hex digits, as sha256sum prints them`},
		{"digest with a letter that is none", "plugins: {w: {command: [./w], sha256: g" + digestA[1:] + "}}\n", `toolhost.yaml:1:39: plugins.w.sha256 "g` + digestA[1:60] + `…" is not valid: a SHA-256 has 64 hex digits, as sha256sum prints them`},

		{"unknown plugin", "plugins: {filesytem: {}}\n", `toolhost.yaml:1:11: plugin "filesytem" is not built in and has no command (did you mean "filesystem"?)`},
		{"unknown plugin, nothing near", "plugins:\n  weather: {settings: {}}\n", `toolhost.yaml:2:3: plugin "weather" is not built in and has no command`},
		{"unknown builtin", "plugins: {fs: {builtin: filesistem}}\n", `toolhost.yaml:1:25: builtin "filesistem" is unknown; there is filesystem, process (did you mean "filesystem"?)`},
		{"grants of a built-in", "plugins: {filesystem: {grants: [permission]}}\n", `toolhost.yaml:1:32: grants of plugin "filesystem": a built-in gets the services that it declares`},
		{"unknown grant", "plugins: {w: {command: [./w], grants: [filesystem:raed]}}\n", `toolhost.yaml:1:40: plugins.w.grants[0] "filesystem:raed" is unknown; it is one of filesystem:read, filesystem:write, permission, process (did you mean "filesystem:read"?)`},
		{"a grant that is there twice", "plugins: {w: {command: [./w], grants: [permission, permission]}}\n", `toolhost.yaml:1:52: plugins.w.grants[1] "permission" is there twice`},
		{"plugin with a slash", "plugins: {a/b: {command: [./w]}}\n", `toolhost.yaml:1:11: name "a/b" in plugins is not valid: a name has 1 to 64 letters and digits of ASCII, and inside of it ' ', '.', '_', '-'`},
		{"plugin with a wildcard", `plugins: {"a*": {command: [./w]}}`, `toolhost.yaml:1:11: name "a*" in plugins is not valid: a name has 1 to 64 letters and digits of ASCII, and inside of it ' ', '.', '_', '-'`},
		{"plugin without a name", `plugins: {"": {command: [./w]}}`, `toolhost.yaml:1:11: name "" in plugins is not valid: a name has 1 to 64 letters and digits of ASCII, and inside of it ' ', '.', '_', '-'`},
		{"plugin with a space around", `plugins: {" a": {command: [./w]}}`, `toolhost.yaml:1:11: name " a" in plugins is not valid: a name has 1 to 64 letters and digits of ASCII, and inside of it ' ', '.', '_', '-'`},
		{"settings are no list", "plugins: {filesystem: {settings: [1]}}\n", "toolhost.yaml:1:34: plugins.filesystem.settings must be a mapping, not a list"},
		{"a number in settings", "plugins: {filesystem: {settings: {a: [017]}}}\n", "toolhost.yaml:1:39: number 017 is not read alike by every YAML: write it in plain decimal, or put it in quotes"},
		{"the host's variable", "plugins: {filesystem: {env: [TOOLHOST_CONFIG]}}\n", "toolhost.yaml:1:30: plugins.filesystem.env[0] is not valid: TOOLHOST_CONFIG is the host's own and is never passed through"},
		{"a variable that makes a shell run a file", "plugins: {w: {command: [./w], env: [HOME, BASH_ENV]}}\n", "toolhost.yaml:1:43: plugins.w.env[1] is not valid: BASH_ENV makes a shell run, or do, what is in no command line that was judged, and is never passed through"},
		{"a variable of the handshake", "plugins: {filesystem: {env: [PLUGIN_CLIENT_CERT]}}\n", "toolhost.yaml:1:30: plugins.filesystem.env[0] is not valid: PLUGIN_CLIENT_CERT is the host's own and is never passed through"},
		{"a tool that is shown otherwise", "plugins: {filesystem: {override: [a.b]}}\n", `toolhost.yaml:1:35: plugins.filesystem.override[0] "a.b" is not valid: a tool is taken over by the name that is shown to models, here a_b`},

		{"sandbox is a text", "plugins: {w: {sandbox: off}}\n", "toolhost.yaml:1:24: plugins.w.sandbox must be a mapping, not a text"},
		{"unknown mode", "plugins: {w: {sandbox: {mode: stict}}}\n", `toolhost.yaml:1:31: plugins.w.sandbox.mode "stict" is unknown; it is one of strict, off (did you mean "strict"?)`},
		{"a mode that is a boolean", "plugins: {w: {sandbox: {mode: false}}}\n", "toolhost.yaml:1:31: plugins.w.sandbox.mode must be a text, not true or false: put it in quotes"},
		{"unknown net", "plugins: {w: {sandbox: {net: all}}}\n", `toolhost.yaml:1:30: plugins.w.sandbox.net "all" is unknown; it is one of none, host`},
		{"exec is a text", "plugins: {w: {sandbox: {exec: yes}}}\n", "toolhost.yaml:1:31: plugins.w.sandbox.exec must be true or false, not a text"},
		{"exec is in quotes", `plugins: {w: {sandbox: {exec: "true"}}}`, "toolhost.yaml:1:31: plugins.w.sandbox.exec must be true or false, not a text: write it without quotes"},
		{"a path is no list", "plugins: {w: {sandbox: {fs: {read: /srv}}}}\n", "toolhost.yaml:1:36: plugins.w.sandbox.fs.read must be a list, not a text"},
		{"paths without fs", "plugins: {w: {sandbox: {read: [/srv]}}}\n", `toolhost.yaml:1:25: unknown key "read" in plugins.w.sandbox; it belongs in plugins.NAME.sandbox.fs`},
		{"an empty path", `plugins: {w: {sandbox: {fs: {write: [""]}}}}`, `toolhost.yaml:1:38: plugins.w.sandbox.fs.write[0] "" is not valid: a path is not empty; this directory is "."`},
		{"somebody's home in a sandbox", "plugins: {w: {sandbox: {fs: {write: [~ada/x]}}}}\n", `toolhost.yaml:1:38: plugins.w.sandbox.fs.write[0] "~ada/x" is not valid: only "~/" stands for a home directory; write the path`},
		{"too little memory", "plugins: {w: {sandbox: {limits: {memory: 512KiB}}}}\n", `toolhost.yaml:1:42: plugins.w.sandbox.limits.memory "512KiB" is not valid: it must be a whole number between 268435456 and 1099511627776`},
		{"memory without a unit that is known", "plugins: {w: {sandbox: {limits: {memory: 512M}}}}\n", `toolhost.yaml:1:42: plugins.w.sandbox.limits.memory "512M" is not valid: a size is a number of bytes, or a text such as 500MB or 2GiB`},
		{"too few processes", "plugins: {w: {sandbox: {limits: {processes: 0}}}}\n", `toolhost.yaml:1:45: plugins.w.sandbox.limits.processes "0" is not valid: it must be a whole number between 16 and 32768`},
		{"half an open file", "plugins: {w: {sandbox: {limits: {files: 64.5}}}}\n", `toolhost.yaml:1:41: plugins.w.sandbox.limits.files "64.5" is not valid: it must be a whole number between 64 and 1048576`},
		{"no processor", "plugins: {w: {sandbox: {limits: {cpu: 0}}}}\n", `toolhost.yaml:1:39: plugins.w.sandbox.limits.cpu "0" is not valid: it must be a number between 0.1 and 1024`},
		{"processors in quotes", `plugins: {w: {sandbox: {limits: {cpu: "1.5"}}}}`, "toolhost.yaml:1:39: plugins.w.sandbox.limits.cpu must be a number, not a text: write it without quotes"},

		{"a rule is empty", "permissions:\n  - null\n", "toolhost.yaml:2:5: permissions[0] is empty"},
		{"a rule without an effect", "permissions: [{action: read, resource: x}]\n", "toolhost.yaml:1:15: permissions[0] has no effect"},
		{"unknown effect", "permissions: [{action: read, resource: x, effect: alow}]\n", `toolhost.yaml:1:51: permissions[0].effect "alow" is unknown; it is one of allow, ask, deny (did you mean "allow"?)`},
		{"effect is nothing", "permissions: [{action: read, resource: x, effect: }]\n", `toolhost.yaml:1:50: permissions[0].effect must be a text, not nothing`},
		{"effect is a boolean", "permissions: [{action: read, resource: x, effect: true}]\n", `toolhost.yaml:1:51: permissions[0].effect must be a text, not true or false: put it in quotes`},
		{"resource is a number", "permissions: [{action: read, resource: 8080, effect: deny}]\n", `toolhost.yaml:1:40: permissions[0].resource must be a text, not a number: put it in quotes`},
		{"star without quotes", "permissions:\n  - {action: read, resource: *, effect: allow}\n", `toolhost.yaml:2:30: a text that begins with "*" must be put in quotes; aliases are not part of a config file`},
		{"resource that matches nothing", "permissions: [{action: read, resource: ./x, effect: deny}]\n", `toolhost.yaml:1:40: resource "./x" matches no path: paths are judged in their shortest form, such as "x"`},
		{"resource as of a glob", "permissions: [{action: read, resource: \"**/*.pem\", effect: deny}]\n", `toolhost.yaml:1:40: resource "**/*.pem" does not match what it does in a glob: here * crosses directories, and the slash behind it must be there; write "*.pem"`},

		{"lines that are none", "output: {max_lines: 0}\n", "toolhost.yaml:1:21: output.max_lines \"0\" is not valid: it must be a whole number between 1 and 100000"},
		{"too many lines", "output: {max_lines: 1e6}\n", "toolhost.yaml:1:21: output.max_lines \"1e6\" is not valid: it must be a whole number between 1 and 100000"},
		{"lines by halves", "output: {max_lines: 1.5}\n", "toolhost.yaml:1:21: output.max_lines \"1.5\" is not valid: it must be a whole number between 1 and 100000"},
		{"lines beyond all bounds", "output: {max_lines: 1e999999999}\n", "toolhost.yaml:1:21: output.max_lines \"1e999999999\" is not valid: it must be a whole number between 1 and 100000"},
		{"lines in quotes", `output: {max_lines: "10"}`, "toolhost.yaml:1:21: output.max_lines must be a number, not a text: write it without quotes"},
		{"negative bytes", "locations: {a: {root: ., output: {tools: {filesystem/read: {max_bytes: -1}}}}}\n", "toolhost.yaml:1:72: locations.a.output.tools.\"filesystem/read\".max_bytes \"-1\" is not valid: it must be a whole number between 1024 and 1048576"},
		{"too many bytes", "output: {max_bytes: 1048577}\n", "toolhost.yaml:1:21: output.max_bytes \"1048577\" is not valid: it must be a whole number between 1024 and 1048576"},
		{"retention in days", "output: {retention: 7d}\n", "toolhost.yaml:1:21: output.retention \"7d\" is not valid: a retention is a duration such as 168h or 90m; the longest unit is h"},
		{"retention that is past", "output: {retention: -1h}\n", "toolhost.yaml:1:21: output.retention \"-1h\" is not valid: a retention is between 1m and 87600h"},
		{"retention without a unit", "output: {retention: 3600}\n", "toolhost.yaml:1:21: output.retention must be a text, not a number: put it in quotes"},
		{"quota with an unknown unit", "output: {quota: 5XB}\n", "toolhost.yaml:1:17: output.quota \"5XB\" is not valid: a size is a number of bytes, or a text such as 500MB or 2GiB"},
		{"quota that is too small", "output: {quota: 1023KiB}\n", "toolhost.yaml:1:17: output.quota \"1023KiB\" is not valid: it must be a whole number between 1048576 and 1099511627776"},
		{"quota that is huge", "output: {quota: 999999999999999999TiB}\n", "toolhost.yaml:1:17: output.quota \"999999999999999999TiB\" is not valid: it must be a whole number between 1048576 and 1099511627776"},
		{"quota that is neither", "output: {quota: [1]}\n", "toolhost.yaml:1:17: output.quota must be a number, not a list"},
		{"a tool without a plugin", "output: {tools: {read: {}}}\n", `toolhost.yaml:1:18: name "read" in output.tools is not valid: the id of a tool is plugin/tool, such as weather/forecast`},
		{"a tool of an unknown plugin", "plugins: {filesystem: {}}\noutput: {tools: {filesytem/read: {}}}\n", `toolhost.yaml:2:18: tool "filesytem/read": plugin "filesytem" is not configured (did you mean "filesystem"?)`},
		{"a tool that the host has not", "output: {tools: {toolhost/read: {}}}\n", `toolhost.yaml:1:18: name "toolhost/read" in output.tools is not valid: tool name "read" is not one that the host keeps for itself`},
		{"a misspelled limit of a tool", "plugins: {filesystem: {}}\noutput: {tools: {filesystem/read: {max_line: 1}}}\n", `toolhost.yaml:2:36: unknown key "max_line" in output.tools."filesystem/read" (did you mean "max_lines"?)`},
		{"misplaced limit", "max_lines: 1\n", `toolhost.yaml:1:1: unknown key "max_lines"; it belongs in output`},
		{"the host's name", "plugins: {toolhost: {command: [./x]}}\n", `toolhost.yaml:1:11: name "toolhost" in plugins is not valid: the name is the host's own; choose another`},
		{"the host's other name", "plugins: {Host: {command: [./x]}}\n", `toolhost.yaml:1:11: name "Host" in plugins is not valid: the name is the host's own; choose another`},

		{"instructions in a directory", "instructions: [docs/AGENTS.md]\n", `toolhost.yaml:1:16: instructions[0] "docs/AGENTS.md" is not valid: it is the name of a file, without directories, such as AGENTS.md`},
		{"instructions above", "instructions: [AGENTS.md, ..]\n", `toolhost.yaml:1:27: instructions[1] ".." is not valid: it is the name of a file, without directories, such as AGENTS.md`},
		{"instructions without a name", `instructions: [""]`, `toolhost.yaml:1:16: instructions[0] "" is not valid: it is the name of a file, without directories, such as AGENTS.md`},
		{"instructions with a line end", `instructions: ["a\nb"]`, `toolhost.yaml:1:16: instructions[0] "a\nb" is not valid: a name of a file has at most 255 bytes and no control characters`},
		{"instructions twice", "instructions: [A, A]\n", `toolhost.yaml:1:19: instructions[1] "A" is there twice`},
		{"instructions are no text", "instructions: AGENTS.md\n", "toolhost.yaml:1:15: instructions must be a list, not a text"},

		{"location without a root", "locations: {a: {plugins: {}}}\n", "toolhost.yaml:1:16: locations.a has no root"},
		{"location that is nothing", "locations: {a: }\n", "toolhost.yaml:1:15: locations.a is empty"},
		{"root is nothing", "locations: {a: {root: }}\n", "toolhost.yaml:1:22: locations.a.root must be a text, not nothing"},
		{"root is empty", `locations: {a: {root: ""}}`, `toolhost.yaml:1:23: locations.a.root "" is not valid: a path is not empty; this directory is "."`},
		{"locations are none", "locations: {}\n", "toolhost.yaml:1:12: locations is empty; without the key, this file's directory is the one Location"},
		{"locations in a location", "locations: {a: {root: ., locations: {}}}\n", `toolhost.yaml:1:26: unknown key "locations" in locations.a; it belongs at the top of the file`},
		{"location with a control character", `locations: {"a\tb": {root: .}}`, "toolhost.yaml:1:13: key \"a\\tb\" has a control character"},

		{"several at once, in order", "plugin: {}\npermissions:\n  - {action: raed, resource: x, effect: deny}\n  - {resource: y, efect: deny}\nplugins: {w: {command: w, envs: []}}\n",
			`toolhost.yaml:1:1: unknown key "plugin" (did you mean "plugins"?)
toolhost.yaml:4:5: permissions[1] has no action
toolhost.yaml:4:5: permissions[1] has no effect
toolhost.yaml:4:19: unknown key "efect" in permissions[1] (did you mean "effect"?)
toolhost.yaml:5:24: plugins.w.command must be a list, not a text
toolhost.yaml:5:27: unknown key "envs" in plugins.w (did you mean "env"?)`},
		{"the same mistake in several Locations, once", "plugins: {x: {}}\nlocations: {a: {root: .}, b: {root: .}}\n", `toolhost.yaml:1:11: plugin "x" is not built in and has no command`},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t)
			w.file = w.write(FileName, c.text)
			if _, err := w.load(); err == nil || err.Error() != c.want {
				t.Errorf("got\n%v\nwant\n%s", err, c.want)
			}
		})
	}
}

// TestCaseC21MalformedRuleStopsLoading. Seen to fail with the errors of
// ParseAction ignored.
func TestCaseC21MalformedRuleStopsLoading(t *testing.T) {
	actions := ": an action is one of " + strings.Join(permission.Actions(), ", ") + ", or plugin/tool of a configured plugin"
	for action, want := range map[string]string{
		"bash(":       `action "bash(" is unknown` + actions,
		"":            `action: pattern is empty; "*" matches everything`,
		"proc.rum:*":  `action "proc.rum:*" is unknown` + actions,
		"raed":        `action "raed" is unknown` + actions + ` (did you mean "read"?)`,
		"weather":     `action "weather" is unknown` + actions + ` (did you mean "weather/*"?)`,
		"wether/now":  `action "wether/now" is unknown` + actions + ` (did you mean "weather/now"?)`,
		"weather/":    `action "weather/" is unknown` + actions + ` (did you mean "weather/*"?)`,
		"filesytem/*": `action "filesytem/*" is unknown` + actions,
	} {
		rule := fmt.Sprintf("permissions:\n- {action: %q, resource: x, effect: deny}\n", action)
		w := newWorld(t)
		w.file = w.write(FileName, "plugins: {weather: {command: [./w]}}\n"+rule)
		if _, err := w.load(); err == nil || err.Error() != "toolhost.yaml:3:12: "+want {
			t.Errorf("project's file, %q:\ngot  %v\nwant toolhost.yaml:3:12: %s", action, err, want)
		}
	}

	// The user's file serves projects with other plugins too, so it may speak of any.
	for action, valid := range map[string]bool{
		"wether/now": true, "we*/now": true, "wea*": true, "*": true, "read": true,
		"bash(": false, "": false, "proc.rum:*": false, "raed": false, "weather": false, "weather/": false, "/x": false, "a:b/c": false,
	} {
		w := newWorld(t)
		w.writeUser(fmt.Sprintf("permissions: [{action: %q, resource: x, effect: deny}]\n", action))
		if _, err := w.load(); (err == nil) != valid {
			t.Errorf("user's file, %q: got %v", action, err)
		}
	}
}

// TestCaseC21RuleForABuiltinByItsID: a built-in asks for the actions of the built-ins,
// so that a rule for the ids of its tools alone would deny nothing. Seen to fail with
// the built-ins among the plugins that rules may speak of.
func TestCaseC21RuleForABuiltinByItsID(t *testing.T) {
	const (
		change = `; use "edit", which is every change of files`
		run    = `; use "shell", which is every command line`
		other  = `; use "edit" for whatever changes files, "shell" for whatever runs, or the one of read, list, glob and grep that is meant`
	)
	for action, use := range map[string]string{
		"filesystem/write": change, "filesystem/remove": change, "files/patch": change, "filesystem/read": `; use "read"`, "files/edit": `; use "edit"`,
		"process/process_start": run, "process/process_input": run, "process/shell": `; use "shell"`, "process/process_list": other,
		"filesystem/*": other, "f*/write": other, "files/none": other, "filesystem/": other,
		"*": "", "*/write": "", "own/write": "", "own/process_start": "", "w*": "", "r*": "",
	} {
		const plugins = "plugins: {filesystem: {}, files: {builtin: filesystem}, own: {command: [./w]}, weather: {command: [./w]}}\n"
		rule := fmt.Sprintf("permissions:\n- {action: %q, resource: x, effect: deny}\n", action)
		want := ""
		if use != "" {
			want = fmt.Sprintf("action %q matches nothing: the tools of a built-in plugin ask for read, list, glob, grep, edit or shell, and not by their ids%s", action, use)
		}
		for _, trusted := range []bool{true, false} {
			w := newWorld(t)
			if path := w.write(FileName, plugins+rule); trusted {
				w.file = path
			}
			if _, err := w.load(); (err != nil) != (want != "") || err != nil && err.Error() != "toolhost.yaml:3:12: "+want {
				t.Errorf("project's file, %q, trusted %v:\ngot  %v\nwant %s", action, trusted, err, want)
			}
		}
	}

	// The user's file, which may speak of any other plugin, and of one of that name that
	// is not built in.
	rule := "permissions: [{action: filesystem/write, resource: x, effect: deny}]\n"
	w := newWorld(t)
	w.writeUser(rule)
	if _, err := w.load(); err == nil || !strings.HasSuffix(err.Error(), `config.yaml:1:24: action "filesystem/write" matches nothing: the tools of a built-in plugin ask for read, list, glob, grep, edit or shell, and not by their ids`+change) {
		t.Errorf("user's file: got %v", err)
	}
	w = newWorld(t)
	w.writeUser(rule + "plugins: {filesystem: {command: [./own]}}\n")
	if _, err := w.load(); err != nil {
		t.Errorf("user's file, of a plugin of their own: got %v", err)
	}
}

// TestDoubtsOfRulesForADirectory: a rule that restricts a directory alone is said,
// unless another one is for what is in it. Seen to fail with every path taken for a directory,
// and with no look at the other rules.
func TestDoubtsOfRulesForADirectory(t *testing.T) {
	w := newWorld(t)
	for _, file := range []string{"secrets/a", "both/a", "some/a", "open/a", "plain"} {
		w.write(file, "")
	}
	w.write("sub/"+FileName, "permissions: [{action: read, resource: deep, effect: deny}]\n") // not trusted
	w.write("sub/deep/a", "")
	w.dir = w.project + "/sub"
	w.trust(w.write(FileName, `plugins: {filesystem: {}, own: {command: [./own]}}
permissions:
  - {action: read, resource: secrets, effect: deny}
  - {action: "*", resource: secrets, effect: ask, agent: coder}
  - {action: read, resource: both, effect: deny}
  - {action: "*", resource: "both/*", effect: deny}
  - {action: edit, resource: some, effect: deny}
  - {action: edit, resource: "some/*", effect: deny, agent: coder}
  - {action: edit, resource: ., effect: deny}
  - {action: edit, resource: open, effect: allow}
  - {action: read, resource: plain, effect: deny}
  - {action: list, resource: gone, effect: deny}
  - {action: own/x, resource: secrets, effect: deny}
  - {action: glob, resource: secrets, effect: deny}
`))
	c, err := w.load()
	if err != nil {
		t.Fatal(err)
	}
	const alone = " is a directory, and the rule is for that alone: what is in it is "
	want := []string{
		`toolhost.yaml:3: "secrets"` + alone + `"secrets/*"`, `toolhost.yaml:4: "secrets"` + alone + `"secrets/*"`,
		`toolhost.yaml:7: "some"` + alone + `"some/*"`, `toolhost.yaml:9: "."` + alone + `"*"`, `toolhost.yaml:1: "deep"` + alone + `"deep/*"`,
	}
	if got := c.Locations[0].Doubts(); !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// TestDoubtsOfRulesForSeveralCommands: a rule for a line of several commands is for none of
// them, unless it denies. Seen to fail with denies doubted, and with a quoted operator taken
// for one.
func TestDoubtsOfRulesForSeveralCommands(t *testing.T) {
	w := newWorld(t)
	w.trust(w.write(FileName, `plugins: {filesystem: {}, own: {command: [./own]}}
permissions:
  - {action: shell, resource: "cd web && git *", effect: allow}
  - {action: shell, resource: "make | tee log", effect: ask}
  - {action: shell, resource: "echo * > out.txt", effect: allow}
  - {action: shell, resource: "git * && *", effect: deny}
  - {action: shell, resource: "echo 'a && b'*", effect: allow}
  - {action: shell, resource: "go test *", effect: allow}
  - {action: shell, resource: "timeout 5 go test", effect: allow}
  - {action: shell, resource: "sh -c make", effect: allow}
  - {action: shell, resource: "sh -c 'a; b'", effect: ask}
  - {action: shell, resource: "*", effect: allow}
  - {action: own/x, resource: "a; b", effect: allow}
`))
	c, err := w.load()
	if err != nil {
		t.Fatal(err)
	}
	const none = " is a line of several commands, and the rule is for none of them: each is judged by itself, so write a rule for each"
	want := []string{
		`toolhost.yaml:3: "cd web && git *"` + none, `toolhost.yaml:4: "make | tee log"` + none,
		`toolhost.yaml:5: "echo * > out.txt" writes a file, and the rule is for no command: what is written is judged as edit, and the command without it`,
	}
	if got := c.Locations[0].Doubts(); !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// TestCaseG02UnknownKeysInEveryLayer. Seen to fail with the user's file unchecked.
func TestCaseG02UnknownKeysInEveryLayer(t *testing.T) {
	w := newWorld(t)
	w.writeUser("perrmissions: []\nlocations: {}\n")
	w.write(FileName, "plugins: {filesystem: {enviromment: {}, evn: []}}\n") // not trusted
	user := w.home + "/.config/toolhost/config.yaml"
	want := user + `:1:1: unknown key "perrmissions" (did you mean "permissions"?)
` + user + `:2:1: unknown key "locations"; the keys here are plugins, permissions, output, instructions, audit
toolhost.yaml:1:24: unknown key "enviromment" in plugins.filesystem; the keys here are builtin, command, sha256, files, grants, settings, env, override, sandbox
toolhost.yaml:1:41: unknown key "evn" in plugins.filesystem (did you mean "env"?)`
	if _, err := w.load(); err == nil || err.Error() != want {
		t.Errorf("got\n%v\nwant\n%s", err, want)
	}
}

func TestMistakesAreBounded(t *testing.T) {
	w := newWorld(t)
	w.file = w.write(FileName, "permissions:\n"+strings.Repeat("- {}\n", 100))
	_, err := w.load()
	var e *Error
	if !errors.As(err, &e) || len(e.Mistakes) != 300 {
		t.Fatalf("got %v", err)
	}
	lines := strings.Split(err.Error(), "\n")
	if len(lines) != maxMistakes+1 || lines[maxMistakes] != "and 280 more" {
		t.Errorf("got %d lines, the last %q", len(lines), lines[len(lines)-1])
	}
}

// TestSecretsStayOutOfMessages: what somebody wrote into env or settings is never
// repeated, whatever is wrong around it. Seen to fail with env's texts quoted.
func TestSecretsStayOutOfMessages(t *testing.T) {
	for _, text := range []string{
		"plugins: {filesystem: {env: [TOKEN=hunter2]}}",
		"plugins: {filesystem: {env: [hunter2 x, hunter2 x]}}",
		"plugins: {filesystem: {env: {TOKEN: hunter2}}}",
		"plugins: {filesystem: {env: TOKEN=hunter2}}",
		"plugins: {filesystem: {env: [{TOKEN: hunter2}]}}",
		"plugins: {filesystem: {env: [\"hunter2\\0\"]}}",
		"plugins: {filesystem: {settings: hunter2}}",
		"plugins: {filesystem: {settings: [hunter2]}}",
		"plugins: {filesystem: {settings: {token: hunter2}, unknown: x}}",
		"plugins: {filesystem: {settings: {token: hunter2}, settings: {token: hunter2}}}",
		"plugins: {filesystem: {settings: {token: hunter2",
		"plugins:\n  filesystem:\n    settings:\n      token: hunter2\n     oops: x\n",
		"plugins:\n  filesystem:\n    settings:\n      token: \"hunter2\n",
		"plugins:\n  filesystem:\n    settings:\n      token: hunter2\n        more\n",
		"plugins: {w: {command: [w, --token, hunter2]}}",
	} {
		w := newWorld(t)
		w.file = w.write(FileName, text)
		if _, err := w.load(); err == nil || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s:\ngot %v", text, err)
		}
	}
}

// TestUnreadableFiles: what is no config file is refused at once, by name.
func TestUnreadableFiles(t *testing.T) {
	for _, c := range []struct {
		name string
		make func(w *world, path string)
		want string
	}{
		{"missing", func(*world, string) {}, "no such file or directory"},
		{"a directory", func(w *world, path string) { w.write(path+"/x", "") }, "is not a regular file"},
		{"a pipe that nobody writes to", func(w *world, path string) {
			if err := syscall.Mkfifo(path, 0o600); err != nil {
				w.t.Fatal(err)
			}
		}, "is not a regular file"},
		{"a device", func(w *world, path string) {
			if err := os.Symlink("/dev/zero", path); err != nil {
				w.t.Fatal(err)
			}
		}, "is not a regular file"},
		{"too large", func(w *world, path string) { w.write(path, strings.Repeat("#", 1<<20+1)) }, "has more than 1048576 bytes"},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t)
			path := filepath.Join(w.project, "named.yaml")
			c.make(w, path)
			w.file = path
			began := time.Now()
			_, err := w.load()
			if err == nil || !strings.HasPrefix(err.Error(), "config file "+path) || !strings.HasSuffix(err.Error(), c.want) {
				t.Errorf("got %v, want … %s", err, c.want)
			}
			if took := time.Since(began); took > 10*time.Second {
				t.Errorf("took %v", took)
			}
		})
	}
	t.Run("as large as may be", func(t *testing.T) {
		w := newWorld(t)
		w.file = w.write("named.yaml", strings.Repeat("#", 1<<20))
		w.mustLoad()
	})
}

func FuzzLoad(f *testing.F) {
	f.Add([]byte(exampleFile), []byte("plugins: {weather: {settings: {a: 1}}}\n"))
	f.Add([]byte("locations: {a: {root: ., permissions: [{action: '*', resource: x, effect: deny}]}}"), []byte("permissions: null"))
	f.Add([]byte("plugins: {x: {builtin: process, settings: {a: {b: [1]}}}}"), []byte("plugins: {x: {settings: {a: 2}}}"))
	f.Add([]byte("plugins: {x: null, \"\": {}, w: {command: [], files: null, grants: null}}\n"), []byte("plugins: null\nlocations: null\n"))
	f.Fuzz(func(t *testing.T, project, user []byte) {
		w := newWorld(t)
		w.writeUser(string(user))
		path := w.write(FileName, string(project))
		for _, file := range []string{"", path} { // not trusted, and named
			w.file = file
			c, err := w.load()
			var e *Error
			switch {
			case err != nil && (!errors.As(err, &e) || len(e.Mistakes) == 0):
				t.Errorf("got an error without a place: %v", err)
			case err == nil && len(c.Locations) == 0:
				t.Error("got no Location")
			}
		}
	})
}
