package main

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/sluice-scheduler/sluice/cluster"
	"github.com/sluice-scheduler/sluice/cluster/journal"
	"github.com/sluice-scheduler/sluice/cluster/replica"
	"github.com/sluice-scheduler/sluice/cluster/serve"
	"github.com/sluice-scheduler/sluice/cmd/sluice/internal/config"
	"github.com/sluice-scheduler/sluice/cmd/sluice/internal/console"
	"github.com/sluice-scheduler/sluice/cmd/sluice/internal/pki"
	sluicev1 "github.com/sluice-scheduler/sluice/proto/sluice/v1"
)

// member is one of several schedulers that stand by for each other.
type member struct {
	*replica.Member
	config config.Scheduler
	log    *slog.Logger
}

// runMember stands by, and schedules while it leads, until ctx ends.
func (a *app) runMember(ctx context.Context, c config.Scheduler, log *slog.Logger) error {
	if _, err := readMeans(c); err != nil {
		return err
	}
	m := &member{config: c, log: log}
	standby, err := m.openStandby()
	if err != nil {
		return err
	}
	// From now on the addresses are those that were found, whoever listens there.
	m.config.Listen, m.config.HTTPListen = standby.api.Addr().String(), standby.web.Addr().String()
	if err := m.open(standby); err != nil {
		return errors.Join(err, standby.close())
	}
	if _, err := standby.openAudit(c, c.StateDir); err != nil { // it writes there when it leads
		return errors.Join(err, standby.close(), m.Close())
	}
	fmt.Fprintf(a.out, "scheduler: member %s of %s; while it leads: API on %s, console on %s; state in %s\n",
		c.Member, strings.Join(memberNames(c), ", "), standby.api.Addr(), standby.address(), c.StateDir)
	group, working := errgroup.WithContext(ctx)
	running, stop := context.WithCancel(context.WithoutCancel(ctx)) // the member outlives what it serves
	defer stop()
	group.Go(func() error { return m.Run(running) })
	group.Go(func() error {
		defer stop()
		return m.takeTurns(working, standby)
	})
	return errors.Join(group.Wait(), m.Close())
}

// takeTurns stands by and leads in turn until ctx ends. The addresses are free when it returns.
func (m *member) takeTurns(ctx context.Context, standby *server) error {
	for {
		term, err := m.standBy(ctx, standby)
		if term != nil {
			if err == nil {
				err = m.lead(ctx, term)
			}
			term.End()
		}
		if err != nil || ctx.Err() != nil {
			return err
		}
		if standby, err = m.openStandby(); err != nil {
			return err
		}
	}
}

// standBy says who leads until it is this member, whose term it returns, or until ctx ends. The addresses are free then.
func (m *member) standBy(ctx context.Context, s *server) (*replica.Term, error) {
	standing, stop := context.WithCancel(ctx)
	defer stop()
	var group errgroup.Group
	group.Go(func() error {
		defer stop()
		return runUntil(standing, s.parts(), s.grpc.Stop, s.close)
	})
	term, _ := m.Lead(standing) // fails as standing ends
	stop()
	return term, group.Wait()
}

// openStandby takes the addresses for a member that does not lead; nothing is served yet.
func (m *member) openStandby() (*server, error) {
	s := &server{log: m.log}
	_, options, err := s.secure(m.config)
	if err != nil {
		return nil, exitError{exitUsage, err}
	}
	if err := s.listen(m.config); err != nil {
		return nil, errors.Join(err, s.close())
	}
	s.grpc = serve.NewStandby(m.why, m.leader, append(options, keepingAlive...)...)
	pages := http.NewServeMux()
	pages.Handle("/", console.Standby(m.why))
	pages.Handle("GET /metrics", serve.StandbyMetrics())
	s.show(pages, m.config.HTTPListen)
	return s, nil
}

// why says why this member does not answer, and who does.
func (m *member) why() string {
	leader := m.Leader()
	switch trouble := m.Trouble(); {
	case trouble != "":
		return fmt.Sprintf("member %s stands by: %s", m.config.Member, trouble)
	case leader.Name == "":
		return fmt.Sprintf("member %s stands by, and nobody leads at present: most of %s have to be there", m.config.Member, strings.Join(memberNames(m.config), ", "))
	case leader.API == "":
		return fmt.Sprintf("member %s stands by: %s leads", m.config.Member, leader.Name)
	default:
		return fmt.Sprintf("member %s stands by: %s leads, at %s", m.config.Member, leader.Name, leader.API)
	}
}

// leader returns the name of the member that leads, empty if none does, and the address of its API, empty if it is not known.
func (m *member) leader() (name, address string) {
	l := m.Leader()
	return l.Name, l.API
}

// lead schedules until ctx or the term ends.
func (m *member) lead(ctx context.Context, term *replica.Term) error {
	s, err := openServer(m.config, m.config.StateDir, func() (*history, error) {
		return &history{journal: term, state: term.State(), close: func() error { return nil }, members: m.members, leads: term.Leads}, nil
	}, m.log)
	if errors.Is(err, replica.ErrLost) {
		return nil
	}
	if err != nil {
		return err
	}
	leading, stop := context.WithCancel(ctx)
	defer stop()
	go func() {
		select {
		case <-term.Lost():
			stop()
		case <-leading.Done():
		}
	}()
	if err := runUntil(leading, s.parts(), s.stopServing, s.close); !errors.Is(err, replica.ErrLost) {
		return err
	}
	return nil
}

// roles are the words of the API for those of members.
var roles = map[string]sluicev1.Member_Role{
	replica.RoleLeader: sluicev1.Member_ROLE_LEADER, replica.RoleStandby: sluicev1.Member_ROLE_STANDBY,
	replica.RoleNew: sluicev1.Member_ROLE_NEW, replica.RoleWaiting: sluicev1.Member_ROLE_WAITING,
}

// members asks all members how they are doing.
func (m *member) members(ctx context.Context) (all []*sluicev1.Member) {
	for _, s := range m.Members(ctx) {
		all = append(all, &sluicev1.Member{Name: s.Name, PeerAddress: s.Address, ApiAddress: s.API, Role: roles[s.Role], Record: s.Record})
	}
	return all
}

// open opens this scheduler's copy of the history that it shares with others. standby is at the addresses where it will lead.
func (m *member) open(standby *server) error {
	c := m.config
	if err := ownFolder(c.StateDir, schedulerMark, memberMark); err != nil {
		return err
	}
	own := c
	if strings.Contains(own.Advertise, ",") { // of all members
		own.Advertise = ""
	}
	reach, err := standby.reach(own)
	if err != nil {
		return exitError{exitUsage, err}
	}
	found, _ := config.ParsePeers(c.Peers) // was checked with the settings
	var peers []replica.Peer
	address := ""
	for _, p := range found {
		peers = append(peers, replica.Peer{Name: p.Name, Address: p.Address})
		if p.Name == c.Member {
			address = p.Address
		}
	}
	security, err := memberSecurity(c, address)
	if err != nil {
		return exitError{exitUsage, err}
	}
	return unlocked(c.StateDir, func() error {
		listener, err := listen(cmp.Or(c.PeerListen, address), "scheduler.peer_listen", pagesPart)
		if err != nil {
			return err
		}
		m.Member, err = replica.Open(replica.Config{
			Name: c.Member, Peers: peers, Dir: filepath.Join(c.StateDir, "replica"), Group: rand.Text(),
			Listener: listener, Dial: dial, Security: security, API: reach.Address,
			Seed:     func() (*cluster.State, error) { return seed(c.StateDir, m.log) },
			Election: c.ElectionTimeout, SnapshotEvery: c.CheckpointEvery, Logger: m.log,
			Stop: func(err error) {
				m.log.Error("what must not be forgotten cannot be written: stopping; start again when it can", "error", err)
				os.Exit(exitFailure)
			},
		})
		return err
	})
}

// memberSecurity returns how members know each other, by the certificates that clients know them by; nil without TLS. The others know
// this one by its address.
func memberSecurity(c config.Scheduler, address string) (*replica.Security, error) {
	if c.TLS.Cert == "" {
		return nil, nil
	}
	files, err := serverFiles(c, nil) // the API's tells
	if err != nil {
		return nil, err
	}
	authority, err := pki.Client(pki.ClientFiles{CA: cmp.Or(c.TLS.CA, c.TLS.ClientCA)})
	if err != nil {
		return nil, fmt.Errorf("scheduler.tls.ca: %w", err)
	}
	certificate := files.Config().GetCertificate
	own, err := certificate(nil)
	if err != nil {
		return nil, fmt.Errorf("scheduler.tls.cert: %w", err)
	}
	host, _, _ := net.SplitHostPort(address)
	_, err = own.Leaf.Verify(x509.VerifyOptions{DNSName: host, Roots: authority.RootCAs, Intermediates: intermediates(own)})
	if err != nil {
		return nil, fmt.Errorf("scheduler.tls.cert: the other members would not know this one by it: %w", err)
	}
	return &replica.Security{Roots: authority.RootCAs, Certificate: certificate, Check: files.Check}, nil
}

// intermediates are the authorities that a certificate brings along.
func intermediates(c *tls.Certificate) *x509.CertPool {
	pool := x509.NewCertPool()
	for _, der := range c.Certificate[1:] {
		if authority, err := x509.ParseCertificate(der); err == nil {
			pool.AddCert(authority)
		}
	}
	return pool
}

// seed returns the state of the scheduler that was alone with a state folder before, nil if there was none. What it leaves there is not
// looked at any more once the group has begun.
func seed(dir string, log *slog.Logger) (*cluster.State, error) {
	if !hasMark(dir, schedulerMark) {
		return nil, nil
	}
	j, err := lockJournal(dir, log)
	if err != nil {
		return nil, err
	}
	state, err := journal.Load(j)
	return state, errors.Join(err, j.Close())
}

// memberNames returns the names of all members.
func memberNames(c config.Scheduler) (names []string) {
	peers, _ := config.ParsePeers(c.Peers) // was checked with the settings
	for _, p := range peers {
		names = append(names, p.Name)
	}
	return names
}
