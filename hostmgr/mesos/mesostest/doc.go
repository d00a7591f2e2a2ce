// Package mesostest is a stand-in for an Apache Mesos cluster: masters that speak the v1 scheduler API over HTTP, with
// RecordIO in JSON and protobuf, and agents that run scripted tasks. It behaves as recordings of a real master show, in
// what it accepts, what it refuses and in which words, and in the order of what it sends; it is for tests of the Mesos
// driver, and runs nothing.
//
// A [Cluster] holds the agents and what the masters keep in their replicated log; one of its masters leads at a time.
// Everything happens under one lock, at times that a [Clock] gives: by default the time package's, which is virtual in a
// testing/synctest bubble. [Net] connects clients in memory.
//
// What goes wrong, goes wrong on demand: masters fail over ([Cluster.Elect]), agents die, get cut off and come back
// ([Cluster.StopAgent], [Cluster.CutAgent], [Cluster.ReturnAgent]), streams are cut in the middle of a record or crawl,
// calls are refused or their answers lost, updates come twice or late, offers are rescinded when they are accepted
// ([Faults]).
//
// What it leaves out: quota, resource providers, operations on disks (GROW_VOLUME, CREATE_DISK ...), MESSAGE and REQUEST
// (taken and forgotten), and the v0 API.
package mesostest
