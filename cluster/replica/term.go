package replica

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
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
}

// State returns all that was durable when the term began. The caller owns it, and appends what it goes on with.
func (t *Term) State() *cluster.State { return t.state }

// Lost is closed when the member does not lead any more.
func (t *Term) Lost() <-chan struct{} { return t.lost }

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
		t.lose()
	}
	return t.failed
}

// append waits until most members have the entries, and they are applied here.
func (t *Term) append(entries []entry) error {
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
	if t.member.raft.State() == raft.Leader && len(t.member.config.Peers) > 1 {
		if err := t.member.raft.LeadershipTransfer().Error(); err != nil {
			t.member.log.Debug("nobody took over at once", "error", err)
		}
	}
	t.lose()
}

func (t *Term) lose() { t.losing.Do(func() { close(t.lost) }) }

// watch notices when the member does not lead any more. raft tells by a channel that another term may read, so it is looked, too.
func (t *Term) watch() {
	tick := time.NewTicker(t.member.config.Election / 10)
	defer tick.Stop()
	for t.member.raft.State() == raft.Leader && t.member.raft.CurrentTerm() == t.number {
		select {
		case <-tick.C:
		case <-t.ended:
			return
		}
	}
	t.member.log.Warn("this member does not lead any more", "term", t.number)
	t.lose()
}

// settleMembers makes the group consist of the members that the leader is configured with: it removes others before it adds any, so that
// who takes the place of a machine that is gone does not need it. What fails is tried again.
func (t *Term) settleMembers(ctx context.Context) {
	for {
		done, err := t.settleMember()
		switch {
		case err == nil && done:
			return
		case err != nil && !errors.Is(err, raft.ErrNotLeader):
			t.member.log.Warn("the members of the group could not be changed, trying again", "error", err)
		case err == nil:
			continue
		}
		select {
		case <-time.After(t.member.config.Election):
		case <-t.lost:
			return
		case <-ctx.Done():
			return
		}
	}
}

// settleMember makes one change, or finds that there is none to be made.
func (t *Term) settleMember() (done bool, err error) {
	r := t.member.raft
	f := r.GetConfiguration()
	if err := f.Error(); err != nil {
		return false, err
	}
	servers := f.Configuration().Servers
	for _, s := range servers {
		if !slices.ContainsFunc(t.member.config.Peers, func(p Peer) bool { return raft.ServerID(p.Name) == s.ID }) {
			t.member.log.Warn("a member is not one of scheduler.peers, and is removed from the group", "peer", s.ID, "address", s.Address)
			return false, r.RemoveServer(s.ID, f.Index(), 0).Error()
		}
	}
	for _, p := range t.member.config.Peers {
		want := raft.Server{Suffrage: raft.Voter, ID: raft.ServerID(p.Name), Address: raft.ServerAddress(p.Address)}
		if !slices.Contains(servers, want) {
			t.member.log.Warn("a member joins the group, or has another address", "peer", p.Name, "address", p.Address)
			return false, r.AddVoter(want.ID, want.Address, f.Index(), 0).Error()
		}
	}
	return true, nil
}

// failure returns what an Append failed with, nil if none did.
func (t *Term) failure() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.failed
}
