package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/sluice-scheduler/sluice/cluster"
	"github.com/sluice-scheduler/sluice/cmd/sluice/internal/words"
	sluicev1 "github.com/sluice-scheduler/sluice/proto/sluice/v1"
)

// follow watches jobs and calls handle after each message, with all that the watch has told so far, until it reports
// that it is done. It takes the watch up again where it was when the scheduler goes away. What is told once more then is not in
// the message that handle gets, and jobs that went meanwhile are.
func (c *client) follow(ctx context.Context, what *sluicev1.WatchJobsRequest, handle func(*jobView, *sluicev1.WatchJobsResponse) (done bool, err error)) error {
	view := &jobView{jobs: map[uint32]*sluicev1.Job{}}
	return c.persist(ctx, func(alive func()) error {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		stream, err := c.jobs.WatchJobs(ctx, &sluicev1.WatchJobsRequest{
			Filter: what.GetFilter(), IncludeTasks: what.GetIncludeTasks(), AfterRevision: view.revision,
		})
		if err != nil {
			return err
		}
		view.begin()
		for {
			res, err := stream.Recv()
			if err != nil {
				return err
			}
			alive()
			news := slices.DeleteFunc(slices.Clone(res.GetJobs()), view.knows)
			view.take(res)
			res.Jobs = news
			for _, j := range view.gone { // of a watch that was taken up again only the view knows
				if !slices.Contains(res.Gone, j.GetUid()) {
					res.Gone = append(res.Gone, j.GetUid())
				}
			}
			if done, err := handle(view, res); done || err != nil {
				return err
			}
		}
	})
}

// jobView is what a watch has told so far. Deleted jobs vanish from it.
type jobView struct {
	jobs     map[uint32]*sluicev1.Job
	stale    map[uint32]bool // not confirmed since the watch was taken up again
	gone     []*sluicev1.Job // that the last message took away, by uid
	synced   bool            // everything that there was at the beginning has been told
	revision uint64          // to resume from
}

// begin prepares for a new stream.
func (v *jobView) begin() {
	v.stale, v.synced = map[uint32]bool{}, false
	for uid := range v.jobs {
		v.stale[uid] = true
	}
}

// knows reports whether the view has the job as it is.
func (v *jobView) knows(j *sluicev1.Job) bool {
	had := v.jobs[j.GetUid()]
	return had != nil && had.GetRevision() == j.GetRevision()
}

// take brings the view up to date with a message.
func (v *jobView) take(res *sluicev1.WatchJobsResponse) {
	v.gone = nil
	for _, j := range res.GetJobs() {
		v.jobs[j.GetUid()] = j
		delete(v.stale, j.GetUid())
	}
	for _, uid := range res.GetUnchanged() {
		delete(v.stale, uid)
	}
	for _, uid := range res.GetGone() {
		v.drop(uid)
	}
	if res.GetSynced() {
		for uid := range v.stale {
			v.drop(uid)
		}
		v.stale, v.synced = nil, true
	}
	slices.SortFunc(v.gone, func(a, b *sluicev1.Job) int { return cmp.Compare(a.GetUid(), b.GetUid()) })
	if res.GetRevision() != 0 {
		v.revision = res.GetRevision()
	}
}

func (v *jobView) drop(uid uint32) {
	if j := v.jobs[uid]; j != nil {
		v.gone = append(v.gone, j)
		delete(v.jobs, uid)
	}
}

// named returns the jobs of these names in their order, nil for one that is not there.
func (v *jobView) named(names []string) []*sluicev1.Job {
	jobs := make([]*sluicev1.Job, len(names))
	for _, j := range v.jobs {
		if i := slices.Index(names, j.GetName()); i >= 0 {
			jobs[i] = j
		}
	}
	return jobs
}

func hasEnded(j *sluicev1.Job) bool {
	switch j.GetState() {
	case sluicev1.JobState_JOB_STATE_SUCCEEDED, sluicev1.JobState_JOB_STATE_FAILED, sluicev1.JobState_JOB_STATE_KILLED:
		return true
	}
	return false
}

// rests reports whether a job is a service all of whose tasks were stopped, but not the job: they may be restarted.
func rests(j *sluicev1.Job) bool {
	switch j.GetSpec().GetType() {
	case sluicev1.JobType_JOB_TYPE_STATELESS, sluicev1.JobType_JOB_TYPE_STATEFUL, sluicev1.JobType_JOB_TYPE_DAEMON:
		return hasEnded(j) && j.GetReason() == ""
	}
	return false
}

// watchedNames is how many names one watch takes.
const watchedNames = 1000

// waitForJobs waits until all the jobs have ended, showing progress, and returns them in the order of names. One that has ended
// may be deleted while others go on, as when its time to be listed is over.
func (a *app) waitForJobs(ctx context.Context, c *client, names []string) ([]*sluicev1.Job, error) {
	jobs := make([]*sluicev1.Job, len(names)) // nil: nothing has been told of it yet
	p := newProgress(a.err)
	defer p.end()
	defer p.keep()()
	c.notes = p
	var mu sync.Mutex
	defer c.tellingAway(ctx, func() (ending []string) {
		mu.Lock()
		defer mu.Unlock()
		for _, j := range jobs {
			if j.GetState() == sluicev1.JobState_JOB_STATE_KILLING {
				ending = append(ending, j.GetName())
			}
		}
		return ending
	})()
	group, ctx := errgroup.WithContext(ctx)
	for first := 0; first < len(names); first += watchedNames {
		names := names[first:min(first+watchedNames, len(names))]
		known := jobs[first:][:len(names)]
		group.Go(func() error {
			return c.follow(ctx, &sluicev1.WatchJobsRequest{Filter: &sluicev1.JobFilter{Names: names}}, func(view *jobView, _ *sluicev1.WatchJobsResponse) (bool, error) {
				if !view.synced {
					return false, nil
				}
				mu.Lock()
				defer mu.Unlock()
				for i, now := range view.named(names) {
					switch had := known[i]; {
					case now != nil && (had == nil || had.GetUid() == now.GetUid()):
						known[i] = now
					case had == nil || !hasEnded(had):
						return false, status.Errorf(codes.NotFound, "job %s does not exist, or has been deleted", names[i])
					}
				}
				if !slices.Contains(jobs, nil) {
					p.show(progressLine(jobs), time.Now())
				}
				return !slices.ContainsFunc(known, func(j *sluicev1.Job) bool { return !hasEnded(j) }), nil
			})
		})
	}
	return jobs, group.Wait()
}

// tellingAway notes, as soon as that is so, that some of the jobs that are to end have tasks on hosts that nobody can tell, until stop is
// called.
func (c *client) tellingAway(ctx context.Context, ending func() []string) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for told := false; !told; told = c.tellAway(ctx, ending()) {
			select {
			case <-ctx.Done():
				return
			case <-time.After(waitsAfter):
			}
		}
	}()
	return func() { cancel(); <-done }
}

// tellAway notes the first of the tasks of these jobs that cannot end since its host is unreachable, and how many others of its job are so
// too, and reports whether there is one.
func (c *client) tellAway(ctx context.Context, jobs []string) bool {
	if len(jobs) == 0 {
		return false
	}
	most := uint32(1000)
	hosts, err := call(ctx, c, c.hosts.ListHosts, &sluicev1.ListHostsRequest{PageSize: &most, States: []sluicev1.HostState{sluicev1.HostState_HOST_STATE_UNREACHABLE}})
	if err != nil || len(hosts.GetHosts()) == 0 {
		return false
	}
	away := map[string]bool{}
	for _, h := range hosts.GetHosts() {
		away[h.GetName()] = true
	}
	for _, job := range jobs {
		res, err := call(ctx, c, c.tasks.ListTasks, &sluicev1.ListTasksRequest{
			Job: job, PageSize: &most, States: []sluicev1.TaskState{sluicev1.TaskState_TASK_STATE_KILLING},
		})
		if err != nil {
			return false
		}
		stay := slices.DeleteFunc(res.GetTasks(), func(t *sluicev1.Task) bool { return !away[t.GetHost()] })
		if len(stay) == 0 {
			continue
		}
		more := ""
		if n := len(stay) - 1; n > 0 {
			more = fmt.Sprintf(" (and %d more)", n)
		}
		t := stay[0]
		fmt.Fprintf(c.notes, "sluice: task %s%s cannot be told to end, since host %s is unreachable; see: sluice task explain %s\n",
			words.Task(t), more, t.GetHost(), words.Task(t))
		return true
	}
	return false
}

// finishWait waits for jobs, prints them, and fails if one of them did not succeed.
func (a *app) finishWait(ctx context.Context, c *client, names []string) error {
	jobs, err := a.waitForJobs(ctx, c, names)
	if err != nil {
		return err
	}
	err = a.show(&sluicev1.ListJobsResponse{Jobs: jobs}, func(w io.Writer) {
		for _, j := range jobs {
			fmt.Fprintln(w, endedWord(j))
		}
	})
	if err != nil {
		return err
	}
	return a.judge(ctx, c, jobs)
}

// judge fails, and says what did, if one of the jobs, which have ended, did not succeed.
func (a *app) judge(ctx context.Context, c *client, jobs []*sluicev1.Job) error {
	failed := false
	for _, j := range jobs {
		if j.GetState() != sluicev1.JobState_JOB_STATE_SUCCEEDED {
			failed = true
			a.failures(ctx, c, j)
		}
	}
	if failed {
		return exitError{exitJobFailed, nil}
	}
	return nil
}

// endedWord says how a job that has ended did, and why where that does not speak for itself.
func endedWord(j *sluicev1.Job) string {
	return fmt.Sprintf("job %s %s after %s (%s)", j.GetName(), words.JobState(j.GetState()), words.Span(j.GetCreateTime(), j.GetEndTime()), words.Counts(j)) +
		words.After(": ", strings.TrimSpace(j.GetReason()+" "+j.GetMessage()))
}

// failures tells the first tasks of a job that did not succeed.
func (a *app) failures(ctx context.Context, c *client, j *sluicev1.Job) {
	size := uint32(3)
	res, err := call(ctx, c, c.tasks.ListTasks, &sluicev1.ListTasksRequest{
		Job: j.GetName(), PageSize: &size,
		States: []sluicev1.TaskState{sluicev1.TaskState_TASK_STATE_FAILED, sluicev1.TaskState_TASK_STATE_LOST},
	})
	if err != nil {
		return // the job's state has been told; this was only help
	}
	for _, t := range res.GetTasks() {
		more := "logs " + words.Task(t)
		if t.GetReason() == string(cluster.ReasonLaunchFailed) { // it has written nothing
			more = "events " + words.Task(t)
		} else if name := culprit(j, t); name != "" {
			more += " --process " + name
		}
		fmt.Fprintf(a.err, "sluice: task %s %s: %s; see: sluice task %s\n", words.Task(t), words.TaskState(t.GetState()), words.End(t), more)
	}
	if res.GetNextPageToken() != "" {
		fmt.Fprintf(a.err, "sluice: and more; see: sluice task list %s --state failed,lost\n", j.GetName())
	}
}

// culprit returns the process or init step of which a task says that it ended it, "" if it names none: what others have written does not
// tell why.
func culprit(j *sluicev1.Job, t *sluicev1.Task) string {
	for _, p := range slices.Concat(j.GetSpec().GetTask().GetProcesses(), j.GetSpec().GetTask().GetInit()) {
		if p.GetName() != "" && strings.Contains(t.GetMessage(), fmt.Sprintf("%q", p.GetName())) {
			return p.GetName()
		}
	}
	return ""
}

func newJobWaitCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "wait NAME...",
		Short: "Wait until jobs have ended; exit code 4 if one did not succeed",
		Args:  atLeastOneName,
		RunE: a.connected(func(cmd *cobra.Command, c *client, args []string) error {
			slices.Sort(args)
			return flagged(a.finishWait(cmd.Context(), c, slices.Compact(args)))
		}),
	}
}

func newJobWatchCommand(a *app) *cobra.Command {
	filter := &sluicev1.JobFilter{}
	cmd := &cobra.Command{
		Use:   "watch [NAME...]",
		Short: "Print jobs as they are, and again whenever they change, until interrupted",
		Long: `Print jobs as they are, and again whenever they change, until interrupted. One
that is deleted, or does not match any more, is gone. Of a name of which there is no
job that is told, and the job is shown once it is submitted.`,
		Args: alsoFilled(wantsNames, "pool", "owner"),
		RunE: a.connected(func(cmd *cobra.Command, c *client, args []string) error {
			filter.Names = args
			told := false
			return flagged(c.follow(cmd.Context(), &sluicev1.WatchJobsRequest{Filter: filter}, func(view *jobView, res *sluicev1.WatchJobsResponse) (bool, error) {
				if view.synced && !told {
					told = true
					for i, j := range view.named(args) {
						if j == nil && slices.Index(args, args[i]) == i {
							fmt.Fprintf(a.err, "sluice: job %s does not exist, or does not match: it is shown when that changes\n", args[i])
						}
					}
				}
				return false, a.showEach(res, func(w io.Writer) {
					now := time.Now().Format("15:04:05")
					for _, j := range view.gone {
						fmt.Fprintf(w, "%s  %-9s  %s\n", now, "gone", j.GetName())
					}
					for _, j := range res.GetJobs() {
						fmt.Fprintf(w, "%s  %-9s  %s  %s\n", now, words.JobState(j.GetState()), j.GetName(), words.Counts(j))
					}
				})
			}))
		}),
	}
	cmd.Flags().StringVar(&filter.Pool, "pool", "", "only in this pool or below it")
	cmd.Flags().StringVar(&filter.Owner, "owner", "", "only of this owner")
	return cmd
}

// atLeastOneName is for Args of a command.
func atLeastOneName(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return usageError(cmd, errors.New("NAME is missing"))
	}
	return wantsNames(cmd, args)
}
