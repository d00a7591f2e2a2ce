package serve

import (
	"fmt"

	"google.golang.org/grpc/codes"

	"github.com/sluice-scheduler/sluice/cluster"
)

// waitWord counts jobs that wait in a pool.
func waitWord(n uint32, of string) string {
	if n == 1 {
		return "1 job" + of + " waits in it"
	}
	return fmt.Sprintf("%d jobs%s wait in it", n, of)
}

// checkPending refuses jobs that would exceed what may wait in their pools. A job waits until its first task is placed.
// Complexity: the jobs that wait, once, if one of the pools has such a limit, and the fresh ones; times the depth of the tree.
func checkPending(in *cluster.State, fresh []cluster.NewJob) error {
	waiting := countWaiting(in, fresh)
	for _, n := range fresh {
		for p := n.Spec.Pool; p != ""; p = p.Parent() {
			w := waiting[p]
			if w == nil {
				continue
			}
			refuse := func(limit *uint32, waiting uint32, of string) error {
				if limit == nil || waiting < *limit {
					return nil
				}
				return resourceError(codes.ResourceExhausted, "pool", string(p), "%s, and no more may: submit job %s later",
					waitWord(waiting, of), quote(string(n.Spec.Name)))
			}
			l := &in.Pool(p).Limits
			if err := refuse(l.PendingJobs, w.all, ""); err != nil {
				return err
			}
			if err := refuse(l.PendingJobsPerUser, w.users[n.Spec.Owner], " of "+quote(n.Spec.Owner)); err != nil {
				return err
			}
			for _, g := range n.Spec.Groups {
				if err := refuse(l.PendingJobsPerGroup, w.groups[g], " of group "+quote(g)); err != nil {
					return err
				}
			}
		}
		waiting.add(n.Spec)
	}
	return nil
}

// waitingJobs counts jobs without a placed task, of a pool and those below it.
type waitingJobs struct {
	all           uint32
	users, groups map[string]uint32
}

// waitingTable has the pools that limit what waits.
type waitingTable map[cluster.PoolPath]*waitingJobs

// countWaiting counts what waits in the pools, of those that the fresh jobs are to go to and those above, that limit it.
func countWaiting(in *cluster.State, fresh []cluster.NewJob) waitingTable {
	table := waitingTable{}
	for _, n := range fresh {
		for p := n.Spec.Pool; p != ""; p = p.Parent() {
			if table[p] == nil && in.Pool(p).Limits.BoundsPending() {
				table[p] = &waitingJobs{users: map[string]uint32{}, groups: map[string]uint32{}}
			}
		}
	}
	if len(table) == 0 {
		return table
	}
	for j := range in.Unstarted() {
		table.add(j.Spec)
	}
	return table
}

// add counts a job that waits.
func (table waitingTable) add(spec *cluster.JobSpec) {
	for p := spec.Pool; p != ""; p = p.Parent() {
		w := table[p]
		if w == nil {
			continue
		}
		w.all++
		w.users[spec.Owner]++
		for _, g := range spec.Groups {
			w.groups[g]++
		}
	}
}
