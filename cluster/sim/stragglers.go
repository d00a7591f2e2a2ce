package sim

import (
	"fmt"
	"hash/fnv"
	"math"
	"time"

	"github.com/sluice-scheduler/sluice/hostmgr"
	"github.com/sluice-scheduler/sluice/hostmgr/fleet"
)

// Stragglers makes some runs take longer than the workload says. The zero value makes none.
type Stragglers struct {
	Hosts float64 // part of the hosts that are slow, 0 to 1: all that runs there takes longer
	Runs  float64 // part of the runs that are slow wherever they are
	// Slowdown is how many times as long slow runs take, those that are slow twice too; default 5.
	Slowdown float64
}

func (s *Stragglers) fill() error {
	if s.Slowdown == 0 {
		s.Slowdown = 5
	}
	if !(s.Hosts >= 0 && s.Hosts <= 1 && s.Runs >= 0 && s.Runs <= 1) {
		return fmt.Errorf("sim: %v of the hosts and %v of the runs are slow: want parts from 0 to 1", s.Hosts, s.Runs)
	}
	if !(s.Slowdown >= 1 && s.Slowdown <= 1000) {
		return fmt.Errorf("sim: slow runs take %v times as long: want 1 to 1000", s.Slowdown)
	}
	return nil
}

// stretch returns how long a run takes. Chances are drawn from the seed and the host, or the run.
func (s *Stragglers) stretch(d time.Duration, seed uint64, l hostmgr.Launch) time.Duration {
	if d == fleet.Forever || !happens(s.Hosts, seed, "host "+l.Host) && !happens(s.Runs, seed, "run "+l.Run.String()) {
		return d
	}
	return time.Duration(min(float64(d)*s.Slowdown, math.MaxInt64/2))
}

func happens(part float64, seed uint64, what string) bool {
	if part == 0 {
		return false
	}
	h := fnv.New64a()
	_, _ = h.Write([]byte(what)) // never fails
	return float64(stir(seed^stir(h.Sum64()))>>11)/(1<<53) < part
}
