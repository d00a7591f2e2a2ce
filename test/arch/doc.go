// Package arch holds the architecture as tests: which package may import which, what the deterministic core may not
// touch, and that everything compiles on other platforms. See docs/architecture.md for the reasons.
package arch
