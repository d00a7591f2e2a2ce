package mesos

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os/user"
	"slices"
	"strings"
	"time"

	"github.com/mesos/mesos-go/api/v1/lib/encoding"
	"github.com/mesos/mesos-go/api/v1/lib/encoding/codecs"

	"github.com/sluice-scheduler/sluice/cluster"
)

// Config says which Mesos cluster a driver serves and how. Where a default is named, the zero value takes it.
type Config struct {
	// Dir is the state folder: the framework's id and the runs. It belongs to one driver at a time.
	Dir string
	// Masters is "HOST:PORT,HOST:PORT..." or "zk://HOST:PORT,HOST:PORT.../PATH", see ParseMasters.
	Masters string

	Name      string   // of the framework; default "sluice"
	User      string   // that tasks run as if they name none; default: the user of this process
	Roles     []string // that resources are offered to; default "*"
	Principal string   // "" = not authenticated
	Secret    string   // of the principal; never logged
	WebUIURL  string   // that Mesos shows for the framework; "" = none

	// FailoverTimeout is how long the master keeps the tasks of a framework that is not connected; default one week.
	FailoverTimeout time.Duration
	// NoCheckpoint lets tasks end when their agent's process restarts.
	NoCheckpoint bool
	// GPUs lets the framework be offered hosts with GPUs.
	GPUs bool
	// Revocable lets the framework be offered what may be taken back at any time, for revocable tasks.
	Revocable bool
	// PartitionUnaware leaves out the PARTITION_AWARE capability: tasks on agents out of reach are LOST at once.
	PartitionUnaware bool

	// RackAttribute and ZoneAttribute name the agents' attributes that hold their rack and zone; default "rack" and
	// "zone". Where an agent has no such zone attribute, the zone of its fault domain is taken.
	RackAttribute, ZoneAttribute string
	// GPUModelAttribute names the attribute that holds the model of an agent's GPUs; default "gpu_model".
	GPUModelAttribute string

	// OfferHold is how long an offer is kept unused before it is declined; default 5 min.
	OfferHold time.Duration
	// DeclineFor is the filter of such a decline: for so long others may use what we do not; default 5 min.
	DeclineFor time.Duration
	// IdleAfter is how long nothing may have been launched before offers are suppressed; default 15 min.
	IdleAfter time.Duration
	// OfferWait is how long a launch waits for resources that were declined, or that came free, to be offered again,
	// before it is given back; default 5 s.
	OfferWait time.Duration
	// LaunchWindow is how long launches on one agent are collected for one call; default 5 ms.
	LaunchWindow time.Duration
	// MaintenanceLead is how long before planned maintenance an agent gets no more work; default 30 min.
	MaintenanceLead time.Duration
	// ReconcileEvery is the pause between implicit reconciliations; default 10 min.
	ReconcileEvery time.Duration

	// ExecutorCPUMilli and ExecutorMemoryBytes are what the executor of a task with several processes uses. They come
	// out of what the task asks for; default 100 and 32 MiB.
	ExecutorCPUMilli, ExecutorMemoryBytes int64

	// VolumeBytes is the size of a persistent volume that is made for a task; default 1 GiB.
	VolumeBytes int64

	// GiveUp is the id of a framework. If it is the one that the state folder remembers, that is given up, with all its tasks, and a
	// new one begins. It is what an operator says after the master has removed the framework; of another one it says nothing, so
	// that it may be said at each start.
	GiveUp string

	TLS  *tls.Config // nil: plain HTTP
	JSON bool        // speak JSON in place of protobuf, to watch the traffic
	// Dial opens connections to masters and to ZooKeeper; nil dials TCP.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	Log  *slog.Logger // nil discards everything
}

// Validate joins all that is wrong with c. Every part names the field.
func (c *Config) Validate() error {
	var problems []error
	bad := func(field, format string, args ...any) {
		problems = append(problems, fmt.Errorf("mesos: %s: %s", field, fmt.Sprintf(format, args...)))
	}
	if c.Dir == "" {
		bad("state folder", "is not set; it keeps the framework's id, without which its tasks are lost at a restart")
	}
	if _, err := ParseMasters(c.Masters); err != nil {
		problems = append(problems, err)
	}
	if c.Principal == "" && c.Secret != "" {
		bad("principal", "there is a secret, but no principal that it belongs to")
	}
	if strings.Contains(c.Principal, ":") {
		bad("principal", "%q has a colon, with which masters cannot tell it from its secret; take another one", c.Principal)
	}
	for i, role := range c.Roles {
		switch why := wrongRole(role); {
		case why != "":
			bad("roles", "%q is not a role: %s", role, why)
		case slices.Contains(c.Roles[:i], role):
			bad("roles", "%q is there twice", role)
		}
	}
	for _, d := range []struct {
		field string
		value time.Duration
	}{
		{"failover timeout", c.FailoverTimeout},
		{"offer hold", c.OfferHold},
		{"decline for", c.DeclineFor},
		{"idle after", c.IdleAfter},
		{"offer wait", c.OfferWait},
		{"launch window", c.LaunchWindow},
		{"maintenance lead", c.MaintenanceLead},
		{"reconcile every", c.ReconcileEvery},
	} {
		if d.value < 0 {
			bad(d.field, "%v is negative", d.value)
		}
	}
	if c.VolumeBytes < 0 {
		bad("volume size", "%d bytes is negative", c.VolumeBytes)
	}
	if c.ExecutorCPUMilli < 0 || c.ExecutorMemoryBytes < 0 {
		bad("executor resources", "are negative")
	}
	return errors.Join(problems...)
}

// wrongRole says why masters take a text for no role, and what to do about it; "" for a role.
func wrongRole(role string) string {
	switch role {
	case "*":
		return ""
	case "":
		return "it is empty; leave out the comma beside it"
	}
	for part := range strings.SplitSeq(role, "/") {
		switch {
		case part == "":
			return "it has a slash without a name on both sides; leave that out"
		case part == "." || part == ".." || part == "*":
			return fmt.Sprintf("%q is no name for a part of it; take another one", part)
		case part[0] == '-':
			return fmt.Sprintf("%q begins with a dash; leave that out", part)
		case strings.ContainsAny(part, "\t\n\v\f\r \x7f"):
			return fmt.Sprintf("%q has blanks; leave them out", part)
		}
	}
	return ""
}

// currentUser may be another one in a test.
var currentUser = user.Current

// withDefaults fills in what was left out.
func (c Config) withDefaults() Config {
	text := func(s *string, value string) {
		if *s == "" {
			*s = value
		}
	}
	span := func(d *time.Duration, value time.Duration) {
		if *d == 0 {
			*d = value
		}
	}
	text(&c.Name, "sluice")
	text(&c.RackAttribute, "rack")
	text(&c.ZoneAttribute, "zone")
	text(&c.GPUModelAttribute, "gpu_model")
	if u, err := currentUser(); err == nil {
		text(&c.User, u.Username)
	}
	if len(c.Roles) == 0 {
		c.Roles = []string{"*"}
	}
	span(&c.FailoverTimeout, 7*24*time.Hour)
	span(&c.OfferHold, 5*time.Minute)
	span(&c.DeclineFor, 5*time.Minute)
	span(&c.IdleAfter, 15*time.Minute)
	span(&c.OfferWait, 5*time.Second)
	span(&c.LaunchWindow, 5*time.Millisecond)
	span(&c.MaintenanceLead, 30*time.Minute)
	span(&c.ReconcileEvery, 10*time.Minute)
	if c.VolumeBytes == 0 {
		c.VolumeBytes = 1 << 30
	}
	if c.ExecutorCPUMilli == 0 {
		c.ExecutorCPUMilli = 100
	}
	if c.ExecutorMemoryBytes == 0 {
		c.ExecutorMemoryBytes = 32 << 20
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if c.Dial == nil {
		c.Dial = new(net.Dialer).DialContext
	}
	return c
}

// capabilities returns what tasks may ask for: persistent volumes only where there is a role to which their disk can be reserved.
func (c *Config) capabilities() cluster.Capabilities {
	can := capabilities
	if len(c.volumeRoles()) == 0 {
		can &^= cluster.CanVolumes
	}
	return can
}

// volumeRoles lists the roles that can have persistent volumes.
func (c *Config) volumeRoles() []string {
	return slices.DeleteFunc(slices.Clone(c.Roles), func(role string) bool { return role == "*" })
}

// codec returns how calls and events are written.
func (c *Config) codec() encoding.Codec {
	if c.JSON {
		return codecs.ByMediaType[codecs.MediaTypeJSON]
	}
	return codecs.ByMediaType[codecs.MediaTypeProtobuf]
}

// scheme returns that of the masters' addresses.
func (c *Config) scheme() string {
	if c.TLS != nil {
		return "https"
	}
	return "http"
}
