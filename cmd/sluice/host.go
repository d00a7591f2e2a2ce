package main

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/sluice-scheduler/sluice/cmd/sluice/internal/words"
	sluicev1 "github.com/sluice-scheduler/sluice/proto/sluice/v1"
)

func newHostCommand(a *app) *cobra.Command {
	return group("host", "Show hosts, take them out of service and back",
		newHostListCommand(a), newHostGetCommand(a), newHostDrainCommand(a), newHostResumeCommand(a), newHostForgetCommand(a))
}

func newHostListCommand(a *app) *cobra.Command {
	req := &sluicev1.ListHostsRequest{}
	var states []string
	var limit uint32
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List hosts",
		Args:  wants(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			err := filled(cmd, "state", "shard", "rack", "zone")
			if err != nil {
				return err
			}
			if req.States, err = parseStates[sluicev1.HostState]("state", states, "HOST_STATE_", sluicev1.HostState_value); err != nil {
				return err
			}
			c, err := a.connect(cmd.Context())
			if err != nil {
				return err
			}
			defer c.close()
			all := &sluicev1.ListHostsResponse{}
			more, err := pages(limit, func(size uint32, token string) (int, string, error) {
				req.PageSize, req.PageToken = &size, token
				res, err := call(cmd.Context(), c, c.hosts.ListHosts, req)
				all.Hosts = append(all.Hosts, res.GetHosts()...)
				return len(res.GetHosts()), res.GetNextPageToken(), err
			})
			if err != nil {
				return err
			}
			return a.showFirst(all, func(w io.Writer) { table(w, words.HostTable(all.GetHosts())) }, more, limit)
		},
	}
	f := cmd.Flags()
	f.StringSliceVar(&states, "state", nil, "only in these states, such as up,draining")
	f.StringVar(&req.Shard, "shard", "", "only of this shard")
	f.StringVar(&req.Rack, "rack", "", "only in this rack")
	f.StringVar(&req.Zone, "zone", "", "only in this zone")
	addPairs(f, &req.Attributes, "attribute", "only with these attributes, as key=value")
	f.Uint32Var(&limit, "limit", 1000, "at most so many; 0 is all")
	return cmd
}

func newHostGetCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "get NAME",
		Short: "Show a host",
		Args:  wants("NAME"),
		RunE: a.connected(func(cmd *cobra.Command, c *client, args []string) error {
			res, err := call(cmd.Context(), c, c.hosts.GetHost, &sluicev1.GetHostRequest{Name: args[0]})
			if err != nil {
				return err
			}
			return a.show(res.GetHost(), func(w io.Writer) { hostProperties(w, res.GetHost()) })
		}),
	}
}

func hostProperties(w io.Writer, h *sluicev1.Host) {
	properties(w, words.HostProperties(h)...)
	for _, r := range words.Remaining(h) {
		fmt.Fprintf(w, "still here: %s\n", r)
	}
	for _, n := range h.GetNotes() {
		fmt.Fprintf(w, "note: %s\n", words.Visible(n, ""))
	}
}

func newHostDrainCommand(a *app) *cobra.Command {
	req := &sluicev1.DrainHostRequest{}
	var deadline time.Duration
	var wait bool
	cmd := &cobra.Command{
		Use:   "drain NAME...",
		Short: "Place nothing more on hosts, and let finish what runs there",
		Long: `Place nothing more on hosts, and let finish what runs there. With --move, what
may be moved leaves: of services as many instances at a time as may be
unavailable, of batch jobs those that are preemptible. At the --deadline all
leave that are still there, whatever they are. It says what stays, and why. Drained
once more, a host goes by the new flags alone, without the --move and --deadline of
before.`,
		Args: atLeastOneName,
		RunE: a.connected(func(cmd *cobra.Command, c *client, args []string) error {
			if cmd.Flags().Changed("deadline") {
				req.Deadline = durationpb.New(deadline)
			}
			err := each(cmd.Context(), args, func(name string) error {
				req.Name = name
				res, err := call(cmd.Context(), c, c.hosts.DrainHost, req)
				if err != nil || wait {
					return err
				}
				return a.showHostState(len(args), res.GetHost())
			})
			if err != nil || !wait {
				return err
			}
			return each(cmd.Context(), args, func(name string) error {
				h, err := a.waitForDrain(cmd.Context(), c, name)
				if err != nil {
					return err
				}
				return a.showHostState(len(args), h)
			})
		}),
	}
	f := cmd.Flags()
	f.StringVar(&req.Reason, "reason", "", "for people")
	f.BoolVar(&req.Move, "move", false, "move away what may be moved, within the jobs' availability")
	f.DurationVar(&deadline, "deadline", 0, "after this time, such as 1h, all leave, whatever they are; 0s is at once (default: never)")
	f.BoolVar(&wait, "wait", false, "wait until the hosts are drained, showing what is still there; exit code 4 if one is resumed")
	return cmd
}

// waitForDrain waits until nothing is left on a host that is being drained, showing what is, and returns the host as it is then. It fails if the
// host is resumed.
func (a *app) waitForDrain(ctx context.Context, c *client, name string) (*sluicev1.Host, error) {
	p := newProgress(a.err)
	defer p.end()
	c.notes = p
	for {
		res, err := callAgain(ctx, c, c.hosts.GetHost, &sluicev1.GetHostRequest{Name: name})
		h := res.GetHost()
		switch {
		case err != nil:
			return nil, err
		case h.GetDrain() == nil:
			return nil, exitError{exitJobFailed, fmt.Errorf("host %s has been resumed", name)}
		case h.GetTasks() == 0:
			return h, nil
		}
		p.show("host "+name+": "+strings.Join(words.Remaining(h), "; "), time.Now())
		select {
		case <-ctx.Done():
			return nil, c.describe(status.FromContextError(ctx.Err()).Err())
		case <-time.After(drainLook):
		}
	}
}

// drainLook is how long a command that waits for a drain waits until it looks again.
const drainLook = 500 * time.Millisecond

func newHostResumeCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "resume NAME...",
		Short: "Open draining or drained hosts again",
		Args:  atLeastOneName,
		RunE: a.connected(func(cmd *cobra.Command, c *client, args []string) error {
			return each(cmd.Context(), args, func(name string) error {
				res, err := call(cmd.Context(), c, c.hosts.ResumeHost, &sluicev1.ResumeHostRequest{Name: name})
				if err != nil {
					return err
				}
				return a.showHostState(len(args), res.GetHost())
			})
		}),
	}
}

func newHostForgetCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "forget NAME...",
		Short: "Forget hosts that are gone for good",
		Long: `Forget hosts that are gone for good, such as machines that were taken away: they
have to be unreachable, and their tasks given up (scheduler.lost_after). A host
manager that reports one again brings it back.`,
		Args: atLeastOneName,
		RunE: a.connected(func(cmd *cobra.Command, c *client, args []string) error {
			return each(cmd.Context(), args, func(name string) error {
				res, err := call(cmd.Context(), c, c.hosts.ForgetHost, &sluicev1.ForgetHostRequest{Name: name})
				if err != nil {
					return err
				}
				return a.showOne(len(args), res, func(w io.Writer) { fmt.Fprintf(w, "host %s is forgotten\n", name) })
			})
		}),
	}
}

func (a *app) showHostState(of int, h *sluicev1.Host) error {
	return a.showOne(of, h, func(w io.Writer) {
		fmt.Fprintf(w, "host %s is %s, tasks on it: %d\n", h.GetName(), words.HostState(h.GetState()), h.GetTasks())
		for _, r := range words.Remaining(h) {
			fmt.Fprintf(w, "  %s\n", r)
		}
	})
}
