package mesostest

import (
	"time"

	"github.com/mesos/mesos-go/api/v1/lib/scheduler"
)

// Faults is what goes wrong from now on. Counts go down as it happens.
type Faults struct {
	RefuseCalls    int  // answered 503, SUBSCRIBE too
	LoseCalls      int  // the connection breaks and the call is not carried out
	LoseAnswers    int  // the connection breaks and the call is carried out
	RescindAccepts int  // the offers of an ACCEPT are rescinded just before it arrives
	Duplicate      int  // updates that are sent twice
	HoldBack       int  // updates that are sent after the next event of their framework, or after a second
	Accepting      bool // RefuseCalls, LoseCalls and LoseAnswers hold for ACCEPT only

	// Slow is a wait before each half of a record, in streams that begin from now on.
	Slow time.Duration
	// SlowCalls is a wait before each call beside SUBSCRIBE.
	SlowCalls time.Duration
}

// faultState is the faults that are left.
type faultState struct {
	Faults
	slow time.Duration
	held map[*framework]*heldEvent
}

type heldEvent struct {
	event *scheduler.Event
	timer timer
}

// SetFaults makes things go wrong, in place of what was set before.
func (c *Cluster) SetFaults(f Faults) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.faults.Faults = f
	c.faults.slow = f.Slow
}

// BreakStreams breaks all subscriptions off; with torn in the middle of their next record.
func (c *Cluster) BreakStreams(torn bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.m == nil {
		return
	}
	for _, f := range c.m.frameworks {
		switch {
		case f.stream == nil:
		case torn:
			f.stream.torn = true
		default:
			f.stream.breakOff()
		}
	}
}

// RescindOffers takes all offers back, and offers again with the next round.
func (c *Cluster) RescindOffers() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.m != nil {
		c.m.takeOffersBack(func(*offer) bool { return true }, true)
	}
}

// fate is what becomes of a call.
type fate uint8

const (
	fine fate = iota
	refused
	lost
	answerLost
)

// take decides over a call.
func (s *faultState) take(call *scheduler.Call) fate {
	if s.Accepting && call.Type != scheduler.Call_ACCEPT {
		return fine
	}
	switch {
	case s.RefuseCalls > 0:
		s.RefuseCalls--
		return refused
	case call.Type == scheduler.Call_SUBSCRIBE:
		return fine
	case s.LoseCalls > 0:
		s.LoseCalls--
		return lost
	case s.LoseAnswers > 0:
		s.LoseAnswers--
		return answerLost
	}
	return fine
}

func (s *faultState) rescindOne() bool {
	if s.RescindAccepts > 0 {
		s.RescindAccepts--
		return true
	}
	return false
}

// pass sends an update, or does something worse with it.
func (s *faultState) pass(f *framework, e *scheduler.Event) {
	if s.HoldBack > 0 && s.held[f] == nil {
		s.HoldBack--
		if s.held == nil {
			s.held = make(map[*framework]*heldEvent)
		}
		h := &heldEvent{event: e}
		s.held[f] = h
		f.m.c.after(&h.timer, time.Second, func() { s.release(f) })
		return
	}
	f.send(e)
	if s.Duplicate > 0 {
		s.Duplicate--
		f.send(e)
	}
	s.release(f)
}

// release sends what was held back.
func (s *faultState) release(f *framework) {
	if h := s.held[f]; h != nil {
		h.timer.cancel()
		delete(s.held, f)
		f.send(h.event)
	}
}

// Outstanding is an offer that is out.
type Outstanding struct {
	ID, Hostname string
	Since        time.Time
}

// Offers lists the offers that are out, in the order in which they were made.
func (c *Cluster) Offers() []Outstanding {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.m == nil {
		return nil
	}
	var out []Outstanding
	for _, o := range c.m.sorted(func(*offer) bool { return true }) {
		out = append(out, Outstanding{o.id, o.a.spec.Hostname, o.since})
	}
	return out
}

// Subscribers counts the frameworks that have a stream.
func (c *Cluster) Subscribers() (n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.m != nil {
		for _, f := range c.m.frameworks {
			if f.stream != nil {
				n++
			}
		}
	}
	return n
}

// Cores sums up, over the agents that are there, the cores that tasks use, those that are offered, and all.
func (c *Cluster) Cores() (used, offered, total float64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.m == nil {
		return 0, 0, 0
	}
	var taken, out, all int64
	for _, a := range c.agents {
		if a.registered {
			taken += a.total.scalar("cpus") - a.free.scalar("cpus")
			all += a.total.scalar("cpus")
		}
	}
	for _, o := range c.m.offers {
		out += o.has.scalar("cpus")
	}
	return float64(taken-out) / 1000, float64(out) / 1000, float64(all) / 1000
}
