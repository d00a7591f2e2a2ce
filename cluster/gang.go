package cluster

import (
	"strconv"
	"strings"
)

// GangVariables returns what an instance of a gang is told of the others: its rank, which is its number and so the same in
// every run, the size of the core, and where the members of the core are, by rank. An address is HOST:PORT with the first
// port that the scheduler chose there, or else the first that was asked for by number; HOST alone where there are no ports;
// and nothing where the member has no place at present. A core is placed as a whole, so its first runs know all addresses.
// Nil where the job is no gang. Complexity: the core.
func (t *tables) GangVariables(task *Task, j *Job) []KeyValue {
	gang := j.Spec.Gang
	if gang == nil {
		return nil
	}
	peers := make([]string, gang.Minimum)
	for i := range peers {
		peers[i] = t.addressOf(MakeTaskKey(j.UID, uint32(i)), j)
	}
	return []KeyValue{
		{VarGangRank, strconv.Itoa(int(task.Key.Instance()))},
		{VarGangSize, strconv.Itoa(len(peers))},
		{VarGangPeers, strings.Join(peers, ",")},
	}
}

// addressOf returns where a task is reached, "" where it has no place.
func (t *tables) addressOf(k TaskKey, j *Job) string {
	task := t.Task(k)
	if task == nil || !task.State.Bound() {
		return ""
	}
	address := task.Host.Name()
	if h := t.Host(task.Host); h != nil && h.Address != "" {
		address = h.Address
	}
	ports := task.Ports
	if numbers := len(j.TaskFor(task).Ports.Numbers); numbers < len(ports) {
		ports = ports[numbers:] // the dynamic ones
	}
	if len(ports) == 0 {
		return address
	}
	if strings.Contains(address, ":") { // of IPv6
		address = "[" + address + "]"
	}
	return address + ":" + strconv.Itoa(int(ports[0]))
}
