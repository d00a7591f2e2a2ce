package mesos

import (
	"regexp"
	"strconv"

	"github.com/sluice-scheduler/sluice/cluster"
	"github.com/sluice-scheduler/sluice/hostmgr"
)

// identity returns the variables that tell a run who and where it is.
func identity(l *hostmgr.Launch, address string) []cluster.KeyValue {
	number := func(n uint32) string { return strconv.FormatUint(uint64(n), 10) }
	env := []cluster.KeyValue{
		{Key: "SLUICE_HOST", Value: l.Host},
		{Key: "SLUICE_HOST_ADDRESS", Value: address},
		{Key: "SLUICE_INSTANCE", Value: number(l.Run.Task.Instance())},
		{Key: "SLUICE_JOB", Value: string(l.Job)},
		{Key: "SLUICE_JOB_UID", Value: number(uint32(l.Run.Task.Job()))},
		{Key: "SLUICE_RUN", Value: number(l.Run.Run)},
		{Key: "SLUICE_RUN_ID", Value: l.Run.String()},
		{Key: "SLUICE_TASK_ID", Value: l.Run.Task.String()},
	}
	for i, port := range l.Ports {
		dynamic := i - len(l.Task.Ports.Numbers)
		if dynamic < 0 {
			continue // the task knows the numbers that it named
		}
		name := strconv.Itoa(dynamic)
		if dynamic < len(l.Task.Ports.Names) {
			name = l.Task.Ports.Names[dynamic]
		}
		env = append(env, cluster.KeyValue{Key: "SLUICE_PORT_" + name, Value: number(uint32(port))})
	}
	return env
}

// environment returns all variables of a process, sorted. Later layers win: who it is, the task's, its own, in which
// ${SLUICE_...} is replaced.
func environment(variables []cluster.KeyValue, l *hostmgr.Launch, p *cluster.Process) []cluster.KeyValue {
	replace := replacer(variables)
	all := variables
	for _, layer := range [][]cluster.KeyValue{l.Env, p.Env} {
		replaced := make([]cluster.KeyValue, len(layer))
		for i, kv := range layer {
			replaced[i] = cluster.KeyValue{Key: kv.Key, Value: replace(kv.Value)}
		}
		all = cluster.MergePairs(all, replaced)
	}
	return all
}

var reference = regexp.MustCompile(`\$\{SLUICE_[A-Za-z0-9_]+\}`)

// replacer replaces ${SLUICE_...} in a text. What is not known stays as it is.
func replacer(variables []cluster.KeyValue) func(string) string {
	values := map[string]string{}
	for _, kv := range variables {
		values["${"+kv.Key+"}"] = kv.Value
	}
	return func(s string) string {
		return reference.ReplaceAllStringFunc(s, func(name string) string {
			if value, ok := values[name]; ok {
				return value
			}
			return name
		})
	}
}
