package serve

import (
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/sluice-scheduler/sluice/cluster"
	"github.com/sluice-scheduler/sluice/cluster/pool"
	sluicev1 "github.com/sluice-scheduler/sluice/proto/sluice/v1"
)

const (
	maxDescription   = 1000
	maxPoolResources = 64
	maxPoolAmount    = 1 << 60 // of a reservation or a limit; sums saturate
	maxShare         = 1_000_000
	maxAccessRules   = 256
	maxPrincipals    = 1000 // users or groups of one rule
	maxAgeing        = 365 * 24 * time.Hour
)

// poolFrom converts a spec. What the parents and children of the pool say is checked where the state is at hand; see
// checkTree.
func poolFrom(p *sluicev1.PoolSpec, path string, v *violations) *cluster.Pool {
	if p == nil {
		v.Invalid(path, "is required")
		return &cluster.Pool{}
	}
	checkSize(p, path, v)
	checkPoolPath(p.Path, child(path, "path"), v)
	checkText(p.Description, child(path, "description"), maxDescription, v)
	if name := p.PreemptionPolicy; name != "" && !slices.Contains(pool.PolicyNames(), name) {
		v.Invalid(child(path, "preemption_policy"), "is %s: one of %s", quote(name), strings.Join(pool.PolicyNames(), ", "))
	}
	return &cluster.Pool{
		Path:        cluster.PoolPath(p.Path),
		Description: p.Description,
		Labels:      labelsFrom(p.Labels, child(path, "labels"), v),
		Resources:   poolResourcesFrom(p.Resources, child(path, "resources"), v),
		Order:       poolOrders.from(p.Order),
		Division:    divisions.from(p.Division),
		Preemption:  p.PreemptionPolicy,
		Access:      accessFrom(p.Access, child(path, "access"), v),
		Limits:      poolLimitsFrom(p.Limits, child(path, "limits"), v),
		Hosts:       hostSelectorFrom(p.HostSelector, child(path, "host_selector"), v),
		Ageing:      durationFrom(p.AgeingInterval, 0, maxAgeing, child(path, "ageing_interval"), v),
	}
}

// hostSelectorFrom returns labels of hosts. No host has one without a value.
func hostSelectorFrom(m map[string]string, path string, v *violations) []cluster.KeyValue {
	labels := labelsFrom(m, path, v)
	for _, l := range labels {
		if l.Value == "" {
			v.Invalid(entry(path, l.Key), "is empty: give the value that hosts have to have")
		}
	}
	return labels
}

// poolSpecTo is the reverse of poolFrom.
func poolSpecTo(p *cluster.Pool) *sluicev1.PoolSpec {
	spec := &sluicev1.PoolSpec{
		Path:             string(p.Path),
		Description:      p.Description,
		Labels:           pairsTo(p.Labels),
		Order:            poolOrders.to(p.Order),
		Division:         divisions.to(p.Division),
		PreemptionPolicy: p.Preemption,
		Limits:           poolLimitsTo(p.Limits),
		HostSelector:     pairsTo(p.Hosts),
	}
	if p.Ageing > 0 {
		spec.AgeingInterval = durationpb.New(p.Ageing)
	}
	for _, r := range p.Resources {
		out := &sluicev1.PoolResource{Dimension: r.Dimension, Reservation: r.Reservation, Share: &r.Share}
		if r.Limit != cluster.NoLimit {
			out.Limit = &r.Limit
		}
		if r.Static {
			out.Mode = sluicev1.PoolResource_STATIC
		}
		spec.Resources = append(spec.Resources, out)
	}
	for _, r := range p.Access {
		spec.Access = append(spec.Access, &sluicev1.AccessRule{Permission: permissions.to(r.Permission), Users: r.Users, Groups: r.Groups})
	}
	return spec
}

var (
	poolOrders = choice[cluster.PoolOrder, sluicev1.PoolSpec_Order]{
		{cluster.PriorityFIFO, sluicev1.PoolSpec_PRIORITY_FIFO},
		{cluster.FairJobs, sluicev1.PoolSpec_FAIR_JOBS},
		{cluster.FairUsers, sluicev1.PoolSpec_FAIR_USERS},
	}
	divisions = choice[cluster.Division, sluicev1.PoolSpec_Division]{
		{cluster.MaxMin, sluicev1.PoolSpec_MAX_MIN},
		{cluster.DominantResource, sluicev1.PoolSpec_DOMINANT_RESOURCE},
	}
	permissions = choice[cluster.Permission, sluicev1.AccessRule_Permission]{
		{cluster.MayView, sluicev1.AccessRule_VIEW},
		{cluster.MaySubmit, sluicev1.AccessRule_SUBMIT},
		{cluster.MayAdminister, sluicev1.AccessRule_ADMINISTER},
	}
)

func poolResourcesFrom(list []*sluicev1.PoolResource, path string, v *violations) []cluster.PoolResource {
	if len(list) > maxPoolResources {
		v.Invalid(path, "has %d entries: at most %d", len(list), maxPoolResources)
		return nil
	}
	var out []cluster.PoolResource
	seen := map[string]bool{}
	for i, p := range list {
		at := item(path, i)
		switch name := p.GetDimension(); {
		case name == "":
			v.Invalid(child(at, "dimension"), `is required: such as "cpu_milli", or the name of a named resource`)
		case !cluster.IsKey(name):
			v.Invalid(child(at, "dimension"), "is %s: %s", quote(name), keyRule)
		case cluster.DimensionMeant(name) != "":
			v.Invalid(child(at, "dimension"), "is %s: the dimension is called %s", quote(name), quote(cluster.DimensionMeant(name)))
		case seen[name]:
			v.Invalid(child(at, "dimension"), "is %s again: one entry for a dimension", quote(name))
		}
		seen[p.GetDimension()] = true
		checkRange(p.GetReservation(), 0, maxPoolAmount, "in the unit of the dimension", child(at, "reservation"), v)
		r := cluster.PoolResource{
			Dimension: p.GetDimension(), Reservation: p.GetReservation(), Limit: cluster.NoLimit, Share: 1,
			Static: p.GetMode() == sluicev1.PoolResource_STATIC,
		}
		if p.Limit != nil {
			checkRange(*p.Limit, 0, maxPoolAmount, "in the unit of the dimension", child(at, "limit"), v)
			r.Limit = max(0, *p.Limit)
			if r.Reservation > *p.Limit {
				v.Invalid(child(at, "reservation"), "is %d: the limit is %d", r.Reservation, *p.Limit)
			}
		}
		if p.Share != nil {
			checkRange(int64(*p.Share), 0, maxShare, "", child(at, "share"), v)
			r.Share = *p.Share
		}
		out = append(out, r)
	}
	slices.SortFunc(out, func(a, b cluster.PoolResource) int { return strings.Compare(a.Dimension, b.Dimension) })
	return out
}

func accessFrom(list []*sluicev1.AccessRule, path string, v *violations) []cluster.AccessRule {
	if len(list) > maxAccessRules {
		v.Invalid(path, "has %d rules: at most %d", len(list), maxAccessRules)
		return nil
	}
	var out []cluster.AccessRule
	for i, p := range list {
		at := item(path, i)
		if p.GetPermission() == sluicev1.AccessRule_PERMISSION_UNSPECIFIED {
			v.Invalid(child(at, "permission"), "is required: VIEW, SUBMIT or ADMINISTER")
		}
		if len(p.GetUsers())+len(p.GetGroups()) == 0 {
			v.Invalid(at, "lets nobody do anything: name users or groups")
		}
		out = append(out, cluster.AccessRule{
			Permission: permissions.from(p.GetPermission()),
			Users:      principalsFrom(p.GetUsers(), child(at, "users"), v),
			Groups:     principalsFrom(p.GetGroups(), child(at, "groups"), v),
		})
	}
	return out
}

// principalsFrom returns names of users or groups, sorted and without duplicates.
func principalsFrom(list []string, path string, v *violations) []string {
	if len(list) > maxPrincipals {
		v.Invalid(path, "has %d entries: at most %d", len(list), maxPrincipals)
		return nil
	}
	for i, name := range list {
		checkRequired(name, item(path, i), v)
		checkText(name, item(path, i), maxOwner, v)
	}
	return slices.Compact(slices.Sorted(slices.Values(list)))
}

func poolLimitsFrom(p *sluicev1.PoolLimits, path string, v *violations) cluster.PoolLimits {
	if p == nil {
		return cluster.PoolLimits{}
	}
	checkRange(int64(p.GetControllerPercent()), 0, 100, "percent of the reservation", child(path, "controller_percent"), v)
	checkRange(int64(p.GetRevocablePercent()), 0, 100, "percent of the capacity", child(path, "revocable_percent"), v)
	return cluster.PoolLimits{
		ControllerPercent: p.ControllerPercent, RevocablePercent: p.RevocablePercent, PreemptedPerCycle: p.MaxPreemptedPerCycle,
		RunningJobs: p.MaxRunningJobs, PendingJobs: p.MaxPendingJobs,
		RunningJobsPerUser: p.MaxRunningJobsPerUser, PendingJobsPerUser: p.MaxPendingJobsPerUser,
		RunningJobsPerGroup: p.MaxRunningJobsPerGroup, PendingJobsPerGroup: p.MaxPendingJobsPerGroup,
	}
}

func poolLimitsTo(l cluster.PoolLimits) *sluicev1.PoolLimits {
	if l == (cluster.PoolLimits{}) {
		return nil
	}
	return &sluicev1.PoolLimits{
		ControllerPercent: l.ControllerPercent, RevocablePercent: l.RevocablePercent, MaxPreemptedPerCycle: l.PreemptedPerCycle,
		MaxRunningJobs: l.RunningJobs, MaxPendingJobs: l.PendingJobs,
		MaxRunningJobsPerUser: l.RunningJobsPerUser, MaxPendingJobsPerUser: l.PendingJobsPerUser,
		MaxRunningJobsPerGroup: l.RunningJobsPerGroup, MaxPendingJobsPerGroup: l.PendingJobsPerGroup,
	}
}
