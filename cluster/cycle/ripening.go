package cycle

import (
	"container/heap"

	"github.com/sluice-scheduler/sluice/cluster"
)

// ripe says when a preference of a waiting task gives way, and the task goes on to another class.
type ripe struct {
	at   cluster.Time
	task cluster.TaskKey
}

// ripening is a heap, the earliest first. A task may be in it that waits no more.
type ripening []ripe

func (q ripening) Len() int { return len(q) }
func (q ripening) Less(i, j int) bool {
	return q[i].at < q[j].at || q[i].at == q[j].at && q[i].task < q[j].task
}
func (q ripening) Swap(i, j int) { q[i], q[j] = q[j], q[i] }

// Push implements heap.Interface.
func (q *ripening) Push(x any) { *q = append(*q, x.(ripe)) }

// Pop implements heap.Interface.
func (q *ripening) Pop() any {
	last := (*q)[len(*q)-1]
	*q = (*q)[:len(*q)-1]
	return last
}

func (q *ripening) push(r ripe) { heap.Push(q, r) }

// next returns when the first one is due, 0 for never.
func (q ripening) next() cluster.Time {
	if len(q) == 0 {
		return 0
	}
	return q[0].at
}

// ripen has the waiting tasks change class of which a preference gives way by now, and lets those start that room is held for.
func (p *Planner) ripen(snap *cluster.Snapshot) {
	for at := p.ripening.next(); at != 0 && at <= p.now; at = p.ripening.next() {
		k := heap.Pop(&p.ripening).(ripe).task
		if was, waits := p.waiting[k]; waits {
			p.ingestWaiting(snap, snap.Job(k.Job()), k, snap.Task(k), was, true)
		} else if u := p.held[k]; u != nil && u.state == cluster.TaskReserved {
			u.kind = p.kindFor(snap, snap.Job(k.Job()), snap.Task(k), u.spec)
		}
	}
}
