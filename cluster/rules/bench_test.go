package rules_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-scheduler/sluice/cluster"
	"github.com/sluice-scheduler/sluice/cluster/rules"
)

// BenchmarkHostsOfADaemon measures what follows when half of the hosts of a daemon change together: while nothing else is to be done, while
// it is being updated, and while the instances there are to catch up with an update that was aborted.
func BenchmarkHostsOfADaemon(b *testing.B) {
	const hosts = 6000
	for _, c := range []struct {
		name string
		now  func(w *serving)
	}{
		{"alone", func(*serving) {}},
		{"updated", func(w *serving) { w.update(daemonSpec(serves, 1, nil)) }},
		{"behind", func(w *serving) {
			w.update(daemonSpec(serves, 1, nil))
			w.steer(abort)
			require.Greater(b, len(w.state.Later(servingJob)), hosts/3)
		}},
	} {
		b.Run(c.name, func(b *testing.B) {
			for b.Loop() {
				b.StopTimer()
				w := drainedDaemon(b, hosts)
				c.now(w)
				tx := rules.Begin(w.state, w.now)
				for i := range hosts / 2 {
					require.NoError(b, tx.Emit(&cluster.HostDrain{ID: hostID(i)}))
				}
				b.StartTimer()
				require.NoError(b, rules.Settle(tx))
			}
		})
	}
}

// drainedDaemon is a daemon that runs on all hosts, of which half are drained, and the daemon there is the last off.
func drainedDaemon(b *testing.B, hosts int) *serving {
	w := newServing(b, daemonSpec(serves, 0, nil), hosts)
	work := serviceSpec(uint32(hosts/2), serves, 0, nil)
	work.Name = "work"
	w.do(func(tx *rules.Tx) error {
		require.NoError(b, tx.Emit(&cluster.JobsSubmitted{Jobs: []cluster.NewJob{{UID: 2, Spec: work}}}))
		for i, task := range w.tasks() {
			require.NoError(b, tx.Emit(&cluster.Placed{Task: task.Key, Run: 1, Host: task.Home}))
			require.NoError(b, tx.Emit(&cluster.TaskStatus{Task: task.Key, Run: 1, State: cluster.TaskRunning}))
			require.NoError(b, rules.Health(tx, shard, &cluster.TaskHealth{Task: task.Key, Run: 1, Health: cluster.HealthReady}))
			if i < hosts/2 {
				require.NoError(b, tx.Emit(&cluster.Placed{Task: cluster.MakeTaskKey(2, uint32(i)), Run: 1, Host: task.Home}))
			}
		}
		return nil
	})
	w.do(func(tx *rules.Tx) error {
		for i := range hosts / 2 {
			require.NoError(b, tx.Emit(&cluster.HostDrain{ID: hostID(i), Drain: true}))
		}
		return nil
	})
	return w
}
