package serve

import (
	"cmp"
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	"github.com/sluice-scheduler/sluice/cluster"
	"github.com/sluice-scheduler/sluice/cluster/access"
)

// Identity says how callers prove who they are: with a client certificate, whose common name is the user and whose
// organizations are the groups, or with a token that the scheduler has issued.
type Identity struct {
	// Roles are held beside those that are bound in the state: those of the first operator, and of host managers.
	Roles []cluster.RoleBinding
	// CheckCertificate looks again at a chain that the handshake has verified: it may have expired or been revoked since.
	// Nil checks nothing more.
	CheckCertificate func(chain []*x509.Certificate) error
	// Expires returns when the scheduler's own certificate ends. Nil: that is not known.
	Expires func() time.Time
}

// Credentials are what a caller showed.
type Credentials struct {
	Token string              // without "Bearer "; "" for none
	Chain []*x509.Certificate // verified by the handshake, the caller's own first; nil for none
}

// errNobody is the error of a caller who shows nothing.
var errNobody = errors.New("the scheduler asks who calls: show a client certificate (--cert, --key) or a token (--token-file)")

// Identify returns who shows the credentials. The error says what is wrong with them, and no more than whoever shows them
// knows.
func (s *Scheduler) Identify(c Credentials, now time.Time) (*access.Caller, error) {
	id := s.config.Identity
	if id == nil {
		return &access.Caller{Free: true}, nil
	}
	var who *access.Caller
	switch {
	case c.Token != "":
		if run, secret, ok := controllerToken(c.Token); ok {
			return s.controllerOf(run, secret)
		}
		t, err := findToken(s.Snapshot(), c.Token, now)
		if err != nil {
			return nil, err
		}
		who = &access.Caller{User: t.User, Groups: t.Groups, Job: t.Job, Token: t.ID}
	case len(c.Chain) > 0:
		name := c.Chain[0].Subject
		if name.CommonName == "" {
			return nil, errors.New("the certificate names no user: its subject has no common name")
		}
		if err := id.recheck(c.Chain, now); err != nil {
			return nil, err
		}
		who = &access.Caller{User: name.CommonName, Groups: name.Organization}
	default:
		return nil, errNobody
	}
	for role := range cluster.NumRoles {
		if who.Job == 0 && who.Holds(configured(id.Roles), role, cluster.RootPool) {
			who.Roles = append(who.Roles, role)
		}
	}
	return who, nil
}

func (id *Identity) recheck(chain []*x509.Certificate, now time.Time) error {
	if now.After(chain[0].NotAfter) {
		return fmt.Errorf("the certificate expired at %v", chain[0].NotAfter.UTC().Format(time.RFC3339))
	}
	if id.CheckCertificate == nil {
		return nil
	}
	return id.CheckCertificate(chain)
}

// expires returns when what a caller showed ends, zero where nobody is asked for anything.
func (s *Scheduler) expires(c Credentials, now time.Time) time.Time {
	switch {
	case s.config.Identity == nil:
	case c.Token != "":
		if t, err := findToken(s.Snapshot(), c.Token, now); err == nil {
			return t.Expires.Go()
		}
	case len(c.Chain) > 0:
		return c.Chain[0].NotAfter
	}
	return time.Time{}
}

// configured is a view that knows the bindings of the configuration only.
type configured []cluster.RoleBinding

func (configured) Pool(cluster.PoolPath) *cluster.Pool   { return nil }
func (c configured) RoleBindings() []cluster.RoleBinding { return c }
func (s *Scheduler) identified() bool                    { return s.config.Identity != nil }
func tokenText(id, secret string) string                 { return tokenPrefix + id + "_" + secret }

func hashSecret(secret string) [sha256.Size]byte { return sha256.Sum256([]byte(secret)) }

func expired(t *cluster.Token, now time.Time) bool { return now.UnixNano() >= int64(t.Expires) }

func sameHash(a, b [sha256.Size]byte) bool { return subtle.ConstantTimeCompare(a[:], b[:]) == 1 }

// tokenPrefix lets people and scanners of leaked secrets know a token when they see one.
const tokenPrefix = "sluice_"

// findToken returns the token whose text is shown.
func findToken(in interface{ Token(string) *cluster.Token }, text string, now time.Time) (*cluster.Token, error) {
	rest, ok := strings.CutPrefix(text, tokenPrefix)
	id, secret, ok2 := strings.Cut(rest, "_")
	t := in.Token(id)
	switch {
	case !ok || !ok2 || t == nil || !sameHash(t.Hash, hashSecret(secret)):
		return nil, errors.New("the token is not valid: it may have been revoked")
	case expired(t, now):
		return nil, fmt.Errorf("the token %s expired at %v", id, t.Expires.Go().UTC().Format(time.RFC3339))
	}
	return t, nil
}

// credentialsOf returns what came with a call, and the address that it came from, without the port.
func credentialsOf(ctx context.Context) (c Credentials, from string) {
	md, _ := metadata.FromIncomingContext(ctx)
	if list := md.Get("authorization"); len(list) > 0 {
		c.Token = tokenIn(list[0])
	}
	p, ok := peer.FromContext(ctx)
	if !ok {
		return c, ""
	}
	if info, ok := p.AuthInfo.(credentials.TLSInfo); ok && len(info.State.VerifiedChains) > 0 {
		c.Chain = info.State.VerifiedChains[0]
	}
	return c, hostOf(p.Addr.String())
}

// tokenIn returns the token in the value of an Authorization header: a bearer token, or the password of HTTP Basic, whatever the name
// beside it is, since browsers ask for that. What is neither is a token that is not valid.
func tokenIn(header string) string {
	scheme, token, _ := strings.Cut(header, " ")
	token = strings.TrimSpace(token)
	switch strings.ToLower(scheme) {
	case "bearer":
	case "basic":
		pair, _ := base64.StdEncoding.DecodeString(token)
		_, token, _ = strings.Cut(string(pair), ":")
	default:
		token = ""
	}
	return cmp.Or(token, "?")
}

func hostOf(address string) string {
	if host, _, err := net.SplitHostPort(address); err == nil {
		return host
	}
	return address
}

// authenticate identifies a caller. Addresses from which tokens are guessed are locked out for a while.
func (s *Scheduler) authenticate(c Credentials, from string) (*access.Caller, error) {
	if s.identified() && c.Token != "" && s.guesses.locked(from) {
		return nil, status.Errorf(codes.ResourceExhausted, "too many invalid tokens came from %s: try again in a minute", from)
	}
	who, err := s.Identify(c, time.Now())
	if err != nil {
		if c.Token != "" {
			s.guesses.failed(from)
		}
		return nil, status.Error(codes.Unauthenticated, err.Error())
	}
	return who, nil
}
