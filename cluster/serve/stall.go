package serve

import (
	"time"

	"github.com/sluice-scheduler/sluice/cluster"
)

// ReasonStalled is the reason, in a google.rpc.ErrorInfo of the domain "sluice", of calls that a scheduler refused because its journal waits
// for a disk, its own or those of other members.
const ReasonStalled = "STALLED"

// stallAfter is how long the journal may take to make something durable before it is said.
const stallAfter = 5 * time.Second

// append makes records durable. If that takes longer than stallAfter, stalls is told, and told again when they are; the writer counts as
// stalled between.
func (w *writer) append(records []cluster.Record) error {
	told := make(chan struct{})
	timer := time.AfterFunc(stallAfter, func() {
		defer close(told)
		w.stalled.Store(true)
		w.stalls(true)
	})
	err := w.log.Append(records)
	if !timer.Stop() {
		<-told
		w.stalled.Store(false)
		if err == nil {
			w.stalls(false)
		}
	}
	return err
}

// tellStall tells the operator that nothing becomes durable, and when it does again.
func (s *Scheduler) tellStall(begins bool) {
	if begins {
		s.log.Error("what was changed last does not become durable, as with a disk that hangs: nothing is acknowledged or begun until it does", "waits_longer_than", stallAfter)
		return
	}
	s.log.Info("what was changed last has become durable")
}

// errStalled refuses to wait behind a change that waits for the disk: by the time that it is done nobody may want this one any more.
var errStalled = unavailable(ReasonStalled, "the scheduler waits for a disk that does not answer: nothing can be changed until it does", nil)
