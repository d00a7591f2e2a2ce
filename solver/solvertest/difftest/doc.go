// Package difftest sets solvers against an oracle and against each other on
// random networks under random changes. A run is a script of verbs, which can be
// printed, read back and made as small as the failure that it shows allows.
package difftest
