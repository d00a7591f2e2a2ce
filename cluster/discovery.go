package cluster

import "time"

// Discovery is what the instances of a job offer to others.
type Discovery struct {
	Endpoints []Endpoint `cbor:",omitempty"` // names are unique
	// Delay is how long before it is asked to end an instance is offered no more.
	Delay time.Duration `cbor:",omitempty"`
}

// Endpoint is a port under a name.
type Endpoint struct {
	Name     string
	Port     PortRef
	Protocol string `cbor:",omitempty"` // a hint, such as "http"
}

// Quiet returns how long an instance is left alone between being chosen to end and being asked.
func (s *JobSpec) Quiet() time.Duration {
	if s.Discovery == nil {
		return 0
	}
	return s.Discovery.Delay
}
