// Package families draws minimum-cost-flow problems of the kinds that solvers are
// compared on elsewhere, and some that other uses suggest.
//
// The classic ones follow the published descriptions of the generators of the
// first DIMACS challenge and of Király and Kovács (Efficient implementations of
// minimum-cost flow algorithms, 2012), not their code: an instance of theirs with
// the same parameters is another network. The same family, size and seed give the
// same network on every machine, and all have a feasible flow.
package families
