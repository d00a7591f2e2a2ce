package mesos

import (
	"context"
	"errors"
	"hash/fnv"
	"slices"
	"sync"
	"time"

	"github.com/mesos/mesos-go/api/v1/lib/scheduler"
)

// callLanes is how many calls are made side by side. Calls of one lane are made in order; what concerns one agent has one
// lane, so that a KILL never overtakes the ACCEPT that it is for.
const callLanes = 8

// callRetries is how often a call that may be repeated is tried again when it failed on the way.
const callRetries = 3

// lastWords is how long a stream that is over according to the answer to a call may take to say so itself. It knows why:
// another driver may have taken the framework over, which must not be taken back.
const lastWords = 2 * time.Second

// errNeverSent: the subscription ended before the call was made.
var errNeverSent = errors.New("mesos: the subscription ended before the call")

// pending is a call that waits. done, which may be nil, learns how it went; it is called without locks.
type pending struct {
	call *scheduler.Call
	done func(error)
}

// lane is a queue of calls. It is bounded by what exists: offers, and updates that await their acknowledgement.
type lane struct {
	mu     sync.Mutex
	queue  []pending
	making bool // a call that was in the queue
	closed bool
	wake   chan struct{}
}

func newLane() *lane { return &lane{wake: make(chan struct{}, 1)} }

func (l *lane) add(p pending) {
	l.mu.Lock()
	closed := l.closed
	if !closed {
		l.queue = append(l.queue, p)
	}
	l.mu.Unlock()
	if closed {
		if p.done != nil {
			go p.done(errNeverSent) // the caller may hold locks
		}
		return
	}
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

func (l *lane) take() (pending, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.making = len(l.queue) > 0
	if !l.making {
		l.queue = nil
		return pending{}, false
	}
	p := l.queue[0]
	l.queue[0] = pending{}
	l.queue = l.queue[1:]
	return p, true
}

// busy reports whether calls wait or are being made.
func (l *lane) busy() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.making || len(l.queue) > 0
}

// close returns what was never sent.
func (l *lane) close() []pending {
	l.mu.Lock()
	defer l.mu.Unlock()
	left := l.queue
	l.queue, l.closed = nil, true
	return left
}

// laneOf chooses the lane of an agent.
func laneOf(agentID string) int {
	h := fnv.New32a()
	_, _ = h.Write([]byte(agentID)) // never fails
	return int(h.Sum32() % callLanes)
}

// busy reports whether calls wait or are being made.
func (s *session) busy() bool {
	return slices.ContainsFunc(s.lanes[:], (*lane).busy)
}

// work makes the calls of a lane until the session ends.
func (s *session) work(l *lane) {
	for {
		p, ok := l.take()
		if !ok {
			select {
			case <-s.ctx.Done():
				for _, p := range l.close() {
					if p.done != nil {
						p.done(errNeverSent)
					}
				}
				return
			case <-l.wake:
				continue
			}
		}
		err := errNeverSent
		if s.ctx.Err() == nil {
			err = s.make(p.call)
		}
		if p.done != nil {
			p.done(err)
		}
	}
}

// make makes one call. What may be repeated is tried again; a call that fails all the same, or is told that there is no
// such subscription, ends the session.
func (s *session) make(call *scheduler.Call) error {
	call.FrameworkID = s.framework
	pause := 100 * time.Millisecond
	for try := 0; ; try++ {
		s.d.config.Log.Debug("call", "type", call.Type.String())
		err := s.d.client.call(s.ctx, s.master, s.streamID, call)
		switch {
		case err == nil:
			return nil
		case errors.Is(err, errRefused):
			s.d.complain("the master refuses a call", "call", call.Type.String(), "error", err)
			return err
		case errors.Is(err, errNotSubscribed), s.ctx.Err() != nil:
			_ = pauseFor(s.ctx, lastWords)
			s.end(err)
			return err
		case call.Type == scheduler.Call_ACCEPT || try == callRetries: // an ACCEPT may have arrived
			s.d.complain("a call failed", "call", call.Type.String(), "error", err)
			if call.Type != scheduler.Call_ACCEPT {
				s.end(err)
			}
			return err
		}
		if pauseFor(s.ctx, pause) != nil {
			return err
		}
		pause *= 2
	}
}

// pauseFor waits, or returns an error when ctx ends first.
func pauseFor(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}
