package replica

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"log/slog"
	"math/big"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// issued is a certificate, and the key of it.
type issued struct {
	*x509.Certificate
	key *ecdsa.PrivateKey
}

// issue makes a certificate: of an authority if it is for nobody, and signed by itself if by is nil.
func issue(t *testing.T, by *issued, host string, usage x509.ExtKeyUsage) *issued {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	c := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: host == "", BasicConstraintsValid: true,
	}
	if host != "" {
		c.DNSNames, c.ExtKeyUsage = []string{host}, []x509.ExtKeyUsage{usage}
	}
	if by == nil {
		by = &issued{c, key}
	}
	der, err := x509.CreateCertificate(rand.Reader, c, by.Certificate, &key.PublicKey, by.key)
	require.NoError(t, err)
	c, err = x509.ParseCertificate(der)
	require.NoError(t, err)
	return &issued{c, key}
}

// Members know each other by certificates of the same authority, for the host of a member, that were not revoked; at both ends.
func TestWhoIsAMember(t *testing.T) {
	t.Parallel()
	authority, stranger := issue(t, nil, "", 0), issue(t, nil, "", 0)
	between := issue(t, authority, "", 0)
	good := issue(t, authority, "localhost", x509.ExtKeyUsageServerAuth)
	security := func(revoked *issued, chain ...*issued) *Security {
		c := tls.Certificate{PrivateKey: chain[0].key}
		for _, i := range chain {
			c.Certificate = append(c.Certificate, i.Raw)
		}
		s := &Security{Roots: x509.NewCertPool(), Certificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return &c, nil }}
		s.Roots.AddCert(authority.Certificate)
		if revoked != nil {
			s.Check = func(chain []*x509.Certificate) error {
				if chain[0].Equal(revoked.Certificate) {
					return errors.New("it was revoked")
				}
				return nil
			}
		}
		return s
	}
	other := issue(t, authority, "localhost", x509.ExtKeyUsageServerAuth)
	for name, c := range map[string]struct {
		here, there *Security
		refused     bool
	}{
		"both are members":               {security(nil, good), security(nil, other), false},
		"neither was revoked":            {security(stranger, good), security(stranger, other), false},
		"by an authority in between":     {security(nil, good), security(nil, issue(t, between, "localhost", x509.ExtKeyUsageServerAuth), between), false},
		"from one in between":            {security(nil, issue(t, between, "localhost", x509.ExtKeyUsageServerAuth), between), security(nil, good), false},
		"who asks was revoked":           {security(nil, good), security(good, other), true},
		"who is asked was revoked":       {security(other, good), security(nil, other), true},
		"another authority asks":         {security(nil, issue(t, stranger, "localhost", x509.ExtKeyUsageServerAuth)), security(nil, other), true},
		"another authority is asked":     {security(nil, good), security(nil, issue(t, stranger, "localhost", x509.ExtKeyUsageServerAuth)), true},
		"another host asks":              {security(nil, issue(t, authority, "elsewhere", x509.ExtKeyUsageServerAuth)), security(nil, other), true},
		"another host is asked":          {security(nil, good), security(nil, issue(t, authority, "elsewhere", x509.ExtKeyUsageServerAuth)), true},
		"a user asks":                    {security(nil, issue(t, authority, "localhost", x509.ExtKeyUsageClientAuth)), security(nil, other), true},
		"one in between that is missing": {security(nil, issue(t, between, "localhost", x509.ExtKeyUsageServerAuth)), security(nil, other), true},
	} {
		t.Run(name, func(t *testing.T) {
			open := func() net.Listener {
				l, err := net.Listen("tcp", "localhost:0")
				require.NoError(t, err)
				return l
			}
			at := func(l net.Listener) string {
				_, port, err := net.SplitHostPort(l.Addr().String())
				require.NoError(t, err)
				return net.JoinHostPort("localhost", port)
			}
			here, there := open(), open()
			peers := []Peer{{"n1", at(here)}, {"n2", at(there)}}
			linked := func(name string, l net.Listener, s *Security) *link {
				k := newLink(Config{Name: name, Peers: peers, Listener: l, Security: s, Dial: new(net.Dialer).DialContext, Election: election},
					slog.New(slog.DiscardHandler), func(question) answer { return answer{Name: name} }, func() string { return "" },
					func(string, uint64, uint64) error { return nil }, func(uint64, uint64) {}, func() error { return nil })
				t.Cleanup(func() { _ = k.close() })
				return k
			}
			linked("n2", there, c.there)
			a, err := linked("n1", here, c.here).ask(t.Context(), peers[1], question{})
			if c.refused {
				require.Error(t, err)
				return
			}
			require.NoError(t, err)
			require.Equal(t, "n2", a.Name)
		})
	}
}
