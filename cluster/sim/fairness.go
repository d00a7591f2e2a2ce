package sim

import (
	"maps"
	"slices"
	"time"

	"github.com/sluice-scheduler/sluice/cluster"
	"github.com/sluice-scheduler/sluice/cluster/pool"
)

// Fairness says how far the pools had what they were entitled to. A pool is satisfied by the least part of it that it has, in
// the dimensions in which it is entitled to something; 1 is all of it. It is counted in two ways: in amounts, of which a
// pool may be entitled to less than a whole task or a whole gang can use, and in whole tasks and gangs: what the tasks ask for
// that admission found reserved or entitled.
type Fairness struct {
	// Contended is how long some pool asked for more than it was entitled to. The rest is about that time.
	Contended float64 `json:"contended_seconds"`
	// Jain is the mean over time of Jain's index of the satisfactions x of the n pools, in whole tasks and gangs,
	// (Σ x)² ÷ (n · Σ x²): 1 where all are satisfied alike, 1/n where one has everything (Jain, Chiu, Hawe, DEC TR-301,
	// 1984). 0 if nothing was contended.
	Jain float64 `json:"jain_index"`
	// JainAmounts is the same in amounts.
	JainAmounts float64 `json:"jain_index_amounts"`
	// Satisfaction is the mean over time by leaf pool, of the pools that were entitled to something; by whole tasks and
	// gangs of those that were entitled to one.
	Satisfaction        map[string]float64 `json:"satisfaction,omitempty"`
	SatisfactionAmounts map[string]float64 `json:"satisfaction_amounts,omitempty"`
}

// poolMeasure integrates satisfaction over time.
type poolMeasure struct {
	leaves    map[cluster.PoolPath]*measuredPool
	asking    []*measuredPool // leaves of the last cycle, by path
	contended bool            // now
	last      time.Duration

	contention     float64 // seconds
	whole, amounts jain
}

// jain integrates Jain's index.
type jain struct {
	index float64 // ∫ index dt

	n            int // of the moment: pools, the sum of their satisfactions and of the squares
	sum, squares float64
}

func (j *jain) add(x float64) {
	j.n++
	j.sum += x
	j.squares += x * x
}

// until ends the moment.
func (j *jain) until(dt float64) {
	if j.squares > 0 {
		j.index += j.sum * j.sum / (float64(j.n) * j.squares) * dt
	} else {
		j.index += dt // nobody has anything: all alike
	}
	j.n, j.sum, j.squares = 0, 0, 0
}

// mean integrates the satisfaction of a pool.
type mean struct{ seconds, satisfied float64 }

func (m *mean) add(x, dt float64) {
	m.seconds += dt
	m.satisfied += x * dt
}

type measuredPool struct {
	allocated, entitlement, claimed amounts
	whole, part                     mean
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

// load adds to what a pool has from now on, or takes it away.
func (m *poolMeasure) load(now time.Duration, path cluster.PoolPath, takes *amounts, sign int64) {
	m.until(now)
	m.leaf(path).allocated.add(takes, sign)
}

// entitle takes in what a cycle entitles the pools to from now on. Parents come before their children.
func (m *poolMeasure) entitle(now time.Duration, status []pool.Status) {
	m.until(now)
	m.contended, m.asking = false, m.asking[:0]
	inner := map[cluster.PoolPath]bool{}
	for i := range status {
		inner[status[i].Path.Parent()] = true
	}
	for i := range status {
		if inner[status[i].Path] {
			continue
		}
		p := m.leaf(status[i].Path)
		p.entitlement, p.claimed = amounts{}, amounts{}
		for _, s := range status[i].Dimensions {
			m.contended = m.contended || s.BoundBy != ""
			for d := range cluster.NumDimensions {
				if s.Dimension == d.String() {
					p.entitlement[d], p.claimed[d] = s.Entitlement, s.Claimed
				}
			}
		}
		m.asking = append(m.asking, p)
	}
}

// satisfaction returns the least part of the amounts that the pool has, false if they are 0.
func (p *measuredPool) satisfaction(of *amounts) (least float64, something bool) {
	least = 1
	for d, e := range of {
		if e > 0 {
			least, something = min(least, float64(p.allocated[d])/float64(e)), true
		}
	}
	return least, something
}

// until accounts for the present up to now.
func (m *poolMeasure) until(now time.Duration) {
	dt := (now - m.last).Seconds()
	m.last = now
	if !m.contended || dt == 0 {
		return
	}
	for _, p := range m.asking {
		if x, entitled := p.satisfaction(&p.entitlement); entitled {
			m.amounts.add(x)
			p.part.add(x, dt)
		}
		if x, claims := p.satisfaction(&p.claimed); claims {
			m.whole.add(x)
			p.whole.add(x, dt)
		}
	}
	m.contention += dt
	m.amounts.until(dt)
	m.whole.until(dt)
}

// fairness returns what was measured up to now.
func (m *poolMeasure) fairness(now time.Duration) Fairness {
	m.until(now)
	f := Fairness{Contended: m.contention, Satisfaction: map[string]float64{}, SatisfactionAmounts: map[string]float64{}}
	if m.contention > 0 {
		f.Jain, f.JainAmounts = m.whole.index/m.contention, m.amounts.index/m.contention
	}
	for _, path := range slices.Sorted(maps.Keys(m.leaves)) {
		p := m.leaves[path]
		if p.whole.seconds > 0 {
			f.Satisfaction[string(path)] = p.whole.satisfied / p.whole.seconds
		}
		if p.part.seconds > 0 {
			f.SatisfactionAmounts[string(path)] = p.part.satisfied / p.part.seconds
		}
	}
	return f
}
