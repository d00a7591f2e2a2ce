package serve

import (
	"iter"
	"slices"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/sluice-scheduler/sluice/cluster"
	"github.com/sluice-scheduler/sluice/cluster/access"
	sluicev1 "github.com/sluice-scheduler/sluice/proto/sluice/v1"
)

// reading is what decisions about callers read: a State or a Snapshot.
type reading interface {
	access.View
	poolTable
	jobTable
	Job(cluster.JobUID) *cluster.Job
	Jobs(cluster.JobUID) iter.Seq[*cluster.Job]
	Pools() iter.Seq[*cluster.Pool]
	Token(string) *cluster.Token
	Receipt(cluster.RequestKey, cluster.Time) *cluster.Receipt
	Mode() cluster.Mode
}

// rule refuses a request that the caller may not make. It is asked before the request is checked, so that it tells nobody
// more than he may know; where a request is about nothing that exists, it leaves the answer to the handler.
type rule func(in reading, who *access.Caller, request proto.Message) error

// row says who may make a call, and what the call does.
type row struct {
	rule    rule
	public  bool // everybody, without credentials
	writes  bool // changes something, so that a read-only cluster refuses it
	audited bool // told to the audit whatever comes of it
	stream  bool // more than one request or answer
	foreign bool // its messages are not those of the API for clients, and are not held to its syntax
}

// checked reports whether requests are held to the API's syntax.
func (r row) checked() bool { return !r.public && !r.foreign }

// rows has every call that the server answers. A call without a row is refused.
var rows = map[string]row{
	"sluice.v1.JobService/SubmitJob":       change(maySubmit),
	"sluice.v1.JobService/SubmitJobs":      change(maySubmit),
	"sluice.v1.JobService/GetJob":          read(mayReadJob),
	"sluice.v1.JobService/ListJobs":        read(whoeverIdentified), // only jobs that the caller may see
	"sluice.v1.JobService/StopJob":         change(mayChangeJob),    // and, with cascade, each of the others that the caller may see
	"sluice.v1.JobService/DeleteJob":       change(mayChangeJob),
	"sluice.v1.JobService/UpdateJob":       change(mayUpdateJob),
	"sluice.v1.JobService/WatchJobs":       watch(whoeverIdentified), // only jobs that the caller may see
	"sluice.v1.JobService/RestartJob":      change(mayChangeJob),
	"sluice.v1.JobService/ControlUpdate":   change(mayChangeJob),
	"sluice.v1.JobService/ListJobVersions": read(mayReadJob),
	"sluice.v1.JobService/PlanJobs":        read(maySubmit),

	"sluice.v1.TaskService/GetTask":        read(mayReadJob),
	"sluice.v1.TaskService/ListTasks":      read(mayReadJob), // of one job, or only tasks that the caller may see
	"sluice.v1.TaskService/TaskLogs":       watch(mayReadJob),
	"sluice.v1.TaskService/RestartTask":    change(mayChangeJob),
	"sluice.v1.TaskService/StopTask":       change(mayChangeJob),
	"sluice.v1.TaskService/ExplainTask":    read(mayReadJob),
	"sluice.v1.TaskService/ForgetTaskData": change(mayChangeJob),
	"sluice.v1.TaskService/ListTaskEvents": read(mayReadJob),

	"sluice.v1.PoolService/CreatePool":      change(mayConfigurePool),
	"sluice.v1.PoolService/GetPool":         read(mayKnowPool),
	"sluice.v1.PoolService/ListPools":       read(whoeverIdentified), // only pools that the caller may know
	"sluice.v1.PoolService/UpdatePool":      change(mayConfigurePool),
	"sluice.v1.PoolService/DeletePool":      change(mayConfigurePool),
	"sluice.v1.PoolService/DrainPool":       change(mayAdministerPool),
	"sluice.v1.PoolService/GetQueueMapping": read(whoeverHoldsARole),
	"sluice.v1.PoolService/SetQueueMapping": change(operators),
	"sluice.v1.PoolService/ListUsage":       read(whoeverIdentified), // only what the caller may see

	"sluice.v1.HostService/ListHosts":  read(whoeverHoldsARole),
	"sluice.v1.HostService/GetHost":    read(whoeverHoldsARole),
	"sluice.v1.HostService/DrainHost":  change(operators),
	"sluice.v1.HostService/ResumeHost": change(operators),
	"sluice.v1.HostService/ForgetHost": change(operators),

	"sluice.v1.ClusterService/GetStatus":      read(whoeverHoldsARole),
	"sluice.v1.ClusterService/WatchCycles":    watch(whoeverHoldsARole),
	"sluice.v1.ClusterService/VerifyPlan":     read(operators), // it names jobs and hosts
	"sluice.v1.ClusterService/ExportSnapshot": audited(watch(operators)),
	"sluice.v1.ClusterService/ExportGraph":    audited(watch(operators)),
	"sluice.v1.ClusterService/SetMode":        audited(read(operators)), // also in a read-only cluster
	"sluice.v1.ClusterService/RotateKey":      change(operators),
	"sluice.v1.ClusterService/GetCostModels":  read(whoeverHoldsARole),
	"sluice.v1.ClusterService/ListMembers":    read(whoeverHoldsARole),
	"sluice.v1.ClusterService/SetCostModel":   change(operators),

	"sluice.v1.AccessService/WhoAmI":      read(whoeverIdentified),
	"sluice.v1.AccessService/CreateToken": change(mayCreateToken),
	"sluice.v1.AccessService/ListTokens":  read(mayListTokens),
	"sluice.v1.AccessService/RevokeToken": change(mayRevokeToken),
	"sluice.v1.AccessService/GrantRole":   change(operators),
	"sluice.v1.AccessService/RevokeRole":  change(operators),
	"sluice.v1.AccessService/ListRoles":   read(operators),

	"sluice.v1.VolumeService/CreateVolume":      change(operators),
	"sluice.v1.VolumeService/GetVolume":         read(whoeverHoldsARole),
	"sluice.v1.VolumeService/ListVolumes":       read(whoeverHoldsARole),
	"sluice.v1.VolumeService/DeleteVolume":      change(operators),
	"sluice.v1.DiscoveryService/ListEndpoints":  read(whoeverIdentified), // services find each other across owners
	"sluice.v1.DiscoveryService/WatchEndpoints": watch(whoeverIdentified),

	"sluice.v1.HostManagerService/Control": {rule: hostManagersOnly, audited: true, stream: true, foreign: true},
	"sluice.v1.HostManagerService/Bulk":    {rule: hostManagersOnly, stream: true, foreign: true},

	"grpc.health.v1.Health/Check":                                   {public: true},
	"grpc.health.v1.Health/List":                                    {public: true},
	"grpc.health.v1.Health/Watch":                                   {public: true, stream: true},
	"grpc.reflection.v1.ServerReflection/ServerReflectionInfo":      {rule: whoeverIdentified, stream: true, foreign: true},
	"grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo": {rule: whoeverIdentified, stream: true, foreign: true},
}

func read(r rule) row   { return row{rule: r} }
func watch(r rule) row  { return row{rule: r, stream: true} }
func change(r rule) row { return row{rule: r, writes: true, audited: true} }

func audited(r row) row {
	r.audited = true
	return r
}

// unbound is what a token for one job lacks, whatever roles its user has.
const unbound = "a credential that is good for more than one job"

// denied says what the caller lacks for what a role or an access list allows, neither of which a token for one job has.
func denied(who *access.Caller, what, needs string) error {
	if who.Job != 0 {
		needs += ", with " + unbound
	}
	return lacking(who, what, needs)
}

// lacking is denied where it is all the same what the caller's credential is good for.
func lacking(who *access.Caller, what, needs string) error {
	name := "user " + quote(who.User)
	if who.Job != 0 {
		name = "a token for one job"
	}
	return status.Errorf(codes.PermissionDenied, "%s may not %s: it takes %s", name, what, needs)
}

func whoeverIdentified(reading, *access.Caller, proto.Message) error { return nil }

func whoeverHoldsARole(in reading, who *access.Caller, _ proto.Message) error {
	if who.HoldsAny(in) {
		return nil
	}
	return denied(who, "look at the cluster", "any role in any pool")
}

func operators(in reading, who *access.Caller, _ proto.Message) error {
	if who.IsOperator(in) {
		return nil
	}
	return denied(who, "do that", "the role operator")
}

// jobTasks is a request that names a job in its field job.
type jobTasks interface{ GetJob() string }

// jobOf returns the job that a request is about. One that the caller may not see is to him as if it were not there.
func jobOf(in reading, who *access.Caller, request proto.Message) (*cluster.Job, error) {
	var name string
	switch r := request.(type) {
	case *sluicev1.UpdateJobRequest:
		name = r.GetSpec().GetName()
	case nameRequest:
		name = r.GetName()
	case jobTasks:
		name = r.GetJob()
	}
	j := in.JobByName(cluster.JobID(name))
	if j != nil && !who.MaySee(in, j) {
		return nil, resourceError(codes.NotFound, "job", name, "there is no such job")
	}
	return j, nil
}

func mayReadJob(in reading, who *access.Caller, request proto.Message) error {
	_, err := jobOf(in, who, request)
	return err
}

func mayChangeJob(in reading, who *access.Caller, request proto.Message) error {
	j, err := jobOf(in, who, request)
	if err != nil || j == nil || who.MayChange(in, j) {
		return err
	}
	return lacking(who, "change job "+quote(string(j.Spec.Name)), "its owner, or who administers its pool")
}

// mayUpdateJob does not ask about another pool that the spec names: the handler refuses it whoever asks.
func mayUpdateJob(in reading, who *access.Caller, request proto.Message) error {
	if err := mayChangeJob(in, who, request); err != nil {
		return err
	}
	to := request.(*sluicev1.UpdateJobRequest).GetSpec()
	j := in.JobByName(cluster.JobID(to.GetName()))
	switch {
	case j == nil:
		return nil
	case to.GetOwner() != "" && to.GetOwner() != j.Spec.Owner && !who.May(in, cluster.MayAdminister, j.Spec.Pool):
		return denied(who, "give job "+quote(to.GetName())+" to another owner", "who administers its pool")
	case len(to.GetGroups()) > 0 && !slices.Equal(slices.Sorted(slices.Values(to.GetGroups())), j.Spec.Groups) && !mayClaim(in, who, to.GetGroups(), j.Spec.Pool):
		return denied(who, "put job "+quote(to.GetName())+" into groups that are not the caller's", "who administers its pool")
	}
	return nil
}

// mayClaim reports whether the caller may put a job into groups: his own, or any where he administers.
func mayClaim(in reading, who *access.Caller, groups []string, p cluster.PoolPath) bool {
	foreign := slices.ContainsFunc(groups, func(g string) bool { return !slices.Contains(who.Groups, g) })
	return !foreign || who.May(in, cluster.MayAdminister, p)
}

func maySubmitTo(in reading, who *access.Caller, p cluster.PoolPath) error {
	if who.May(in, cluster.MaySubmit, p) {
		return nil
	}
	return denied(who, "submit jobs to pool "+quote(string(p)), "the role submitter there, or the pool's access list")
}

// maySubmit holds each spec to the pool that it goes to: one that names none to that of the job which has its name already. A spec
// that goes nowhere is refused by the handler.
func maySubmit(in reading, who *access.Caller, request proto.Message) error {
	for i, p := range specsOf(request) {
		if p == nil {
			continue
		}
		path := item("specs", i)
		spec := jobSpecFrom(p, path, new(violations))
		if j := in.JobByName(spec.Name); j != nil && spec.Pool == "" && who.MaySee(in, j) {
			spec.Pool = j.Spec.Pool
		}
		to := resolvePool(in, spec, path, new(violations))
		if to == "" {
			to = cluster.RootPool
		}
		if err := maySubmitTo(in, who, to); err != nil {
			return err
		}
		if p.GetOwner() != who.User && !who.May(in, cluster.MayAdminister, to) {
			return denied(who, "submit jobs of "+quote(p.GetOwner()), "who administers the pool; leave owner out")
		}
		if !mayClaim(in, who, p.GetGroups(), to) {
			return denied(who, "submit jobs for groups that are not the caller's", "who administers the pool; leave groups out")
		}
	}
	return nil
}

func specsOf(request proto.Message) []*sluicev1.JobSpec {
	switch r := request.(type) {
	case *sluicev1.SubmitJobRequest:
		return []*sluicev1.JobSpec{r.Spec}
	case *sluicev1.SubmitJobsRequest:
		return r.Specs
	case *sluicev1.PlanJobsRequest:
		return r.Specs
	}
	return nil
}

// adopt fills in what a new job leaves to its caller: the owner, and with him the groups. It returns the specs that left the owner
// out; true for those that left the groups out too.
func adopt(who *access.Caller, request proto.Message) map[*sluicev1.JobSpec]bool {
	if who.Free {
		return nil
	}
	left := map[*sluicev1.JobSpec]bool{}
	for _, p := range specsOf(request) {
		if p == nil || p.Owner != "" {
			continue
		}
		left[p] = len(p.Groups) == 0
		if p.Owner = who.User; left[p] {
			p.Groups = slices.Clone(who.Groups)
		}
	}
	return left
}

func poolPathOf(request proto.Message) cluster.PoolPath {
	switch r := request.(type) {
	case interface{ GetPath() string }:
		return cluster.PoolPath(r.GetPath())
	case interface{ GetSpec() *sluicev1.PoolSpec }:
		return cluster.PoolPath(r.GetSpec().GetPath())
	}
	return ""
}

// mayKnowPool: of a pool that is there for the caller because of what he may know below it, or sees in it, he learns that it is.
func mayKnowPool(in reading, who *access.Caller, request proto.Message) error {
	p := poolPathOf(request)
	switch {
	case who.MayKnow(in, p):
		return nil
	case knowsPool(in, who, p):
		return denied(who, "look into pool "+quote(string(p)), "the role viewer or submitter there, or the pool's access list")
	}
	return noPool(string(p))
}

// knowsPool reports whether there is such a pool for the caller: one that he may know, or in which, or below which, he may know
// or see something. Complexity: the pools, and the jobs where he knows none of these.
func knowsPool(in reading, who *access.Caller, path cluster.PoolPath) bool {
	if in.Pool(path) == nil {
		return false
	}
	for p := range in.Pools() {
		if path.Covers(p.Path) && who.MayKnow(in, p.Path) {
			return true
		}
	}
	sees := who.Sight(in)
	for j := range in.Jobs(0) {
		if path.Covers(j.Spec.Pool) && sees(j) {
			return true
		}
	}
	return false
}

func mayConfigurePool(in reading, who *access.Caller, request proto.Message) error {
	p := poolPathOf(request)
	if who.MayConfigure(in, p) {
		return nil
	}
	needs := "who administers the pool above it"
	if p == cluster.RootPool {
		needs = "who administers it"
	}
	return denied(who, "create, change or delete pool "+quote(string(p)), needs)
}

func mayAdministerPool(in reading, who *access.Caller, request proto.Message) error {
	p := poolPathOf(request)
	if who.May(in, cluster.MayAdminister, p) {
		return nil
	}
	return denied(who, "drain or resume pool "+quote(string(p)), "who administers it")
}

// hostManagersOnly: a host manager speaks for the shard that has its user's name, and for no other.
func hostManagersOnly(in reading, who *access.Caller, message proto.Message) error {
	if !who.Holds(in, cluster.HostManager, cluster.RootPool) {
		return denied(who, "speak for hosts", "the role host-manager")
	}
	var shard string
	switch m := message.(type) {
	case *sluicev1.ShardUp:
		if m.GetHello() == nil {
			return nil // every other message belongs to the shard of the hello
		}
		shard = m.GetHello().GetShard()
	case *sluicev1.BulkUp:
		if m.GetHello() == nil {
			return nil
		}
		shard = m.GetHello().GetShard()
	default:
		return nil
	}
	if shard != who.User {
		return denied(who, "speak for shard "+quote(shard), "a certificate or token of user "+quote(shard))
	}
	return nil
}
