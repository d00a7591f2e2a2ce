//go:build !linux

package local

import (
	"errors"
	"runtime"

	"github.com/sluice-scheduler/sluice/hostmgr"
)

// New refuses: the driver needs process descriptors, sub-reapers and /proc of Linux.
func New(Config) (hostmgr.Driver, error) {
	return nil, errors.New("local: tasks run as processes on linux only, this is " + runtime.GOOS)
}

// Supervise does nothing: there are no supervisors.
func Supervise() {}
