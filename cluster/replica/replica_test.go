package replica

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"log/slog"
	"math"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/hashicorp/raft"
	"github.com/stretchr/testify/require"

	"github.com/sluice-scheduler/sluice/cluster"
	"github.com/sluice-scheduler/sluice/cluster/journal"
	"github.com/sluice-scheduler/sluice/cluster/store"
)

const (
	// patience is far longer than anything here takes.
	patience = 30 * time.Second
	// election is as long as that of users: a busy machine is silent for a while, and its leaders are not to give up for that.
	election = DefaultElection
)

// group is some members on this machine. Those that are cut off can reach nobody and are reached by nobody.
type group struct {
	t        testing.TB
	peers    []Peer
	dirs     []string
	seeds    []*cluster.State
	every    uint64
	election time.Duration
	live     []*running // nil: it does not run
	said     *said
	name     string
	seed     func(i int) (*cluster.State, error)
}

// running is a member that runs, and what it came to.
type running struct {
	*Member
	gate   *gate
	cancel context.CancelFunc
	ended  chan error
}

// gate is what a member's connections go through. While it is shut there are none.
type gate struct {
	net.Listener
	mu    sync.Mutex
	shut  bool
	conns []net.Conn
}

func (g *gate) Accept() (net.Conn, error) {
	conn, err := g.Listener.Accept()
	if err == nil {
		g.pass(conn)
	}
	return conn, err
}

func (g *gate) dial(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := new(net.Dialer).DialContext(ctx, network, address)
	if err == nil {
		g.pass(conn)
	}
	return conn, err
}

// pass closes a connection that comes while the gate is shut, and notes others.
func (g *gate) pass(conn net.Conn) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.conns = append(g.conns, conn); g.shut {
		_ = conn.Close()
	}
}

func (g *gate) set(shut bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.shut = shut
	for _, c := range g.conns {
		_ = c.Close()
	}
	g.conns = nil
}

// groups counts those that there have been.
var groups atomic.Uint32

// newGroup returns a group that has not begun. Each has a loopback address of its own where there are many, so that none is given the port
// of another one's member that stands still.
func newGroup(t testing.TB, n int) *group {
	host := "127.0.0.1"
	number := groups.Add(1)
	if runtime.GOOS == "linux" {
		host = fmt.Sprintf("127.0.0.%d", 1+number%200)
	}
	g := &group{t: t, live: make([]*running, n), seeds: make([]*cluster.State, n), every: 1000, election: election, said: &said{}, name: fmt.Sprint("group", number)}
	g.seed = func(i int) (*cluster.State, error) { return g.seeds[i], nil }
	for i := range n {
		l, err := net.Listen("tcp", host+":0")
		require.NoError(t, err)
		g.peers = append(g.peers, Peer{fmt.Sprintf("n%d", i+1), l.Addr().String()})
		require.NoError(t, l.Close())
		g.dirs = append(g.dirs, filepath.Join(t.TempDir(), "replica"))
	}
	t.Cleanup(func() {
		for i := range g.live {
			g.stop(i)
		}
	})
	return g
}

func (g *group) open(i int) (*Member, *gate, error) { return g.openAs(i, g.dirs[i]) }

// openAs opens a member with a folder.
func (g *group) openAs(i int, dir string) (*Member, *gate, error) {
	var l net.Listener
	require.Eventually(g.t, func() (ok bool) {
		var err error
		l, err = net.Listen("tcp", g.peers[i].Address)
		return err == nil
	}, patience, 10*time.Millisecond)
	door := &gate{Listener: l}
	m, err := Open(Config{
		Name: g.peers[i].Name, Peers: g.peers, Dir: dir, Listener: door, Dial: door.dial, API: "api-of-" + g.peers[i].Name, Group: g.name,
		Seed:     func() (*cluster.State, error) { return g.seed(i) },
		Election: g.election, SnapshotEvery: g.every, Logger: slog.New(slog.NewTextHandler(g.said, &slog.HandlerOptions{Level: slog.LevelInfo})),
	})
	return m, door, err
}

// said is what members have logged.
type said struct {
	mu   sync.Mutex
	text strings.Builder
}

func (s *said) Write(b []byte) (int, error) {
	if testing.Verbose() {
		fmt.Fprint(os.Stderr, string(b))
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.Write(b)
}

func (s *said) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.String()
}

func (g *group) start(members ...int) {
	for _, i := range members {
		g.startWith(i, func(*running) {})
	}
}

// startWith starts a member that was changed before.
func (g *group) startWith(i int, change func(*running)) {
	m, door, err := g.open(i)
	require.NoError(g.t, err)
	ctx, cancel := context.WithCancel(g.t.Context())
	r := &running{m, door, cancel, make(chan error, 1)}
	change(r)
	go func() { r.ended <- m.Run(ctx) }()
	g.live[i] = r
}

func (g *group) stop(i int) {
	if r := g.live[i]; r != nil {
		g.live[i] = nil
		r.cancel()
		require.NoError(g.t, <-r.ended)
		_ = r.Close()
	}
}

// lead waits until one of the live members leads.
func (g *group) lead() (int, *Term) {
	g.t.Helper()
	ctx, cancel := context.WithTimeout(g.t.Context(), patience)
	defer cancel()
	type led struct {
		member int
		term   *Term
	}
	first := make(chan led, len(g.live))
	var group sync.WaitGroup
	for i, r := range g.live {
		if r != nil {
			group.Go(func() {
				if term, err := r.Lead(ctx); err == nil {
					first <- led{i, term}
					cancel()
				}
			})
		}
	}
	group.Wait()
	close(first)
	l, ok := <-first
	require.True(g.t, ok, "nobody leads")
	return l.member, l.term
}

// begin starts all members, appends n records, and returns who leads when all have them.
func (g *group) begin(n int) (leader int, term *Term) {
	g.t.Helper()
	for i := range g.peers {
		g.start(i)
	}
	leader, term = g.lead()
	_, err := write(term, n)
	require.NoError(g.t, err)
	g.agree(term.State())
	return leader, term
}

// write appends n records to a term's state, one batch each, and returns how many became durable.
func write(term *Term, n int) (durable int, err error) {
	for range n {
		if err := term.Append([]cluster.Record{next(term.State())}); err != nil {
			return durable, err
		}
		durable++
	}
	return durable, nil
}

// failure returns what an Append failed with, nil if none did.
func (t *Term) failure() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.failed
}

// next returns a record that follows a state, which it is applied to.
func next(s *cluster.State) cluster.Record {
	r := cluster.Record{Seq: s.Seq() + 1, At: cluster.Time(s.Seq() + 1), Event: &cluster.PoolPut{Pool: cluster.Pool{
		Path: cluster.PoolPath(fmt.Sprintf("/p%d", s.Seq()+1)), Version: 1,
	}}}
	if err := s.Apply(r); err != nil {
		panic(err)
	}
	return r
}

// form returns a State in its stored form.
func form(t testing.TB, s *cluster.State) string {
	snapshot, _ := s.Snapshot()
	var b strings.Builder
	for part := range snapshot.Parts() {
		blob, err := journal.Encode([]cluster.Record{{Seq: snapshot.Seq(), Event: part}})
		require.NoError(t, err)
		b.Write(blob)
	}
	return b.String()
}

// agree waits until all live members have the state.
func (g *group) agree(want *cluster.State) {
	g.t.Helper()
	for _, r := range g.live {
		if r != nil {
			require.Eventually(g.t, func() bool { seq, _ := r.machine.view(); return seq == want.Seq() }, patience, 5*time.Millisecond)
			require.Equal(g.t, form(g.t, want), form(g.t, r.machine.fork()), "member %s", r.config.Name)
		}
	}
}

func TestRecordsOutliveTheirLeader(t *testing.T) {
	t.Parallel()
	g := newGroup(t, 3)
	g.start(0, 1, 2)
	first, term := g.lead()
	n, err := write(term, 10)
	require.NoError(t, err)
	require.Equal(t, 10, n)
	before := term.State()
	g.agree(before)
	require.NotContains(t, g.said.String(), "level=WARN msg=\"raft", "nothing was wrong")

	g.stop(first)
	select {
	case <-term.Lost():
	case <-time.After(patience):
		require.Fail(t, "the term did not end with its member")
	}
	require.ErrorIs(t, term.Append([]cluster.Record{next(before.Fork())}), ErrLost)
	second, after := g.lead()
	require.NotEqual(t, first, second)
	require.Equal(t, form(t, before), form(t, after.State()))
	_, err = write(after, 10)
	require.NoError(t, err)

	tells := func(what string) {
		told := fmt.Sprintf("msg=%q member=%s peer=%s", what, g.peers[second].Name, g.peers[first].Name)
		require.Eventually(t, func() bool { return strings.Contains(g.said.String(), told) }, patience, 5*time.Millisecond, told)
	}
	tells("a member does not answer any more")
	g.start(first)
	tells("a member answers again")
	g.agree(after.State())
	r := g.live[first]
	require.Eventually(t, func() bool { return r.Leader().API == "api-of-"+g.peers[second].Name }, patience, 5*time.Millisecond)
}

func TestALeaderThatIsCutOffAcknowledgesNothing(t *testing.T) {
	t.Parallel()
	g := newGroup(t, 3)
	first, term := g.begin(3)
	durable := term.State().Fork()

	lone := g.live[first]
	g.live[first] = nil // the group has the other two from now on
	lone.gate.set(true)
	_, err := write(term, 1)
	require.ErrorIs(t, err, ErrLost)
	term.End()
	require.Contains(t, g.said.String(), `msg="this member does not lead any more"`)
	_, after := g.lead()
	require.Equal(t, form(t, durable), form(t, after.State()), "what was not acknowledged is not there, what was is")
	_, err = write(after, 5)
	require.NoError(t, err)

	g.live[first] = lone
	lone.gate.set(false)
	g.agree(after.State())
}

// One whose process stood still does not know yet that another one may lead.
func TestWhoStoodStillAsksWhetherItLeads(t *testing.T) {
	t.Parallel()
	g := newGroup(t, 3)
	first, term := g.begin(1)
	stoodStill := func() {
		then := time.Now().Add(-time.Hour)
		term.sure.Store(&then)
		require.False(t, term.isSure())
	}
	stoodStill()
	require.NoError(t, term.Leads())
	require.True(t, term.isSure(), "the others have said so")
	time.Sleep(2 * g.election)
	require.True(t, term.isSure(), "and it goes on")

	g.live[first].gate.set(true)
	stoodStill()
	require.ErrorIs(t, term.Leads(), ErrLost)
	g.live[first].gate.set(false)
}

func TestABatchOfManyPieces(t *testing.T) {
	t.Parallel()
	g := newGroup(t, 3)
	g.start(0, 1, 2)
	_, term := g.lead()
	var batch []cluster.Record
	size := 0
	for size < 5*pieceSize/2 {
		r := next(term.State())
		blob, err := journal.Encode([]cluster.Record{r})
		require.NoError(t, err)
		batch, size = append(batch, r), size+len(blob)
	}
	require.NoError(t, term.Append(batch))
	_, err := write(term, 1)
	require.NoError(t, err)
	g.agree(term.State())
}

// What a leader left behind in the middle of a batch is not mixed with what the next one appends.
func TestPiecesOfALeaderThatIsGone(t *testing.T) {
	t.Parallel()
	var broken error
	m := newMachine(func(err error) { broken = err }, func() {})
	state := cluster.NewState()
	index := uint64(0)
	apply := func(m *machine, e entry, term uint64) any {
		index++
		return m.Apply(&raft.Log{Index: index, Term: term, Type: raft.LogCommand, Data: e.encode()})
	}
	batch := func(n int) []byte {
		var records []cluster.Record
		fork := state.Fork()
		for range n {
			records = append(records, next(fork))
		}
		blob, err := journal.Encode(records)
		require.NoError(t, err)
		return blob
	}
	long := pieces(1, batch(20_000))
	require.Greater(t, len(long), 2)
	require.Nil(t, apply(m, long[0], 1))
	require.Nil(t, apply(m, long[1], 1))

	// A snapshot in between has the pieces, too.
	image, err := m.Snapshot()
	require.NoError(t, err)
	other := newMachine(func(err error) { broken = err }, func() {})
	require.NoError(t, other.Restore(stream(t, image)))
	for _, e := range long[2:] {
		require.Nil(t, apply(other, e, 1))
	}
	seq, _ := other.view()
	require.Equal(t, uint64(20_000), seq)

	short := pieces(2, batch(1))
	require.Nil(t, apply(m, short[0], 2), "a new batch begins anew")
	seq, _ = m.view()
	require.Equal(t, uint64(1), seq)
	require.ErrorIs(t, apply(m, long[2], 1).(error), ErrLost, "a piece without those before it")
	require.ErrorIs(t, apply(m, short[0], 2).(error), ErrLost, "records that are there already")
	require.ErrorIs(t, apply(m, short[0], 3).(error), ErrLost, "an entry of a term before")
	require.NoError(t, broken)
}

func stream(t testing.TB, s raft.FSMSnapshot) *pipe {
	var b strings.Builder
	require.NoError(t, s.(*image).write(&b))
	return &pipe{strings.NewReader(b.String())}
}

type pipe struct{ *strings.Reader }

func (pipe) Close() error { return nil }

func TestEntriesThatCannotBeApplied(t *testing.T) {
	t.Parallel()
	good := pieces(1, func() []byte {
		blob, err := journal.Encode([]cluster.Record{next(cluster.NewState())})
		require.NoError(t, err)
		return blob
	}())[0].encode()
	flipped := append([]byte{}, good...)
	flipped[len(flipped)-1] ^= 1
	newer := pieces(1, nil)[0].encode()
	newer[4] = formatVersion + 1
	reseal(newer)
	for name, c := range map[string]struct {
		data []byte
		want error
	}{
		"a bit is wrong": {flipped, store.ErrDamaged},
		"cut":            {good[:entryHeader-1], store.ErrDamaged},
		"empty":          {nil, store.ErrDamaged},
		"newer":          {newer, store.ErrNewer},
		"no batch":       {pieces(1, []byte("x"))[0].encode(), store.ErrDamaged},
	} {
		t.Run(name, func(t *testing.T) {
			var broken error
			m := newMachine(func(err error) { broken = err }, func() {})
			err, _ := m.Apply(&raft.Log{Index: 7, Term: 1, Type: raft.LogCommand, Data: c.data}).(error)
			require.ErrorIs(t, err, c.want)
			require.ErrorIs(t, broken, c.want)
			require.ErrorContains(t, broken, "entry 7")
			require.Error(t, m.Apply(&raft.Log{Index: 8, Term: 1, Type: raft.LogCommand, Data: good}).(error), "nothing is applied after it")
			_, err = m.Snapshot()
			require.Error(t, err, "and no snapshot hides it")
		})
	}
}

func TestImagesThatCannotBeRead(t *testing.T) {
	t.Parallel()
	m := newMachine(nil, func() {})
	for range 3 {
		next(m.state)
	}
	s, err := m.Snapshot()
	require.NoError(t, err)
	var whole strings.Builder
	require.NoError(t, s.(*image).write(&whole))
	state, _, err := readImage(strings.NewReader(whole.String()))
	require.NoError(t, err)
	require.Equal(t, form(t, m.state), form(t, state))
	for cut := range whole.Len() {
		if _, _, err := readImage(strings.NewReader(whole.String()[:cut])); err == nil {
			// Between two parts only the store's checksum can tell.
			require.Greater(t, cut, 50)
		}
	}
	newer := string(rune(formatVersion+1)) + whole.String()[1:]
	_, _, err = readImage(strings.NewReader(newer))
	require.ErrorIs(t, err, store.ErrNewer)
}

func TestWhoIsAwayGetsASnapshot(t *testing.T) {
	t.Parallel()
	for name, wiped := range map[string]bool{"with a part of the log": false, "with an empty folder": true} {
		t.Run(name, func(t *testing.T) {
			g := newGroup(t, 3)
			g.every, g.election = 50, 3*election // one of two that are left is silent for long on a busy machine, while both write snapshots
			g.start(0, 1, 2)
			leader, term := g.lead()
			away := (leader + 1) % 3
			_, err := write(term, 20)
			require.NoError(t, err)
			g.stop(away)
			conf := g.live[leader].raft.ReloadableConfig()
			conf.TrailingLogs = 1
			require.NoError(t, g.live[leader].raft.ReloadConfig(conf))
			_, err = write(term, 200)
			require.NoError(t, err)
			require.Eventually(t, func() bool {
				images, err := g.live[leader].folder.snapshots.List()
				return err == nil && len(images) > 0 && images[0].Index > 100
			}, patience, 10*time.Millisecond)
			if wiped {
				require.NoError(t, os.RemoveAll(g.dirs[away]))
			}
			g.start(away)
			g.agree(term.State())
			_, err = write(term, 3)
			require.NoError(t, err)
			g.agree(term.State())

			for i := range g.live {
				g.stop(i)
			}
			g.start(0, 1, 2)
			_, again := g.lead()
			require.Equal(t, form(t, term.State()), form(t, again.State()), "all of it is there after all have been away")
		})
	}
}

func TestAGroupBeginsWithTheHistoryThatThereIs(t *testing.T) {
	t.Parallel()
	g := newGroup(t, 3)
	seed := cluster.NewState()
	for range 5 {
		next(seed)
	}
	g.seeds[1] = seed
	g.start(0, 1)
	time.Sleep(3 * askEvery)
	require.Contains(t, g.live[0].Trouble(), "n3", "as long as one does not answer it might have a history")
	require.Equal(t, Leader{}, g.live[0].Leader())
	g.start(2)
	_, term := g.lead()
	require.Equal(t, form(t, seed), form(t, term.State()))
	g.agree(seed)
	require.Empty(t, g.live[0].Trouble())

	// It began once: another seed is no matter, nor whether it can be read.
	g.stop(1)
	g.seed = func(int) (*cluster.State, error) { return nil, errors.New("it is damaged") }
	g.start(1)
	g.agree(seed)
}

// A history that comes when the group has begun, as that of a snapshot restored on one machine, is not gone on with, and that is said.
func TestAHistoryThatComesTooLate(t *testing.T) {
	t.Parallel()
	g := newGroup(t, 3)
	_, term := g.begin(5)
	g.stop(2)
	require.NotContains(t, g.said.String(), "is not gone on with")
	g.dirs[2], g.seeds[2] = filepath.Join(t.TempDir(), "replica"), cluster.NewState()
	next(g.seeds[2])
	g.start(2)
	g.agree(term.State())
	require.Contains(t, g.said.String(), "the history that this member brings is not gone on with")
}

// A member that was ended right after it had begun the group goes on with it.
func TestEndedAfterTheBeginning(t *testing.T) {
	t.Parallel()
	g := newGroup(t, 2)
	g.seeds[1] = cluster.NewState()
	next(g.seeds[1])
	m, _, err := g.open(1)
	require.NoError(t, err)
	require.NoError(t, m.folder.identify(identity{"n2", g.name, false}))
	require.NoError(t, m.folder.begin(g.peers, g.seeds[1], m.link.transport))
	require.NoError(t, m.Close())
	seed := g.seeds[1]
	g.seeds[1] = nil
	g.start(0, 1)
	_, term := g.lead()
	require.Equal(t, form(t, seed), form(t, term.State()))
	g.agree(seed)
}

func TestTwoHistoriesAreNotMixed(t *testing.T) {
	t.Parallel()
	g := newGroup(t, 3)
	for i := range 2 {
		g.seeds[i] = cluster.NewState()
		next(g.seeds[i])
	}
	g.start(0, 1, 2)
	require.Eventually(t, func() bool { return strings.Contains(g.live[2].Trouble(), "n1, n2 have a history each") }, patience, 10*time.Millisecond)
	g.stop(0)
	g.seeds[0] = nil
	g.start(0)
	_, term := g.lead()
	require.Equal(t, form(t, g.seeds[1]), form(t, term.State()))
}

// A machine whose folder is of another group does not take part, however far that has come, and the history of neither is lost.
func TestFoldersOfAnotherGroup(t *testing.T) {
	t.Parallel()
	g := newGroup(t, 4)
	all := g.peers
	g.peers = all[:3]
	g.begin(50)
	for i := range 3 {
		g.stop(i)
	}
	other := newGroup(t, 1)
	other.peers[0] = all[3]
	for range 3 { // its terms are later ones
		other.start(0)
		_, alone := other.lead()
		_, err := write(alone, 5)
		require.NoError(t, err)
		other.stop(0)
	}

	// It runs first, and finds itself alone.
	g.peers, other.peers = all, all
	g.dirs[3] = other.dirs[0]
	foreign, gate, err := other.openAs(3, other.dirs[0])
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- foreign.Run(ctx) }()
	alone, err := foreign.Lead(ctx)
	require.NoError(t, err)
	gate.set(true) // so that the others do not see it when they start
	g.start(0, 1, 2)
	leader, term := g.lead()
	g.agree(term.State()) // all three have begun
	gate.set(false)
	require.Eventually(t, func() bool {
		return strings.Contains(g.said.String(), "folder is of another group: it takes no part in this one until it has an empty folder\" member="+g.peers[leader].Name+" peer=n4")
	}, patience, 10*time.Millisecond)
	_, err = write(alone, 5)
	require.NoError(t, err)
	_, err = write(term, 5)
	require.NoError(t, err)
	g.agree(term.State())
	require.Empty(t, g.live[leader].Members(t.Context())[3].Role)
	cancel()
	require.NoError(t, <-ended)
	require.NoError(t, foreign.Close())

	// Once the others are there it does not start.
	foreign, _, err = other.openAs(3, other.dirs[0])
	require.NoError(t, err)
	require.ErrorContains(t, foreign.Run(t.Context()), "is of another group than n1, n2, n3: leave it to those whose history is to be gone on with")
	require.NoError(t, foreign.Close())
	require.NoError(t, os.RemoveAll(other.dirs[0]))
	g.start(3)
	g.agree(term.State())
}

// Whoever sets other peers while most members of the group are none of them is told why nobody leads.
func TestMostMembersAreNoPeers(t *testing.T) {
	t.Parallel()
	g := newGroup(t, 3)
	all := g.peers
	g.start(0, 1, 2)
	g.lead()
	require.Empty(t, g.live[0].Trouble())
	for i := range g.live {
		g.stop(i)
	}
	g.peers = all[:2]
	g.start(0)
	<-g.live[0].begun
	require.Empty(t, g.live[0].Trouble(), "two of three are most")
	g.stop(0)
	g.peers = all[:1]
	g.start(0)
	require.Eventually(t, func() bool {
		return strings.Contains(g.live[0].Trouble(), "consists of n1, n2, n3, of whom most have to be there, and scheduler.peers here lacks n2, n3: ")
	}, patience, 10*time.Millisecond)
}

// A member that has lost its folder has no vote that could lose what it has said to have: it waits for all others, who know.
func TestAnEmptyFolderUnderAnOldName(t *testing.T) {
	t.Parallel()
	g := newGroup(t, 3)
	g.begin(5)
	g.stop(2)
	_, term := g.lead()
	_, err := write(term, 5)
	require.NoError(t, err)
	g.agree(term.State())
	g.stop(0)
	g.stop(1)

	require.NoError(t, os.RemoveAll(g.dirs[1]))
	g.start(1, 2)
	require.Eventually(t, func() bool {
		return g.live[1].Trouble() == "this member has an empty folder, and no vote until all others answer: nothing is heard of n1"
	}, patience, 10*time.Millisecond)
	time.Sleep(3 * election)
	require.Empty(t, g.live[2].Leader(), "n3 does not have all that was acknowledged")
	g.start(0)
	_, again := g.lead()
	require.Equal(t, form(t, term.State()), form(t, again.State()))
	g.agree(term.State())
	require.Empty(t, g.live[1].Trouble())
}

// When most members lose their folders while another one is behind, what they had said to have is lost. Its numbers are not given out again, and
// nothing is placed before it is known what runs.
func TestMostFoldersAreLost(t *testing.T) {
	t.Parallel()
	for name, behind := range map[string]bool{"while another one is behind": true, "one after the other": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := newGroup(t, 3)
			_, term := g.begin(5)
			require.Less(t, term.State().NextJob(), cluster.JobUID(cluster.Forgettable), "folders that are empty in the beginning have lost nothing")
			known := term.State().Seq()
			if behind {
				g.stop(2)
				_, term = g.lead()
				_, err := write(term, 5)
				require.NoError(t, err)
				g.agree(term.State())
				g.stop(0)
				g.stop(1)
			}
			for i := range 2 {
				g.stop(i)
				require.NoError(t, os.RemoveAll(g.dirs[i]))
				if !behind {
					g.start(i)
					g.lead()
					g.agree(term.State())
					require.Eventually(t, func() bool { return !g.live[i].answer(question{}).Filling }, patience, 10*time.Millisecond)
				}
			}
			if behind {
				g.start(0, 1, 2)
			}
			_, term = g.lead()
			require.Equal(t, behind, term.State().Mode().Restored)
			require.Equal(t, behind, term.State().NextJob() > cluster.Forgettable)
			if behind {
				require.Equal(t, known+2, term.State().Seq())
			}
			g.agree(term.State())
		})
	}
}

// afterImage is a store of snapshots that says when there is one more.
type afterImage struct {
	raft.SnapshotStore
	then func()
}

type afterClose struct {
	raft.SnapshotSink
	then func()
}

func (a afterImage) Create(version raft.SnapshotVersion, index, term uint64, c raft.Configuration, at uint64, t raft.Transport) (raft.SnapshotSink, error) {
	sink, err := a.SnapshotStore.Create(version, index, term, c, at, t)
	return afterClose{sink, a.then}, err
}

func (a afterClose) Close() error {
	defer a.then()
	return a.SnapshotSink.Close()
}

// A member that has lost its folder, and that its leader leaves with a part of what it had, neither votes for one who lacks the rest nor is
// elected by him.
func TestAFolderThatIsFilledInPart(t *testing.T) {
	t.Parallel()
	for name, more := range map[string]bool{"with less than the other": false, "with more than the other": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := newGroup(t, 3)
			if more {
				g.every = 50
			}
			leader, term := g.begin(5)
			wiped, behind := (leader+1)%3, (leader+2)%3
			g.stop(behind)
			if more {
				conf := g.live[leader].raft.ReloadableConfig()
				conf.TrailingLogs = 1
				require.NoError(t, g.live[leader].raft.ReloadConfig(conf))
				_, err := write(term, 60)
				require.NoError(t, err)
				require.Eventually(t, func() bool {
					images, err := g.live[leader].folder.snapshots.List()
					return err == nil && len(images) > 0 && images[0].Index > 20
				}, patience, 10*time.Millisecond)
			}
			_, err := write(term, 20)
			require.NoError(t, err)
			g.agree(term.State())

			g.stop(wiped)
			require.NoError(t, os.RemoveAll(g.dirs[wiped]))
			cut := g.live[leader].gate
			g.startWith(wiped, func(r *running) {
				r.folder.snapshots = afterImage{r.folder.snapshots, func() { cut.set(true) }}
			})
			entry := func() uint64 { return g.live[wiped].answer(question{}).Entry }
			require.Eventually(t, func() bool { return entry() > 0 }, patience, 10*time.Millisecond)
			g.stop(leader)
			require.Less(t, entry(), term.State().Seq())
			g.start(behind)
			trouble := func() string { return g.live[wiped].Trouble() }
			leads := func() Leader { return g.live[behind].Leader() }
			require.Eventually(t, func() bool { return trouble() != "" || leads() != Leader{} }, patience, 10*time.Millisecond)
			require.Empty(t, leads(), "neither has all that was acknowledged")
			require.Equal(t, "this member had an empty folder, and has not got all that there is, and no vote until all others answer: nothing is heard of "+g.peers[leader].Name, trouble())

			g.start(leader)
			_, again := g.lead()
			require.Equal(t, form(t, term.State()), form(t, again.State()))
			g.agree(term.State())
			require.Eventually(t, func() bool { return trouble() == "" }, patience, 10*time.Millisecond)
		})
	}
}

// A folder is of one member, whose promises are in it.
func TestFoldersOfAnotherMember(t *testing.T) {
	t.Parallel()
	g := newGroup(t, 1)
	g.start(0)
	g.lead()
	g.stop(0)
	g.peers = []Peer{{"n9", g.peers[0].Address}}
	_, _, err := g.open(0)
	require.ErrorContains(t, err, "it is the folder of the member n1: set scheduler.member to that, or give n9 a folder of its own")
	require.NotErrorIs(t, err, store.ErrDamaged)
	require.ErrorContains(t, err, g.dirs[0])
}

func TestPeersHaveToBeTheSame(t *testing.T) {
	t.Parallel()
	g := newGroup(t, 2)
	g.start(0)
	g.peers = []Peer{g.peers[1], g.peers[0]}
	g.dirs[0], g.dirs[1] = g.dirs[1], g.dirs[0]
	m, _, err := g.open(0)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- m.Run(ctx) }()
	require.Eventually(t, func() bool { return strings.Contains(m.Trouble(), "they have to be the same") }, patience, 10*time.Millisecond)
	cancel()
	require.NoError(t, <-ended)
	require.NoError(t, m.Close())
}

func TestMembersTakeThePlaceOfOthers(t *testing.T) {
	t.Parallel()
	g := newGroup(t, 4)
	all := g.peers
	g.peers = all[:3]
	_, term := g.begin(5)
	for i := range 3 {
		g.stop(i)
	}
	// The third machine is gone, and a new one is to take its place.
	g.peers = []Peer{all[0], all[1], all[3]}
	g.dirs[2] = g.dirs[3]
	g.start(0, 1)
	leader, after := g.lead()
	require.Equal(t, form(t, term.State()), form(t, after.State()))
	require.Eventually(t, func() bool {
		f := g.live[leader].raft.GetConfiguration()
		return f.Error() == nil && len(f.Configuration().Servers) == 3 && f.Configuration().Servers[2].ID == "n4"
	}, patience, 10*time.Millisecond)
	g.start(2)
	_, err := write(after, 5)
	require.NoError(t, err)
	g.agree(after.State())
	stands := func() string { return g.live[leader].Members(t.Context())[2].Role }
	require.Eventually(t, func() bool { return stands() == RoleStandby }, patience, 10*time.Millisecond)
	for i, s := range g.live[leader].Members(t.Context()) {
		role := RoleStandby
		if i == leader {
			role = RoleLeader
		}
		require.Equal(t, Standing{g.peers[i], role, after.State().Seq(), "api-of-" + g.peers[i].Name}, s)
	}
	// One without a vote is shown as such. A leader that is not done with its members gives it one at once.
	require.Eventually(t, func() bool {
		require.NoError(t, g.live[leader].raft.DemoteVoter("n4", 0, 0).Error())
		return stands() == RoleNew
	}, patience, 10*time.Millisecond)
	require.NoError(t, g.live[leader].raft.AddVoter("n4", raft.ServerAddress(g.peers[2].Address), 0, 0).Error())
	require.Equal(t, RoleStandby, stands())
	g.stop(1 - leader)
	require.Empty(t, g.live[leader].Members(t.Context())[1-leader].Role)
}

// A group of one becomes one of three, and leads on while the others are not there yet.
func TestAGroupGrows(t *testing.T) {
	t.Parallel()
	g := newGroup(t, 3)
	all := g.peers
	g.peers = all[:1]
	g.start(0)
	_, term := g.lead()
	_, err := write(term, 5)
	require.NoError(t, err)
	term.End()
	g.stop(0)
	g.peers = all
	g.start(0)
	_, term = g.lead()
	r := g.live[0].raft
	// A term that a busy machine has ended goes on as another one, as where schedulers run.
	suffrages := func() (voters, others int) {
		select {
		case <-term.Lost():
			_, term = g.lead()
		default:
		}
		f := r.GetConfiguration()
		require.NoError(t, f.Error())
		for _, s := range f.Configuration().Servers {
			if s.Suffrage == raft.Voter {
				voters++
			} else {
				others++
			}
		}
		return voters, others
	}
	waitFor := func(wantVoters, wantOthers int) {
		t.Helper()
		for end := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) {
			voters, others := suffrages()
			if voters == wantVoters && others == wantOthers {
				return
			}
			require.True(t, time.Now().Before(end), "%d have votes, and %d have none", voters, others)
		}
	}
	waitFor(1, 2)
	time.Sleep(3 * election)
	_, err = write(term, 5)
	require.NoError(t, err, "nobody waits for members that are not there")
	g.start(1)
	waitFor(2, 1)
	g.start(2)
	waitFor(3, 0)
	_, err = write(term, 5) // they have what comes after it, and so that they have votes
	require.NoError(t, err)
	g.agree(term.State())
	g.stop(0)
	_, term = g.lead()
	_, err = write(term, 5)
	require.NoError(t, err)
}

// All machines get other addresses at once, as where a network is renumbered.
func TestAllAddressesChange(t *testing.T) {
	t.Parallel()
	g := newGroup(t, 3)
	_, term := g.begin(5)
	for i := range g.live {
		g.stop(i)
	}
	g.peers = newGroup(t, 3).peers
	g.start(0, 1, 2)
	leader, after := g.lead()
	require.Equal(t, form(t, term.State()), form(t, after.State()))
	_, err := write(after, 5)
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		f := g.live[leader].raft.GetConfiguration()
		return f.Error() == nil && !slices.ContainsFunc(f.Configuration().Servers, func(s raft.Server) bool {
			return !slices.Contains(g.peers, Peer{string(s.ID), string(s.Address)})
		})
	}, patience, 10*time.Millisecond)
	g.agree(after.State())
}

func TestWhoEndsATermHandsItOver(t *testing.T) {
	t.Parallel()
	g := newGroup(t, 3)
	g.start(0, 1, 2)
	first, term := g.lead()
	_, err := write(term, 5)
	require.NoError(t, err)
	term.End()
	<-term.Lost()
	_, err = write(term, 1)
	require.ErrorIs(t, err, ErrLost)
	require.Eventually(t, func() bool {
		l := g.live[first].Leader().Name
		return l != "" && l != g.peers[first].Name
	}, patience, 10*time.Millisecond)
}

func TestAGroupOfOne(t *testing.T) {
	t.Parallel()
	g := newGroup(t, 1)
	g.start(0)
	_, term := g.lead()
	_, err := write(term, 5)
	require.NoError(t, err)
	term.End()
	g.stop(0)
	g.start(0)
	_, again := g.lead()
	require.Equal(t, form(t, term.State()), form(t, again.State()))
}

func TestFoldersThatAreNoMembers(t *testing.T) {
	t.Parallel()
	listener := func() net.Listener {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		return l
	}
	_, err := Open(Config{Name: "n2", Peers: []Peer{{"n1", "127.0.0.1:1"}}, Dir: t.TempDir(), Listener: listener()})
	require.ErrorContains(t, err, `"n2" is none of the members`)
	open := func(dir string) error {
		m, err := Open(Config{Name: "n1", Peers: []Peer{{"n1", "127.0.0.1:1"}}, Dir: dir, Listener: listener()})
		if err == nil {
			err = m.Close()
		}
		return err
	}
	dir := filepath.Join(t.TempDir(), "replica")
	require.NoError(t, open(dir))
	require.NoError(t, open(dir), "again")

	held, err := Open(Config{Name: "n1", Peers: []Peer{{"n1", "127.0.0.1:1"}}, Dir: dir, Listener: listener()})
	require.NoError(t, err)
	require.ErrorIs(t, open(dir), store.ErrLocked)
	require.NoError(t, held.Close())

	for line, want := range map[string]error{"sluice-replica 9": store.ErrNewer, "sluice-replica 1": store.ErrNotStore, "sluice-journal 3": store.ErrNotStore} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, "FORMAT"), []byte(line+"\n"), 0o600))
		require.ErrorIs(t, open(dir), want)
	}

	other := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(other, "photo.jpg"), nil, 0o600))
	require.ErrorContains(t, open(other), "photo.jpg")
	entries, err := os.ReadDir(other)
	require.NoError(t, err)
	require.Len(t, entries, 1, "it is as it was")
}

// Whatever happens to members, what was acknowledged stays, and all end with the same state.
func TestStorms(t *testing.T) {
	t.Parallel()
	rounds := uint64(4)
	if testing.Short() {
		rounds = 1
	}
	for seed := range rounds {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			random := rand.New(rand.NewPCG(seed, 1))
			g := newGroup(t, 3)
			g.every = 20
			g.start(0, 1, 2)
			_, term := g.lead()
			durable := cluster.NewState()
			verbs := []string{"write", "write", "write", "cut 0", "cut 1", "cut 2", "stop 0", "stop 1", "stop 2", "hand over"}
			var steps []string
			for range 12 {
				step := verbs[random.IntN(len(verbs))]
				steps = append(steps, step)
				var member int
				verb, number, _ := strings.Cut(step, " ")
				_, _ = fmt.Sscan(number, &member)
				switch {
				case verb == "write":
					if n, err := write(term, 25); err != nil || n > 0 {
						durable = upTo(t, term.State(), term.State().Seq()-uint64(min(1, 25-n)))
					}
				case verb == "cut":
					if r := g.live[member]; r != nil {
						r.gate.set(true)
						_, _ = write(term, 1) // fails if it is the leader that is cut off
						if term.failure() == nil {
							durable = term.State().Fork()
						}
						r.gate.set(false)
					}
				case verb == "stop":
					g.stop(member)
					g.start(member)
				default:
					term.End()
				}
				select {
				case <-term.Lost():
				default:
					if term.failure() == nil {
						continue
					}
				}
				_, term = g.lead()
				require.GreaterOrEqual(t, term.State().Seq(), durable.Seq(), "%v", steps)
				require.Equal(t, form(t, durable), form(t, upTo(t, term.State(), durable.Seq())), "%v", steps)
			}
			g.agree(term.State())
		})
	}
}

// upTo returns the State of the pools that the first records put.
func upTo(t testing.TB, s *cluster.State, seq uint64) *cluster.State {
	out := cluster.NewState()
	for out.Seq() < seq {
		next(out)
		require.NotNil(t, s.Pool(cluster.PoolPath(fmt.Sprintf("/p%d", out.Seq()))))
	}
	return out
}

// What is no member is told nothing, and what it sends harms nobody.
func TestStrangers(t *testing.T) {
	t.Parallel()
	g := newGroup(t, 3)
	g.start(0, 1, 2)
	leader, term := g.lead()
	to := g.peers[leader]
	for _, text := range []string{
		"", "\n", "{}\n", "GET / HTTP/1.1\r\n\r\n", strings.Repeat("x", maxLine+10), "\x00\x01\x02\xff\n",
		`{"Protocol":"sluice-replica/1","From":"n9","To":"` + to.Name + "\"}\n",
		`{"Protocol":"sluice-replica/1","From":"` + to.Name + `","To":"` + to.Name + "\"}\n",
		`{"Protocol":"sluice-replica/1","From":"n1","To":"elsewhere","Ask":{}}` + "\n",
		`{"Protocol":"sluice-replica/2","From":"n1","To":"` + to.Name + "\",\"Ask\":{}}\n",
	} {
		conn, err := net.Dial("tcp", to.Address)
		require.NoError(t, err)
		_, _ = conn.Write([]byte(text)) // it may hang up before it has read all
		_ = conn.(*net.TCPConn).CloseWrite()
		require.NoError(t, conn.SetReadDeadline(time.Now().Add(patience)))
		n, err := conn.Read(make([]byte, 1))
		require.Zero(t, n, text)
		require.False(t, errors.Is(err, os.ErrDeadlineExceeded), "%q: the connection stays open", text)
		require.NoError(t, conn.Close())
	}
	_, err := write(term, 1)
	require.NoError(t, err)
}

// What a member sends that is none, or was damaged on its way, is refused, and those that get it go on.
func TestWhatCannotBeRead(t *testing.T) {
	t.Parallel()
	g := newGroup(t, 3)
	g.start(0, 1, 2)
	leader, term := g.lead()
	_, err := write(term, 3)
	require.NoError(t, err)
	from, to := (leader+1)%3, (leader+2)%3
	g.stop(from)
	m, _, err := g.open(from)
	require.NoError(t, err)
	other := m.link.transport
	good := pieces(1, []byte("x"))[0].encode()
	flipped := slices.Clone(good)
	flipped[len(flipped)-1] ^= 1
	header := raft.RPCHeader{ProtocolVersion: raft.ProtocolVersionMax, ID: []byte(g.peers[from].Name), Addr: []byte(g.peers[from].Address)}
	const later = 1000
	g.agree(term.State())
	var end raft.Log
	last, err := g.live[to].folder.entries.LastIndex()
	require.NoError(t, err)
	require.NoError(t, g.live[to].folder.entries.GetLog(last, &end))
	ask := func(entries ...*raft.Log) error {
		var answer raft.AppendEntriesResponse
		return other.AppendEntries(raft.ServerID(g.peers[to].Name), raft.ServerAddress(g.peers[to].Address), &raft.AppendEntriesRequest{
			RPCHeader: header, Term: later, PrevLogEntry: last, PrevLogTerm: end.Term, Entries: entries, LeaderCommitIndex: last + 1,
		}, &answer)
	}
	command := func(index, term uint64, data []byte) *raft.Log {
		return &raft.Log{Index: index, Term: term, Type: raft.LogCommand, Data: data}
	}
	for name, entries := range map[string][]*raft.Log{
		"no known type":           {{Index: last + 1, Term: later, Type: 77}},
		"no configuration":        {{Index: last + 1, Term: later, Type: raft.LogConfiguration, Data: []byte("\xc1")}},
		"no entry":                {nil},
		"damaged":                 {command(last+1, later, flipped)},
		"not the next one":        {command(last+2, later, good)},
		"the second is damaged":   {command(last+1, later, good), command(last+2, later, flipped)},
		"of a term that is later": {command(last+1, later+1, good)},
		"of a term before":        {command(last+1, end.Term, good), command(last+2, end.Term-1, good)},
	} {
		require.ErrorContains(t, ask(entries...), "damaged", name)
	}
	var answer raft.InstallSnapshotResponse
	state := strings.Repeat("x", 1000)
	require.ErrorContains(t, other.InstallSnapshot(raft.ServerID(g.peers[to].Name), raft.ServerAddress(g.peers[to].Address), &raft.InstallSnapshotRequest{
		RPCHeader: header, SnapshotVersion: 1, Term: later, LastLogIndex: 9, LastLogTerm: 9, Size: int64(len(state)), Configuration: []byte("\xc1"),
	}, &answer, strings.NewReader(state)), "damaged")
	require.Contains(t, g.said.String(), `msg="a member sends what cannot be read" member=`+g.peers[to].Name+" peer="+g.peers[from].Name)
	require.NoError(t, m.Close())
	_, err = write(term, 3)
	require.NoError(t, err)
	g.start(from)
	g.agree(term.State())
}

// A leader that cannot write its log any more ends, and another one leads.
func TestAFullDisk(t *testing.T) {
	t.Parallel()
	g := newGroup(t, 3)
	g.start(0, 1, 2)
	leader, term := g.lead()
	_, err := write(term, 3)
	require.NoError(t, err)
	g.agree(term.State())
	durable := term.State().Fork()
	full := g.live[leader]
	full.folder.store.Reserve.Store(math.MaxUint64)
	_, err = write(term, 1)
	require.ErrorIs(t, err, ErrLost)
	err = <-full.ended
	require.ErrorIs(t, err, syscall.ENOSPC)
	require.ErrorContains(t, err, "nothing can be written to "+g.dirs[leader]+", start again when it can")
	require.NoError(t, full.Close())
	g.live[leader] = nil
	_, after := g.lead()
	require.Equal(t, form(t, durable), form(t, after.State()))
}

// Connections that say nothing keep nobody out.
func TestManyThatSayNothing(t *testing.T) {
	t.Parallel()
	g := newGroup(t, 2)
	g.start(0, 1)
	leader, _ := g.lead()
	for range 3 * maxUnknown {
		conn, err := net.Dial("tcp", g.peers[leader].Address)
		require.NoError(t, err)
		defer func() { require.NoError(t, conn.Close()) }()
	}
	require.Equal(t, RoleLeader, g.live[1-leader].Members(t.Context())[leader].Role)
	link := g.live[leader].link
	link.mu.Lock()
	require.LessOrEqual(t, len(link.unknown), maxUnknown)
	link.mu.Unlock()
}

// reseal gives an entry that was changed the checksum that it would have been written with.
func reseal(b []byte) { binary.BigEndian.PutUint32(b, crc32.Checksum(b[4:], castagnoli)) }

// Members of a group that was told to be patient may be far away from each other.
func TestMembersThatAreFarAway(t *testing.T) {
	t.Parallel()
	g := newGroup(t, 2)
	g.start(0, 1)
	m := g.live[0]
	dial := m.link.config.Dial
	far := &link{config: m.link.config, log: m.log, group: m.ownGroup}
	far.config.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
		select {
		case <-time.After(askPatience + askPatience/5):
			return dial(ctx, network, address)
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	far.config.Election = askPatience
	_, err := far.ask(t.Context(), g.peers[1], question{})
	require.ErrorIs(t, err, context.DeadlineExceeded)
	far.config.Election = patience
	a, err := far.ask(t.Context(), g.peers[1], question{})
	require.NoError(t, err)
	require.Equal(t, "n2", a.Name)
}
