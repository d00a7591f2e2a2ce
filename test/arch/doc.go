// Package arch holds the architecture as tests: which package may import which, and what the deterministic core may
// not touch. See docs/architecture.md for the reasons.
package arch
