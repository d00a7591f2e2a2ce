package serve

import (
	"math"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/sluice-scheduler/sluice/cluster"
	sluicev1 "github.com/sluice-scheduler/sluice/proto/sluice/v1"
)

// Bounds of what a job says of its data.
const (
	maxInputs   = cluster.MaxInstances // one for each instance
	maxReplicas = 100
)

// allInstances is the last instance of an input that all read, however many there will be.
const allInstances = math.MaxUint32

// inputsFrom adds what data the tasks read and where it is. The job's instances and its gang are known.
func inputsFrom(p *sluicev1.Locality, job *cluster.JobSpec, path string, v *violations) {
	job.HostWait = waitFrom(p.GetHostWait(), child(path, "host_wait"), v)
	job.RackWait = waitFrom(p.GetRackWait(), child(path, "rack_wait"), v)
	inputs := p.GetInputs()
	if path = child(path, "inputs"); len(inputs) > maxInputs {
		v.Invalid(path, "has %d entries: at most %d", len(inputs), maxInputs)
		return
	}
	for i, in := range inputs {
		at := item(path, i)
		out := cluster.Input{Name: in.GetName(), Bytes: in.GetBytes(), Last: allInstances}
		checkText(out.Name, child(at, "name"), maxKeyLength, v)
		checkRange(out.Bytes, 1, cluster.MaxAmount, "", child(at, "bytes"), v)
		if r := in.GetInstances(); r != nil {
			if out.First, out.Last = instancesFrom(r, child(at, "instances"), v); job.Gang != nil {
				v.Invalid(child(at, "instances"), "are some: the tasks of a gang start together and count as one; leave it out")
			}
		}
		if len(in.GetReplicas()) > maxReplicas {
			v.Invalid(child(at, "replicas"), "has %d entries: at most %d", len(in.Replicas), maxReplicas)
			continue
		}
		for k, place := range in.GetReplicas() {
			replicaFrom(place, &out, item(child(at, "replicas"), k), v)
		}
		job.Inputs = append(job.Inputs, out)
	}
}

// instancesFrom reads the first and the last of some instances, of which a job need not have all yet.
func instancesFrom(r *sluicev1.InstanceRange, path string, v *violations) (first, last uint32) {
	first, last = r.GetFirst(), r.GetLast()
	switch {
	case first > last:
		v.Invalid(path, "are %d to %d: the first comes before the last", first, last)
	case last >= cluster.MaxInstances:
		v.Invalid(child(path, "last"), "is %d: instances are 0 to %d", last, cluster.MaxInstances-1)
	}
	return first, last
}

// waitFrom reads how long to wait for a place, nil where nothing is said.
func waitFrom(p *durationpb.Duration, path string, v *violations) *time.Duration {
	if p == nil {
		return nil
	}
	d := durationFrom(p, 0, maxSoftTimeout, path, v)
	return &d
}

// waitTo is the reverse of waitFrom.
func waitTo(d *time.Duration) *durationpb.Duration {
	if d == nil {
		return nil
	}
	return durationpb.New(*d)
}

func replicaFrom(p *sluicev1.Place, in *cluster.Input, path string, v *violations) {
	switch {
	case p.GetHost() != "":
		checkText(p.GetHost(), child(path, "host"), maxHostLength, v)
		checkHost(p.GetHost(), child(path, "host"), v)
		in.Hosts = append(in.Hosts, cluster.HostID(p.GetHost()))
	case p.GetRack() != "":
		checkText(p.GetRack(), child(path, "rack"), maxNameLength, v)
		in.Racks = append(in.Racks, p.GetRack())
	case p.GetZone() != "":
		checkText(p.GetZone(), child(path, "zone"), maxNameLength, v)
		in.Zones = append(in.Zones, p.GetZone())
	default:
		v.Invalid(path, "names no place: give host, rack or zone")
	}
}

// inputsTo is the reverse of inputsFrom.
func inputsTo(s *cluster.JobSpec, p *sluicev1.JobSpec) {
	if len(s.Inputs) > 0 || s.HostWait != nil || s.RackWait != nil {
		p.Locality = &sluicev1.Locality{HostWait: waitTo(s.HostWait), RackWait: waitTo(s.RackWait)}
	}
	for _, in := range s.Inputs {
		out := &sluicev1.DataInput{Name: in.Name, Bytes: in.Bytes}
		for _, h := range in.Hosts {
			out.Replicas = append(out.Replicas, &sluicev1.Place{Kind: &sluicev1.Place_Host{Host: string(h)}})
		}
		for _, rack := range in.Racks {
			out.Replicas = append(out.Replicas, &sluicev1.Place{Kind: &sluicev1.Place_Rack{Rack: rack}})
		}
		for _, zone := range in.Zones {
			out.Replicas = append(out.Replicas, &sluicev1.Place{Kind: &sluicev1.Place_Zone{Zone: zone}})
		}
		if in.Last != allInstances {
			out.Instances = &sluicev1.InstanceRange{First: in.First, Last: in.Last}
		}
		p.Locality.Inputs = append(p.Locality.Inputs, out)
	}
}
