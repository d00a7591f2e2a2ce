package cluster_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-scheduler/sluice/cluster"
)

// What takes a new run, what a run takes on, and what is nothing to it.
func TestChangesOfASpec(t *testing.T) {
	label := []cluster.KeyValue{{Key: "k", Value: "v"}}
	elsewhere := &cluster.Constraint{Op: cluster.HostLabel, Label: label[0], Comparison: cluster.Greater}
	for name, test := range map[string]struct {
		change func(*cluster.JobSpec)
		want   cluster.Change
	}{
		"nothing":             {func(*cluster.JobSpec) {}, cluster.NoChange},
		"priority":            {func(s *cluster.JobSpec) { s.Priority = 5 }, cluster.NoChange},
		"grace":               {func(s *cluster.JobSpec) { s.Task.KillGrace = time.Minute }, cluster.NoChange},
		"of another instance": {func(s *cluster.JobSpec) { s.Overrides = []cluster.InstanceOverride{{First: 1, Last: 9, Env: label}} }, cluster.NoChange},
		"labels":              {func(s *cluster.JobSpec) { s.Labels = label }, cluster.SmallChange},
		"labels of tasks":     {func(s *cluster.JobSpec) { s.Task.Labels = label }, cluster.SmallChange},
		"resources":           {func(s *cluster.JobSpec) { s.Task.Resources = vector(2, 2) }, cluster.SmallChange},
		"devices":             {func(s *cluster.JobSpec) { s.Task.GPU.Count = 1 }, cluster.NewRun},
		"process":             {func(s *cluster.JobSpec) { s.Task.Processes[0].Command = []string{"b"} }, cluster.NewRun},
		"of this instance":    {func(s *cluster.JobSpec) { s.Overrides = []cluster.InstanceOverride{{First: 0, Last: 0, Env: label}} }, cluster.NewRun},
		"value of a secret":   {func(s *cluster.JobSpec) { s.Secrets[0].Sealed = []byte{2} }, cluster.NoChange},
		"secret that is kept": {func(s *cluster.JobSpec) { s.Secrets = append(s.Secrets, cluster.Secret{Name: "b"}) }, cluster.NoChange},
		"another secret":      {func(s *cluster.JobSpec) { s.Secrets = append(s.Secrets, cluster.Secret{Name: "b", Path: "b"}) }, cluster.NewRun},
		"one secret less":     {func(s *cluster.JobSpec) { s.Secrets[0].Path = "" }, cluster.NewRun},
		"path of a secret":    {func(s *cluster.JobSpec) { s.Secrets[0].Path = "q" }, cluster.NewRun},
		"constraint":          {func(s *cluster.JobSpec) { s.Constraint = elsewhere }, cluster.NewRun},
		"preferences":         {func(s *cluster.JobSpec) { s.Preferences = []cluster.SoftConstraint{{Constraint: *elsewhere}} }, cluster.NewRun},
		"spread":              {func(s *cluster.JobSpec) { s.Spread = []cluster.Spread{{Domain: "rack", Max: 1}} }, cluster.NewRun},
		"labels and spread": {func(s *cluster.JobSpec) {
			s.Labels, s.Spread = label, []cluster.Spread{{Domain: "rack", Max: 1}}
		}, cluster.NewRun},
	} {
		spec := func() *cluster.JobSpec {
			return &cluster.JobSpec{
				Task:    cluster.TaskSpec{Resources: vector(1, 1), Processes: []cluster.Process{{Command: []string{"a"}}}},
				Secrets: []cluster.Secret{{Name: "a", Path: "p", Key: "k", Sealed: []byte{1}}},
			}
		}
		changed := spec()
		test.change(changed)
		require.Equal(t, test.want, spec().ChangeOf(changed, 0), name)
	}
}

// Earlier specs in checkpoints from before the names of their secrets were kept have those that the job has, where they have some: runs
// by them are given these, and a rollback keeps them.
func TestSecretsFromBeforeTheirNamesWereKept(t *testing.T) {
	spec := func(secrets bool) *cluster.JobSpec {
		return &cluster.JobSpec{Name: "job", Pool: cluster.RootPool, Instances: 1, Type: cluster.Stateless, Task: cluster.TaskSpec{Secrets: secrets}}
	}
	now := spec(true)
	now.Secrets = []cluster.Secret{{Name: "s", Path: "p", Key: "k", Sealed: []byte{1}}}
	was := &cluster.Job{UID: 1, Version: 3, Spec: now, Past: []cluster.Version{{Number: 1, Spec: spec(false)}, {Number: 2, Spec: spec(true)}}}
	old := cluster.NewState()
	require.NoError(t, old.Apply(cluster.Record{Event: &cluster.Restored{Header: &cluster.RestoredHeader{Seq: 1, NextJob: 2}, Jobs: []*cluster.Job{was}}}))
	for _, s := range []*cluster.State{old, restored(t, old)} {
		j := s.Job(1)
		require.Empty(t, j.SpecOf(1).Secrets)
		require.Equal(t, []cluster.Secret{{Name: "s", Path: "p"}}, j.SpecOf(2).Secrets)
		require.Equal(t, now, j.Spec)
		require.Equal(t, cluster.NoChange, j.SpecOf(2).ChangeOf(j.Spec, 0))
	}
	require.Empty(t, was.Past[1].Spec.Secrets, "what it was made from is another's")
}

// Of the specs of a job the last ones are kept, and the one that a task runs by, without the values of their secrets.
func TestWhichSpecsAreKept(t *testing.T) {
	for _, newRuns := range []bool{false, true} { // that they take
		h := newHistory(t)
		spec := func(n int32) *cluster.JobSpec {
			s := &cluster.JobSpec{
				Name: "job", Pool: cluster.RootPool, Instances: 1, Type: cluster.Stateless, Priority: n,
				Secrets: []cluster.Secret{{Name: "s", Path: "p", Key: "k", Sealed: []byte{1}}},
			}
			if newRuns {
				s.Task.LogLimitBytes = int64(n)
			}
			return s
		}
		h.emit(&cluster.HostReported{ID: host}, &cluster.JobsSubmitted{Jobs: []cluster.NewJob{{UID: 1, Spec: spec(1)}}})
		h.place(0)
		for n := int32(2); n <= 30; n++ {
			h.emit(&cluster.JobUpdated{Job: 1, Spec: spec(n)})
		}
		var kept []uint64
		for _, v := range h.state.Job(1).Versions() {
			kept = append(kept, v.Number)
			require.EqualValues(t, v.Number, v.Spec.Priority)
			secret := cluster.Secret{Name: "s", Path: "p"}
			if v.Number == 30 {
				secret.Key, secret.Sealed = "k", []byte{1}
			}
			require.Equal(t, []cluster.Secret{secret}, v.Spec.Secrets)
		}
		want := []uint64{21, 22, 23, 24, 25, 26, 27, 28, 29, 30}
		if newRuns {
			want = append([]uint64{1}, want...)
		}
		require.Equal(t, want, kept)
	}
}
