package pki

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"
)

// ServerFiles are the files of a server. All but CRL are needed.
type ServerFiles struct {
	Cert, Key string // the server's own
	ClientCA  string // authorities of the clients' certificates
	CRL       string // of those that are revoked; "" for none

	// Warn is told once when the own certificate cannot be read any more, and then once when the list cannot; it may be nil.
	Warn func(error)
}

// Server is the TLS of a server. Its certificate and the list of revoked ones are read anew when their files change. A certificate holds until
// there is another one that can be read: nobody could connect while the files of one are replaced, or are wrong.
type Server struct {
	files ServerFiles
	own   watched[*tls.Certificate]
	crl   watched[*x509.RevocationList]
	pool  *x509.CertPool
}

// NewServer reads the files.
func NewServer(files ServerFiles) (*Server, error) {
	s := &Server{files: files}
	s.own.read = func() (*tls.Certificate, error) {
		pair, err := tls.LoadX509KeyPair(files.Cert, files.Key)
		return &pair, err
	}
	warn := files.Warn
	if warn == nil {
		warn = func(error) {}
	}
	s.own.path, s.own.lasting = files.Cert, true
	s.own.warn = func(err error) {
		warn(fmt.Errorf("the scheduler's certificate cannot be read, and the one before goes on: pki: certificate %s: %w", files.Cert, err))
	}
	s.crl.path = files.CRL
	s.crl.warn = func(err error) {
		warn(fmt.Errorf("the list of revoked certificates cannot be read, and nobody with a certificate is let in until it can: %w", err))
	}
	s.crl.read = func() (*x509.RevocationList, error) { return s.readCRL() }
	var err error
	if s.pool, err = readPool(files.ClientCA); err != nil {
		return nil, err
	}
	if _, err := s.own.get(); err != nil {
		return nil, fmt.Errorf("pki: certificate %s: %w", files.Cert, err)
	}
	if files.CRL != "" {
		if _, err := s.crl.get(); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// readCRL reads the list and makes sure that one of the authorities signed it.
func (s *Server) readCRL() (*x509.RevocationList, error) {
	list, err := readCRL(s.files.CRL)
	if err != nil {
		return nil, err
	}
	authorities, err := readCertificates(s.files.ClientCA)
	if err != nil {
		return nil, err
	}
	for _, a := range authorities {
		if list.CheckSignatureFrom(a) == nil {
			return list, nil
		}
	}
	return nil, fmt.Errorf("pki: none of the authorities in %s has signed %s", s.files.ClientCA, s.files.CRL)
}

// Config returns the settings: TLS 1.3, with a certificate of the client where it has one.
func (s *Server) Config() *tls.Config {
	return &tls.Config{
		MinVersion:     tls.VersionTLS13,
		NextProtos:     []string{"h2", "http/1.1"},
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return s.own.get() },
		ClientCAs:      s.pool,
		ClientAuth:     tls.VerifyClientCertIfGiven,
		VerifyConnection: func(c tls.ConnectionState) error {
			if len(c.VerifiedChains) == 0 {
				return nil
			}
			return s.Check(c.VerifiedChains[0])
		},
	}
}

// Expires returns when the own certificate ends that is in its file now.
func (s *Server) Expires() time.Time {
	own, err := s.own.get()
	if err != nil { // it could be read once
		return time.Time{}
	}
	return own.Leaf.NotAfter
}

// Check refuses a chain whose first certificate is revoked. A list that cannot be read any more refuses everybody: what it
// said is not known.
func (s *Server) Check(chain []*x509.Certificate) error {
	if s.files.CRL == "" {
		return nil
	}
	list, err := s.crl.get()
	if err != nil {
		return fmt.Errorf("pki: whether the certificate is revoked cannot be told: %w", err)
	}
	for _, e := range list.RevokedCertificateEntries {
		if e.SerialNumber.Cmp(chain[0].SerialNumber) == 0 {
			return errors.New("pki: the certificate was revoked")
		}
	}
	return nil
}

// ClientFiles are the files of a client. CA is needed; Cert and Key belong together, see Shown.
type ClientFiles struct {
	CA, Cert, Key string
	ServerName    string // that the server's certificate has to have; "" for the address's
}

// Client returns the settings of a client.
func Client(files ClientFiles) (*tls.Config, error) {
	pool, err := readPool(files.CA)
	if err != nil {
		return nil, err
	}
	c := &tls.Config{MinVersion: tls.VersionTLS13, RootCAs: pool, ServerName: files.ServerName}
	if files.Cert == "" {
		return c, nil
	}
	if c.GetClientCertificate, err = Shown(files.Cert, files.Key); err != nil {
		return nil, err
	}
	return c, nil
}

// Shown returns what shows the certificate in a file to servers that ask for one, to each connection the one that is there then. While that
// cannot be read, as its key is not there yet, it is the one before.
func Shown(cert, key string) (func(*tls.CertificateRequestInfo) (*tls.Certificate, error), error) {
	own := &watched[*tls.Certificate]{path: cert, warn: func(error) {}, read: func() (*tls.Certificate, error) {
		pair, err := tls.LoadX509KeyPair(cert, key)
		return &pair, err
	}}
	if _, err := own.get(); err != nil {
		return nil, fmt.Errorf("pki: certificate %s: %w", cert, err)
	}
	return func(asked *tls.CertificateRequestInfo) (*tls.Certificate, error) {
		pair, err := own.get()
		switch {
		case err != nil && time.Now().After(pair.Leaf.NotAfter):
			return nil, fmt.Errorf("pki: certificate %s: %w", cert, err)
		case asked.SupportsCertificate(pair) != nil: // as by another authority
			return &tls.Certificate{}, nil
		}
		return pair, nil
	}, nil
}

// Outdated says that a certificate is not valid at a time by the clock of this machine; nil: it is, or cannot be read.
func Outdated(path string, now time.Time) error {
	cert, err := readCertificate(path)
	switch at := now.UTC().Format(time.RFC3339); {
	case err != nil:
		return nil
	case now.After(cert.NotAfter):
		return fmt.Errorf("pki: the certificate %s expired at %s: it takes another one", path, cert.NotAfter.UTC().Format(time.RFC3339))
	case now.Before(cert.NotBefore):
		return fmt.Errorf("pki: the certificate %s is valid from %s on, and the clock of this machine is at %s", path, cert.NotBefore.UTC().Format(time.RFC3339), at)
	}
	return nil
}

func readPool(path string) (*x509.CertPool, error) {
	raw, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(raw) {
		return nil, fmt.Errorf("pki: %s holds no certificate", path)
	}
	return pool, nil
}

// watched is what a file holds, read anew when the file has changed.
type watched[T any] struct {
	path    string
	read    func() (T, error)
	lasting bool        // what was read holds until there is more that can be
	warn    func(error) // is told once why it cannot be read any more

	mu     sync.Mutex
	looked time.Time
	file   os.FileInfo // of the file that was read last
	value  T
	known  bool
	told   bool
}

// lookEvery is how often it is looked whether a file has changed.
const lookEvery = time.Second

// get returns the latest content. An error leaves the next call to try again.
func (w *watched[T]) get() (T, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := time.Now()
	if w.known && now.Sub(w.looked) < lookEvery {
		return w.value, nil
	}
	err := w.look()
	if err == nil {
		w.known, w.looked, w.told = true, now, false
		return w.value, nil
	}
	if !w.told && w.file != nil {
		w.told = true
		w.warn(err)
	}
	if w.lasting && w.known {
		w.looked = now
		return w.value, nil
	}
	w.known = false
	return w.value, err
}

// look reads the file if it is not known as it is.
func (w *watched[T]) look() error {
	info, err := os.Stat(w.path)
	if err != nil || w.known && same(info, w.file) {
		return err
	}
	value, err := w.read()
	if err != nil {
		return err
	}
	w.value, w.file = value, info
	return nil
}

// same reports whether a file is the one that it was, and has not been written to. Times are coarse: one that takes its place may be as old.
func same(is, was os.FileInfo) bool {
	return os.SameFile(is, was) && is.ModTime().Equal(was.ModTime()) && is.Size() == was.Size()
}
