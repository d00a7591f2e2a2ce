package replica

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/raft"

	"github.com/sluice-scheduler/sluice/cluster"
	"github.com/sluice-scheduler/sluice/cluster/journal"
)

// Term is the time during which a member leads. Its methods are safe for concurrent use; there is one who appends.
type Term struct {
	member *Member
	number uint64
	state  *cluster.State

	lost   chan struct{} // closed when the member does not lead any more
	ended  chan struct{} // closed by End
	losing sync.Once
	ending sync.Once

	mu     sync.Mutex
	failed error // what an Append failed with

	asking sync.Mutex
	sure   atomic.Pointer[time.Time] // when the member led for certain
}

// State returns all that was durable when the term began. The caller owns it, and appends what it goes on with.
func (t *Term) State() *cluster.State { return t.state }

// Lost is closed when the member does not lead any more.
func (t *Term) Lost() <-chan struct{} { return t.lost }

// Leads returns nil if the member leads. One whose process stood still finds out only afterwards that another one leads by now, and has
// changed what this one knows: so it asks the others first.
func (t *Term) Leads() error {
	if t.isSure() {
		return nil
	}
	t.asking.Lock()
	defer t.asking.Unlock()
	if t.isSure() {
		return nil
	}
	now, told := time.Now(), make(chan error, 1)
	go func() { told <- t.member.raft.VerifyLeader().Error() }()
	select {
	case err := <-told:
		if err != nil {
			return fmt.Errorf("%w: %w", ErrLost, err)
		}
		if !t.goesOn() {
			return ErrLost
		}
	case <-t.lost:
		return ErrLost
	}
	t.sure.Store(&now)
	return nil
}

// goesOn reports whether the member leads in this term, as far as it knows.
func (t *Term) goesOn() bool { return t.member.leads() && t.member.raft.CurrentTerm() == t.number }

// isSure reports whether the member has led until so short a time ago that no other one can have been elected.
func (t *Term) isSure() bool { return time.Since(*t.sure.Load()) < t.member.config.Election/2 }

// Append makes records durable on most members before it returns, all of them or none. They follow those of State and of earlier calls.
// Records that cannot be stored are refused and change nothing; after any other error every later Append fails. It keeps no reference to
// records.
func (t *Term) Append(records []cluster.Record) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.failed != nil {
		return t.failed
	}
	if len(records) == 0 {
		return nil
	}
	batch, err := journal.Encode(records)
	if err != nil {
		return err
	}
	if t.failed = t.append(pieces(t.number, batch)); t.failed != nil {
		t.lose(t.failed.Error())
	}
	return t.failed
}

// append waits until most members have the entries, and they are applied here. Raft says nothing while the disk hangs: then it waits until the
// term is lost for that, and whether the entries come to be in the history is as open as with any other loss.
func (t *Term) append(entries []entry) error {
	done := make(chan error, 1)
	go func() { done <- t.commit(entries) }()
	select {
	case err := <-done:
		return err
	case <-t.lost:
	}
	if err := t.member.disk.err(); err != nil {
		return fmt.Errorf("%w: %w", ErrLost, err)
	}
	return <-done
}

func (t *Term) commit(entries []entry) error {
	futures := make([]raft.ApplyFuture, 0, len(entries))
	for _, e := range entries {
		futures = append(futures, t.member.raft.Apply(e.encode(), 0))
	}
	for _, f := range futures {
		if err := f.Error(); err != nil {
			return fmt.Errorf("%w: %w", ErrLost, err)
		}
		if err, ok := f.Response().(error); ok {
			return err
		}
	}
	return nil
}

// mayLack reports whether records may be missing that were durable. Each was on the disks of most members, so it is still there unless as many
// have lost their folders. It counts whose folder is whole: one that does not answer may have lost it as well as another one that did.
func (t *Term) mayLack() bool {
	m := t.member
	voters, err := m.voters()
	if err != nil {
		return false
	}
	replies := m.asking(context.Background())
	whole, empty := 0, 0
	for range m.config.Peers {
		switch a := (<-replies).answer; {
		case !slices.Contains(voters, a.Name) || m.isOfAnother(a):
		case a.Filling || !a.Begun:
			empty++
		default:
			whole++
		}
		if whole > (len(voters)-1)/2 { // who is away keeps nobody waiting
			return false
		}
	}
	return empty > 0
}

// forget goes on as from an earlier copy of the history: see [cluster.NumbersForgotten].
func (t *Term) forget() error {
	mode := t.state.Mode()
	mode.Restored = true
	var records []cluster.Record
	for _, e := range []cluster.Event{&cluster.NumbersForgotten{}, &cluster.ModeSet{Mode: mode}} {
		r := cluster.Record{Seq: t.state.Seq() + 1, At: cluster.Time(time.Now().UnixNano()), Event: e}
		if err := t.state.Apply(r); err != nil {
			return fmt.Errorf("replica: %w", err)
		}
		records = append(records, r)
	}
	return t.Append(records)
}

// announce tells all members where this one's API is.
func (t *Term) announce() error {
	text, err := json.Marshal(Leader{Name: t.member.config.Name, API: t.member.config.API})
	if err != nil {
		return err
	}
	return t.append([]entry{{kind: leaderEntry, term: t.number, pieces: 1, payload: text}})
}

// Checkpoint does nothing: members take snapshots by themselves, whether they lead or not.
func (t *Term) Checkpoint(context.Context, *cluster.Snapshot) error { return nil }

// End gives the leadership to another member, if there is one that has all and answers. Nothing is appended after it.
func (t *Term) End() {
	t.mu.Lock()
	if t.failed == nil {
		t.failed = fmt.Errorf("%w: it gave up", ErrLost)
	}
	t.mu.Unlock()
	t.ending.Do(func() { close(t.ended) })
	if t.member.leads() && len(t.member.config.Peers) > 1 {
		if err := t.member.raft.LeadershipTransfer().Error(); err != nil {
			t.member.log.Debug("nobody took over at once", "error", err)
		}
	}
	t.lose("")
}

// lose tells that the member does not lead any more, and why, if nobody had it end the term.
func (t *Term) lose(why string) {
	t.losing.Do(func() {
		if why != "" {
			t.member.log.Warn("this member does not lead any more", "term", t.number, "reason", why)
		}
		close(t.lost)
	})
}

// watch notices when the member does not lead any more. raft tells by a channel that another term may read, so it is looked, too.
func (t *Term) watch() {
	tick := time.NewTicker(t.member.config.Election / 10)
	defer tick.Stop()
	for t.goesOn() {
		if t.isSure() {
			now := time.Now()
			t.sure.Store(&now)
		}
		select {
		case <-tick.C:
		case <-t.ended:
			return
		}
	}
	why := "most members do not answer, or have elected another one"
	if err := t.member.disk.err(); err != nil {
		why = err.Error()
	}
	t.lose(why)
}

// settleMembers makes the group consist of the members that the leader is configured with: it removes others before it adds any, so that
// who takes the place of a machine that is gone does not need it. Who is new has no vote before it has nearly all that there is: a group
// that waits for the votes of members that are not there yet has no leader. It ends with the term.
func (t *Term) settleMembers() {
	for settled := false; !settled; {
		var err error
		if settled, err = t.settleMember(); err != nil && !errors.Is(err, raft.ErrNotLeader) {
			t.member.log.Warn("the members of the group could not be changed, trying again", "error", err)
		}
		select {
		case <-time.After(t.member.config.Election / 2):
		case <-t.lost:
			return
		case <-t.ended:
			return
		}
	}
}

// nearlyAll is how many records a new member may lack when it gets a vote.
const nearlyAll = 1000

// settleMember makes one change, or finds that there is none to be made.
func (t *Term) settleMember() (settled bool, err error) {
	m := t.member
	f := m.raft.GetConfiguration()
	if err := f.Error(); err != nil {
		return false, err
	}
	found := map[raft.ServerID]raft.Server{}
	for _, s := range f.Configuration().Servers {
		if !slices.ContainsFunc(m.config.Peers, func(p Peer) bool { return raft.ServerID(p.Name) == s.ID }) {
			m.log.Warn("a member is not one of scheduler.peers, and is removed from the group", "peer", s.ID, "address", s.Address)
			return false, m.raft.RemoveServer(s.ID, f.Index(), 0).Error()
		}
		found[s.ID] = s
	}
	settled = true
	for _, p := range m.config.Peers {
		id, address := raft.ServerID(p.Name), raft.ServerAddress(p.Address)
		switch s, known := found[id]; {
		case !known:
			m.log.Info("a member is new in the group", "peer", p.Name, "address", p.Address)
			return false, m.raft.AddNonvoter(id, address, f.Index(), 0).Error()
		case s.Suffrage == raft.Voter && s.Address != address:
			m.log.Info("a member has another address", "peer", p.Name, "address", p.Address)
			return false, m.raft.AddVoter(id, address, f.Index(), 0).Error()
		case s.Suffrage == raft.Voter:
		case s.Address != address:
			return false, m.raft.AddNonvoter(id, address, f.Index(), 0).Error()
		case t.hasNearlyAll(p):
			m.log.Info("a new member has a vote", "peer", p.Name)
			return false, m.raft.AddVoter(id, address, f.Index(), 0).Error()
		default:
			settled = false
		}
	}
	return settled, nil
}

// hasNearlyAll reports whether a member answers and has nearly all records.
func (t *Term) hasNearlyAll(p Peer) bool {
	a, err := t.member.ask(context.Background(), p)
	seq, _ := t.member.machine.view()
	return err == nil && a.Begun && !t.member.isOfAnother(a) && a.Record+nearlyAll >= seq
}
