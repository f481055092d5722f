package main

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// clients are the agents whose configuration is known, by name: where it stands, and
// what stands there for one server. COMMAND is the program, DIRECTORY the project.
func clients() map[string]struct{ where, what string } {
	const servers = `{"mcpServers": {"toolhost": {"command": COMMAND, "args": ["serve", "-C", DIRECTORY]}}}`
	return map[string]struct{ where, what string }{
		"claude-code":    {"run", `claude mcp add toolhost -- COMMAND serve -C DIRECTORY`},
		"claude-desktop": {"claude_desktop_config.json", servers},
		"codex":          {"~/.codex/config.toml", "[mcp_servers.toolhost]\ncommand = COMMAND\nargs = [\"serve\", \"-C\", DIRECTORY]"},
		"cursor":         {".cursor/mcp.json", servers},
		"gemini":         {"~/.gemini/settings.json", servers},
		"vscode":         {".vscode/mcp.json", `{"servers": {"toolhost": {"type": "stdio", "command": COMMAND, "args": ["serve", "-C", DIRECTORY]}}}`},
		"zed":            {"settings.json", `{"context_servers": {"toolhost": {"source": "custom", "command": COMMAND, "args": ["serve", "-C", DIRECTORY]}}}`},
	}
}

func clientNames() []string { return slices.Sorted(maps.Keys(clients())) }

// printClientConfig prints what a client is configured with, for this program and the
// directory that would be served.
func (a *app) printClientConfig(name string) error {
	client, ok := clients()[name]
	if !ok {
		return fmt.Errorf("client %q is unknown; its configuration is printed for %s", name, strings.Join(clientNames(), ", "))
	}
	program, err := os.Executable()
	if err != nil {
		return operational(err)
	}
	dir, err := filepath.Abs(a.dir)
	if err != nil {
		return err
	}
	where := "this goes into " + client.where
	if client.where == "run" {
		where = "run this once"
	}
	a.notice(where)
	quote := func(text string) string { return fmt.Sprintf("%q", text) }
	if client.where == "run" {
		quote = shellQuote
	}
	_, err = fmt.Fprintln(a.stdout, strings.NewReplacer("COMMAND", quote(program), "DIRECTORY", quote(dir)).Replace(client.what))
	return err
}

// shellQuote is a text as a shell reads it.
func shellQuote(text string) string {
	if strings.Trim(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/._-+@%") == "" {
		return text
	}
	return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
}
