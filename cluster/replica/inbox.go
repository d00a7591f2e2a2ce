package replica

import (
	"errors"
	"fmt"
	"io"
	"log/slog"

	"github.com/hashicorp/raft"

	"github.com/sluice-scheduler/sluice/cluster/store"
)

// inbox is a transport of which raft gets what it can read. Raft believes whatever other members send, and ends the process by a panic over an
// entry of no known type, or over a configuration of the group that is none; what was damaged on its way would get a checksum on this member's
// disk, and be no part of the history that the others have.
type inbox struct {
	*raft.NetworkTransport
	mayVote func(candidate string, term, index uint64) error
	read    chan raft.RPC
}

var (
	_ raft.Transport   = (*inbox)(nil)
	_ raft.WithPreVote = (*inbox)(nil)
	_ raft.WithClose   = (*inbox)(nil)
)

// newInbox returns an inbox that works until closed is closed. mayVote says why this member may not vote for one, another or itself, whose last
// entry has a term and an index, nil if raft may decide; it may take its time.
// hear is told of the entry up to which a leader says that the log is durable.
func newInbox(t *raft.NetworkTransport, mayVote func(candidate string, term, index uint64) error, hear func(term, entry uint64), closed <-chan struct{}, log *slog.Logger) *inbox {
	b := &inbox{t, mayVote, make(chan raft.RPC)}
	pass := func(rpc raft.RPC) {
		select {
		case b.read <- rpc:
		case <-closed:
		}
	}
	vote := func(rpc raft.RPC, candidate []byte, term, index uint64) {
		if err := mayVote(string(candidate), term, index); err != nil {
			refuse(rpc, err)
			return
		}
		pass(rpc)
	}
	go func() {
		for {
			select {
			case rpc := <-t.Consumer():
				switch c := rpc.Command.(type) {
				case *raft.RequestVoteRequest:
					go vote(rpc, c.ID, c.LastLogTerm, c.LastLogIndex)
				case *raft.RequestPreVoteRequest:
					go vote(rpc, c.ID, c.LastLogTerm, c.LastLogIndex)
				default:
					if err := checkCommand(c); err != nil {
						log.Warn("a member sends what cannot be read", "peer", sender(c), "error", err)
						go refuse(rpc, err)
						continue
					}
					if a, ok := c.(*raft.AppendEntriesRequest); ok {
						hear(a.Term, a.LeaderCommitIndex)
					}
					pass(rpc)
				}
			case <-closed:
				return
			}
		}
	}()
	return b
}

// Consumer returns the channel of what raft is to do.
func (b *inbox) Consumer() <-chan raft.RPC { return b.read }

// RequestVote asks nobody for a vote that this member may not give itself.
func (b *inbox) RequestVote(id raft.ServerID, target raft.ServerAddress, q *raft.RequestVoteRequest, a *raft.RequestVoteResponse) error {
	if err := b.mayVote(string(q.ID), q.LastLogTerm, q.LastLogIndex); err != nil {
		return err
	}
	return b.NetworkTransport.RequestVote(id, target, q, a)
}

// RequestPreVote is RequestVote for the question that comes before.
func (b *inbox) RequestPreVote(id raft.ServerID, target raft.ServerAddress, q *raft.RequestPreVoteRequest, a *raft.RequestPreVoteResponse) error {
	if err := b.mayVote(string(q.ID), q.LastLogTerm, q.LastLogIndex); err != nil {
		return err
	}
	return b.NetworkTransport.RequestPreVote(id, target, q, a)
}

// sender says which member a request is of, "" if it does not say so.
func sender(command any) string {
	if c, ok := command.(raft.WithRPCHeader); ok {
		return string(c.GetRPCHeader().ID)
	}
	return ""
}

// refuse answers once the whole request is read: what follows it on its connection is another one.
func refuse(rpc raft.RPC, err error) {
	if rpc.Reader != nil {
		_, _ = io.Copy(io.Discard, rpc.Reader)
	}
	rpc.Respond(nil, err)
}

// checkCommand looks at what another member asks for. What a newer version wrote is left to whoever applies it, who says what to do.
func checkCommand(command any) error {
	switch c := command.(type) {
	case *raft.AppendEntriesRequest:
		term := c.PrevLogTerm
		for i, l := range c.Entries {
			if l == nil || l.Index != c.PrevLogEntry+1+uint64(i) || l.Term < term || l.Term > c.Term {
				return fmt.Errorf("%w: entries after %d that do not follow each other", store.ErrDamaged, c.PrevLogEntry)
			}
			if err := checkEntry(l); errors.Is(err, store.ErrDamaged) {
				return fmt.Errorf("entry %d: %w", l.Index, err)
			}
			term = l.Term
		}
	case *raft.InstallSnapshotRequest:
		return checkConfiguration(c.Configuration)
	}
	return nil
}

// checkConfiguration looks whether the members of a group can be read, which raft tells by a panic.
func checkConfiguration(b []byte) error {
	return reading(func() error {
		raft.DecodeConfiguration(b)
		return nil
	})
}
