package serve

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"

	"github.com/sluice-scheduler/sluice/cluster"
	"github.com/sluice-scheduler/sluice/cluster/access"
	sluicev1 "github.com/sluice-scheduler/sluice/proto/sluice/v1"
)

// A controller that has asked for it may call the API for its own job. Its credential is a token that is kept nowhere: the id
// is that of the run, and the secret a keyed hash of it, so that it survives restarts of the scheduler, is made again when a
// launch is repeated, and is over when the run is. The numbers of jobs begin anew in another cluster, and go back with a journal
// that is put back: so the hash is also of the cluster and of when the job came.

// Reach is how tasks reach the API.
type Reach struct {
	Address string // HOST:PORT
	CA      []byte // authorities of the server's certificate, as PEM; nil where there is no TLS
}

// apiFolder holds what a controller calls the API with, below the folder of its secrets; the files are named so.
const (
	apiFolder = "sluice-api"
	tokenFile = apiFolder + "/token"
	caFile    = apiFolder + "/ca.pem"
)

// credential returns the secret part of the token of a run of a job, made with the key.
func (k *sealer) credential(clusterID string, j *cluster.Job, run cluster.RunID) string {
	mac := hmac.New(sha256.New, k.credentials)
	_, _ = fmt.Fprintf(mac, "sluice/%s/%d/%s", clusterID, j.Submitted, run) // never fails
	return hex.EncodeToString(mac.Sum(nil))
}

// tell adds to a launch what only the scheduler knows: where the other members of a gang are, and for a controller how it
// calls the API. The names of the variables are those of the command line's settings.
func (s *Scheduler) tell(p *sluicev1.TaskPayload, in *cluster.Snapshot, t *cluster.Task, j *cluster.Job, peers string) {
	p.Variables = map[string]string{}
	for _, kv := range j.GangVariables(t, peers) {
		p.Variables[kv.Key] = kv.Value
	}
	if !controls(t, j) {
		return
	}
	reach := s.config.Reach
	p.Variables["SLUICE_SERVER"] = reach.Address
	if !s.identified() || s.config.Secrets == nil { // a server that had a key may have let the job in
		return
	}
	add := func(variable, path string, value []byte) {
		p.Variables[variable] = "${" + cluster.VarSecretsDir + "}/" + path
		p.Secrets = append(p.Secrets, &sluicev1.SecretFile{Path: path, Value: value})
	}
	run := t.RunID()
	secret := s.config.Secrets.keys[0].credential(in.ClusterID(), j, run)
	add("SLUICE_TOKEN_FILE", tokenFile, []byte(tokenText(run.String(), secret)))
	if reach.CA != nil {
		add("SLUICE_TLS_CA", caFile, reach.CA)
	}
}

// controls reports whether the task may call the API for its job.
func controls(t *cluster.Task, j *cluster.Job) bool {
	return j.Spec.Controller && j.Spec.APIAccess && t.Key.Instance() == 0
}

// controllerToken reads a token as that of a run.
func controllerToken(text string) (run cluster.RunID, secret string, ok bool) {
	rest, ours := strings.CutPrefix(text, tokenPrefix)
	id, secret, ok := strings.Cut(rest, "_")
	run, err := cluster.ParseRunID(id)
	return run, secret, ours && ok && err == nil
}

// errNoController is the error for a credential of a run that has ended, or that never had one.
var errNoController = errors.New("the credential is not valid: it ends with the run that it was given to")

// controllerOf returns who shows the credential of a run.
func (s *Scheduler) controllerOf(run cluster.RunID, secret string) (*access.Caller, error) {
	in := s.Snapshot()
	t, j := in.Task(run.Task), in.Job(run.Task.Job())
	if t == nil || j == nil || s.config.Secrets == nil || t.Run != run.Run || !t.State.Bound() || !controls(t, j) {
		return nil, errNoController
	}
	for i := range s.config.Secrets.keys {
		if hmac.Equal([]byte(s.config.Secrets.keys[i].credential(in.ClusterID(), j, run)), []byte(secret)) {
			return &access.Caller{User: j.Spec.Owner, Groups: j.Spec.Groups, Job: j.UID, Token: run.String()}, nil
		}
	}
	return nil, errNoController
}
