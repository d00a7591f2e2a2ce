package main

import (
	"cmp"
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/sluice-scheduler/sluice/cluster"
	"github.com/sluice-scheduler/sluice/cluster/serve"
	"github.com/sluice-scheduler/sluice/cmd/sluice/internal/config"
	"github.com/sluice-scheduler/sluice/cmd/sluice/internal/pki"
)

// secure reads what the server needs to know who calls; without scheduler.tls it asks nobody.
func (s *server) secure(c config.Scheduler) (*serve.Identity, []grpc.ServerOption, error) {
	if c.TLS.Cert == "" {
		return nil, nil, nil
	}
	files, err := serverFiles(c, func(err error) {
		s.log.Error("scheduler.tls: a file cannot be read any more", "error", err)
	})
	if err != nil {
		return nil, nil, err
	}
	operators, err := holders(cluster.Operator, c.Operators)
	if err != nil {
		return nil, nil, fmt.Errorf("scheduler.operators: %w", err)
	}
	managers, err := holders(cluster.HostManager, c.HostManagers)
	if err != nil {
		return nil, nil, fmt.Errorf("scheduler.host_managers: %w", err)
	}
	s.tls = files.Config()
	return &serve.Identity{Roles: append(operators, managers...), CheckCertificate: files.Check, Expires: files.Expires},
		[]grpc.ServerOption{grpc.Creds(credentials.NewTLS(s.tls))}, nil
}

// serverFiles reads the files of scheduler.tls. warn is told when one cannot be read any more; it may be nil.
func serverFiles(c config.Scheduler, warn func(error)) (*pki.Server, error) {
	files, err := pki.NewServer(pki.ServerFiles{Cert: c.TLS.Cert, Key: c.TLS.Key, ClientCA: c.TLS.ClientCA, CRL: c.TLS.CRL, Warn: warn})
	if err != nil {
		return nil, fmt.Errorf("scheduler.tls: %w", err)
	}
	return files, nil
}

// holders reads a list of those who hold a role.
func holders(role cluster.Role, list string) ([]cluster.RoleBinding, error) {
	var all []cluster.RoleBinding
	for entry := range strings.SplitSeq(list, ",") {
		kind, name, _ := strings.Cut(strings.TrimSpace(entry), ":")
		b := cluster.RoleBinding{Role: role, Pool: cluster.RootPool}
		switch {
		case kind == "" && name == "":
			continue
		case kind == "user" && name != "":
			b.User = name
		case kind == "group" && name != "":
			b.Group = name
		default:
			return nil, fmt.Errorf("%q is neither user:NAME nor group:NAME", entry)
		}
		all = append(all, b)
	}
	return all, nil
}

// keyring reads the keys of secrets from a file, or from the environment variable NAME for env:NAME; nil for "".
func keyring(source string) (*serve.Keyring, error) {
	if source == "" {
		return nil, nil
	}
	if name, ok := strings.CutPrefix(source, "env:"); ok {
		return serve.ParseKeyring(os.Getenv(name))
	}
	info, err := os.Stat(source)
	if err != nil {
		return nil, err
	}
	if info.Mode().Perm()&0o077 != 0 {
		return nil, fmt.Errorf("%s can be read by others: chmod 600 it", source)
	}
	text, err := os.ReadFile(source)
	if err != nil {
		return nil, err
	}
	return serve.ParseKeyring(string(text))
}

// reach is how tasks reach the API, which listens already: at the machine's name where it listens at every address, or by a name
// that the certificate has, where it has none of these.
func (s *server) reach(c config.Scheduler) (r serve.Reach, err error) {
	if r.Address = c.Advertise; r.Address == "" {
		r.Address = s.api.Addr().String()
		if at, ok := s.api.Addr().(*net.TCPAddr); ok && at.IP.IsUnspecified() {
			name, err := os.Hostname()
			if err != nil {
				return r, fmt.Errorf("scheduler.advertise: it is not set, and this machine has no name: %w", err)
			}
			r.Address = net.JoinHostPort(name, strconv.Itoa(at.Port))
		}
	}
	if s.tls == nil {
		return r, nil
	}
	if r.CA, err = os.ReadFile(cmp.Or(c.TLS.CA, c.TLS.ClientCA)); err != nil {
		return r, fmt.Errorf("scheduler.tls.ca: %w", err)
	}
	if c.Advertise == "" {
		own, err := s.tls.GetCertificate(nil)
		if err != nil {
			return r, fmt.Errorf("scheduler.tls.cert: %w", err)
		}
		r.Address = certified(r.Address, own.Leaf)
	}
	return r, nil
}

// certified returns an address at which a client that verifies the certificate finds its server: the same, unless that is not one of
// those that it is for.
func certified(address string, own *x509.Certificate) string {
	host, port, err := net.SplitHostPort(address)
	if err != nil || own.VerifyHostname(host) == nil {
		return address
	}
	names := slices.Clone(own.DNSNames)
	for _, ip := range own.IPAddresses {
		names = append(names, ip.String())
	}
	for _, name := range names {
		if !strings.HasPrefix(name, "*") {
			return net.JoinHostPort(name, port)
		}
	}
	return address
}

// openAudit opens the file that says who did what. It only ever grows; whoever rotates it copies and truncates.
func (s *server) openAudit(c config.Scheduler, dir string) (*slog.Logger, error) {
	path := c.AuditLog
	if path == "" {
		path = filepath.Join(dir, "audit.log")
	}
	var err error
	if s.audit, err = os.OpenFile(path, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600); err != nil {
		return nil, fmt.Errorf("%w; scheduler.audit_log chooses another file", err)
	}
	return slog.New(slog.NewJSONHandler(auditFile{s.audit, s.log}, nil)), nil
}

// auditFile says where a line could not be written, which slog keeps to itself: the call goes on without it.
type auditFile struct {
	*os.File
	log *slog.Logger
}

func (f auditFile) Write(line []byte) (int, error) {
	n, err := f.File.Write(line)
	if err != nil {
		f.log.Error("a line of the audit log is lost", "error", err)
	}
	return n, err
}

// address is where the pages are.
func (s *server) address() string {
	scheme := "http"
	if s.tls != nil {
		scheme = "https"
	}
	return fmt.Sprintf("%s://%s/", scheme, s.web.Addr())
}

// credentials are what commands and host managers show to the scheduler: how connections are secured, and what goes with each call.
// Who goes on for long shows what the files hold then, with each new connection and each call.
func (a *app) credentials() (credentials.TransportCredentials, []grpc.DialOption, error) {
	c := a.config
	if err := c.CheckCaller(); err != nil {
		return nil, nil, exitError{exitUsage, err}
	}
	if c.TLS.CA == "" {
		return insecure.NewCredentials(), nil, nil
	}
	conf, err := pki.Client(pki.ClientFiles{CA: c.TLS.CA, Cert: c.TLS.Cert, Key: c.TLS.Key, ServerName: c.TLS.ServerName})
	if err != nil {
		return nil, nil, exitError{exitUsage, fmt.Errorf("tls: %w", err)}
	}
	if c.TokenFile == "" {
		return credentials.NewTLS(conf), nil, nil
	}
	token := &bearer{path: c.TokenFile}
	if err := token.read(); err != nil {
		return nil, nil, exitError{exitUsage, fmt.Errorf("token_file: %w", err)}
	}
	return credentials.NewTLS(conf), []grpc.DialOption{grpc.WithPerRPCCredentials(token)}, nil
}

// bearer shows a token with each call: the one in its file, or the last one that was, if that cannot be read any more.
type bearer struct {
	path string
	mu   sync.Mutex
	text string
}

var _ credentials.PerRPCCredentials = (*bearer)(nil)

func (b *bearer) read() error {
	token, err := os.ReadFile(b.path)
	if err != nil {
		return err
	}
	text := strings.TrimSpace(string(token))
	if text == "" || strings.ContainsAny(text, " \n\r\t") {
		return errors.New(b.path + " has to hold one token and nothing else")
	}
	b.text = text
	return nil
}

// GetRequestMetadata implements credentials.PerRPCCredentials.
func (b *bearer) GetRequestMetadata(context.Context, ...string) (map[string]string, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	_ = b.read()
	return map[string]string{"authorization": "Bearer " + b.text}, nil
}

// RequireTransportSecurity implements credentials.PerRPCCredentials.
func (b *bearer) RequireTransportSecurity() bool { return true }
