// Package assignment solves from zero the networks of single tasks: nearly all
// nodes are sources of one unit, and point at a small core.
//
// # Method
//
// Successive shortest paths (Ahuja, Magnanti, Orlin, Network Flows, §9.7), as
// for the assignment problem (ibid., §12.4; Jonker and Volgenant, A shortest
// augmenting path algorithm for dense and sparse linear assignment problems,
// 1987): each unit in turn takes the cheapest way to the ground, where all demand
// is, and on it may drive others to where they go next best. Units that
// find their best place free take it first; the others come in the order of what
// waiting costs them, so that who comes late waits at once.
//
// # Two layers
//
// A search is one of Dijkstra over the nodes of the core alone, with prices as
// its estimate. Prices only rise. From a node it steps over each unit held there
// straight to the unit's other places; with the unit stands what its best other
// place costs more than this one, as last seen, which rising prices can only make
// too low. So most units held are passed over by reading one list in sequence, even by the
// first search: a first look at the arcs of all sources, in the order of memory, finds the
// three best ways of each. The ways of a source are copied only when a search needs them.
//
// What is done for each source by itself, in that look and in writing down the answer, two
// goroutines share.
//
// # Range
//
// It takes networks of which every node with supply is a source of one unit that no
// arc enters; without lower bounds; whose costs are below 2³⁰ and, between nodes
// of the core, not negative; in which no source has more than 2²¹ arcs, and it costs no node of
// the core 2⁴¹ to reach the ground. Any other is refused by [New].
package assignment
