package cluster

import "fmt"

// Over-subscription. Tasks ask for more than they use most of the time. What those on a host were allocated and, as
// measured, leave unused is the host's slack, which revocable tasks may have. They are no part of what is allocated, save
// for what they hold beyond the slack: when others begin to use what is theirs, the revocable ones are on room that is
// free, and leave if there is none.
//
//	capacity ├── allocated: used ──┼── slack ──┤── free ──┤
//	                               ├─ lent ────┤              revocable tasks within the slack
//	                               ├─ lent ────┼─ excess ┤    the slack has shrunk: free is that much less

// Lendable returns what revocable tasks may have of the host together: the slack, and what the host has for them alone.
func (h *Host) Lendable() Resources {
	if h.Revocable.IsZero() {
		return h.Slack
	}
	return h.Slack.Add(h.Revocable)
}

// Excess returns what revocable tasks hold beyond what is lendable: others cannot have it before they leave.
func (h *Host) Excess() Resources { return h.Lent.Sub(h.Lendable()).Positive() }

// Spare returns what one more revocable task may take: what is lendable and not lent. Never negative.
func (h *Host) Spare() Resources { return h.Lendable().Sub(h.Lent).Positive() }

// Lending returns the host as revocable tasks see it: what is free is what is spare, and nothing is kept from them.
func (h *Host) Lending() *Host {
	out := *h
	if !h.Revocable.IsZero() {
		machine := *h.Machine
		machine.Revocable = Resources{}
		out.Machine = &machine
	}
	out.Allocated, out.Lent, out.Slack = h.Capacity.Sub(h.Spare()), Resources{}, Resources{}
	out.Withheld, out.GPUWithheld = Resources{}, nil
	return &out
}

// Lend returns the host with one more revocable task of this size on it. The list of tasks is left as it is.
func (s *TaskSpec) Lend(h *Host, on Devices) *Host {
	lent := *h
	lent.Lent = h.Lent.Add(s.Resources)
	lent.PortsTaken = allocatePorts(h.PortsTaken, on.Ports, false)
	return &lent
}

// measureSlack takes in what the tasks of a host were measured to leave unused.
func (s *State) measureSlack(e *SlackMeasured) error {
	if !e.Slack.Positive().Equal(e.Slack) {
		return fmt.Errorf("the slack of host %q is negative: %v", e.Host, e.Slack)
	}
	return s.changeHost(e.Host, func(h *Host) {
		h.Slack = e.Slack
		s.withhold(h)
	})
}

// allocate adds what a task takes to what the host has given away, or with back takes it from there. With a task that is
// not revocable the slack that it may have had goes, and comes back when the others are measured next.
func (h *Host) allocate(spec *TaskSpec, revocable, back bool) {
	switch {
	case revocable && back:
		h.Lent = h.Lent.Sub(spec.Resources)
	case revocable:
		h.Lent = h.Lent.Add(spec.Resources)
	case back:
		h.Allocated = h.Allocated.Sub(spec.Resources)
		if !h.Slack.IsZero() {
			h.Slack = h.Slack.Sub(spec.Resources).Positive()
		}
	default:
		h.Allocated = h.Allocated.Add(spec.Resources)
	}
}

// revocable reports whether the task runs on slack.
func (s *State) revocable(k TaskKey) bool { return s.Job(k.Job()).Spec.Revocable }

// Lending returns how many jobs with revocable tasks have not ended: as long as there are none, nobody asks for slack.
func (t *tables) Lending() int { return t.lending }

// lends is what a job counts for in Lending.
func lends(j *Job) int {
	if j == nil || !j.Spec.Revocable || j.State().Terminal() {
		return 0
	}
	return 1
}
