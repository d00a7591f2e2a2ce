package cluster

import (
	"fmt"
	"slices"
	"strings"
)

// The variables that every process of a task has in its environment, whatever runs it. Values of the task's own
// environment and arguments may refer to them, as ${SLUICE_JOB}.
const (
	VarJob         = "SLUICE_JOB"      // name
	VarJobUID      = "SLUICE_JOB_UID"  // number that is never used twice
	VarInstance    = "SLUICE_INSTANCE" // from 0
	VarTask        = "SLUICE_TASK_ID"
	VarRun         = "SLUICE_RUN" // from 1
	VarRunID       = "SLUICE_RUN_ID"
	VarHost        = "SLUICE_HOST"         // name
	VarHostAddress = "SLUICE_HOST_ADDRESS" // that other hosts reach the task at
	VarPortPrefix  = "SLUICE_PORT_"        // with the position of a dynamic port, and with its name
)

// VarProgressFile names the file in which a task says how far it is, where its job reports progress and its host manager can
// read files of tasks.
const VarProgressFile = "SLUICE_PROGRESS_FILE"

// The variables of the instances of a gang. See [Job.GangVariables].
const (
	VarGangRank  = "SLUICE_GANG_RANK"  // the instance
	VarGangSize  = "SLUICE_GANG_SIZE"  // of the core, whose ranks are those below it
	VarGangPeers = "SLUICE_GANG_PEERS" // addresses of the core by rank, joined by commas; "" if too long
)

// GangVariables lists their names.
var GangVariables = []string{VarGangRank, VarGangSize, VarGangPeers}

var variables = []string{VarJob, VarJobUID, VarInstance, VarTask, VarRun, VarRunID, VarHost, VarHostAddress}

// PortVariable returns the name of the variable that holds a named port: the name in capitals, with an underscore for
// what no variable may contain.
func PortVariable(name string) string {
	return VarPortPrefix + strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z':
			return r - 'a' + 'A'
		case r >= 'A' && r <= 'Z', r >= '0' && r <= '9':
			return r
		default:
			return '_'
		}
	}, name)
}

// Variables returns the variables that hold the run's ports: each dynamic one by its position and, if it has one, by
// its name. ports are in the order of the request.
func (r *PortRequest) Variables(ports []uint16) []KeyValue {
	var all []KeyValue
	for i := range int(r.Dynamic) {
		number := ""
		if at := len(r.Numbers) + i; at < len(ports) {
			number = fmt.Sprint(ports[at])
		}
		all = append(all, KeyValue{fmt.Sprint(VarPortPrefix, i), number})
		if i < len(r.Names) {
			all = append(all, KeyValue{PortVariable(r.Names[i]), number})
		}
	}
	return all
}

// opening begins a reference to a variable.
const opening = "${SLUICE_"

// Interpolate replaces the ${SLUICE_...} in a text by the values of the variables. What refers to none of them stays.
func Interpolate(text string, values []KeyValue) string {
	var b strings.Builder
	for {
		i := strings.Index(text, opening)
		if i < 0 {
			break
		}
		name, rest, closed := strings.Cut(text[i+2:], "}")
		at := slices.IndexFunc(values, func(v KeyValue) bool { return v.Key == name })
		if !closed || at < 0 {
			b.WriteString(text[:i+len(opening)])
			text = text[i+len(opening):]
			continue
		}
		b.WriteString(text[:i])
		b.WriteString(values[at].Value)
		text = rest
	}
	if b.Len() == 0 {
		return text
	}
	b.WriteString(text)
	return b.String()
}

// Undefined returns a function that finds the first ${SLUICE_...} in a text that no task with the ports, and with more variables,
// has; "" if there is none.
func (r *PortRequest) Undefined(more ...string) func(text string) string {
	var known map[string]bool // made for the first text that refers to something
	return func(text string) string {
		for {
			i := strings.Index(text, opening)
			if i < 0 {
				return ""
			}
			if known == nil {
				known = map[string]bool{}
				for _, v := range r.Variables(nil) {
					known[v.Key] = true
				}
				for _, name := range slices.Concat(variables, more) {
					known[name] = true
				}
			}
			name, rest, closed := strings.Cut(text[i+2:], "}")
			switch {
			case !closed:
				return text[i:]
			case !known[name]:
				return "${" + name + "}"
			}
			text = rest
		}
	}
}
