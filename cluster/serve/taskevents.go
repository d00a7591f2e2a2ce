package serve

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"sync"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/sluice-scheduler/sluice/cluster"
	sluicev1 "github.com/sluice-scheduler/sluice/proto/sluice/v1"
)

// keptEvents is how many events of tasks are kept, of all tasks together, some 30 MB; and keptText how many bytes their
// messages have together, each of which may be long. The oldest go first.
const (
	keptEvents = 1 << 18
	keptText   = 1 << 25
)

// taskEvent is a step of a task's life.
type taskEvent struct {
	at      cluster.Time
	task    cluster.TaskKey
	before  uint64 // number of the task's event before this one, 0 where there is none
	run     uint32
	state   cluster.TaskState
	host    cluster.HostID
	reason  cluster.Reason
	message string
}

// same reports whether nothing that is told apart lies between two events of a task.
func (e *taskEvent) same(o *taskEvent) bool {
	return e.run == o.run && e.state == o.state && e.host == o.host && e.reason == o.reason
}

// taskHistory keeps the latest events of all tasks, for people: it is not durable, and begins anew with the scheduler, with
// what each task is then. It is safe for concurrent use.
type taskHistory struct {
	mu    sync.Mutex
	ring  []taskEvent // the event of number n is at n modulo its length, once that many have come
	size  int
	text  int // bytes that the messages may have together
	used  int // that they have
	first uint64
	next  uint64                     // numbers of the oldest event that is kept and of the next one, from 1
	last  map[cluster.TaskKey]uint64 // number of each task's latest event
}

func newTaskHistory(size, text int) *taskHistory {
	return &taskHistory{size: size, text: text, first: 1, next: 1, last: map[cluster.TaskKey]uint64{}}
}

func (h *taskHistory) at(number uint64) *taskEvent { return &h.ring[(number-1)%uint64(h.size)] }

// kept reports whether the event of a number is still there.
func (h *taskHistory) kept(number uint64) bool { return number >= h.first }

// drop forgets the oldest event.
func (h *taskHistory) drop() {
	old := h.at(h.first)
	if h.last[old.task] == h.first {
		delete(h.last, old.task)
	}
	h.used -= len(old.message)
	*old = taskEvent{}
	h.first++
}

// add takes in events, in order. Complexity: their number.
func (h *taskHistory) add(events []taskEvent) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for i := range events {
		e := events[i]
		e.before = h.last[e.task]
		if h.kept(e.before) && h.at(e.before).same(&e) {
			continue
		}
		h.used += len(e.message)
		for h.next-h.first == uint64(h.size) || h.used > h.text && h.first < h.next {
			h.drop()
		}
		if len(h.ring) < h.size {
			h.ring = append(h.ring, taskEvent{})
		}
		*h.at(h.next) = e
		h.last[e.task] = h.next
		h.next++
	}
}

// keptEvent is an event with its number.
type keptEvent struct {
	number uint64
	taskEvent
}

// of returns the events of a task that are kept, oldest first. Complexity: their number.
func (h *taskHistory) of(task cluster.TaskKey) (all []keptEvent) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for n := h.last[task]; h.kept(n); n = h.at(n).before {
		all = append(all, keptEvent{n, *h.at(n)})
	}
	slices.Reverse(all)
	return all
}

// placeOf returns the host of a run, "" where no event of it is kept. Complexity: the events of its task.
func (h *taskHistory) placeOf(run cluster.RunID) cluster.HostID {
	h.mu.Lock()
	defer h.mu.Unlock()
	for n := h.last[run.Task]; h.kept(n); n = h.at(n).before {
		if e := h.at(n); e.run == run.Run && e.host != "" {
			return e.host
		}
	}
	return ""
}

// eventOf tells what a task is now.
func eventOf(t *cluster.Task, at cluster.Time) taskEvent {
	return taskEvent{at: at, task: t.Key, run: t.Run, state: t.State, host: t.Host, reason: t.Reason, message: t.Message}
}

// begin takes in what the tasks are that were there at the start.
func (h *taskHistory) begin(s *cluster.Snapshot) {
	for t := range s.Tasks(0) {
		h.add([]taskEvent{eventOf(t, t.Since)})
	}
}

// ListTaskEvents implements sluicev1.TaskServiceServer. Complexity: the events of the task that are kept.
func (a *taskService) ListTaskEvents(_ context.Context, r *sluicev1.ListTaskEventsRequest) (*sluicev1.ListTaskEventsResponse, error) {
	page, err := openPage(r)
	if err != nil {
		return nil, err
	}
	t, _, err := findTask(a.s.Snapshot(), r.Job, r.Instance)
	if err != nil {
		return nil, err
	}
	// Events are numbered anew at each start: a token of another one begins with the first event that there is now.
	start := strconv.FormatInt(a.s.Started().UnixNano(), 36) + "/"
	var after uint64
	if number, ok := strings.CutPrefix(page.after, start); ok {
		after, _ = strconv.ParseUint(number, 10, 64) // a token that is none begins with the first too
	}
	answer := &sluicev1.ListTaskEventsResponse{}
	var last uint64
	for _, e := range a.s.history.of(t.Key) {
		if e.number <= after || r.Run != nil && e.run != *r.Run {
			continue
		}
		record := &sluicev1.TaskEvent{
			Time: timestamppb.New(e.at.Go()), Run: e.run, State: taskStates[e.state], Reason: string(e.reason), Message: e.message, Host: string(e.host),
		}
		if !page.Add(record) {
			answer.NextPageToken = page.Token(start + strconv.FormatUint(last, 10))
			break
		}
		answer.Events = append(answer.Events, record)
		last = e.number
	}
	return answer, nil
}
