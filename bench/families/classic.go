package families

import "github.com/sluice-scheduler/sluice/flowgraph"

const (
	maxCost  = 10_000
	maxUpper = 1000
)

// netgen draws what NETGEN is described to (Klingman, Napier and Stutz, 1974):
// √nodes sources and as many sinks; from each source a chain through its share of
// the nodes to two sinks, able to carry all that the source has; random arcs.
func (d *drawer) netgen(n, arcs int, supply, maxCost int64) {
	ends := root(n)
	d.nodes(n) // sources, sinks, others
	tip, load, sinks := make([]int, ends), make([]int64, ends), make([][2]int, ends)
	for i, j := range d.Perm(ends) {
		tip[i], sinks[i] = i, [2]int{ends + j, ends + d.IntN(ends)}
		for _, sink := range sinks[i] {
			amount := d.between(1, supply)
			d.ship(i, sink, amount)
			load[i] += amount
		}
	}
	for _, v := range d.Perm(n - 2*ends) {
		i := d.IntN(ends)
		d.arc(tip[i], 2*ends+v, load[i]+d.between(0, maxUpper), d.between(1, maxCost))
		tip[i] = 2*ends + v
	}
	for i, v := range tip {
		for _, sink := range sinks[i] {
			d.arc(v, sink, load[i], d.between(1, maxCost))
		}
	}
	for d.net.NumArcs() < arcs {
		tail, head := d.IntN(n-ends), ends+d.IntN(n-ends)
		if tail >= ends { // not a sink
			tail += ends
		}
		d.arc(tail, head, d.between(1, maxUpper), d.between(1, maxCost))
	}
}

// gridgen draws what GRIDGEN is described to (Lee and Orlin, 1991): a square grid
// with arcs to the right and downward, arcs between random nodes, eight a node in
// all, √nodes sources and sinks, and a node by which all can go at a price.
func (d *drawer) gridgen(n int) {
	side := root(n)
	d.nodes(side * side)
	for v := range side * side {
		if v%side < side-1 {
			d.arc(v, v+1, d.between(1, maxUpper), d.between(1, maxCost))
		}
		if v/side < side-1 {
			d.arc(v, v+side, d.between(1, maxUpper), d.between(1, maxCost))
		}
	}
	places := d.Perm(side * side)
	for i := range side {
		d.ship(places[i], places[side+i], d.between(1, 2*maxUpper))
	}
	d.detour(8 * maxCost)
	d.scatter(8*n-d.net.NumArcs(), side*side, maxUpper, 1, maxCost)
}

// gridOnTorus draws a network in the manner of GOTO (Goldberg, in Goldberg and
// Kharitonov, 1993): columns around a torus, one source and one sink on opposite
// sides, arcs to nodes some columns on, the longer the wider and the dearer, and as
// much supply as nearly fills them.
func (d *drawer) gridOnTorus(n int) {
	side := root(n)
	d.nodes(side * side)
	node := func(column, row int) int { return (column+side)%side*side + (row+side)%side }
	total := int64(0)
	for column := range side {
		for row := range side {
			v := node(column, row)
			d.arc(v, node(column, row+1), d.between(1, maxUpper), d.between(1, maxCost)/8)
			d.arc(v, node(column+1, row), d.between(1, maxUpper), d.between(1, maxCost))
			for k := range 6 {
				length := 1 + d.IntN(1<<(k/2))
				upper := d.between(1, maxUpper)
				total += upper * int64(length)
				d.arc(v, node(column+length, row+d.IntN(9)-4), upper, d.between(1, maxCost)*int64(length))
			}
		}
	}
	source, sink := d.nodes(1), d.nodes(1)
	for row := range side {
		d.arc(source, node(0, row), total, 0)
		d.arc(node(side/2, row), sink, total, 0)
	}
	// total/side is about what all cross from one column to the next.
	d.ship(source, sink, total/int64(side)*3/4)
	d.arc(source, sink, total, maxCost*int64(side))
}

// grid draws a flow through a grid from its first to its last column: arcs to the
// right, up and down, and one beside it that is dear.
func (d *drawer) grid(columns, rows int) {
	first := d.nodes(columns * rows)
	source, sink := d.nodes(1), d.nodes(1)
	amount := int64(rows) * maxUpper / 4
	for row := range rows {
		d.arc(source, first+row, d.between(1, 2*maxUpper), d.between(1, maxCost))
		d.arc(first+(columns-1)*rows+row, sink, d.between(1, 2*maxUpper), d.between(1, maxCost))
	}
	for v := range columns * rows {
		if v+rows < columns*rows {
			d.arc(v, v+rows, d.between(1, maxUpper), d.between(1, maxCost))
		}
		if v%rows < rows-1 {
			d.arc(v, v+1, d.between(1, maxUpper), d.between(1, maxCost))
			d.arc(v+1, v, d.between(1, maxUpper), d.between(1, maxCost))
		}
	}
	d.ship(source, sink, amount)
	d.arc(source, sink, amount, maxCost*int64(columns+rows))
}

// roads draws streets, two thirds of those of a square grid, and units that go
// between places: by streets of unlike capacities or, where they are wide, of none, or off them at a price.
func (d *drawer) roads(n, units int, upper int64, wide bool) {
	side := root(n)
	d.nodes(side * side)
	street := func(v, w int) {
		if d.IntN(3) > 0 {
			length, lanes := d.between(1, maxCost), upper*d.between(2, 5)/2
			if wide {
				lanes = flowgraph.Infinite
			}
			d.arc(v, w, lanes, length)
			d.arc(w, v, lanes, length)
		}
	}
	for v := range side * side {
		if v%side < side-1 {
			street(v, v+1)
		}
		if v/side < side-1 {
			street(v, v+side)
		}
	}
	for range units {
		if from, to := d.IntN(side*side), d.IntN(side*side); from != to {
			d.ship(from, to, upper)
		}
	}
	d.detour(int64(side) * maxCost)
}

// vision draws the cut of a picture of three dimensions: nodes that are
// neighbours, some sources and sinks of their own, random costs.
func (d *drawer) vision(n int) {
	side := 1
	for (side+1)*(side+1)*(side+1) <= n {
		side++
	}
	n = side * side * side
	d.nodes(n)
	both := func(v, w int) {
		d.arc(v, w, d.between(1, 100), d.between(1, 100))
		d.arc(w, v, d.between(1, 100), d.between(1, 100))
	}
	source, sink := d.nodes(1), d.nodes(1)
	total := int64(0)
	for v := range n {
		if v%side < side-1 {
			both(v, v+1)
		}
		if v/side%side < side-1 {
			both(v, v+side)
		}
		if v+side*side < n {
			both(v, v+side*side)
		}
		switch upper := d.between(1, 200); d.IntN(16) {
		case 0:
			d.arc(source, v, upper, 0)
			total += upper
		case 1:
			d.arc(v, sink, upper, 0)
		}
	}
	d.ship(source, sink, total*3/4)
	d.arc(source, sink, total, 100*int64(side))
}

// circulation draws random arcs of either sign without any supply.
func (d *drawer) circulation(n int) {
	d.nodes(n)
	d.scatter(8*n, n, 100, -500, 1000)
}

// circulationLower draws eight permutations; the arcs of each can carry the same
// amount.
func (d *drawer) circulationLower(n int) {
	d.nodes(n)
	for range 8 {
		amount := d.between(0, 50)
		for v, w := range d.Perm(n) {
			d.bounded(v, w, d.between(0, amount), amount+d.between(0, 50), d.between(-500, 1000))
		}
	}
}

// circulationTorus draws a torus with arcs of either sign both ways.
func (d *drawer) circulationTorus(n int) {
	side := root(n)
	d.nodes(side * side)
	for v := range side * side {
		row := v - v%side
		for _, w := range [2]int{row + (v+1)%side, (v + side) % (side * side)} {
			d.arc(v, w, d.between(1, 100), d.between(-500, 1000))
			d.arc(w, v, d.between(1, 100), d.between(-500, 1000))
		}
	}
}

// maximumFlow draws layers of √nodes nodes, each with three arcs to the next
// layer; a single arc back from the end, the only one with a cost, is paid for.
func (d *drawer) maximumFlow(n int) {
	width := root(n)
	n -= n % width
	d.nodes(n)
	source, sink := d.nodes(1), d.nodes(1)
	total := int64(0)
	for v := range n {
		if v < width {
			upper := d.between(1, 3*maxUpper)
			d.arc(source, v, upper, 0)
			total += upper
		}
		if v+width >= n {
			d.arc(v, sink, d.between(1, 3*maxUpper), 0)
			continue
		}
		for range 3 {
			d.arc(v, v-v%width+width+d.IntN(width), d.between(1, maxUpper), 0)
		}
	}
	d.arc(sink, source, total, -1)
}

// onePath draws one unit that goes from one node to another.
func (d *drawer) onePath(n int) {
	d.nodes(n)
	d.ship(0, n-1, 1)
	for v := range n - 1 {
		d.arc(v, v+1, 1, maxCost)
	}
	d.scatter(7*n, n, 10, 1, maxCost)
}

// allPaths draws one unit from the first node to each other one.
func (d *drawer) allPaths(n int) {
	d.nodes(n)
	for v := 1; v < n; v++ {
		d.ship(0, v, 1)
		d.arc(v-1, v, int64(n), maxCost)
	}
	for range 7 * n {
		d.arc(d.IntN(n), d.IntN(n), int64(n), d.between(1, maxCost))
	}
}
