package hostmgr

import (
	"strconv"

	"github.com/sluice-scheduler/sluice/cluster"
)

// Variables returns the SLUICE_* variables that every process of the run has, in a fixed order. address is where other
// hosts reach the run; "" stands for the host's name.
func (l *Launch) Variables(address string) []cluster.KeyValue {
	if address == "" {
		address = l.Host
	}
	number := func(n uint32) string { return strconv.FormatUint(uint64(n), 10) }
	all := append([]cluster.KeyValue{
		{Key: cluster.VarJob, Value: string(l.Job)},
		{Key: cluster.VarJobUID, Value: number(uint32(l.Run.Task.Job()))},
		{Key: cluster.VarInstance, Value: number(l.Run.Task.Instance())},
		{Key: cluster.VarTask, Value: l.Run.Task.String()},
		{Key: cluster.VarRun, Value: number(l.Run.Run)},
		{Key: cluster.VarRunID, Value: l.Run.String()},
		{Key: cluster.VarHost, Value: l.Host},
		{Key: cluster.VarHostAddress, Value: address},
	}, l.Task.Ports.Variables(l.Ports)...)
	for _, e := range l.Told {
		all = append(all, cluster.KeyValue{Key: e.Key, Value: cluster.Interpolate(e.Value, all)})
	}
	return all
}

// SecretsIn tells the run in which folder it finds its secrets, if it has any. A driver calls it before it uses anything else
// that makes use of the variables.
func (l *Launch) SecretsIn(folder string) {
	if len(l.Secrets) > 0 {
		l.Told = append([]cluster.KeyValue{{Key: cluster.VarSecretsDir, Value: folder}}, l.Told...)
	}
}

// Environment returns what a process finds in its environment beside the driver's own base: the variables of the run,
// what the launch adds for every process, and the process's own, in which references to variables are replaced. Later
// entries win.
func (l *Launch) Environment(p *cluster.Process, address string) []cluster.KeyValue {
	variables := l.Variables(address)
	env := append([]cluster.KeyValue(nil), variables...)
	for _, layer := range [][]cluster.KeyValue{l.Env, p.Env} {
		for _, e := range layer {
			env = append(env, cluster.KeyValue{Key: e.Key, Value: cluster.Interpolate(e.Value, variables)})
		}
	}
	return env
}

// Expand returns argv with references to the run's variables replaced. A shell line stays as it is: the shell replaces
// them.
func (l *Launch) Expand(argv []string, address string) []string {
	variables := l.Variables(address)
	out := make([]string, len(argv))
	for i, a := range argv {
		out[i] = cluster.Interpolate(a, variables)
	}
	return out
}
