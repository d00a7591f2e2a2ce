package serve

import (
	"context"
	"iter"
	"slices"
	"strconv"
	"strings"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/sluice-scheduler/sluice/cluster"
	"github.com/sluice-scheduler/sluice/cluster/rules"
	sluicev1 "github.com/sluice-scheduler/sluice/proto/sluice/v1"
)

type taskService struct {
	sluicev1.UnimplementedTaskServiceServer
	*api
}

// measuredTask is the task with what its run was last measured to use.
func (a *api) measuredTask(t *cluster.Task, j *cluster.Job) *sluicev1.Task {
	p := taskTo(t, j)
	if u, ok := a.s.TaskUsage(t); ok {
		p.Used = vectorTo(u.Used)
		p.Progress = u.Progress
	}
	if h := a.s.Snapshot().Host(t.Host); t.State.Bound() && h != nil && h.Unreachable {
		p.Message = strings.TrimPrefix(p.Message+"; ", "; ") + "its host is unreachable since " + h.Since.Go().Format(time.RFC3339)
	}
	return p
}

// GetTask implements sluicev1.TaskServiceServer.
func (a *taskService) GetTask(ctx context.Context, r *sluicev1.GetTaskRequest) (*sluicev1.GetTaskResponse, error) {
	snapshot := a.s.Snapshot()
	t, j, err := findTask(snapshot, r.Job, r.Instance)
	if err != nil {
		return nil, err
	}
	p := a.measuredTask(t, j)
	if r.Explain {
		p.Waiting = a.whyTheyWait(ctx, snapshot, []*cluster.Task{t})[0]
	}
	if c := snapshot.Task(t.Key.Copy()); c != nil {
		p.Copy = copyTo(c)
	} else if t.WonBy != 0 {
		run := cluster.RunID{Task: t.Key.Copy(), Run: t.WonBy}
		p.Copy = &sluicev1.TaskCopy{Run: run.Run, State: sluicev1.TaskState_TASK_STATE_SUCCEEDED, Host: string(a.s.history.placeOf(run))}
	}
	return &sluicev1.GetTaskResponse{Task: p}, nil
}

// ListTasks implements sluicev1.TaskServiceServer. Complexity: the tasks of the job, or of all jobs, from the beginning
// of the page on that it takes to fill it, and what it takes to say why those on the page wait, see whyTheyWait.
func (a *taskService) ListTasks(ctx context.Context, r *sluicev1.ListTasksRequest) (*sluicev1.ListTasksResponse, error) {
	page, err := openPage(r)
	if err != nil {
		return nil, err
	}
	snapshot := a.s.Snapshot()
	tasks, err := tasksAfter(snapshot, r.Job, page.after)
	if err != nil {
		return nil, err
	}
	if err := callOf(ctx).knowsFiltered(snapshot, "pool", r.Pool); err != nil {
		return nil, err
	}
	seen := callOf(ctx).who.Sight(snapshot)
	var shown []*cluster.Task // one more than there may be on the page tells that there is another
	for t := range tasks {
		switch j := snapshot.Job(t.Key.Job()); {
		case t.Key.IsCopy() || !seen(j),
			r.Pool != "" && !cluster.PoolPath(r.Pool).Covers(j.Spec.Pool),
			len(r.States) > 0 && !slices.Contains(r.States, taskStates[t.State]),
			r.Host != "" && string(t.Host) != r.Host:
			continue
		}
		if shown = append(shown, t); len(shown) > page.left {
			break
		}
	}
	answer := &sluicev1.ListTasksResponse{}
	var why []*sluicev1.WaitingExplanation
	if r.Explain {
		why = a.whyTheyWait(ctx, snapshot, shown[:min(len(shown), page.left)])
	}
	for i, t := range shown {
		record := a.measuredTask(t, snapshot.Job(t.Key.Job()))
		if i < len(why) {
			record.Waiting = why[i]
		}
		if !page.Add(record) {
			answer.NextPageToken = page.Token(strconv.FormatUint(uint64(shown[i-1].Key), 10))
			break
		}
		answer.Tasks = append(answer.Tasks, record)
	}
	if r.Host != "" && page.after == "" && len(answer.Tasks) == 0 { // else it is one that has gone
		if _, err := findHost(snapshot, r.Host); err != nil {
			return nil, err
		}
	}
	return answer, nil
}

// tasksAfter yields the tasks of the job, of all jobs if it is "", after the one that a page ended with.
func tasksAfter(s *cluster.Snapshot, job, after string) (iter.Seq[*cluster.Task], error) {
	var from cluster.TaskKey
	if after != "" {
		last, err := strconv.ParseUint(after, 10, 64)
		if err != nil {
			return nil, fieldError(codes.InvalidArgument, "page_token", "is damaged")
		}
		from = cluster.TaskKey(last) + 1
	}
	if job == "" {
		return s.Tasks(from), nil
	}
	j, err := findJob(s, job)
	if err != nil {
		return nil, err
	}
	if after == "" {
		return s.TasksOf(j.UID, 0), nil
	}
	if from.Job() != j.UID {
		return func(func(*cluster.Task) bool) {}, nil // the job is another one by now, or that was its last instance
	}
	return s.TasksOf(j.UID, from.Number()), nil
}

// RestartTask implements sluicev1.TaskServiceServer.
func (a *taskService) RestartTask(ctx context.Context, r *sluicev1.RestartTaskRequest) (*sluicev1.RestartTaskResponse, error) {
	task, err := a.changeTask(ctx, r, r.ExpectedRun, func(tx *Tx, t *cluster.Task, j *cluster.Job) error {
		if j.Stopping {
			why := "it was stopped"
			switch {
			case j.StopReason == cluster.ReasonDeadline:
				why = "its deadline has passed"
			case j.StopMessage != "":
				why = j.StopMessage
			}
			return resourceError(codes.FailedPrecondition, "job", r.Job, "%s: its tasks do not run any more", why)
		}
		if j.Waiting {
			return resourceError(codes.FailedPrecondition, "job", r.Job, "it waits for other jobs: none of its tasks may run yet")
		}
		if t.Removed {
			return resourceError(codes.FailedPrecondition, "job", r.Job, "instance %d is being removed", r.Instance)
		}
		if j.Spec.Controller && j.Head.Terminal() && r.Instance != 0 {
			return resourceError(codes.FailedPrecondition, "job", r.Job, "its controller has ended, and the rest ends with it: restart instance 0 first")
		}
		if err := checkMayRun(tx, j, j.Spec); err != nil {
			return err
		}
		return tx.Emit(&cluster.TaskStopping{Task: t.Key, Reason: cluster.ReasonTaskRestarted, Restart: true})
	})
	if err != nil {
		return nil, err
	}
	return &sluicev1.RestartTaskResponse{Task: task}, nil
}

// StopTask implements sluicev1.TaskServiceServer.
func (a *taskService) StopTask(ctx context.Context, r *sluicev1.StopTaskRequest) (*sluicev1.StopTaskResponse, error) {
	task, err := a.changeTask(ctx, r, r.ExpectedRun, func(tx *Tx, t *cluster.Task, _ *cluster.Job) error {
		if t.State.Terminal() || rules.GivenUp(t) {
			return nil
		}
		return tx.Emit(&cluster.TaskStopping{Task: t.Key, Reason: cluster.ReasonTaskStopped})
	})
	if err != nil {
		return nil, err
	}
	return &sluicev1.StopTaskResponse{Task: task}, nil
}

// ForgetTaskData implements sluicev1.TaskServiceServer.
func (a *taskService) ForgetTaskData(ctx context.Context, r *sluicev1.ForgetTaskDataRequest) (*sluicev1.ForgetTaskDataResponse, error) {
	task, err := a.changeTask(ctx, r, r.ExpectedRun, func(tx *Tx, t *cluster.Task, j *cluster.Job) error {
		switch {
		case j.Spec.Type != cluster.Stateful:
			return resourceError(codes.FailedPrecondition, "job", r.Job, "it is not stateful: its tasks are bound to no data")
		case t.Home == "":
			return nil
		case t.State.Bound():
			return resourceError(codes.FailedPrecondition, "job", r.Job, "instance %d is on host %s with its data: stop it first, or wait until the host has been given up",
				r.Instance, quote(string(t.Host)))
		}
		return tx.Emit(&cluster.HomeForgotten{Task: t.Key})
	})
	if err != nil {
		return nil, err
	}
	return &sluicev1.ForgetTaskDataResponse{Task: task}, nil
}

// changeTask runs a change of one task in the writer and returns the task as it is afterwards.
func (a *taskService) changeTask(ctx context.Context, r taskRequest, run *uint32, change func(*Tx, *cluster.Task, *cluster.Job) error) (*sluicev1.Task, error) {
	var task *cluster.Task
	var job *cluster.Job
	err := a.do(ctx, func(tx *Tx) error {
		t, j, err := findTask(tx.State(), r.GetJob(), r.GetInstance())
		if err != nil {
			return err
		}
		if run != nil && *run != t.Run {
			return resourceError(codes.Aborted, "job", r.GetJob(), "instance %d is in run %d, not %d: get it and decide anew",
				r.GetInstance(), t.Run, *run)
		}
		if err := change(tx, t, j); err != nil {
			return err
		}
		task, job = tx.State().Task(t.Key), tx.State().Job(j.UID)
		return nil
	})
	if err != nil {
		return nil, err
	}
	return a.measuredTask(task, job), nil
}
