package cluster

import "slices"

// HostState says whether a host takes work.
type HostState uint8

// The states of a host.
const (
	// HostUp: takes new tasks.
	HostUp HostState = iota
	// HostDraining: gets no new tasks; those it runs finish, or leave where the drain moves them.
	HostDraining
	// HostUnreachable: its shard is cut off or does not see it. Its tasks are presumed running until the timeout.
	HostUnreachable
)

var hostStateNames = [...]string{"UP", "DRAINING", "UNREACHABLE"}

// String returns the state's name.
func (s HostState) String() string { return hostStateNames[s] }

// Machine is what a host manager reports of a host: the facts, without what the scheduler decided about it.
type Machine struct {
	Rack, Zone string
	Attributes []KeyValue `cbor:",omitempty"` // sorted; keys may repeat
	Capacity   Resources
	// Revocable is what there is beside Capacity that may be taken back at any time: for revocable tasks only.
	Revocable Resources    `cbor:",omitzero"`
	GPUs      []GPUDevice  `cbor:",omitempty"` // Capacity has WholeGPU for each
	Ports     []PortRange  `cbor:",omitempty"` // that may be given to tasks; sorted, without overlaps
	Volumes   []HeldVolume `cbor:",omitempty"` // persistent ones that it keeps; sorted by name
	// Capabilities are those of the host manager that has the host, without what this host lacks of them.
	Capabilities Capabilities `cbor:",omitempty"`
	// Address is where other hosts reach the tasks of this one; "" where the name is it.
	Address string   `cbor:",omitempty"`
	Notes   []string `cbor:",omitempty"` // for people: what the host cannot do, such as enforcing limits
}

// HeldVolume is a persistent volume on a host: it outlives the tasks that use it.
type HeldVolume struct {
	Name  string
	Bytes int64
}

// Equal reports whether m and n state the same facts.
func (m *Machine) Equal(n Machine) bool {
	return m.Rack == n.Rack && m.Zone == n.Zone && m.Capacity.Equal(n.Capacity) && m.Revocable.Equal(n.Revocable) &&
		m.Capabilities == n.Capabilities && m.Address == n.Address && slices.Equal(m.GPUs, n.GPUs) && slices.Equal(m.Ports, n.Ports) &&
		slices.Equal(m.Attributes, n.Attributes) && slices.Equal(m.Notes, n.Notes) && slices.Equal(m.Volumes, n.Volumes)
}

// Host is a machine in the cluster with what is allocated on it. Immutable; State replaces it.
type Host struct {
	ID          HostID
	*Machine           // never nil; the same one in all records between two reports, and never modified
	Draining    bool   // the operator's wish
	DrainReason string `cbor:",omitempty"` // of the wish, in words
	Clearing    bool   `cbor:",omitempty"` // and that what may be moved leaves it
	ClearBy     Time   `cbor:",omitempty"` // and when the rest does, 0 for never
	Unreachable bool   // the shard does not vouch for it
	Gone        bool   `cbor:",omitempty"` // and it was the shard that said so: it does not see it any more
	Reason      string // why it does not, in words
	Since       Time   // when it became Unreachable; if it is not, when either last changed

	Tasks     []TaskKey // tasks bound to the host, sorted
	Allocated Resources // sum of the requests of those Tasks that are not revocable
	Lent      Resources // sum of the requests of those that are
	Slack     Resources // what tasks that are not revocable leave unused, as measured; see slack.go
	GPUFree   []int32   `cbor:",omitempty"` // thousandths left of each device, by index
	// PortsTaken are the ports of Tasks, sorted; also those that the machine has stopped offering.
	PortsTaken []uint16 `cbor:",omitempty"`

	Held          []TaskKey `cbor:",omitempty"` // tasks that have a hold on the host, sorted
	Withheld      Resources // what their holds keep from others, out of what is free
	GPUWithheld   []int32   `cbor:",omitempty"` // the same in thousandths of each device
	PortsWithheld []uint16  `cbor:",omitempty"` // the ports of their holds, sorted

	// Pace is how long runs on the host take, in thousandths of what was expected of them, as learned; 0: not known.
	Pace int32 `cbor:",omitempty"`

	// Misfires is how many launches in a row came to nothing: they were given back, or failed before anything ran, or at once. Of those
	// that were under way together one counts. MisfiredAt is when the last one did, and Fizzled the task of it that had begun; 0: none had.
	Misfires   uint32  `cbor:",omitempty"`
	MisfiredAt Time    `cbor:",omitempty"`
	Fizzled    TaskKey `cbor:",omitempty"`
}

// Suspect is from how many misfires on other hosts are preferred.
const Suspect = 2

// State folds the operator's wish and reachability into one word: unreachable wins.
func (h *Host) State() HostState {
	switch {
	case h.Unreachable:
		return HostUnreachable
	case h.Draining:
		return HostDraining
	default:
		return HostUp
	}
}

// Clears reports whether some or all that is on the host has to leave it, now or at some time.
func (h *Host) Clears() bool { return h.Clearing || h.ClearBy != 0 }

// Overdue reports whether all that is still on the host has to leave it by now.
func (h *Host) Overdue(now Time) bool { return h.ClearBy != 0 && now >= h.ClearBy }

// Free returns Capacity − Allocated − Excess; negative where the capacity shrank below what is allocated, or the slack
// below what is lent.
func (h *Host) Free() Resources {
	if h.Lent.IsZero() {
		return h.Capacity.Sub(h.Allocated)
	}
	return h.Capacity.Sub(h.Allocated).Sub(h.Excess())
}

func b2u(b bool) uint32 {
	if b {
		return 1
	}
	return 0
}
