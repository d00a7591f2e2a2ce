package pki

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// newAuthority makes an authority with the certificates of a server and of the client "ann", for so many days.
func newAuthority(t *testing.T, days int) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "tls")
	require.NoError(t, Init(dir))
	require.NoError(t, Issue(dir, Request{Name: "server", Hosts: []string{"127.0.0.1", "localhost"}, Days: 1}))
	require.NoError(t, Issue(dir, Request{Name: "ann", Groups: []string{"red"}, Days: days}))
	return dir
}

func serverOf(t *testing.T, dir, crl string) *Server {
	t.Helper()
	s, err := NewServer(ServerFiles{
		Cert: filepath.Join(dir, "server.pem"), Key: filepath.Join(dir, "server-key.pem"), ClientCA: filepath.Join(dir, "ca.pem"), CRL: crl,
	})
	require.NoError(t, err)
	return s
}

// meet has a client with the certificate NAME of its folder, "" for none, speak with the server, and returns whom the
// server saw.
func meet(t *testing.T, s *Server, ca, dir, name string) (user string, err error) {
	t.Helper()
	files := ClientFiles{CA: ca}
	if name != "" {
		files.Cert, files.Key = filepath.Join(dir, name+".pem"), filepath.Join(dir, name+"-key.pem")
	}
	config, err := Client(files)
	require.NoError(t, err)
	listener, err := tls.Listen("tcp", "127.0.0.1:0", s.Config())
	require.NoError(t, err)
	defer func() { _ = listener.Close() }()
	seen := make(chan string, 1)
	failed := make(chan error, 1)
	go func() {
		conn, err := listener.Accept()
		if err == nil {
			err = conn.(*tls.Conn).Handshake()
		}
		failed <- err
		if err == nil {
			name := ""
			if chains := conn.(*tls.Conn).ConnectionState().VerifiedChains; len(chains) > 0 {
				name = chains[0][0].Subject.CommonName
			}
			seen <- name
		}
		if conn != nil {
			_ = conn.Close()
		}
	}()
	conn, err := tls.DialWithDialer(&net.Dialer{Timeout: 10 * time.Second}, "tcp", listener.Addr().String(), config)
	if err == nil {
		_, err = conn.Read(make([]byte, 1)) // with TLS 1.3 the server's refusal comes with the first read
		_ = conn.Close()
	}
	if serr := <-failed; serr != nil {
		return "", serr
	}
	if errors.Is(err, io.EOF) {
		err = nil
	}
	if err != nil {
		return "", err
	}
	return <-seen, nil
}

func TestCertificates(t *testing.T) {
	dir := newAuthority(t, 1)
	ca := filepath.Join(dir, "ca.pem")
	user, err := meet(t, serverOf(t, dir, ""), ca, dir, "ann")
	require.NoError(t, err)
	require.Equal(t, "ann", user)
	user, err = meet(t, serverOf(t, dir, ""), ca, dir, "")
	require.NoError(t, err, "a client without a certificate may have a token")
	require.Empty(t, user)

	_, err = meet(t, serverOf(t, dir, ""), ca, dir, "server")
	require.Error(t, err, "a server's certificate is no client's")

	foreign := newAuthority(t, 1)
	_, err = meet(t, serverOf(t, dir, ""), ca, foreign, "ann")
	require.ErrorContains(t, err, "unknown authority")
	_, err = meet(t, serverOf(t, foreign, ""), ca, dir, "ann")
	require.Error(t, err, "nor does a client speak with a foreign server")

	expired := newAuthority(t, 0)
	_, err = meet(t, serverOf(t, expired, ""), filepath.Join(expired, "ca.pem"), expired, "ann")
	require.ErrorContains(t, err, "expired")
}

// Who replaces a certificate writes two files, one after the other, and may write something else. The one before goes on meanwhile.
func TestACertificateIsReplaced(t *testing.T) {
	dir := newAuthority(t, 1)
	ca, in := filepath.Join(dir, "ca.pem"), func(name string) string { return filepath.Join(dir, name) }
	warned := make(chan error, 10)
	s, err := NewServer(ServerFiles{Cert: in("server.pem"), Key: in("server-key.pem"), ClientCA: ca, Warn: func(err error) { warned <- err }})
	require.NoError(t, err)
	serial := func() string {
		s.own.looked = time.Time{}
		own, err := s.Config().GetCertificate(nil)
		require.NoError(t, err)
		return own.Leaf.SerialNumber.String()
	}
	before := serial()
	require.NoError(t, os.WriteFile(in("server.pem"), []byte("none"), 0o600))
	require.Equal(t, before, serial())
	require.Equal(t, before, serial())
	require.ErrorContains(t, <-warned, "server.pem")
	user, err := meet(t, s, ca, dir, "ann")
	require.NoError(t, err)
	require.Equal(t, "ann", user)

	require.NoError(t, Issue(dir, Request{Name: "next", Hosts: []string{"127.0.0.1"}, Days: 1}))
	require.NoError(t, os.Rename(in("next.pem"), in("server.pem")))
	require.Equal(t, before, serial(), "its key is not there yet")
	require.NoError(t, os.Rename(in("next-key.pem"), in("server-key.pem")))
	require.NotEqual(t, before, serial())
	require.NoError(t, os.Remove(in("server.pem")))
	serial()
	require.ErrorContains(t, <-warned, "server.pem")
	require.Empty(t, warned, "once for each time")
}

// A client shows the certificate that is in its file, or the one before while that cannot be read.
func TestAClientsCertificateIsReplaced(t *testing.T) {
	dir := newAuthority(t, 1)
	in := func(name string) string { return filepath.Join(dir, name) }
	files := ClientFiles{CA: in("ca.pem"), Cert: in("ann.pem"), Key: in("ann-key.pem")}
	config, err := Client(files)
	require.NoError(t, err)
	asked := &tls.CertificateRequestInfo{Version: tls.VersionTLS13, SignatureSchemes: []tls.SignatureScheme{tls.ECDSAWithP256AndSHA256}}
	shown := func() string {
		own, err := config.GetClientCertificate(asked)
		require.NoError(t, err)
		return own.Leaf.Subject.CommonName
	}
	later := func(name string) { // two files of the same moment and length would be the same
		at := time.Now().Add(time.Minute)
		require.NoError(t, os.Chtimes(in(name), at, at))
		time.Sleep(lookEvery)
	}
	require.Equal(t, "ann", shown())
	require.NoError(t, Issue(dir, Request{Name: "eve", Days: 1}))
	require.NoError(t, os.Rename(in("eve.pem"), in("ann.pem")))
	later("ann.pem")
	require.Equal(t, "ann", shown(), "the key of the new one is not there yet")
	require.NoError(t, os.Rename(in("eve-key.pem"), in("ann-key.pem")))
	require.Equal(t, "eve", shown())

	expired := newAuthority(t, 0)
	in = func(name string) string { return filepath.Join(expired, name) }
	config, err = Client(ClientFiles{CA: in("ca.pem"), Cert: in("ann.pem"), Key: in("ann-key.pem")})
	require.NoError(t, err)
	require.Equal(t, "ann", shown(), "the server says that it has expired")
	require.NoError(t, os.Remove(in("ann-key.pem")))
	later("ann.pem")
	_, err = config.GetClientCertificate(asked)
	require.ErrorContains(t, err, "ann.pem: open")
}

func TestRevoked(t *testing.T) {
	dir := newAuthority(t, 1)
	ca := filepath.Join(dir, "ca.pem")
	require.NoError(t, Issue(dir, Request{Name: "bob", Days: 1}))
	require.NoError(t, Issue(dir, Request{Name: "carl", Days: 1}))
	crl, err := Revoke(dir, filepath.Join(dir, "bob.pem"))
	require.NoError(t, err)
	again, err := Revoke(dir, filepath.Join(dir, "bob.pem"))
	require.NoError(t, err)
	require.Equal(t, crl, again)
	s := serverOf(t, dir, crl)
	_, err = meet(t, s, ca, dir, "bob")
	require.ErrorContains(t, err, "revoked")
	user, err := meet(t, s, ca, dir, "ann")
	require.NoError(t, err)
	require.Equal(t, "ann", user)

	// The server looks at the list again when it has changed, and then both are revoked.
	_, err = Revoke(dir, filepath.Join(dir, "ann.pem"))
	require.NoError(t, err)
	s.crl.looked = time.Time{}
	for _, name := range []string{"ann", "bob"} {
		_, err = meet(t, s, ca, dir, name)
		require.ErrorContains(t, err, "revoked", name)
	}
	// Where it cannot be read any more nobody is let in.
	require.NoError(t, os.Remove(crl))
	s.crl.looked = time.Time{}
	_, err = meet(t, s, ca, dir, "carl")
	require.ErrorContains(t, err, "cannot be told")

	_, err = Revoke(dir, ca)
	require.ErrorContains(t, err, "is the authority itself")

	foreign := newAuthority(t, 1)
	_, err = Revoke(dir, filepath.Join(foreign, "ann.pem"))
	require.ErrorContains(t, err, "was not issued")
	theirs, err := Revoke(foreign, filepath.Join(foreign, "ann.pem"))
	require.NoError(t, err)
	_, err = NewServer(ServerFiles{Cert: filepath.Join(dir, "server.pem"), Key: filepath.Join(dir, "server-key.pem"), ClientCA: ca, CRL: theirs})
	require.ErrorContains(t, err, "has signed")
}

// While the list of revoked certificates cannot be read nobody gets in: who operates the scheduler is told why, once each time.
func TestAListThatCannotBeReadIsTold(t *testing.T) {
	dir := newAuthority(t, 1)
	ca, in := filepath.Join(dir, "ca.pem"), func(name string) string { return filepath.Join(dir, name) }
	crl, err := Revoke(dir, in("server.pem"))
	require.NoError(t, err)
	good, err := os.ReadFile(crl)
	require.NoError(t, err)
	var warned []string
	s, err := NewServer(ServerFiles{
		Cert: in("server.pem"), Key: in("server-key.pem"), ClientCA: ca, CRL: crl, Warn: func(err error) { warned = append(warned, err.Error()) },
	})
	require.NoError(t, err)
	for n := 1; n <= 2; n++ {
		require.NoError(t, os.WriteFile(crl, []byte("none"), 0o600))
		for range 3 {
			s.crl.looked = time.Time{}
			_, err = meet(t, s, ca, dir, "ann")
			require.ErrorContains(t, err, "cannot be told")
		}
		require.Len(t, warned, n)
		require.Contains(t, warned[n-1], "nobody with a certificate is let in")
		require.Contains(t, warned[n-1], crl)
		require.NoError(t, os.WriteFile(crl, good, 0o600))
		s.crl.looked = time.Time{}
		_, err = meet(t, s, ca, dir, "ann")
		require.NoError(t, err)
	}
}

// No certificate is said to be valid for longer than its authority.
func TestTheAuthorityEndsLast(t *testing.T) {
	dir := newAuthority(t, maxDays)
	require.ErrorContains(t, Request{Name: "x", Days: maxDays + 1}.Validate(), "--days 3651: 1 to 3650")
	require.ErrorContains(t, Issue(dir, Request{Name: "x", Days: maxDays + 10}), "--days 3660: the authority in "+dir+" ends before")
	require.NoFileExists(t, filepath.Join(dir, "x.pem"))
}

// None of several revocations at once is lost.
func TestRevokedAtOnce(t *testing.T) {
	dir := newAuthority(t, DefaultDays)
	const many = 8
	name := func(i int) string { return filepath.Join(dir, fmt.Sprintf("user%d.pem", i)) }
	for i := range many {
		require.NoError(t, Issue(dir, Request{Name: fmt.Sprint("user", i), Days: 1}))
	}
	var wait sync.WaitGroup
	for i := range many {
		wait.Go(func() {
			_, err := Revoke(dir, name(i))
			assert.NoError(t, err)
		})
	}
	wait.Wait()
	list, err := readCRL(filepath.Join(dir, crlName))
	require.NoError(t, err)
	require.Len(t, list.RevokedCertificateEntries, many)
}

func TestNothingIsReplaced(t *testing.T) {
	dir := newAuthority(t, 1)
	require.ErrorIs(t, Init(dir), os.ErrExist)
	require.ErrorIs(t, Issue(dir, Request{Name: "ann", Days: 1}), os.ErrExist)
	for _, name := range []string{"", "ca", "crl", "../x", "a/b", ".hidden", "ann-key", "ca-key"} {
		require.ErrorContains(t, Issue(dir, Request{Name: name, Days: 1}), "cannot be the name", name)
	}
	require.ErrorContains(t, Issue(t.TempDir(), Request{Name: "x", Days: 1}), "sluice tls init")

	// A certificate whose key was moved away stays as it is, and gets no other key.
	require.NoError(t, os.Remove(filepath.Join(dir, "ann-key.pem")))
	require.ErrorContains(t, Issue(dir, Request{Name: "ann", Days: 1}), "it is not replaced")
	require.NoFileExists(t, filepath.Join(dir, "ann-key.pem"))
	info, err := os.Stat(filepath.Join(dir, "ca-key.pem"))
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode().Perm())
}

// TestAFileOfTheSameAge: another file that takes the place of one is read also if it is as old and as large, as where both were written
// one right after the other.
func TestAFileOfTheSameAge(t *testing.T) {
	dir := t.TempDir()
	path, other := filepath.Join(dir, "path"), filepath.Join(dir, "other")
	at := time.Now()
	for _, name := range []string{path, other} {
		require.NoError(t, os.WriteFile(name, []byte(filepath.Base(name)[:4]), 0o600))
		require.NoError(t, os.Chtimes(name, at, at))
	}
	w := watched[string]{path: path, read: func() (string, error) {
		content, err := os.ReadFile(path)
		return string(content), err
	}}
	got, err := w.get()
	require.NoError(t, err)
	require.Equal(t, "path", got)
	require.NoError(t, os.Rename(other, path))
	w.looked = time.Time{}
	got, err = w.get()
	require.NoError(t, err)
	require.Equal(t, "othe", got)
}
