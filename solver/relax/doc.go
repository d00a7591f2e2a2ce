// Package relax is the relaxation method, cold and warm.
//
// # Method
//
// The price p(v) = −π(v) of a node is what another unit of flow is worth there. Flow and prices always fit: an arc from v
// to w of cost c is full where its slack c − p(v) + p(w) is negative, empty where it is positive, and may carry anything
// where it is zero, balanced. What is missing for an optimum is that flow is conserved. The dual objective grows when the
// prices of a set of nodes rise together whose excess is more than its balanced arcs out have room for: these are
// filled, and the prices rise until another arc is balanced. With lack in place of excess all is mirrored, and prices fall
// (Bertsekas and Tseng, Relaxation methods for minimum cost ordinary and generalized network flow problems, Operations
// Research 36, 1988).
//
// Mostly the set is a single node: then only its own arcs are looked at. Where that does not help, the set grows from the
// node along balanced arcs, until its prices may move, or until it comes to a node of the other sign: then flow is sent there. A set
// whose prices have moved goes on to grow; arcs that leave it and are not balanced yet are listed with their slack, so
// that what a move costs is to go through that list.
//
// It is good where what is in excess finds a lack nearby, as on sparse random networks of many nodes, above all where arcs
// of negative cost are worth filling everywhere, and very slow where ways are long.
package relax
