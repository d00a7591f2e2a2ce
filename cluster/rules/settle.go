package rules

import (
	"errors"
	"fmt"
	"slices"

	"github.com/sluice-scheduler/sluice/cluster"
)

// Settle does what follows from what changed since the last snapshot, and from what it does itself, until nothing more
// follows: it is called once after the commands that become durable together, so that what they bring about becomes durable
// with them. It looks at how things stand and not at what happened, so that doing it again does nothing. A job that cannot
// be settled does not keep the others from it. Complexity: the jobs that changed, and those that wait for them.
func Settle(tx *Tx) (wrong error) {
	for seen := 0; seen < len(tx.state.Changed().Jobs); {
		jobs := slices.Clone(tx.state.Changed().Jobs[seen:])
		seen += len(jobs)
		slices.Sort(jobs)
		for _, uid := range slices.Compact(jobs) {
			if err := settleJob(tx, uid); err != nil {
				wrong = errors.Join(wrong, fmt.Errorf("rules: settling job %d: %w", uid, err))
			}
		}
	}
	return wrong
}

// settleJob brings a job, and those that wait for it, nearer to their goals.
func settleJob(tx *Tx, uid cluster.JobUID) error {
	for _, step := range [...]func(*Tx, *cluster.Job) error{endWithController, resolve} {
		j := tx.State().Job(uid)
		if j == nil {
			return nil
		}
		if err := step(tx, j); err != nil {
			return err
		}
	}
	return nil
}

// endWithController stops what is left of a job whose controller has ended for good.
func endWithController(tx *Tx, j *cluster.Job) error {
	if !j.Spec.Controller || !j.Head.Terminal() || j.Stopping || j.State().Terminal() {
		return nil
	}
	return tx.Emit(&cluster.JobStopping{Job: j.UID, Reason: cluster.ReasonController, Message: fmt.Sprintf("its controller has %v", j.Head)})
}
