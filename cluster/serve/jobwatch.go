package serve

import (
	"maps"
	"slices"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	"github.com/sluice-scheduler/sluice/cluster"
	"github.com/sluice-scheduler/sluice/cluster/access"
	sluicev1 "github.com/sluice-scheduler/sluice/proto/sluice/v1"
)

// WatchJobs implements sluicev1.JobServiceServer. However slow the client is, the server keeps for it the uids of the
// jobs that it has been shown and a bounded list of what changed, never a queue of messages.
func (a *jobService) WatchJobs(r *sluicev1.WatchJobsRequest, stream grpc.ServerStreamingServer[sluicev1.WatchJobsResponse]) error {
	if err := callOf(stream.Context()).knowsFiltered(a.s.Snapshot(), "filter.pool", r.Filter.GetPool()); err != nil {
		return err
	}
	w := a.s.Watch()
	defer w.Close()
	watch := jobWatch{
		filter: newJobFilter(r.Filter),
		tasks:  r.IncludeTasks,
		who:    callOf(stream.Context()).who,
		since:  r.AfterRevision,
		origin: a.s.origin,
		shown:  map[cluster.JobUID]bool{},
		send:   stream.Send,
	}
	for first := true; ; first = false {
		if err := a.s.await(stream.Context(), w.C); err != nil {
			return err
		}
		snapshot, changes, all := w.Take()
		if err := watch.step(snapshot, changes, all, first); err != nil {
			return err
		}
	}
}

// jobWatch is one client's view of the jobs.
type jobWatch struct {
	filter jobFilter
	tasks  bool
	who    *access.Caller
	seen   func(*cluster.Job) bool // as of the snapshot that is being shown
	since  uint64                  // revision up to which the client knows everything
	origin uint64                  // revision at which the scheduler started
	access uint64                  // revision of who may see what, as of what was shown
	shown  map[cluster.JobUID]bool
	send   func(*sluicev1.WatchJobsResponse) error

	message *sluicev1.WatchJobsResponse
	bytes   int
}

// step shows the client what is new in the snapshot: everything at first, when the changes are not complete, or when others may
// see it than before.
func (w *jobWatch) step(s *cluster.Snapshot, changes cluster.Changes, all, first bool) error {
	w.message, w.bytes, w.seen = &sluicev1.WatchJobsResponse{}, 0, w.who.Sight(s)
	var err error
	if w.since > s.Revision() { // of another history: the client knows nothing of this one
		w.since = 0
	}
	if first && !w.who.Free && w.since < s.AccessRevision() { // nor of what he could not see then
		w.since = 0
	}
	if first && len(w.who.Roles) > 0 && w.since <= w.origin { // the configuration of before may not have given him these
		w.since = 0
	}
	moved := w.access != s.AccessRevision()
	w.access = s.AccessRevision()
	if first || all || moved {
		err = w.showAll(s, first)
	} else {
		err = w.showChanged(s, changes)
	}
	if err != nil {
		return err
	}
	m := w.message
	if !first && len(m.Jobs)+len(m.Tasks)+len(m.Gone)+len(m.GoneTasks) == 0 {
		return nil
	}
	m.Synced = first
	m.Revision = s.Revision()
	w.since = m.Revision
	return w.send(m)
}

// showAll shows every matching job that is new since w.since.
func (w *jobWatch) showAll(s *cluster.Snapshot, first bool) error {
	if !first && w.tasks {
		if err := w.forgetChanged(s); err != nil {
			return err
		}
	}
	missing := w.shown
	w.shown = map[cluster.JobUID]bool{}
	for j := range s.Jobs(0) {
		if !w.filter.Match(j) || !w.seen(j) {
			continue
		}
		known := missing[j.UID] || first && j.Revision <= w.since
		delete(missing, j.UID)
		w.shown[j.UID] = true
		switch {
		case !known || j.Revision > w.since:
			if err := w.show(s, j, w.tasks); err != nil {
				return err
			}
		case first:
			if err := w.makeRoom(uidBytes); err != nil {
				return err
			}
			w.message.Unchanged = append(w.message.Unchanged, uint32(j.UID))
		}
	}
	return w.gone(missing)
}

// forgetChanged has the client forget the jobs that are about to be shown anew with all of their tasks: which tasks they no
// longer have is not known.
func (w *jobWatch) forgetChanged(s *cluster.Snapshot) error {
	changed := map[cluster.JobUID]bool{}
	for uid := range w.shown {
		if j := s.Job(uid); j != nil && j.Revision > w.since && w.filter.Match(j) && w.seen(j) {
			changed[uid] = true
			delete(w.shown, uid)
		}
	}
	if err := w.gone(changed); err != nil || len(changed) == 0 {
		return err
	}
	return w.flush(0)
}

// showChanged shows the matching jobs among the changed ones.
func (w *jobWatch) showChanged(s *cluster.Snapshot, changes cluster.Changes) error {
	gone := map[cluster.JobUID]bool{}
	slices.Sort(changes.Jobs)
	for _, uid := range slices.Compact(changes.Jobs) {
		j := s.Job(uid)
		switch {
		case j != nil && w.filter.Match(j) && w.seen(j):
			known := w.shown[uid]
			w.shown[uid] = true
			if err := w.show(s, j, w.tasks && !known); err != nil {
				return err
			}
		case w.shown[uid]:
			gone[uid] = true
			delete(w.shown, uid)
		}
	}
	if err := w.gone(gone); err != nil || !w.tasks {
		return err
	}
	slices.Sort(changes.Tasks)
	for _, k := range slices.Compact(changes.Tasks) {
		if k.IsCopy() || !w.shown[k.Job()] {
			continue
		}
		var err error
		if t := s.Task(k); t != nil {
			err = w.showTask(t, s.Job(k.Job()))
		} else if err = w.makeRoom(refBytes); err == nil {
			w.message.GoneTasks = append(w.message.GoneTasks, &sluicev1.TaskRef{JobUid: uint32(k.Job()), Instance: k.Instance()})
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (w *jobWatch) show(s *cluster.Snapshot, j *cluster.Job, tasks bool) error {
	record := jobTo(j)
	if err := w.makeRoom(proto.Size(record)); err != nil {
		return err
	}
	w.message.Jobs = append(w.message.Jobs, record)
	if !tasks {
		return nil
	}
	for t := range s.TasksOf(j.UID, 0) {
		if t.Key.IsCopy() {
			break // they come last, and are shown with their tasks only
		}
		if err := w.showTask(t, j); err != nil {
			return err
		}
	}
	return nil
}

func (w *jobWatch) showTask(t *cluster.Task, j *cluster.Job) error {
	record := taskTo(t, j)
	if err := w.makeRoom(proto.Size(record)); err != nil {
		return err
	}
	w.message.Tasks = append(w.message.Tasks, record)
	return nil
}

func (w *jobWatch) gone(uids map[cluster.JobUID]bool) error {
	for _, uid := range slices.Sorted(maps.Keys(uids)) {
		if err := w.makeRoom(uidBytes); err != nil {
			return err
		}
		w.message.Gone = append(w.message.Gone, uint32(uid))
	}
	return nil
}

// uidBytes and refBytes are about what a uid and the name of a task take in a message.
const (
	uidBytes = 4
	refBytes = 12
)

// makeRoom sends the message on its way if n bytes more would make it too large. It is called before something is added,
// so that the message that step sends last, with the revision, is never empty because all has been sent.
func (w *jobWatch) makeRoom(n int) error {
	if w.bytes == 0 || w.bytes+n <= maxPageBytes {
		w.bytes += n
		return nil
	}
	return w.flush(n)
}

// flush sends the message on its way and begins one with n bytes.
func (w *jobWatch) flush(n int) error {
	m := w.message
	w.message, w.bytes = &sluicev1.WatchJobsResponse{}, n
	return w.send(m)
}
