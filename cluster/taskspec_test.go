package cluster_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-scheduler/sluice/cluster"
)

func ExampleInterpolate() {
	request := cluster.PortRequest{Dynamic: 1, Names: []string{"http"}}
	variables := append(request.Variables([]uint16{20001}), cluster.KeyValue{Key: cluster.VarHostAddress, Value: "10.0.0.7"})
	fmt.Println(cluster.Interpolate("http://${SLUICE_HOST_ADDRESS}:${SLUICE_PORT_HTTP}/ ${HOME} ${SLUICE_OTHER}", variables))
	fmt.Println(request.Undefined()("${SLUICE_PORT_0} ${SLUICE_PORT_1}"))
	// Output:
	// http://10.0.0.7:20001/ ${HOME} ${SLUICE_OTHER}
	// ${SLUICE_PORT_1}
}

func TestInterpolate(t *testing.T) {
	values := []cluster.KeyValue{{Key: "SLUICE_A", Value: "${SLUICE_A}"}, {Key: "SLUICE_B", Value: "b"}}
	for text, want := range map[string]string{
		"":                       "",
		"plain":                  "plain",
		"${SLUICE_B}${SLUICE_B}": "bb",
		"x${SLUICE_A}y":          "x${SLUICE_A}y", // what a value holds is not looked at again
		"${SLUICE_C}${SLUICE_B}": "${SLUICE_C}b",
		"${SLUICE_B":             "${SLUICE_B",
		"${SLUICE_${SLUICE_B}":   "${SLUICE_b",
		"$SLUICE_B ${B}":         "$SLUICE_B ${B}",
	} {
		require.Equal(t, want, cluster.Interpolate(text, values), "%q", text)
	}
}

func TestTaskOf(t *testing.T) {
	kv := func(k, v string) cluster.KeyValue { return cluster.KeyValue{Key: k, Value: v} }
	spec := cluster.JobSpec{
		Instances: 10, Labels: []cluster.KeyValue{kv("app", "web"), kv("tier", "job")},
		Task: cluster.TaskSpec{
			Resources: vector(1, 1), LogLimitBytes: 1, KillGrace: 5, Labels: []cluster.KeyValue{kv("tier", "task")},
			Processes: []cluster.Process{{Name: "p", Env: []cluster.KeyValue{kv("A", "1"), kv("C", "3")}}},
		},
		Overrides: []cluster.InstanceOverride{
			{First: 2, Last: 5, Env: []cluster.KeyValue{kv("A", "over"), kv("B", "2")}},
			{First: 4, Last: 6, Task: &cluster.TaskSpec{Resources: vector(7, 7), Labels: []cluster.KeyValue{kv("z", "z")}}},
		},
	}
	require.Same(t, &spec.Task, spec.TaskOf(0))
	require.Equal(t, []cluster.KeyValue{kv("A", "over"), kv("B", "2"), kv("C", "3")}, spec.TaskOf(4).Processes[0].Env)
	require.Equal(t, vector(7, 7), spec.TaskOf(4).Resources)
	require.EqualValues(t, 5, spec.TaskOf(4).KillGrace)
	require.Equal(t, vector(1, 1), spec.TaskOf(3).Resources)
	require.Equal(t, []cluster.KeyValue{kv("A", "1"), kv("C", "3")}, spec.Task.Processes[0].Env, "the default is as it was")
	require.Equal(t, []cluster.KeyValue{kv("app", "web"), kv("tier", "task")}, spec.LabelsOf(0))
	require.Equal(t, []cluster.KeyValue{kv("app", "web"), kv("tier", "job"), kv("z", "z")}, spec.LabelsOf(6))

	all := cluster.TaskSpec{
		Resources: vector(3, 3), Init: []cluster.Process{{Name: "i"}}, Processes: []cluster.Process{{Name: "q"}},
		Labels: []cluster.KeyValue{kv("y", "y")}, Volumes: []cluster.Volume{{Name: "v"}}, LogLimitBytes: 9, KillGrace: 5,
	}
	replaced := spec
	replaced.Overrides = []cluster.InstanceOverride{{Task: &all}, {Task: &cluster.TaskSpec{}}}
	require.Equal(t, &all, replaced.TaskOf(0), "as a whole, where something is set")

	h := newHistory(t)
	spec.Name, spec.Pool = "job", cluster.RootPool
	h.emit(&cluster.HostReported{ID: host, Machine: cluster.Machine{Capacity: vector(10, 10)}},
		&cluster.JobsSubmitted{Jobs: []cluster.NewJob{{UID: 1, Spec: &spec}}})
	h.place(0)
	h.place(4)
	require.Equal(t, vector(8, 8), h.state.Host(host).Allocated, "each instance takes what it asks for")
	require.ErrorIs(t, h.try(&cluster.Placed{Task: cluster.MakeTaskKey(1, 6), Run: 1, Host: host}), cluster.ErrIllegal)
	changed := spec
	changed.Overrides = nil
	h.emit(&cluster.JobUpdated{Job: 1, Spec: &changed})
	require.Equal(t, vector(8, 8), h.state.Host(host).Allocated, "runs go on as they were begun")
	require.Equal(t, uint64(1), h.task(4).Version)
	require.Equal(t, uint64(2), h.task(0).Version, "nothing changes for it")
}

func TestHealthOfARun(t *testing.T) {
	h := oneJob(t, 1)
	health := func(run uint32, health cluster.Health) error {
		return h.try(&cluster.TaskHealth{Task: h.task(0).Key, Run: run, Health: health, Message: "m"})
	}
	require.ErrorIs(t, health(0, cluster.HealthReady), cluster.ErrIllegal, "it does not run")
	h.place(0)
	require.NoError(t, h.report(0, cluster.TaskRunning))
	require.ErrorIs(t, health(2, cluster.HealthReady), cluster.ErrIllegal)
	require.ErrorIs(t, health(1, cluster.HealthUnknown), cluster.ErrIllegal)
	require.ErrorIs(t, health(1, 99), cluster.ErrIllegal)
	require.NoError(t, health(1, cluster.Unhealthy))
	require.Equal(t, cluster.Unhealthy, h.task(0).Health)
	require.NoError(t, h.report(0, cluster.TaskFailed))
	require.ErrorIs(t, health(1, cluster.HealthReady), cluster.ErrIllegal)
	h.emit(&cluster.TaskRequeued{Task: h.task(0).Key})
	h.place(0)
	require.Equal(t, cluster.HealthUnknown, h.task(0).Health, "a new run has no health yet")
}

// Looking for what a text refers to costs what the text has, however many ports there are.
func TestReferencesAreLookedUp(t *testing.T) {
	request := cluster.PortRequest{Dynamic: 1000}
	undefined := request.Undefined("SLUICE_MORE")
	require.Zero(t, testing.AllocsPerRun(10, func() {
		require.Empty(t, undefined("${SLUICE_PORT_999} ${SLUICE_JOB} ${SLUICE_MORE} $SLUICE_X ${X}"))
	}))
	for text, first := range map[string]string{
		"${SLUICE_JOB} ${SLUICE_PORT_1000} ${SLUICE_X}": "${SLUICE_PORT_1000}", "${SLUICE_JOB}${SLUICE_JO": "${SLUICE_JO",
	} {
		require.Equal(t, first, undefined(text))
	}
}
