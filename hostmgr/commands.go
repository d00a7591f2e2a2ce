package hostmgr

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/sluice-scheduler/sluice/cluster"
	sluicev1 "github.com/sluice-scheduler/sluice/proto/sluice/v1"
)

// lanes carry out commands: those of one run in order, others side by side, since a launch waits for disks and forks.
type lanes []chan func()

// defaultWidth is how many lanes there are unless the driver is [Wide].
const defaultWidth = 8

// laneLength is how many commands may wait in each lane; with more, the scheduler waits.
const laneLength = 256

// newLanes starts the lanes. They end with ctx, after the command that they are at; what still waits is dropped, and the
// scheduler repeats it in the next session if it is still due.
func newLanes(ctx context.Context, group *errgroup.Group, d Driver) lanes {
	l := make(lanes, defaultWidth)
	if d, ok := d.(Wide); ok {
		l = make(lanes, max(1, d.Width()))
	}
	for i := range l {
		l[i] = make(chan func(), laneLength)
		group.Go(func() error {
			for {
				select {
				case <-ctx.Done():
					return nil
				case command := <-l[i]:
					if ctx.Err() == nil { // select picks at random
						command()
					}
				}
			}
		})
	}
	return l
}

func (l lanes) do(ctx context.Context, run cluster.RunID, command func()) {
	select {
	case l[(uint64(run.Task)+uint64(run.Task.Job()))%uint64(len(l))] <- command:
	case <-ctx.Done():
	}
}

// obey takes in a message from the scheduler. An error ends the session.
func (c *session) obey(ctx context.Context, down *sluicev1.ShardDown) error {
	switch m := down.GetMessage().(type) {
	case *sluicev1.ShardDown_Launch:
		return c.command(ctx, m.Launch.GetRun(), func(run cluster.RunID) { c.launch(run, m.Launch) })
	case *sluicev1.ShardDown_Kill:
		return c.command(ctx, m.Kill.GetRun(), func(run cluster.RunID) { c.kill(ctx, run, m.Kill) })
	case *sluicev1.ShardDown_Release:
		return c.command(ctx, m.Release.GetRun(), func(run cluster.RunID) {
			c.out.release(run) // first: the driver may hear of the run anew as soon as it has forgotten it
			c.config.Driver.Release(run)
		})
	case *sluicev1.ShardDown_Ack:
		c.ack(m.Ack.GetUpdateId())
	case *sluicev1.ShardDown_Ping:
		c.out.pong(m.Ping.GetNumber())
	case *sluicev1.ShardDown_Volume:
		c.volume(ctx, m.Volume)
	case *sluicev1.ShardDown_Reject:
		return fmt.Errorf("hostmgr: the scheduler ended the session: %s", m.Reject.GetReason())
	default:
		c.log.Warn("the scheduler sent a message that this release does not know", "message", fmt.Sprintf("%T", m))
	}
	return nil
}

// ack takes in that a status is durable, and lets a driver know that waits for it.
func (c *session) ack(updateID uint64) {
	status, fromDriver := c.out.ack(updateID)
	if d, ok := c.config.Driver.(Acknowledger); ok && fromDriver {
		d.Durable(status)
	}
}

func (c *session) command(ctx context.Context, ref *sluicev1.RunRef, command func(cluster.RunID)) error {
	run, err := runFrom(ref)
	if err != nil {
		c.log.Error("the scheduler sent a command that makes no sense", "error", err)
		return nil
	}
	c.lanes.do(ctx, run, func() { command(run) })
	return nil
}

// launch starts a run. A run that is known is not started again; its status is repeated, which is what a scheduler that
// asks twice wants to know. That covers a launch that was refused: it must never start later, when the host is back. And
// one of a task whose earlier run, that was given up while the shard was away, is being killed: two would write over each
// other's data.
func (c *session) launch(run cluster.RunID, p *sluicev1.Launch) {
	if c.out.repeat(run) {
		return
	}
	if other, host, ok := c.out.rival(run); ok {
		err := fmt.Errorf("%w: run %v of the task has not ended yet on host %s", ErrRefused, other, host)
		c.refuse(run, p.GetHost(), cluster.ReasonLaunchRefused, err)
		return
	}
	l, err := launchFrom(p, capabilitiesOf(c.config.Driver))
	if err == nil {
		err = c.config.Driver.Launch(c.life, l)
	}
	switch {
	case err == nil:
	case c.life.Err() != nil: // given up half-way; the scheduler repeats it to the next shard of this name
	case errors.Is(err, ErrConflict):
		c.log.Error("a run was launched before with another payload; it goes on as it was", "run", run)
	case errors.Is(err, ErrUnknownHost), errors.Is(err, ErrRefused):
		c.refuse(run, p.GetHost(), cluster.ReasonLaunchRefused, err)
	default:
		c.refuse(run, p.GetHost(), cluster.ReasonLaunchFailed, err)
	}
}

func (c *session) refuse(run cluster.RunID, host string, why cluster.Reason, err error) {
	c.log.Warn("a launch was refused", "run", run, "host", host, "error", err)
	c.answer(Status{Run: run, Host: host, State: cluster.TaskFailed, ExitCode: -1, Reason: why, Message: err.Error()})
}

// answer reports a status of a run that the driver knows nothing of.
func (c *session) answer(s Status) {
	s.At = cluster.Time(time.Now().UnixNano())
	c.out.report(s, true)
}

// volume carries a command for a volume out, aside from the lanes: it may take a while.
func (c *session) volume(ctx context.Context, p *sluicev1.VolumeCommand) {
	answer := &sluicev1.VolumeInfo{Name: p.GetName(), Host: p.GetHost(), Present: true}
	keeper, keeps := c.config.Driver.(VolumeKeeper)
	switch {
	case !keeps:
		answer.Message = "this host manager does not delete volumes"
	case !p.GetDestroy():
		answer.Message = "volumes are made by the first task that uses them"
	default:
		c.group.Go(func() error {
			if err := keeper.DeleteVolume(ctx, p.GetHost(), p.GetName()); err != nil {
				answer.Message = text(err.Error())
			} else {
				answer.Present = false
			}
			c.out.volume(answer)
			return nil
		})
		return
	}
	c.out.volume(answer)
}

// killRetry is how long after a kill that failed the next attempt is made.
const killRetry = 5 * time.Second

func (c *session) kill(ctx context.Context, run cluster.RunID, p *sluicev1.Kill) {
	grace := max(0, p.GetGrace().AsDuration())
	var err error
	if w, ok := c.config.Driver.(Warner); ok && len(p.GetOnKill().GetArgs()) > 0 {
		err = w.KillAfter(c.life, run, grace, p.GetOnKill().GetArgs(), p.GetReason())
	} else {
		err = c.config.Driver.Kill(c.life, run, grace)
	}
	switch {
	case errors.Is(err, ErrUnknownRun):
		c.out.repeat(run) // a launch that was refused, if it is that
		c.answer(Status{
			Run: run, State: cluster.TaskKilled, ExitCode: -1, Reason: cluster.ReasonUnknownToHost,
			Message: "the host manager does not know the run",
		})
	case err != nil:
		c.log.Error("a run could not be killed, trying again", "run", run, "error", err)
		c.group.Go(func() error {
			select {
			case <-ctx.Done():
			case <-time.After(killRetry):
				c.lanes.do(ctx, run, func() { c.kill(ctx, run, p) })
			}
			return nil
		})
	}
}
