package main

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/sluice-scheduler/sluice/cmd/sluice/internal/words"
	sluicev1 "github.com/sluice-scheduler/sluice/proto/sluice/v1"
)

func newClusterRotateCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "rotate-key",
		Short: "Seal all secrets with the first key, so that the others can go",
		Long: `Seal all secrets with the first key of scheduler.secret_key_file. Afterwards the other
keys of the file are not needed any more.`,
		Args: wants(),
		RunE: a.connected(func(cmd *cobra.Command, c *client, _ []string) error {
			res, err := call(cmd.Context(), c, c.cluster.RotateKey, &sluicev1.RotateKeyRequest{})
			if err != nil {
				return err
			}
			return a.show(res, func(w io.Writer) {
				fmt.Fprintf(w, "%s sealed anew; all are sealed with key %s\n", words.Number(res.GetSecrets(), "secret"), res.GetKey())
			})
		}),
	}
}
