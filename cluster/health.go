package cluster

import (
	"errors"
	"fmt"
)

// Health is what the checks of a run say.
type Health uint8

// The states of health.
const (
	HealthUnknown Health = iota // there are no checks, or no result yet
	HealthReady                 // alive and fit to serve
	HealthUnready               // alive, but not fit to serve
	Unhealthy                   // not alive
	numHealths
)

var healthNames = [numHealths]string{"", "READY", "UNREADY", "UNHEALTHY"}

// String returns the name, "" where nothing is known.
func (h Health) String() string { return healthNames[h] }

// reportHealth takes in what a host manager says of the health of a run that runs.
func (s *State) reportHealth(at Time, e *TaskHealth) error {
	return s.changeTask(at, e.Task, func(t *Task, _ *Job) error {
		switch {
		case e.Run != t.Run:
			return errRun(t, e.Run)
		case !t.State.Bound():
			return fmt.Errorf("task %v is %v and has no health", t.Key, t.State)
		case e.Health == HealthUnknown || e.Health >= numHealths:
			return errors.New("unknown health")
		}
		t.Health = e.Health
		t.Message = e.Message
		return nil
	})
}
