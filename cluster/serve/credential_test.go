package serve

import (
	"context"
	"encoding/base64"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/sluice-scheduler/sluice/cluster"
	sluicev1 "github.com/sluice-scheduler/sluice/proto/sluice/v1"
)

// keyOf returns a line of a key file, of a key that consists of one byte.
func keyOf(id string, b byte) string {
	key := make([]byte, keyBytes)
	for i := range key {
		key[i] = b
	}
	return id + ":" + base64.StdEncoding.EncodeToString(key) + "\n"
}

// The credential of a controller is good for its job, by every key that the server has, as long as the run lasts; that of
// another run, of another instance, of a job that asked for none, or by another key is good for nothing.
func TestCredentialsOfControllers(t *testing.T) {
	ring, err := ParseKeyring(keyOf("new", 1) + keyOf("old", 2))
	require.NoError(t, err)
	strange, err := ParseKeyring(keyOf("new", 3))
	require.NoError(t, err)
	a := newAPITestWith(t, func(c *Config) { c.Identity, c.Secrets, c.Reach.Address = &Identity{}, ring, "scheduler:7461" })
	a.grant(t, cluster.Submitter, "ann", "root")
	a.emit(t, &cluster.HostReported{ID: "s/h", Machine: cluster.Machine{
		Capacity: cluster.Resources{Fixed: [cluster.NumDimensions]int64{64_000, 1 << 40}}, Capabilities: cluster.CanSecrets,
	}})
	ann := a.as(t, "ann", "red")
	submit := func(name string, policy *sluicev1.ControllerPolicy) {
		spec := sleepJob(name)
		spec.Instances, spec.Controller = proto.Uint32(2), policy
		_, err := a.jobs.SubmitJob(ann, &sluicev1.SubmitJobRequest{Spec: spec})
		require.NoError(t, err)
	}
	submit("plain", &sluicev1.ControllerPolicy{})
	submit("main", &sluicev1.ControllerPolicy{ApiAccess: true})
	run := func(job string, instance uint32) cluster.RunID {
		k := cluster.MakeTaskKey(a.Snapshot().JobByName(cluster.JobID(job)).UID, instance)
		require.Eventually(t, func() bool { return a.Snapshot().Task(k).State == cluster.TaskPlaced }, time.Minute, time.Millisecond)
		return a.Snapshot().Task(k).RunID()
	}
	mine := run("main", 0)
	here := a.Snapshot().ClusterID()
	show := func(token, job string) error {
		_, err := a.jobs.GetJob(showing(t.Context(), token), &sluicev1.GetJobRequest{Name: job})
		return err
	}
	get := func(by *sealer, r cluster.RunID, job string) error {
		j := a.Snapshot().Job(r.Task.Job())
		if j == nil {
			j = &cluster.Job{}
		}
		return show(tokenText(r.String(), by.credential(here, j, r)), job)
	}
	first := &ring.keys[0]
	for i := range ring.keys {
		require.NoError(t, get(&ring.keys[i], mine, "main"))
	}
	require.Equal(t, codes.NotFound, status.Code(get(first, mine, "plain")))
	next := mine
	next.Run++
	j := *a.Snapshot().Job(mine.Task.Job())
	secret := first.credential(here, &j, mine)
	elsewhere := first.credential("another cluster", &j, mine)
	j.Submitted++
	for what, err := range map[string]error{
		"of a strange key": get(&strange.keys[0], mine, "main"), "of the next run": get(first, next, "main"),
		"of another instance": get(first, run("main", 1), "main"), "of a job without": get(first, run("plain", 0), "plain"),
		"of another cluster":           show(tokenText(mine.String(), elsewhere), "main"),
		"of a job that had the number": show(tokenText(mine.String(), first.credential(here, &j, mine)), "main"),
		"without prefix":               show(mine.String()+"_"+secret, "main"),
		"of no job":                    get(first, cluster.RunID{Task: cluster.MakeTaskKey(99, 0), Run: 1}, "main"),
	} {
		require.Equal(t, codes.Unauthenticated, status.Code(err), "%s: %v", what, err)
	}
	held := showing(t.Context(), tokenText(mine.String(), secret))
	who, err := a.s(held)
	require.NoError(t, err)
	require.Equal(t, "ann", who.User)
	require.Equal(t, "main", who.Job)
	a.emit(t, &cluster.TaskStatus{Task: mine.Task, Run: mine.Run, State: cluster.TaskSucceeded})
	require.Equal(t, codes.Unauthenticated, status.Code(get(first, mine, "main")), "the run has ended")
}

// s asks who calls.
func (a *apiTest) s(ctx context.Context) (*sluicev1.WhoAmIResponse, error) {
	return sluicev1.NewAccessServiceClient(a.conn).WhoAmI(ctx, &sluicev1.WhoAmIRequest{})
}

// What a launch tells a controller is how it calls the API, and nobody else; where nobody is asked who he is there is no token.
func TestWhatControllersAreTold(t *testing.T) {
	ring, err := ParseKeyring(keyOf("k", 1))
	require.NoError(t, err)
	for name, c := range map[string]struct {
		identity  *Identity
		keys      *Keyring
		ca        []byte
		variables map[string]string
		files     []string
	}{
		"nobody is asked":   {nil, ring, nil, map[string]string{"SLUICE_SERVER": "s:1"}, nil},
		"the keys are gone": {&Identity{}, nil, []byte("pem"), map[string]string{"SLUICE_SERVER": "s:1"}, nil},
		"without TLS": {&Identity{}, ring, nil, map[string]string{
			"SLUICE_SERVER": "s:1", "SLUICE_TOKEN_FILE": "${SLUICE_SECRETS_DIR}/sluice-api/token",
		}, []string{"sluice-api/token"}},
		"with TLS": {&Identity{}, ring, []byte("pem"), map[string]string{
			"SLUICE_SERVER": "s:1", "SLUICE_TOKEN_FILE": "${SLUICE_SECRETS_DIR}/sluice-api/token", "SLUICE_TLS_CA": "${SLUICE_SECRETS_DIR}/sluice-api/ca.pem",
		}, []string{"sluice-api/token", "sluice-api/ca.pem"}},
	} {
		t.Run(name, func(t *testing.T) {
			s := &Scheduler{config: Config{Identity: c.identity, Secrets: c.keys, Reach: Reach{"s:1", c.ca}}}
			j := &cluster.Job{UID: 7, Spec: &cluster.JobSpec{Controller: true, APIAccess: true, Instances: 2}}
			tell := func(instance uint32) *sluicev1.TaskPayload {
				p := &sluicev1.TaskPayload{}
				s.tell(p, new(cluster.Snapshot), &cluster.Task{Key: cluster.MakeTaskKey(7, instance), Run: 1}, j, "")
				return p
			}
			p := tell(0)
			require.Equal(t, c.variables, p.Variables)
			var files []string
			for _, f := range p.Secrets {
				files = append(files, f.Path)
			}
			require.Equal(t, c.files, files)
			p = tell(1)
			require.Empty(t, p.Variables)
			require.Empty(t, p.Secrets)
		})
	}
}
