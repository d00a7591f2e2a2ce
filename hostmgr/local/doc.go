// Package local is the driver that runs tasks as plain processes of this machine, divided into virtual hosts.
//
// The process with the driver may be killed at any moment. What runs goes on running, the next driver over the same
// state folder adopts it, and no run is started twice or forgotten. So each run has a supervisor, a small process of
// its own (the same program again, see [Supervise]), and the two sides share nothing but the folder of the run:
//
//	launch     the intent: all that is needed to start the run       driver, before anybody knows of the run
//	lock       held by the supervisor as long as it lives            whoever holds it decides about the run
//	started    from here on the run may have started                 holder of the lock, exclusively created
//	running    the processes of the task exist                       supervisor
//	health     what the checks say                                   supervisor
//	kill       the wish that the run ends, and the grace             driver
//	exit       how it ended; synced                                  holder of the lock
//	stdout.N, stderr.N   the output from byte N on; that of further processes begins with their names and a dot
//	errors     what the supervisor has to complain about             supervisor
//	work, tmp  the task's own
//	scratch    its scratch volumes, removed at the end
//
// # A run starts at most once
//
// A task is forked by a supervisor that holds the lock and has created "started" itself. The file is created
// exclusively and never removed while the run is known, so this happens once per folder; and a run has one folder,
// because it appears in "runs" whole, by a rename, and the driver refuses to make it again. The interleavings:
//
//   - The driver dies before the rename. The run is unknown, nothing runs, the launch was not acknowledged. What is in
//     "tmp" is removed by the next driver.
//   - It dies after the rename, before or after it has started a supervisor S1. The next driver finds neither a holder
//     of the lock nor "started", and starts S2. S1 and S2 compete for the lock without waiting: one is refused and ends.
//     Should the other be done before the late one comes, that one gets the lock, finds "exit" or "started", and ends.
//     The driver is not interested in which of them won: when S2 has ended it looks again, and follows the holder.
//     It starts S2 only when the scheduler has acknowledged the run (Durable), which it may have given up and begun elsewhere by then.
//   - A supervisor dies before "started": nothing was forked, the driver starts another, a few times. Then it takes the
//     lock and records LAUNCH_REFUSED, which shuts late supervisors out: the task has no part in it. So does a supervisor that
//     cannot write "started".
//   - A supervisor dies between "started" and "exit". Whether the task ran, and how it ended, cannot be known. The
//     driver takes the lock (nobody forks any more), kills what is left, and records LOST. The first process of the task
//     dies with its supervisor by itself (PR_SET_PDEATHSIG); the others are known by their session and by a variable in
//     their environment.
//   - The driver dies while it does that: "exit" is written last, so the next one does it again.
//   - The machine restarts. "started" is not synced, because the launch names the boot in which it was recorded: without
//     "exit", a run of an earlier boot is LOST, whether or not it was started.
//   - A supervisor cannot write "exit", say on a full disk. It keeps the lock and tries again.
//   - The folder of the run is removed, as by its own task. Its supervisor cannot record the end, and cannot be told of a kill, so a kill
//     ends it. When it has ended, the driver kills what is left and reports LOST. A driver that starts kills what goes on of such
//     a run, since it does not know it.
//
// Room on the disk is kept for "running", "kill" and "exit" from the launch on (as "kill.new"), and "lock" is there from then on too,
// so that a task which has filled the disk, with bytes or with files, can be killed, and its end is known.
//
// The end of a supervisor releases its lock before anybody is told that it has ended, so a driver that is told looks
// at the final state. To follow a supervisor that it did not start, the driver asks the kernel who holds the lock, opens
// a descriptor for that process, and asks again: if the answer is the same, the descriptor means the holder, even if the
// number was given to somebody else in between.
//
// # A run that is killed ends
//
// The driver writes "kill" and then sends a signal; the supervisor installs its handler and then reads "kill", first
// before it claims the run (if the file is there, the task is never forked), and again after the fork. One of the two
// always sees the other. A supervisor that was stopped, as by its task, is continued for it, and else when the usage is
// next measured. A driver that did not send the signal, because it died or knew of no supervisor yet, is made up for:
// whoever begins to follow a supervisor of a run with a kill record sends it. The supervisor keeps the time, and only
// ever brings the deadline forward, so looking twice changes nothing.
//
// # A machine that is out of something
//
// An error of the machine, and not of the task, gives a launch back, before it is recorded or, as long as nothing of the run has begun,
// after that (LAUNCH_REFUSED). The driver then looks whether it can record and start anything, and as long as it cannot it reports
// its hosts with what their runs have and no room.
//
// # Nothing is left behind
//
// The supervisor is the reaper of all orphans below it. When the first process of the task has ended, it kills its
// children until it has none; orphans become its children one after the other, so in the end there is no descendant,
// whatever session, group or environment it has chosen. Only then is the end recorded.
//
// # Tasks of several processes
//
// The supervisor makes the volumes, fetches files and runs the init steps before the processes; the driver reports
// STARTING meanwhile. Each process has its own group and logs. When the main process ends, or when all have where none is
// marked, the others are asked to end, and made to after the kill grace. A kill reaches whatever is running at the
// moment; what has not begun yet does not begin.
//
// Volumes are folders that the task finds by symbolic links in its own folder: nothing is mounted, since that takes
// rights that the driver need not have. So a volume at an absolute path, one inside another that is kept, or one that must
// not be written, is beyond this driver (CanMount), and the size of a scratch folder is looked at every few seconds
// instead of being enforced.
//
// # Health
//
// The supervisor runs the checks too, so they go on while there is no driver. It writes down what changes, and ends a
// task that is not alive. The driver looks at these files, only of runs with checks, and tells what is new; a new driver
// tells it all again.
//
// # Cost
//
// A waiting run costs the driver a goroutine parked in the poller (no thread), and the machine a supervisor with one
// processor and a small heap (2.3 MB that it shares with nobody). A launch syncs three times, an end twice. Linux 5.4 or
// newer is needed.
package local
