package main

import (
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/sluice-scheduler/sluice/cmd/sluice/internal/words"
	sluicev1 "github.com/sluice-scheduler/sluice/proto/sluice/v1"
)

func newPoolUpdateCommand(a *app) *cobra.Command {
	var file string
	var version uint64
	cmd := &cobra.Command{
		Use:   "update --file FILE",
		Short: "Replace the settings of a pool",
		Long: `Replace the settings of a pool. A file may hold several, separated by "---"; they
are changed one after the other, up to the first that is refused.`,
		Args: wants(),
		RunE: func(cmd *cobra.Command, args []string) error {
			if file == "" {
				return usageError(cmd, errors.New("--file is missing: it holds all settings of the pool"))
			}
			specs, err := poolSpecs(a, cmd, args, "", file)
			switch {
			case err != nil:
				return err
			case cmd.Flags().Changed("expected-version") && len(specs) > 1:
				return usageError(cmd, errors.New("--expected-version is about one pool"))
			}
			return a.forPools(cmd, specs, func(c *client, spec *sluicev1.PoolSpec) (*sluicev1.Pool, string, error) {
				req := &sluicev1.UpdatePoolRequest{Spec: spec, ExpectedVersion: version}
				if !cmd.Flags().Changed("expected-version") {
					old, err := call(cmd.Context(), c, c.pools.GetPool, &sluicev1.GetPoolRequest{Path: spec.GetPath()})
					if err != nil {
						return nil, "", err
					}
					req.ExpectedVersion = old.GetPool().GetVersion()
				}
				res, err := call(cmd.Context(), c, c.pools.UpdatePool, req)
				return res.GetPool(), fmt.Sprintf("updated to version %d", res.GetPool().GetVersion()), err
			})
		},
	}
	cmd.Flags().StringVarP(&file, "file", "f", "", "YAML file with the whole pool, or several; \"-\" reads standard input")
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
				fmt.Fprintf(w, "pool %s is %s\n", res.GetPool().GetSpec().GetPath(), words.PoolState(res.GetPool().GetState()))
			})
		}),
	}
}
