package trace

import (
	"io"
)

// alibaba2018Memory is the size given to machines of Alibaba's cluster-trace-v2018, whose memory is normalised to 100.
const alibaba2018Memory = 512 * gib

// readAlibaba2018 reads machine_meta: one row for each status report, of which the latest one of a machine counts. The
// first failure domain is its rack, the second its zone.
func readAlibaba2018(name string, r io.Reader) ([]Host, error) {
	t, err := openColumns(name, r, ',',
		[]string{"machine_id", "time_stamp", "failure_domain_1", "failure_domain_2", "cpu_num", "mem_size", "status"})
	if err != nil {
		return nil, err
	}
	var hosts []Host
	var reported []int64 // by host: when
	index := make(map[string]int)
	err = each(t, func(r *row) error {
		at := r.integer(1, 0, maxSeconds)
		h := Host{
			Name:    r.hostName(0),
			Machine: machine(r.integer(4, 0, 1<<20)*1000, int64(r.number(5, 0, 100)/100*alibaba2018Memory), 0, 0, ""),
		}
		h.Rack = "rack-" + r.text(2)
		if r.fields[3] != "" {
			h.Zone = "zone-" + r.text(3)
		}
		r.text(6)
		i, known := index[h.Name]
		switch {
		case r.err != nil:
		case known && at >= reported[i]:
			hosts[i], reported[i] = h, at
		case known:
		case len(hosts) == maxHosts:
			return r.errorf("more than %d hosts", maxHosts)
		default:
			index[h.Name], hosts, reported = len(hosts), append(hosts, h), append(reported, at)
		}
		return r.err
	})
	return hosts, err
}
