package cluster

// Ahead is how many events it is worth to read ahead for: what they need stays in a processor's cache until they are applied.
const Ahead = 64

// ReadAhead reads what an event about each of the tasks will need: the task, its job and its host. An event alone finds them
// one through the other and waits for memory each time; for many together, most of the waits coincide. It changes nothing but
// how long the events take. The hosts are further ones, on which tasks will be placed. Both are at most Ahead.
func (s *State) ReadAhead(tasks []TaskKey, hosts []HostID) {
	if len(tasks)+len(hosts) < 2 {
		return
	}
	var found struct {
		tasks [Ahead]*Task
		jobs  [Ahead]*Job
		hosts [2 * Ahead]*Host
	}
	sum := uint64(0)
	for i, k := range tasks {
		found.tasks[i], found.jobs[i] = s.Task(k), s.Job(k.Job())
	}
	for i, t := range found.tasks[:len(tasks)] {
		if t != nil {
			sum += uint64(t.Key) + uint64(len(t.Ports)) + uint64(t.Queued) + uint64(t.Unready)
		}
		if j := found.jobs[i]; j != nil {
			sum += uint64(j.UID) + uint64(j.Finished) + uint64(j.LastRun) + uint64(len(j.Description)) + j.Revision + uint64(j.Counts[NumTaskStates-1])
		}
	}
	var ids [2 * Ahead]HostID
	n := copy(ids[:], hosts)
	for i, t := range found.tasks[:len(tasks)] {
		if t != nil && t.Host != "" {
			ids[n] = t.Host
			n++
		}
		if j := found.jobs[i]; j != nil {
			spec := j.Spec
			sum += uint64(spec.Type) + uint64(len(spec.Labels)) + uint64(spec.MaxFailures) + uint64(spec.Task.Resources.Fixed[0]) +
				uint64(spec.Task.GPU.Milli) + uint64(len(spec.Overrides))
		}
	}
	s.FindHosts(ids[:n], found.hosts[:])
	for _, h := range found.hosts[:n] {
		if h != nil {
			sum += uint64(h.Since) + uint64(h.Allocated.Fixed[3]) + uint64(h.Lent.Fixed[3]) + uint64(h.Slack.Fixed[3]) +
				uint64(len(h.PortsTaken)) + uint64(h.Withheld.Fixed[2]) + uint64(len(h.PortsWithheld))
		}
	}
	for _, h := range found.hosts[:n] {
		if h != nil && len(h.Tasks) > 0 {
			sum += uint64(h.Tasks[0]) + uint64(h.Tasks[len(h.Tasks)-1]) + uint64(h.Capacity.Fixed[0]) + uint64(h.Capabilities)
		}
	}
	s.fetched = sum
}

// FindHosts finds hosts by their ids, nil where there is none, as Host does. It waits for their records together.
func (t *tables) FindHosts(ids []HostID, found []*Host) {
	for i, id := range ids {
		found[i] = t.hosts.guess(id)
	}
	for i, id := range ids {
		if h := found[i]; h != nil && h.ID != id {
			found[i] = t.Host(id)
		}
	}
}
