package main

import (
	"context"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/status"
)

// renewing secures connections, and ends them when the scheduler takes who made them no more. A connection goes on with the certificate
// that was shown when it began, however often it is replaced in its file; so whoever is refused on one begins another, with the
// certificate that is there now.
type renewing struct {
	credentials.TransportCredentials

	mu      sync.Mutex
	open    map[*renewable]struct{}
	refused string // why somebody was, since the last stream began; "" for nobody
}

// renewable is a connection that is known to be open until it is closed.
type renewable struct {
	net.Conn
	by  *renewing
	why atomic.Pointer[string] // it was ended
}

// Read implements net.Conn.
func (c *renewable) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if why := c.why.Load(); err != nil && why != nil {
		err = errors.New(*why)
	}
	return n, err
}

// Close implements net.Conn.
func (c *renewable) Close() error {
	c.by.mu.Lock()
	delete(c.by.open, c)
	c.by.mu.Unlock()
	return c.Conn.Close()
}

// ClientHandshake implements credentials.TransportCredentials.
func (r *renewing) ClientHandshake(ctx context.Context, authority string, raw net.Conn) (net.Conn, credentials.AuthInfo, error) {
	conn, info, err := r.TransportCredentials.ClientHandshake(ctx, authority, raw)
	if err != nil {
		return conn, info, err
	}
	c := &renewable{Conn: conn, by: r}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.open == nil {
		r.open = map[*renewable]struct{}{}
	}
	r.open[c] = struct{}{}
	return c, info, nil
}

// Clone implements credentials.TransportCredentials: what it makes is ended together with what r makes.
func (r *renewing) Clone() credentials.TransportCredentials { return r }

// end closes all connections if somebody was refused, and reports whether.
func (r *renewing) end() bool {
	r.mu.Lock()
	why, open := r.refused, r.open
	if r.refused = ""; why != "" {
		r.open = nil
	}
	r.mu.Unlock()
	if why == "" {
		return false
	}
	for c := range open { // in any order
		c.why.Store(&why)
		_ = c.Close()
	}
	return true
}

// intercept has the next stream begin on another connection when one was refused for who asks for it.
func (r *renewing) intercept(ctx context.Context, desc *grpc.StreamDesc, conn *grpc.ClientConn, method string, open grpc.Streamer, options ...grpc.CallOption) (grpc.ClientStream, error) {
	if r.end() {
		noticed, cancel := context.WithTimeout(ctx, noticeTime)
		conn.WaitForStateChange(noticed, connectivity.Ready)
		cancel()
	}
	stream, err := open(ctx, desc, conn, method, options...)
	if err != nil {
		return stream, err
	}
	return &refusable{stream, r}, nil
}

// noticeTime is enough for gRPC to notice that a connection was closed. If it is not, the stream fails, and the next one begins.
const noticeTime = 100 * time.Millisecond

// refusable is a stream that may be refused at any time.
type refusable struct {
	grpc.ClientStream
	by *renewing
}

// RecvMsg implements grpc.ClientStream.
func (s *refusable) RecvMsg(m any) error {
	err := s.ClientStream.RecvMsg(m)
	if status.Code(err) == codes.Unauthenticated {
		s.by.mu.Lock()
		s.by.refused = status.Convert(err).Message()
		s.by.mu.Unlock()
	}
	return err
}
