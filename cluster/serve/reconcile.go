package serve

import (
	"context"
	"errors"
	"maps"
	"time"

	"github.com/sluice-scheduler/sluice/cluster"
	"github.com/sluice-scheduler/sluice/cluster/rules"
	sluicev1 "github.com/sluice-scheduler/sluice/proto/sluice/v1"
)

// hostReport takes in a part of a host report and applies it when it is complete, and in the beginning with the inventory: until
// that is there nothing can be launched on the hosts. What changes while a full report comes in changes that too.
func (c *control) hostReport(ctx context.Context, r *sluicev1.HostReport) error {
	hosts, removed := map[string]cluster.Machine{}, r.GetRemoved()
	for _, info := range r.GetHosts() {
		machine, err := machineFrom(info, c.can)
		if err != nil {
			c.s.log.Warn("shard reported a host that is left out", "shard", c.shard, "host", shorten(info.GetName(), maxShownValue), "error", err)
			continue
		}
		if info.GetUnreachable() {
			removed = append(removed, info.GetName())
			continue
		}
		hosts[info.GetName()] = machine
	}
	if r.GetFull() && c.hosts == nil {
		c.hosts = map[string]cluster.Machine{}
	}
	if c.hosts != nil {
		for _, name := range removed {
			delete(c.hosts, name)
		}
		maps.Copy(c.hosts, hosts)
	}
	if r.GetFull() {
		if !r.GetLast() {
			return nil
		}
		hosts, c.hosts = c.hosts, nil
	}
	apply := func(tx *Tx) error {
		if err := rules.ReportHosts(tx, c.shard, hosts, removed, r.GetFull()); err != nil {
			return err
		}
		return rules.Serve(tx, c.shard, c.folder)
	}
	if c.told() {
		return c.do(ctx, apply)
	}
	c.early = append(c.early, apply)
	return nil
}

// maxRenumbered is how often one scheduler passes by numbers because of what host managers say: a store may have been put back more
// than once, but one that makes numbers up must not use them all up.
const maxRenumbered = 4

// inventory takes in a part of the list of all runs that the shard knows, and compares it with the state when it is
// complete. Only then are commands sent.
func (c *control) inventory(ctx context.Context, inv *sluicev1.Inventory) error {
	for _, st := range inv.GetRuns() {
		e, err := statusFrom(st)
		if err != nil {
			c.s.log.Warn("shard's inventory has an entry that makes no sense", "shard", c.shard, "error", err)
			if e == nil {
				continue
			}
		}
		c.s.notePeak(c.shard, e)
		c.runs = append(c.runs, e)
	}
	if !inv.GetLast() {
		return nil
	}
	runs, early := c.runs, c.early
	c.runs, c.early = nil, nil
	var answers []rules.Answer
	err := c.do(ctx, func(tx *Tx) (err error) {
		for _, apply := range early {
			if err := apply(tx); err != nil {
				return err
			}
		}
		if err := rules.Serve(tx, c.shard, c.folder); err != nil {
			return err
		}
		for ; c.s.renumbered < maxRenumbered && rules.Outlived(tx.State(), runs); c.s.renumbered++ {
			c.s.log.Error("a host manager has runs that this store has not begun: it is that of an earlier time. "+
				"What it does not know is killed, and new jobs and runs are numbered from beyond that", "shard", c.shard)
			mode := tx.State().Mode()
			mode.Restored = true
			if err := errors.Join(tx.Emit(&cluster.NumbersForgotten{}), tx.Emit(&cluster.ModeSet{Mode: mode})); err != nil {
				return err
			}
		}
		answers, err = rules.Reconcile(tx, c.shard, runs)
		return err
	})
	if err != nil {
		return err
	}
	stray := map[cluster.RunID]bool{}
	for _, a := range answers {
		if !a.Release {
			stray[a.Run] = true
		}
	}
	c.s.shards.meet(c, stray)
	for _, a := range answers {
		message := killDown(runRef(a.Run, ""), rules.StaleGrace, nil, cluster.ReasonSuperseded)
		if a.Release {
			message = releaseDown(runRef(a.Run, ""))
		} else if c.spare() {
			continue // it comes up again when the shard connects anew
		}
		select {
		case c.commands <- message:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	if c.told() { // a shard may send its inventory again
		return nil
	}
	// The writer gives up what is not known to be sent, and may not do so while it begins to be.
	err = c.do(ctx, func(*Tx) error {
		c.s.shards.arrive(c, time.Now())
		return nil
	})
	if err == nil {
		close(c.ready)
	}
	return err
}

// told reports whether the session has told which runs its shard knows.
func (c *control) told() bool {
	select {
	case <-c.ready:
		return true
	default:
		return false
	}
}

// do runs fn in the writer unless the session has ended by then: what it said of all hosts or all runs must not undo what
// the next session says.
func (c *control) do(ctx context.Context, fn func(*Tx) error) error {
	return c.s.Do(ctx, func(tx *Tx) error {
		if err := ctx.Err(); err != nil {
			return err
		}
		return fn(tx)
	})
}
