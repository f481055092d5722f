package main

import (
	"github.com/spf13/cobra"

	"github.com/toolhost/toolhost/config"
)

func (a *app) configCommand() *cobra.Command {
	command := &cobra.Command{
		Use:   "config",
		Short: "About the configuration file",
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	command.AddCommand(&cobra.Command{
		Use:               "schema",
		Short:             "Print the JSON Schema of toolhost.yaml, for editors",
		Example:           "  toolhost config schema > toolhost.schema.json",
		Args:              cobra.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(*cobra.Command, []string) error {
			_, err := a.stdout.Write(config.Schema())
			return err
		},
	})
	return command
}
