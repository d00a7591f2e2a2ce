package main

import (
	"context"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/sluice-scheduler/sluice/cmd/sluice/internal/words"
	sluicev1 "github.com/sluice-scheduler/sluice/proto/sluice/v1"
)

// waitFlag adds --wait to a command that begins or steers an update.
func waitFlag(cmd *cobra.Command) {
	cmd.Flags().Bool("wait", false, "wait until the update is over; exit code 4 if it did not come to its end")
}

// seeUpdate shows the job after something was done to its update: at once, or, where --wait says so, when that is over, and fails if it did not
// come to its end.
func (a *app) seeUpdate(cmd *cobra.Command, c *client, j *sluicev1.Job, show func(*sluicev1.Job) error) error {
	if f := cmd.Flags().Lookup("wait"); f == nil || f.Value.String() != "true" || !rolls(j.GetUpdate()) {
		return show(j)
	}
	now, err := a.waitForUpdate(cmd.Context(), c, j)
	if err != nil {
		return err
	}
	if err := a.showUpdate(now); err != nil {
		return err
	}
	switch u := now.GetUpdate(); u.GetState() {
	case sluicev1.UpdateState_UPDATE_STATE_SUCCEEDED, sluicev1.UpdateState_UPDATE_STATE_ROLLED_BACK:
		if sameUpdate(u, j.GetUpdate()) {
			return nil
		}
	}
	return exitError{exitJobFailed, nil}
}

// waitForUpdate waits until the update of a job is over, or that which takes it back, showing how far it is, and returns the job as it is
// then. It does not wait for another that supersedes it.
func (a *app) waitForUpdate(ctx context.Context, c *client, j *sluicev1.Job) (now *sluicev1.Job, err error) {
	p := newProgress(a.err)
	defer p.end()
	defer p.keep()()
	c.notes = p
	what := &sluicev1.WatchJobsRequest{Filter: &sluicev1.JobFilter{Names: []string{j.GetName()}}}
	err = c.follow(ctx, what, func(view *jobView, _ *sluicev1.WatchJobsResponse) (bool, error) {
		if !view.synced {
			return false, nil
		}
		if now = view.jobs[j.GetUid()]; now == nil {
			return false, status.Errorf(codes.NotFound, "job %s has been deleted", j.GetName())
		}
		u := now.GetUpdate()
		p.show("job "+now.GetName()+": "+words.Update(u), time.Now())
		taken := u.GetState() == sluicev1.UpdateState_UPDATE_STATE_ROLLING_BACKWARD
		return !rolls(u) || !taken && !sameUpdate(u, j.GetUpdate()), nil
	})
	return now, err
}

// rolls reports whether an update is under way.
func rolls(u *sluicev1.JobUpdate) bool { return u != nil && u.GetEndTime() == nil }

// sameUpdate reports whether two records of a job are of one update: another number of instances gives it another version.
func sameUpdate(a, b *sluicev1.JobUpdate) bool {
	return a.GetCreateTime().AsTime().Equal(b.GetCreateTime().AsTime())
}
