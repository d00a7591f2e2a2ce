package main

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/sluice-scheduler/sluice/cmd/sluice/internal/words"
	sluicev1 "github.com/sluice-scheduler/sluice/proto/sluice/v1"
)

func newClusterModeCommand(a *app) *cobra.Command {
	var readOnly, scheduling, killing bool
	cmd := &cobra.Command{
		Use:   "mode",
		Short: "Show or set what is switched off: changes, scheduling, killing",
		Long: `Show what is switched off, or set it with flags; what no flag names stays as it is.

  --read-only          calls that change something are refused
  --stop-scheduling    no task is placed
  --stop-killing       no task is killed, preempted or moved; what is to end is
                       remembered and ends when killing goes on

Each is switched on again with =false. The mode survives a restart.`,
		Args: wants(),
		RunE: a.connected(func(cmd *cobra.Command, c *client, _ []string) error {
			res, err := call(cmd.Context(), c, c.cluster.GetStatus, &sluicev1.GetStatusRequest{})
			if err != nil {
				return err
			}
			mode, changed := res.GetMode(), false
			for flag, set := range map[string]func(){
				"read-only":       func() { mode.ReadOnly = readOnly },
				"stop-scheduling": func() { mode.SchedulingStopped = scheduling },
				"stop-killing":    func() { mode.KillingStopped = killing },
			} {
				if cmd.Flags().Changed(flag) {
					set()
					changed = true
				}
			}
			if changed {
				set, err := call(cmd.Context(), c, c.cluster.SetMode, &sluicev1.SetModeRequest{Mode: mode})
				if err != nil {
					return err
				}
				mode = set.GetMode()
			}
			return a.show(mode, func(w io.Writer) {
				word := words.Mode(mode)
				if word == "" {
					word = "nothing is switched off"
				}
				fmt.Fprintln(w, word)
			})
		}),
	}
	cmd.Flags().BoolVar(&readOnly, "read-only", false, "refuse calls that change something")
	cmd.Flags().BoolVar(&scheduling, "stop-scheduling", false, "place no task")
	cmd.Flags().BoolVar(&killing, "stop-killing", false, "kill, preempt and move no task")
	return cmd
}
