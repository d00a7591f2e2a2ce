package serve

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/sluice-scheduler/sluice/cluster"
	"github.com/sluice-scheduler/sluice/cluster/rules"
	sluicev1 "github.com/sluice-scheduler/sluice/proto/sluice/v1"
)

// dispatch sends what the durable state of the shard's tasks calls for: a launch for each that is PLACED, a kill for each
// that is KILLING or PREEMPTING, when those who found it by discovery have had time to turn away. In a session each is sent
// once, and a kill again where one that leaves is stopped, since it may have less time then; after a reconnect it starts over, and
// repetitions do no harm.
func (c *control) dispatch(ctx context.Context) error {
	select {
	case <-c.ready:
	case <-ctx.Done():
		return ctx.Err()
	}
	w := c.s.watchShard(c.shard)
	defer w.Close()
	sent := map[cluster.TaskKey]sentRun{}
	quiet := map[cluster.TaskKey]time.Time{} // until when they are not told yet, by a clock that nobody sets
	kept := 0                                // of those in sent, when they were last gone through
	ring := time.NewTimer(time.Hour)
	defer ring.Stop()
	for first := true; ; first = false {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-w.C:
		case <-ring.C:
		case <-c.spared:
			c.spares = true
		}
		snapshot, changes, all := w.Take()
		now := c.s.clock() // not before anything in the snapshot, unless the clock has been set back
		stopped := snapshot.Mode().KillingStopped
		select {
		case <-c.spared: // whatever woke it
			c.spares = true
		default:
		}
		resumed := c.spares && !stopped
		if c.spares = stopped; resumed {
			// The shard tells all that it runs, and what has to end is found out anew.
			return status.Error(codes.Unavailable, "tasks are killed again: connect anew")
		}
		if first || all {
			changes.Tasks = nil
			for h := range snapshot.ShardHosts(c.shard) {
				changes.Tasks = append(changes.Tasks, h.Tasks...)
			}
		}
		for _, k := range changes.Tasks {
			delete(quiet, k)
			if t := snapshot.Task(k); t != nil && t.State.Vacating() {
				if at := rules.LeavesAt(t, snapshot.Job(k.Job()).SpecFor(t), now); at > now {
					quiet[k] = time.Now().Add(at.Sub(now))
					continue
				}
			}
			if err := c.command(ctx, snapshot, k, sent); err != nil {
				return err
			}
		}
		for k, at := range quiet { // in any order: each for itself
			if time.Until(at) > 0 {
				continue
			}
			delete(quiet, k)
			if err := c.command(ctx, snapshot, k, sent); err != nil {
				return err
			}
		}
		if len(sent) > 2*kept+minSwept {
			maps.DeleteFunc(sent, func(k cluster.TaskKey, _ sentRun) bool { return !c.has(snapshot.Task(k)) })
			kept = len(sent)
		}
		if ring.Stop(); len(quiet) > 0 {
			ring.Reset(time.Until(slices.MinFunc(slices.Collect(maps.Values(quiet)), time.Time.Compare)))
		}
	}
}

// minSwept is how many runs of tasks that may have left the shard are kept in mind before that is looked at.
const minSwept = 1000

// has reports whether a task is on a host of the shard.
func (c *control) has(t *cluster.Task) bool {
	return t != nil && t.State.Bound() && t.Host.Shard() == c.shard
}

// sentRun is what a session has sent for a run.
type sentRun struct {
	run    uint32
	killed cluster.TaskState // in which state it was told to end, which says how long it has; 0: it was not
}

func (c *control) command(ctx context.Context, snapshot *cluster.Snapshot, k cluster.TaskKey, sent map[cluster.TaskKey]sentRun) error {
	t := snapshot.Task(k)
	if !c.has(t) {
		delete(sent, k)
		return nil
	}
	before := sent[k]
	var message *sluicev1.ShardDown
	switch {
	case t.State == cluster.TaskPlaced && before.run != t.Run:
		j := snapshot.Job(k.Job())
		message = launchDown(t, j)
		if j.TaskFor(t).Secrets { // else it runs by a spec without any, perhaps where none can be delivered
			secrets, err := c.s.config.Secrets.files(j, j.SpecFor(t))
			if err != nil { // was looked at when they came, and at the start
				return status.Error(codes.Internal, err.Error())
			}
			message.GetLaunch().GetTask().Secrets = secrets
		}
		c.s.tell(message.GetLaunch().GetTask(), snapshot, t, j, c.peers.of(snapshot, j))
		sent[k] = sentRun{run: t.Run}
		if n := proto.Size(message); n > MaxRequestBytes {
			return c.tooLarge(ctx, t.RunID(), n)
		}
	case t.State.Vacating() && !c.spares && (before.run != t.Run || before.killed != t.State):
		j := snapshot.Job(k.Job())
		grace, command := rules.Leave(t, j.SpecFor(t))
		message = killDown(runRef(t.RunID(), j.Spec.Name), grace, command, t.Reason)
		sent[k] = sentRun{run: t.Run, killed: t.State}
	default:
		return nil
	}
	select {
	case c.commands <- message:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// tooLarge fails a run whose launch the shard would not take: its stream would break, and again in every session. Specs from before that
// was bounded can make such launches.
func (c *control) tooLarge(ctx context.Context, run cluster.RunID, size int) error {
	e := &cluster.TaskStatus{
		Task: run.Task, Run: run.Run, State: cluster.TaskFailed, ExitCode: -1, Reason: cluster.ReasonLaunchFailed,
		Message: fmt.Sprintf("what its host manager has to be told takes %d bytes, at most %d: let overrides add less to the environment of its processes", size, MaxRequestBytes),
	}
	return c.s.Send(ctx, run.Task, func(tx *Tx) error {
		_, err := rules.Report(tx, c.shard, e)
		return err
	}, func(err error) {
		if err != nil {
			c.refused("a launch that is too large", run, err)
		}
	})
}

// peers are the addresses of a gang as one state has them: all its members are told the same.
type peers struct {
	seq  uint64
	job  cluster.JobUID
	text string
}

// of returns the addresses of the job's gang.
func (p *peers) of(in *cluster.Snapshot, j *cluster.Job) string {
	if p.seq != in.Seq() || p.job != j.UID {
		*p = peers{in.Seq(), j.UID, in.GangPeers(j)}
	}
	return p.text
}
