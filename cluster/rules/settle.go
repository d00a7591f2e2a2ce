package rules

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/sluice-scheduler/sluice/cluster"
)

// Settle does what follows from what changed since the last snapshot, and from what it does itself, until nothing more
// follows: it is called once after the commands that become durable together, so that what they bring about becomes durable
// with them. It looks at how things stand and not at what happened, so that doing it again does nothing. A job that cannot
// be settled does not keep the others from it. Complexity: the jobs that changed and those that wait for them, the tasks that
// changed, and the hosts that changed times the daemons.
func Settle(tx *Tx) (wrong error) {
	fail := func(err error) {
		if err != nil {
			wrong = errors.Join(wrong, fmt.Errorf("rules: settling: %w", err))
		}
	}
	fail(coverNew(tx))
	switch {
	case tx.killsAgain():
		fail(resume(tx))
	case len(tx.state.Changed().Pools) > 0: // whose hosts may be others
		fail(goOn(tx))
	}
	if len(tx.state.Changed().Pools) > 0 {
		fail(holdHomes(tx))
	}
	for jobs, hosts, tasks := 0, 0, 0; ; {
		changed := tx.state.Changed()
		touched := distinct(changed.Jobs[jobs:])
		places, runs := distinct(changed.Hosts[hosts:]), distinct(changed.Tasks[tasks:])
		if len(touched)+len(places)+len(runs) == 0 {
			return wrong
		}
		jobs, hosts, tasks = len(changed.Jobs), len(changed.Hosts), len(changed.Tasks)
		for _, uid := range touched {
			fail(settleJob(tx, uid))
		}
		fail(settleHosts(tx, places))
		fail(evacuate(tx))
		for _, k := range runs {
			fail(holdHome(tx, k))
			fail(settleCopy(tx, k))
		}
	}
}

// resume goes on with what stood still while nothing was killed: updates, and hosts that are to be cleared, or have nothing but
// daemons left to stop. Nothing about them has changed. Complexity: the jobs and the hosts.
func resume(tx *Tx) error {
	wrong := goOn(tx)
	var draining []cluster.HostID
	for h := range tx.State().Hosts("") {
		if h.Draining {
			draining = append(draining, h.ID)
		}
	}
	for _, id := range draining {
		wrong = errors.Join(wrong, lastOff(tx, id))
	}
	return errors.Join(wrong, evacuate(tx))
}

// goOn goes on with updates, and catches up with them. Complexity: the jobs.
func goOn(tx *Tx) error {
	var updating []cluster.JobUID
	for j := range tx.State().Jobs(0) {
		if j.Update.Live() || j.Surge > 0 || len(tx.State().Later(j.UID)) > 0 {
			updating = append(updating, j.UID)
		}
	}
	var wrong error
	for _, uid := range updating {
		wrong = errors.Join(wrong, advanceUpdate(tx, tx.State().Job(uid)), catchUp(tx, tx.State().Job(uid)))
	}
	return wrong
}

// distinct returns the different keys, in order.
func distinct[K cmp.Ordered](keys []K) []K {
	keys = slices.Clone(keys)
	slices.Sort(keys)
	return slices.Compact(keys)
}

// coverNew brings daemons to all hosts that were submitted or changed since the last snapshot, or whose pool may have: nothing
// about the hosts has changed. Complexity: those daemons × hosts.
func coverNew(tx *Tx) error {
	var daemons []cluster.JobUID
	for _, uid := range distinct(tx.state.Changed().Jobs) {
		if j := tx.State().Job(uid); j != nil && j.Spec.Type == cluster.Daemon && tx.specChanged(uid) {
			daemons = append(daemons, uid)
		}
	}
	if len(tx.state.Changed().Pools) > 0 {
		daemons = distinct(append(daemons, tx.State().Daemons()...))
	}
	return coverAll(tx, daemons)
}

// coverAll brings daemons to all hosts. Complexity: those daemons × hosts.
func coverAll(tx *Tx, daemons []cluster.JobUID) error {
	if len(daemons) == 0 {
		return nil
	}
	var hosts []cluster.HostID
	for h := range tx.State().Hosts("") {
		hosts = append(hosts, h.ID)
	}
	for _, uid := range daemons {
		if err := cover(tx, tx.State().Job(uid), hosts); err != nil {
			return err
		}
	}
	return nil
}

// settleJob brings a job, and those that wait for it, nearer to their goals. What its update runs once more has not ended.
func settleJob(tx *Tx, uid cluster.JobUID) error {
	for _, step := range [...]func(*Tx, *cluster.Job) error{advanceUpdate, catchUp, endWithController, resolve} {
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
