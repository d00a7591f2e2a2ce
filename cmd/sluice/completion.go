package main

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/sluice-scheduler/sluice/cmd/sluice/internal/words"
	sluicev1 "github.com/sluice-scheduler/sluice/proto/sluice/v1"
)

// completeTime is how long a shell waits for names. One that hangs is worse than one that knows none.
const completeTime = 2 * time.Second

// names lists things of the scheduler whose names begin so.
type names func(ctx context.Context, c *client, begin string) ([]string, error)

// completed says by what an argument is completed, by the command's group and the argument as its usage has it. Files are completed by the
// shell, and a name that is to be new by nothing.
var completed = map[string]names{
	"job NAME": listJobs, "job NAME...": listJobs, "job [NAME...]": listJobs, "task [JOB]": listJobs, "task JOB/INSTANCE": listTasks,
	"pool PATH": listPools, "pool [PATH]": listPools, "host NAME": listHosts, "host NAME...": listHosts, "volume NAME": listVolumes,
}

// completedFlags are those of any command.
var completedFlags = map[string]names{"pool": listPools, "host": listHosts, "job": listJobs}

// addCompletion has shells complete names of what the scheduler knows, and values of which there are few.
func (a *app) addCompletion(root *cobra.Command) {
	_ = root.RegisterFlagCompletionFunc("output", cobra.FixedCompletions([]string{"table", "json", "yaml"}, cobra.ShellCompDirectiveNoFileComp))
	for _, group := range root.Commands() {
		for _, cmd := range append(group.Commands(), group) {
			usage := append(strings.Fields(cmd.Use), "")
			list := completed[group.Name()+" "+usage[1]]
			switch {
			case cmd.Name() == "run" || list == nil && strings.HasPrefix(usage[1], "NAME"), usage[1] == "":
				cmd.ValidArgsFunction = cobra.NoFileCompletions
			case list != nil:
				cmd.ValidArgsFunction = a.completing(list, strings.Contains(cmd.Use, "..."))
			}
			for flag, list := range completedFlags { // in any order
				if f := cmd.Flags().Lookup(flag); f != nil && group.Name() != "tls" && cmd.Name() != "sim" {
					_ = cmd.RegisterFlagCompletionFunc(flag, a.completing(list, false))
				}
			}
			if states := stateNames[group.Name()]; states != nil && cmd.Flags().Lookup("state") != nil {
				_ = cmd.RegisterFlagCompletionFunc("state", cobra.FixedCompletions(states, cobra.ShellCompDirectiveNoFileComp))
			}
			if cmd.Flags().Lookup("type") != nil {
				_ = cmd.RegisterFlagCompletionFunc("type", cobra.FixedCompletions(words.StateNames("JOB_TYPE_", sluicev1.JobType_value), cobra.ShellCompDirectiveNoFileComp))
			}
		}
	}
}

// stateNames are the states of what a group is about.
var stateNames = map[string][]string{
	"job": words.StateNames("JOB_STATE_", sluicev1.JobState_value), "task": words.StateNames("TASK_STATE_", sluicev1.TaskState_value),
	"host": words.StateNames("HOST_STATE_", sluicev1.HostState_value),
}

// completing asks the scheduler for the names. Where it does not answer there are none, and nothing is said: that would be in the middle of
// the line that somebody types. Several says that further arguments are names, too.
func (a *app) completing(list names, several bool) cobra.CompletionFunc {
	return func(cmd *cobra.Command, given []string, begin string) ([]string, cobra.ShellCompDirective) {
		none := cobra.ShellCompDirectiveNoFileComp
		if len(given) > 0 && !several || a.load(cmd) != nil {
			return nil, none
		}
		ctx, cancel := context.WithTimeout(context.WithoutCancel(cmd.Context()), completeTime)
		defer cancel()
		c, err := a.connect(ctx)
		if err != nil {
			return nil, none
		}
		defer c.close()
		found, _ := list(ctx, c, begin)
		found = slices.DeleteFunc(found, func(name string) bool {
			return !strings.HasPrefix(name, begin) || slices.Contains(given, name)
		})
		if len(found) > 0 && strings.HasSuffix(found[0], "/") {
			none |= cobra.ShellCompDirectiveNoSpace // an instance follows
		}
		return found, none
	}
}

func listJobs(ctx context.Context, c *client, begin string) (all []string, err error) {
	size := uint32(pageSize)
	res, err := c.jobs.ListJobs(ctx, &sluicev1.ListJobsRequest{Filter: &sluicev1.JobFilter{NamePrefix: begin}, PageSize: &size})
	for _, j := range res.GetJobs() {
		all = append(all, j.GetName())
	}
	return all, err
}

// listTasks lists the tasks of the job that is named, or jobs until one is.
func listTasks(ctx context.Context, c *client, begin string) (all []string, err error) {
	job, _, ok := strings.Cut(begin, "/")
	if !ok {
		all, err = listJobs(ctx, c, begin)
		for i := range all {
			all[i] += "/"
		}
		return all, err
	}
	size := uint32(pageSize)
	res, err := c.tasks.ListTasks(ctx, &sluicev1.ListTasksRequest{Job: job, PageSize: &size})
	for _, t := range res.GetTasks() {
		all = append(all, words.Task(t))
	}
	return all, err
}

func listPools(ctx context.Context, c *client, _ string) (all []string, err error) {
	size := uint32(pageSize)
	res, err := c.pools.ListPools(ctx, &sluicev1.ListPoolsRequest{PageSize: &size})
	for _, p := range res.GetPools() {
		all = append(all, p.GetSpec().GetPath())
	}
	return all, err
}

func listHosts(ctx context.Context, c *client, _ string) (all []string, err error) {
	size := uint32(pageSize)
	res, err := c.hosts.ListHosts(ctx, &sluicev1.ListHostsRequest{PageSize: &size})
	for _, h := range res.GetHosts() {
		all = append(all, h.GetName())
	}
	return all, err
}

func listVolumes(ctx context.Context, c *client, _ string) (all []string, err error) {
	size := uint32(pageSize)
	res, err := c.volumes.ListVolumes(ctx, &sluicev1.ListVolumesRequest{PageSize: &size})
	for _, v := range res.GetVolumes() {
		all = append(all, v.GetSpec().GetName())
	}
	return all, err
}
