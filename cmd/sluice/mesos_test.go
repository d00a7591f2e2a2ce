//go:build linux

package main

import (
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"time"

	api "github.com/mesos/mesos-go/api/v1/lib"
	"github.com/stretchr/testify/require"

	"github.com/sluice-scheduler/sluice/hostmgr/mesos/mesostest"
)

// TestDevOnMesos runs a job on a stand-in for a Mesos cluster, reached over loopback.
func TestDevOnMesos(t *testing.T) {
	noSettings(t)
	world := mesostest.New(mesostest.Config{
		AllocationInterval: 20 * time.Millisecond,
		Behave:             func(api.TaskInfo) mesostest.Behaviour { return mesostest.Behaviour{Startup: time.Millisecond} },
	})
	defer world.Close()
	world.AddAgent(mesostest.AgentSpec{
		Hostname: "h1", Attributes: map[string]string{"rack": "r7"},
		Resources: []api.Resource{mesostest.Scalar("cpus", 4), mesostest.Scalar("mem", 4096), mesostest.Scalar("disk", 10000)},
	})
	master := httptest.NewServer(world.Handler("master:5050"))
	defer master.Close()
	dir := t.TempDir()
	finish := startDev(t, dir, "--driver", "mesos", "--master", master.Listener.Addr().String(), "--framework-user", "nobody")
	a := try(t, "", "job", "submit", "../../examples/hello.yaml", "--wait")
	require.Zero(t, a.code, a.err)
	require.Regexp(t, `(?m)^mesos/h1 +up +r7 `, try(t, "", "host", "list").out)
	require.NotEmpty(t, world.Runs())
	require.Equal(t, 0, finish())
	_, err := os.Stat(filepath.Join(dir, "mesos", "cluster"))
	require.NoError(t, err, "the cluster that the framework belongs to is remembered")
}
