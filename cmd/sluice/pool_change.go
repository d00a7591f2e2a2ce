package main

import (
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	sluicev1 "github.com/sluice-scheduler/sluice/proto/sluice/v1"
)

func newPoolUpdateCommand(a *app) *cobra.Command {
	var file string
	var version uint64
	cmd := &cobra.Command{
		Use:   "update --file FILE",
		Short: "Replace the settings of a pool",
		Args:  wants(),
		RunE: func(cmd *cobra.Command, args []string) error {
			if file == "" {
				return usageError(cmd, errors.New("--file is missing: it holds all settings of the pool"))
			}
			spec, err := poolSpec(a, cmd, args, "", file)
			if err != nil {
				return err
			}
			c, err := a.connect(cmd.Context())
			if err != nil {
				return err
			}
			defer c.close()
			req := &sluicev1.UpdatePoolRequest{Spec: spec, ExpectedVersion: version}
			if version == 0 {
				old, err := call(cmd.Context(), c, c.pools.GetPool, &sluicev1.GetPoolRequest{Path: spec.GetPath()})
				if err != nil {
					return err
				}
				req.ExpectedVersion = old.GetPool().GetVersion()
			}
			res, err := call(cmd.Context(), c, c.pools.UpdatePool, req)
			if err != nil {
				return err
			}
			return a.show(res.GetPool(), func(w io.Writer) {
				fmt.Fprintf(w, "pool %s updated to version %d\n", res.GetPool().GetSpec().GetPath(), res.GetPool().GetVersion())
			})
		},
	}
	cmd.Flags().StringVarP(&file, "file", "f", "", "YAML file with the whole pool; \"-\" reads standard input")
	cmd.Flags().Uint64Var(&version, "expected-version", 0, "refuse if the pool has another version; else it is looked up")
	return cmd
}

func newPoolSwitchCommand(a *app, name, short string, resume bool) *cobra.Command {
	return &cobra.Command{
		Use:   name + " PATH",
		Short: short,
		Args:  wants("PATH"),
		RunE: a.connected(func(cmd *cobra.Command, c *client, args []string) error {
			res, err := call(cmd.Context(), c, c.pools.DrainPool, &sluicev1.DrainPoolRequest{Path: args[0], Resume: resume})
			if err != nil {
				return err
			}
			return a.show(res.GetPool(), func(w io.Writer) {
				fmt.Fprintf(w, "pool %s is %s\n", res.GetPool().GetSpec().GetPath(), poolStateWord(res.GetPool().GetState()))
			})
		}),
	}
}
