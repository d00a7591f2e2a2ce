//go:build e2e

package e2e

import (
	"encoding/base64"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// A controller grows and shrinks its job with the credential that it was given, also over a crash of the scheduler, and can do
// nothing else with it: not even to another job of the same owner. Its end is the job's, and that of its credential.
func TestAControllerHasItsOwnJobInHand(t *testing.T) {
	s := newSite(t)
	t.Setenv("E2E_KEYS", "k1:"+base64.StdEncoding.EncodeToString(make([]byte, 32)))
	t.Setenv("SLUICE_SCHEDULER_SECRET_KEY_FILE", "env:E2E_KEYS")
	s.must("tls", "init", s.path("tls"))
	start := func() *process {
		p := s.start("--config", s.path("tls/scheduler.yaml"), "scheduler", "--listen", s.api, "--http-listen", s.web, "--state-dir", s.path("state"))
		p.says("API on")
		return p
	}
	scheduler := start()
	manager := s.start("--config", s.path("tls/local.yaml"), "hostmgr", "local", "--hosts", "2", "--host-cpu", "2", "--host-memory", "1Gi", "--state-dir", s.path("local"))
	admin := func(args ...string) string {
		return s.must(append([]string{"--config", s.path("tls/admin.yaml")}, args...)...)
	}
	instances := func(job string) int { return strings.Count(admin("task", "list", job), job+"/") }

	said := s.path("said")
	script := fmt.Sprintf(`
if [ $SLUICE_INSTANCE != 0 ]; then exec sleep 1000; fi
tell() { name=$1; shift; "$@" >>%[2]s.full 2>&1; echo "$name $?" >>%[2]s; }
step() { until [ -e %[3]s/$1 ]; do sleep 0.05; done; }
stat -c 'mode %%a' "$SLUICE_TOKEN_FILE" >>%[2]s
cp "$SLUICE_TOKEN_FILE" %[3]s/stolen
tell grow %[1]s job scale main 3
step crashed
tell shrink %[1]s job scale main 2
tell other %[1]s job scale other 2
tell see %[1]s job get other
tell submit %[1]s job submit %[3]s/other.yaml
tell token %[1]s token create --out %[3]s/more
tell drain %[1]s host drain local/h0
step end
`, binary, said, s.dir)
	job := func(name, more, script string) string {
		return s.file(name+".yaml", fmt.Sprintf("name: %s\n%stask:\n  processes:\n    - shell: |\n        %s\n  resources: {cpu: 100m, memory: 16Mi}\n",
			name, more, strings.ReplaceAll(strings.TrimSpace(script), "\n", "\n        ")))
	}
	admin("job", "submit", job("other", "", "sleep 1000"))
	admin("job", "submit", job("main", "controller: {api_access: true}\n", script))
	eventually(t, func() bool { return len(lines(t, said)) == 2 }, "the controller grows its job: %v", said)
	require.Equal(t, []string{"mode 400", "grow 0"}, lines(t, said))
	eventually(t, func() bool { return strings.Count(admin("task", "list", "main"), "running") == 3 }, "three instances run")

	scheduler.kill()
	scheduler = start()
	s.file("crashed", "")
	eventually(t, func() bool { return len(lines(t, said)) == 8 }, "the controller shrinks its job, and tries the rest: %v", said)
	full, err := os.ReadFile(said + ".full")
	require.NoError(t, err)
	require.Equal(t, []string{"shrink 0", "other 3", "see 3", "submit 6", "token 6", "drain 6"}, lines(t, said)[2:], string(full))
	require.Equal(t, 1, instances("other"))
	eventually(t, func() bool { return instances("main") == 2 }, "two instances are left")

	stolen := func() answer {
		return s.try("--token-file", s.path("stolen"), "--ca", s.path("tls/ca.pem"), "job", "get", "main")
	}
	require.Zero(t, stolen().code, "it is good for whoever has it while the run lasts")
	s.file("end", "")
	eventually(t, func() bool { return strings.Contains(admin("job", "get", "main"), "succeeded") }, "the job ends as its controller")
	a := stolen()
	require.Equal(t, 6, a.code, a.out)
	require.Contains(t, a.err, "ends with the run")
	admin("job", "stop", "other", "--wait")

	token, err := os.ReadFile(s.path("stolen"))
	require.NoError(t, err)
	files := 0
	for _, dir := range []string{"state", "local"} {
		require.NoError(t, filepath.WalkDir(s.path(dir), func(path string, d fs.DirEntry, err error) error {
			if err != nil || !d.Type().IsRegular() {
				return err
			}
			files++
			data, err := os.ReadFile(path)
			require.NotContains(t, string(data), string(token), path)
			return err
		}))
	}
	require.Greater(t, files, 5)
	for _, p := range []*process{scheduler, manager} {
		require.NotContains(t, p.output(), string(token))
	}
}

// The members of a gang know their ranks and where the others are, from the first run on; a rank stays over restarts.
func TestAGangKnowsItsMembers(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	dev := s.dev("--hosts", "2")
	s.must("job", "submit", s.file("gang.yaml", fmt.Sprintf(`
name: ring
instances: 4
gang: {minimum: 3}
task:
  processes:
    - argv: [sh, -c, 'echo "$0 $1 $SLUICE_GANG_PEERS $SLUICE_HOST_ADDRESS:$SLUICE_PORT_0" >> %s/member-$SLUICE_INSTANCE; exec sleep 1000', "${SLUICE_GANG_RANK}", "${SLUICE_GANG_SIZE}"]
  resources: {cpu: 100m, memory: 16Mi, ports: {dynamic: 1}}
`, s.dir)))
	member := func(i, runs int) []string {
		t.Helper()
		path := s.path(fmt.Sprint("member-", i))
		eventually(t, func() bool { return len(lines(t, path)) == runs }, "instance %d begins its run %d", i, runs)
		said := strings.Fields(lines(t, path)[runs-1])
		require.Len(t, said, 4)
		require.Equal(t, []string{fmt.Sprint(i), "3"}, said[:2])
		return said
	}
	var peers []string
	for i := range 3 {
		said := member(i, 1)
		peers = strings.Split(said[2], ",")
		require.Len(t, peers, 3)
		require.Equal(t, said[3], peers[i], "it is where the others think")
		require.Equal(t, member(0, 1)[2], said[2], "all think the same")
	}
	require.Equal(t, peers, strings.Split(member(3, 1)[2], ",")[:3], "who is not of the core knows the core")
	eventually(t, func() bool { return s.states("ring")["TASK_STATE_RUNNING"] == 4 }, "all run")
	s.must("task", "restart", "ring/1")
	again := member(1, 2)
	now := strings.Split(again[2], ",")
	require.Equal(t, []string{peers[0], again[3], peers[2]}, now)
	s.must("job", "stop", "ring", "--wait")
	dev.finish()
}
