package cluster

import (
	"fmt"
	"math"
	"slices"
)

// Hold is room on a host that is kept for a task before it can start there: because those who leave for it are not gone
// yet, or because nothing else lets it start at all. A waiting task with a hold is RESERVED.
type Hold struct {
	Host HostID
	GPUs []uint16 `cbor:",omitempty"` // devices, as the task's request needs them
	// Ports are those that the run is to get, in the order of the request; empty where it takes what it finds.
	Ports []uint16 `cbor:",omitempty"`
	// Until is when the hold ends by itself, so that no room is kept in vain; Forever for a task that runs on no other host.
	Until Time
}

// Forever is later than any time.
const Forever Time = math.MaxInt64

// Preemption says for what a task was asked to leave, and what that was thought to cost. The amounts are prices in
// milliseconds of expected delay.
type Preemption struct {
	At      Time
	For     TaskKey  // zero where the task moves for its own good
	ForPool PoolPath `cbor:",omitempty"`
	Price   int64    // of leaving: the work that is lost
	Next    int64    `cbor:",omitempty"` // of the best other choice, with the start there; 0 if there was none
	// NextHost is where that would have been.
	NextHost HostID `cbor:",omitempty"`
	// Further are the next best after that, cheapest first.
	Further []OtherRoom `cbor:",omitempty"`
}

// OtherRoom is a host where room could have been made, and at what price.
type OtherRoom struct {
	Host  HostID
	Price int64
}

// Vacating reports whether a task in this state has been asked to leave its host and still holds room there.
func (s TaskState) Vacating() bool { return s == TaskPreempting || s == TaskKilling }

// Room returns what is free for tasks that have no hold on the host: Free without what is withheld. It never counts on
// room that is still being vacated.
func (h *Host) Room() Resources {
	if h.Withheld.IsZero() {
		return h.Free()
	}
	return h.Free().Sub(h.Withheld)
}

// GPURoom returns the thousandths of each device that are free for tasks that have no hold on the host. The caller must
// not modify it.
func (h *Host) GPURoom() []int32 {
	if len(h.GPUWithheld) == 0 {
		return h.GPUFree
	}
	room := slices.Clone(h.GPUFree)
	for i := range room {
		room[i] -= h.GPUWithheld[i]
	}
	return room
}

// roomWith returns the same for a task for which these devices are kept: of them it may have all that is free.
func (h *Host) roomWith(held []uint16) []int32 {
	room := slices.Clone(h.GPURoom())
	for _, i := range held {
		if int(i) < len(room) { // else the device is gone
			room[i] = h.GPUFree[i]
		}
	}
	return room
}

// endHold takes a task's hold away, whatever state it is in.
func (s *State) endHold(at Time, k TaskKey) {
	old := s.Task(k)
	t, j := *old, *s.Job(k.Job())
	t.Hold = nil
	if t.State == TaskReserved {
		t.State, t.Reason = TaskPending, ReasonHoldEnded
	}
	s.setTask(at, old, &t, &j)
	s.setJob(at, &j)
}

// setHold moves a task's hold from one host to another; either may be nil. With the same host it counts it anew.
func (s *State) setHold(k TaskKey, from, to *Hold) {
	change := func(hold *Hold, held bool) {
		if hold == nil {
			return
		}
		old := s.Host(hold.Host)
		if old == nil {
			return // a host that is gone holds nothing
		}
		h := *old
		h.Held = withMember(h.Held, k, held)
		s.withhold(&h)
		s.setHost(&h)
	}
	change(from, false)
	change(to, true)
}

// withhold recounts what the host keeps from others: what its holds ask for beyond what is being vacated, since that is
// not free yet anyway. Complexity: the tasks of the host, if it has holds.
func (s *State) withhold(h *Host) {
	h.Withheld, h.GPUWithheld, h.PortsWithheld = Resources{}, nil, nil
	if len(h.Held) == 0 {
		return
	}
	devices := make([]int32, len(h.GPUs))
	count := func(k TaskKey, gpus []uint16, sign int32) {
		spec := s.spec(k)
		if sign > 0 {
			h.Withheld = h.Withheld.Add(spec.Resources)
		} else {
			h.Withheld = h.Withheld.Sub(spec.Resources)
		}
		for _, i := range gpus {
			if int(i) < len(devices) {
				devices[i] += sign * spec.GPU.Takes()
			}
		}
	}
	for _, k := range h.Held {
		if t := s.Task(k); t.Hold != nil {
			count(k, t.Hold.GPUs, 1)
			h.PortsWithheld = allocatePorts(h.PortsWithheld, t.Hold.Ports, false)
		}
	}
	after := *h // when those who leave are gone
	for _, k := range h.Tasks {
		switch t := s.Task(k); {
		case !t.State.Vacating():
		case s.revocable(k):
			after.Lent = after.Lent.Sub(s.spec(k).Resources)
		default:
			count(k, t.GPUs, -1)
		}
	}
	h.Withheld = h.Withheld.Sub(h.Excess().Sub(after.Excess())).Positive()
	for i := range devices {
		devices[i] = max(0, devices[i])
	}
	if slices.Max(append(devices, 0)) > 0 {
		h.GPUWithheld = devices
	}
}

// checkHold refuses a hold that the host could not honour even if it were empty.
func (s *State) checkHold(k TaskKey, hold *Hold) error {
	h := s.Host(hold.Host)
	if h == nil || h.State() != HostUp {
		return fmt.Errorf("host %q takes no work", hold.Host)
	}
	spec := s.spec(k)
	empty := Host{Machine: h.Machine}
	switch {
	case s.revocable(k):
		return fmt.Errorf("task %v is revocable: nothing is kept for it", k)
	case !spec.Resources.Fits(h.Capacity):
		return fmt.Errorf("task %v could not fit on host %q", k, hold.Host)
	case !spec.GPU.valid(h.GPUs, slices.Repeat([]int32{WholeGPU}, len(h.GPUs)), hold.GPUs):
		return fmt.Errorf("task %v could not have the devices %v of host %q", k, hold.GPUs, hold.Host)
	case len(hold.Ports) > 0 && !spec.Ports.valid(&empty, hold.Ports):
		return fmt.Errorf("task %v could not have the ports %v of host %q", k, hold.Ports, hold.Host)
	}
	return checkNeeds(s.Task(k), s.Job(k.Job()), h)
}

func (s *State) reserveTask(at Time, e *TaskHeld) error {
	return s.changeTask(at, e.Task, func(t *Task, _ *Job) error {
		switch {
		case t.State != TaskPending: // who has ended may come to wait for room in other ways
			return fmt.Errorf("task %v is %v and does not wait for room", t.Key, t.State)
		case t.NotBefore != 0 && t.Home == "":
			return fmt.Errorf("task %v backs off", t.Key)
		case t.Home != "" && t.Home != e.Hold.Host:
			return errHome(t)
		}
		if err := s.checkHold(t.Key, &e.Hold); err != nil {
			return err
		}
		hold := e.Hold
		t.State, t.Hold, t.Reason = TaskReserved, &hold, ReasonNone
		return nil
	})
}

func (s *State) preemptTask(at Time, e *TaskPreempted) error {
	return s.changeTask(at, e.Task, func(t *Task, _ *Job) error {
		if e.Run != t.Run {
			return errRun(t, e.Run)
		}
		if t.State.Vacating() {
			return fmt.Errorf("task %v leaves already", t.Key)
		}
		if e.Hold != nil {
			if err := s.checkHold(t.Key, e.Hold); err != nil {
				return err
			}
		}
		p := e.Preemption
		p.At = at
		t.State, t.Preempted, t.Hold, t.Reason = TaskPreempting, &p, e.Hold, ReasonPreempted
		return nil
	})
}
