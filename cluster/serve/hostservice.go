package serve

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/sluice-scheduler/sluice/cluster"
	"github.com/sluice-scheduler/sluice/cluster/rules"
	sluicev1 "github.com/sluice-scheduler/sluice/proto/sluice/v1"
)

// maxDrain is how late the deadline of a drain may be.
const maxDrain = 365 * 24 * time.Hour

type hostService struct {
	sluicev1.UnimplementedHostServiceServer
	*api
}

// ListHosts implements sluicev1.HostServiceServer. Complexity: the hosts from the beginning of the page on that it takes
// to fill it, with their tasks.
func (a *hostService) ListHosts(_ context.Context, r *sluicev1.ListHostsRequest) (*sluicev1.ListHostsResponse, error) {
	page, err := openPage(r)
	if err != nil {
		return nil, err
	}
	s := a.s.Snapshot()
	answer := &sluicev1.ListHostsResponse{}
	last := ""
	for h := range s.Hosts(cluster.HostID(page.after)) {
		if string(h.ID) == page.after || !matchHost(r, h) {
			continue
		}
		record := a.measuredHost(s, h)
		if !page.Add(record) {
			answer.NextPageToken = page.Token(last)
			break
		}
		answer.Hosts = append(answer.Hosts, record)
		last = string(h.ID)
	}
	return answer, nil
}

func matchHost(r *sluicev1.ListHostsRequest, h *cluster.Host) bool {
	return (r.Shard == "" || string(h.ID.Shard()) == r.Shard) &&
		(r.Rack == "" || h.Rack == r.Rack) &&
		(r.Zone == "" || h.Zone == r.Zone) &&
		(len(r.States) == 0 || slices.Contains(r.States, hostStateTo(h))) &&
		hasAll(h.Attributes, r.Attributes)
}

// GetHost implements sluicev1.HostServiceServer.
func (a *hostService) GetHost(ctx context.Context, r *sluicev1.GetHostRequest) (*sluicev1.GetHostResponse, error) {
	s := a.s.Snapshot()
	h, err := findHost(s, r.Name)
	if err != nil {
		return nil, err
	}
	return &sluicev1.GetHostResponse{Host: a.wholeHost(ctx, s, h)}, nil
}

// hostTable is what is needed of a State or a Snapshot to find a host.
type hostTable interface {
	Host(cluster.HostID) *cluster.Host
}

func findHost(in hostTable, name string) (*cluster.Host, error) {
	if h := in.Host(cluster.HostID(name)); h != nil {
		return h, nil
	}
	return nil, resourceError(codes.NotFound, "host", name, "there is no such host; hosts are named shard/name")
}

// measuredHost is the host with what its tasks were last measured to use together.
func (a *hostService) measuredHost(s *cluster.Snapshot, h *cluster.Host) *sluicev1.Host {
	p := hostTo(h)
	var used cluster.Resources
	measured := false
	for _, k := range h.Tasks {
		t := s.Task(k)
		if t == nil {
			continue // the host may be older than the snapshot
		}
		if u, ok := a.s.TaskUsage(t); ok {
			used, measured = used.Add(u.Used), true
		}
	}
	if measured {
		p.Used = vectorTo(used)
	}
	return p
}

// wholeHost is measuredHost with what keeps it from being drained.
func (a *hostService) wholeHost(ctx context.Context, s *cluster.Snapshot, h *cluster.Host) *sluicev1.Host {
	p := a.measuredHost(s, h)
	if h.Draining {
		p.Remaining = remaining(s, a.s.clock(), callOf(ctx).who.Sight(s), h)
	}
	return p
}

// remaining counts the tasks on a host that is being drained by job and by why they stay. Complexity: tasks · log tasks.
func remaining(s *cluster.Snapshot, now cluster.Time, sees func(*cluster.Job) bool, h *cluster.Host) []*sluicev1.RemainingWork {
	type kind struct {
		job    string
		reason sluicev1.StayReason
	}
	count := map[kind]uint32{}
	for _, k := range h.Tasks {
		t, j := s.Task(k), s.Job(k.Job())
		if t == nil || t.Host != h.ID {
			continue // the host may be older than the snapshot
		}
		of := kind{reason: stayReasonTo[rules.StayOf(s.Mode(), now, h, j, t)]}
		if sees(j) {
			of.job = string(j.Spec.Name)
		}
		count[of]++
	}
	kinds := slices.SortedFunc(maps.Keys(count), func(a, b kind) int {
		return cmp.Or(strings.Compare(a.job, b.job), cmp.Compare(a.reason, b.reason))
	})
	list := make([]*sluicev1.RemainingWork, len(kinds))
	for i, of := range kinds {
		list[i] = &sluicev1.RemainingWork{Job: of.job, Tasks: count[of], Reason: of.reason}
	}
	return list
}

var stayReasonTo = [...]sluicev1.StayReason{
	rules.Leaving:      sluicev1.StayReason_STAY_REASON_LEAVING,
	rules.Unreached:    sluicev1.StayReason_STAY_REASON_UNREACHABLE,
	rules.NotKilled:    sluicev1.StayReason_STAY_REASON_KILLING_STOPPED,
	rules.LastOff:      sluicev1.StayReason_STAY_REASON_LAST_OFF,
	rules.NotMoved:     sluicev1.StayReason_STAY_REASON_NOT_MOVED,
	rules.Bound:        sluicev1.StayReason_STAY_REASON_BOUND,
	rules.NotPreempted: sluicev1.StayReason_STAY_REASON_NOT_PREEMPTIBLE,
	rules.Needed:       sluicev1.StayReason_STAY_REASON_AVAILABILITY,
}

// DrainHost implements sluicev1.HostServiceServer.
func (a *hostService) DrainHost(ctx context.Context, r *sluicev1.DrainHostRequest) (*sluicev1.DrainHostResponse, error) {
	host, err := a.setDrain(ctx, r.Name, func(now cluster.Time) (wish cluster.HostDrain) {
		wish = cluster.HostDrain{Drain: true, Reason: r.Reason, Move: r.Move}
		if r.Deadline != nil {
			wish.Deadline = now.Add(r.Deadline.AsDuration())
		}
		return wish
	})
	if err != nil {
		return nil, err
	}
	return &sluicev1.DrainHostResponse{Host: host}, nil
}

// ResumeHost implements sluicev1.HostServiceServer.
func (a *hostService) ResumeHost(ctx context.Context, r *sluicev1.ResumeHostRequest) (*sluicev1.ResumeHostResponse, error) {
	host, err := a.setDrain(ctx, r.Name, func(cluster.Time) cluster.HostDrain { return cluster.HostDrain{} })
	if err != nil {
		return nil, err
	}
	return &sluicev1.ResumeHostResponse{Host: host}, nil
}

// ForgetHost implements sluicev1.HostServiceServer. With its last host goes a shard that is cut off.
func (a *hostService) ForgetHost(ctx context.Context, r *sluicev1.ForgetHostRequest) (*sluicev1.ForgetHostResponse, error) {
	err := a.do(ctx, func(tx *Tx) error {
		h, err := findHost(tx.State(), r.Name)
		switch {
		case err != nil:
			return err
		case !h.Unreachable:
			return resourceError(codes.FailedPrecondition, "host", r.Name, "it is not unreachable: its host manager would report it again")
		case len(h.Tasks) > 0:
			return resourceError(codes.FailedPrecondition, "host", r.Name,
				"it is unreachable since %s and has %s: what it has is given up %s", h.Since.Go().Format(time.RFC3339), number(len(h.Tasks), "task"), a.s.config.givesUp())
		}
		return tx.Emit(&cluster.HostRemoved{ID: h.ID})
	})
	if err != nil {
		return nil, err
	}
	a.s.shards.forget(a.s.Snapshot(), cluster.HostID(r.Name).Shard())
	return &sluicev1.ForgetHostResponse{Name: r.Name}, nil
}

func (a *hostService) setDrain(ctx context.Context, name string, wishAt func(now cluster.Time) cluster.HostDrain) (*sluicev1.Host, error) {
	var after *cluster.Host
	err := a.do(ctx, func(tx *Tx) error {
		h, err := findHost(tx.State(), name)
		if err != nil {
			return err
		}
		after = h
		wish := wishAt(tx.Now())
		if h.Draining == wish.Drain && h.DrainReason == wish.Reason && h.Clearing == wish.Move && h.ClearBy == wish.Deadline {
			return nil
		}
		wish.ID = h.ID
		err = tx.Emit(&wish)
		after = tx.State().Host(h.ID)
		return err
	})
	if err != nil {
		return nil, err
	}
	return a.wholeHost(ctx, a.s.Snapshot(), after), nil
}
