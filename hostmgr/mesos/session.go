package mesos

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	api "github.com/mesos/mesos-go/api/v1/lib"
	"github.com/mesos/mesos-go/api/v1/lib/scheduler"
)

// session is one subscription, from SUBSCRIBED to the end of the event stream.
type session struct {
	d         *driver
	ctx       context.Context
	cancel    context.CancelCauseFunc
	master    string
	streamID  string
	framework *api.FrameworkID
	feedback  bool // the master says how operations went that have an id, see givesFeedback
	lanes     [callLanes]*lane
	begun     time.Time
	rounds    reconciliation

	operations map[string]func(error) // that are under way, by id; guarded by the driver's mutex
}

// end ends the session; the first reason counts.
func (s *session) end(why error) { s.cancel(why) }

// send queues a call in a lane.
func (s *session) send(lane int, call *scheduler.Call, done func(error)) {
	s.lanes[lane].add(pending{call, done})
}

// Bounds of the wait before the next attempt to subscribe. It doubles from the first to the second, with jitter, until a
// subscription lasts for longer than the second.
const (
	minBackoff = 200 * time.Millisecond
	maxBackoff = 15 * time.Second
)

// missedHeartbeats is after how many of their intervals in which nothing has arrived the stream counts as dead.
const missedHeartbeats = 3

// keepSubscribed subscribes again and again until the driver is closed, or until the master says that it is useless.
// The channels are closed at the first subscription and at its first offers.
func (d *driver) keepSubscribed(subscribed, offered chan struct{}) {
	var once, first sync.Once
	backoff, shown := minBackoff, new(complaints)
	for d.ctx.Err() == nil {
		begun := time.Now()
		worked, err := d.subscribe(func() { once.Do(func() { close(subscribed) }) }, func() { first.Do(func() { close(offered) }) })
		switch {
		case d.ctx.Err() != nil:
			return
		case errors.Is(err, ErrRemoved):
			d.fail(fmt.Errorf("%w, in place of %s", err, d.framework))
			return
		case errors.Is(err, ErrSuperseded), errors.Is(err, ErrRejected):
			d.fail(err)
			return
		}
		if worked && time.Since(begun) > maxBackoff { // else the master may end every subscription with the same nonsense
			backoff, shown = minBackoff, new(complaints)
		}
		if shown.first(err.Error()) {
			d.config.Log.Warn("no subscription, trying again", "error", err)
		}
		if pauseFor(d.ctx, backoff/2+rand.N(backoff/2)) != nil {
			return
		}
		backoff = min(2*backoff, maxBackoff)
	}
}

// subscribe runs one session and tells why it ended, and whether the master had accepted the subscription.
func (d *driver) subscribe(onSubscribed, onOffers func()) (worked bool, err error) {
	ctx, cancel := context.WithCancelCause(d.ctx)
	defer cancel(nil)
	master, changed, err := d.detector.next(ctx)
	if err != nil {
		return false, err
	}
	if changed != nil {
		go func() {
			select {
			case <-changed:
				cancel(errors.New("mesos: another master leads"))
			case <-ctx.Done():
			}
		}()
	}
	d.mu.Lock()
	call := d.subscribeCall()
	d.mu.Unlock()
	stream, err := d.client.subscribe(ctx, master, call)
	switch {
	case err != nil && ctx.Err() != nil:
		return false, context.Cause(ctx)
	case errors.Is(err, errRefused):
		return false, fmt.Errorf("%w: %w", ErrRejected, err)
	case err != nil:
		return false, err
	}
	defer func() { _ = stream.body.Close() }()
	s := &session{d: d, ctx: ctx, cancel: cancel, master: stream.master, streamID: stream.streamID, operations: map[string]func(error){}}
	watchdog := time.AfterFunc(callTimeout, func() { cancel(errors.New("mesos: the master has gone silent")) })
	defer watchdog.Stop()
	err = s.read(stream.events, watchdog, onSubscribed, onOffers)
	if cause := context.Cause(ctx); cause != nil {
		err = cause
	}
	cancel(err)
	return s.framework != nil, err
}

// read takes in events until the stream ends. Lanes work as long as it does.
func (s *session) read(events *eventReader, watchdog *time.Timer, onSubscribed, onOffers func()) (err error) {
	var lanes sync.WaitGroup
	defer func() {
		s.cancel(err) // the first reason counts
		lanes.Wait()
		s.d.disconnected(s)
	}()
	silence := callTimeout
	events.heard = func() { watchdog.Reset(silence) } // the offers of a large cluster may take longer than that
	for {
		e, err := events.next()
		switch {
		case errors.Is(err, errRecord) && e == nil:
			s.d.complain("an event is left out", "error", err)
			continue
		case errors.Is(err, errRecord):
			s.d.complain("an offer is left out", "error", err)
		case errors.Is(err, io.EOF):
			return errors.New("mesos: the master ended the event stream")
		case err != nil:
			return err
		}
		switch {
		case e.Type == scheduler.Event_ERROR:
			return rejection(e.GetError().GetMessage(), s.framework != nil)
		case s.framework == nil && e.Type != scheduler.Event_SUBSCRIBED:
			return fmt.Errorf("mesos: the master begins with the event %v", e.Type)
		case s.framework == nil:
			if silence, err = s.subscribed(e.GetSubscribed()); err != nil {
				return err
			}
			watchdog.Reset(silence)
			for i := range s.lanes {
				s.lanes[i] = newLane()
				lanes.Go(func() { s.work(s.lanes[i]) })
			}
			s.d.connected(s)
			onSubscribed()
		default:
			s.d.handle(s, e)
			if e.Type == scheduler.Event_OFFERS {
				onOffers()
			}
		}
	}
}

// rejection says what an ERROR event means.
func rejection(message string, subscribed bool) error {
	switch {
	case strings.Contains(message, "Framework failed over"):
		return ErrSuperseded
	case strings.Contains(message, "Framework has been removed"):
		return ErrRemoved
	case subscribed, strings.HasPrefix(message, "Authorization failure: "): // it could not be asked, which may pass
		return fmt.Errorf("mesos: the master ended the subscription: %s", message)
	default:
		return fmt.Errorf("%w: %s", ErrRejected, message)
	}
}

// subscribed takes in that the master knows the framework, and returns how long the stream may be silent.
func (s *session) subscribed(e *scheduler.Event_Subscribed) (time.Duration, error) {
	id := e.GetFrameworkID().GetValue()
	s.d.mu.Lock()
	known := s.d.framework
	s.d.mu.Unlock()
	switch {
	case id == "":
		return 0, errors.New("mesos: the master accepts the subscription without a framework id")
	case known != id:
		return 0, fmt.Errorf("%w: it knows the framework %s as %s", ErrRejected, known, id)
	}
	s.framework, s.feedback = &api.FrameworkID{Value: id}, givesFeedback(e.GetMasterInfo().GetVersion())
	s.d.config.Log.Info("subscribed", "framework", id, "master", s.master, "version", e.GetMasterInfo().GetVersion())
	interval := time.Duration(e.GetHeartbeatIntervalSeconds() * float64(time.Second))
	if interval <= 0 || interval > time.Hour {
		interval = 15 * time.Second
	}
	return missedHeartbeats * interval, nil
}

// givesFeedback reports whether a master of a version, or one that does not tell its own, says how operations went that have an id. Older
// ones carry out none on the resources of an agent that has one.
func givesFeedback(version string) bool {
	var major, minor int
	n, err := fmt.Sscanf(version, "%d.%d", &major, &minor)
	return n < 2 || err != nil || major > 1 || major == 1 && minor >= 9
}
