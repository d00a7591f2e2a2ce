package gap

import (
	"fmt"
	"math/rand/v2"

	"github.com/sluice-scheduler/sluice/cluster"
	"github.com/sluice-scheduler/sluice/costmodels"
	"github.com/sluice-scheduler/sluice/flowgraph"
)

// Vector is an amount of processor and of memory, in units of a core and a gibibyte.
type Vector [2]int64

// Class is tasks that placement cannot tell apart.
type Class struct {
	Tier    cluster.Tier
	Request Vector
	Count   int64
	Gang    bool             // all or none
	Wait    flowgraph.Cost   // price of leaving one of them waiting
	Start   []flowgraph.Cost // by host, less than Wait
}

// Instance is a problem.
type Instance struct {
	Hosts   []Vector // empty
	Classes []Class
}

// Value is what a plan saves against all waiting, in milliseconds, by tier.
type Value [cluster.NumTiers]int64

// Options describe instances.
type Options struct {
	Load  float64 // what is asked for over what there is, the mean of both dimensions
	Gangs bool    // a third of the classes of more than one task start whole or not at all
	Hosts int64   // 0: four to six
}

// Generate returns an instance. Hosts are four to six unless the options say otherwise, half of them with much processor and little memory, half the other way
// round, and so are the classes. A class has one to four tasks and any tier. A start costs nothing on a third of the hosts,
// and up to a second elsewhere; waiting costs two to eight seconds, whatever the size.
func Generate(o Options, seed uint64) *Instance {
	r := rand.New(rand.NewPCG(seed, 5))
	between := func(lo, hi int64) int64 { return lo + r.Int64N(hi-lo+1) }
	opposed := func(much, little int64, flip bool) Vector {
		if flip {
			return Vector{little, much}
		}
		return Vector{much, little}
	}
	x := &Instance{}
	var room, asked Vector
	hosts := between(4, 6)
	if o.Hosts > 0 {
		hosts = o.Hosts
	}
	for i := range hosts {
		x.Hosts = append(x.Hosts, opposed(between(12, 20), between(8, 12), i%2 == 1))
		room = room.plus(x.Hosts[i], 1)
	}
	for i := 0; float64(asked[0])/float64(room[0])+float64(asked[1])/float64(room[1]) < 2*o.Load; i++ {
		c := Class{
			Tier: cluster.Tier(r.IntN(int(cluster.NumTiers))), Request: opposed(between(3, 8), between(1, 4), i%2 == 1),
			Count: between(1, 4), Wait: flowgraph.Cost(between(2000, 8000)),
		}
		c.Gang = o.Gangs && c.Count > 1 && r.IntN(3) == 0
		for range x.Hosts {
			price := flowgraph.Cost(0)
			if r.IntN(3) > 0 {
				price = flowgraph.Cost(between(1, 1000))
			}
			c.Start = append(c.Start, price)
		}
		x.Classes = append(x.Classes, c)
		asked = asked.plus(c.Request, c.Count)
	}
	return x
}

func (v Vector) plus(w Vector, times int64) Vector {
	return Vector{v[0] + times*w[0], v[1] + times*w[1]}
}

func (v Vector) fits(room Vector) bool { return v[0] <= room[0] && v[1] <= room[1] }

// resources returns the vector in the units of the cluster.
func (v Vector) resources() cluster.Resources {
	return cluster.Resources{Fixed: [cluster.NumDimensions]int64{cluster.CPU: v[0] * 1000, cluster.Memory: v[1] << 30}}
}

// prices is the cost model that an instance states.
type prices struct {
	*Instance
	hosts map[cluster.HostID]int
}

var _ costmodels.Model = prices{}

// Name implements costmodels.Model.
func (prices) Name() string { return "gap" }

// class finds the class of the work, which is its index.
func (p prices) class(work string) *Class {
	var i int
	if _, err := fmt.Sscan(work, &i); err != nil {
		panic(err)
	}
	return &p.Classes[i]
}

// Wait implements costmodels.Model.
func (p prices) Wait(_ *costmodels.Round, c *costmodels.Class) flowgraph.Cost {
	return p.class(c.Work).Wait
}

// Start implements costmodels.Model.
func (p prices) Start(_ *costmodels.Round, q *costmodels.Request, h *cluster.Host) flowgraph.Cost {
	i, ok := p.hosts[h.ID]
	if !ok {
		return 0 // the one that nobody may use
	}
	return p.class(q.Work).Start[i]
}

// Crowd implements costmodels.Model.
func (prices) Crowd(*costmodels.Round, *cluster.Host, int64) flowgraph.Cost { return 0 }
