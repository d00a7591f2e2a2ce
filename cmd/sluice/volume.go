package main

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/sluice-scheduler/sluice/cmd/sluice/internal/words"
	sluicev1 "github.com/sluice-scheduler/sluice/proto/sluice/v1"
)

func newVolumeCommand(a *app) *cobra.Command {
	return group("volume", "Show the persistent volumes of hosts, and delete them",
		newVolumeListCommand(a), newVolumeGetCommand(a), newVolumeDeleteCommand(a))
}

func newVolumeListCommand(a *app) *cobra.Command {
	req := &sluicev1.ListVolumesRequest{}
	var limit uint32
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the persistent volumes that hosts keep",
		Args:  alsoFilled(wants(), "host"),
		RunE: a.connected(func(cmd *cobra.Command, c *client, _ []string) error {
			all := &sluicev1.ListVolumesResponse{}
			more, err := pages(limit, func(size uint32, token string) (int, string, error) {
				req.PageSize, req.PageToken = &size, token
				res, err := call(cmd.Context(), c, c.volumes.ListVolumes, req)
				all.Volumes = append(all.Volumes, res.GetVolumes()...)
				return len(res.GetVolumes()), res.GetNextPageToken(), err
			})
			if err != nil {
				return err
			}
			return a.showFirst(all, func(w io.Writer) { table(w, words.VolumeTable(all.GetVolumes())) }, more, limit)
		}),
	}
	cmd.Flags().StringVar(&req.Host, "host", "", "only of this host, as SHARD/NAME")
	cmd.Flags().Uint32Var(&limit, "limit", 1000, "at most so many; 0 is all")
	return cmd
}

func newVolumeGetCommand(a *app) *cobra.Command {
	req := &sluicev1.GetVolumeRequest{}
	cmd := &cobra.Command{
		Use:   "get NAME",
		Short: "Show a persistent volume",
		Args:  wants("NAME"),
		RunE: a.connected(func(cmd *cobra.Command, c *client, args []string) error {
			req.Name = args[0]
			res, err := call(cmd.Context(), c, c.volumes.GetVolume, req)
			if err != nil {
				return err
			}
			return a.show(res, func(w io.Writer) { table(w, words.VolumeTable([]*sluicev1.Volume{res.GetVolume()})) })
		}),
	}
	cmd.Flags().StringVar(&req.Host, "host", "", "its host, as SHARD/NAME, where several have one of this name")
	return cmd
}

func newVolumeDeleteCommand(a *app) *cobra.Command {
	req := &sluicev1.DeleteVolumeRequest{}
	cmd := &cobra.Command{
		Use:   "delete NAME",
		Short: "Delete a persistent volume that no task uses, with its data",
		Args:  wants("NAME"),
		RunE: a.connected(func(cmd *cobra.Command, c *client, args []string) error {
			req.Name = args[0]
			res, err := callFor(cmd.Context(), longestCall, c, c.volumes.DeleteVolume, req)
			if err != nil {
				return err
			}
			return a.show(res, func(w io.Writer) { fmt.Fprintf(w, "volume %s is deleted\n", req.Name) })
		}),
	}
	cmd.Flags().StringVar(&req.Host, "host", "", "its host, as SHARD/NAME, where several have one of this name")
	return cmd
}
