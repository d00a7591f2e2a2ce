package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/sluice-scheduler/sluice/cmd/sluice/internal/jobfile"
	"github.com/sluice-scheduler/sluice/cmd/sluice/internal/words"
	sluicev1 "github.com/sluice-scheduler/sluice/proto/sluice/v1"
)

func newPoolMappingCommand(a *app) *cobra.Command {
	return group("mapping", "Show and set the rules that find the pools of jobs that name none",
		newPoolMappingGetCommand(a), newPoolMappingSetCommand(a))
}

func newPoolMappingGetCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "get",
		Short: "Show the rules in their order",
		Args:  wants(),
		RunE: a.connected(func(cmd *cobra.Command, c *client, _ []string) error {
			res, err := call(cmd.Context(), c, c.pools.GetQueueMapping, &sluicev1.GetQueueMappingRequest{})
			if err != nil {
				return err
			}
			return a.show(res.GetMapping(), func(w io.Writer) { mappingTable(w, res.GetMapping()) })
		}),
	}
}

func mappingTable(w io.Writer, m *sluicev1.QueueMapping) {
	if len(m.GetRules()) == 0 {
		fmt.Fprintln(w, "no rules: jobs that name no pool go to the default pool")
		return
	}
	var rows [][]string
	for i, r := range m.GetRules() {
		target := r.GetPool()
		if r.GetReject() {
			target = "(reject)"
		}
		var labels []string
		for _, k := range slices.Sorted(maps.Keys(r.GetLabels())) {
			labels = append(labels, k+"="+r.GetLabels()[k])
		}
		rows = append(rows, []string{strconv.Itoa(i), r.GetUser(), r.GetGroup(), strings.Join(labels, ","), target})
	}
	columns(w, "RULE USER GROUP LABELS POOL", rows)
}

func newPoolMappingSetCommand(a *app) *cobra.Command {
	var file string
	cmd := &cobra.Command{
		Use:   "set --file FILE",
		Short: "Replace the rules",
		Args:  wants(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if file == "" {
				return usageError(cmd, errors.New("--file is missing: it holds all rules"))
			}
			mappings, err := readSpecs(a, file, jobfile.Mappings)
			if err != nil {
				return err
			}
			if len(mappings) != 1 {
				return exitError{exitUsage, fmt.Errorf("%s: holds %d mappings, give one", file, len(mappings))}
			}
			c, err := a.connect(cmd.Context())
			if err != nil {
				return err
			}
			defer c.close()
			old, err := call(cmd.Context(), c, c.pools.GetQueueMapping, &sluicev1.GetQueueMappingRequest{})
			if err != nil {
				return err
			}
			req := &sluicev1.SetQueueMappingRequest{Mapping: mappings[0]}
			req.Mapping.Version = old.GetMapping().GetVersion()
			res, err := call(cmd.Context(), c, c.pools.SetQueueMapping, req)
			if err != nil {
				return err
			}
			err = a.show(res.GetMapping(), func(w io.Writer) {
				fmt.Fprintf(w, "queue mapping set: version %d, %s\n", res.GetMapping().GetVersion(), words.Number(len(res.GetMapping().GetRules()), "rule"))
			})
			c.doubtTargets(cmd.Context(), a.err, res.GetMapping())
			return err
		},
	}
	cmd.Flags().StringVarP(&file, "file", "f", "", "YAML file with the mapping, which takes the place of the present one; \"-\" reads standard input")
	return cmd
}

// doubtTargets tells of rules that lead to pools which take no jobs now: they may be made later, but also be misspelt. Names with a
// user or a group in them are not looked at.
func (c *client) doubtTargets(ctx context.Context, w io.Writer, m *sluicev1.QueueMapping) {
	all, err := c.allPools(ctx)
	if err != nil {
		return // the rules are set; this was only help
	}
	pools := map[string]*sluicev1.Pool{}
	for _, p := range all {
		pools[p.GetSpec().GetPath()] = p
	}
	for i, r := range m.GetRules() {
		if r.GetPool() == "" || strings.Contains(r.GetPool(), "{") {
			continue
		}
		why := ""
		switch p := pools[r.GetPool()]; {
		case p == nil:
			why = "there is no pool " + r.GetPool() + " yet"
		case !p.GetLeaf():
			why = r.GetPool() + " has pools below it"
		case p.GetState() != sluicev1.PoolState_POOL_STATE_OPEN:
			why = r.GetPool() + " is " + words.PoolState(p.GetState())
		default:
			continue
		}
		fmt.Fprintf(w, "sluice: rules[%d].pool: %s: jobs that it finds are refused\n", i, why)
	}
}
