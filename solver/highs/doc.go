// Package highs solves the minimum-cost-flow problem as a linear program with HiGHS, the judge that shares no code with
// our own solvers. It needs the build tag highs, a C compiler and the library (scripts/install-highs.sh); without the tag
// the package is empty.
package highs
