package words

import (
	"fmt"
	"strings"

	sluicev1 "github.com/sluice-scheduler/sluice/proto/sluice/v1"
)

// waitsFor is what a task waits for, where that is neither a host nor a pool.
var waitsFor = map[string]string{
	"SCHEDULING_STOPPED":    "scheduling is switched off",
	"RESTORED":              "it is not known yet what runs since the snapshot",
	"NEXT_CYCLE":            "the next cycle looks at it",
	"NO_HOSTS":              "there are no hosts",
	"GANG":                  "the core of its gang goes first",
	"MAX_RUNNING_INSTANCES": "its job runs as many at once as it may",
}

// boundBy is how a pool lets no more in, by the rule that binds.
var boundBy = map[string]string{
	"RESERVATION":            "reservation",
	"LIMIT":                  "limit",
	"STATIC_RESERVATION":     "kept for others",
	"SLACK":                  "slack",
	"HEAD_OF_QUEUE":          "kept for who goes before",
	"CONTROLLER_LIMIT":       "limit of controllers",
	"REVOCABLE_LIMIT":        "limit of revocable tasks",
	"RUNNING_JOBS":           "limit of running jobs",
	"RUNNING_JOBS_PER_USER":  "limit of running jobs of its owner",
	"RUNNING_JOBS_PER_GROUP": "limit of running jobs of its owner's group",
}

// ruledOut is why hosts are none for a task, by the reason; with the detail where it has one.
var ruledOut = map[string]string{
	"NO_ROOM":             "%s",
	"NO_SLACK":            "unused %s",
	"TOO_SMALL":           "%s",
	"CONSTRAINT_MISMATCH": "constraints",
	"INCAPABLE":           "%s",
	"GPU_MISMATCH":        "GPUs",
	"DRAINING":            "draining",
	"UNREACHABLE":         "unreachable",
	"EXCLUSIVE":           "kept for others",
	"OUTSIDE_POOL":        "labels of its pool",
	"TOO_MANY_TASKS":      "too many tasks around: %s",
	"TOO_FEW_TASKS":       "too few tasks around: %s",
	"UNEVEN":              "uneven: %s",
	"NO_DOMAIN":           "no such domain: %s",
}

// Waiting says in a few words why a task waits, "" where it does not or that is not known.
func Waiting(t *sluicev1.Task) string {
	w := t.GetWaiting()
	switch w.GetReason() {
	case "":
		return ""
	case "DEPENDENCIES":
		return strings.TrimSpace("waits for job " + w.GetBlockingJob())
	case "BACK_OFF":
		if t.GetNotBefore() == nil { // in a plan
			return "it is tried again later"
		}
		return "again at " + Time(t.GetNotBefore())
	case "ROOM_HELD":
		held := "room is held for it"
		if w.GetBindingPool() != "" {
			held += "; " + bound("LIMIT", w)
		}
		return held
	case "HOST_AWAY":
		text := "its host " + t.GetHomeHost()
		for _, c := range w.GetTally() { // of one host
			text += ": " + reason(c) + unmet(c)
		}
		return text
	case "NO_ROOM":
		return noRoom(w)
	case "NO_HOST_FITS":
		return "no host fits: " + out(w, w.GetTally())
	}
	if text := waitsFor[w.GetReason()]; text != "" {
		return text
	}
	return bound(w.GetReason(), w)
}

// bound names the pool that lets no more in, the rule and the dimension.
func bound(rule string, w *sluicev1.WaitingExplanation) string {
	text := boundBy[rule]
	if text == "" { // of a newer server
		text = lower(rule)
	}
	if w.GetBindingDimension() != "" {
		text += " (" + w.GetBindingDimension() + ")"
	}
	if w.GetBindingPool() == "" {
		return text
	}
	return fmt.Sprintf("pool %s: %s", w.GetBindingPool(), text)
}

// noRoom says what of hosts that could take the task is full, or how many there is room for of those that start together.
func noRoom(w *sluicev1.WaitingExplanation) string {
	if fit, all := w.GetTogetherFit(), w.GetTogether(); fit < all {
		return fmt.Sprintf("no room for all at once: for %d of %d", fit, all)
	}
	var full []*sluicev1.HostTally
	for _, c := range w.GetTally() {
		switch c.GetReason() {
		case "OPEN":
			return fmt.Sprintf("room by now (%d of %s)", c.GetHosts(), Number(w.GetHosts(), "host"))
		case "NO_ROOM", "NO_SLACK":
			full = append(full, c)
		}
	}
	return "no room: " + out(w, full)
}

// out names the two reasons that rule most hosts out, and how many they do.
func out(w *sluicev1.WaitingExplanation, tally []*sluicev1.HostTally) string {
	if len(tally) == 0 {
		return ""
	}
	text := fmt.Sprintf("%s (%d of %s%s)", reason(tally[0]), tally[0].GetHosts(), Number(w.GetHosts(), "host"), unmet(tally[0]))
	if len(tally) > 1 {
		text += fmt.Sprintf(", %s (%d%s)", reason(tally[1]), tally[1].GetHosts(), unmet(tally[1]))
	}
	return text
}

// unmet names the constraints that hosts do not meet. They have numbers of their own, so they follow that of the hosts.
func unmet(c *sluicev1.HostTally) string {
	if c.GetReason() != "CONSTRAINT_MISMATCH" || c.GetDetail() == "" {
		return ""
	}
	return ": " + Visible(c.GetDetail(), "")
}

// reason names what rules hosts out.
func reason(c *sluicev1.HostTally) string {
	text := ruledOut[c.GetReason()]
	if text == "" { // of a newer server
		text = lower(c.GetReason())
	}
	if strings.Contains(text, "%s") {
		text = fmt.Sprintf(text, Visible(c.GetDetail(), ""))
	}
	return text
}

// lower writes a constant as words.
func lower(constant string) string { return strings.ToLower(strings.ReplaceAll(constant, "_", " ")) }
