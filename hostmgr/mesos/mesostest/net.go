package mesostest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"sync"

	"google.golang.org/grpc/test/bufconn"
)

// Net serves a Cluster's masters in memory.
type Net struct {
	c         *Cluster
	servers   map[string]*http.Server
	listeners map[string]*bufconn.Listener
	serving   sync.WaitGroup
}

// NewNet begins to serve. Close it before the Cluster.
func NewNet(c *Cluster) *Net {
	n := &Net{c: c, servers: make(map[string]*http.Server), listeners: make(map[string]*bufconn.Listener)}
	for _, addr := range c.addrs {
		l := bufconn.Listen(256 << 10)
		s := &http.Server{Handler: c.Handler(addr), ErrorLog: log.New(io.Discard, "", 0)}
		n.servers[addr], n.listeners[addr] = s, l
		n.serving.Go(func() {
			if err := s.Serve(l); !errors.Is(err, http.ErrServerClosed) {
				panic(err) // a listener in memory does not fail
			}
		})
	}
	return n
}

// DialContext connects to a master, for an http.Transport. A master that is down refuses.
func (n *Net) DialContext(ctx context.Context, _, addr string) (net.Conn, error) {
	l := n.listeners[addr]
	n.c.mu.Lock()
	down := n.c.down[addr]
	n.c.mu.Unlock()
	if l == nil || down {
		return nil, fmt.Errorf("mesostest: connection to %s refused", addr)
	}
	return l.DialContext(ctx)
}

// Close breaks all connections.
func (n *Net) Close() {
	for _, s := range n.servers {
		_ = s.Close()
	}
	n.serving.Wait()
}
