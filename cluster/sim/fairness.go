package sim

import (
	"maps"
	"slices"
	"time"

	"github.com/sluice-scheduler/sluice/cluster"
	"github.com/sluice-scheduler/sluice/cluster/pool"
)

// Fairness says how far the pools had what they were entitled to. A pool is satisfied by the least part of an entitlement
// that it has, in the dimensions in which it is entitled to something; 1 is all of it.
type Fairness struct {
	// Contended is how long some pool asked for more than it was entitled to. The rest is about that time.
	Contended float64 `json:"contended_seconds"`
	// Jain is the mean over time of Jain's index of the satisfactions x of the n pools, (Σ x)² ÷ (n · Σ x²): 1 where all are
	// satisfied alike, 1/n where one has everything (Jain, Chiu, Hawe, DEC TR-301, 1984). 0 if nothing was contended.
	Jain float64 `json:"jain_index"`
	// Satisfaction is the mean over time by leaf pool, of the pools that were entitled to something.
	Satisfaction map[string]float64 `json:"satisfaction,omitempty"`
}

// poolMeasure integrates satisfaction over time.
type poolMeasure struct {
	leaves    map[cluster.PoolPath]*measuredPool
	entitled  []*measuredPool // to something, by path
	contended bool            // now
	last      time.Duration

	contention float64 // seconds
	jain       float64 // ∫ index dt
}

type measuredPool struct {
	allocated, entitlement amounts
	seconds, satisfied     float64 // of contention while entitled to something; ∫ satisfaction dt
}

func newPoolMeasure() *poolMeasure { return &poolMeasure{leaves: map[cluster.PoolPath]*measuredPool{}} }

func (m *poolMeasure) leaf(path cluster.PoolPath) *measuredPool {
	p := m.leaves[path]
	if p == nil {
		p = &measuredPool{}
		m.leaves[path] = p
	}
	return p
}

// load adds to what a pool has, or takes it away.
func (m *poolMeasure) load(path cluster.PoolPath, takes *amounts, sign int64) {
	m.leaf(path).allocated.add(takes, sign)
}

// entitle takes in what a cycle entitles the pools to.
func (m *poolMeasure) entitle(status []pool.Status) {
	m.contended, m.entitled = false, m.entitled[:0]
	for i := range status {
		p := m.leaves[status[i].Path]
		if p == nil {
			continue // no leaf, or nobody ever had anything in it
		}
		p.entitlement = amounts{}
		something := false
		for _, s := range status[i].Dimensions {
			m.contended = m.contended || s.BoundBy != ""
			for d := range cluster.NumDimensions {
				if s.Dimension == d.String() {
					p.entitlement[d] = s.Entitlement
					something = something || s.Entitlement > 0
				}
			}
		}
		if something {
			m.entitled = append(m.entitled, p)
		}
	}
}

func (p *measuredPool) satisfaction() float64 {
	least := 1.0
	for d, e := range p.entitlement {
		if e > 0 {
			least = min(least, float64(p.allocated[d])/float64(e))
		}
	}
	return least
}

// until accounts for the present up to now.
func (m *poolMeasure) until(now time.Duration) {
	dt := (now - m.last).Seconds()
	m.last = now
	if !m.contended || dt == 0 || len(m.entitled) == 0 {
		return
	}
	var sum, squares float64
	for _, p := range m.entitled {
		x := p.satisfaction()
		sum, squares = sum+x, squares+x*x
		p.seconds += dt
		p.satisfied += x * dt
	}
	m.contention += dt
	if squares > 0 {
		m.jain += sum * sum / (float64(len(m.entitled)) * squares) * dt
	} else {
		m.jain += dt // nobody has anything: all alike
	}
}

func (m *poolMeasure) fairness() Fairness {
	f := Fairness{Contended: m.contention, Satisfaction: map[string]float64{}}
	if m.contention > 0 {
		f.Jain = m.jain / m.contention
	}
	for _, path := range slices.Sorted(maps.Keys(m.leaves)) {
		if p := m.leaves[path]; p.seconds > 0 {
			f.Satisfaction[string(path)] = p.satisfied / p.seconds
		}
	}
	return f
}
