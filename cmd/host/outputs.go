package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"slices"
	"strconv"
	"text/tabwriter"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/toolhost/toolhost/host"
	outputs "github.com/toolhost/toolhost/tool/output"
)

func (a *app) outputsCommand() *cobra.Command {
	command := &cobra.Command{
		Use:   "outputs",
		Short: "List, print and remove the outputs that were too long to be shown whole",
		Long: `What a model sees of a tool's output is bounded. The whole of what was cut is kept,
for seven days unless the configuration says otherwise, in the user's own state:
$XDG_STATE_HOME/toolhost/outputs or ~/.local/state/toolhost/outputs.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	command.AddCommand(a.outputsListCommand(), a.outputsShowCommand(), a.outputsPruneCommand())
	return command
}

func (a *app) outputsListCommand() *cobra.Command {
	return &cobra.Command{
		Use:               "list",
		Short:             "List the outputs that are kept, the newest first",
		Args:              cobra.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(*cobra.Command, []string) error {
			kept, problems, err := a.keptOutputs()
			if err != nil {
				return err
			}
			a.complain(problems)
			return a.printOutputs(kept)
		},
	}
}

func (a *app) outputsShowCommand() *cobra.Command {
	offset, limit := byteCount(0), byteCount(math.MaxInt64)
	command := &cobra.Command{
		Use:   "show HANDLE",
		Short: "Print an output, as it came",
		Long: `Print an output to standard output, as it came from the tool, control characters
included; a terminal gets none. --offset and --limit count bytes.`,
		Example: `  toolhost outputs show mzxw6ytboi2dqnzzgq3tmnrvgy | less
  toolhost outputs show mzxw6ytboi2dqnzzgq3tmnrvgy --offset 500000 --limit 200`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return errors.New("show needs one handle; toolhost outputs list has those that there are")
			}
			return nil
		},
		ValidArgsFunction: a.completeOutputs,
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.showOutput(cmd.Context(), args[0], int64(offset), int64(limit))
		},
	}
	command.Flags().Var(&offset, "offset", "the first byte")
	command.Flags().Var(&limit, "limit", "the most bytes; 0 prints nothing (default all)")
	return command
}

func (a *app) outputsPruneCommand() *cobra.Command {
	var all bool
	command := &cobra.Command{
		Use:   "prune [HANDLE...]",
		Short: "Remove outputs: those that are over their time, all, or by handle",
		Example: `  toolhost outputs prune
  toolhost outputs prune --all
  toolhost outputs prune mzxw6ytboi2dqnzzgq3tmnrvgy`,
		ValidArgsFunction: a.completeOutputs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if all && len(args) > 0 {
				return errors.New("--all removes all outputs: name none beside it")
			}
			return a.pruneOutputs(cmd.Context(), args, all)
		},
	}
	command.Flags().BoolVar(&all, "all", false, "remove all outputs")
	return command
}

// outputStores are the stores of all Locations.
func (a *app) outputStores() ([]*outputs.Store, error) {
	log, err := a.logger()
	if err != nil {
		return nil, err
	}
	dir, err := host.OutputsDir(a.state)
	if err != nil {
		return nil, operational(err)
	}
	stores, err := outputs.Stores(dir, log)
	if err != nil {
		return nil, operational(err)
	}
	return stores, nil
}

// keptOutputs describes all outputs, the newest first. What cannot be listed is left
// out, and a problem.
func (a *app) keptOutputs() (kept []outputs.Meta, problems []error, err error) {
	stores, err := a.outputStores()
	if err != nil {
		return nil, nil, err
	}
	kept = []outputs.Meta{}
	for _, store := range stores {
		list, err := store.List()
		if err != nil {
			problems = append(problems, err)
		}
		kept = append(kept, list...)
	}
	slices.SortStableFunc(kept, func(x, y outputs.Meta) int { return y.At.Compare(x.At) })
	return kept, problems, nil
}

// complain says what went wrong beside what was asked for, and was done.
func (a *app) complain(problems []error) {
	for _, problem := range problems {
		a.notice(cell(problem.Error()))
	}
}

func (a *app) printOutputs(kept []outputs.Meta) error {
	if a.json {
		return a.printJSON(kept)
	}
	table := tabwriter.NewWriter(a.stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "HANDLE\tKEPT\tEXPIRES\tBYTES\tLINES\tON DISK\tTOOL\tSESSION\tROOT")
	for _, m := range kept {
		fmt.Fprintf(table, "%s\t%s\t%s\t%d\t%d\t%d\t%s\t%s\t%s\n", m.Handle, m.At.Local().Format(time.DateTime),
			m.Expires.Local().Format(time.DateTime), m.Bytes, m.Lines, m.Compressed, cell(m.Tool), cell(m.Session), cell(m.Location))
	}
	return table.Flush()
}

// noOutput is the mistake of a handle that there is not. Where not everything could be
// looked through it is no mistake: the output may be there.
func noOutput(handle string, problems []error) error {
	if len(problems) > 0 {
		return operational(fmt.Errorf("there is no output %q in what can be read: %w", handle, errors.Join(problems...)))
	}
	return fmt.Errorf("there is no output %q; toolhost outputs list has those that there are", handle)
}

// openOutput opens an output of any Location.
func (a *app) openOutput(handle string) (*outputs.Kept, error) {
	stores, err := a.outputStores()
	if err != nil {
		return nil, err
	}
	var problems []error
	for _, store := range stores {
		kept, err := store.Open(handle)
		switch {
		case err == nil:
			a.complain(problems)
			return kept, nil
		case !errors.Is(err, fs.ErrNotExist):
			problems = append(problems, err)
		}
	}
	return nil, noOutput(handle, problems)
}

// showOutput prints a range of an output, in pieces.
func (a *app) showOutput(ctx context.Context, handle string, offset, limit int64) error {
	kept, err := a.openOutput(handle)
	if err != nil {
		return err
	}
	defer func() { _ = kept.Close() }() // it is only read
	if size := kept.Meta().Bytes; offset > size {
		return fmt.Errorf("--offset %d is behind the end: the output has %d bytes", offset, size)
	}
	err = a.copyOutput(ctx, io.NewSectionReader(kept, offset, limit))
	if err != nil && ctx.Err() == nil {
		return operational(err)
	}
	return err
}

// copyOutput copies raw text to standard output, which takes whole characters.
func (a *app) copyOutput(ctx context.Context, from io.Reader) error {
	buffer := make([]byte, 256<<10)
	held := 0 // bytes of a character that is not whole yet
	for {
		if ctx.Err() != nil {
			return errors.New("interrupted")
		}
		n, err := io.ReadFull(from, buffer[held:])
		text := buffer[:held+n]
		if err == nil {
			text = text[:len(text)-cutCharacter(text)]
		}
		if _, err := a.stdout.Write(text); err != nil {
			return err
		}
		held = copy(buffer, buffer[len(text):held+n])
		switch {
		case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
			return nil
		case err != nil:
			return err
		}
	}
}

// cutCharacter is how many bytes of a character stand at the end of a text that is
// cut there.
func cutCharacter(text []byte) int {
	for n := 1; n < utf8.UTFMax && n <= len(text); n++ {
		if end := text[len(text)-n:]; utf8.RuneStart(end[0]) {
			if utf8.FullRune(end) {
				return 0
			}
			return n
		}
	}
	return 0
}

// pruneOutputs removes outputs, and says how many, also where others could not be.
func (a *app) pruneOutputs(ctx context.Context, handles []string, all bool) error {
	stores, err := a.outputStores()
	if err != nil {
		return err
	}
	var removed []string
	var problem error
	switch {
	case len(handles) > 0:
		removed, problem = a.removeOutputs(stores, handles)
	case all:
		removed, problem = removeFrom(stores, func(s *outputs.Store) ([]string, error) { return s.RemoveAll(ctx) })
	default:
		removed, problem = removeFrom(stores, func(s *outputs.Store) ([]string, error) { return s.RemoveExpired(ctx) })
	}
	if a.json {
		err = a.printJSON(struct {
			Removed []string `json:"removed"`
		}{removed})
	} else {
		_, err = fmt.Fprintf(a.stdout, "removed %s\n", counted(len(removed), "output"))
	}
	return cmp.Or(problem, err)
}

// removeOutputs removes outputs by their handles. The error is of those that it could
// not remove; what stood in the way of none of them is said.
func (a *app) removeOutputs(stores []*outputs.Store, handles []string) (removed []string, err error) {
	removed = []string{}
	var failed, problems []error
	for _, handle := range handles {
		found := false
		problems = nil
		for _, store := range stores {
			err := store.Remove(handle)
			if err != nil && !errors.Is(err, fs.ErrNotExist) {
				problems = append(problems, err)
			}
			found = found || err == nil
		}
		if found {
			removed = append(removed, handle)
			continue
		}
		failed = append(failed, noOutput(handle, problems))
	}
	if len(failed) == 0 {
		a.complain(problems)
	}
	return removed, errors.Join(failed...)
}

// removeFrom removes from each store what remove does. The error is of those of which
// something could not be removed.
func removeFrom(stores []*outputs.Store, remove func(*outputs.Store) ([]string, error)) (removed []string, err error) {
	removed = []string{}
	var problems []error
	for _, store := range stores {
		handles, err := remove(store)
		if err != nil {
			problems = append(problems, err)
		}
		removed = append(removed, handles...)
	}
	if len(problems) > 0 {
		return removed, operational(errors.Join(problems...))
	}
	return removed, nil
}

func (a *app) completeOutputs(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	kept, _, err := a.keptOutputs()
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	var handles []string
	for _, m := range kept {
		if !slices.Contains(args, m.Handle) {
			handles = append(handles, cobra.CompletionWithDesc(m.Handle, fmt.Sprintf("%s, %d bytes", cell(m.Tool), m.Bytes)))
		}
	}
	return handles, cobra.ShellCompDirectiveNoFileComp
}

// byteCount is a flag that counts bytes.
type byteCount int64

func (c *byteCount) Set(text string) error {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 0 {
		return errors.New("give a number of bytes, such as 4096")
	}
	*c = byteCount(n)
	return nil
}

func (c *byteCount) String() string { return "" }
func (c *byteCount) Type() string   { return "bytes" }

// counted is a number of things.
func counted(n int, thing string) string {
	if n != 1 {
		thing += "s"
	}
	return fmt.Sprintf("%d %s", n, thing)
}
