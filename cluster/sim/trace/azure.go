package trace

import (
	"cmp"
	"io"
	"math"
	"slices"
	"time"
	"unique"

	"github.com/sluice-scheduler/sluice/cluster"
)

// Azure's public dataset of virtual machines, V1 of 2017 and V2 of 2019 (Cortez et al., "Resource Central: Understanding and Predicting
// Workloads for Improved Resource Management in Large Cloud Platforms", SOSP 2017). V2 tells cores and GB by bucket: a bucket counts as
// its upper bound, and the last one, which has none, as it does in the authors' own analysis. That takes no lifetime for shorter than
// the time between two readings, either.
const (
	azureMoreCores  = 30 // >24
	azureMoreMemory = 70 // >64
	azureShortest   = 5 * time.Minute
)

// azureFleet has the shape of a server of those years. None is recorded.
var azureFleet = Fleet{CPUMilli: 64_000, MemoryBytes: 512 * gib}

// azurePriorities ranks the categories of VMs. Interactive ones are not preempted.
var azurePriorities = map[string]int32{"Delay-insensitive": 0, "Unknown": 100, "Interactive": 200}

// azureVM is what is kept of a row of vmtable until it is its turn: there are 2 or 2.7 million.
type azureVM struct {
	created, deleted         int32 // in seconds
	number                   int32 // of the row, from 1
	priority                 int32
	cpuMilli, memory         int64
	subscription, deployment unique.Handle[string]
}

// openAzure reads vmtable. Each VM is a stateless job of one instance that runs from its creation to its deletion, for the subscription
// that owns it. One that was deleted before it was created is left out.
func openAzure(name string, r io.Reader, _ jobOptions) (*jobList, error) {
	t, err := openColumns(name, r, ',', []string{
		"vmid", "subscriptionid", "deploymentid", "vmcreated", "vmdeleted", "maxcpu", "avgcpu", "p95maxcpu", "vmcategory",
		"vmcorecountbucket", "vmmemorybucket",
	})
	if err != nil {
		return nil, err
	}
	var vms []*azureVM
	number := int32(0)
	err = each(t, func(r *row) error {
		number++
		r.text(0)
		priority, known := azurePriorities[r.fields[8]]
		if !known {
			r.fail(8, "is %s: want Delay-insensitive, Interactive or Unknown", quote(r.fields[8]))
		}
		for _, i := range []int{5, 6, 7} {
			r.stated(i, 0, 1e6)
		}
		k := &azureVM{
			created: int32(r.integer(3, 0, maxSeconds)), deleted: int32(r.integer(4, 0, maxSeconds)), number: number, priority: priority,
			cpuMilli:     int64(math.Round(r.bucket(9, ">24", azureMoreCores) * 1000)),
			memory:       int64(math.Round(r.bucket(10, ">64", azureMoreMemory) * gib)),
			subscription: unique.Make(r.text(1)), deployment: unique.Make(r.text(2)),
		}
		if k.deleted >= k.created {
			vms = append(vms, k)
		} else {
			r.leftOut++
		}
		return r.err
	})
	if err != nil {
		return nil, err
	}
	slices.SortFunc(vms, func(a, b *azureVM) int {
		return cmp.Or(cmp.Compare(a.created, b.created), cmp.Compare(a.number, b.number))
	})
	source := inTurn(vms, func(k *azureVM) *Job {
		j := newJob(numbered("vm", int64(k.number)), time.Duration(k.created)*time.Second, 1,
			task(k.cpuMilli, k.memory, 0, cluster.GPURequest{}))
		j.Spec.Type, j.Spec.Owner = cluster.Stateless, k.subscription.Value()
		j.Spec.Priority, j.Spec.Preemptible = k.priority, k.priority < azurePriorities["Interactive"]
		j.Spec.Labels = []cluster.KeyValue{{Key: "deployment", Value: k.deployment.Value()}}
		j.Durations = []time.Duration{max(azureShortest, time.Duration(k.deleted-k.created)*time.Second)}
		return j
	})
	return &jobList{Source: source, arrivals: true, departures: true, leftOut: &t.row.leftOut}, nil
}

// bucket returns field i, a number, or what stands for the bucket of all that is more than the others.
func (r *row) bucket(i int, more string, stands float64) float64 {
	if r.fields[i] == more {
		return stands
	}
	return r.number(i, 0, 1<<16)
}
