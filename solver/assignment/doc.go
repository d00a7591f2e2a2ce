// Package assignment solves from zero the networks of single tasks: nearly all
// nodes are sources of one unit, and point at a small core.
//
// # Method
//
// Successive shortest paths (Ahuja, Magnanti, Orlin, Network Flows, §9.7), as for the assignment problem (ibid.,
// §12.4; Jonker and Volgenant, A shortest augmenting path algorithm for dense and sparse linear assignment
// problems, 1987). Each unit in turn takes the cheapest way to the ground, where all demand is. On that way it
// may drive others to where they go next best. Units that find their best place free take it first. The others
// come in the order of what waiting costs them, so that who comes late waits at once.
//
// # Two layers
//
// A search is one of Dijkstra over the nodes of the core alone, with prices as its estimate. Prices only rise.
// From a node it steps over each unit held there straight to the unit's other places. With the unit stands how
// much more its best other place costs than this one, as last seen. Rising prices can only make that too low. So
// most units held are passed over by reading one list in sequence. That holds even for the first search: a first
// look at the arcs of all sources, in the order of memory, finds the three best ways of each. The ways of a
// source are copied only when a search needs them.
//
// Two goroutines share what is done for each source by itself, in that first look and in writing down the answer.
//
// # Range
//
// Every node with supply must be a source of one unit that no arc enters, and have at most 2²¹ arcs. There must
// be no lower bounds. Costs must be below 2³⁰, and not negative between nodes of the core. No such node may need
// a cost of 2⁴¹ or more to reach the ground. [New] refuses any other network.
package assignment
