// Package relax is the relaxation method, cold and warm.
//
// # Method
//
// The price p(v) = −π(v) of a node is what another unit of flow is worth there. Flow and prices always fit. An
// arc from v to w of cost c has the slack c − p(v) + p(w). It is full where that is negative, and empty where it
// is positive. Where it is zero, the arc is balanced and may carry anything. What is missing for an optimum is
// that flow is conserved.
//
// A set of nodes may have more excess than its balanced arcs out have room for. The dual objective grows when
// these arcs are filled and the prices of the set rise together until another arc is balanced. With lack in
// place of excess all is mirrored, and prices fall (Bertsekas and Tseng, Relaxation methods for minimum cost
// ordinary and generalized network flow problems, Operations Research 36, 1988).
//
// Mostly the set is a single node: then only its own arcs are looked at. Where that does not help, the set grows
// from the node along balanced arcs, until its prices may move, or until it comes to a node of the other sign.
// Flow is then sent there. A set whose prices have moved goes on to grow. Arcs that leave it and are not
// balanced yet are listed with their slack, so a move costs to go through that list.
//
// The method is good where excess finds a lack nearby, as on sparse random networks of many nodes, above all
// where arcs of negative cost are worth filling everywhere. It is very slow where ways are long.
package relax
