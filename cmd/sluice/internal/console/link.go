package console

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"strings"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"

	sluicev1 "github.com/sluice-scheduler/sluice/proto/sluice/v1"
)

const (
	maxAnswerBytes = 64 << 20
	// maxCredential bounds the Authorization header that is passed on: none that is longer is right.
	maxCredential = 4 << 10
)

// conn is one end of a connection in memory, which the server takes for the browser's.
type conn struct {
	net.Conn
	from address
	tls  *tls.ConnectionState // nil: without
}

// RemoteAddr implements [net.Conn].
func (c *conn) RemoteAddr() net.Addr { return c.from }

// address is that of a browser, as net/http gives it.
type address string

// Network implements [net.Addr].
func (address) Network() string { return "tcp" }

// String implements [net.Addr].
func (a address) String() string { return string(a) }

// listener hands connections to the server.
type listener struct {
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

var _ net.Listener = (*listener)(nil)

func newListener() *listener {
	return &listener{conns: make(chan net.Conn), closed: make(chan struct{})}
}

// Accept implements [net.Listener].
func (l *listener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

// Close implements [net.Listener].
func (l *listener) Close() error {
	l.once.Do(func() { close(l.closed) })
	return nil
}

// Addr implements [net.Listener].
func (l *listener) Addr() net.Addr { return address("memory") }

// dial connects as the browser that made a request.
func (l *listener) dial(ctx context.Context, r *http.Request) (net.Conn, error) {
	client, server := net.Pipe()
	select {
	case l.conns <- &conn{server, address(r.RemoteAddr), r.TLS}:
		return client, nil
	case <-l.closed:
		return nil, errors.New("the scheduler is stopping")
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Credentials are those that the API of a console has to be made with: it takes who made a request for who calls.
func Credentials() credentials.TransportCredentials { return caller{insecure.NewCredentials()} }

// caller tells the server what the browser's handshake has verified.
type caller struct {
	credentials.TransportCredentials
}

// ServerHandshake implements [credentials.TransportCredentials].
func (caller) ServerHandshake(c net.Conn) (net.Conn, credentials.AuthInfo, error) {
	own, ok := c.(*conn)
	switch {
	case !ok:
		return nil, nil, errors.New("console: only pages connect here")
	case own.tls == nil:
		return c, nil, nil
	}
	return c, credentials.TLSInfo{
		State: *own.tls, CommonAuthInfo: credentials.CommonAuthInfo{SecurityLevel: credentials.PrivacyAndIntegrity},
	}, nil
}

// Clone implements [credentials.TransportCredentials].
func (c caller) Clone() credentials.TransportCredentials { return c }

// visit is one request of a browser, with clients that call as whoever made it.
type visit struct {
	ctx     context.Context
	request *http.Request
	conn    *grpc.ClientConn
	user    string // "" where nobody is asked

	jobs    sluicev1.JobServiceClient
	tasks   sluicev1.TaskServiceClient
	pools   sluicev1.PoolServiceClient
	hosts   sluicev1.HostServiceClient
	cluster sluicev1.ClusterServiceClient
	places  sluicev1.DiscoveryServiceClient
	volumes sluicev1.VolumeServiceClient
}

// visit finds out who made a request. The caller closes it. Every page begins so: nobody is told which pages there are who does not
// say who he is.
func (c *Console) visit(ctx context.Context, r *http.Request) (*visit, error) {
	conn, err := grpc.NewClient("passthrough:///console", grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithNoProxy(),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxAnswerBytes)),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return c.listener.dial(ctx, r) }))
	if err != nil {
		return nil, err
	}
	if header := r.Header.Get("Authorization"); header != "" {
		ctx = metadata.AppendToOutgoingContext(ctx, "authorization", credential(header))
	}
	who, err := sluicev1.NewAccessServiceClient(conn).WhoAmI(ctx, &sluicev1.WhoAmIRequest{})
	if err != nil {
		_ = conn.Close()
		return nil, err
	}
	return &visit{
		ctx: ctx, request: r, conn: conn, user: who.GetUser(),
		jobs:    sluicev1.NewJobServiceClient(conn),
		tasks:   sluicev1.NewTaskServiceClient(conn),
		pools:   sluicev1.NewPoolServiceClient(conn),
		hosts:   sluicev1.NewHostServiceClient(conn),
		cluster: sluicev1.NewClusterServiceClient(conn),
		places:  sluicev1.NewDiscoveryServiceClient(conn),
		volumes: sluicev1.NewVolumeServiceClient(conn),
	}, nil
}

func (v *visit) close() { _ = v.conn.Close() }

// credential returns the Authorization header as it may be passed on. What cannot be one is refused as a wrong one is.
func credential(header string) string {
	strange := strings.ContainsFunc(header, func(r rune) bool { return r < ' ' || r > '~' })
	if strange || len(header) > maxCredential {
		return "?"
	}
	return header
}
