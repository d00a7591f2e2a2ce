package serve

import (
	"context"
	"slices"

	"github.com/sluice-scheduler/sluice/cluster"
	sluicev1 "github.com/sluice-scheduler/sluice/proto/sluice/v1"
)

// hostReport takes in a part of a host report and applies it when it is complete.
func (c *control) hostReport(ctx context.Context, r *sluicev1.HostReport) error {
	removed := r.GetRemoved()
	for _, info := range r.GetHosts() {
		machine, err := machineFrom(info)
		if err != nil {
			c.s.log.Warn("shard reported a host that is left out", "shard", c.shard, "host", shorten(info.GetName(), maxShownValue), "error", err)
			continue
		}
		if info.GetUnreachable() {
			removed = append(removed, info.GetName())
			continue
		}
		c.hosts[info.GetName()] = machine
	}
	if r.GetFull() && !r.GetLast() {
		return nil
	}
	hosts := c.hosts
	c.hosts = map[string]cluster.Machine{}
	return c.s.Do(ctx, func(tx *Tx) error { return c.applyHosts(tx, hosts, removed, r.GetFull()) })
}

func (c *control) applyHosts(tx *Tx, hosts map[string]cluster.Machine, removed []string, full bool) error {
	var gone []*cluster.Host
	for h := range c.own(tx.State()) {
		if _, there := hosts[h.ID.Name()]; !there && (full || slices.Contains(removed, h.ID.Name())) {
			gone = append(gone, h)
		}
	}
	for _, h := range gone {
		var e cluster.Event = &cluster.HostRemoved{ID: h.ID}
		if len(h.Tasks) > 0 {
			if h.Unreachable {
				continue
			}
			e = &cluster.HostUnreached{ID: h.ID, Reason: "its shard does not see it any more"}
		}
		if err := tx.Emit(e); err != nil {
			return err
		}
	}
	for _, name := range sortedKeys(hosts) {
		id := cluster.MakeHostID(c.shard, name)
		if old := tx.State().Host(id); old != nil && !old.Unreachable && old.Machine.Equal(hosts[name]) {
			continue
		}
		if err := tx.Emit(&cluster.HostReported{ID: id, Machine: hosts[name]}); err != nil {
			return err
		}
	}
	return nil
}

// inventory takes in a part of the list of all runs that the shard knows, and compares it with the state when it is
// complete. Only then are commands sent.
func (c *control) inventory(ctx context.Context, inv *sluicev1.Inventory) error {
	for _, st := range inv.GetRuns() {
		e, err := statusFrom(st)
		if err != nil {
			c.s.log.Warn("shard's inventory has an entry that makes no sense", "shard", c.shard, "error", err)
			continue
		}
		c.runs[cluster.RunID{Task: e.Task, Run: e.Run}] = st
	}
	if !inv.GetLast() {
		return nil
	}
	runs := c.runs
	c.runs = map[cluster.RunID]*sluicev1.RunStatus{}
	var answers []*sluicev1.ShardDown
	err := c.s.Do(ctx, func(tx *Tx) (err error) {
		answers, err = c.reconcile(tx, runs)
		return err
	})
	if err != nil {
		return err
	}
	for _, a := range answers {
		select {
		case c.commands <- a:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	select {
	case <-c.ready: // a shard may send its inventory again
	default:
		close(c.ready)
	}
	return nil
}

// reconcile brings the state and the shard's runs together: what the shard reports is applied, runs that it should know
// and does not are concluded, and for runs that nobody waits for it returns what to answer.
func (c *control) reconcile(tx *Tx, runs map[cluster.RunID]*sluicev1.RunStatus) ([]*sluicev1.ShardDown, error) {
	var bound []*cluster.Task
	for h := range c.own(tx.State()) {
		for _, k := range h.Tasks {
			bound = append(bound, tx.State().Task(k))
		}
	}
	for _, t := range bound {
		if runs[t.RunID()] != nil {
			continue
		}
		var err error
		switch t.State {
		case cluster.TaskPlaced: // the launch did not arrive; dispatch sends it
		case cluster.TaskKilling:
			err = conclude(tx, t.Key, cluster.TaskKilled, cluster.ReasonUnknownToHost, "its host manager does not know the run")
		default:
			err = conclude(tx, t.Key, cluster.TaskLost, cluster.ReasonUnknownToHost, "its host manager does not know the run")
		}
		if err != nil {
			return nil, err
		}
	}
	var answers []*sluicev1.ShardDown
	for _, run := range sortedRuns(runs) {
		st := runs[run]
		e, _ := statusFrom(st) // it was read before
		outcome, err := report(tx, e)
		switch {
		case err != nil:
			return nil, err
		case e.State.Terminal():
			answers = append(answers, releaseDown(st))
		case outcome == stale:
			answers = append(answers, killDown(st.GetRun(), staleGrace, cluster.ReasonSuperseded))
		}
	}
	return answers, nil
}

func sortedRuns(runs map[cluster.RunID]*sluicev1.RunStatus) []cluster.RunID {
	ids := make([]cluster.RunID, 0, len(runs))
	for id := range runs {
		ids = append(ids, id)
	}
	slices.SortFunc(ids, cluster.RunID.Compare)
	return ids
}
