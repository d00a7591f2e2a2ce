package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	sluicev1 "github.com/sluice-scheduler/sluice/proto/sluice/v1"
)

func newTaskLogsCommand(a *app) *cobra.Command {
	req := &sluicev1.TaskLogsRequest{}
	var run uint32
	var flags logFlags
	cmd := &cobra.Command{
		Use:   "logs JOB/INSTANCE",
		Short: "Print the output of a task's run",
		Long: `Print the output of a task's run: its standard output to standard output and its
standard error to standard error. With --follow it goes on until the run ends,
also over a restart of the scheduler. With -o json or yaml it prints the pieces
with stream, run and position. Of a task whose second copy has succeeded it is the
output of that; --run prints that of the task's own run.`,
		Args: wants("JOB/INSTANCE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			var err error
			if req.Job, req.Instance, err = parseTask(cmd, args[0]); err != nil {
				return err
			}
			req.Run = uintFlag(cmd, "run", run)
			if err := flags.read(cmd, req); err != nil {
				return err
			}
			c, err := a.connect(cmd.Context())
			if err != nil {
				return err
			}
			defer c.close()
			if req.Run == nil {
				res, err := call(cmd.Context(), c, c.tasks.GetTask, &sluicev1.GetTaskRequest{Job: req.Job, Instance: req.Instance})
				if err != nil {
					return err
				}
				req.Copy = succeededByCopy(res.GetTask())
			}
			return c.logs(cmd.Context(), req, newLogPrinter(a, false).print)
		},
	}
	f := cmd.Flags()
	f.BoolVarP(&req.Follow, "follow", "f", false, "go on until the run ends")
	f.Uint32Var(&run, "run", 0, "a certain run; without it, the current or last one")
	flags.add(cmd, req)
	return cmd
}

// succeededByCopy reports whether a task, as GetTask tells it, has succeeded through its copy, whose output counts then.
func succeededByCopy(t *sluicev1.Task) bool {
	return t.GetCopy().GetState() == sluicev1.TaskState_TASK_STATE_SUCCEEDED
}

// logFlags are the flags that say what of an output is wanted.
type logFlags struct {
	stream string
	lines  uint32
}

func (l *logFlags) add(cmd *cobra.Command, req *sluicev1.TaskLogsRequest) {
	f := cmd.Flags()
	f.StringVar(&l.stream, "stream", "both", "both, stdout or stderr")
	f.Uint32Var(&l.lines, "tail", 0, "begin with so many of the last lines")
	f.StringVar(&req.Process, "process", "", "process of a task with several, or init step; without it, the main one, else the first")
}

// read puts into a request what the flags say.
func (l *logFlags) read(cmd *cobra.Command, req *sluicev1.TaskLogsRequest) error {
	switch l.stream {
	case "both":
	case "stdout":
		req.Stream = sluicev1.LogStream_LOG_STREAM_STDOUT
	case "stderr":
		req.Stream = sluicev1.LogStream_LOG_STREAM_STDERR
	default:
		return usageError(cmd, fmt.Errorf("--stream %q is none of both, stdout, stderr", l.stream))
	}
	if cmd.Flags().Changed("tail") {
		req.Tail = &sluicev1.TaskLogsRequest_TailLines{TailLines: l.lines}
	}
	return nil
}

// showLog prints a piece of output.
func (a *app) showLog(res *sluicev1.TaskLogsResponse) error {
	if a.config.Output != "table" {
		return a.showEach(res, nil)
	}
	w := a.out
	if res.GetStream() == sluicev1.LogStream_LOG_STREAM_STDERR {
		w = a.err
	}
	_, err := w.Write(res.GetData())
	return err
}

// logs calls handle with each piece of output once and in order, also when the stream has to be taken up again: then
// it asks for the same run from the positions reached. That is so too after whoever reads what it prints has stood still.
func (c *client) logs(ctx context.Context, req *sluicev1.TaskLogsRequest, handle func(*sluicev1.TaskLogsResponse) error) error {
	return c.logsWith(ctx, req, 0, handle)
}

// logsWith is logs that tries again after the pause where too many outputs are read already; 0: that is an error.
func (c *client) logsWith(ctx context.Context, req *sluicev1.TaskLogsRequest, pause time.Duration, handle func(*sluicev1.TaskLogsResponse) error) error {
	begun := time.Now()
	return c.persist(ctx, func(alive func()) error {
		for {
			answered := false
			err := c.readLogs(ctx, req, func(res *sluicev1.TaskLogsResponse) error {
				answered = true
				alive()
				return handle(res)
			})
			switch {
			case shardAway(err) && !req.GetFollow() && time.Since(begun) > min(connectTimeout, c.reconnect):
				return c.describe(err)
			case status.Code(err) != codes.ResourceExhausted || !answered && pause == 0:
				return err
			case !answered:
				select {
				case <-time.After(pause):
				case <-ctx.Done():
					return status.FromContextError(ctx.Err()).Err()
				}
			}
		}
	})
}

// readLogs calls handle until the stream ends or breaks, and moves the request on.
func (c *client) readLogs(ctx context.Context, req *sluicev1.TaskLogsRequest, handle func(*sluicev1.TaskLogsResponse) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := c.tasks.TaskLogs(ctx, req)
	if err != nil {
		return err
	}
	for {
		res, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if err := handle(res); err != nil {
			return err
		}
		run, next := res.GetRun(), res.GetOffset()+int64(len(res.GetData()))
		req.Run = &run
		if res.GetStream() == sluicev1.LogStream_LOG_STREAM_STDERR {
			req.StderrOffset = &next
		} else {
			req.StdoutOffset = &next
		}
	}
}
