package main

import (
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/sluice-scheduler/sluice/cmd/sluice/internal/config"
)

// app is what the commands share.
type app struct {
	in       io.Reader
	out, err io.Writer

	configFile string
	config     *config.Loaded // from the moment a command runs
}

// load reads the settings before a command runs.
func (a *app) load(cmd *cobra.Command) error {
	loaded, err := config.Load(a.configFile, cmd.Flags())
	if err != nil {
		return exitError{exitUsage, err}
	}
	a.config = loaded
	for _, stray := range loaded.Strays {
		fmt.Fprintf(a.err, "sluice: warning: %s\n", stray)
	}
	return nil
}

// isTerminal reports whether w is one that a line may be rewritten on.
func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && os.Getenv("TERM") != "dumb" && term.IsTerminal(int(f.Fd()))
}

// widthOf returns how many characters a row of a terminal holds, 0 if that is not known.
func widthOf(w io.Writer) int {
	f, ok := w.(*os.File)
	if !ok {
		return 0
	}
	width, _, err := term.GetSize(int(f.Fd()))
	if err != nil {
		return 0
	}
	return width
}
