// Package replica keeps the history of one cluster on several machines, so that a scheduler can go on where another one died.
//
// The machines are the members of a group, three or five as a rule. By the Raft algorithm (Ongaro, Ousterhout: In Search of an
// Understandable Consensus Algorithm, USENIX ATC 2014), of which github.com/hashicorp/raft is the implementation, they agree on one log.
// One of them leads: it alone appends, and a record is durable once it is on the disks of most members. When the leader is gone, or most
// members cannot reach it, another one leads that has all durable records. A group of 2f+1 members outlives f of them.
//
// The way of a record:
//
//	Term.Append   encodes a batch as package journal does, cuts it into entries of the log, waits until most members have them
//	machine.Apply on each member, applies the batch to a [cluster.State], as soon as all its entries are there
//	Member.Lead   when this member comes to lead, hands out a fork of that State, and a Term in which records follow it
//
// # Files
//
// The member's folder is a store (package store) of the log and of what Raft must not forget, and in its folder snapshots there is the
// state as of some entry, which takes the place of the entries before. It says of which member and which group it is. An entry and a snapshot hold batches of package journal, each with
// a checksum.
//
// # How a group begins
//
// Only while no member has a log yet, and all of them answer: the one whose history is to be gone on with begins, or else the first of
// the list, and gives the group a name. A member that finds a group that has begun waits until its leader calls, and gets all that there is.
// Members that are of different groups do not talk with each other.
package replica
