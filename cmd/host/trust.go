package main

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"os/user"
	"path/filepath"
	"strings"
	"syscall"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/toolhost/toolhost/config"
	"github.com/toolhost/toolhost/state"
)

func (a *app) trustCommand() *cobra.Command {
	var list, revoke, show, yes bool
	command := &cobra.Command{
		Use:   "trust [FILE]",
		Short: "Let a project's configuration file take effect",
		Long: `Record that a project's toolhost.yaml may take effect, as it is now: start its
plugins, pass its variables, and allow what it allows. Without FILE it is the one
that would be used here. A file that changes must be trusted again; until then
only its denies hold.

What changed since the file was trusted is shown first, then what the file would
do, and you are asked. Without a terminal, or with --json, nobody can be asked, and
nothing is trusted without --yes. --show shows the same and records nothing.

The program of a plugin that is not pinned may be rebuilt: that is noticed, and
said, and it runs. Its digest is recorded too.

The record is in the user's own state, $XDG_STATE_HOME/toolhost or
~/.local/state/toolhost.`,
		Example: `  toolhost trust --show
  toolhost trust
  toolhost trust --yes
  toolhost trust --list
  toolhost trust --revoke ./toolhost.yaml`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx := cmd.Context()
			if list {
				return a.listTrust(ctx)
			}
			path, err := a.fileToTrust(args)
			if err != nil {
				return err
			}
			if revoke {
				return a.revokeTrust(ctx, path)
			}
			candidate, err := a.candidate(ctx, path)
			if err != nil {
				return err
			}
			if show {
				return a.showTrust(candidate)
			}
			return a.trust(ctx, candidate, yes)
		},
	}
	command.Flags().BoolVar(&list, "list", false, "list the files that are trusted")
	command.Flags().BoolVar(&revoke, "revoke", false, "trust the file no longer")
	command.Flags().BoolVar(&show, "show", false, "show what changed and what the file would do, and record nothing")
	command.Flags().BoolVar(&yes, "yes", false, "trust it without asking")
	command.MarkFlagsMutuallyExclusive("list", "revoke", "show")
	return command
}

// trustedDigest is the digest that the user trusts a project's file to have.
func (a *app) trustedDigest(ctx context.Context, path string) (string, error) {
	record, found, err := a.state.Trusted(ctx, path)
	if err != nil || !found {
		return "", err
	}
	return record.Digest, nil
}

// trustedContent is the content that the user trusted a project's file with, or nil.
func (a *app) trustedContent(ctx context.Context, path string) ([]byte, error) {
	content, _, err := a.state.TrustedContent(ctx, path)
	return content, err
}

// fileToTrust is the file that the command names, or the one that would be used.
func (a *app) fileToTrust(args []string) (string, error) {
	if len(args) == 1 {
		return filepath.Join(a.dirFor(args[0]), args[0]), nil
	}
	dir, err := filepath.Abs(a.dir)
	if err != nil {
		return "", err
	}
	path, err := config.Discover(dir)
	if err == nil && path == "" {
		err = fmt.Errorf("there is no %s here to trust: name a file", config.FileName)
	}
	return path, err
}

// dirFor is what a path of the command line is relative to.
func (a *app) dirFor(path string) string {
	if filepath.IsAbs(path) {
		return ""
	}
	return a.dir
}

// candidate is a file that may be trusted, and all that is shown and recorded of it.
type candidate struct {
	file     config.File
	content  string
	before   state.TrustRecord // zero if it is not trusted
	shown    trustShown
	programs []state.ProgramRecord // of the plugins that are not pinned
}

// candidate looks at the file as it would be used once it is trusted. What is shown
// and what is recorded come from one content of it.
func (a *app) candidate(ctx context.Context, path string) (*candidate, error) {
	path, err := config.Place(path)
	if err != nil {
		return nil, err
	}
	if filepath.Base(path) != config.FileName {
		return nil, fmt.Errorf("%s is not found by itself, since it is not named %s: name it with -c, which trusts it for that run", path, config.FileName)
	}
	c := &candidate{}
	if c.content, err = readFile(path); err != nil {
		return nil, err
	}
	sum := sha256.Sum256([]byte(c.content))
	digest := hex.EncodeToString(sum[:])
	cfg, err := config.Load(ctx, config.Options{
		Dir: filepath.Dir(path), Builtins: builtinNames(),
		TrustedDigest: func(context.Context, string) (string, error) { return digest, nil },
		Getenv: func(name string) string {
			if name == "TOOLHOST_CONFIG" { // which would stand in place of the file
				return ""
			}
			return os.Getenv(name)
		},
	})
	if err != nil {
		return nil, err
	}
	if c.file = cfg.Files[len(cfg.Files)-1]; c.file.Path != path || c.file.Digest != digest {
		return nil, fmt.Errorf("%s changed while it was looked at: run the command again", path)
	}
	if c.before, _, err = a.state.Trusted(ctx, path); err != nil {
		return nil, operational(err)
	}
	if err := a.examine(ctx, cfg, c); err != nil {
		return nil, err
	}
	return c, nil
}

// readFile reads a file that may be anything. Whether it is a config file is for
// the loading of it to say, so of one that is too large the beginning is enough.
func readFile(path string) (string, error) {
	file, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK|syscall.O_NOCTTY, 0)
	if err != nil {
		return "", fmt.Errorf("config file %s: %w", path, errors.Unwrap(err))
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil || !info.Mode().IsRegular() {
		return "", err
	}
	content, err := io.ReadAll(io.LimitReader(file, state.MaxTrustContent+1))
	return string(content), err
}

// trust says what the file would do, and records it once somebody said yes: to the
// question here, or with --yes.
func (a *app) trust(ctx context.Context, c *candidate, yes bool) error {
	if !a.json {
		if c.shown.Changed {
			a.printChange(c)
		}
		a.printEffects(c.shown.Locations)
	}
	if !yes {
		if err := a.confirmTrust(c); err != nil {
			return err
		}
	}
	record := state.TrustRecord{Path: c.file.Path, Digest: c.file.Digest, By: userName(), At: time.Now(), Content: c.content}
	if err := a.state.Trust(ctx, record); err != nil {
		return operational(err)
	}
	for _, program := range c.programs {
		if err := a.state.RecordProgram(ctx, program); err != nil {
			return operational(err)
		}
	}
	a.record(trustEntry(c))
	if a.json {
		return a.printJSON(record)
	}
	_, err := fmt.Fprintf(a.stdout, "trusted %s\n", cell(c.file.Path))
	return err
}

// confirmTrust asks on the terminal. Where nobody can be asked the answer is no.
func (a *app) confirmTrust(c *candidate) error {
	file, ok := a.stdin.(*os.File)
	if !ok || a.json || !a.stdout.terminal || !term.IsTerminal(int(file.Fd())) {
		why := "there is no terminal to ask on"
		if a.json {
			why = "nobody is asked with --json"
		}
		return errors.New("not trusted: " + why + ", and nothing was recorded; to trust what toolhost trust --show shows, give --yes")
	}
	fmt.Fprintf(a.stdout, "trust %s? [y/N] ", cell(c.file.Path))
	line, err := bufio.NewReader(file).ReadString('\n')
	if answer := strings.ToLower(strings.TrimSpace(line)); err != nil || answer != "y" && answer != "yes" {
		return errors.New("not trusted: nothing was recorded")
	}
	return nil
}

// trustEntry is what the audit log has of it.
func trustEntry(c *candidate) state.AuditEntry {
	entry := state.AuditEntry{
		Kind: state.AuditTrust, Root: filepath.Dir(c.file.Path), Resources: []string{c.file.Path}, Extra: map[string]string{"sha256": c.file.Digest},
	}
	for _, program := range c.programs {
		entry.Extra["sha256 of "+program.Path] = program.SHA256
	}
	return entry
}

func (a *app) revokeTrust(ctx context.Context, path string) error {
	place, err := config.Place(path) // the file itself may be gone by now
	if err != nil {
		return err
	}
	found, err := a.state.RevokeTrust(ctx, place)
	if err != nil {
		return operational(err)
	}
	if !found {
		return fmt.Errorf("%s was not trusted", place)
	}
	a.record(state.AuditEntry{Kind: state.AuditRevoke, Root: filepath.Dir(place), Resources: []string{place}, Reason: "the file is not trusted any more"})
	_, err = fmt.Fprintf(a.stdout, "no longer trusted: %s\n", cell(place))
	return err
}

func (a *app) listTrust(ctx context.Context) error {
	records, err := a.state.TrustRecords(ctx)
	if err != nil {
		return operational(err)
	}
	if a.json {
		return a.printJSON(append([]state.TrustRecord{}, records...))
	}
	table := tabwriter.NewWriter(a.stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "FILE\tTRUSTED\tBY\tSHA256")
	for _, r := range records {
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\n", cell(r.Path), r.At.Format(time.DateTime), orDash(r.By), r.Digest)
	}
	return table.Flush()
}

// userName is who records something, as far as it is known.
func userName() string {
	u, err := user.Current()
	if err != nil {
		return ""
	}
	return u.Username
}
