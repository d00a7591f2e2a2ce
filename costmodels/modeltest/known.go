package modeltest

import (
	"slices"
	"time"

	"github.com/sluice-scheduler/sluice/cluster"
	"github.com/sluice-scheduler/sluice/costmodels"
)

// Known is knowledge that a test makes up. The zero value knows nothing.
type Known struct {
	Work   []Learned
	UsedOn map[cluster.HostID]cluster.Resources
	// Paces answers Pace; nil knows none.
	Paces func(work, kind, company string) int64
	// Images are the hosts that have an image, by its name.
	Images map[string][]cluster.HostID
}

// Learned is what is known of one kind of work. A zero value is not known.
type Learned struct {
	Work    string
	RunTime time.Duration
	Usage   cluster.Resources
}

var _ costmodels.Knowledge = (*Known)(nil)

func (k *Known) find(work string) Learned {
	if i := slices.IndexFunc(k.Work, func(l Learned) bool { return l.Work == work }); i >= 0 {
		return k.Work[i]
	}
	return Learned{}
}

// RunTime implements costmodels.Knowledge.
func (k *Known) RunTime(work string) (time.Duration, bool) {
	d := k.find(work).RunTime
	return d, d > 0
}

// Usage implements costmodels.Knowledge.
func (k *Known) Usage(work string) (cluster.Resources, bool) {
	u := k.find(work).Usage
	return u, !u.IsZero()
}

// Used implements costmodels.Knowledge.
func (k *Known) Used(h cluster.HostID) (cluster.Resources, bool) {
	u, ok := k.UsedOn[h]
	return u, ok
}

// Pace implements costmodels.Knowledge.
func (k *Known) Pace(work, kind, company string) (int64, bool) {
	if k.Paces == nil {
		return 0, false
	}
	return k.Paces(work, kind, company), true
}

// Holders implements costmodels.Knowledge.
func (k *Known) Holders(image string) []cluster.HostID { return k.Images[image] }
