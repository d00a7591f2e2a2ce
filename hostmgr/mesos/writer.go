package mesos

import (
	"slices"
	"time"
)

// write is something for the store, and the updates to acknowledge once it is there.
type write struct {
	run   *runRecord
	drop  string // id of a run to forget
	agent *agentRecord
	gone  string // id of an agent to forget
	then  []receipt
}

// copy returns a record that does not change any more.
func (r *runRecord) copy() *runRecord {
	c := *r
	c.Ended, c.Found = slices.Clone(r.Ended), slices.Clone(r.Found)
	return &c
}

// writeLater queues a write. Writes are done in their order.
func (d *driver) writeLater(w write) {
	d.toWrite = append(d.toWrite, w)
	select {
	case d.persist <- struct{}{}:
	default:
	}
}

// writeAgent queues what is to be remembered of an agent.
func (d *driver) writeAgent(a *agent) {
	a.recorded = true
	d.writeLater(write{agent: a.copy()})
}

// write does the writes until the driver is closed, many with one sync.
func (d *driver) write() {
	for {
		closing := false
		select {
		case <-d.persist:
		case <-d.ctx.Done():
			closing = true
		}
		for !d.writeAll() && pauseFor(d.ctx, time.Second) == nil {
			continue
		}
		if closing {
			return
		}
	}
}

// writeAll does what waits. What fails waits on, in front.
func (d *driver) writeAll() bool {
	d.mu.Lock()
	batch := d.toWrite
	d.toWrite, d.writing = nil, true
	d.mu.Unlock()
	if err := d.flushWrites(batch); err != nil {
		d.config.Log.Error("the state folder does not take what is to be kept; trying again", "error", err)
		d.mu.Lock()
		d.toWrite = append(batch, d.toWrite...)
		d.mu.Unlock()
		return false
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.writing = false
	for _, w := range batch {
		d.acknowledge(d.session, w.then...)
		if w.agent != nil && d.agents[w.agent.ID] != nil {
			d.agents[w.agent.ID].written = true
		}
	}
	return true
}

// flushWrites puts a batch into the store. Of each run and agent the last word counts. Runs come first: how those of an agent
// ended must be there before it is forgotten, or before another has its name.
func (d *driver) flushWrites(batch []write) error {
	runs, agents := map[string]*runRecord{}, map[string]*agentRecord{} // nil: dropped
	for _, w := range batch {
		switch {
		case w.run != nil:
			runs[w.run.Run.String()] = w.run
		case w.drop != "":
			runs[w.drop] = nil
		case w.agent != nil:
			agents[w.agent.ID] = w.agent
		case w.gone != "":
			agents[w.gone] = nil
		}
	}
	if err := putAll(d.folder, runPrefix, runs); err != nil {
		return err
	}
	return putAll(d.folder, agentPrefix, agents)
}
