package replica

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/hashicorp/raft"
)

// Security says how members know each other: all show a certificate of the same authority that is for servers and has the name of a
// member's address.
type Security struct {
	Roots       *x509.CertPool
	Certificate func(*tls.ClientHelloInfo) (*tls.Certificate, error)
	Check       func(chain []*x509.Certificate) error // refuses what was revoked; nil refuses nothing
}

// What both ends of a connection say first. It is one line of JSON.
type greeting struct {
	Protocol string    // protocolName
	From, To string    // members
	Group    string    // that the sender is of; "" if of none yet
	Ask      *question // nil: what follows is raft's
}

const protocolName = "sluice-replica/1"

// question is asked of a member by another one.
type question struct{ Peers []Peer }

// answer is one line of JSON, too.
type answer struct {
	Name      string
	Begun     bool // it is part of a group
	Group     string
	Seed      bool // it is not, and has a history
	Looked    bool // it is not, and found that nobody is
	Filling   bool // see identity
	SamePeers bool
	Role      string
	Record    uint64
	Term      uint64 // of the last entry
	Entry     uint64 // the index of that
	API       string
}

const (
	maxLine      = 64 << 10
	linePatience = 5 * time.Second
	// maxUnknown bounds connections that have not said yet what they are. With one more the oldest is closed: a member says it at once.
	maxUnknown = 64
)

// link connects a member with the others. It is the layer of streams under raft's transport, beside which members ask each other how they
// are doing.
type link struct {
	config    Config
	log       *slog.Logger
	answer    func(question) answer
	group     func() string // the name of the own group, "" as long as there is none
	hangs     func() error  // why nothing may be sent to the others, nil: nothing is wrong
	transport *inbox

	accepted chan net.Conn
	closed   chan struct{}
	closing  sync.Once

	mu      sync.Mutex
	unknown []net.Conn // that have not said yet what they are, the oldest first
	told    []string   // members that were found to be of another group
}

var (
	_ raft.StreamLayer           = (*link)(nil)
	_ raft.ServerAddressProvider = (*link)(nil)
)

func newLink(c Config, log *slog.Logger, answer func(question) answer, group func() string, mayVote func(candidate string, term, index uint64) error, hear func(term, entry uint64), hangs func() error) *link {
	l := &link{
		config: c, log: log, answer: answer, group: group, hangs: hangs,
		accepted: make(chan net.Conn), closed: make(chan struct{}),
	}
	go l.listen()
	l.transport = newInbox(raft.NewNetworkTransportWithConfig(&raft.NetworkTransportConfig{
		Stream: l, ServerAddressProvider: l, MaxPool: 3, Timeout: 10 * time.Second, Logger: hashicorpLog(log),
	}), mayVote, hear, l.closed, log)
	return l
}

func (l *link) listen() {
	for {
		conn, err := l.config.Listener.Accept()
		if err != nil {
			select {
			case <-l.closed:
				return
			case <-time.After(100 * time.Millisecond): // such as no more files
				continue
			}
		}
		l.mu.Lock()
		if l.unknown = append(l.unknown, conn); len(l.unknown) > maxUnknown {
			_ = l.unknown[0].Close()
			l.unknown = slices.Delete(l.unknown, 0, 1)
		}
		l.mu.Unlock()
		go func() {
			if err := l.greet(conn); err != nil {
				l.log.Debug("a connection to this member came to nothing", "from", conn.RemoteAddr(), "error", err)
				_ = conn.Close()
			}
		}()
	}
}

// greet finds out what a connection is for.
func (l *link) greet(raw net.Conn) error {
	conn, hello, err := l.readGreeting(raw)
	l.mu.Lock()
	l.unknown = slices.DeleteFunc(l.unknown, func(c net.Conn) bool { return c == raw })
	l.mu.Unlock()
	switch {
	case err != nil:
		return err
	case hello.Ask != nil:
		err := writeLine(conn, l.answer(*hello.Ask))
		return errors.Join(err, conn.Close())
	}
	if err := conn.SetDeadline(time.Time{}); err != nil {
		return err
	}
	select {
	case l.accepted <- conn:
		return nil
	case <-l.closed:
		return errors.Join(ErrClosed, conn.Close())
	}
}

func (l *link) readGreeting(raw net.Conn) (net.Conn, greeting, error) {
	var hello greeting
	if err := raw.SetDeadline(time.Now().Add(linePatience)); err != nil {
		return nil, hello, err
	}
	conn := raw
	if s := l.config.Security; s != nil {
		secure := tls.Server(raw, &tls.Config{
			MinVersion: tls.VersionTLS13, GetCertificate: s.Certificate, ClientAuth: tls.RequireAnyClientCert, VerifyConnection: l.verifyPeer,
		})
		if err := secure.Handshake(); err != nil {
			return nil, hello, err
		}
		conn = secure
	}
	if err := readLine(conn, &hello); err != nil {
		return nil, hello, err
	}
	known := slices.ContainsFunc(l.config.Peers, func(p Peer) bool { return p.Name == hello.From && p.Name != l.config.Name })
	switch {
	case hello.Protocol != protocolName:
		return nil, hello, fmt.Errorf("replica: it speaks %q, not %q", hello.Protocol, protocolName)
	case hello.To != l.config.Name:
		return nil, hello, fmt.Errorf("replica: it looks for the member %q", hello.To)
	case !known:
		return nil, hello, fmt.Errorf("replica: %q is no other member", hello.From)
	case hello.Ask == nil && l.isAnother(hello.From, hello.Group):
		return nil, hello, fmt.Errorf("replica: %q is of another group", hello.From)
	}
	return conn, hello, nil
}

// isAnother reports whether a group that a member is of is another one than the own, and says so once.
func (l *link) isAnother(member, group string) bool {
	own := l.group()
	if group == "" || own == "" || group == own {
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if !slices.Contains(l.told, member) {
		l.told = append(l.told, member)
		l.log.Warn("a member's folder is of another group: it takes no part in this one until it has an empty folder", "peer", member)
	}
	return true
}

// verifyPeer makes sure that whoever connects is one of the members' machines: a user's certificate is not for servers.
func (l *link) verifyPeer(c tls.ConnectionState) error {
	intermediates := x509.NewCertPool()
	for _, cert := range c.PeerCertificates[1:] {
		intermediates.AddCert(cert)
	}
	chains, err := c.PeerCertificates[0].Verify(x509.VerifyOptions{
		Roots: l.config.Security.Roots, Intermediates: intermediates, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	})
	if err != nil {
		return err
	}
	if l.config.Security.Check != nil {
		if err := l.config.Security.Check(chains[0]); err != nil {
			return err
		}
	}
	for _, p := range l.config.Peers {
		host, _, _ := net.SplitHostPort(p.Address)
		if c.PeerCertificates[0].VerifyHostname(host) == nil {
			return nil
		}
	}
	return errors.New("replica: the certificate has no name of a member")
}

// ServerAddr returns where a member is reached by the configuration: what the log says of that is from before its address was changed, and
// tells nobody anything where all have been.
func (l *link) ServerAddr(id raft.ServerID) (raft.ServerAddress, error) {
	for _, p := range l.config.Peers {
		if raft.ServerID(p.Name) == id {
			return raft.ServerAddress(p.Address), nil
		}
	}
	return "", fmt.Errorf("replica: %q is none of the members", id)
}

// Dial opens a connection of raft's to a member.
func (l *link) Dial(address raft.ServerAddress, timeout time.Duration) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	for _, p := range l.config.Peers {
		if p.Address == string(address) {
			conn, err := l.open(ctx, p, nil)
			if err != nil {
				return nil, err
			}
			return calling{conn, l.hangs}, nil
		}
	}
	// One that is to leave the group: it is not told who it is.
	return nil, fmt.Errorf("replica: no member has the address %s", address)
}

// calling is a connection that raft calls another member on.
type calling struct {
	net.Conn
	hangs func() error
}

func (c calling) Write(b []byte) (int, error) {
	if err := c.hangs(); err != nil {
		return 0, err
	}
	return c.Conn.Write(b)
}

// open connects with a member and says what for.
func (l *link) open(ctx context.Context, p Peer, ask *question) (net.Conn, error) {
	raw, err := l.config.Dial(ctx, "tcp", p.Address)
	if err != nil {
		return nil, err
	}
	if err := raw.SetDeadline(time.Now().Add(linePatience)); err != nil {
		return nil, errors.Join(err, raw.Close())
	}
	conn := raw
	if s := l.config.Security; s != nil {
		host, _, _ := net.SplitHostPort(p.Address)
		secure := tls.Client(raw, &tls.Config{
			MinVersion: tls.VersionTLS13, RootCAs: s.Roots, ServerName: host,
			GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return s.Certificate(nil) },
			VerifyConnection: func(c tls.ConnectionState) error {
				if s.Check == nil {
					return nil
				}
				return s.Check(c.VerifiedChains[0])
			},
		})
		if err := secure.HandshakeContext(ctx); err != nil {
			return nil, errors.Join(err, raw.Close())
		}
		conn = secure
	}
	if err := writeLine(conn, greeting{Protocol: protocolName, From: l.config.Name, To: p.Name, Group: l.group(), Ask: ask}); err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	if ask == nil {
		err = conn.SetDeadline(time.Time{})
	}
	if err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return conn, nil
}

// askPatience is how long a member may take to answer, if an election timeout is no longer: where the network is slow, so are answers.
const askPatience = time.Second

func (l *link) ask(ctx context.Context, p Peer, q question) (a answer, err error) {
	ctx, cancel := context.WithTimeout(ctx, max(askPatience, l.config.Election))
	defer cancel()
	conn, err := l.open(ctx, p, &q)
	if err != nil {
		return a, err
	}
	defer context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })()
	err = readLine(conn, &a)
	return a, errors.Join(err, conn.Close())
}

func writeLine(w io.Writer, v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	_, err = w.Write(append(b, '\n'))
	return err
}

// readLine reads a line and not a byte more, as what follows may be somebody else's.
func readLine(r io.Reader, v any) error {
	var line bytes.Buffer
	var b [1]byte
	for b[0] != '\n' {
		if _, err := io.ReadFull(r, b[:]); err != nil {
			return err
		}
		if line.WriteByte(b[0]); line.Len() > maxLine {
			return errors.New("replica: a line is too long")
		}
	}
	return json.Unmarshal(line.Bytes(), v)
}

// Accept returns a connection that another member's raft opened.
func (l *link) Accept() (net.Conn, error) {
	select {
	case conn := <-l.accepted:
		return conn, nil
	case <-l.closed:
		return nil, ErrClosed
	}
}

// Close is called by raft's transport; the Member closes the link.
func (l *link) Close() error {
	var err error
	l.closing.Do(func() {
		close(l.closed)
		err = l.config.Listener.Close()
	})
	return err
}

// Addr returns the address of this member.
func (l *link) Addr() net.Addr { return address(l.config.own().Address) }

// own returns the member's own entry.
func (c Config) own() Peer {
	i := slices.IndexFunc(c.Peers, func(p Peer) bool { return p.Name == c.Name })
	return c.Peers[i]
}

// address is one of the configuration, as text.
type address string

func (a address) Network() string { return "tcp" }
func (a address) String() string  { return string(a) }

func (l *link) close() error { return errors.Join(l.transport.Close(), l.Close()) }
