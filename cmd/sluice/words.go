package main

import (
	"fmt"

	"github.com/sluice-scheduler/sluice/cmd/sluice/internal/words"
)

// parseStates reads states in the values of a flag.
func parseStates[E ~int32](flag string, names []string, prefix string, values map[string]int32) ([]E, error) {
	states, err := words.ParseStates[E](names, prefix, values)
	if err != nil {
		return nil, exitError{exitUsage, fmt.Errorf("--%s: %w", flag, err)}
	}
	return states, nil
}
