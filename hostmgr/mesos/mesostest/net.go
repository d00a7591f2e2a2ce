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
	"time"

	"google.golang.org/grpc/test/bufconn"
)

// Net serves a Cluster's masters in memory.
type Net struct {
	c         *Cluster
	servers   map[string]*http.Server
	listeners map[string]*bufconn.Listener
	serving   sync.WaitGroup

	mu     sync.Mutex
	silent chan struct{} // closed when the silence ends; nil while there is none
	lost   []net.Conn    // closed by clients in a silence, of which the masters never hear
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
	if err := n.hear(ctx.Done()); err != nil {
		return nil, fmt.Errorf("mesostest: dial %s: %w", addr, context.Cause(ctx))
	}
	l := n.listeners[addr]
	n.c.mu.Lock()
	down := n.c.down[addr]
	n.c.mu.Unlock()
	if l == nil || down {
		return nil, fmt.Errorf("mesostest: connection to %s refused", addr)
	}
	conn, err := l.DialContext(ctx)
	if err != nil {
		return nil, err
	}
	return &wire{Conn: conn, n: n, closed: make(chan struct{})}, nil
}

// SetSilent begins or ends a silence: nothing comes through in either direction, no end of a connection is seen at the
// other end, and new connections wait. A connection that its client closes in a silence stays open for the master.
func (n *Net) SetSilent(silent bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	switch {
	case silent && n.silent == nil:
		n.silent = make(chan struct{})
	case !silent && n.silent != nil:
		close(n.silent)
		n.silent = nil
	}
}

// hear waits for the end of a silence, or for done.
func (n *Net) hear(done <-chan struct{}) error {
	for {
		n.mu.Lock()
		silent := n.silent
		n.mu.Unlock()
		if silent == nil {
			return nil
		}
		select {
		case <-silent:
		case <-done:
			return net.ErrClosed
		}
	}
}

// Close breaks all connections.
func (n *Net) Close() {
	n.SetSilent(false)
	for _, s := range n.servers {
		_ = s.Close()
	}
	for _, conn := range n.lost {
		_ = conn.Close()
	}
	n.serving.Wait()
}

// wire is a client's end of a connection.
type wire struct {
	net.Conn
	n      *Net
	once   sync.Once
	closed chan struct{}
}

func (w *wire) Read(b []byte) (int, error) {
	got, err := w.Conn.Read(b)
	if err := w.n.hear(w.closed); err != nil {
		return 0, err
	}
	return got, err
}

func (w *wire) Write(b []byte) (int, error) {
	if err := w.n.hear(w.closed); err != nil {
		return 0, err
	}
	return w.Conn.Write(b)
}

func (w *wire) Close() (err error) {
	w.once.Do(func() {
		close(w.closed)
		w.n.mu.Lock()
		defer w.n.mu.Unlock()
		if w.n.silent == nil {
			err = w.Conn.Close()
			return
		}
		w.n.lost = append(w.n.lost, w.Conn)
		err = w.Conn.SetDeadline(time.Now()) // wakes who reads or writes here
	})
	return err
}
