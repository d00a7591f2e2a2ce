package serve

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/sluice-scheduler/sluice/cluster"
	sluicev1 "github.com/sluice-scheduler/sluice/proto/sluice/v1"
)

// volumeService shows the volumes that hosts report. Nothing else is kept of them.
type volumeService struct {
	sluicev1.UnimplementedVolumeServiceServer
	*api
}

// place is where a volume is.
type place struct {
	host cluster.HostID
	name string
}

// volumesOf yields all volumes on hosts from one on, by host and name.
func volumesOf(s *cluster.Snapshot, from cluster.HostID) iter.Seq2[*cluster.Host, cluster.HeldVolume] {
	return func(yield func(*cluster.Host, cluster.HeldVolume) bool) {
		for h := range s.Hosts(from) {
			for _, v := range h.Volumes {
				if !yield(h, v) {
					return
				}
			}
		}
	}
}

// ListVolumes implements sluicev1.VolumeServiceServer. Complexity: the hosts from the beginning of the page on that it takes
// to fill it, with their tasks.
func (a *volumeService) ListVolumes(ctx context.Context, r *sluicev1.ListVolumesRequest) (*sluicev1.ListVolumesResponse, error) {
	page, err := openPage(r)
	if err != nil {
		return nil, err
	}
	s := a.s.Snapshot()
	if r.Host != "" {
		if _, err := findHost(s, r.Host); err != nil {
			return nil, err
		}
	}
	after := place{}
	if host, name, ok := strings.Cut(page.after, "\n"); ok {
		after = place{cluster.HostID(host), name}
	}
	sees := callOf(ctx).who.Sight(s)
	answer := &sluicev1.ListVolumesResponse{}
	last := ""
	for h, v := range volumesOf(s, after.host) {
		if h.ID == after.host && v.Name <= after.name || r.Host != "" && string(h.ID) != r.Host {
			continue
		}
		record := heldTo(s, h, v, sees)
		if !page.Add(record) {
			answer.NextPageToken = page.Token(last)
			break
		}
		answer.Volumes = append(answer.Volumes, record)
		last = string(h.ID) + "\n" + v.Name
	}
	return answer, nil
}

// GetVolume implements sluicev1.VolumeServiceServer.
func (a *volumeService) GetVolume(ctx context.Context, r *sluicev1.GetVolumeRequest) (*sluicev1.GetVolumeResponse, error) {
	s := a.s.Snapshot()
	h, v, err := findVolume(s, r.Name, r.Host)
	if err != nil {
		return nil, err
	}
	return &sluicev1.GetVolumeResponse{Volume: heldTo(s, h, v, callOf(ctx).who.Sight(s))}, nil
}

// deleteTimeout bounds how long a host manager may take to destroy a volume.
const deleteTimeout = time.Minute

// DeleteVolume implements sluicev1.VolumeServiceServer. It returns when the volume is gone, and the state knows that.
func (a *volumeService) DeleteVolume(ctx context.Context, r *sluicev1.DeleteVolumeRequest) (*sluicev1.DeleteVolumeResponse, error) {
	s := a.s.Snapshot()
	h, v, err := findVolume(s, r.Name, r.Host)
	if err != nil {
		return nil, err
	}
	if user := userOf(s, h, v.Name); user != nil {
		says := "%s/%d uses it: stop that first"
		if !user.State.Bound() {
			says = "%s/%d comes back to it: stop or delete the job, or have the instance forget its data (`sluice task forget-data`)"
		}
		return nil, resourceError(codes.FailedPrecondition, "volume", r.Name, says, s.Job(user.Key.Job()).Spec.Name, user.Key.Instance())
	}
	ctx, cancel := context.WithTimeout(ctx, deleteTimeout)
	defer cancel()
	message, err := a.s.deleteVolume(ctx, place{h.ID, v.Name})
	switch {
	case err != nil:
		return nil, err
	case message != "":
		return nil, resourceError(codes.FailedPrecondition, "volume", r.Name, "%s", message)
	}
	return &sluicev1.DeleteVolumeResponse{Revision: a.s.Snapshot().Revision()}, a.s.awaitNoVolume(ctx, place{h.ID, v.Name})
}

// findVolume returns the volume of a name on a host, or on the only one that has it.
func findVolume(s *cluster.Snapshot, name, host string) (found *cluster.Host, v cluster.HeldVolume, err error) {
	var hosts []string
	for h, held := range volumesOf(s, "") {
		if held.Name == name && (host == "" || host == string(h.ID)) {
			found, v = h, held
			hosts = append(hosts, string(h.ID))
		}
	}
	switch {
	case len(hosts) > 1:
		others := ""
		if more := len(hosts) - shownInSentence; more > 0 {
			hosts, others = hosts[:shownInSentence], fmt.Sprintf(" and %d more", more)
		}
		err = resourceError(codes.FailedPrecondition, "volume", name, "hosts %s%s have one of this name: say which is meant", strings.Join(hosts, ", "), others)
	case found == nil && host != "":
		err = resourceError(codes.NotFound, "volume", name, "host %s has no such volume", quote(host))
	case found == nil:
		err = resourceError(codes.NotFound, "volume", name, "no host has such a volume")
	}
	return found, v, err
}

// userOf returns a task that uses the volume on the host, or that runs there only and will use it again; nil if there is none.
func userOf(s *cluster.Snapshot, h *cluster.Host, volume string) *cluster.Task {
	for _, keys := range [][]cluster.TaskKey{h.Tasks, s.HomeTo(h.ID)} {
		for _, k := range keys {
			t := s.Task(k)
			if t == nil || !t.State.Bound() && s.Job(k.Job()).Stopping { // the host may be older than the snapshot
				continue
			}
			if slices.ContainsFunc(s.Job(k.Job()).TaskFor(t).Volumes, func(v cluster.Volume) bool {
				return v.Name != "" && v.NameFor(k.Instance()) == volume
			}) {
				return t
			}
		}
	}
	return nil
}

// heldTo describes a volume, with who uses it if the caller sees that job.
func heldTo(s *cluster.Snapshot, h *cluster.Host, v cluster.HeldVolume, sees func(*cluster.Job) bool) *sluicev1.Volume {
	p := &sluicev1.Volume{
		Spec: &sluicev1.VolumeSpec{Name: v.Name, Bytes: v.Bytes}, State: sluicev1.VolumeState_VOLUME_STATE_READY, Host: string(h.ID),
	}
	if t := userOf(s, h, v.Name); t != nil {
		if j := s.Job(t.Key.Job()); sees(j) {
			p.UsedByJob, p.UsedByInstance = string(j.Spec.Name), t.Key.Instance()
		}
	}
	return p
}

// volumeQuestions are the deletions that wait for the answer of a host manager.
type volumeQuestions struct {
	mu      sync.Mutex
	waiting map[place][]chan string
}

// deleteVolume has the host manager destroy a volume, and returns why it did not.
func (s *Scheduler) deleteVolume(ctx context.Context, at place) (message string, err error) {
	s.shards.mu.Lock()
	c := s.shards.get(at.host.Shard()).control
	s.shards.mu.Unlock()
	if c == nil {
		return "", resourceError(codes.Unavailable, "host", string(at.host), "its host manager is not connected: try again")
	}
	answer := make(chan string, 1)
	s.volumes.mu.Lock()
	if s.volumes.waiting == nil {
		s.volumes.waiting = map[place][]chan string{}
	}
	s.volumes.waiting[at] = append(s.volumes.waiting[at], answer)
	s.volumes.mu.Unlock()
	defer s.volumes.forget(at, answer)
	command := &sluicev1.VolumeCommand{Name: at.name, Host: at.host.Name(), Destroy: true}
	select {
	case c.commands <- &sluicev1.ShardDown{Message: &sluicev1.ShardDown_Volume{Volume: command}}:
	case <-c.gone: // which the answer finds out
	case <-ctx.Done():
		return "", status.FromContextError(ctx.Err()).Err()
	}
	select {
	case message = <-answer:
		return message, nil
	case <-c.gone:
		return "", resourceError(codes.Unavailable, "host", string(at.host),
			"its host manager is gone and has not answered: look whether the volume is there when it is back")
	case <-s.stopped:
		return "", statusOf(ErrStopped)
	case <-ctx.Done():
		return "", status.FromContextError(fmt.Errorf("the host manager has not answered: %w", ctx.Err())).Err()
	}
}

func (q *volumeQuestions) forget(at place, answer chan string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.waiting[at] = slices.DeleteFunc(q.waiting[at], func(c chan string) bool { return c == answer })
	if len(q.waiting[at]) == 0 {
		delete(q.waiting, at)
	}
}

// volumes takes in answers to deletions.
func (c *control) volumes(report *sluicev1.VolumeReport) {
	q := &c.s.volumes
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, v := range report.GetVolumes() {
		message := strings.ToValidUTF8(shorten(v.GetMessage(), maxMessage), "�")
		if message == "" && v.GetPresent() {
			message = "the host manager has not deleted it, and does not say why"
		}
		for _, answer := range q.waiting[place{cluster.MakeHostID(c.shard, v.GetHost()), v.GetName()}] {
			select {
			case answer <- message:
			default: // it has one
			}
		}
	}
}

// awaitNoVolume waits until the state knows that the volume is gone.
func (s *Scheduler) awaitNoVolume(ctx context.Context, at place) error {
	w := s.Watch()
	defer w.Close()
	for {
		snapshot, _, _ := w.Take()
		h := snapshot.Host(at.host)
		if h == nil || !slices.ContainsFunc(h.Volumes, func(v cluster.HeldVolume) bool { return v.Name == at.name }) {
			return nil
		}
		select {
		case <-ctx.Done():
			return status.FromContextError(fmt.Errorf("its host manager has destroyed it, and has not reported its host without it: %w", ctx.Err())).Err()
		case <-s.stopped:
			return statusOf(ErrStopped)
		case <-w.C:
		}
	}
}
