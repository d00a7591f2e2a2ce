package cycle

import (
	"time"

	"github.com/sluice-scheduler/sluice/cluster"
)

// Watch begins to give beats, until stop. A model that is in the same call at two beats is taken for one that
// never returns. The caller chooses the time between beats, since nothing here knows the time.
type Watch func() (beats <-chan time.Time, stop func())

// Watch has models watched from now on, so that no method keeps its caller waiting for ever for one that does
// not return. Such a call cannot be ended. It is left with its goroutine, which may use a processor from then
// on, and with its planner, of which nobody reads anything any more. It has nothing to write to that somebody
// else reads. If it does return, its goroutine ends. If w is nil, nobody watches.
func (s *Supervisor) Watch(w Watch) { s.watch = w }

// attend has the planner do something. It returns what that gives, or what is wrong with the planner's model.
func attend[T any](s *Supervisor, do func(*Planner) T) (T, error) {
	p := s.planner
	if s.watch == nil {
		return do(p), p.model.Fault()
	}
	beats, stop := s.watch()
	defer stop()
	done := make(chan T, 1) // who comes too late finds room for his answer
	go func() { done <- do(p) }()
	for {
		select {
		case given := <-done:
			return given, p.model.Fault()
		case <-beats:
			if fault := p.model.Look(); fault != nil {
				var none T
				return none, fault
			}
		}
	}
}

// ask is attend between two cycles. A model that is found broken by it is replaced.
func ask[T any](s *Supervisor, do func(*Planner) T) T {
	given, fault := attend(s, do)
	if fault != nil {
		s.replace(fault)
	}
	return given
}

// explain asks for what may not be known, and reports whether it is.
func explain[T any](s *Supervisor, why func(*Planner) (T, bool)) (T, bool) {
	type answer struct {
		why   T
		known bool
	}
	a := ask(s, func(p *Planner) (a answer) { a.why, a.known = why(p); return a })
	return a.why, a.known
}

// WhyWaiting says why the task waits; false if it does not, or the model does not answer. See
// Planner.WhyWaiting.
func (s *Supervisor) WhyWaiting(k cluster.TaskKey) (Waiting, bool) {
	return explain(s, func(p *Planner) (Waiting, bool) { return p.WhyWaiting(k) })
}

// WhyTheyWait says of the first of the tasks why they wait; of none if the planner's model is found broken
// meanwhile. See Planner.WhyTheyWait.
func (s *Supervisor) WhyTheyWait(tasks []cluster.TaskKey, looks int) []Waiting {
	return ask(s, func(p *Planner) []Waiting { return p.WhyTheyWait(tasks, looks) })
}

// WhyPlaced says why a task is where it is; false if it is nowhere, or the model does not answer. See
// Planner.WhyPlaced.
func (s *Supervisor) WhyPlaced(k cluster.TaskKey) (Placed, bool) {
	return explain(s, func(p *Planner) (Placed, bool) { return p.WhyPlaced(k) })
}

// Network returns a copy of the network of the last solve. See Planner.Network.
func (s *Supervisor) Network(task *cluster.TaskKey) (*Network, error) { return s.planner.Network(task) }

// Cold reports whether the planner has seen nothing yet, because it is new or an explanation had it replaced.
// Then the next cycle is worth running even if nothing changed.
func (s *Supervisor) Cold() bool { return !s.planner.primed }
