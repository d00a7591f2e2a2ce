package hostmgr

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	mathrand "math/rand/v2"
	"time"

	"google.golang.org/grpc"

	"github.com/sluice-scheduler/sluice/cluster"
	sluicev1 "github.com/sluice-scheduler/sluice/proto/sluice/v1"
)

// Errors of Shard.Run.
var (
	// ErrRejected: the scheduler will not have this shard as it is. The error says what is wrong and what to do.
	ErrRejected = errors.New("hostmgr: the scheduler rejected the shard")
	// ErrOtherCluster: the shard has served another cluster, and may not mix their runs.
	ErrOtherCluster = errors.New("hostmgr: the shard belongs to another cluster")
)

// protocolVersion is the version of the streams that is spoken here.
const protocolVersion = 1

// Bounds of the wait before the next attempt to connect. It doubles from the first to the second, with jitter, so that
// a thousand shards do not come back at once. The second is well below scheduler.unreachable_after: a scheduler that comes back hears of
// all hosts before it gives one up.
const (
	minBackoff = 100 * time.Millisecond
	maxBackoff = 2 * time.Second
)

// ShardConfig is what a Shard is made of.
type ShardConfig struct {
	Name    cluster.ShardID // unique among the scheduler's shards
	Kind    string          // of the driver, for people: "local", "fleet"
	Version string          // of the software, for people

	// Driver is started by Run. Closing it, after Run has returned, is the caller's.
	Driver Driver
	// Conn leads to the scheduler and stays the caller's. Over a network it needs keepalive, or a scheduler that
	// vanishes without a word goes unnoticed.
	Conn *grpc.ClientConn
	// Cluster remembers the cluster whose tasks the driver runs; for another one Run fails with ErrRejected or ErrOtherCluster,
	// or waits for its own if it has served that. Nil is for drivers that keep nothing over a restart.
	Cluster ClusterStore

	Log *slog.Logger // nil discards everything
}

// Shard connects one driver with the scheduler, for ever: when the scheduler goes away the tasks run on, and when it is
// back it gets the whole list of hosts, the inventory, and every status that it has not acknowledged.
//
// Status and commands have a stream of their own, on which nothing waits behind usage and logs. What is to be told is
// kept as the latest status of each run (see outbox): a scheduler that does not read costs no memory and holds no driver
// up. Commands for one run are carried out in order, for different runs side by side.
type Shard struct {
	config ShardConfig
	id     string // of this process, in the Hello
	client sluicev1.HostManagerServiceClient
	log    *slog.Logger
	out    *outbox
	usage  *usageBox
}

// NewShard checks the configuration. The name follows the rules for names of jobs, without '.'; the scheduler checks it.
func NewShard(c ShardConfig) (*Shard, error) {
	var problems []error
	if c.Name == "" {
		problems = append(problems, errors.New("hostmgr: a shard needs a name"))
	}
	if c.Driver == nil || c.Conn == nil {
		problems = append(problems, errors.New("hostmgr: a shard needs a driver and a connection"))
	}
	if err := errors.Join(problems...); err != nil {
		return nil, err
	}
	if c.Cluster == nil {
		c.Cluster = &inMemory{folder: randomID()}
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	s := &Shard{
		config: c,
		id:     randomID(),
		client: sluicev1.NewHostManagerServiceClient(c.Conn),
		log:    c.Log.With("shard", c.Name),
		out:    newOutbox(),
		usage:  newUsageBox(),
	}
	_, s.out.confirm = c.Driver.(Acknowledger)
	s.out.can = capabilitiesOf(c.Driver)
	return s, nil
}

func randomID() string {
	var id [16]byte
	_, _ = rand.Read(id[:]) // never fails
	return hex.EncodeToString(id[:])
}

// Run starts the driver and serves the scheduler until ctx ends, when it returns nil, or until trying again is useless:
// the driver does not start or comes to an end (see Ender), or the scheduler rejects the shard for good, without ever having
// taken it. Call it once.
func (s *Shard) Run(ctx context.Context) error {
	if err := s.config.Driver.Start(ctx, sink{s}); err != nil {
		if ctx.Err() != nil {
			return nil
		}
		return fmt.Errorf("hostmgr: start the driver: %w", err)
	}
	d, ok := s.config.Driver.(Ender)
	if !ok {
		return s.keepConnected(ctx)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	connected := make(chan error, 1)
	go func() { connected <- s.keepConnected(ctx) }()
	select {
	case err := <-connected:
		return err
	case err := <-d.Ended():
		cancel()
		return fmt.Errorf("hostmgr: the driver has ended: %w", errors.Join(err, <-connected))
	}
}

// keepConnected serves the scheduler, connecting again whenever a session ends. Once a scheduler has taken the shard, no
// refusal is for good: one that was started over the wrong folder, say, is put right, and what runs here must not be without
// its host manager then.
func (s *Shard) keepConnected(ctx context.Context) error {
	backoff, shown, served := minBackoff, "", false
	for {
		welcomed, err := s.connect(ctx)
		refused := errors.Is(err, ErrRejected) || errors.Is(err, ErrOtherCluster) || errors.Is(err, errClusterStore)
		switch {
		case ctx.Err() != nil:
			return nil
		case refused && !served:
			return err
		}
		served = served || welcomed && !refused
		if welcomed {
			backoff, shown = minBackoff, ""
		}
		level := slog.LevelDebug
		if text := err.Error(); text != shown { // once is enough, however long it lasts
			level, shown = slog.LevelWarn, text
		}
		s.log.Log(ctx, level, "no connection to the scheduler, trying again", "error", err)
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(backoff/2 + mathrand.N(backoff/2)):
		}
		backoff = min(2*backoff, maxBackoff)
		s.config.Conn.ResetConnectBackoff() // ours is the one that counts
	}
}

// sink is the Shard as its driver sees it.
type sink struct{ s *Shard }

var _ Sink = sink{}

func (k sink) ReportHosts(hosts []Host)  { k.s.out.setHosts(hosts) }
func (k sink) ReportHealth(h Health)     { k.s.out.reportHealth(h) }
func (k sink) ReportUsage(usage []Usage) { k.s.usage.put(usage) }

func (k sink) ReportStatus(s Status) {
	if _, ok := runStates[s.State]; !ok {
		k.s.log.Error("the driver reported a state that no driver may report", "run", s.Run, "state", s.State)
		return
	}
	k.s.out.report(s, false)
}
