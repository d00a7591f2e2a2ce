// Package pki makes the certificates of a small cluster and reads those of any: an authority of its own in a folder, and
// the TLS settings of servers and clients.
package pki

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

// The files of an authority in its folder. A certificate NAME is in NAME.pem, its key in NAME-key.pem.
const (
	authorityName = "ca"
	crlName       = "crl.pem"
)

// Years that certificates are valid for: the authority's, and those that it issues unless said otherwise.
const (
	authorityYears = 10
	DefaultDays    = 365
)

// crlDays is how long a list of revoked certificates says that it is valid. It is not held to that: a list that nobody
// renewed still revokes what it names.
const crlDays = 3650

// Request says what a certificate is for.
type Request struct {
	Name   string   // common name: the user, or the server
	Groups []string // organizations: the user's groups
	Hosts  []string // addresses and names of a server; none: it is a client's
	Days   int
}

// maxDays is how long a certificate may be valid: no longer than a new authority.
const maxDays = authorityYears * 365

// keyEnding is what the names of key files end in.
const keyEnding = "-key.pem"

// Validate joins all that is wrong with the request, in the words of the flags that make one.
func (r Request) Validate() error {
	problems := []error{r.checkName()}
	if r.Days < 1 || r.Days > maxDays {
		problems = append(problems, fmt.Errorf("--days %d: 1 to %d", r.Days, maxDays))
	}
	for _, h := range r.Hosts {
		if h == "" || strings.ContainsFunc(h, func(c rune) bool { return c <= ' ' || c > '~' || strings.ContainsRune("/,;", c) }) {
			problems = append(problems, fmt.Errorf("--host %q: a name such as scheduler.example.com, or an address such as 10.0.0.1", h))
		}
	}
	if slices.Contains(r.Groups, "") {
		problems = append(problems, errors.New("--group: a name is empty"))
	}
	return errors.Join(problems...)
}

// checkName refuses names whose files would be others.
func (r Request) checkName() error {
	if strings.ContainsFunc(r.Name, func(c rune) bool { return c < ' ' || c == '/' || c == os.PathSeparator }) || r.Name == "" || r.Name[0] == '.' ||
		r.Name == authorityName || r.Name+".pem" == crlName || strings.HasSuffix(r.Name+".pem", keyEnding) {
		return fmt.Errorf("pki: %q cannot be the name of a certificate here: use letters, digits, '-', '_', '.' and '@', and no \"-key\" at the end", r.Name)
	}
	return nil
}

// Init makes an authority in a folder, which it creates. It does not replace one.
func Init(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	template := &x509.Certificate{
		SerialNumber: serial(), Subject: pkix.Name{CommonName: "Sluice certificate authority"},
		NotBefore: time.Now().Add(-time.Minute), NotAfter: time.Now().AddDate(authorityYears, 0, 0),
		IsCA: true, BasicConstraintsValid: true, MaxPathLenZero: true,
		KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageCRLSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return err
	}
	return writePair(dir, authorityName, der, key)
}

// Issue makes a certificate and its key in the authority's folder, and does not replace one of that name.
func Issue(dir string, r Request) error {
	if err := r.checkName(); err != nil {
		return err
	}
	parent, signer, err := authority(dir)
	if err != nil {
		return err
	}
	if end := parent.NotAfter; time.Now().AddDate(0, 0, r.Days).After(end) {
		return fmt.Errorf("pki: --days %d: the authority in %s ends before, at %s: at most %d",
			r.Days, dir, end.Format(time.RFC3339), max(0, int(time.Until(end)/(24*time.Hour))))
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	template := &x509.Certificate{
		SerialNumber: serial(), Subject: pkix.Name{CommonName: r.Name, Organization: r.Groups},
		NotBefore: time.Now().Add(-time.Minute), NotAfter: time.Now().AddDate(0, 0, r.Days),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
	if len(r.Hosts) > 0 {
		template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	}
	for _, h := range r.Hosts {
		if ip := net.ParseIP(h); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, h)
		}
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), signer)
	if err != nil {
		return err
	}
	return writePair(dir, r.Name, der, key)
}

// Revoke adds the certificate in a file to the authority's list of revoked ones, which it returns the path of. Revoking
// again changes nothing. Revocations at the same time wait for each other.
func Revoke(dir, file string) (string, error) {
	parent, signer, err := authority(dir)
	if err != nil {
		return "", err
	}
	cert, err := readCertificate(file)
	if err != nil {
		return "", err
	}
	if err := cert.CheckSignatureFrom(parent); err != nil {
		return "", fmt.Errorf("pki: %s was not issued by the authority in %s: %w", file, dir, err)
	}
	if cert.Equal(parent) {
		return "", fmt.Errorf("pki: %s is the authority itself, whom its own list cannot revoke: make another one in a new folder", file)
	}
	path := filepath.Join(dir, crlName)
	lock, err := os.OpenFile(path+".lock", os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return "", err
	}
	defer func() { _ = lock.Close() }() // which unlocks it
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		return "", fmt.Errorf("pki: lock %s: %w", lock.Name(), err)
	}
	list := &x509.RevocationList{Number: big.NewInt(1), ThisUpdate: time.Now(), NextUpdate: time.Now().AddDate(0, 0, crlDays)}
	old, err := readCRL(path)
	switch {
	case errors.Is(err, os.ErrNotExist):
	case err != nil:
		return "", err
	default:
		list.Number.Add(old.Number, big.NewInt(1))
		list.RevokedCertificateEntries = old.RevokedCertificateEntries
	}
	for _, e := range list.RevokedCertificateEntries {
		if e.SerialNumber.Cmp(cert.SerialNumber) == 0 {
			return path, nil
		}
	}
	list.RevokedCertificateEntries = append(list.RevokedCertificateEntries,
		x509.RevocationListEntry{SerialNumber: cert.SerialNumber, RevocationTime: time.Now()})
	der, err := x509.CreateRevocationList(rand.Reader, list, parent, signer)
	if err != nil {
		return "", err
	}
	return path, replace(path, pem.EncodeToMemory(&pem.Block{Type: "X509 CRL", Bytes: der}))
}

func serial() *big.Int {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails
	b[0] &= 0x7f
	return new(big.Int).SetBytes(b[:])
}

func authority(dir string) (*x509.Certificate, crypto.Signer, error) {
	cert, err := readCertificate(filepath.Join(dir, authorityName+".pem"))
	if err != nil {
		return nil, nil, fmt.Errorf("%w; `sluice tls init` makes an authority", err)
	}
	raw, err := os.ReadFile(filepath.Join(dir, authorityName+keyEnding))
	if err != nil {
		return nil, nil, err
	}
	block, _ := pem.Decode(raw)
	if block == nil {
		return nil, nil, fmt.Errorf("pki: the key of the authority in %s is not PEM", dir)
	}
	key, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return nil, nil, fmt.Errorf("pki: the key of the authority in %s: %w", dir, err)
	}
	signer, ok := key.(crypto.Signer)
	if !ok {
		return nil, nil, fmt.Errorf("pki: the key of the authority in %s does not sign", dir)
	}
	return cert, signer, nil
}

// readCertificates returns the certificates in a file, at least one.
func readCertificates(path string) ([]*x509.Certificate, error) {
	raw, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var all []*x509.Certificate
	for block, rest := pem.Decode(raw); block != nil; block, rest = pem.Decode(rest) {
		if block.Type != "CERTIFICATE" {
			continue
		}
		cert, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, fmt.Errorf("pki: %s: %w", path, err)
		}
		all = append(all, cert)
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("pki: %s holds no certificate", path)
	}
	return all, nil
}

func readCertificate(path string) (*x509.Certificate, error) {
	all, err := readCertificates(path)
	if err != nil {
		return nil, err
	}
	return all[0], nil
}

func readCRL(path string) (*x509.RevocationList, error) {
	raw, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	block, _ := pem.Decode(raw)
	if block == nil || block.Type != "X509 CRL" {
		return nil, fmt.Errorf("pki: %s holds no list of revoked certificates", path)
	}
	return x509.ParseRevocationList(block.Bytes)
}

// writePair writes a key and its certificate. The key comes first, so that a certificate never lacks it.
func writePair(dir, name string, der []byte, key *ecdsa.PrivateKey) error {
	pkcs8, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return err
	}
	keyFile := filepath.Join(dir, name+keyEnding)
	if err := create(keyFile, 0o600, &pem.Block{Type: "PRIVATE KEY", Bytes: pkcs8}); err != nil {
		return err
	}
	if err := create(filepath.Join(dir, name+".pem"), 0o644, &pem.Block{Type: "CERTIFICATE", Bytes: der}); err != nil {
		return errors.Join(err, os.Remove(keyFile))
	}
	return nil
}

func create(path string, mode os.FileMode, block *pem.Block) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if errors.Is(err, os.ErrExist) {
		return fmt.Errorf("%w: it is not replaced; move it away to make another", err)
	}
	if err != nil {
		return err
	}
	return errors.Join(pem.Encode(f, block), f.Close())
}

// replace writes a file so that readers see the old or the new content.
func replace(path string, content []byte) error {
	if err := os.WriteFile(path+".new", content, 0o644); err != nil {
		return err
	}
	return os.Rename(path+".new", path)
}
