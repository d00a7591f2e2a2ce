package rules

import (
	"fmt"

	"github.com/sluice-scheduler/sluice/cluster"
)

// resolve lets the job run if it waits for others and need not any more, or ends it if it would wait for ever, and does the
// same with those that wait for it.
func resolve(tx *Tx, j *cluster.Job) error {
	if err := judge(tx, j); err != nil || !j.State().Terminal() {
		return err
	}
	for _, uid := range tx.State().WaitingFor(j.Spec.Name) {
		if err := judge(tx, tx.State().Job(uid)); err != nil {
			return err
		}
	}
	return nil
}

func judge(tx *Tx, j *cluster.Job) error {
	if !j.Waiting {
		return nil
	}
	for _, d := range j.Spec.DependsOn {
		on := tx.State().JobByName(d.Job)
		holds, never := d.Judge(on)
		switch {
		case never:
			how := "is gone"
			if on != nil {
				how = "has " + on.State().String()
			}
			return tx.Emit(&cluster.JobStopping{
				Job: j.UID, Reason: cluster.ReasonNeverReleased,
				Message: fmt.Sprintf("it waited for job %s to have %v, which %s", d.Job, d.On, how),
			})
		case !holds:
			return nil
		}
	}
	return tx.Emit(&cluster.JobReleased{Job: j.UID})
}

// Dependents returns the jobs that depend on the job, also by way of others, in the order of submission. Complexity: jobs and
// their dependencies.
func Dependents(in *cluster.State, of *cluster.Job) (all []*cluster.Job) {
	reached := map[cluster.JobID]*cluster.Job{of.Spec.Name: of}
	for grown := true; grown; {
		grown = false
		for j := range in.Jobs(0) {
			if reached[j.Spec.Name] == nil && dependsOn(j, reached) {
				reached[j.Spec.Name] = j
				grown = true
			}
		}
	}
	for j := range in.Jobs(0) {
		if reached[j.Spec.Name] == j && j != of {
			all = append(all, j)
		}
	}
	return all
}

// dependsOn reports whether the job depends on one of these. A job that came after it only has the name of one that it once
// waited for.
func dependsOn(j *cluster.Job, on map[cluster.JobID]*cluster.Job) bool {
	for _, d := range j.Spec.DependsOn {
		if other := on[d.Job]; other != nil && (other.UID < j.UID || other.Submitted == j.Submitted) {
			return true
		}
	}
	return false
}
