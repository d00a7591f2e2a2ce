package gap

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/sluice-scheduler/sluice/cluster"
	"github.com/sluice-scheduler/sluice/cluster/cycle"
	"github.com/sluice-scheduler/sluice/solver"
)

// Planned returns the value of the plan of one cycle of the production planner; without newSolver, of its greedy baseline. It
// fails if the plan over-commits a host or starts a part of a gang.
//
// The pools make the tiers: one has everything reserved that it asks for, one is entitled to it, one has no share. A host that
// nobody may use is large enough that admission lets everything in.
func Planned(x *Instance, newSolver func() solver.Solver) (Value, error) {
	s := stage{x: x, state: cluster.NewState(), prices: prices{x, map[cluster.HostID]int{}}}
	if err := s.build(); err != nil {
		return Value{}, fmt.Errorf("gap: %w", err)
	}
	snapshot, changes := s.state.Snapshot()
	out := cycle.New(s.prices, newSolver).Run(cycle.Input{Snapshot: snapshot, Changes: changes, Now: s.now()})
	plan := newPlan(x)
	for i := range out.Placements {
		p := &out.Placements[i]
		class := int(p.Task.Job()) - 1
		host, ok := s.prices.hosts[p.Host]
		switch {
		case !ok:
			return Value{}, fmt.Errorf("gap: a task on host %s", p.Host)
		case p.Tier != x.Classes[class].Tier:
			return Value{}, fmt.Errorf("gap: class %d has tier %v, and a task of it was placed as %v", class, x.Classes[class].Tier, p.Tier)
		}
		plan.start(class, host, 1)
	}
	if err := plan.check(); err != nil {
		return Value{}, err
	}
	return plan.value(), nil
}

// stage is the cluster of an instance.
type stage struct {
	x      *Instance
	state  *cluster.State
	prices prices
}

func (s *stage) now() cluster.Time { return cluster.Time(time.Hour) }

func (s *stage) emit(e cluster.Event) error {
	return s.state.Apply(cluster.Record{Seq: s.state.Seq() + 1, At: s.now(), Event: e})
}

// leaves are the pools, by tier.
var leaves = [cluster.NumTiers]cluster.PoolPath{
	cluster.TierReserved: "root/reserved", cluster.TierEntitled: "root/entitled", cluster.TierBorrowed: "root/borrowed",
}

func (s *stage) build() error {
	var asked [cluster.NumTiers]Vector
	for i := range s.x.Classes {
		c := &s.x.Classes[i]
		asked[c.Tier] = asked[c.Tier].plus(c.Request, c.Count)
	}
	var room Vector
	for _, h := range s.x.Hosts {
		room = room.plus(h, 3)
	}
	closed := cluster.Machine{Capacity: room.resources(), Attributes: []cluster.KeyValue{{Key: cluster.AttributeExclusive, Value: "nobody"}}}
	if err := s.emit(&cluster.HostReported{ID: cluster.MakeHostID("gap", "closed"), Machine: closed}); err != nil {
		return err
	}
	for i, capacity := range s.x.Hosts {
		id := cluster.MakeHostID("gap", strconv.Itoa(i))
		s.prices.hosts[id] = i
		if err := s.emit(&cluster.HostReported{ID: id, Machine: cluster.Machine{Capacity: capacity.resources()}}); err != nil {
			return err
		}
	}
	for t, path := range leaves {
		pool := cluster.Pool{Path: path}
		for _, d := range []cluster.Dimension{cluster.CPU, cluster.Memory} {
			r := cluster.PoolResource{Dimension: d.String(), Limit: cluster.NoLimit}
			if cluster.Tier(t) == cluster.TierReserved {
				r.Reservation = asked[t].resources().Fixed[d]
			}
			if cluster.Tier(t) != cluster.TierBorrowed {
				r.Share = 1
			}
			pool.Resources = append(pool.Resources, r)
		}
		if err := s.emit(&cluster.PoolPut{Pool: pool}); err != nil {
			return err
		}
	}
	for i := range s.x.Classes {
		if err := s.submit(i); err != nil {
			return err
		}
	}
	return nil
}

// submit submits a class as the job with the uid after its index.
func (s *stage) submit(i int) error {
	c := &s.x.Classes[i]
	spec := &cluster.JobSpec{
		Name: cluster.JobID(fmt.Sprint("class-", i)), Pool: leaves[c.Tier], Instances: uint32(c.Count), Preemptible: true,
		Labels: []cluster.KeyValue{{Key: cluster.WorkLabel, Value: strconv.Itoa(i)}},
		Task:   cluster.TaskSpec{Resources: c.Request.resources()},
	}
	if c.Gang {
		spec.Gang = &cluster.Gang{Minimum: uint32(c.Count)}
	}
	return s.emit(&cluster.JobsSubmitted{Jobs: []cluster.NewJob{{UID: s.state.NextJob(), Spec: spec}}})
}

// plan is how many of each class start on each host.
type plan struct {
	x    *Instance
	n    [][]int64 // by class and host
	room []Vector  // by host
}

func newPlan(x *Instance) *plan {
	p := &plan{x: x, room: slices.Clone(x.Hosts)}
	for range x.Classes {
		p.n = append(p.n, make([]int64, len(x.Hosts)))
	}
	return p
}

func (p *plan) start(class, host int, n int64) {
	p.n[class][host] += n
	p.room[host] = p.room[host].plus(p.x.Classes[class].Request, -n)
}

func (p *plan) placed(class int) (n int64) {
	for _, on := range p.n[class] {
		n += on
	}
	return n
}

func (p *plan) check() error {
	for h, left := range p.room {
		if left[0] < 0 || left[1] < 0 {
			return fmt.Errorf("gap: host %d is over-committed: %v left", h, left)
		}
	}
	for i := range p.x.Classes {
		c, n := &p.x.Classes[i], p.placed(i)
		if n < 0 || n > c.Count || c.Gang && n != 0 && n != c.Count {
			return fmt.Errorf("gap: %d of the %d tasks of class %d start", n, c.Count, i)
		}
	}
	return nil
}

func (p *plan) value() (v Value) {
	for i := range p.x.Classes {
		c := &p.x.Classes[i]
		for h, n := range p.n[i] {
			v[c.Tier] += n * int64(c.Wait-c.Start[h])
		}
	}
	return v
}

// Density returns the value of the usual greedy rule: tier by tier, the class first that saves most for the largest part of a
// host that it takes, each task on the host where it saves most, a gang whole or not at all.
func Density(x *Instance) (Value, error) {
	p := newPlan(x)
	var room Vector
	for _, h := range x.Hosts {
		room = room.plus(h, 1)
	}
	density := func(i int) float64 {
		c := &x.Classes[i]
		share := max(float64(c.Request[0])/float64(room[0]), float64(c.Request[1])/float64(room[1]))
		return float64(c.Wait-slices.Min(c.Start)) / share
	}
	order := make([]int, len(x.Classes))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(i, j int) int {
		return cmp.Or(cmp.Compare(x.Classes[i].Tier, x.Classes[j].Tier), cmp.Compare(density(j), density(i)))
	})
	for _, i := range order {
		p.fill(i)
	}
	return p.value(), p.check()
}

// fill starts as many tasks of the class as fit, each where it is cheapest; a gang whole or not at all.
func (p *plan) fill(i int) {
	c := &p.x.Classes[i]
	hosts := make([]int, len(p.room))
	for h := range hosts {
		hosts[h] = h
	}
	slices.SortStableFunc(hosts, func(g, h int) int { return cmp.Compare(c.Start[g], c.Start[h]) })
	for _, h := range hosts {
		for p.placed(i) < c.Count && c.Request.fits(p.room[h]) {
			p.start(i, h, 1)
		}
	}
	if c.Gang && p.placed(i) < c.Count {
		for h, n := range p.n[i] {
			p.start(i, h, -n)
		}
	}
}
