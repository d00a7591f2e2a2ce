package check

import (
	"maps"
	"slices"

	"github.com/sluice-scheduler/sluice/cluster"
)

func (c *Checker) measure(e *cluster.SlackMeasured) {
	c.withHost(e.Host, func(h *host) {
		h.slack = e.Slack.Fixed
		for d, v := range h.slack {
			if v < 0 || v > h.used[d] {
				c.report(Slack, "%d of %v are said to be left unused on %q, whose tasks hold %d", v, cluster.Dimension(d), h.id, h.used[d])
			}
		}
	})
}

// lendable is what revocable tasks may have together.
func (h *host) lendable(d int) int64 { return h.slack[d] + h.machine.Revocable.Fixed[d] }

// excess is what revocable tasks hold beyond that. Nobody else can have it before they are gone.
func (h *host) excess(d int) int64 { return max(0, h.lent[d]-h.lendable(d)) }

// freed is what of that will be free when those are gone who were told to end.
func (h *host) freed(d int) int64 {
	return h.excess(d) - max(0, h.lent[d]-h.recalled[d]-h.lendable(d))
}

// leaves notes that a task was told to end, with sign −1 that it is gone.
func (h *host) leaves(job *cluster.JobSpec, k cluster.TaskKey, t *task, sign int64) {
	s := job.TaskOf(k.Instance())
	if !job.Revocable {
		h.going.add(s, t.devices, t.ports, sign)
		return
	}
	for d, v := range s.Resources.Fixed {
		h.recalled[d] += sign * v
	}
}

// judgeLoan checks that a revocable task starts on slack.
func (c *Checker) judgeLoan(task *cluster.TaskSpec, h *host, e *cluster.Placed) {
	for d, v := range task.Resources.Fixed {
		if v > 0 && h.lent[d]+v > h.lendable(d) {
			c.report(Slack, "task %v is placed on %q, where others leave %d of %v unused, revocable tasks have %d and it wants %d",
				e.Task, h.id, h.slack[d], cluster.Dimension(d), h.lent[d], v)
		}
	}
}

// loans checks that revocable tasks are told to end where others use what they have. Complexity: hosts, if there are any.
func (c *Checker) loans() {
	if c.borrowers == 0 || c.mode.KillingStopped {
		return
	}
	for _, id := range slices.Sorted(maps.Keys(c.hosts)) {
		h := c.hosts[id]
		for d := range h.lent {
			held := h.lent[d] - h.recalled[d] - h.lendable(d)
			if held > 0 && h.used[d]+held > h.machine.Capacity.Fixed[d] {
				c.report(Slack, "revocable tasks stay on %q, where they and others use %d of %v and the machine has %d",
					id, h.used[d]+held, cluster.Dimension(d), h.machine.Capacity.Fixed[d])
			}
		}
	}
}

// borrows is what a bound task of the job counts for among the revocable ones.
func borrows(s *cluster.JobSpec) int {
	if s.Revocable {
		return 1
	}
	return 0
}
