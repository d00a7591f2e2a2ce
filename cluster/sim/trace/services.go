package trace

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"github.com/sluice-scheduler/sluice/cluster"
)

// The clusters of services of ByteDance's research-cluster-dataset state cores and memory as fractions of the whole
// cluster. It is given this size for each of its machines.
const (
	serviceCPUMilli = 64_000
	serviceMemory   = 256 * gib

	maxServicesBytes = 256 * mib
)

// services is such a file. Of its traffic between services, and of where their containers were, nothing is replayed.
type services struct {
	Services []service
	Machines []serviceMachine
}

type service struct {
	Service                string
	RequestCPU, RequestMem float64
	ContainerList          []string
	CompatibleMachines     machineList
}

type serviceMachine struct {
	MachineIP                  string
	TotalCPU, TotalMem         float64
	InitialDeployingContainers []string
}

type serviceTraffic struct {
	Service1, Service2 string
	Traffic            float64
}

// machineList is "*" or a list of machines; nil stands for all.
type machineList []string

// UnmarshalJSON implements json.Unmarshaler.
func (l *machineList) UnmarshalJSON(text []byte) error {
	var all string
	if json.Unmarshal(text, &all) == nil {
		if all != "*" {
			return fmt.Errorf(`CompatibleMachines is %s: want "*" or a list of machines`, quote(all))
		}
		return nil
	}
	return json.Unmarshal(text, (*[]string)(l))
}

// servicesReader walks through the file.
type servicesReader struct {
	*jsonText

	names, machines map[string]bool
	containers      map[string]string // service, and "" once it was seen on a machine
	out             services
}

func readServices(name string, r io.Reader) (*services, error) {
	in, err := decompress(name, r)
	if err != nil {
		return nil, err
	}
	text, err := io.ReadAll(io.LimitReader(in, maxServicesBytes+1))
	if err != nil {
		return nil, fmt.Errorf("trace: %s: %w", name, err)
	}
	if len(text) > maxServicesBytes {
		return nil, fmt.Errorf("trace: %s: more than %d bytes", name, maxServicesBytes)
	}
	s := &servicesReader{
		jsonText: newJSON(name, bytes.NewReader(text), maxServicesBytes),
		names:    make(map[string]bool), machines: make(map[string]bool), containers: make(map[string]string),
	}
	if err := s.read(); err != nil {
		return nil, err
	}
	return &s.out, nil
}

// read reads the three lists in the order in which they refer to each other.
func (s *servicesReader) read() error {
	if err := s.want(json.Delim('{')); err != nil {
		return err
	}
	if err := list(s, "ServiceList", s.service); err != nil {
		return err
	}
	if err := list(s, "MachineList", s.machine); err != nil {
		return err
	}
	if err := list(s, "TrafficList", s.traffic); err != nil {
		return err
	}
	if err := s.want(json.Delim('}')); err != nil {
		return err
	}
	if err := s.end(); err != nil {
		return err
	}
	for _, v := range s.out.Services {
		for _, m := range v.CompatibleMachines {
			if !s.machines[m] {
				return fmt.Errorf("trace: %s: service %s: compatible machine %s is not in MachineList", s.file, quote(v.Service), quote(m))
			}
		}
	}
	return nil
}

// list reads one of the lists; f judges each element.
func list[T any](s *servicesReader, name string, f func(T) string) error {
	if err := s.want(name); err != nil {
		return err
	}
	if err := s.want(json.Delim('[')); err != nil {
		return err
	}
	for s.d.More() {
		var element T
		if err := s.decode(name, &element); err != nil {
			return err
		}
		if complaint := f(element); complaint != "" {
			return s.errorf("%s: %s", name, complaint)
		}
	}
	return s.want(json.Delim(']'))
}

func (s *servicesReader) service(v service) string {
	switch {
	case !isJobName(strings.ToLower(v.Service)):
		return fmt.Sprintf("Service is %s: want letters and digits", quote(v.Service))
	case s.names[strings.ToLower(v.Service)]:
		return fmt.Sprintf("service %s is there twice", quote(v.Service))
	case !isFraction(v.RequestCPU) || !isFraction(v.RequestMem):
		return "RequestCPU and RequestMem: want parts of the cluster, above 0 and up to 1"
	case len(v.ContainerList) < 1 || len(v.ContainerList) > cluster.MaxInstances:
		return fmt.Sprintf("ContainerList has %d containers: 1 to %d", len(v.ContainerList), cluster.MaxInstances)
	}
	s.names[strings.ToLower(v.Service)] = true
	for _, c := range v.ContainerList {
		if _, taken := s.containers[c]; taken {
			return fmt.Sprintf("container %s is there twice", quote(c))
		}
		s.containers[c] = v.Service
	}
	s.out.Services = append(s.out.Services, v)
	return ""
}

func (s *servicesReader) machine(m serviceMachine) string {
	switch {
	case !isHostName(m.MachineIP):
		return fmt.Sprintf("MachineIP is %s: want letters, digits, '.' and ':'", quote(m.MachineIP))
	case s.machines[m.MachineIP]:
		return fmt.Sprintf("machine %s is there twice", quote(m.MachineIP))
	case !isFraction(m.TotalCPU) || !isFraction(m.TotalMem):
		return "TotalCPU and TotalMem: want parts of the cluster, above 0 and up to 1"
	}
	s.machines[m.MachineIP] = true
	for _, c := range m.InitialDeployingContainers {
		if s.containers[c] == "" {
			return fmt.Sprintf("container %s is of no service, or on a machine already", quote(c))
		}
		s.containers[c] = ""
	}
	s.out.Machines = append(s.out.Machines, m)
	return ""
}

func (s *servicesReader) traffic(t serviceTraffic) string {
	for _, name := range []string{t.Service1, t.Service2} {
		if !s.names[strings.ToLower(name)] {
			return fmt.Sprintf("service %s is not in ServiceList", quote(name))
		}
	}
	if t.Traffic < 0 {
		return fmt.Sprintf("Traffic is %v: want 0 or more", t.Traffic)
	}
	return ""
}

func isFraction(v float64) bool { return v > 0 && v <= 1 }

func readServiceHosts(name string, r io.Reader) ([]Host, error) {
	s, err := readServices(name, r)
	if err != nil {
		return nil, err
	}
	hosts := make([]Host, len(s.Machines))
	for i, m := range s.Machines {
		cpu, memory := s.part(m.TotalCPU, m.TotalMem)
		hosts[i] = Host{Name: m.MachineIP, Machine: machine(cpu, memory, 0, 0, "")}
	}
	return inRacks(hosts), nil
}

// part returns thousandths of a core and bytes.
func (s *services) part(cpu, memory float64) (int64, int64) {
	n := float64(len(s.Machines))
	return int64(math.Round(cpu * n * serviceCPUMilli)), int64(math.Round(memory * n * serviceMemory))
}

// openServices makes each service a stateless job with an instance for each container.
func openServices(name string, r io.Reader, _ jobOptions) (*jobList, error) {
	s, err := readServices(name, r)
	if err != nil {
		return nil, err
	}
	jobs := make([]*kept, len(s.Services))
	k := make(keeper)
	for i, v := range s.Services {
		cpu, memory := s.part(v.RequestCPU, v.RequestMem)
		j := newJob(cluster.JobID(strings.ToLower(v.Service)), 0, uint32(len(v.ContainerList)),
			task(cpu, memory, 0, cluster.GPURequest{}))
		j.Spec.Type, j.Spec.Preemptible = cluster.Stateless, false
		if v.CompatibleMachines != nil {
			j.Spec.Constraint = anyHost(v.CompatibleMachines)
		}
		jobs[i] = k.keep(j)
	}
	return &jobList{Source: fromList(jobs)}, nil
}

// anyHost allows the named hosts.
func anyHost(names []string) *cluster.Constraint {
	c := &cluster.Constraint{Op: cluster.Or}
	for _, n := range slices.Sorted(slices.Values(names)) {
		c.Terms = append(c.Terms, has(cluster.LabelHostname, n))
	}
	return c
}

// has allows hosts with the label.
func has(key, value string) cluster.Constraint {
	return cluster.Constraint{Label: cluster.KeyValue{Key: key, Value: value}, Comparison: cluster.Greater}
}
