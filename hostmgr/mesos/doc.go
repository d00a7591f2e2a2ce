// Package mesos is the driver that runs tasks on an Apache Mesos cluster, through the v1 scheduler API over HTTP. Its
// hosts are the cluster's agents.
//
// # Who knows what
//
// Mesos is the only one that knows what runs. What the driver keeps on disk is what Mesos cannot tell: the framework's
// id, which launches were promised (so that a run is never started twice), which were to be killed, how runs ended (as
// long as they are not released), and the names of the agents. All else comes from the event stream, and after each
// subscription from reconciliation.
//
//	subscribed          the framework's id is on disk before anything is done in its name
//	a launch            the run is on disk before its ACCEPT is sent; the ACCEPT is never repeated
//	an update           is acknowledged when the scheduler has made durable what it changed, and the end of a run, or of
//	                    a member of it, when that is on disk here, too. Mesos repeats it until then, and holds later
//	                    ones of the task back
//	an ACCEPT that may or may not have arrived    Mesos is asked; if it does not know the task, the launch is given back
//	a task that nobody here knows                 is reported; the scheduler says whether it is to be killed
//	a copy that comes back after its run has ended is killed
//
// # What a host has
//
// Mesos offers what is free at the moment. The scheduler wants to know what a host has in all, and keeps books of its own
// on what is allocated. So the capacity reported is what is in offers, what our runs use, and what is expected to be
// offered because we have just declined it or given it up (see agent). It stays the same when tasks come and go, and
// shrinks and grows with what other frameworks use. The operator's API would tell the same, but needs rights that a
// framework seldom has.
//
// # Goroutines
//
// One reads events, eight make calls (one connection each, and one lane for all that concerns an agent), one writes to
// the store, and one, the keeper, does what is due by the clock. One mutex guards the state, and is never held over I/O.
package mesos
