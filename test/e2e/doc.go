// Package e2e tests the real binary from outside: build tag e2e, with the binary's path in SLUICE_BINARY.
package e2e
