// Package verify checks plans. It shares no arithmetic with the planner: what a plan does to the hosts and the pools is
// summed up anew from the snapshot that it was made from.
//
// A plan is true if
//
//   - every placement starts the next run of a task that waits, on a host that takes work and whose labels the job's
//     constraint allows, and no task stands in the plan twice;
//   - no host gets more than it has free in any dimension, on any device or port, and nothing is planned into room that is
//     being vacated or is held for somebody else;
//   - no pool goes beyond a limit by what starts, beside all that runs yet, nor by what room is held for;
//   - what begins beyond what its pool is entitled to leaves free what static pools do not use of their reservations;
//   - no more tasks of a job run at once than it says;
//   - gangs start whole and leave whole;
//   - everybody who is asked to leave may be asked, leaves for somebody else than his own kind, and does not leave in vain:
//     if he stayed, with all else as planned, his host would be over-filled;
//   - between pools, who loses somebody has more than it is entitled to in a dimension that was short on the host, and keeps
//     what it is entitled to; who gains has no more than it is entitled to; inside a pool only higher priority, or a user
//     below his share, gains.
package verify
