// Package costscaling is the cost-scaling push-relabel method, cold and warm.
//
// # Method
//
// Costs are multiplied by one more than the number of nodes. A flow is ε-optimal
// when no residual arc has a reduced cost below −ε; one that is 1-optimal at
// integer scaled costs is optimal. Each phase divides ε and turns an ε-optimal
// flow into one for the smaller ε (Goldberg and Tarjan, Finding minimum-cost
// circulations by successive approximation, Mathematics of Operations Research
// 15, 1990). The heuristics that make it fast, price update, price refinement
// and early termination, are those of Goldberg, An efficient implementation of a
// scaling minimum-cost flow algorithm, Journal of Algorithms 22, 1997; excess
// moves along partial augmenting paths as in Király and Kovács, Efficient
// implementations of minimum-cost flow algorithms, 2012.
package costscaling
