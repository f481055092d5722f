package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/toolhost/toolhost/config"
	"github.com/toolhost/toolhost/tool"
)

// The README is held against what it speaks of: its commands run, its
// configuration loads, its plugin is the one in examples/.

func readme(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// blocks gives the fenced blocks of a language.
func blocks(text, language string) []string {
	var out []string
	for _, m := range regexp.MustCompile("(?s)\n```"+language+"\n(.*?)\n```\n").FindAllStringSubmatch(text, -1) {
		out = append(out, m[1])
	}
	return out
}

func TestReadmeBeginsWithTwoCommands(t *testing.T) {
	first := strings.Split(blocks(readme(t), "sh")[0], "\n")
	if len(first) != 2 || !strings.HasPrefix(first[0], "go run ./cmd/host call ") || first[1] != "go test ./..." {
		t.Errorf("got %q, want the main job and the tests", first)
	}
	args := words(strings.TrimPrefix(first[0], "go run ./cmd/host "))
	var stdout, stderr bytes.Buffer
	isolate(t)
	if status := run(context.Background(), append([]string{"-C", "../.."}, args...), nil, &stdout, &stderr); status != 0 {
		t.Fatalf("%s: status %d\n%s", first[0], status, &stderr)
	}
	if !strings.Contains(stdout.String(), "func Serve(p Plugin)") {
		t.Errorf("got %s, want the line of sdk.Serve", &stdout)
	}
}

func TestReadmeCommandsRun(t *testing.T) {
	isolate(t)
	for _, block := range blocks(readme(t), "console") {
		dir := "../.."
		if strings.Contains(block, "call write") {
			dir = t.TempDir() // the clone is not theirs to change
		}
		if strings.Contains(block, "call shell") {
			dir = t.TempDir()
			write(t, filepath.Join(dir, "toolhost.yaml"), commandsConfiguration(t))
		}
		for line := range strings.Lines(block) {
			command := strings.TrimSpace(strings.TrimPrefix(line, "$ toolhost "))
			if strings.HasPrefix(command, "trust") {
				continue // testdata/script/trust.txtar has its story
			}
			var stdout, stderr bytes.Buffer
			if status := run(context.Background(), append([]string{"-C", dir}, words(command)...), nil, &stdout, &stderr); status != 0 || stdout.Len() == 0 {
				t.Errorf("%s: status %d\n%s%s", line, status, &stdout, &stderr)
			}
		}
	}
}

// commandsConfiguration is the configuration of the README that names the plugin for
// commands.
func commandsConfiguration(t *testing.T) string {
	t.Helper()
	for _, block := range blocks(readme(t), "yaml") {
		if strings.Contains(block, "  process:") {
			return block
		}
	}
	t.Fatal("README.md configures no commands")
	return ""
}

func TestReadmeConfigurationLoads(t *testing.T) {
	isolate(t)
	for _, block := range blocks(readme(t), "yaml") {
		path := filepath.Join(t.TempDir(), "toolhost.yaml")
		if err := os.WriteFile(path, []byte(block), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := config.Load(context.Background(), config.Options{Dir: filepath.Dir(path), File: path, Builtins: builtinNames()}); err != nil {
			t.Errorf("%v in\n%s", err, block)
		}
	}
}

func TestReadmePluginIsTheExample(t *testing.T) {
	source, err := os.ReadFile("../../examples/outline/main.go")
	if err != nil {
		t.Fatal(err)
	}
	if block := blocks(readme(t), "go")[0]; block != strings.TrimSpace(string(source)) {
		t.Error("the plugin in README.md is not examples/outline/main.go")
	}
}

// Every flag and every command stands in the README.
func TestReadmeNamesEverything(t *testing.T) {
	text := readme(t)
	root := (&app{}).rootCommand()
	root.InitDefaultCompletionCmd()
	for _, command := range root.Commands() {
		if command.Name() != "help" && !strings.Contains(text, "`toolhost "+command.Name()) {
			t.Errorf("README.md does not name the command %s", command.Name())
		}
	}
	flags := root.PersistentFlags().FlagUsages()
	for _, command := range root.Commands() {
		flags += command.LocalNonPersistentFlags().FlagUsages()
	}
	for _, flag := range regexp.MustCompile(`--[a-z-]+`).FindAllString(flags, -1) {
		if !strings.Contains(text, flag) {
			t.Errorf("README.md does not name the flag %s", flag)
		}
	}
	for _, kind := range tool.Kinds() {
		if !strings.Contains(text, "`"+string(kind)+"`") {
			t.Errorf("README.md does not name the kind of error %s", kind)
		}
	}
}

// isolate keeps the user's own configuration and state out of a test.
func isolate(t *testing.T) {
	t.Helper()
	home := t.TempDir()
	t.Setenv("HOME", home)
	t.Setenv("XDG_CONFIG_HOME", "")
	t.Setenv("XDG_STATE_HOME", "")
	t.Setenv("TOOLHOST_CONFIG", "")
}

// words splits a command line with single quotes.
func words(line string) []string {
	var out []string
	for i, part := range strings.Split(line, "'") {
		if i%2 == 1 {
			out = append(out, part)
		} else {
			out = append(out, strings.Fields(part)...)
		}
	}
	return out
}
