package replica

import (
	"context"
	"io"
	"log/slog"
	"slices"
	"strings"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"
)

// hashicorpLog returns a logger for raft that passes on what it says: much of it is of interest when something is looked for only.
func hashicorpLog(log *slog.Logger) hclog.Logger {
	l := hclog.NewInterceptLogger(&hclog.LoggerOptions{Name: "raft", Output: io.Discard, Level: hclog.Trace})
	l.RegisterSink(sink{log})
	return l
}

// sink passes lines of raft on.
type sink struct{ log *slog.Logger }

// Accept passes on one line. That somebody does not answer the member tells once, in its own words, and raft each time; and that the log does not
// go back as far as a member needs is why it gets a snapshot, as each one does when a group begins.
func (s sink) Accept(_ string, level hclog.Level, message string, args ...any) {
	to := slog.LevelDebug
	if level == hclog.Error && !strings.HasPrefix(message, "failed to heartbeat") && !strings.HasPrefix(message, "failed to appendEntries") &&
		!strings.HasPrefix(message, "failed to make request") && !slices.Contains(args, any(raft.ErrLogNotFound)) {
		to = slog.LevelWarn // it goes on all the same
	}
	s.log.Log(context.Background(), to, "raft: "+message, args...)
}

// tellOfPeers says when a leader finds that a member does not answer any more, and when it does again, until ctx ends.
func (m *Member) tellOfPeers(ctx context.Context) error {
	seen := make(chan raft.Observation, 64)
	observer := raft.NewObserver(seen, false, func(o *raft.Observation) bool {
		switch o.Data.(type) {
		case raft.FailedHeartbeatObservation, raft.ResumedHeartbeatObservation, raft.LeaderObservation:
			return true
		}
		return false
	})
	m.raft.RegisterObserver(observer)
	defer m.raft.DeregisterObserver(observer)
	silent := map[raft.ServerID]bool{}
	for {
		select {
		case <-ctx.Done():
			return nil
		case o := <-seen:
			switch o := o.Data.(type) {
			case raft.FailedHeartbeatObservation:
				if !silent[o.PeerID] {
					silent[o.PeerID] = true
					m.log.Warn("a member does not answer any more", "peer", o.PeerID)
				}
			case raft.ResumedHeartbeatObservation:
				if silent[o.PeerID] {
					delete(silent, o.PeerID)
					m.log.Info("a member answers again", "peer", o.PeerID)
				}
			case raft.LeaderObservation:
				clear(silent)
				if o.LeaderID != "" && o.LeaderID != raft.ServerID(m.config.Name) {
					m.log.Info("another member leads", "leader", o.LeaderID)
				}
			}
		}
	}
}
