//go:build linux

package local

import (
	"context"
	"fmt"
	"time"

	"github.com/sluice-scheduler/sluice/cluster"
	"github.com/sluice-scheduler/sluice/hostmgr"
)

// Kill implements [hostmgr.Driver]. The wish is recorded in the folder of the run, where its supervisor finds it
// whenever it looks; the supervisor keeps the time, so that the grace does not depend on the driver's life.
func (d *driver) Kill(_ context.Context, id cluster.RunID, grace time.Duration) error {
	return d.kill(id, killRecord{Grace: grace})
}

// KillAfter implements [hostmgr.Warner].
func (d *driver) KillAfter(_ context.Context, id cluster.RunID, grace time.Duration, command []string, reason string) error {
	return d.kill(id, killRecord{grace, command, reason})
}

func (d *driver) kill(id cluster.RunID, wish killRecord) error {
	if d.ctx.Err() != nil {
		return errClosed
	}
	r := d.known(id)
	if r == nil {
		return fmt.Errorf("%w: %v", hostmgr.ErrUnknownRun, id)
	}
	r.killing.Lock()
	defer r.killing.Unlock()
	select {
	case <-r.ended:
		return nil
	default:
	}
	kill, err := readRecord[killRecord](r.dir, killFile)
	again := err == nil && kill != nil
	if wish.Grace = max(wish.Grace, 0); !d.gone(r) && (!again || wish.adds(kill)) {
		if again {
			wish.Grace = min(wish.Grace, kill.Grace)
		}
		err := writeRecord(r.dir, killFile, wish, unsynced)
		if again && trouble(err) != 0 { // the record of before has the room that was kept
			err = overwriteRecord(r.dir, killFile, wish)
		}
		if err != nil {
			return fmt.Errorf("local: record the kill of run %v: %w", id, err)
		}
	}
	crashPoint(r.dir, "driver after kill record")
	r.want() // to end without having begun
	d.mu.Lock()
	r.killed = true
	p := r.supervisor
	d.mu.Unlock()
	if p != nil {
		d.tell(r, p)
	}
	return nil
}

// tell lets the supervisor of a run that is killed look at the record. Where the folder is gone, so is the record, and the supervisor
// is ended.
func (d *driver) tell(r *run, p *supervised) {
	if d.gone(r) {
		p.kill()
	} else {
		p.wake()
	}
}

// adds reports whether a wish says more than the one before: the run is to end sooner, or without waiting for the command.
func (wish *killRecord) adds(before *killRecord) bool {
	return wish.Grace < before.Grace || len(wish.Command) == 0 && len(before.Command) > 0
}
