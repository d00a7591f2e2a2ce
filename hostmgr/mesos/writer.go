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
	then  []receipt
}

// copy returns a record that does not change any more.
func (r *runRecord) copy() *runRecord {
	c := *r
	c.Ended = slices.Clone(r.Ended)
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
	batch, gone := d.toWrite, d.goneAgents
	d.toWrite, d.goneAgents, d.writing = nil, nil, true
	d.mu.Unlock()
	if err := d.flushWrites(batch, gone); err != nil {
		d.config.Log.Error("the state folder does not take what is to be kept; trying again", "error", err)
		d.mu.Lock()
		d.toWrite, d.goneAgents = append(batch, d.toWrite...), append(gone, d.goneAgents...)
		d.mu.Unlock()
		return false
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.writing = false
	for _, w := range batch {
		d.acknowledge(d.session, w.then...)
	}
	return true
}

// flushWrites puts a batch into the store. Of each run the last word counts.
func (d *driver) flushWrites(batch []write, gone []string) error {
	runs := map[string]*runRecord{} // nil: dropped
	var names, dropped []string
	note := func(name string, r *runRecord) {
		if _, there := runs[name]; !there {
			names = append(names, name)
		}
		runs[name] = r
	}
	for _, w := range batch {
		switch {
		case w.run != nil:
			note(w.run.Run.String(), w.run)
		case w.drop != "":
			note(w.drop, nil)
		case w.agent != nil:
			if err := d.store.putAgent(*w.agent); err != nil {
				return err
			}
		}
	}
	var put []*runRecord
	for _, name := range names {
		if r := runs[name]; r != nil {
			put = append(put, r)
		} else {
			dropped = append(dropped, name)
		}
	}
	if len(put) > 0 {
		if err := d.store.putRuns(put); err != nil {
			return err
		}
	}
	if len(dropped) > 0 {
		if err := d.store.dropRuns(dropped); err != nil {
			return err
		}
	}
	if len(gone) > 0 {
		return d.store.dropAgents(gone)
	}
	return nil
}
