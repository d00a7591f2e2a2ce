package serve

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	sluicev1 "github.com/sluice-scheduler/sluice/proto/sluice/v1"
)

// probe sets one field of a spec and reads it back.
type probe struct {
	path string
	set  func(protoreflect.Message)
	get  func(protoreflect.Message) string
}

// probes returns one probe for every field of the message and of the messages in it. Lists are probed in their first
// element.
func probes(d protoreflect.MessageDescriptor, depth int) []probe {
	if depth == 0 {
		return nil
	}
	var all []probe
	for i := range d.Fields().Len() {
		f := d.Fields().Get(i)
		name := string(f.Name())
		show := func(m protoreflect.Message) string {
			if !m.Has(f) {
				return ""
			}
			return fmt.Sprint(m.Get(f).Interface())
		}
		switch {
		case f.IsMap():
			all = append(all, probe{name, func(m protoreflect.Message) {
				value := sample(f.MapValue())
				m.Mutable(f).Map().Set(protoreflect.ValueOfString("key7").MapKey(), value)
			}, func(m protoreflect.Message) string {
				v := m.Get(f).Map().Get(protoreflect.ValueOfString("key7").MapKey())
				if !v.IsValid() {
					return ""
				}
				return fmt.Sprint(v.Interface())
			}})
		case f.Message() != nil && f.IsList():
			for _, p := range probes(f.Message(), depth-1) {
				all = append(all, probe{name + "[0]." + p.path, func(m protoreflect.Message) {
					list := m.Mutable(f).List()
					if list.Len() == 0 {
						list.AppendMutable()
					}
					p.set(list.Get(0).Message())
				}, func(m protoreflect.Message) string {
					if m.Get(f).List().Len() == 0 {
						return ""
					}
					return p.get(m.Get(f).List().Get(0).Message())
				}})
			}
		case f.Message() != nil:
			for _, p := range probes(f.Message(), depth-1) {
				all = append(all, probe{name + "." + p.path, func(m protoreflect.Message) {
					p.set(m.Mutable(f).Message())
				}, func(m protoreflect.Message) string { return p.get(m.Get(f).Message()) }})
			}
		case f.IsList():
			all = append(all, probe{
				name, func(m protoreflect.Message) { m.Mutable(f).List().Append(sample(f)) },
				func(m protoreflect.Message) string {
					list := m.Get(f).List()
					if list.Len() == 0 {
						return ""
					}
					return fmt.Sprint(list.Get(list.Len() - 1).Interface())
				},
			})
		default:
			all = append(all, probe{name, func(m protoreflect.Message) { m.Set(f, sample(f)) }, show})
		}
	}
	return all
}

// sample is a value that differs from the field's default, and from what unset means.
func sample(f protoreflect.FieldDescriptor) protoreflect.Value {
	switch f.Kind() {
	case protoreflect.BoolKind:
		return protoreflect.ValueOfBool(true)
	case protoreflect.StringKind:
		return protoreflect.ValueOfString("x7")
	case protoreflect.BytesKind:
		return protoreflect.ValueOfBytes([]byte("x7"))
	case protoreflect.EnumKind:
		return protoreflect.ValueOfEnum(2)
	case protoreflect.Uint32Kind:
		return protoreflect.ValueOfUint32(7)
	case protoreflect.Int32Kind:
		return protoreflect.ValueOfInt32(7)
	case protoreflect.Int64Kind:
		return protoreflect.ValueOfInt64(7)
	default:
		panic("no sample for a field of kind " + f.Kind().String())
	}
}

// complete adds to what a probe has made what it cannot be without.
func complete(spec *sluicev1.JobSpec) {
	task := func(s *sluicev1.TaskSpec) {
		for i, list := range [][]*sluicev1.ProcessSpec{s.GetInit(), s.GetProcesses()} {
			for _, p := range list {
				if p.Name == "" && len(spec.Task.Init) > 0 {
					p.Name = fmt.Sprint("n", i)
				}
				if p.Command == nil {
					p.Command = &sluicev1.ProcessSpec_Shell{Shell: "true"}
				}
				for _, f := range p.Fetch {
					if f.Uri == "" {
						f.Uri = "file:///a/b"
					}
				}
				for _, c := range p.HealthChecks {
					if c.Check == nil {
						c.Check = &sluicev1.HealthCheck_Command{Command: &sluicev1.Argv{Args: []string{"true"}}}
					}
				}
			}
		}
		for _, m := range s.GetVolumes() {
			if m.Source == nil {
				m.Source = &sluicev1.VolumeMount_Volume{Volume: "v"}
			}
			if m.MountPath == "" {
				m.MountPath = "m"
			}
		}
	}
	task(spec.Task)
	if d := spec.Discovery; d != nil {
		if len(d.Endpoints) == 0 {
			d.Endpoints = []*sluicev1.DiscoveryEndpoint{{}}
		}
		if d.Endpoints[0].Name == "" {
			d.Endpoints[0].Name = "e"
		}
		if d.Endpoints[0].Port.GetKind() == nil {
			d.Endpoints[0].Port = &sluicev1.PortRef{Kind: &sluicev1.PortRef_Number{Number: 80}}
		}
	}
	for _, in := range spec.GetLocality().GetInputs() {
		in.Bytes = max(1, in.Bytes)
	}
	for _, o := range spec.Overrides {
		if o.Instances == nil {
			o.Instances = &sluicev1.InstanceRange{}
		}
		task(o.Task)
	}
}

// Whatever field of a spec is set: the server either keeps it, so that it comes back, or refuses it by name.
func TestNothingIsAcceptedAndIgnored(t *testing.T) {
	a := newAPITest(t)
	all := probes((&sluicev1.JobSpec{}).ProtoReflect().Descriptor(), 8)
	require.Greater(t, len(all), 200)
	kept := 0
	for i, p := range all {
		spec := sleepJob(fmt.Sprintf("job-%d", i))
		p.set(spec.ProtoReflect())
		complete(spec)
		want := p.get(spec.ProtoReflect())
		require.NotEmpty(t, want, p.path)
		answer, err := a.jobs.SubmitJob(t.Context(), &sluicev1.SubmitJobRequest{Spec: spec})
		if err == nil {
			require.Equal(t, want, p.get(a.job(t, answer.Name).Spec.ProtoReflect()), p.path)
			kept++
			continue
		}
		code := status.Code(err)
		require.Contains(t, []codes.Code{codes.Unimplemented, codes.InvalidArgument}, code, "%s: %v", p.path, err)
		// The field, what it is in, or, where a message with just this field is not enough, its neighbour is named.
		within := p.path[:strings.LastIndexByte(p.path, '.')+1]
		element := p.path[:strings.LastIndexByte(p.path, ']')+1]
		named := false
		for field := range violated(err) {
			field = strings.TrimPrefix(field, "spec.")
			named = named || strings.HasPrefix(p.path, field) || strings.HasPrefix(field, p.path) ||
				within != "" && strings.HasPrefix(field, within) || element != "" && strings.HasPrefix(field, element)
		}
		require.True(t, named, "%s is not named by %v", p.path, err)
	}
	require.Greater(t, kept, 60)
}

// The table of supported fields has no misspelt entry: each is a field of the API.
func TestSupportedFieldsExist(t *testing.T) {
	known := map[protoreflect.FullName]bool{}
	for _, file := range []protoreflect.FileDescriptor{
		sluicev1.File_sluice_v1_job_proto, sluicev1.File_sluice_v1_jobspec_proto, sluicev1.File_sluice_v1_taskspec_proto,
		sluicev1.File_sluice_v1_task_proto, sluicev1.File_sluice_v1_pool_proto, sluicev1.File_sluice_v1_host_proto,
		sluicev1.File_sluice_v1_resources_proto, sluicev1.File_sluice_v1_constraint_proto, sluicev1.File_sluice_v1_cluster_proto,
		sluicev1.File_sluice_v1_access_proto, sluicev1.File_sluice_v1_discovery_proto,
		sluicev1.File_sluice_v1_volume_proto,
	} {
		for i := range file.Messages().Len() {
			m := file.Messages().Get(i)
			for k := range m.Fields().Len() {
				known[m.Fields().Get(k).FullName()] = true
			}
		}
	}
	for name := range supported {
		require.Contains(t, known, name)
	}
}

// What comes out of a spec goes in again as the same spec.
func TestSpecsRoundTrip(t *testing.T) {
	a := newAPITest(t)
	rich := sleepJob("rich")
	rich.Type = sluicev1.JobType_JOB_TYPE_BATCH
	rich.Owner, rich.Priority = "somebody", 12
	rich.Instances, rich.Preemptible = proto.Uint32(3), proto.Bool(false)
	rich.Labels = map[string]string{"b": "2", "a": "1"}
	rich.Restart = &sluicev1.RestartPolicy{MaxFailures: proto.Uint32(2), BackoffInitial: durationpb.New(2), BackoffMax: durationpb.New(9)}
	a.submit(t, sleepJob("first"))
	rich.DependsOn = []*sluicev1.Dependency{{Job: "first", Condition: sluicev1.Dependency_ENDED}, {Job: "first", Condition: sluicev1.Dependency_FAILED}}
	rich.Progress = &sluicev1.ProgressPolicy{Interval: durationpb.New(3 * time.Second)}
	rich.TtlAfterFinish, rich.Controller = durationpb.New(time.Minute), &sluicev1.ControllerPolicy{ApiAccess: true}
	rich.Constraints = []*sluicev1.ConstraintRule{
		{Expression: nested(3)},
		{Expression: hostLabel("zone", "a", sluicev1.LabelConstraint_LESS, 1)},
		{Expression: &sluicev1.Constraint{Kind: &sluicev1.Constraint_AnyOf{AnyOf: &sluicev1.ConstraintList{
			Operands: []*sluicev1.Constraint{hostLabel("rack", "r", sluicev1.LabelConstraint_EQUAL, 1)},
		}}}},
	}
	ruled := sleepJob("ruled")
	ruled.Constraints = []*sluicev1.ConstraintRule{
		{Expression: taskLabel("app", "rack", 3), Soft: &sluicev1.SoftRule{Timeout: durationpb.New(time.Minute), Penalty: durationpb.New(time.Second)}},
		{Expression: taskLabel("app", "host", 1)},
	}
	ruled.Spread = []*sluicev1.SpreadRule{
		{Domain: "rack", MaxPerDomain: 2},
		{Domain: "host", MaxPerDomain: 1, Selector: map[string]string{"a": "1"}, Soft: &sluicev1.SoftRule{Penalty: durationpb.New(time.Second)}},
		{Domain: "zone", MaxSkew: 1},
	}
	rich.Task.LogLimitBytes = proto.Int64(1 << 20)
	rich.Task.Resources.DiskBytes = 5
	rich.Task.Resources.Gpu = &sluicev1.GpuRequest{Milli: 250, Models: []string{"A", "B"}}
	rich.Task.Resources.Named = map[string]int64{"tape": 3, "lens": 1}
	rich.Task.Processes[0].Command = &sluicev1.ProcessSpec_Shell{Shell: "echo $A"}
	rich.Task.Processes[0].Environment = map[string]string{"A": "1"}
	rich.Task.Processes[0].WorkingDirectory = "/tmp"
	rich.Locality = &sluicev1.Locality{Inputs: []*sluicev1.DataInput{{Name: "part", Bytes: 5, Replicas: []*sluicev1.Place{
		{Kind: &sluicev1.Place_Host{Host: "s/h"}},
		{Kind: &sluicev1.Place_Rack{Rack: "r"}},
		{Kind: &sluicev1.Place_Zone{Zone: "z"}},
	}}}, HostWait: durationpb.New(0), RackWait: durationpb.New(time.Minute)}
	ruled.Locality = &sluicev1.Locality{Inputs: []*sluicev1.DataInput{{Bytes: 1, Instances: &sluicev1.InstanceRange{}}}}
	rich.Groups, rich.EstimatedRunTime = []string{"g1", "g2"}, durationpb.New(time.Hour)
	rich.Gang = &sluicev1.GangPolicy{Minimum: 2, LaunchTimeout: durationpb.New(time.Minute)}
	rich.Limits = &sluicev1.JobLimits{
		MaxRunningInstances: proto.Uint32(2), MaxRunTime: durationpb.New(time.Hour), Deadline: timestamppb.New(time.Unix(4e9, 5)),
	}
	rich.Preemption = &sluicev1.PreemptionPolicy{Action: sluicev1.PreemptionPolicy_KILL, Grace: durationpb.New(time.Second), OnPreempt: &sluicev1.Argv{Args: []string{"sh", "-c", "save"}}}
	enrich(rich)
	rich.Update = &sluicev1.UpdatePolicy{
		Batch: &sluicev1.UpdatePolicy_BatchPercent{BatchPercent: 10}, Order: sluicev1.UpdatePolicy_STOP_FIRST, InPlace: true, Canaries: 1,
		MaxFailedInstances: 2, MaxAttempts: proto.Uint32(4), RollbackOnFailure: true, StartPaused: true,
		MinHealthyTime: durationpb.New(time.Second), HealthyDeadline: durationpb.New(time.Minute), PlacementDeadline: durationpb.New(time.Hour),
	}
	rich.Discovery = &sluicev1.DiscoveryPolicy{DrainDelay: durationpb.New(time.Second), Endpoints: []*sluicev1.DiscoveryEndpoint{
		{Name: "web", Port: &sluicev1.PortRef{Kind: &sluicev1.PortRef_Number{Number: 80}}, Protocol: "http"},
	}}
	daemon, stateful := sleepJob("daemon"), sleepJob("stateful")
	daemon.Type, stateful.Type = sluicev1.JobType_JOB_TYPE_DAEMON, sluicev1.JobType_JOB_TYPE_STATEFUL
	all := []*sluicev1.JobSpec{sleepJob("plain"), ruled, rich, daemon, stateful}
	for i, set := range []func(*sluicev1.JobSpec){ // nothing besides
		func(s *sluicev1.JobSpec) {
			s.Preemption = &sluicev1.PreemptionPolicy{Action: sluicev1.PreemptionPolicy_KILL}
		},
		func(s *sluicev1.JobSpec) {
			s.Preemption = &sluicev1.PreemptionPolicy{Grace: durationpb.New(time.Second)}
		},
		func(s *sluicev1.JobSpec) { s.Limits = &sluicev1.JobLimits{MaxRunningInstances: proto.Uint32(1)} },
		func(s *sluicev1.JobSpec) { s.Limits = &sluicev1.JobLimits{MaxPreemptedPerCycle: proto.Uint32(1)} },
		func(s *sluicev1.JobSpec) { s.Limits = &sluicev1.JobLimits{MaxRunTime: durationpb.New(time.Hour)} },
		func(s *sluicev1.JobSpec) {
			s.Limits = &sluicev1.JobLimits{Deadline: timestamppb.New(time.Unix(4e9, 0))}
		},
	} {
		all = append(all, sleepJob(fmt.Sprint("only-", i)))
		set(all[len(all)-1])
	}
	for _, spec := range all {
		a.submit(t, spec)
		out := a.job(t, spec.Name).Spec
		again := a.submit(t, out)
		require.False(t, again.Created)
		require.True(t, proto.Equal(out, a.job(t, spec.Name).Spec))
	}
	require.Nil(t, a.job(t, "daemon").Spec.Instances)
	require.False(t, a.job(t, "stateful").Spec.GetPreemptible())
	out := a.job(t, "rich").Spec
	require.NotNil(t, out.Controller)
	require.Equal(t, "echo $A", out.Task.Processes[0].GetShell())
	require.True(t, proto.Equal(rich.Task, out.Task), "%v\n%v", rich.Task, out.Task)
	require.True(t, proto.Equal(rich.Gang, out.Gang) && proto.Equal(rich.Limits, out.Limits) && proto.Equal(rich.Preemption, out.Preemption), out)
	require.Equal(t, rich.Groups, out.Groups)
	require.True(t, proto.Equal(rich.Locality, out.Locality) && proto.Equal(rich.Progress, out.Progress), out)
	require.True(t, proto.Equal(ruled.Locality, a.job(t, "ruled").Spec.Locality))
	require.True(t, proto.Equal(rich.Restart, out.Restart) && proto.Equal(rich.DependsOn[0], out.DependsOn[0]), out)
	require.True(t, len(out.DependsOn) == 2 && proto.Equal(rich.DependsOn[1], out.DependsOn[1]) && proto.Equal(rich.TtlAfterFinish, out.TtlAfterFinish), out)
	require.True(t, proto.Equal(rich.Update, out.Update) && proto.Equal(rich.Discovery, out.Discovery), out)
	require.Len(t, out.Overrides, 2)
	for i := range rich.Overrides {
		require.True(t, proto.Equal(rich.Overrides[i], out.Overrides[i]), "%v\n%v", rich.Overrides[i], out.Overrides[i])
	}
	require.Len(t, out.Constraints, 1)
	require.Len(t, out.Constraints[0].Expression.GetAllOf().Operands, 3)
	out = a.job(t, "ruled").Spec
	require.Len(t, out.Constraints, 2) // the hard ones first
	require.True(t, proto.Equal(ruled.Constraints[1], out.Constraints[0]) && proto.Equal(ruled.Constraints[0], out.Constraints[1]), out)
	require.Len(t, out.Spread, 3)
	for i := range ruled.Spread {
		require.True(t, proto.Equal(ruled.Spread[i], out.Spread[i]), out)
	}
}

// Whoever reads the API learns which fields of a request are refused.
func TestFieldsForLaterAreSaidToBe(t *testing.T) {
	seen := map[protoreflect.FullName]bool{}
	var walk func(d protoreflect.MessageDescriptor)
	walk = func(d protoreflect.MessageDescriptor) {
		if seen[d.FullName()] || d.ParentFile().Package() != apiPackage {
			return
		}
		seen[d.FullName()] = true
		source, err := os.ReadFile("../../proto/" + d.ParentFile().Path())
		require.NoError(t, err)
		_, body, found := strings.Cut(string(source), "message "+string(d.Name())+" {")
		require.True(t, found, d.FullName())
		later := "" // the field before, if it says that this one is for later, too
		for i := range d.Fields().Len() {
			f := d.Fields().Get(i)
			before, _, _ := strings.Cut(body, fmt.Sprintf(" %s = %d;", f.Name(), f.Number()))
			lines := strings.Split(before, "\n")
			comment := ""
			for n := len(lines) - 2; n >= 0 && strings.HasPrefix(strings.TrimSpace(lines[n]), "//"); n-- {
				comment = lines[n] + comment
			}
			said := strings.Contains(strings.ToLower(comment), "for later") || strings.Contains(later, "as is "+string(f.Name()))
			require.Equal(t, !supported[f.FullName()], said, f.FullName())
			if later = ""; said {
				later = comment
			}
			if f.Message() != nil && !f.IsMap() && supported[f.FullName()] {
				walk(f.Message())
			}
		}
	}
	for _, file := range []protoreflect.FileDescriptor{
		sluicev1.File_sluice_v1_access_proto, sluicev1.File_sluice_v1_cluster_proto, sluicev1.File_sluice_v1_discovery_proto,
		sluicev1.File_sluice_v1_host_proto, sluicev1.File_sluice_v1_job_proto, sluicev1.File_sluice_v1_pool_proto,
		sluicev1.File_sluice_v1_task_proto, sluicev1.File_sluice_v1_volume_proto,
	} {
		for i := range file.Services().Len() {
			for methods, n := file.Services().Get(i).Methods(), 0; n < methods.Len(); n++ {
				walk(methods.Get(n).Input())
			}
		}
	}
}
