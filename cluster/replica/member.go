package replica

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/raft"
	"golang.org/x/sync/errgroup"

	"github.com/sluice-scheduler/sluice/cluster"
	"github.com/sluice-scheduler/sluice/cluster/store"
)

var (
	// ErrLost is what Append fails with once the member does not lead any more. What it was to append may be in the log or not.
	ErrLost = errors.New("replica: this member does not lead any more")
	// ErrClosed: the member has been closed.
	ErrClosed = errors.New("replica: closed")
)

// Peer is a member as the others see it.
type Peer struct {
	Name    string
	Address string // HOST:PORT that it listens at for the others
}

// Config is what a Member is made of.
type Config struct {
	Name  string // of this member: one of Peers
	Peers []Peer // all members, in the same order on each
	Dir   string // of this member alone
	// Group is the name that a group gets that begins with this member. No other one may have it.
	Group string

	Listener net.Listener // at the own address; the Member closes it
	Security *Security    // nil: whoever gets at the addresses is believed
	// Dial connects with the others; nil is what net.Dialer does.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	API  string // where the API is when this member leads

	// Seed returns the state that the group is to go on with, if it has not begun and this member has one; else nil. It may be nil.
	Seed func() (*cluster.State, error)
	// Election is how long a leader may be silent until another one is elected; 0 is DefaultElection.
	Election time.Duration
	// SnapshotEvery is the number of records after which a snapshot takes the place of the log, if it is not small beside what that writes;
	// 0 is DefaultSnapshotEvery.
	SnapshotEvery uint64
	// Stop is called when what Raft must not forget cannot be written: raft ends the process right after. It may be nil.
	Stop   func(error)
	Logger *slog.Logger // nil drops it
}

// The settings that hold where a Config leaves them at zero.
const (
	DefaultElection      = time.Second
	DefaultSnapshotEvery = 50_000
)

// Member is one of the machines that keep the history. Make it with Open, call Run once, and Close it after Run.
// Its methods are safe for concurrent use.
type Member struct {
	config  Config
	log     *slog.Logger
	folder  *folder
	disk    *disk
	machine *machine
	link    *link

	broken chan error    // has an element when the member cannot go on
	grown  chan struct{} // has an element when records have come
	begun  chan struct{} // closed when raft runs
	raft   *raft.Raft    // from then on

	mu      sync.Mutex
	group   string         // the name of the group, "" as long as it is none's
	trouble string         // why the group has not begun, or this member has no vote in it
	seed    *cluster.State // until it has
	looked  bool           // while the group had not begun: see form
	filling bool           // see identity
	heard   leaderAt       // last
}

// Open opens the member's folder, which it creates, and listens to the others. Nothing else happens until Run.
func Open(c Config) (*Member, error) {
	if !slices.ContainsFunc(c.Peers, func(p Peer) bool { return p.Name == c.Name }) {
		return nil, errors.Join(fmt.Errorf("replica: %q is none of the members", c.Name), c.Listener.Close())
	}
	if c.Election == 0 {
		c.Election = DefaultElection
	}
	if c.SnapshotEvery == 0 {
		c.SnapshotEvery = DefaultSnapshotEvery
	}
	if c.Dial == nil {
		c.Dial = new(net.Dialer).DialContext
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	m := &Member{
		config: c, log: c.Logger.With("member", c.Name),
		broken: make(chan error, 1), grown: make(chan struct{}, 1), begun: make(chan struct{}),
	}
	m.machine = newMachine(
		func(err error) {
			if errors.Is(err, store.ErrNewer) {
				m.fail(fmt.Errorf("replica: %w; the members that lead are of a newer version, which this one has to be, too", err))
				return
			}
			m.fail(fmt.Errorf("%w; this member's folder %s is of no use any more: with an empty one it gets all from the others", err, c.Dir))
		},
		func() {
			select {
			case m.grown <- struct{}{}:
			default:
			}
		})
	unwritable := func(err error) {
		m.fail(fmt.Errorf("replica: nothing can be written to %s, start again when it can: %w", c.Dir, err))
	}
	var err error
	if m.folder, err = openFolder(c, unwritable, m.log); err != nil {
		return nil, errors.Join(err, c.Listener.Close())
	}
	if !m.folder.begun && c.Seed != nil {
		if m.seed, err = c.Seed(); err != nil {
			return nil, errors.Join(err, m.folder.close(), c.Listener.Close())
		}
	}
	m.disk = &disk{patience: hangsAfter * c.Election, log: m.log}
	if m.folder.begun {
		m.group = m.folder.identity.Group
		m.filling = m.folder.identity.Filling
	}
	m.link = newLink(c, m.log, m.answer, m.ownGroup, m.mayVote, m.hear, m.disk.err)
	return m, nil
}

// Run takes part in the group until ctx ends or something fails that leaves no way on.
func (m *Member) Run(ctx context.Context) error {
	join := m.join
	if m.folder.begun {
		join = m.checkGroup
	}
	if err := join(ctx); err != nil || ctx.Err() != nil {
		return err
	}
	if err := m.start(); err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return m.takeSnapshots(ctx) })
	group.Go(func() error { return m.tellOfPeers(ctx) })
	group.Go(func() error { return m.fill(ctx) })
	group.Go(func() error {
		select {
		case err := <-m.broken:
			return err
		case <-ctx.Done():
			return nil
		}
	})
	return group.Wait()
}

// join makes this member one of a group, which begins if it has not, or ctx ends.
func (m *Member) join(ctx context.Context) error {
	group, begin := m.form(ctx)
	if ctx.Err() != nil {
		return nil
	}
	if err := m.folder.identify(identity{m.config.Name, group, !m.looked}); err != nil {
		return err
	}
	m.mu.Lock()
	seed := m.seed
	m.group, m.filling = group, !m.looked
	m.mu.Unlock()
	if !begin {
		if seed != nil { // as of a snapshot that was restored on this machine alone
			m.log.Warn("the history that this member brings is not gone on with: the group has begun with another one")
		}
		return nil
	}
	return m.folder.begin(m.config.Peers, seed, m.link.transport)
}

// leaderAt is a term, and up to which entry its leader has said that most members have the log.
type leaderAt struct{ term, entry uint64 }

// hear takes in how far a leader has said to be.
func (m *Member) hear(term, entry uint64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if entry > 0 && term >= m.heard.term { // a heartbeat says nothing of it
		m.heard = leaderAt{term, entry}
	}
}

// fill waits until this member's folder counts as filled.
func (m *Member) fill(ctx context.Context) error {
	for {
		if filling, err := m.isFilling(); err != nil || !filling {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(m.config.Election / 10):
		}
	}
}

// isFilling reports whether the folder was empty and may lack yet what this member has said to have. It does not any more when it knows that the
// leader leads, which is behind all of terms before, and has all that the leader has said to be durable. Raft has begun.
func (m *Member) isFilling() (bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.filling {
		return false, nil
	}
	heard := m.heard
	if m.leads() {
		heard = leaderAt{m.raft.CurrentTerm(), 1}
	}
	_, leader := m.machine.view()
	if _, entry := m.end(); heard.entry == 0 || leader.Term < heard.term || entry < heard.entry {
		return true, nil // who is elected meanwhile has all that all others have
	}
	if err := m.folder.identify(identity{m.config.Name, m.group, false}); err != nil {
		return true, fmt.Errorf("replica: %w", err)
	}
	m.filling, m.trouble = false, ""
	return false, nil
}

// ownGroup returns the name of the group, "" as long as this member is of none.
func (m *Member) ownGroup() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.group
}

// isOfAnother reports whether an answer is of a member of another group.
func (m *Member) isOfAnother(a answer) bool { return m.link.isAnother(a.Name, a.Group) }

// fail has Run end with the error, if it is the first.
func (m *Member) fail(err error) {
	select {
	case m.broken <- err:
	default:
	}
}

// start lets raft go on with what the store holds.
func (m *Member) start() error {
	c := raft.DefaultConfig()
	c.LocalID = raft.ServerID(m.config.Name)
	c.HeartbeatTimeout, c.ElectionTimeout, c.LeaderLeaseTimeout = m.config.Election, m.config.Election, m.config.Election/2
	c.CommitTimeout = min(c.CommitTimeout, m.config.Election/10)
	c.SnapshotThreshold = 1 << 62 // takeSnapshots knows better
	c.NoLegacyTelemetry = true
	c.Logger = hashicorpLog(m.log)
	err := reading(func() (err error) {
		log, stable := watchedLog{m.folder.entries, m.disk}, watchedStable{m.folder.entries, m.disk}
		m.raft, err = raft.NewRaft(c, m.machine, log, stable, m.folder.snapshots, m.link.transport)
		return err
	})
	if err != nil {
		select {
		case why := <-m.broken:
			return why
		default:
		}
		return fmt.Errorf("replica: %w", m.folder.store.Told(fmt.Errorf("%w: %w", store.ErrDamaged, err)))
	}
	m.mu.Lock()
	m.trouble, m.seed = "", nil
	m.mu.Unlock()
	close(m.begun)
	return nil
}

// takeSnapshots has the state written whenever enough records have come since the last time, and at the start, as it is not known how
// long ago that was.
func (m *Member) takeSnapshots(ctx context.Context) error {
	var last uint64
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-m.grown:
		}
		if !m.machine.due(last, m.config.SnapshotEvery) {
			continue
		}
		seq, _ := m.machine.view()
		// One that fails is no harm: the log is longer. That the disk is full is said by what is written next.
		if err := m.raft.Snapshot().Error(); err != nil && !errors.Is(err, raft.ErrNothingNewToSnapshot) {
			m.log.Warn("no snapshot could be taken", "error", err)
		}
		last = seq
	}
}

// Lead waits until this member leads and has all that is durable, and returns its term. The term before has to have ended.
func (m *Member) Lead(ctx context.Context) (*Term, error) {
	select {
	case <-m.begun:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	for {
		if m.leads() {
			t, err := m.begin()
			if err == nil {
				return t, nil
			}
			if ctx.Err() == nil {
				m.log.Warn("this member was elected, and does not lead after all", "error", err)
			}
		}
		select {
		case <-m.raft.LeaderCh():
		case <-time.After(m.config.Election): // what the channel says may have been taken by a term that was ending
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// leads reports whether the others hear this member as their leader. Raft has begun.
func (m *Member) leads() bool { return m.raft.State() == raft.Leader && m.disk.err() == nil }

// begin begins a term of the elected leader.
func (m *Member) begin() (*Term, error) {
	number := m.raft.CurrentTerm()
	now := time.Now()
	if err := m.raft.Barrier(0).Error(); err != nil { // all that others appended is applied
		return nil, err
	}
	t := &Term{member: m, number: number, lost: make(chan struct{}), ended: make(chan struct{})}
	t.sure.Store(&now)
	t.state = m.machine.fork()
	if t.mayLack() {
		m.log.Error("most members had lost their folders, and what most had may be lost with them: it is gone on with what the others had. " +
			"New jobs and runs are numbered from beyond that, and nothing is placed before it is known what runs")
		if err := t.forget(); err != nil {
			return nil, err
		}
	}
	if err := t.announce(); err != nil { // from then on who had lost a folder has all that there is: see isFilling
		return nil, err
	}
	go t.watch()
	go t.settleMembers()
	m.log.Info("this member leads", "term", number, "record", t.state.Seq())
	return t, nil
}

// Leader returns who leads and where its API is, as far as that is known; a zero Leader if not.
func (m *Member) Leader() Leader {
	select {
	case <-m.begun:
	default:
		return Leader{}
	}
	_, id := m.raft.LeaderWithID()
	if _, leader := m.machine.view(); id != "" && leader.Name == string(id) {
		return leader
	}
	return Leader{Name: string(id)}
}

// Trouble says why the group has not begun, or cannot elect anybody by the settings of this member; "" if it can.
func (m *Member) Trouble() string {
	select {
	case <-m.begun:
		return m.unreachable()
	default:
		m.mu.Lock()
		defer m.mu.Unlock()
		return m.trouble
	}
}

// unreachable says that most of those who have votes are none of the configured members, if nobody leads.
func (m *Member) unreachable() string {
	voters, err := m.voters()
	if _, leader := m.raft.LeaderWithID(); leader != "" || err != nil {
		return ""
	}
	var unknown []string
	for _, name := range voters {
		if _, err := m.link.ServerAddr(raft.ServerID(name)); err != nil {
			unknown = append(unknown, name)
		}
	}
	if filling, _ := m.isFilling(); filling || len(voters) == 0 {
		m.mu.Lock()
		defer m.mu.Unlock()
		return m.trouble
	}
	if 2*(len(voters)-len(unknown)) > len(voters) {
		return ""
	}
	return fmt.Sprintf("the group consists of %s, of whom most have to be there, and scheduler.peers here lacks %s: have them there until others have taken their places, one after the other",
		strings.Join(voters, ", "), strings.Join(unknown, ", "))
}

// end returns the term and the index of the last entry that this member has. Raft has begun.
func (m *Member) end() (term, index uint64) {
	stats := m.raft.Stats()
	for _, last := range []string{"last_log", "last_snapshot"} {
		t, _ := strconv.ParseUint(stats[last+"_term"], 10, 64) // they are numbers
		i, _ := strconv.ParseUint(stats[last+"_index"], 10, 64)
		if t > term || t == term && i > index {
			term, index = t, i
		}
	}
	return term, index
}

// mayVote says why this member may not vote for one, another or itself, whose last entry has a term and an index. One whose folder was empty may
// have lost it, and forgotten what it has said to have: raft would have it vote for whoever asks, or be elected with less. Until it has all, it
// goes by what all others say, as does a group that begins.
func (m *Member) mayVote(candidate string, term, index uint64) error {
	lacks := "this member has an empty folder"
	select {
	case <-m.begun:
		if f := m.raft.GetConfiguration(); f.Error() == nil && len(f.Configuration().Servers) > 0 {
			if filling, err := m.isFilling(); err != nil || !filling {
				return err
			}
			lacks = "this member had an empty folder, and has not got all that there is"
		}
	default:
	}
	var silent []string
	for i, a := range m.askAll(context.Background()) {
		switch name := m.config.Peers[i].Name; {
		case a.Name == "":
			silent = append(silent, name)
		case name != candidate && (a.Term > term || a.Term == term && a.Entry > index):
			return fmt.Errorf("replica: %s has more than %s", name, candidate)
		}
	}
	if len(silent) == 0 {
		return nil
	}
	trouble := lacks + ", and no vote until all others answer: nothing is heard of " + strings.Join(silent, ", ")
	m.waitFor(trouble)
	return fmt.Errorf("replica: %s", trouble)
}

// waitFor remembers what keeps this member from taking part, "" if nothing does, and says it once.
func (m *Member) waitFor(trouble string) {
	m.mu.Lock()
	told := m.trouble == trouble
	m.trouble = trouble
	m.mu.Unlock()
	if !told && trouble != "" {
		m.log.Warn(trouble)
	}
}

// Close ends the member's part in the group. What it has said to have is on its disk. It does not wait for a disk that does not answer.
func (m *Member) Close() error {
	if err := m.disk.err(); err != nil {
		return errors.Join(err, m.link.close())
	}
	var errs []error
	select {
	case <-m.begun:
		errs = append(errs, m.raft.Shutdown().Error())
	default:
	}
	return errors.Join(append(errs, m.link.close(), m.folder.close())...)
}

// Standing is how a member is doing.
type Standing struct {
	Peer
	Role   string // leader, standby, new without a vote, or waiting as the group has not begun; "" if it does not answer
	Record uint64 // the last that it has applied
	API    string // where its API would be
}

// The roles of members.
const (
	RoleLeader  = "leader"
	RoleStandby = "standby"
	RoleNew     = "new"
	RoleWaiting = "waiting"
)

// Members asks all members how they are doing, in the order of the configuration. Who has a vote is known to the one that leads.
func (m *Member) Members(ctx context.Context) []Standing {
	all := make([]Standing, len(m.config.Peers))
	for i, a := range m.askAll(ctx) {
		all[i].Peer = m.config.Peers[i]
		if m.isOfAnother(a) {
			continue
		}
		if a.Role == RoleStandby && m.lacksVote(a.Name) {
			a.Role = RoleNew
		}
		all[i] = Standing{Peer: all[i].Peer, Role: a.Role, Record: a.Record, API: a.API}
	}
	return all
}

// lacksVote reports whether a member has no vote, as far as this one knows who has.
func (m *Member) lacksVote(name string) bool {
	select {
	case <-m.begun:
	default:
		return false
	}
	voters, err := m.voters()
	return err == nil && !slices.Contains(voters, name)
}

// voters returns the names of those who have votes, as far as this member knows. Raft has begun.
func (m *Member) voters() (names []string, err error) {
	f := m.raft.GetConfiguration()
	if err := f.Error(); err != nil {
		return nil, err
	}
	for _, s := range f.Configuration().Servers {
		if s.Suffrage == raft.Voter {
			names = append(names, string(s.ID))
		}
	}
	return names, nil
}

// askAll has all members tell about themselves, in the order of the configuration; the answer of one that does not is zero.
func (m *Member) askAll(ctx context.Context) []answer {
	all := make([]answer, len(m.config.Peers))
	replies := m.asking(ctx)
	for range all {
		r := <-replies
		all[r.peer] = r.answer
	}
	return all
}

// reply is the answer of a member, by its place in the configuration.
type reply struct {
	peer int
	answer
}

// asking is askAll for who may not need all answers: it returns each as it comes.
func (m *Member) asking(ctx context.Context) <-chan reply {
	replies := make(chan reply, len(m.config.Peers))
	for i, p := range m.config.Peers {
		go func() {
			a, err := m.ask(ctx, p)
			if err != nil {
				a = answer{}
			}
			replies <- reply{i, a}
		}()
	}
	return replies
}

// ask has a member tell about itself.
func (m *Member) ask(ctx context.Context, p Peer) (answer, error) {
	if p.Name == m.config.Name {
		return m.answer(question{}), nil
	}
	return m.link.ask(ctx, p, question{Peers: m.config.Peers})
}

// answer tells another member about this one.
func (m *Member) answer(q question) answer {
	seq, _ := m.machine.view()
	a := answer{Name: m.config.Name, Role: RoleWaiting, Record: seq, API: m.config.API, SamePeers: slices.Equal(q.Peers, m.config.Peers)}
	select {
	case <-m.begun:
		a.Role = RoleStandby
		a.Filling, _ = m.isFilling()
		if m.leads() {
			a.Role = RoleLeader
		} else if a.Filling {
			a.Role = RoleNew
		}
		a.Term, a.Entry = m.end()
	default:
		m.mu.Lock()
		a.Seed, a.Looked, a.Filling = m.seed != nil, m.looked, m.filling
		m.mu.Unlock()
	}
	a.Begun = m.folder.begun || a.Role != RoleWaiting
	a.Group = m.ownGroup() // which is known to whoever has begun
	return a
}
