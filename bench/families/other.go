package families

import "github.com/sluice-scheduler/sluice/flowgraph"

// transportation draws goods from half of the nodes to the others, each source
// with so many arcs, or all.
func (d *drawer) transportation(half, degree int) {
	d.nodes(2 * half)
	for v := range half {
		d.ship(v, half+d.IntN(half), d.between(1, 100))
		d.ship(v, half+d.IntN(half), d.between(1, 100))
	}
	for v := range half {
		for i := range degree {
			sink := i
			if degree < half {
				sink = d.IntN(half)
			}
			d.arc(v, half+sink, d.supply(v), d.between(1, maxCost))
		}
	}
	if degree < half {
		d.detour(4 * maxCost)
	}
}

// pairs makes half of n nodes sources of one unit and the others sinks.
func (d *drawer) pairs(n int) (half int) {
	d.nodes(n / 2 * 2)
	for v := range n / 2 {
		d.ship(v, n/2+v, 1)
	}
	return n / 2
}

// assignmentProduct draws an assignment in which each pair costs the product of a
// number of each (Machol and Wien, 1976).
func (d *drawer) assignmentProduct(n int) {
	half := d.pairs(n)
	for v := range half {
		for w := range half {
			d.arc(v, half+w, 1, int64(v+1)*int64(w+1))
		}
	}
}

// assignmentGeometric draws points in a square; pairs cost their distance,
// squared.
func (d *drawer) assignmentGeometric(n int) {
	half := d.pairs(n)
	x, y := make([]int64, 2*half), make([]int64, 2*half)
	for v := range x {
		x[v], y[v] = d.Int64N(1000), d.Int64N(1000)
	}
	for v := range half {
		for w := half; w < 2*half; w++ {
			a, b := x[v]-x[w], y[v]-y[w]
			d.arc(v, w, 1, a*a+b*b)
		}
	}
}

// assignmentSparse draws a perfect matching and hides it among nine times as many
// arcs.
func (d *drawer) assignmentSparse(n int) {
	half := d.pairs(n)
	for v, w := range d.Perm(half) {
		hidden := d.IntN(10)
		for i := range 10 {
			sink := w
			if i != hidden {
				sink = d.IntN(half)
			}
			d.arc(v, half+sink, 1, d.between(1, maxCost))
		}
	}
}

// pipeline draws goods that pass many stages of twenty machines; each machine
// hands on to five of the next stage.
func (d *drawer) pipeline(n int) {
	const width = 20
	n -= n % width
	d.nodes(n)
	for v := range width {
		d.ship(v, n-1-v, d.between(1, 400))
	}
	for v := range n - width {
		for k := range 5 {
			upper := d.between(1, 200)
			if k == 0 {
				upper = 400
			}
			d.arc(v, v-v%width+width+(v+3*k)%width, upper, d.between(1, 1000))
		}
	}
	d.detour(1000 * int64(n/width))
}

// timeSpace draws vehicles at forty places that wait there, or earn by a trip to
// another; some must be at each place in the end.
func (d *drawer) timeSpace(n int) {
	const places = 40
	n -= n % places
	d.nodes(n)
	for p := range places {
		d.ship(p, n-places+d.IntN(places), d.between(1, 60))
	}
	for v := range n - places {
		d.arc(v, v+places, 1000, d.between(1, 20))
		for range 3 {
			if w := v - v%places + places*(1+d.IntN(8)) + d.IntN(places); w < n {
				d.arc(v, w, d.between(1, 5), d.between(-500, 200))
			}
		}
	}
	d.detour(int64(n) * 10)
}

// earthMover draws two histograms over a square grid and the way from one to the
// other by neighbours.
func (d *drawer) earthMover(n int) {
	side := root(n)
	d.nodes(side * side)
	for v := range side * side {
		d.ship(v, d.IntN(side*side), d.between(0, 200))
		for _, w := range neighbours(v, side) {
			d.arc(v, w, 1<<30, 1)
		}
	}
}

// neighbours lists those of v in a square grid.
func neighbours(v, side int) (list []int) {
	for _, w := range [4]int{v + 1, v - 1, v + side, v - side} {
		if w >= 0 && w < side*side && (w/side == v/side || w%side == v%side) {
			list = append(list, w)
		}
	}
	return list
}

// phaseUnwrapping draws residues of a picture that are balanced at the least cost
// (Costantini, 1998): cuts between neighbours cost what the phase there is worth,
// and residues may leave at the border.
func (d *drawer) phaseUnwrapping(n int) {
	side := root(n)
	d.nodes(side * side)
	ground := d.nodes(1)
	for v := range side * side {
		if d.IntN(4) == 0 {
			d.ship(v, ground, 2*d.Int64N(2)-1)
		}
		for _, w := range neighbours(v, side) {
			d.arc(v, w, 1<<20, d.between(1, 100))
		}
		if v%side%(side-1) == 0 || v/side%(side-1) == 0 {
			d.arc(v, ground, 1<<20, d.between(1, 100))
			d.arc(ground, v, 1<<20, d.between(1, 100))
		}
	}
}

// powerLaw draws arcs to and from nodes that have many already (Barabási and
// Albert, 1999).
func (d *drawer) powerLaw(n int) {
	d.nodes(n)
	ends := make([]int, 0, 16*n)
	popular := func() int {
		if len(ends) == 0 || d.IntN(4) == 0 {
			return d.IntN(n)
		}
		return ends[d.IntN(len(ends))]
	}
	for v := range 8 * n {
		tail, head := v%n, popular()
		if d.IntN(2) == 0 {
			tail, head = head, tail
		}
		ends = append(ends, tail, head)
		d.arc(tail, head, d.between(1, maxUpper), d.between(1, maxCost))
	}
	for range n / 10 {
		if from, to := d.IntN(n), d.IntN(n); from != to {
			d.ship(from, to, d.between(1, maxUpper))
		}
	}
	d.detour(8 * maxCost)
}

// lotSizing draws one product over many periods: convex costs of making it in
// five pieces, together as much as can be demanded, stock kept for the next
// period, demand met a period late.
func (d *drawer) lotSizing(n int) {
	d.nodes(n)
	plant := d.nodes(1)
	for v := range n {
		d.ship(plant, v, d.between(0, 200))
		cost := d.between(1, 1000)
		for _, upper := range [5]int64{60, 40, 40, 20, 40} {
			d.arc(plant, v, upper, cost)
			cost += d.between(1, 200)
		}
		if v+1 < n {
			d.arc(v, v+1, 1000, d.between(1, 20))
			d.arc(v+1, v, 1000, d.between(10, 100))
		}
	}
}

// tenLayers draws goods through ten layers, ten arcs a node.
func (d *drawer) tenLayers(n int) {
	width := n / 10
	d.nodes(10 * width)
	for v := range width {
		d.ship(v, 9*width+v, d.between(1, maxUpper))
	}
	for v := range 9 * width {
		for range 10 {
			d.arc(v, v-v%width+width+d.IntN(width), d.between(1, maxUpper/2), d.between(1, maxCost))
		}
	}
	d.detour(10 * maxCost)
}

// projectCrashing draws a project whose activities take less time the more is paid (Fulkerson, A network
// flow computation for project cost curves, 1961): the flow is the dual, on one arc for what an activity
// takes if nothing is paid, of the capacity that is its price, and one for the least that it takes.
func (d *drawer) projectCrashing(n int) {
	d.nodes(n)
	for v := range n - 1 {
		for range 4 {
			after := min(n-1, v+1+int(d.ExpFloat64()*float64(n)/40))
			usual := d.between(10, 100)
			d.arc(v, after, d.between(1, 50), -usual)
			d.arc(v, after, 1<<30, -usual/3)
		}
	}
	d.ship(0, n-1, 5000)
}

// evacuation draws people at a hundred places that leave over roads of some length and width by three
// exits, as early as may be, in a network over time (Hamacher and Tjandra, Mathematical modelling of
// evacuation problems, 2001). Only the time of leaving costs.
func (d *drawer) evacuation(n int) {
	const places, exits = 100, 3
	times := n / places
	d.nodes(times*places + 1)
	safe := times * places
	type road struct{ from, to, length, width int }
	var roads []road
	for range 4 * places {
		r := road{d.IntN(places), d.IntN(places), 1 + d.IntN(4), 1 + d.IntN(6)}
		if r.from != r.to {
			roads = append(roads, r)
		}
	}
	for t := range times {
		for p := range places {
			if t+1 < times {
				d.arc(t*places+p, (t+1)*places+p, flowgraph.Infinite, 0)
			}
		}
		for _, r := range roads {
			if t+r.length < times {
				d.arc(t*places+r.from, (t+r.length)*places+r.to, int64(r.width), 0)
			}
		}
		for p := range exits {
			d.arc(t*places+p, safe, 10, int64(t))
		}
	}
	for p := exits; p < places; p++ {
		d.ship(p, safe, d.between(1, 10))
	}
	d.detour(int64(10 * times))
}

// totalVariation draws a square image of noise over blocks, to be smoothed: neighbours that differ cost,
// and so do values other than those seen (Hochbaum, An efficient algorithm for image segmentation, Markov random
// fields and related problems, 2001). The flow is the dual.
func (d *drawer) totalVariation(n int) {
	side := root(n)
	ground := side * side
	d.nodes(ground + 1)
	for v := range ground {
		seen := int64(v/side/20+v%side/20)%2*100 + d.between(0, 155)
		d.arc(v, ground, 1, 255-seen)
		d.arc(ground, v, 1, seen-128)
		for _, w := range neighbours(v, side) {
			d.arc(v, w, 2, 0)
		}
	}
}
