package main

import (
	"encoding/json"
	"fmt"

	"github.com/spf13/cobra"
)

func newConfigCommand(a *app) *cobra.Command {
	show := &cobra.Command{
		Use:   "print",
		Short: "Print every setting with its value and where it comes from",
		Args:  wants(),
		RunE: func(*cobra.Command, []string) error {
			if a.config.Output != "table" {
				b, err := json.Marshal(a.config.Values())
				if err != nil {
					return fmt.Errorf("printing the settings: %w", err)
				}
				return a.showJSON(b)
			}
			var rows [][]string
			for _, v := range a.config.Values() {
				rows = append(rows, []string{v.Key, v.Value, v.Source})
			}
			columns(a.out, "KEY VALUE SOURCE", rows)
			return nil
		},
	}
	return group("config", "Show settings", show)
}
