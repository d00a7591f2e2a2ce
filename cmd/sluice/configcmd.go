package main

import (
	"io"

	"github.com/spf13/cobra"
)

func newConfigCommand(a *app) *cobra.Command {
	show := &cobra.Command{
		Use:   "print",
		Short: "Print every setting with its value and where it comes from",
		Args:  wants(),
		RunE: func(*cobra.Command, []string) error {
			if err := a.config.CheckCaller(); err != nil {
				return exitError{exitUsage, err}
			}
			return a.showValue(a.config.Values(), func(w io.Writer) error {
				var rows [][]string
				for _, v := range a.config.Values() {
					rows = append(rows, []string{v.Key, v.Value, v.Source})
				}
				columns(w, "KEY VALUE SOURCE", rows)
				return nil
			})
		},
	}
	return group("config", "Show settings", show)
}
