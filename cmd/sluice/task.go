package main

import (
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/sluice-scheduler/sluice/cmd/sluice/internal/words"
	sluicev1 "github.com/sluice-scheduler/sluice/proto/sluice/v1"
)

func newTaskCommand(a *app) *cobra.Command {
	return group("task", "Show tasks, their output and their reasons, restart and stop them",
		newTaskListCommand(a), newTaskGetCommand(a), newTaskLogsCommand(a), newTaskExplainCommand(a), newTaskEventsCommand(a),
		newTaskRestartCommand(a), newTaskStopCommand(a), newTaskForgetDataCommand(a))
}

// parseTask reads JOB/INSTANCE, as tables print it.
func parseTask(cmd *cobra.Command, s string) (job string, instance uint32, err error) {
	job, number, ok := strings.Cut(s, "/")
	n, perr := strconv.ParseUint(number, 10, 32)
	if !ok || job == "" || perr != nil {
		return "", 0, usageError(cmd, fmt.Errorf("%q is not JOB/INSTANCE, such as hello/0", s))
	}
	return job, uint32(n), nil
}

// onTask is what a command does whose argument names a task: it is read into the request, and run gets a client, which is closed
// after it.
func (a *app) onTask(job *string, instance *uint32, run func(*cobra.Command, *client) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) (err error) {
		if *job, *instance, err = parseTask(cmd, args[0]); err != nil {
			return err
		}
		return a.connected(func(cmd *cobra.Command, c *client, _ []string) error { return run(cmd, c) })(cmd, args)
	}
}

func newTaskListCommand(a *app) *cobra.Command {
	req := &sluicev1.ListTasksRequest{Explain: true}
	var states []string
	var limit uint32
	cmd := &cobra.Command{
		Use:   "list [JOB]",
		Short: "List tasks, of one job or of all",
		Args:  mayWant("JOB"),
		RunE: func(cmd *cobra.Command, args []string) error {
			err := filled(cmd, "state", "pool", "host")
			if err != nil {
				return err
			}
			req.Job = strings.Join(args, "")
			if req.States, err = parseStates[sluicev1.TaskState]("state", states, "TASK_STATE_", sluicev1.TaskState_value); err != nil {
				return err
			}
			c, err := a.connect(cmd.Context())
			if err != nil {
				return err
			}
			defer c.close()
			all := &sluicev1.ListTasksResponse{}
			more, err := pages(limit, func(size uint32, token string) (int, string, error) {
				req.PageSize, req.PageToken = &size, token
				res, err := call(cmd.Context(), c, c.tasks.ListTasks, req)
				all.Tasks = append(all.Tasks, res.GetTasks()...)
				return len(res.GetTasks()), res.GetNextPageToken(), err
			})
			if err != nil {
				return err
			}
			return a.showFirst(all, func(w io.Writer) { table(w, words.TaskTable(all.GetTasks())) }, more, limit)
		},
	}
	cmd.Flags().StringSliceVar(&states, "state", nil, "only in these states, such as running,failed")
	cmd.Flags().StringVar(&req.Pool, "pool", "", "only of jobs in this pool or below it")
	cmd.Flags().StringVar(&req.Host, "host", "", "only on this host, as SHARD/NAME")
	cmd.Flags().Uint32Var(&limit, "limit", 1000, "at most so many; 0 is all")
	return cmd
}

func newTaskGetCommand(a *app) *cobra.Command {
	req := &sluicev1.GetTaskRequest{Explain: true}
	return &cobra.Command{
		Use:   "get JOB/INSTANCE",
		Short: "Show a task",
		Args:  wants("JOB/INSTANCE"),
		RunE: a.onTask(&req.Job, &req.Instance, func(cmd *cobra.Command, c *client) error {
			res, err := call(cmd.Context(), c, c.tasks.GetTask, req)
			if err != nil {
				return err
			}
			return a.show(res.GetTask(), func(w io.Writer) { properties(w, words.TaskProperties(res.GetTask())...) })
		}),
	}
}

func newTaskRestartCommand(a *app) *cobra.Command {
	req := &sluicev1.RestartTaskRequest{}
	var run uint32
	cmd := &cobra.Command{
		Use:   "restart JOB/INSTANCE",
		Short: "End a task's run, if there is one, and start another",
		Args:  wants("JOB/INSTANCE"),
		RunE: a.onTask(&req.Job, &req.Instance, func(cmd *cobra.Command, c *client) error {
			req.ExpectedRun = uintFlag(cmd, "expected-run", run)
			res, err := call(cmd.Context(), c, c.tasks.RestartTask, req)
			if err != nil {
				return err
			}
			return a.showTaskState(res.GetTask())
		}),
	}
	cmd.Flags().Uint32Var(&run, "expected-run", 0, "refuse if the task's run is another")
	return cmd
}

func newTaskStopCommand(a *app) *cobra.Command {
	req := &sluicev1.StopTaskRequest{}
	var run uint32
	cmd := &cobra.Command{
		Use:   "stop JOB/INSTANCE",
		Short: "End a task for good; the rest of its job goes on",
		Args:  wants("JOB/INSTANCE"),
		RunE: a.onTask(&req.Job, &req.Instance, func(cmd *cobra.Command, c *client) error {
			req.ExpectedRun = uintFlag(cmd, "expected-run", run)
			res, err := call(cmd.Context(), c, c.tasks.StopTask, req)
			if err != nil {
				return err
			}
			return a.showTaskState(res.GetTask())
		}),
	}
	cmd.Flags().Uint32Var(&run, "expected-run", 0, "refuse if the task's run is another")
	return cmd
}

func (a *app) showTaskState(t *sluicev1.Task) error {
	return a.show(t, func(w io.Writer) { fmt.Fprintf(w, "task %s is %s\n", words.Task(t), words.TaskState(t.GetState())) })
}

func newTaskEventsCommand(a *app) *cobra.Command {
	req := &sluicev1.ListTaskEventsRequest{}
	var run uint32
	cmd := &cobra.Command{
		Use:   "events JOB/INSTANCE",
		Short: "List what happened to a task, oldest first",
		Args:  wants("JOB/INSTANCE"),
		RunE: a.onTask(&req.Job, &req.Instance, func(cmd *cobra.Command, c *client) error {
			req.Run = uintFlag(cmd, "run", run)
			all := &sluicev1.ListTaskEventsResponse{}
			_, err := pages(0, func(size uint32, token string) (int, string, error) {
				req.PageSize, req.PageToken = &size, token
				res, err := call(cmd.Context(), c, c.tasks.ListTaskEvents, req)
				all.Events = append(all.Events, res.GetEvents()...)
				return len(res.GetEvents()), res.GetNextPageToken(), err
			})
			if err != nil {
				return err
			}
			return a.show(all, func(w io.Writer) { table(w, words.EventTable(all.GetEvents())) })
		}),
	}
	cmd.Flags().Uint32Var(&run, "run", 0, "only of this run")
	return cmd
}

func newTaskForgetDataCommand(a *app) *cobra.Command {
	req := &sluicev1.ForgetTaskDataRequest{}
	return &cobra.Command{
		Use:   "forget-data JOB/INSTANCE",
		Short: "Give up the data of a stateful task, so that it may run on any host",
		Long: `Give up the data of a stateful task that does not run, so that it may run on any
host. It is for data that is gone with its host: a stateful task waits for its
host otherwise, however long that takes. Nothing is deleted.`,
		Args: wants("JOB/INSTANCE"),
		RunE: a.onTask(&req.Job, &req.Instance, func(cmd *cobra.Command, c *client) error {
			res, err := call(cmd.Context(), c, c.tasks.ForgetTaskData, req)
			if err != nil {
				return err
			}
			return a.show(res.GetTask(), func(w io.Writer) { fmt.Fprintf(w, "task %s may run on any host\n", words.Task(res.GetTask())) })
		}),
	}
}
