package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/sluice-scheduler/sluice/cluster"
	"github.com/sluice-scheduler/sluice/cmd/sluice/internal/jobfile"
	"github.com/sluice-scheduler/sluice/cmd/sluice/internal/words"
	sluicev1 "github.com/sluice-scheduler/sluice/proto/sluice/v1"
)

func newPoolCommand(a *app) *cobra.Command {
	return group("pool", "Create, change and show pools",
		newPoolListCommand(a), newPoolGetCommand(a), newPoolCreateCommand(a), newPoolFileCommand(a), newPoolUpdateCommand(a), newPoolDeleteCommand(a),
		newPoolSwitchCommand(a, "drain", "Take no new jobs in a pool and below it; those that are there go on", false),
		newPoolSwitchCommand(a, "resume", "Open a draining or drained pool again", true),
		newPoolUsageCommand(a), newPoolMappingCommand(a))
}

func newPoolListCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "list",
		Short: "List pools",
		Args:  wants(),
		RunE: a.connected(func(cmd *cobra.Command, c *client, _ []string) error {
			all, err := c.allPools(cmd.Context())
			if err != nil {
				return err
			}
			return a.show(&sluicev1.ListPoolsResponse{Pools: all}, func(w io.Writer) { table(w, words.PoolTable(all)) })
		}),
	}
}

// allPools returns the pools that the caller may know, by path.
func (c *client) allPools(ctx context.Context) (all []*sluicev1.Pool, err error) {
	_, err = pages(0, func(size uint32, token string) (int, string, error) {
		res, err := call(ctx, c, c.pools.ListPools, &sluicev1.ListPoolsRequest{PageSize: &size, PageToken: token})
		all = append(all, res.GetPools()...)
		return len(res.GetPools()), res.GetNextPageToken(), err
	})
	return all, err
}

func newPoolGetCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "get PATH",
		Short: "Show a pool",
		Args:  wants("PATH"),
		RunE: a.connected(func(cmd *cobra.Command, c *client, args []string) error {
			res, err := call(cmd.Context(), c, c.pools.GetPool, &sluicev1.GetPoolRequest{Path: args[0]})
			if err != nil {
				return err
			}
			return a.show(res.GetPool(), func(w io.Writer) { poolProperties(w, res.GetPool()) })
		}),
	}
}

func poolProperties(w io.Writer, p *sluicev1.Pool) {
	properties(w, words.PoolProperties(p)...)
	if len(p.GetDimensions()) == 0 {
		return
	}
	fmt.Fprintln(w)
	table(w, words.PoolAmounts(p.GetDimensions()))
	fmt.Fprintf(w, "\n%s\n", words.PoolTasksCaption)
	table(w, words.PoolTasks(p.GetDimensions()))
	for _, d := range p.GetDimensions() {
		if len(d.GetBoundChain()) > 0 {
			fmt.Fprintf(w, "\n%s: %s\n", d.GetDimension(), words.Bounds(d.GetBoundChain()))
		}
	}
}

func newPoolCreateCommand(a *app) *cobra.Command {
	var description, file string
	cmd := &cobra.Command{
		Use:   "create {PATH | --file FILE}",
		Short: "Create a pool below one that exists, such as root/batch",
		Long: `Create a pool below one that exists, such as root/batch. A file may hold several,
separated by "---", parents before their children; they are created one after
the other, up to the first that is refused.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			specs, err := poolSpecs(a, cmd, args, description, file)
			if err != nil {
				return err
			}
			return a.forPools(cmd, specs, func(c *client, spec *sluicev1.PoolSpec) (*sluicev1.Pool, string, error) {
				res, err := call(cmd.Context(), c, c.pools.CreatePool, &sluicev1.CreatePoolRequest{Spec: spec})
				if file == "" {
					err = flagged(err)
				}
				return res.GetPool(), "created", err
			})
		},
	}
	cmd.Flags().StringVar(&description, "description", "", "for people")
	cmd.Flags().StringVarP(&file, "file", "f", "", "YAML file with the whole pool, or several; \"-\" reads standard input")
	return cmd
}

// forPools does something with each pool, up to the first that is refused, and says what was done.
func (a *app) forPools(cmd *cobra.Command, specs []*sluicev1.PoolSpec, do func(*client, *sluicev1.PoolSpec) (*sluicev1.Pool, string, error)) error {
	c, err := a.connect(cmd.Context())
	if err != nil {
		return err
	}
	defer c.close()
	for _, spec := range specs {
		p, done, err := do(c, spec)
		if err == nil {
			err = a.showOne(len(specs), p, func(w io.Writer) { fmt.Fprintf(w, "pool %s %s\n", p.GetSpec().GetPath(), done) })
		}
		if err != nil {
			return renamed(err, func(line string) string {
				if strings.HasPrefix(line, "spec.") {
					line = amongPools(specs, spec) + line
				}
				return line
			})
		}
	}
	return nil
}

// amongPools says which pool of a file something is said of, where there are several.
func amongPools(specs []*sluicev1.PoolSpec, p *sluicev1.PoolSpec) string {
	if len(specs) == 1 {
		return ""
	}
	return fmt.Sprintf("pool %q: ", p.GetPath())
}

func poolSpecs(a *app, cmd *cobra.Command, args []string, description, file string) ([]*sluicev1.PoolSpec, error) {
	if file == "" {
		if err := wants("PATH")(cmd, args); err != nil {
			return nil, err
		}
		return []*sluicev1.PoolSpec{{Path: args[0], Description: description}}, nil
	}
	if len(args) > 0 || cmd.Flags().Changed("description") {
		return nil, usageError(cmd, errors.New("--file holds the whole pool: give no PATH and no --description"))
	}
	specs, err := readSpecs(a, file, jobfile.Pools)
	if err != nil {
		return nil, err
	}
	for _, p := range specs {
		a.doubtDimensions(p, amongPools(specs, p))
	}
	return specs, nil
}

// doubtDimensions tells of dimensions that count as named resources, since they are not quite one that every host has.
func (a *app) doubtDimensions(p *sluicev1.PoolSpec, which string) {
	var fixed []string
	for d := range cluster.NumDimensions {
		fixed = append(fixed, cluster.Dimension(d).String())
	}
	for i, r := range p.GetResources() {
		name := r.GetDimension()
		near := cmp.Or(cluster.DimensionCalled(name), jobfile.Nearest(name, fixed))
		if near != "" && near != name {
			fmt.Fprintf(a.err, "sluice: %sresources[%d].dimension: %q is taken for the name of a named resource: did you mean %q?\n", which, i, name, near)
		}
	}
}

func newPoolDeleteCommand(a *app) *cobra.Command {
	req := &sluicev1.DeletePoolRequest{}
	var version uint64
	cmd := &cobra.Command{
		Use:   "delete PATH",
		Short: "Delete a pool that has no children and no jobs, ended ones included",
		Args:  wants("PATH"),
		RunE: a.connected(func(cmd *cobra.Command, c *client, args []string) error {
			req.Path = args[0]
			req.ExpectedVersion = uintFlag(cmd, "expected-version", version)
			res, err := call(cmd.Context(), c, c.pools.DeletePool, req)
			if err != nil {
				return err
			}
			return a.show(res, func(w io.Writer) { fmt.Fprintf(w, "pool %s deleted\n", args[0]) })
		}),
	}
	cmd.Flags().Uint64Var(&version, "expected-version", 0, "refuse if the pool has another version")
	return cmd
}
