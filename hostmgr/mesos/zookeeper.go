package mesos

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-zookeeper/zk"
)

// zookeeper finds the leading master in ZooKeeper, where each master has an ephemeral node "json.info_<sequence>" under
// the path, with its MasterInfo as JSON. The one with the lowest sequence leads.
type zookeeper struct {
	conn   *zk.Conn
	path   string
	byName bool // masters are known by their hostnames, as certificates name them
	log    *slog.Logger
	failed atomic.Pointer[error] // why the last server that was tried could not be reached; nil if it could
}

// zkSession is the session timeout asked for.
const zkSession = 10 * time.Second

func newZooKeeper(m Masters, byName bool, dial func(context.Context, string, string) (net.Conn, error), log *slog.Logger) (*zookeeper, error) {
	z := &zookeeper{path: m.Path, byName: byName, log: log}
	conn, events, err := zk.Connect(m.Addresses, zkSession,
		zk.WithLogger(zkLog{log}), zk.WithLogInfo(false), zk.WithHostProvider(new(servers)),
		zk.WithDialer(func(network, address string, timeout time.Duration) (net.Conn, error) {
			ctx, cancel := context.WithTimeout(context.Background(), timeout)
			defer cancel()
			conn, err := dial(ctx, network, address)
			if err != nil {
				z.failed.Store(&err)
				return nil, err
			}
			z.failed.Store(nil)
			return &impatient{Conn: conn}, nil
		}))
	if err != nil {
		return nil, fmt.Errorf("mesos: zookeeper: %w", err)
	}
	go func() { // the library stops when nobody reads them
		for range events {
			continue
		}
	}()
	z.conn = conn
	return z, nil
}

// servers are those of the ensemble, by the names that they were given. The library's own list looks the names up once, when it begins, and
// takes none where one of them is not known then; here each connection looks up its own.
type servers struct {
	mu      sync.Mutex
	names   []string
	at      int // of the next one
	untried int // before all were tried in vain
}

// Init implements [zk.HostProvider].
func (s *servers) Init(names []string) error {
	s.names, s.untried = slices.Clone(names), len(names)
	rand.Shuffle(len(s.names), func(i, j int) { s.names[i], s.names[j] = s.names[j], s.names[i] })
	return nil
}

// Len implements [zk.HostProvider].
func (s *servers) Len() int { return len(s.names) }

// Next implements [zk.HostProvider]: the library pauses where all were tried.
func (s *servers) Next() (name string, pause bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if pause = s.untried == 0; pause {
		s.untried = len(s.names)
	}
	name = s.names[s.at]
	s.at = (s.at + 1) % len(s.names)
	s.untried--
	return name, pause
}

// Connected implements [zk.HostProvider].
func (s *servers) Connected() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.untried = len(s.names) - 1
}

// impatient is a connection that waits no longer for the answer to the first words than for others. The library waits ten times as
// long for that one, while other servers would answer.
type impatient struct {
	net.Conn
	begun bool // the first deadline was set; later ones are as long as the server wants the session to be
}

// SetReadDeadline implements net.Conn.
func (c *impatient) SetReadDeadline(t time.Time) error {
	if latest := time.Now().Add(zkSession * 2 / 3); !c.begun && t.After(latest) {
		t = latest
	}
	c.begun = true
	return c.Conn.SetReadDeadline(t)
}

func (z *zookeeper) close() { z.conn.Close() }

// next implements detector. A change of the nodes that leaves the leader as it is is not a change. When ctx ends meanwhile the
// connection is closed, for want of another way to end a question to a server that does not answer.
func (z *zookeeper) next(ctx context.Context) (string, <-chan struct{}, error) {
	defer context.AfterFunc(ctx, z.conn.Close)()
	for first := true; ; first = false {
		leader, address, changes, err := z.look()
		if err != nil {
			return "", nil, err
		}
		if address != "" {
			changed := make(chan struct{})
			go z.follow(ctx, leader, changes, changed)
			return address, changed, nil
		}
		if first {
			z.log.Warn("waiting for a master: ZooKeeper has none under the path", "path", z.path)
		}
		select {
		case <-changes: // nobody leads
		case <-ctx.Done():
			return "", nil, ctx.Err()
		}
	}
}

// follow closes changed when another master than leader leads. While ZooKeeper cannot be asked, that is not known: a master that has lost it
// ends, and with it the subscription, and one that has not leads on.
func (z *zookeeper) follow(ctx context.Context, leader string, changes <-chan zk.Event, changed chan<- struct{}) {
	defer close(changed)
	for {
		select {
		case <-ctx.Done():
			return
		case <-changes:
		}
		now, _, next, err := z.look()
		for err != nil {
			if pauseFor(ctx, time.Second) != nil {
				return
			}
			now, _, next, err = z.look()
		}
		if now != leader {
			return
		}
		changes = next
	}
}

// look returns the leader's node and address, "" if there is none, and a channel that tells of changes.
func (z *zookeeper) look() (node, address string, changes <-chan zk.Event, err error) {
	nodes, _, changes, err := z.conn.ChildrenW(z.path)
	if errors.Is(err, zk.ErrNoNode) {
		return z.lookForPath()
	}
	if why := z.failed.Load(); errors.Is(err, zk.ErrNoServer) && why != nil {
		err = *why
	}
	if err != nil {
		return "", "", nil, fmt.Errorf("mesos: zookeeper: list %s: %w", z.path, err)
	}
	if node = leadingNode(nodes); node == "" {
		return "", "", changes, nil
	}
	data, _, err := z.conn.Get(path.Join(z.path, node))
	switch {
	case errors.Is(err, zk.ErrNoNode): // it has just gone, which the watch tells too
		return "", "", changes, nil
	case err != nil:
		return "", "", nil, fmt.Errorf("mesos: zookeeper: read %s: %w", node, err)
	}
	if address, err = masterAddress(data, z.byName); err != nil {
		return "", "", nil, fmt.Errorf("mesos: zookeeper: %s/%s: %w", z.path, node, err)
	}
	return node, address, changes, nil
}

// lookForPath waits for the first master, which makes the path.
func (z *zookeeper) lookForPath() (node, address string, changes <-chan zk.Event, err error) {
	exists, _, changes, err := z.conn.ExistsW(z.path)
	switch {
	case err != nil:
		return "", "", nil, fmt.Errorf("mesos: zookeeper: look for %s: %w", z.path, err)
	case exists:
		return z.look()
	}
	return "", "", changes, nil
}

// leadingNode returns the node of the lowest sequence, "" if there is none.
func leadingNode(nodes []string) string {
	sequence := func(node string) (int64, bool) {
		digits, ok := strings.CutPrefix(node, "json.info_")
		n, err := strconv.ParseInt(digits, 10, 64)
		return n, ok && err == nil
	}
	nodes = slices.DeleteFunc(slices.Clone(nodes), func(n string) bool { _, ok := sequence(n); return !ok })
	if len(nodes) == 0 {
		return ""
	}
	return slices.MinFunc(nodes, func(a, b string) int {
		x, _ := sequence(a)
		y, _ := sequence(b)
		return int(min(max(x-y, -1), 1))
	})
}

// masterAddress reads the address in a MasterInfo, with the hostname in place of the IP address if so wished.
func masterAddress(data []byte, byName bool) (string, error) {
	var info struct {
		Address struct {
			Hostname, IP string
			Port         int
		}
		Hostname string
		Port     int
	}
	if err := json.Unmarshal(data, &info); err != nil {
		return "", fmt.Errorf("is not the JSON of a MasterInfo: %w", err)
	}
	host, port := cmp.Or(info.Address.IP, info.Address.Hostname, info.Hostname), info.Address.Port
	if byName {
		host = cmp.Or(info.Address.Hostname, info.Hostname, info.Address.IP)
	}
	if port == 0 {
		port = info.Port
	}
	if host == "" || port < 1 || port > 65535 {
		return "", errors.New("has no address")
	}
	return net.JoinHostPort(host, strconv.Itoa(port)), nil
}

// zkLog passes on what the library complains about.
type zkLog struct{ log *slog.Logger }

func (l zkLog) Printf(format string, args ...any) {
	l.log.Debug("zookeeper: " + fmt.Sprintf(format, args...))
}
