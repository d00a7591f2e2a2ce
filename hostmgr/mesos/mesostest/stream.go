package mesostest

import (
	"net/http"
	"time"

	"github.com/mesos/mesos-go/api/v1/lib/scheduler"
)

// stream is the answer to a SUBSCRIBE: events go in under the Cluster's lock, and the handler's goroutine writes them.
type stream struct {
	id     string
	asJSON bool
	queue  [][]byte
	wake   chan struct{} // holds a token when the queue or what follows has changed
	ended  bool          // properly, after the queue
	broken bool          // at once, without the last chunk
	torn   bool          // the next record is cut in the middle, and the stream breaks
	delay  time.Duration // before each half of a record
}

func newStream(id string, asJSON bool) *stream {
	return &stream{id: id, asJSON: asJSON, wake: make(chan struct{}, 1)}
}

func (s *stream) send(e *scheduler.Event) {
	if s.ended || s.broken {
		return
	}
	s.queue = append(s.queue, record(e, s.asJSON))
	s.signal()
}

func (s *stream) end() {
	s.ended = true
	s.signal()
}

func (s *stream) breakOff() {
	s.broken = true
	s.signal()
}

func (s *stream) signal() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// step is what the handler does next.
type step struct {
	records           [][]byte
	tear              bool // write only half of the last record and break
	delay             time.Duration
	finished, aborted bool
}

func (s *stream) next() step {
	out := step{records: s.queue, delay: s.delay, aborted: s.broken, finished: s.ended}
	s.queue = nil
	if s.torn && len(out.records) > 0 {
		out.records, out.tear = out.records[:1], true
		s.broken = true
	}
	return out
}

// serve writes the stream until it ends or the client goes away.
func (c *Cluster) serve(w http.ResponseWriter, r *http.Request, s *stream) {
	flusher := http.NewResponseController(w)
	for {
		select {
		case <-r.Context().Done():
			return
		case <-s.wake:
		}
		c.mu.Lock()
		todo := s.next()
		c.mu.Unlock()
		if todo.aborted {
			panic(http.ErrAbortHandler)
		}
		for _, record := range todo.records {
			if todo.tear || todo.delay > 0 {
				half := len(record) / 2
				c.sleep(r, todo.delay)
				if _, err := w.Write(record[:half]); err != nil || flusher.Flush() != nil {
					return
				}
				if todo.tear {
					panic(http.ErrAbortHandler)
				}
				c.sleep(r, todo.delay)
				record = record[half:]
			}
			if _, err := w.Write(record); err != nil {
				return
			}
		}
		if flusher.Flush() != nil || todo.finished {
			return
		}
	}
}

// sleep waits without the lock.
func (c *Cluster) sleep(r *http.Request, d time.Duration) {
	if d <= 0 {
		return
	}
	over := make(chan struct{})
	stop := c.clock.AfterFunc(d, func() { close(over) })
	defer stop()
	select {
	case <-over:
	case <-r.Context().Done():
	}
}
