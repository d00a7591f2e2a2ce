package mesostest

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	mesos "github.com/mesos/mesos-go/api/v1/lib"
)

// Config says how a Cluster is. The zero value is a master and no agents, with the real master's defaults.
type Config struct {
	Masters []string // host:port of each; default "master:5050". The first one leads

	AllocationInterval time.Duration // between rounds of offers; default 1 s
	HeartbeatInterval  time.Duration // default 15 s
	OfferTimeout       time.Duration // until an offer is rescinded, or an inverse one; 0 = never
	AgentTimeout       time.Duration // without a ping until an agent is unreachable; default 75 s
	ReregisterAfter    time.Duration // of an agent that has to find a new leader, or comes back; default 1 s
	ReregisterTimeout  time.Duration // until an agent that does not find the new leader is unreachable; default 10 min

	// Roles are those that frameworks may have, as the master's --roles says; nil allows all.
	Roles []string
	// Credentials are the principals and their secrets; nil lets everyone in. One with a colon is never let in, as by Mesos.
	Credentials map[string]string
	// KillPolicyOverrides: the kill policy of KILL holds, as with agents that run executors over HTTP. Otherwise it is
	// ignored, and the task's own holds.
	KillPolicyOverrides bool

	// Behave says what a task does. Nil: it starts after 100 ms and runs until it is killed. It is called under the
	// Cluster's lock and must not call the Cluster.
	Behave func(mesos.TaskInfo) Behaviour

	Clock Clock  // nil: the time package
	Seed  uint64 // of the random ids
}

// Cluster is a Mesos cluster: masters, of which at most one leads, and agents. It is safe for concurrent use.
type Cluster struct {
	config Config
	clock  Clock

	mu      sync.Mutex
	closed  bool
	rng     *rand.ChaCha8
	addrs   []string
	leader  string  // the address of the leading master, "" while there is none
	m       *master // what the leading master knows, nil while there is none
	down    map[string]bool
	agents  []*agent // all there ever were, in the order of their coming
	byID    map[string]*agent
	serial  int // of agent ids
	volumes int // that were made
	firstID string
	faults  faultState
	reg     registry
	history History
}

// registry is what the masters keep in their replicated log.
type registry struct {
	unreachable map[string]time.Time // agent → since
	gone        map[string]bool      // agents
	windows     []window             // the maintenance schedule
	machines    map[string]string    // hostname → "DRAINING" or "DOWN"; UP is absent
}

func newRegistry() registry {
	return registry{unreachable: make(map[string]time.Time), gone: make(map[string]bool), machines: make(map[string]string)}
}

// New returns a Cluster whose first master leads. Close it.
func New(config Config) *Cluster {
	def := func(d *time.Duration, value time.Duration) {
		if *d == 0 {
			*d = value
		}
	}
	def(&config.AllocationInterval, time.Second)
	def(&config.HeartbeatInterval, 15*time.Second)
	def(&config.AgentTimeout, 75*time.Second)
	def(&config.ReregisterAfter, time.Second)
	def(&config.ReregisterTimeout, 10*time.Minute)
	if len(config.Masters) == 0 {
		config.Masters = []string{"master:5050"}
	}
	if config.Behave == nil {
		config.Behave = func(mesos.TaskInfo) Behaviour { return Behaviour{Startup: 100 * time.Millisecond, Runs: Forever} }
	}
	if config.Clock == nil {
		config.Clock = wallClock{}
	}
	var seed [32]byte
	binary.LittleEndian.PutUint64(seed[:], config.Seed)
	c := &Cluster{
		config: config,
		clock:  config.Clock,
		rng:    rand.NewChaCha8(seed),
		addrs:  slices.Clone(config.Masters),
		down:   make(map[string]bool),
		byID:   make(map[string]*agent),
		reg:    newRegistry(),
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.elect(config.Masters[0])
	c.firstID = c.m.id
	return c
}

// Close ends all streams and stops all that is still to come.
func (c *Cluster) Close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.depose()
	for _, a := range c.agents {
		a.stop()
	}
	c.closed = true
}

// Elect makes the master at addr the leader, as after the failure of the one before; "" leaves the cluster without a
// leader until the next call. A leader that is deposed drops its streams without ending them, and what it knew is gone:
// frameworks must subscribe again with their ids, and agents come back by and by.
func (c *Cluster) Elect(addr string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.depose()
	if addr != "" {
		c.elect(addr)
	}
}

// ElectAnew is Elect of a master that has nothing of what the one before had written down, as with a registry in memory.
func (c *Cluster) ElectAnew(addr string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.depose()
	c.reg = newRegistry()
	c.elect(addr)
	c.m.waiting = make(map[string]bool)
	c.m.giveUp.cancel()
}

// SetMasterDown makes a master refuse connections, or no longer. The leader must be deposed with Elect first.
func (c *Cluster) SetMasterDown(addr string, down bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.down[addr] = down
}

// SetRecovering makes the leader answer 503, as it does while it reads its log; or no longer.
func (c *Cluster) SetRecovering(recovering bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.m != nil {
		c.m.recovering = recovering
	}
}

// SetStarting makes the leader answer 404, as it does for some milliseconds between its start and its recovery; or no
// longer.
func (c *Cluster) SetStarting(starting bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.m != nil {
		c.m.starting = starting
	}
}

// Leader returns the address of the leading master, "" if there is none.
func (c *Cluster) Leader() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.leader
}

func (c *Cluster) elect(addr string) {
	m := &master{
		c: c, id: c.uuidText(), addr: addr, started: c.clock.Now(),
		frameworks: make(map[string]*framework),
		completed:  make(map[string]*framework),
		offers:     make(map[string]*offer),
		inverse:    make(map[string]*inverseOffer),
		waiting:    make(map[string]bool),
	}
	c.leader, c.m = addr, m
	for _, a := range c.agents {
		if a.left || c.reg.gone[a.id] {
			continue
		}
		if _, lost := c.reg.unreachable[a.id]; !lost {
			m.waiting[a.id] = true
		}
		if a.reaches() {
			a.comeBack(c.config.ReregisterAfter)
		}
	}
	c.after(&m.tick, c.config.AllocationInterval, m.allocateAndRepeat)
	if len(m.waiting) > 0 {
		c.after(&m.giveUp, c.config.ReregisterTimeout, m.giveUpWaiting)
	}
}

// depose drops all that the leading master knows.
func (c *Cluster) depose() {
	m := c.m
	c.leader, c.m = "", nil
	if m == nil {
		return
	}
	m.tick.cancel()
	m.giveUp.cancel()
	for _, f := range m.frameworks {
		f.failover.cancel()
		f.drop()
	}
	for _, o := range m.offers {
		o.timeout.cancel()
	}
	for _, o := range m.inverse {
		o.timeout.cancel()
	}
	for _, a := range c.agents {
		a.forgetMaster()
	}
}

// uuid returns 16 random bytes in the form of a version 4 UUID.
func (c *Cluster) uuid() []byte {
	b := make([]byte, 16)
	_, _ = c.rng.Read(b) // never fails
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return b
}

func (c *Cluster) uuidText() string {
	b := c.uuid()
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}
