package cycle

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// A storm leaves room for as many as wait: their displacements are joined in one pass.
func TestManyDisplacementsShareSteps(t *testing.T) {
	const hosts, each = 20_000, 20
	d := displacer{}
	hold := func(h *host) {
		d.step++
		d.done = append(d.done, &displacement{host: h, step: d.step})
	}
	var all []*host
	for range hosts {
		all = append(all, &host{})
	}
	for range each {
		for _, h := range all {
			hold(h)
		}
	}
	d.step++
	d.done = append(d.done, &displacement{host: all[7], step: d.step}, &displacement{host: all[3], step: d.step}) // a gang
	d.join()
	for i, n := range d.done[:hosts*each] {
		want := i%hosts + 1
		if want == 8 {
			want = 4
		}
		require.Equal(t, want, n.step)
	}
	for _, n := range d.done[hosts*each:] {
		require.Equal(t, 4, n.step)
	}
}
