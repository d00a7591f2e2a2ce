package mesos

import (
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
	"time"

	api "github.com/mesos/mesos-go/api/v1/lib"

	"github.com/sluice-scheduler/sluice/cluster"
	"github.com/sluice-scheduler/sluice/hostmgr"
)

// ending is how one Mesos task ended.
type ending struct {
	Member   int // index of the process, 0 where there is one; of a run that was found, of its Mesos task among those seen
	State    cluster.TaskState
	ExitCode int32
	Signal   int32
	Reason   cluster.Reason
	Message  string
	At       cluster.Time
	Told     bool // its executor ended it: it was to, or its health check failed, or another of several had failed
}

// circumstances are what a status means something else for.
type circumstances struct {
	killed  bool // we asked for the end
	started bool // it was seen beyond LAUNCHING
	running bool // it was seen to run
}

// progressOf maps the states in which a task lives. TASK_KILLING is none of them: the task is as it was.
func progressOf(s api.TaskState) (cluster.TaskState, bool) {
	switch s {
	case api.TASK_STAGING:
		return cluster.TaskLaunching, true
	case api.TASK_STARTING:
		return cluster.TaskStarting, true
	case api.TASK_RUNNING:
		return cluster.TaskRunning, true
	}
	return 0, false
}

// endOf maps the states in which a task has ended, or is not known to anybody any more; false for the others.
//
//	FINISHED            SUCCEEDED
//	FAILED              FAILED; the exit code or signal is in the text, where the executor writes it. LOST if it ended with its agent,
//	                    KILLED if we asked for the end before the executor had it
//	ERROR               FAILED, LAUNCH_FAILED: Mesos cannot run it as it is
//	KILLED              KILLED if we asked for it; where the operator drained the agent LOST, or given back if it never started; else FAILED
//	GONE_BY_OPERATOR    of an agent that is drained, to be gone afterwards: as KILLED
//	DROPPED             given back: it never started. LOST where it had
//	LOST                as DROPPED where it says why a launch came to nothing; else as GONE
//	GONE, GONE_BY_OPERATOR, UNKNOWN   LOST, or KILLED if we asked for it, or if it was on what may be taken back: PREEMPTED then;
//	                    unknown not soon after a subscription, see mayReturn
func endOf(s *api.TaskStatus, c circumstances) (ending, bool) {
	e := ending{ExitCode: -1, Message: explain(s), At: timeOf(s)}
	switch s.GetState() {
	case api.TASK_FINISHED:
		e.State, e.ExitCode, e.Reason = cluster.TaskSucceeded, 0, cluster.ReasonExited
	case api.TASK_FAILED:
		e.failed(s, c)
	case api.TASK_ERROR:
		e.State, e.Reason = cluster.TaskFailed, cluster.ReasonLaunchFailed
	case api.TASK_KILLED:
		e.killed(s, c)
	case api.TASK_DROPPED:
		e.dropped(c)
	case api.TASK_LOST:
		if wouldBeDropped(s) {
			e.dropped(c)
		} else {
			e.lost(s, c)
		}
	case api.TASK_GONE, api.TASK_GONE_BY_OPERATOR, api.TASK_UNKNOWN:
		if reasonOf(s) == api.REASON_AGENT_DRAINING { // a kill, see goneAgent
			e.killed(s, c)
		} else {
			e.lost(s, c)
		}
	default:
		return ending{}, false
	}
	return e, true
}

// wouldBeDropped reports whether a status says LOST of a launch that came to nothing, as is said to a framework that is not
// partition-aware. To others it is DROPPED.
func wouldBeDropped(s *api.TaskStatus) bool {
	switch reasonOf(s) {
	case api.REASON_INVALID_OFFERS, api.REASON_RESOURCES_UNKNOWN, api.REASON_AGENT_RESTARTED, api.REASON_GC_ERROR,
		api.REASON_EXECUTOR_TERMINATED:
		return true
	}
	return false
}

// vague reports whether a status says that a task has failed, or was killed, and not how: the master's own word has neither the text nor
// the reason of the agent's update, which the agent repeats as long as the master says so.
func vague(s *api.TaskStatus, c circumstances) bool {
	ended := s.GetState() == api.TASK_FAILED || s.GetState() == api.TASK_KILLED && !c.killed
	return ended && len(s.UUID) == 0 && byMaster(s)
}

// byMaster reports whether a status is what the master knows of a task: when it was asked, or when the agent is back from out of reach.
func byMaster(s *api.TaskStatus) bool {
	return reasonOf(s) == api.REASON_RECONCILIATION || reasonOf(s) == api.REASON_AGENT_REREGISTERED
}

// unknown reports whether a master answers that it knows neither the task nor its agent. To a framework that is not partition-aware it
// says LOST, and the text tells that from other losses; and masters before 1.5 say UNKNOWN also of a task that an agent does not know which
// is there.
func unknown(s *api.TaskStatus) bool {
	switch s.GetState() {
	case api.TASK_UNKNOWN:
		return s.GetMessage() != "Reconciliation: Task is unknown to the agent"
	case api.TASK_LOST:
		return reasonOf(s) == api.REASON_RECONCILIATION && s.GetMessage() == "Reconciliation: Task is unknown"
	}
	return false
}

// goneAgent reports whether a status says that an operator has marked an agent as gone. One that is to be drained before is there until
// all its tasks have been killed, but calls each of them gone already, and so does the master that repeats it.
func goneAgent(s *api.TaskStatus) bool {
	return s.GetState() == api.TASK_GONE_BY_OPERATOR && reasonOf(s) != api.REASON_AGENT_DRAINING &&
		s.GetMessage() != "Reconciliation: Latest task state"
}

func (e *ending) failed(s *api.TaskStatus, c circumstances) {
	e.State = cluster.TaskFailed
	e.ExitCode, e.Signal = exitOf(s.GetMessage())
	switch reason := reasonOf(s); {
	case reason == api.REASON_MAX_COMPLETION_TIME_REACHED:
		e.Reason = cluster.ReasonRunTime
	case reason == api.REASON_CONTAINER_LAUNCH_FAILED || reason == api.REASON_EXECUTOR_REGISTRATION_TIMEOUT || neverRan(s, c):
		e.ExitCode, e.Signal, e.Reason = -1, 0, cluster.ReasonLaunchFailed // the text tells of a helper of the agent, as docker pull
	case reason == api.REASON_IO_SWITCHBOARD_EXITED: // here of the one that carries its output
		e.ExitCode, e.Signal, e.Reason = -1, 0, cluster.ReasonSupervisorLost
	case c.killed && reason == api.REASON_EXECUTOR_TERMINATED: // by its agent, or one that is to end a task that it has not got aborts (MESOS-8297)
		e.State, e.ExitCode, e.Signal = cluster.TaskKilled, -1, 0
	case e.ExitCode == 0: // a success by the text only
		e.ExitCode, e.Reason = -1, cluster.ReasonSupervisorLost
	case e.Signal > 0:
		e.Reason = cluster.ReasonSignaled
	case e.ExitCode > 0:
		e.Reason = cluster.ReasonExited
	case byMaster(s):
		e.Reason = cluster.ReasonSupervisorLost
	case !c.started:
		e.Reason = cluster.ReasonLaunchFailed
	case c.killed && goneWithAgent(s):
		e.State = cluster.TaskKilled
	case goneWithAgent(s):
		e.State, e.Reason = cluster.TaskLost, cluster.ReasonSupervisorLost
	case reason == api.REASON_EXECUTOR_TERMINATED:
		e.Reason = cluster.ReasonSupervisorLost
	default: // a limit that it went beyond, for example
		e.Reason = cluster.ReasonSignaled
	}
}

// neverRan reports whether the executor of several tasks has got no container for one. It says that they are starting before it asks
// for that, and when they run, and has no reason for it; but its text does not begin as one of how a process ended.
func neverRan(s *api.TaskStatus, c circumstances) bool {
	m := s.GetMessage()
	return reasonOf(s) < 0 && !c.running && !strings.HasPrefix(m, "Command ") && !strings.HasPrefix(m, "Container ")
}

// goneWithAgent reports whether a task did not outlive a restart of its agent: its executor was not back in time, or the whole machine
// was restarted, after which the agent, which is the same, knows nothing of its containers. That is no failure of the task.
func goneWithAgent(s *api.TaskStatus) bool {
	switch reasonOf(s) {
	case api.REASON_EXECUTOR_REREGISTRATION_TIMEOUT:
		return true
	case api.REASON_EXECUTOR_TERMINATED:
		return strings.Contains(s.GetMessage(), "unknown container")
	}
	return false
}

func (e *ending) killed(s *api.TaskStatus, c circumstances) {
	_, e.Signal = exitOf(s.GetMessage())
	e.Told = true
	draining := reasonOf(s) == api.REASON_AGENT_DRAINING
	switch {
	case c.killed:
		e.State = cluster.TaskKilled
	case reasonOf(s) == api.REASON_TASK_KILLED_DURING_LAUNCH, draining && s.GetSource() == api.SOURCE_AGENT:
		e.Signal = 0
		e.dropped(c) // the agent is drained, before the task's executor had it
	case draining:
		e.State, e.Signal, e.Reason = cluster.TaskLost, 0, cluster.ReasonHostLost
	case s.Healthy != nil && !*s.Healthy:
		e.State, e.Reason = cluster.TaskFailed, cluster.ReasonUnhealthy
	default:
		e.State, e.Reason = cluster.TaskFailed, cluster.ReasonSignaled
	}
}

func (e *ending) dropped(c circumstances) {
	switch {
	case c.killed:
		e.State = cluster.TaskKilled
	case c.started:
		e.State, e.Reason = cluster.TaskLost, cluster.ReasonHostLost
	default:
		e.State, e.Reason = cluster.TaskFailed, cluster.ReasonLaunchRefused
	}
}

func (e *ending) lost(s *api.TaskStatus, c circumstances) {
	switch reason := reasonOf(s); {
	case c.killed:
		e.State = cluster.TaskKilled
	case reason == api.REASON_CONTAINER_PREEMPTED: // its agent needs what may be taken back
		e.State, e.Reason = cluster.TaskKilled, cluster.ReasonPreempted
	case reason == api.REASON_CONTAINER_UPDATE_FAILED: // the agent has given up the container
		e.State, e.Reason = cluster.TaskLost, cluster.ReasonSupervisorLost
	case unknown(s):
		e.State, e.Reason = cluster.TaskLost, cluster.ReasonUnknownToHost
	default:
		e.State, e.Reason = cluster.TaskLost, cluster.ReasonHostLost
	}
}

// reasonOf returns the reason, −1 where there is none.
func reasonOf(s *api.TaskStatus) api.TaskStatus_Reason {
	if s.Reason == nil {
		return -1
	}
	return *s.Reason
}

// explain puts Mesos' state, reason, source and the beginning of the text into one line.
func explain(s *api.TaskStatus) string {
	words := []string{s.GetState().String()}
	if s.Reason != nil {
		words = append(words, s.Reason.String())
	}
	if s.Source != nil {
		words = append(words, "from "+strings.ToLower(strings.TrimPrefix(s.Source.String(), "SOURCE_")))
	}
	if m := s.GetMessage(); m != "" {
		return fmt.Sprintf("%s: %s", strings.Join(words, " "), m[:min(len(m), maxErrorText)])
	}
	return strings.Join(words, " ")
}

// timeOf returns when the status came about, 0 where it does not say.
func timeOf(s *api.TaskStatus) cluster.Time {
	seconds := s.GetTimestamp()
	if !(seconds > 0) || seconds > math.MaxInt64/float64(time.Second) {
		return 0
	}
	return cluster.Time(seconds * float64(time.Second))
}

// endText is how executors tell of the end of a process. What its agent has to say, as that there was no memory left, comes behind a colon,
// and may tell of the end of another one.
var endText = regexp.MustCompile(`(?i)(?:exited with status (\d{1,3})\b|terminated with signal ([A-Za-z0-9/ -]+?)(?: \(core dumped\))?(?::|$))`)

// exitOf finds the exit code or the signal in the text of a status, the only place that has it; −1 and 0 if there is none.
func exitOf(message string) (code, signal int32) {
	switch m := endText.FindStringSubmatch(strings.TrimSpace(message)); {
	case m == nil:
		return -1, 0
	case m[1] != "":
		n, _ := strconv.Atoi(m[1]) // three digits
		return int32(n), 0
	default:
		return -1, signalOf(strings.ToLower(m[2]))
	}
}

// signalOf returns the number of a signal by its text, 0 of one that is not known.
func signalOf(text string) int32 {
	if number, ok := strings.CutPrefix(text, "real-time signal "); ok {
		if n, err := strconv.ParseUint(number, 10, 5); err == nil { // glibc has two for itself, and counts from behind them
			return 34 + int32(n)
		}
	}
	return signals[text]
}

// signals are Linux' texts for signals, as strsignal gives them.
var signals = map[string]int32{
	"hangup": 1, "interrupt": 2, "quit": 3, "illegal instruction": 4, "trace/breakpoint trap": 5, "aborted": 6,
	"bus error": 7, "floating point exception": 8, "killed": 9, "user defined signal 1": 10, "segmentation fault": 11,
	"user defined signal 2": 12, "broken pipe": 13, "alarm clock": 14, "terminated": 15, "stack fault": 16,
	"cpu time limit exceeded": 24, "file size limit exceeded": 25, "virtual timer expired": 26,
	"profiling timer expired": 27, "i/o possible": 29, "power failure": 30, "bad system call": 31,
}

// healthOf returns what a status says of the health of a task, HealthUnknown where it says nothing new. A failure of a health check is
// told each time, and means nothing before there are as many in a row as were allowed: then the task is ended.
func healthOf(s *api.TaskStatus) (cluster.Health, string) {
	failing := s.Healthy != nil && !*s.Healthy
	switch {
	case s.CheckStatus != nil:
		ready, known := checked(s.CheckStatus)
		if gone := !known && reasonOf(s) == api.REASON_TASK_CHECK_STATUS_UPDATED; gone || known && !ready {
			return cluster.HealthUnready, explain(s)
		} else if known && !failing {
			return cluster.HealthReady, ""
		}
	case s.Healthy != nil && !failing:
		return cluster.HealthReady, ""
	}
	return cluster.HealthUnknown, ""
}

// checked reads the result of a check; known is false as long as there is none, and again when there is none any more: the check took too
// long, or found nobody to talk to. That is told as an update of the check.
func checked(s *api.CheckStatusInfo) (ready, known bool) {
	switch {
	case s.Command != nil && s.Command.ExitCode != nil:
		return *s.Command.ExitCode == 0, true
	case s.HTTP != nil && s.HTTP.StatusCode != nil:
		return *s.HTTP.StatusCode >= 200 && *s.HTTP.StatusCode < 400, true
	case s.TCP != nil && s.TCP.Succeeded != nil:
		return *s.TCP.Succeeded, true
	}
	return false, false
}

// combined returns the end of a task of several processes from those of its members, in the order in which they came. It
// is the end of the first main process, or where none is main the first that is no success. A member that was killed
// because another one failed is not what ended the task.
func combined(ends []ending, main []bool, killed bool) ending {
	hasMain := false
	for _, m := range main {
		hasMain = hasMain || m
	}
	decisive := ends[len(ends)-1]
	for _, e := range ends {
		if hasMain && e.Member < len(main) && main[e.Member] || !hasMain && e.State != cluster.TaskSucceeded {
			decisive = e
			break
		}
	}
	if killed || decisive.State == cluster.TaskSucceeded {
		return decisive
	}
	for _, e := range ends {
		byItself := !e.Told || e.Reason == cluster.ReasonUnhealthy // so is every one that ends after it
		if e.State == cluster.TaskFailed && byItself && e.Reason != cluster.ReasonLaunchRefused || e.State == cluster.TaskLost {
			return e // who was given back since another one has failed may be told of first
		}
	}
	return decisive
}

// status returns the status of a run that ended so.
func (e *ending) status(before hostmgr.Status) hostmgr.Status {
	return hostmgr.Status{
		Run: before.Run, Host: before.Host, State: e.State, ExitCode: e.ExitCode, Signal: e.Signal,
		Reason: e.Reason, Message: e.Message, At: max(before.At, e.At),
	}
}
