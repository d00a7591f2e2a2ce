// Package e2e tests the real binary from outside, as a user meets it: processes, addresses, files and exit codes. The
// tests have the build tag e2e. They take the binary from SLUICE_BINARY, or build it.
package e2e
