// Package gap measures what the production planner loses against the best plan there is.
//
//	instance ─► planner, one cycle ─────► value by tier ─┐
//	        ├─► greedy by density ──────► value by tier ─┼─► gap = (best − ours) / best
//	        └─► HiGHS, mixed integers ──► value by tier ─┘
//
// An [Instance] is a few hosts and some twenty tasks in classes, some of them gangs, of all tiers. The value of a plan is what
// it saves against leaving everything waiting: the price of waiting less the price of the start, summed over what it starts.
// Tiers count lexicographically: the best plan has the most value in the strongest tier that any plan has, then the most in the
// next one among those plans. Prices are random and do not depend on who else starts on a host, so that a mixed integer program
// states the problem exactly.
//
// [Best] needs the build tag highs, a C compiler and the library (scripts/install-highs.sh).
package gap
