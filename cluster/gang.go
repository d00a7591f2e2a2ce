package cluster

import (
	"strconv"
	"strings"
)

// maxPeers is how long the list of a gang's addresses may be, in bytes: Linux starts no process with a variable of 128 KiB.
const maxPeers = 120 << 10

// GangPeers returns where the members of a gang's core are, by rank, joined by commas. An address is HOST:PORT with the first
// port that the scheduler chose there, or else the first that was asked for by number; HOST alone where there are no ports; and
// nothing where the member has no place at present. A core is placed as a whole, so its first runs know all addresses. It is ""
// where the job is no gang, and where the list would be longer than a variable can be. Complexity: the core.
func (t *tables) GangPeers(j *Job) string {
	if j.Spec.Gang == nil {
		return ""
	}
	var peers strings.Builder
	for i := range j.Spec.Gang.Minimum {
		if i > 0 {
			peers.WriteByte(',')
		}
		peers.WriteString(t.addressOf(MakeTaskKey(j.UID, i), j))
		if peers.Len() > maxPeers {
			return ""
		}
	}
	return peers.String()
}

// GangVariables returns what an instance of a gang is told of the others: its rank, which is its number and so the same in
// every run, the size of the core, and the addresses that [Snapshot.GangPeers] returns. Nil where the job is no gang.
func (j *Job) GangVariables(task *Task, peers string) []KeyValue {
	if j.Spec.Gang == nil {
		return nil
	}
	return []KeyValue{
		{VarGangRank, strconv.Itoa(int(task.Key.Instance()))},
		{VarGangSize, strconv.Itoa(int(j.Spec.Gang.Minimum))},
		{VarGangPeers, peers},
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
