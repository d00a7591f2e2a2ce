package local

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"time"

	"github.com/sluice-scheduler/sluice/cluster"
)

// Config says how this machine is divided and what the driver keeps. Zero values mean the defaults, except for Dir.
type Config struct {
	Dir string // absolute path of the state folder, created if it does not exist

	Hosts    int               // virtual hosts h0, h1, …; default 1
	Racks    int               // over which the hosts are dealt out; default 1
	Rack     string            // what their names begin with, before the number; default "r": r0, r1, …
	Zone     string            // of all hosts; default "local"
	Capacity cluster.Resources // of each host; a fixed amount of 0 means this machine's divided by Hosts

	Attributes []cluster.KeyValue // of all hosts, besides arch, local and os

	// Ports may be given to tasks; each host has its own part of them. Default 20000 to 29999.
	Ports   cluster.PortRange
	Address string // where the tasks of all hosts are reached; default "127.0.0.1"

	// Cgroup is a cgroup v2 folder that the driver may fill; "" looks for one at the driver's own place. Where there is
	// none, limits are not enforced and every host says so in its notes.
	Cgroup string

	// SecretsDir is a folder on a file system in memory, for secrets; "" looks for one. Where there is none, the hosts take
	// no tasks with secrets and say so in their notes.
	SecretsDir string

	LogLimitBytes int64         // default limit of each output of a run; default 8 MiB
	UsageInterval time.Duration // between two reports of usage; default 5 s
	Retention     Retention     // of runs that were released

	Log *slog.Logger // default: discards everything
}

// Retention bounds the folders of released runs that are kept for their logs: the oldest go first when any of the
// bounds is passed. Of a run that takes more than Bytes by itself its output is kept.
type Retention struct {
	Runs  int           // default 1,000; −1 keeps none
	Bytes int64         // default 1 GiB
	Age   time.Duration // default 24 h
}

// The largest numbers that a configuration may ask for.
const (
	maxHosts    = 10_000
	minLogLimit = 4 << 10
)

// withDefaults returns c with the defaults in the place of zero values.
func (c Config) withDefaults() Config {
	c.Hosts = cmp.Or(c.Hosts, 1)
	c.Racks = cmp.Or(c.Racks, 1)
	c.Rack = cmp.Or(c.Rack, "r")
	c.Zone = cmp.Or(c.Zone, "local")
	c.Ports = cmp.Or(c.Ports, cluster.PortRange{First: 20_000, Last: 29_999})
	c.Address = cmp.Or(c.Address, "127.0.0.1")
	c.LogLimitBytes = cmp.Or(c.LogLimitBytes, 8<<20)
	c.UsageInterval = cmp.Or(c.UsageInterval, 5*time.Second)
	c.Retention.Runs = cmp.Or(c.Retention.Runs, 1000)
	c.Retention.Bytes = cmp.Or(c.Retention.Bytes, 1<<30)
	c.Retention.Age = cmp.Or(c.Retention.Age, 24*time.Hour)
	c.Log = cmp.Or(c.Log, slog.New(slog.DiscardHandler))
	return c
}

// Validate joins all that is wrong with c into one error.
func (c Config) Validate() error {
	c = c.withDefaults()
	var problems []error
	check := func(ok bool, format string, args ...any) {
		if !ok {
			problems = append(problems, fmt.Errorf("local: "+format, args...))
		}
	}
	check(filepath.IsAbs(c.Dir), "state folder %q is not an absolute path", c.Dir)
	check(c.Hosts >= 1 && c.Hosts <= maxHosts, "hosts is %d, must be 1 to %d", c.Hosts, maxHosts)
	check(c.Racks >= 1 && c.Racks <= c.Hosts, "racks is %d, must be 1 to the number of hosts, %d", c.Racks, c.Hosts)
	check(c.Ports.First >= 1 && c.Ports.First <= c.Ports.Last, "ports %d to %d are no range of 1 to 65535", c.Ports.First, c.Ports.Last)
	check(c.Cgroup == "" || filepath.IsAbs(c.Cgroup), "cgroup %q is not an absolute path", c.Cgroup)
	check(c.LogLimitBytes >= minLogLimit, "log limit is %d bytes, must be at least %d", c.LogLimitBytes, minLogLimit)
	check(c.UsageInterval >= 100*time.Millisecond, "usage interval is %v, must be at least 100ms", c.UsageInterval)
	check(c.Retention.Runs >= -1, "retention of %d runs, must be -1 (none) or more", c.Retention.Runs)
	check(c.Retention.Bytes >= 0 && c.Retention.Age >= 0, "retention by bytes and age must not be negative")
	for d, v := range c.Capacity.Fixed {
		check(v >= 0 && v <= cluster.MaxAmount, "capacity %v is %d, must be 0 to %d", cluster.Dimension(d), v, int64(cluster.MaxAmount))
	}
	for _, a := range c.Capacity.Named {
		check(a.Value >= 0 && a.Value <= cluster.MaxAmount, "capacity %s is %d, must be 0 to %d", a.Name, a.Value, int64(cluster.MaxAmount))
	}
	return errors.Join(problems...)
}
