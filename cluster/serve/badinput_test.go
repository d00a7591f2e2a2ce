package serve

import (
	"bytes"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/sluice-scheduler/sluice/cluster"
	sluicev1 "github.com/sluice-scheduler/sluice/proto/sluice/v1"
)

func hostLabel(key, value string, c sluicev1.LabelConstraint_Comparison, n uint32) *sluicev1.Constraint {
	return &sluicev1.Constraint{Kind: &sluicev1.Constraint_Label{Label: &sluicev1.LabelConstraint{
		Kind: sluicev1.LabelConstraint_HOST, Key: key, Value: &value, Comparison: c, Requirement: n,
	}}}
}

func taskLabel(key, domain string, n uint32) *sluicev1.Constraint {
	return &sluicev1.Constraint{Kind: &sluicev1.Constraint_Label{Label: &sluicev1.LabelConstraint{
		Kind: sluicev1.LabelConstraint_TASK, Key: key, Comparison: sluicev1.LabelConstraint_LESS, Requirement: n, Domain: domain,
	}}}
}

func allOf(operands ...*sluicev1.Constraint) *sluicev1.Constraint {
	return &sluicev1.Constraint{Kind: &sluicev1.Constraint_AllOf{AllOf: &sluicev1.ConstraintList{Operands: operands}}}
}

func nested(depth int) *sluicev1.Constraint {
	c := hostLabel("a", "b", sluicev1.LabelConstraint_GREATER, 0)
	for range depth {
		c = allOf(c)
	}
	return c
}

func manyLabels(n int) map[string]string {
	m := map[string]string{}
	for i := range n {
		m[fmt.Sprintf("k%d", i)] = "v"
	}
	return m
}

// badSpecs change a valid spec into one that is refused.
var badSpecs = []struct {
	name   string
	change func(*sluicev1.JobSpec)
	code   codes.Code
	field  string
	text   string
}{
	{"no name", func(s *sluicev1.JobSpec) { s.Name = "" }, codes.InvalidArgument, "spec.name", "is required"},
	{"long name", func(s *sluicev1.JobSpec) { s.Name = strings.Repeat("a", 101) }, codes.InvalidArgument, "spec.name", "is 101 characters long: 1 to 100"},
	{"upper case name", func(s *sluicev1.JobSpec) { s.Name = "Job" }, codes.InvalidArgument, "spec.name", `is "Job": 1 to 100 characters of a-z`},
	{"name ends with a dash", func(s *sluicev1.JobSpec) { s.Name = "job-" }, codes.InvalidArgument, "spec.name", "ending with a letter or a digit"},
	{"name of a path", func(s *sluicev1.JobSpec) { s.Name = "a/../b" }, codes.InvalidArgument, "spec.name", "1 to 100 characters"},
	{"unknown pool", func(s *sluicev1.JobSpec) { s.Pool = "root/nowhere" }, codes.InvalidArgument, "spec.pool", `is "root/nowhere": there is no such pool`},
	{"inner pool", func(s *sluicev1.JobSpec) { s.Pool = "root" }, codes.InvalidArgument, "spec.pool", "it has pools below it"},
	{"pool outside the root", func(s *sluicev1.JobSpec) { s.Pool = "batch" }, codes.InvalidArgument, "spec.pool", `paths begin with "root"`},
	{"pool with an empty part", func(s *sluicev1.JobSpec) { s.Pool = "root//x" }, codes.InvalidArgument, "spec.pool", `has a part ""`},
	{"no instances", func(s *sluicev1.JobSpec) { s.Instances = proto.Uint32(0) }, codes.InvalidArgument, "spec.instances", "is 0: 1 to 100000"},
	{"10⁹ instances", func(s *sluicev1.JobSpec) { s.Instances = proto.Uint32(1e9) }, codes.InvalidArgument, "spec.instances", "is 1000000000: 1 to 100000"},
	{"negative priority", func(s *sluicev1.JobSpec) { s.Priority = -1 }, codes.InvalidArgument, "spec.priority", "is -1: 0 to 1000"},
	{"high priority", func(s *sluicev1.JobSpec) { s.Priority = 1001 }, codes.InvalidArgument, "spec.priority", "is 1001: 0 to 1000"},
	{"long owner", func(s *sluicev1.JobSpec) { s.Owner = strings.Repeat("o", 256) }, codes.InvalidArgument, "spec.owner", "is 256 bytes long: at most 255"},
	{"owner with a line break", func(s *sluicev1.JobSpec) { s.Owner = "a\nb" }, codes.InvalidArgument, "spec.owner", "control characters"},
	{"many labels", func(s *sluicev1.JobSpec) { s.Labels = manyLabels(65) }, codes.InvalidArgument, "spec.labels", "has 65 entries: at most 64"},
	{"bad label key", func(s *sluicev1.JobSpec) { s.Labels = map[string]string{"a b": "c"} }, codes.InvalidArgument, `spec.labels["a b"]`, "bad key: 1 to 63"},
	{"long label", func(s *sluicev1.JobSpec) { s.Labels = map[string]string{"a": strings.Repeat("x", 256)} }, codes.InvalidArgument, `spec.labels["a"]`, "256 bytes"},
	{"many retries", func(s *sluicev1.JobSpec) { s.Restart = &sluicev1.RestartPolicy{MaxFailures: proto.Uint32(101)} }, codes.InvalidArgument, "spec.restart.max_failures", "is 101: 0 to 100"},
	{"negative grace", func(s *sluicev1.JobSpec) { s.KillGrace = &durationpb.Duration{Seconds: -1} }, codes.InvalidArgument, "spec.kill_grace", "is -1s: 0s to 24h"},
	{"endless grace", func(s *sluicev1.JobSpec) { s.KillGrace = &durationpb.Duration{Seconds: math.MaxInt64} }, codes.InvalidArgument, "spec.kill_grace", "0s to 24h"},
	{"grace of mixed signs", func(s *sluicev1.JobSpec) { s.KillGrace = &durationpb.Duration{Seconds: 1, Nanos: -1} }, codes.InvalidArgument, "spec.kill_grace", "is 1 s and -1 ns"},
	{"huge spec", func(s *sluicev1.JobSpec) {
		for range 16 {
			args := s.Task.Processes[0].GetArgv()
			args.Args = append(args.Args, strings.Repeat("x", 100_000))
		}
	}, codes.InvalidArgument, "spec", "bytes long: at most 1048576"},

	{"no task", func(s *sluicev1.JobSpec) { s.Task = nil }, codes.InvalidArgument, "spec.task", "is required"},
	{"no process", func(s *sluicev1.JobSpec) { s.Task.Processes = nil }, codes.InvalidArgument, "spec.task.processes", "is required"},
	{"no command", func(s *sluicev1.JobSpec) { s.Task.Processes[0].Command = nil }, codes.InvalidArgument, "spec.task.processes[0]", "needs a command"},
	{"empty argv", func(s *sluicev1.JobSpec) { s.Task.Processes[0].GetArgv().Args = nil }, codes.InvalidArgument, "spec.task.processes[0].argv.args", "is required"},
	{"empty program", func(s *sluicev1.JobSpec) { s.Task.Processes[0].GetArgv().Args = []string{"", "x"} }, codes.InvalidArgument, "spec.task.processes[0].argv.args", "is required"},
	{"NUL in an argument", func(s *sluicev1.JobSpec) { s.Task.Processes[0].GetArgv().Args[1] = "a\x00b" }, codes.InvalidArgument, "spec.task.processes[0].argv.args[1]", "NUL"},
	{"long argument", func(s *sluicev1.JobSpec) { s.Task.Processes[0].GetArgv().Args[1] = strings.Repeat("x", 128<<10) }, codes.InvalidArgument, "spec.task.processes[0].argv.args[1]", "is 131072 bytes long"},
	{"blank shell line", func(s *sluicev1.JobSpec) { s.Task.Processes[0].Command = &sluicev1.ProcessSpec_Shell{Shell: " "} }, codes.InvalidArgument, "spec.task.processes[0].shell", "is empty"},
	{"bad variable", func(s *sluicev1.JobSpec) { s.Task.Processes[0].Environment = map[string]string{"A=B": "c"} }, codes.InvalidArgument, `spec.task.processes[0].environment["A=B"]`, "without '='"},
	{"reserved variable", func(s *sluicev1.JobSpec) {
		s.Task.Processes[0].Environment = map[string]string{"SLUICE_HOST": "c"}
	}, codes.InvalidArgument, `spec.task.processes[0].environment["SLUICE_HOST"]`, "is reserved"},
	{"variable that is long with its name", func(s *sluicev1.JobSpec) {
		s.Task.Processes[0].Environment = map[string]string{"A": strings.Repeat("x", 128<<10-2)}
	}, codes.InvalidArgument, `spec.task.processes[0].environment["A"]`, "is 131072 bytes long with its name: at most 131071"},
	{"folder outside", func(s *sluicev1.JobSpec) { s.Task.Processes[0].WorkingDirectory = "../x" }, codes.InvalidArgument, "spec.task.processes[0].working_directory", "inside the task's own folder"},
	{"small log", func(s *sluicev1.JobSpec) { s.Task.LogLimitBytes = proto.Int64(0) }, codes.InvalidArgument, "spec.task.log_limit_bytes", "is 0: 4096 to"},

	{"no resources", func(s *sluicev1.JobSpec) { s.Task.Resources = nil }, codes.InvalidArgument, "spec.task.resources", "is required"},
	{"no cpu", func(s *sluicev1.JobSpec) { s.Task.Resources.CpuMilli = 0 }, codes.InvalidArgument, "spec.task.resources.cpu_milli", "is 0: 1 to 1125899906842624 (thousandths of a core)"},
	{"negative cpu", func(s *sluicev1.JobSpec) { s.Task.Resources.CpuMilli = -5 }, codes.InvalidArgument, "spec.task.resources.cpu_milli", "is -5: 1 to"},
	{"absurd cpu", func(s *sluicev1.JobSpec) { s.Task.Resources.CpuMilli = math.MaxInt64 }, codes.InvalidArgument, "spec.task.resources.cpu_milli", "is 9223372036854775807: 1 to"},
	{"no memory", func(s *sluicev1.JobSpec) { s.Task.Resources.MemoryBytes = 0 }, codes.InvalidArgument, "spec.task.resources.memory_bytes", "is 0: 1 to"},
	{"absurd memory", func(s *sluicev1.JobSpec) { s.Task.Resources.MemoryBytes = 1<<50 + 1 }, codes.InvalidArgument, "spec.task.resources.memory_bytes", "to 1125899906842624 (bytes)"},
	{"negative disk", func(s *sluicev1.JobSpec) { s.Task.Resources.DiskBytes = -1 }, codes.InvalidArgument, "spec.task.resources.disk_bytes", "is -1: 0 to"},
	{"negative gpu", func(s *sluicev1.JobSpec) { s.Task.Resources.Gpu = &sluicev1.GpuRequest{Count: -1} }, codes.InvalidArgument, "spec.task.resources.gpu.count", "is -1: 0 to"},
	{"gpus that overflow", func(s *sluicev1.JobSpec) { s.Task.Resources.Gpu = &sluicev1.GpuRequest{Count: math.MaxInt64 / 10} }, codes.InvalidArgument, "spec.task.resources.gpu.count", "whole devices"},
	{"negative named", func(s *sluicev1.JobSpec) { s.Task.Resources.Named = map[string]int64{"tape": -1} }, codes.InvalidArgument, `spec.task.resources.named["tape"]`, "is -1: 0 to"},
	{"many named", func(s *sluicev1.JobSpec) {
		s.Task.Resources.Named = map[string]int64{}
		for k := range manyLabels(65) {
			s.Task.Resources.Named[k] = 1
		}
	}, codes.InvalidArgument, `spec.task.resources.named`, "has 65 entries: at most 64"},
	{"named without a name", func(s *sluicev1.JobSpec) { s.Task.Resources.Named = map[string]int64{"": 1} }, codes.InvalidArgument, `spec.task.resources.named[""]`, "bad name"},
	{"named as people call what has a field", func(s *sluicev1.JobSpec) { s.Task.Resources.Named = map[string]int64{"memory": 1} }, codes.InvalidArgument, `spec.task.resources.named["memory"]`, "field of its own"},
	{"named with a field of its own", func(s *sluicev1.JobSpec) { s.Task.Resources.Named = map[string]int64{"cpu_milli": 1} }, codes.InvalidArgument, `spec.task.resources.named["cpu_milli"]`, "field of its own"},
	{"more than a gpu as a part", func(s *sluicev1.JobSpec) { s.Task.Resources.Gpu = &sluicev1.GpuRequest{Milli: 1500} }, codes.InvalidArgument, "spec.task.resources.gpu.milli", "is 1500: 0 to 999"},
	{"whole gpus and a part", func(s *sluicev1.JobSpec) { s.Task.Resources.Gpu = &sluicev1.GpuRequest{Count: 1, Milli: 5} }, codes.InvalidArgument, "spec.task.resources.gpu.milli", "beside count"},
	{"a model of no gpu", func(s *sluicev1.JobSpec) {
		s.Task.Resources.Gpu = &sluicev1.GpuRequest{Models: []string{"A"}}
	}, codes.InvalidArgument, "spec.task.resources.gpu.models", "no device is asked for"},

	{"retries of a service", func(s *sluicev1.JobSpec) {
		s.Type, s.Restart = sluicev1.JobType_JOB_TYPE_STATELESS, &sluicev1.RestartPolicy{MaxFailures: proto.Uint32(3)}
	}, codes.InvalidArgument, "spec.restart.max_failures", "runs again however often"},
	{"listed for no time", func(s *sluicev1.JobSpec) { s.TtlAfterFinish = durationpb.New(0) }, codes.InvalidArgument, "spec.ttl_after_finish", "is 0 s"},
	{"listed for less than no time", func(s *sluicev1.JobSpec) { s.TtlAfterFinish = durationpb.New(-5 * time.Second) }, codes.InvalidArgument, "spec.ttl_after_finish", "is -5s: 1ns to 87600h0m0s"},
	{"progress read backwards", func(s *sluicev1.JobSpec) {
		s.Progress = &sluicev1.ProgressPolicy{Interval: durationpb.New(-time.Second)}
	}, codes.InvalidArgument, "spec.progress.interval", "is -1s: 1ns to 87600h0m0s"},
	{"a number of daemons", func(s *sluicev1.JobSpec) {
		s.Type, s.Instances = sluicev1.JobType_JOB_TYPE_DAEMON, proto.Uint32(3)
	}, codes.InvalidArgument, "spec.instances", "one on every host"},
	{"a daemon that may be preempted", func(s *sluicev1.JobSpec) {
		s.Type, s.Preemptible = sluicev1.JobType_JOB_TYPE_DAEMON, proto.Bool(true)
	}, codes.InvalidArgument, "spec.preemptible", "is true"},
	{"a daemon that counts tasks", func(s *sluicev1.JobSpec) {
		s.Type, s.Constraints = sluicev1.JobType_JOB_TYPE_DAEMON, []*sluicev1.ConstraintRule{{Expression: taskLabel("app", "host", 1)}}
	}, codes.InvalidArgument, "spec.constraints", "count tasks"},
	{"a daemon that is spread", func(s *sluicev1.JobSpec) {
		s.Type, s.Spread = sluicev1.JobType_JOB_TYPE_DAEMON, []*sluicev1.SpreadRule{{Domain: "rack", MaxPerDomain: 1}}
	}, codes.InvalidArgument, "spec.spread", "one instance on every host"},
	{"a daemon of few", func(s *sluicev1.JobSpec) {
		s.Type, s.Limits = sluicev1.JobType_JOB_TYPE_DAEMON, &sluicev1.JobLimits{MaxRunningInstances: proto.Uint32(1)}
	}, codes.InvalidArgument, "spec.limits.max_running_instances", "one instance on every host"},
	{"a stateful gang", func(s *sluicev1.JobSpec) {
		s.Type, s.Instances, s.Gang = sluicev1.JobType_JOB_TYPE_STATEFUL, proto.Uint32(3), &sluicev1.GangPolicy{Minimum: 2}
	}, codes.InvalidArgument, "spec.gang", "its data is on its host"},
	{"a service with a controller", func(s *sluicev1.JobSpec) {
		s.Type, s.Controller = sluicev1.JobType_JOB_TYPE_STATELESS, &sluicev1.ControllerPolicy{}
	}, codes.InvalidArgument, "spec.controller", "batch jobs"},
	{"data of no size", reads(&sluicev1.DataInput{}), codes.InvalidArgument, "spec.locality.inputs[0].bytes", "is 0: 1 to"},
	{"data of no instance", reads(&sluicev1.DataInput{Bytes: 1, Instances: &sluicev1.InstanceRange{Last: 7}}), codes.InvalidArgument, "spec.locality.inputs[0].instances.last", "the last instance is 0"},
	{"data on no host", reads(&sluicev1.DataInput{Bytes: 1, Replicas: []*sluicev1.Place{{Kind: &sluicev1.Place_Host{Host: "h"}}}}), codes.InvalidArgument, "spec.locality.inputs[0].replicas[0].host", "shard/name"},
	{"data nowhere", reads(&sluicev1.DataInput{Bytes: 1, Replicas: []*sluicev1.Place{{}}}), codes.InvalidArgument, "spec.locality.inputs[0].replicas[0]", "give host, rack or zone"},
	{"data in a zone without a name", reads(&sluicev1.DataInput{Bytes: 1, Replicas: []*sluicev1.Place{{Kind: &sluicev1.Place_Zone{}}}}), codes.InvalidArgument, "spec.locality.inputs[0].replicas[0]", "names no place: give host, rack or zone"},
	{"less than no patience", func(s *sluicev1.JobSpec) {
		s.Locality = &sluicev1.Locality{HostWait: durationpb.New(-1)}
	}, codes.InvalidArgument, "spec.locality.host_wait", "0s to"},
	{"a secret where the credentials are", func(s *sluicev1.JobSpec) {
		s.Secrets = []*sluicev1.Secret{{Name: "a", Path: "sluice-api/token", Value: []byte("x")}}
	}, codes.InvalidArgument, "spec.secrets[0].path", "is kept for"},
	{"a gang's variable in no gang", func(s *sluicev1.JobSpec) {
		s.Task.Processes[0].Environment = map[string]string{"A": "${SLUICE_GANG_RANK}"}
	}, codes.InvalidArgument, `spec.task.processes[0].environment["A"]`, "which this task does not have"},
	{"empty batches", func(s *sluicev1.JobSpec) {
		s.Update = &sluicev1.UpdatePolicy{Batch: &sluicev1.UpdatePolicy_BatchSize{}}
	}, codes.InvalidArgument, "spec.update.batch_size", "is 0: 1 to"},
	{"batches of more than all", func(s *sluicev1.JobSpec) {
		s.Update = &sluicev1.UpdatePolicy{Batch: &sluicev1.UpdatePolicy_BatchPercent{BatchPercent: 101}}
	}, codes.InvalidArgument, "spec.update.batch_percent", "is 101: 1 to 100"},
	{"no attempt", func(s *sluicev1.JobSpec) {
		s.Update = &sluicev1.UpdatePolicy{MaxAttempts: proto.Uint32(0)}
	}, codes.InvalidArgument, "spec.update.max_attempts", "is 0: 1 to 100"},
	{"batch work is started first", func(s *sluicev1.JobSpec) {
		s.Update = &sluicev1.UpdatePolicy{Order: sluicev1.UpdatePolicy_START_FIRST}
	}, codes.InvalidArgument, "spec.update.order", "only stateless jobs"},
	{"no room for what starts first", func(s *sluicev1.JobSpec) {
		s.Type, s.Update = sluicev1.JobType_JOB_TYPE_STATELESS, &sluicev1.UpdatePolicy{Order: sluicev1.UpdatePolicy_START_FIRST}
		s.Instances, s.Limits = proto.Uint32(3), &sluicev1.JobLimits{MaxRunningInstances: proto.Uint32(3)}
	}, codes.InvalidArgument, "spec.update.order", "limits.max_running_instances, which is 3, has to be above instances, which is 3"},
	{"healthy for longer than it may take", func(s *sluicev1.JobSpec) {
		s.Update = &sluicev1.UpdatePolicy{MinHealthyTime: durationpb.New(time.Hour)}
	}, codes.InvalidArgument, "spec.update.min_healthy_time", "less than healthy_deadline, which is 5m"},
	{"no endpoints", func(s *sluicev1.JobSpec) { s.Discovery = &sluicev1.DiscoveryPolicy{} }, codes.InvalidArgument, "spec.discovery.endpoints", "has 0 entries"},
	{"endpoint without a port", func(s *sluicev1.JobSpec) {
		s.Discovery = &sluicev1.DiscoveryPolicy{Endpoints: []*sluicev1.DiscoveryEndpoint{{Name: "http"}}}
	}, codes.InvalidArgument, "spec.discovery.endpoints[0].port", "is required"},
	{"endpoint of another port", func(s *sluicev1.JobSpec) {
		port := &sluicev1.PortRef{Kind: &sluicev1.PortRef_Name{Name: "http"}}
		s.Discovery = &sluicev1.DiscoveryPolicy{Endpoints: []*sluicev1.DiscoveryEndpoint{{Name: "http", Port: port}}}
	}, codes.InvalidArgument, "spec.discovery.endpoints[0].port", "is not among the ports"},
	{"two endpoints of one name", func(s *sluicev1.JobSpec) {
		e := &sluicev1.DiscoveryEndpoint{Name: "http", Port: &sluicev1.PortRef{Kind: &sluicev1.PortRef_Number{Number: 80}}}
		s.Discovery = &sluicev1.DiscoveryPolicy{Endpoints: []*sluicev1.DiscoveryEndpoint{e, e}}
	}, codes.InvalidArgument, "spec.discovery.endpoints[1].name", "names are unique"},
	{"unknown type", func(s *sluicev1.JobSpec) { s.Type = 99 }, codes.Unimplemented, "spec.type", "is 99"},
	{"revocable", func(s *sluicev1.JobSpec) { s.Revocable = true }, codes.Unimplemented, "spec.revocable", "lends nothing"},
	{"copies of a service", func(s *sluicev1.JobSpec) {
		s.Type, s.Speculation = sluicev1.JobType_JOB_TYPE_STATELESS, &sluicev1.SpeculationPolicy{Idempotent: true}
	}, codes.InvalidArgument, "spec.speculation.idempotent", "is for batch jobs"},
	{"copies of a gang", func(s *sluicev1.JobSpec) {
		s.Instances, s.Gang = proto.Uint32(2), &sluicev1.GangPolicy{Minimum: 2}
		s.Speculation = &sluicev1.SpeculationPolicy{Idempotent: true}
	}, codes.InvalidArgument, "spec.speculation.idempotent", "not for gangs"},
	{"copies of a controller", func(s *sluicev1.JobSpec) {
		s.Controller, s.Speculation = &sluicev1.ControllerPolicy{}, &sluicev1.SpeculationPolicy{Idempotent: true}
	}, codes.InvalidArgument, "spec.speculation.idempotent", "with a controller"},
	{"too many copies", func(s *sluicev1.JobSpec) {
		s.Speculation = &sluicev1.SpeculationPolicy{Idempotent: true, MaxCopiesPercent: proto.Uint32(101)}
	}, codes.InvalidArgument, "spec.speculation.max_copies_percent", "1 to 100"},
	{"copies that nobody allows", func(s *sluicev1.JobSpec) {
		s.Speculation = &sluicev1.SpeculationPolicy{MaxCopiesPercent: proto.Uint32(5)}
	}, codes.InvalidArgument, "spec.speculation.max_copies_percent", "no copies are started"},
	{"gang of one", func(s *sluicev1.JobSpec) { s.Gang = &sluicev1.GangPolicy{Minimum: 2} }, codes.InvalidArgument, "spec.gang", "needs at least 2 instances"},
	{"empty gang", func(s *sluicev1.JobSpec) {
		s.Instances, s.Gang = proto.Uint32(3), &sluicev1.GangPolicy{}
	}, codes.InvalidArgument, "spec.gang.minimum", "is 0: 2 to 3"},
	{"gang larger than the job", func(s *sluicev1.JobSpec) {
		s.Instances, s.Gang = proto.Uint32(3), &sluicev1.GangPolicy{Minimum: 4}
	}, codes.InvalidArgument, "spec.gang.minimum", "is 4: 2 to 3"},
	{"no time to launch", func(s *sluicev1.JobSpec) {
		s.Instances, s.Gang = proto.Uint32(3), &sluicev1.GangPolicy{Minimum: 2, LaunchTimeout: durationpb.New(time.Millisecond)}
	}, codes.InvalidArgument, "spec.gang.launch_timeout", "is 1ms: 100ms to"},
	{"fewer may run than the gang has", func(s *sluicev1.JobSpec) {
		s.Instances, s.Gang = proto.Uint32(3), &sluicev1.GangPolicy{Minimum: 3}
		s.Limits = &sluicev1.JobLimits{MaxRunningInstances: proto.Uint32(2)}
	}, codes.InvalidArgument, "spec.limits.max_running_instances", "could never start"},
	{"nothing may run", func(s *sluicev1.JobSpec) {
		s.Limits = &sluicev1.JobLimits{MaxRunningInstances: proto.Uint32(0)}
	}, codes.InvalidArgument, "spec.limits.max_running_instances", "is 0: 1 to"},
	{"no time to run", func(s *sluicev1.JobSpec) {
		s.Limits = &sluicev1.JobLimits{MaxRunTime: durationpb.New(-1)}
	}, codes.InvalidArgument, "spec.limits.max_run_time", "1ns to"},
	{"deadline that is past", func(s *sluicev1.JobSpec) {
		s.Limits = &sluicev1.JobLimits{Deadline: timestamppb.New(time.Unix(1.5e9, 0))}
	}, codes.InvalidArgument, "spec.limits.deadline", "is 2017-07-14T02:40:00Z: that is past"},
	{"deadline before time began", func(s *sluicev1.JobSpec) {
		s.Limits = &sluicev1.JobLimits{Deadline: &timestamppb.Timestamp{}}
	}, codes.InvalidArgument, "spec.limits.deadline", "is not a time after 1970"},
	{"unavailable instances of a batch job", func(s *sluicev1.JobSpec) {
		s.Limits = &sluicev1.JobLimits{MaxUnavailableInstances: proto.Uint32(1)}
	}, codes.InvalidArgument, "spec.limits.max_unavailable_instances", "is given for a batch job"},
	{"command on preemption", func(s *sluicev1.JobSpec) {
		s.Preemption = &sluicev1.PreemptionPolicy{OnPreempt: &sluicev1.Argv{}}
	}, codes.InvalidArgument, "spec.preemption.on_preempt.args", "is required"},
	{"group without a name", func(s *sluicev1.JobSpec) { s.Groups = []string{"a", ""} }, codes.InvalidArgument, "spec.groups[1]", "is required"},
	{"shorter back-offs", func(s *sluicev1.JobSpec) {
		s.Restart = &sluicev1.RestartPolicy{BackoffInitial: durationpb.New(2), BackoffMax: durationpb.New(1)}
	}, codes.InvalidArgument, "spec.restart.backoff_max", "is 1ns: at least backoff_initial, which is 2ns"},
	{"negative back-off", func(s *sluicev1.JobSpec) {
		s.Restart = &sluicev1.RestartPolicy{BackoffInitial: durationpb.New(-1)}
	}, codes.InvalidArgument, "spec.restart.backoff_initial", "0s to"},
	{"empty rule", func(s *sluicev1.JobSpec) { s.Constraints = []*sluicev1.ConstraintRule{{}} }, codes.InvalidArgument, "spec.constraints[0].expression", "is required"},
	{"empty expression", func(s *sluicev1.JobSpec) {
		s.Constraints = []*sluicev1.ConstraintRule{{Expression: &sluicev1.Constraint{}}}
	}, codes.InvalidArgument, "spec.constraints[0].expression", "is empty"},
	{"no operands", func(s *sluicev1.JobSpec) { s.Constraints = []*sluicev1.ConstraintRule{{Expression: allOf()}} }, codes.InvalidArgument, "spec.constraints[0].expression.all_of.operands", "is required"},
	{"less than none", func(s *sluicev1.JobSpec) {
		s.Constraints = []*sluicev1.ConstraintRule{{Expression: hostLabel("zone", "a", sluicev1.LabelConstraint_LESS, 0)}}
	}, codes.InvalidArgument, "spec.constraints[0].expression.label.requirement", "no count is less"},
	{"no comparison", func(s *sluicev1.JobSpec) {
		s.Constraints = []*sluicev1.ConstraintRule{{Expression: hostLabel("zone", "a", 0, 0)}}
	}, codes.InvalidArgument, "spec.constraints[0].expression.label.comparison", "is required: LESS, EQUAL or GREATER"},
	{"no key", func(s *sluicev1.JobSpec) {
		s.Constraints = []*sluicev1.ConstraintRule{{Expression: hostLabel("", "a", sluicev1.LabelConstraint_EQUAL, 0)}}
	}, codes.InvalidArgument, "spec.constraints[0].expression.label.key", `is ""`},
	{"deep expression", func(s *sluicev1.JobSpec) { s.Constraints = []*sluicev1.ConstraintRule{{Expression: nested(20)}} }, codes.InvalidArgument, "spec.constraints[0].expression" + strings.Repeat(".all_of.operands[0]", 16), "is nested more than 16 levels"},
	{"bottomless expression", func(s *sluicev1.JobSpec) { s.Constraints = []*sluicev1.ConstraintRule{{Expression: nested(500)}} }, codes.InvalidArgument, "spec.constraints[0].expression" + strings.Repeat(".all_of.operands[0]", 16), "is nested more than"},
	{"wide expression", func(s *sluicev1.JobSpec) {
		wide := make([]*sluicev1.Constraint, 300)
		for i := range wide {
			wide[i] = nested(0)
		}
		s.Constraints = []*sluicev1.ConstraintRule{{Expression: allOf(wide...)}}
	}, codes.InvalidArgument, "spec.constraints", "has 301 expressions: at most 256"},
	{"label of nothing", func(s *sluicev1.JobSpec) {
		c := hostLabel("app", "web", sluicev1.LabelConstraint_LESS, 1)
		c.GetLabel().Kind = 0
		s.Constraints = []*sluicev1.ConstraintRule{{Expression: c}}
	}, codes.InvalidArgument, "spec.constraints[0].expression.label.kind", "HOST or TASK"},
	{"domain of a host label", func(s *sluicev1.JobSpec) {
		c := hostLabel("app", "web", sluicev1.LabelConstraint_LESS, 1)
		c.GetLabel().Domain = "rack"
		s.Constraints = []*sluicev1.ConstraintRule{{Expression: c}}
	}, codes.InvalidArgument, "spec.constraints[0].expression.label.domain", "only tasks are counted in domains"},
	{"bad domain", func(s *sluicev1.JobSpec) {
		s.Constraints = []*sluicev1.ConstraintRule{{Expression: taskLabel("app", "a rack", 1)}}
	}, codes.InvalidArgument, "spec.constraints[0].expression.label.domain", `is "a rack": host, rack, zone or an attribute`},
	{"more tasks than there can be", func(s *sluicev1.JobSpec) {
		s.Constraints = []*sluicev1.ConstraintRule{{Expression: taskLabel("app", "rack", 1e6)}}
	}, codes.InvalidArgument, "spec.constraints[0].expression.label.requirement", "is 1000000: 0 to 100000"},
	{"preference worth nothing", func(s *sluicev1.JobSpec) {
		s.Constraints = []*sluicev1.ConstraintRule{{Expression: nested(0), Soft: &sluicev1.SoftRule{Penalty: durationpb.New(0)}}}
	}, codes.InvalidArgument, "spec.constraints[0].soft.penalty", "1ms to 10m0s"},
	{"preference worth too much", func(s *sluicev1.JobSpec) {
		s.Constraints = []*sluicev1.ConstraintRule{{Expression: nested(0), Soft: &sluicev1.SoftRule{Penalty: durationpb.New(time.Hour)}}}
	}, codes.InvalidArgument, "spec.constraints[0].soft.penalty", "1ms to 10m0s"},
	{"endless timeout", func(s *sluicev1.JobSpec) {
		s.Constraints = []*sluicev1.ConstraintRule{{Expression: nested(0), Soft: &sluicev1.SoftRule{Timeout: &durationpb.Duration{Seconds: math.MaxInt64}}}}
	}, codes.InvalidArgument, "spec.constraints[0].soft.timeout", "0s to 720h"},
	{"many preferences", func(s *sluicev1.JobSpec) {
		for range 33 {
			s.Constraints = append(s.Constraints, &sluicev1.ConstraintRule{Expression: nested(0), Soft: &sluicev1.SoftRule{}})
		}
	}, codes.InvalidArgument, "spec.constraints", "33 rules are soft"},
	{"labels of a part of a gang that are counted", func(s *sluicev1.JobSpec) {
		s.Instances, s.Gang = proto.Uint32(3), &sluicev1.GangPolicy{Minimum: 2}
		s.Spread = []*sluicev1.SpreadRule{{MaxPerDomain: 1}}
		s.Overrides = []*sluicev1.InstanceOverride{{Instances: &sluicev1.InstanceRange{First: 1, Last: 1}, Task: &sluicev1.TaskSpec{Labels: map[string]string{"a": "b"}}}}
	}, codes.InvalidArgument, "spec.overrides[0].task.labels", "the 2 tasks of the gang the same labels"},
	{"spread of nothing", func(s *sluicev1.JobSpec) { s.Spread = []*sluicev1.SpreadRule{{}} }, codes.InvalidArgument, "spec.spread[0].max_per_domain", "is 0: 1 to"},
	{"spread by two measures", func(s *sluicev1.JobSpec) {
		s.Spread = []*sluicev1.SpreadRule{{MaxPerDomain: 1, MaxSkew: 2}}
	}, codes.InvalidArgument, "spec.spread[0].max_skew", "is 2 beside max_per_domain: give each a rule of its own"},
	{"too uneven a spread", func(s *sluicev1.JobSpec) {
		s.Spread = []*sluicev1.SpreadRule{{MaxSkew: 1 << 30}}
	}, codes.InvalidArgument, "spec.spread[0].max_skew", "is 1073741824: 1 to"},
	{"spread over what is no key", func(s *sluicev1.JobSpec) {
		s.Spread = []*sluicev1.SpreadRule{{Domain: "=", MaxPerDomain: 1}}
	}, codes.InvalidArgument, "spec.spread[0].domain", `is "=": host`},
	{"spread of a bad label", func(s *sluicev1.JobSpec) {
		s.Spread = []*sluicev1.SpreadRule{{MaxPerDomain: 1, Selector: map[string]string{"a b": ""}}}
	}, codes.InvalidArgument, `spec.spread[0].selector["a b"]`, "bad key"},
	{"many spreads", func(s *sluicev1.JobSpec) { s.Spread = make([]*sluicev1.SpreadRule, 33) }, codes.InvalidArgument, "spec.spread", "has 33 entries: at most 32"},

	{"depends on itself", func(s *sluicev1.JobSpec) { s.DependsOn = []*sluicev1.Dependency{{Job: "job"}} }, codes.InvalidArgument, "spec.depends_on[0].job", `cycle of dependencies: "job" → "job"`},
	{"depends on nothing known", func(s *sluicev1.JobSpec) { s.DependsOn = []*sluicev1.Dependency{{Job: "ghost"}} }, codes.InvalidArgument, "spec.depends_on[0].job", `is "ghost": there is no such job`},
	{"depends on too many", func(s *sluicev1.JobSpec) { s.DependsOn = make([]*sluicev1.Dependency, maxDependencies+1) }, codes.InvalidArgument, "spec.depends_on", "has 1001 entries: at most 1000"},
	{"depends in an unknown way", func(s *sluicev1.JobSpec) {
		s.DependsOn = []*sluicev1.Dependency{{Job: "there", Condition: 9}}
	}, codes.Unimplemented, "spec.depends_on[0].condition", "is 9"},
}

func TestBadSpecs(t *testing.T) {
	a := newAPITest(t)
	for _, path := range []string{"root/batch"} {
		_, err := a.pools.CreatePool(t.Context(), &sluicev1.CreatePoolRequest{Spec: &sluicev1.PoolSpec{Path: path}})
		require.NoError(t, err)
	}
	a.submit(t, sleepJob("there"))
	for _, c := range badSpecs {
		t.Run(c.name, func(t *testing.T) {
			spec := sleepJob("job")
			c.change(spec)
			before := a.Snapshot().NumJobs()
			_, err := a.jobs.SubmitJob(t.Context(), &sluicev1.SubmitJobRequest{Spec: spec, IdempotencyKey: "k"})
			requireViolation(t, err, c.code, c.field, c.text)
			require.Equal(t, before, a.Snapshot().NumJobs())

			// The same spec is no better for being in a graph, and takes the rest of the graph with it.
			_, err = a.jobs.SubmitJobs(t.Context(), &sluicev1.SubmitJobsRequest{Specs: []*sluicev1.JobSpec{sleepJob("good"), spec}})
			requireViolation(t, err, c.code, strings.Replace(c.field, "spec", "specs[1]", 1), c.text)
			require.Equal(t, before, a.Snapshot().NumJobs())
			require.Nil(t, a.Snapshot().Receipt(cluster.RequestKey{Key: "k"}, 0))
		})
	}
}

// TestDeadlineThatPasses: a deadline is looked at when it is given, not when it is repeated.
func TestDeadlineThatPasses(t *testing.T) {
	a := newAPITest(t)
	spec := sleepJob("job")
	at := time.Now().Add(time.Second)
	spec.Limits = &sluicev1.JobLimits{Deadline: timestamppb.New(at)}
	a.submit(t, spec)
	update := sleepJob("job")
	update.Limits = &sluicev1.JobLimits{Deadline: timestamppb.New(time.Unix(1.5e9, 0))}
	_, err := a.jobs.UpdateJob(t.Context(), &sluicev1.UpdateJobRequest{Spec: update, ExpectedVersion: a.job(t, "job").Version})
	requireViolation(t, err, codes.InvalidArgument, "spec.limits.deadline", "that is past")
	time.Sleep(time.Until(at))
	answer, err := a.jobs.SubmitJob(t.Context(), &sluicev1.SubmitJobRequest{Spec: spec})
	require.NoError(t, err)
	require.False(t, answer.Created)
}

func TestAllViolationsAtOnce(t *testing.T) {
	a := newAPITest(t)
	spec := sleepJob("Bad")
	spec.Priority = -1
	spec.Revocable = true
	spec.Task.Resources.CpuMilli = -1
	_, err := a.jobs.SubmitJob(t.Context(), &sluicev1.SubmitJobRequest{Spec: spec})
	require.Equal(t, codes.InvalidArgument, status.Code(err))
	fields := violated(err)
	require.Len(t, fields, 4)
	for _, f := range []string{"spec.name", "spec.priority", "spec.revocable", "spec.task.resources.cpu_milli"} {
		require.Contains(t, fields, f)
	}

	spec = sleepJob("job")
	spec.Labels = map[string]string{}
	for i := range 60 {
		spec.Labels[fmt.Sprintf("%d ", i)] = ""
	}
	_, err = a.jobs.SubmitJob(t.Context(), &sluicev1.SubmitJobRequest{Spec: spec})
	require.Len(t, violated(err), maxViolations)
	require.Contains(t, err.Error(), "and 57 more")
}

func TestBadGraphs(t *testing.T) {
	a := newAPITest(t)
	after := func(name string, on ...string) *sluicev1.JobSpec {
		spec := sleepJob(name)
		for _, n := range on {
			spec.DependsOn = append(spec.DependsOn, &sluicev1.Dependency{Job: n})
		}
		return spec
	}
	big := func(name string) *sluicev1.JobSpec {
		spec := sleepJob(name)
		spec.Instances = proto.Uint32(cluster.MaxInstances)
		return spec
	}
	var manyInstances, manyJobs []*sluicev1.JobSpec
	for i := range 11 {
		manyInstances = append(manyInstances, big(fmt.Sprintf("j%d", i)))
	}
	for i := range maxGraphJobs + 1 {
		manyJobs = append(manyJobs, sleepJob(fmt.Sprintf("j%d", i)))
	}
	for _, c := range []struct {
		name  string
		specs []*sluicev1.JobSpec
		code  codes.Code
		field string
		text  string
	}{
		{"nothing", nil, codes.InvalidArgument, "specs", "is required"},
		{"empty job", []*sluicev1.JobSpec{{}}, codes.InvalidArgument, "specs[0].name", "is required"},
		{"too many", manyJobs, codes.InvalidArgument, "specs", "has 1001 jobs: at most 1000"},
		{"too many instances", manyInstances, codes.InvalidArgument, "specs", "have 1100000 instances together: at most 1000000"},
		{"same name", []*sluicev1.JobSpec{sleepJob("a"), sleepJob("a")}, codes.InvalidArgument, "specs[1].name", `is "a", as that of specs[0]`},
		{"cycle", []*sluicev1.JobSpec{after("a", "b"), after("b", "c"), after("c", "b")}, codes.InvalidArgument, "specs[2].depends_on[0].job", `"b" → "c" → "b"`},
		{"no reference of a job without a name", []*sluicev1.JobSpec{after("", "")}, codes.InvalidArgument, "specs[0].depends_on[0].job", "is required: the name of a job"},
		{"unknown reference", []*sluicev1.JobSpec{after("a", "b"), after("b", "ghost")}, codes.InvalidArgument, "specs[1].depends_on[0].job", `is "ghost"`},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := a.jobs.SubmitJobs(t.Context(), &sluicev1.SubmitJobsRequest{Specs: c.specs})
			requireViolation(t, err, c.code, c.field, c.text)
			require.Zero(t, a.Snapshot().NumJobs())
		})
	}
}

func TestTextThatIsNotUTF8(t *testing.T) {
	a := newAPITest(t)
	spec := sleepJob("job")
	spec.Task.Processes[0].GetArgv().Args[1] = "replace-me"
	raw, err := proto.Marshal(&sluicev1.SubmitJobRequest{Spec: spec})
	require.NoError(t, err)
	raw = bytes.Replace(raw, []byte("replace-me"), []byte("replace\xff\xfeme")[:10], 1)
	err = a.sendRaw(t.Context(), sluicev1.JobService_SubmitJob_FullMethodName, raw, &sluicev1.SubmitJobResponse{})
	requireViolation(t, err, codes.InvalidArgument, "spec.task.processes[0].argv.args[1]", `is not valid UTF-8: "replace\xff\xfem"`)
	require.Len(t, violated(err), 1)
	require.Zero(t, a.Snapshot().NumJobs())

	// A map has no fields called key and value.
	spec.Labels = map[string]string{"replace-me": "x"}
	raw, err = proto.Marshal(&sluicev1.SubmitJobRequest{Spec: spec})
	require.NoError(t, err)
	raw = bytes.Replace(raw, []byte("\nreplace-me\x12\x01x"), []byte("\nreplace\xffme\x12\x01\xff"), 1)
	err = a.sendRaw(t.Context(), sluicev1.JobService_SubmitJob_FullMethodName, raw, &sluicev1.SubmitJobResponse{})
	requireViolation(t, err, codes.InvalidArgument, "spec.labels", `is not valid UTF-8: "replace\xffme"`)
	require.Len(t, violated(err), 1)

	// In a stream of the API, and in services that are not ours.
	bad := protowire.AppendString(protowire.AppendTag(nil, 1, protowire.BytesType), "\xff")
	err = a.sendRaw(t.Context(), "/grpc.health.v1.Health/Check", bad, &sluicev1.GetJobResponse{})
	requireViolation(t, err, codes.InvalidArgument, "service", "is not valid UTF-8")
}

func TestUnknownFields(t *testing.T) {
	a := newAPITest(t)
	spec := sleepJob("job")
	newer := protowire.AppendVarint(protowire.AppendTag(nil, 12345, protowire.VarintType), 1)
	spec.Task.Resources.ProtoReflect().SetUnknown(newer)
	_, err := a.jobs.SubmitJob(t.Context(), &sluicev1.SubmitJobRequest{Spec: spec})
	requireViolation(t, err, codes.Unimplemented, "spec.task.resources", "field number 12345")
	require.Zero(t, a.Snapshot().NumJobs())

	list := &sluicev1.ListJobsRequest{}
	list.ProtoReflect().SetUnknown(newer)
	_, err = a.jobs.ListJobs(t.Context(), list)
	requireViolation(t, err, codes.Unimplemented, "", "field number 12345")
	require.ErrorContains(t, err, "desc = the request has a field number 12345")

	number := protowire.AppendVarint(protowire.AppendTag(nil, 1, protowire.VarintType), 1)
	err = a.sendRaw(t.Context(), sluicev1.JobService_GetJob_FullMethodName, number, &sluicev1.GetJobResponse{})
	requireViolation(t, err, codes.InvalidArgument, "name", "is not encoded as a field of its type is")
}

// Clients that take no more than 8 KiB of metadata, which is what gRPC has in most languages, are told what is wrong as well.
func TestErrorsFitIntoTrailers(t *testing.T) {
	a := newAPITest(t)
	conn, err := a.dial(grpc.WithMaxHeaderListSize(8 << 10))
	require.NoError(t, err)
	defer func() { require.NoError(t, conn.Close()) }()

	deep := hostLabel("é", "", 0, 0)
	deep.GetLabel().Domain = strings.Repeat("é", 300)
	operands := make([]*sluicev1.Constraint, 30)
	for i := range operands {
		operands[i] = deep
	}
	deep = allOf(operands...)
	for range 13 {
		deep = allOf(deep)
	}
	spec := sleepJob("job")
	spec.Constraints = []*sluicev1.ConstraintRule{{Expression: deep}}
	_, err = sluicev1.NewJobServiceClient(conn).SubmitJob(t.Context(), &sluicev1.SubmitJobRequest{Spec: spec})
	require.Equal(t, codes.InvalidArgument, status.Code(err), "%v", err)
	shown := status.Convert(err).Details()[0].(*errdetails.BadRequest).FieldViolations
	require.Greater(t, len(shown), shownInSentence)
	require.ErrorContains(t, err, fmt.Sprintf("and %d more", 90-shownInSentence), "all are counted")

	for _, model := range []string{strings.Repeat("é", 5000), strings.Repeat("%", 5000), strings.Repeat("=\n", 5000)} {
		_, err = sluicev1.NewClusterServiceClient(conn).SetCostModel(t.Context(), &sluicev1.SetCostModelRequest{
			Binding: &sluicev1.CostModelBinding{Models: []*sluicev1.WeightedCostModel{{Name: model}}},
		})
		require.Equal(t, codes.InvalidArgument, status.Code(err), "%v", err)
		_, err = sluicev1.NewClusterServiceClient(conn).SetCostModel(t.Context(), &sluicev1.SetCostModelRequest{
			Binding: &sluicev1.CostModelBinding{JobType: " " + model},
		})
		require.Equal(t, codes.InvalidArgument, status.Code(err), "%v", err)
	}

	require.NoError(t, a.Do(t.Context(), func(tx *Tx) error {
		for i := range 600 {
			machine := cluster.Machine{Volumes: []cluster.HeldVolume{{Name: "data"}}}
			id := cluster.HostID(fmt.Sprintf("shard/a-name-that-is-not-short-%d", i))
			if err := tx.Emit(&cluster.HostReported{ID: id, Machine: machine}); err != nil {
				return err
			}
		}
		return nil
	}))
	_, err = sluicev1.NewVolumeServiceClient(conn).GetVolume(t.Context(), &sluicev1.GetVolumeRequest{Name: "data"})
	require.Equal(t, codes.FailedPrecondition, status.Code(err), "%v", err)
	require.ErrorContains(t, err, "and 597 more have one of this name: say which is meant")
}

// A client that means any by what stands for unset is told so; it would be shown nothing.
func TestFiltersForWhatNothingIs(t *testing.T) {
	a := newAPITest(t)
	a.submit(t, sleepJob("job"))
	a.addHost(t, "s/h", 1)
	const says = "which nothing has: leave it out"
	_, err := a.jobs.ListJobs(t.Context(), &sluicev1.ListJobsRequest{Filter: &sluicev1.JobFilter{
		States: []sluicev1.JobState{sluicev1.JobState_JOB_STATE_PENDING, 0}, Types: []sluicev1.JobType{0},
	}})
	requireViolation(t, err, codes.InvalidArgument, "filter.states[1]", says)
	requireViolation(t, err, codes.InvalidArgument, "filter.types[0]", says)
	_, err = a.tasks.ListTasks(t.Context(), &sluicev1.ListTasksRequest{States: []sluicev1.TaskState{0}})
	requireViolation(t, err, codes.InvalidArgument, "states[0]", "is TASK_STATE_UNSPECIFIED, "+says)
	_, err = a.hosts.ListHosts(t.Context(), &sluicev1.ListHostsRequest{States: []sluicev1.HostState{0}})
	requireViolation(t, err, codes.InvalidArgument, "states[0]", says)
	watch, err := a.jobs.WatchJobs(t.Context(), &sluicev1.WatchJobsRequest{Filter: &sluicev1.JobFilter{States: []sluicev1.JobState{0}}})
	require.NoError(t, err)
	_, err = watch.Recv()
	requireViolation(t, err, codes.InvalidArgument, "filter.states[0]", says)
}

// Each task is held against all of the list: a request of some KB, gzipped, would hold a processor for minutes.
func TestFiltersOfMillions(t *testing.T) {
	a := newAPITest(t)
	many := slices.Repeat([]sluicev1.TaskState{sluicev1.TaskState_TASK_STATE_LOST}, 15)
	_, err := a.tasks.ListTasks(t.Context(), &sluicev1.ListTasksRequest{States: many})
	requireViolation(t, err, codes.InvalidArgument, "states", "has 15 entries: at most 14, each value once")
	_, err = a.tasks.ListTasks(t.Context(), &sluicev1.ListTasksRequest{States: many[:14]})
	require.NoError(t, err)
}

func TestOversizeMessage(t *testing.T) {
	a := newAPITest(t)
	spec := sleepJob("job")
	spec.Owner = strings.Repeat("x", MaxRequestBytes)
	_, err := a.jobs.SubmitJob(t.Context(), &sluicev1.SubmitJobRequest{Spec: spec})
	require.Equal(t, codes.ResourceExhausted, status.Code(err))
	require.Contains(t, err.Error(), "larger than max")
	require.Contains(t, err.Error(), "vs. 4194304")
	require.Zero(t, a.Snapshot().NumJobs())
}

// A client may compress what it sends; what it is unpacked to is bounded as everything is.
func TestCompressedRequests(t *testing.T) {
	a := newAPITest(t)
	a.submit(t, sleepJob("job"))
	got, err := a.jobs.GetJob(t.Context(), &sluicev1.GetJobRequest{Name: "job"}, grpc.UseCompressor("gzip"))
	require.NoError(t, err)
	require.Equal(t, "job", got.Job.Name)
	_, err = a.jobs.GetJob(t.Context(), &sluicev1.GetJobRequest{Name: strings.Repeat("x", MaxRequestBytes)}, grpc.UseCompressor("gzip"))
	require.Equal(t, codes.ResourceExhausted, status.Code(err))
}

func TestBytesThatAreNoMessage(t *testing.T) {
	a := newAPITest(t)
	err := a.sendRaw(t.Context(), sluicev1.JobService_SubmitJob_FullMethodName, []byte{0xff, 0xff, 0xff}, &sluicev1.SubmitJobResponse{})
	requireViolation(t, err, codes.InvalidArgument, "", "is not a valid protobuf message")
	require.Zero(t, a.Snapshot().NumJobs())
}

// Messages of two bytes take hundreds in memory, and a gzipped request of some KB holds millions of them.
func TestMessagesThatTakeMuchWhenTheyAreDecoded(t *testing.T) {
	a := newAPITest(t)
	empty := []byte("\x0a\x00") // in a list that has the number 1
	nested := bytes.Repeat(empty, 1<<20)
	for i := range protowire.Number(maxDepth + 1) {
		nested = protowire.AppendBytes(protowire.AppendTag(nil, 2-i%2, protowire.BytesType), nested) // all_of, operands and so on
	}
	spec := protowire.AppendBytes(protowire.AppendTag(nil, 14, protowire.BytesType), protowire.AppendBytes(protowire.AppendTag(nil, 1, protowire.BytesType), nested))
	for _, raw := range [][]byte{bytes.Repeat(empty, 1<<20), protowire.AppendBytes(protowire.AppendTag(nil, 1, protowire.BytesType), spec)} {
		err := a.sendRaw(t.Context(), sluicev1.JobService_SubmitJobs_FullMethodName, raw, &sluicev1.SubmitJobsResponse{})
		requireViolation(t, err, codes.InvalidArgument, "", "takes more than 64 MiB when it is decoded")
	}
}

func TestNameInUse(t *testing.T) {
	a := newAPITest(t)
	first := a.submit(t, sleepJob("job"))
	require.True(t, first.Created)
	again := a.submit(t, sleepJob("job"))
	require.False(t, again.Created)
	require.Equal(t, first.Uid, again.Uid)

	other := sleepJob("job")
	other.Priority = 7
	before := a.job(t, "job")
	_, err := a.jobs.SubmitJob(t.Context(), &sluicev1.SubmitJobRequest{Spec: other})
	requireViolation(t, err, codes.AlreadyExists, "spec.name", `is "job": a job of that name exists with another spec: choose another name, update the job, or stop and delete it`)
	_, err = a.jobs.SubmitJobs(t.Context(), &sluicev1.SubmitJobsRequest{Specs: []*sluicev1.JobSpec{sleepJob("new"), other}})
	requireViolation(t, err, codes.AlreadyExists, "specs[1].name", "exists with another spec")
	require.Equal(t, 1, a.Snapshot().NumJobs())
	require.True(t, proto.Equal(before, a.job(t, "job")))

	_, err = a.jobs.StopJob(t.Context(), &sluicev1.StopJobRequest{Name: "job"})
	require.NoError(t, err)
	_, err = a.jobs.SubmitJob(t.Context(), &sluicev1.SubmitJobRequest{Spec: other})
	requireViolation(t, err, codes.AlreadyExists, "spec.name", "choose another name, or delete the job when it has ended")
}

func TestBadRequests(t *testing.T) {
	a := newAPITest(t)
	a.submit(t, sleepJob("job"))
	a.addHost(t, "s/h", 1)
	ctx := t.Context()
	seven := uint64(7)
	zero, sevenRuns := uint32(0), uint32(7)
	for _, c := range []struct {
		name  string
		call  func() error
		code  codes.Code
		field string // of a violation, "" where there is none
		text  string
	}{
		{"get nothing", func() error { _, err := a.jobs.GetJob(ctx, &sluicev1.GetJobRequest{}); return err }, codes.InvalidArgument, "name", "is required"},
		{"get unknown", func() error { _, err := a.jobs.GetJob(ctx, &sluicev1.GetJobRequest{Name: "ghost"}); return err }, codes.NotFound, "", `job "ghost": there is no such job`},
		{"stop another version", func() error {
			_, err := a.jobs.StopJob(ctx, &sluicev1.StopJobRequest{Name: "job", ExpectedVersion: &seven})
			return err
		}, codes.Aborted, "", "its version is 1, not 7"},
		{"delete what runs", func() error {
			_, err := a.jobs.DeleteJob(ctx, &sluicev1.DeleteJobRequest{Name: "job"})
			return err
		}, codes.FailedPrecondition, "", `job "job": it has not ended`},
		{"update without a version", func() error {
			_, err := a.jobs.UpdateJob(ctx, &sluicev1.UpdateJobRequest{Spec: sleepJob("job")})
			return err
		}, codes.InvalidArgument, "expected_version", "is required"},
		{"update nothing", func() error {
			_, err := a.jobs.UpdateJob(ctx, &sluicev1.UpdateJobRequest{ExpectedVersion: 1})
			return err
		}, codes.InvalidArgument, "spec", "is required"},
		{"update the type", func() error {
			spec := sleepJob("job")
			spec.Type = sluicev1.JobType_JOB_TYPE_STATELESS
			_, err := a.jobs.UpdateJob(ctx, &sluicev1.UpdateJobRequest{Spec: spec, ExpectedVersion: 1})
			return err
		}, codes.InvalidArgument, "spec.type", "submit another job"},
		{"restart instances that are not there", func() error {
			_, err := a.jobs.RestartJob(ctx, &sluicev1.RestartJobRequest{Name: "job", Instances: []*sluicev1.InstanceRange{{First: 0, Last: 9}}})
			return err
		}, codes.InvalidArgument, "instances[0].last", "the last instance is"},
		{"restart a range the wrong way round", func() error {
			_, err := a.jobs.RestartJob(ctx, &sluicev1.RestartJobRequest{Name: "job", Instances: []*sluicev1.InstanceRange{{First: 3, Last: 1}}})
			return err
		}, codes.InvalidArgument, "instances[0].last", "not below first"},
		{"pause what was never updated", func() error {
			_, err := a.jobs.ControlUpdate(ctx, &sluicev1.ControlUpdateRequest{Name: "job", Action: sluicev1.ControlUpdateRequest_PAUSE})
			return err
		}, codes.FailedPrecondition, "", "it was never updated"},
		{"no action", func() error {
			_, err := a.jobs.ControlUpdate(ctx, &sluicev1.ControlUpdateRequest{Name: "job"})
			return err
		}, codes.InvalidArgument, "action", "is required"},
		{"pause at a version", func() error {
			r := &sluicev1.ControlUpdateRequest{Name: "job", Action: sluicev1.ControlUpdateRequest_PAUSE, ToVersion: proto.Uint64(1)}
			_, err := a.jobs.ControlUpdate(ctx, r)
			return err
		}, codes.InvalidArgument, "to_version", "for ROLLBACK only"},
		{"roll back to nothing", func() error {
			r := &sluicev1.ControlUpdateRequest{Name: "job", Action: sluicev1.ControlUpdateRequest_ROLLBACK, ToVersion: proto.Uint64(77)}
			_, err := a.jobs.ControlUpdate(ctx, r)
			return err
		}, codes.FailedPrecondition, "", "version 77 is not kept"},
		{"roll back what was never updated", func() error {
			_, err := a.jobs.ControlUpdate(ctx, &sluicev1.ControlUpdateRequest{Name: "job", Action: sluicev1.ControlUpdateRequest_ROLLBACK})
			return err
		}, codes.FailedPrecondition, "", "there is nothing to return to"},
		{"endpoints of no job", func() error {
			_, err := sluicev1.NewDiscoveryServiceClient(a.conn).ListEndpoints(ctx, &sluicev1.ListEndpointsRequest{Job: "nothing"})
			return err
		}, codes.NotFound, "", "there is no such job"},
		{"an endpoint that is not offered", func() error {
			_, err := sluicev1.NewDiscoveryServiceClient(a.conn).ListEndpoints(ctx, &sluicev1.ListEndpointsRequest{Job: "job", Endpoint: "x"})
			return err
		}, codes.NotFound, "endpoint", "offers no such endpoint"},
		{"list too many", func() error {
			_, err := a.jobs.ListJobs(ctx, &sluicev1.ListJobsRequest{PageSize: proto.Uint32(1001)})
			return err
		}, codes.InvalidArgument, "page_size", "is 1001: 1 to 1000"},
		{"list none", func() error {
			_, err := a.jobs.ListJobs(ctx, &sluicev1.ListJobsRequest{PageSize: &zero})
			return err
		}, codes.InvalidArgument, "page_size", "is 0: 1 to 1000"},
		{"made-up token", func() error {
			_, err := a.jobs.ListJobs(ctx, &sluicev1.ListJobsRequest{PageToken: "bm8gdG9rZW4gYXQgYWxs"})
			return err
		}, codes.InvalidArgument, "page_token", "is not of this list"},
		{"unknown state", func() error {
			_, err := a.jobs.ListJobs(ctx, &sluicev1.ListJobsRequest{Filter: &sluicev1.JobFilter{States: []sluicev1.JobState{77}}})
			return err
		}, codes.Unimplemented, "filter.states[0]", "is 77"},
		{"filter by unknown pool", func() error {
			_, err := a.jobs.ListJobs(ctx, &sluicev1.ListJobsRequest{Filter: &sluicev1.JobFilter{Pool: "root/x"}})
			return err
		}, codes.NotFound, "filter.pool", "there is no such pool"},
		{"watch unknown pool", func() error {
			s, err := a.jobs.WatchJobs(ctx, &sluicev1.WatchJobsRequest{Filter: &sluicev1.JobFilter{Pool: "root/x"}})
			require.NoError(t, err)
			_, err = s.Recv()
			return err
		}, codes.NotFound, "filter.pool", "there is no such pool"},
		{"tasks of what is no job", func() error {
			_, err := a.tasks.ListTasks(ctx, &sluicev1.ListTasksRequest{Job: "No Job"})
			return err
		}, codes.InvalidArgument, "job", "1 to 100 characters"},
		{"tokens of a long user", func() error {
			_, err := sluicev1.NewAccessServiceClient(a.conn).ListTokens(ctx, &sluicev1.ListTokensRequest{User: strings.Repeat("u", 256)})
			return err
		}, codes.InvalidArgument, "user", "at most 255"},
		{"tasks on what is no host", func() error {
			_, err := a.tasks.ListTasks(ctx, &sluicev1.ListTasksRequest{Host: "h"})
			return err
		}, codes.InvalidArgument, "host", `is "h": hosts are named shard/name`},
		{"volumes on what is no host", func() error {
			_, err := sluicev1.NewVolumeServiceClient(a.conn).ListVolumes(ctx, &sluicev1.ListVolumesRequest{Host: "h"})
			return err
		}, codes.InvalidArgument, "host", `is "h": hosts are named shard/name`},
		{"no such instance", func() error {
			_, err := a.tasks.GetTask(ctx, &sluicev1.GetTaskRequest{Job: "job", Instance: 1})
			return err
		}, codes.NotFound, "", "there is no instance 1: it has instances 0 to 0"},
		{"explain nothing", func() error { _, err := a.tasks.ExplainTask(ctx, &sluicev1.ExplainTaskRequest{}); return err }, codes.InvalidArgument, "job", "is required"},
		{"restart another run", func() error {
			_, err := a.tasks.RestartTask(ctx, &sluicev1.RestartTaskRequest{Job: "job", ExpectedRun: &sevenRuns})
			return err
		}, codes.Aborted, "", "not 7"},
		{"logs of run 0", func() error {
			s, err := a.tasks.TaskLogs(ctx, &sluicev1.TaskLogsRequest{Job: "job", Run: &zero})
			require.NoError(t, err)
			_, err = s.Recv()
			return err
		}, codes.InvalidArgument, "run", "runs count from 1"},
		{"logs from before the start", func() error {
			s, err := a.tasks.TaskLogs(ctx, &sluicev1.TaskLogsRequest{Job: "job", StdoutOffset: proto.Int64(-1)})
			require.NoError(t, err)
			_, err = s.Recv()
			return err
		}, codes.InvalidArgument, "stdout_offset", "is -1"},
		{"pool without a path", func() error {
			_, err := a.pools.CreatePool(ctx, &sluicev1.CreatePoolRequest{Spec: &sluicev1.PoolSpec{}})
			return err
		}, codes.InvalidArgument, "spec.path", "is required"},
		{"pool without a spec", func() error { _, err := a.pools.CreatePool(ctx, &sluicev1.CreatePoolRequest{}); return err }, codes.InvalidArgument, "spec", "is required"},
		{"pool of upper case", func() error {
			_, err := a.pools.CreatePool(ctx, &sluicev1.CreatePoolRequest{Spec: &sluicev1.PoolSpec{Path: "root/A"}})
			return err
		}, codes.InvalidArgument, "spec.path", `has a part "A"`},
		{"pool without a parent", func() error {
			_, err := a.pools.CreatePool(ctx, &sluicev1.CreatePoolRequest{Spec: &sluicev1.PoolSpec{Path: "root/a/b"}})
			return err
		}, codes.FailedPrecondition, "spec.path", `there is no pool "root/a" above it`},
		{"pool below jobs", func() error {
			_, err := a.pools.CreatePool(ctx, &sluicev1.CreatePoolRequest{Spec: &sluicev1.PoolSpec{Path: "root/default/a"}})
			return err
		}, codes.FailedPrecondition, "spec.path", `job "job" in "root/default" has not ended`},
		{"the root again", func() error {
			_, err := a.pools.CreatePool(ctx, &sluicev1.CreatePoolRequest{Spec: &sluicev1.PoolSpec{Path: "root"}})
			return err
		}, codes.AlreadyExists, "spec.path", "exists already"},
		{"pool with a cost model", func() error {
			_, err := a.pools.CreatePool(ctx, &sluicev1.CreatePoolRequest{Spec: &sluicev1.PoolSpec{Path: "root/a", CostModel: "x"}})
			return err
		}, codes.Unimplemented, "spec.cost_model", "does not support"},
		{"drain no pool", func() error {
			_, err := a.pools.DrainPool(ctx, &sluicev1.DrainPoolRequest{Path: "root/x"})
			return err
		}, codes.NotFound, "", `pool "root/x"`},
		{"update an old pool", func() error {
			_, err := a.pools.UpdatePool(ctx, &sluicev1.UpdatePoolRequest{Spec: &sluicev1.PoolSpec{Path: "root"}, ExpectedVersion: 7})
			return err
		}, codes.Aborted, "", "its version is 1, not 7"},
		{"delete the root", func() error {
			_, err := a.pools.DeletePool(ctx, &sluicev1.DeletePoolRequest{Path: "root"})
			return err
		}, codes.FailedPrecondition, "", "the root stays"},
		{"delete no pool", func() error {
			_, err := a.pools.DeletePool(ctx, &sluicev1.DeletePoolRequest{Path: "root/x"})
			return err
		}, codes.NotFound, "", `pool "root/x"`},
		{"drain nothing", func() error { _, err := a.hosts.DrainHost(ctx, &sluicev1.DrainHostRequest{}); return err }, codes.InvalidArgument, "name", "is required"},
		{"forget nothing", func() error { _, err := a.hosts.ForgetHost(ctx, &sluicev1.ForgetHostRequest{}); return err }, codes.InvalidArgument, "name", "is required"},
		{"drain unknown", func() error {
			_, err := a.hosts.DrainHost(ctx, &sluicev1.DrainHostRequest{Name: "h"})
			return err
		}, codes.NotFound, "", "hosts are named shard/name"},
		{"drain before now", func() error {
			_, err := a.hosts.DrainHost(ctx, &sluicev1.DrainHostRequest{Name: "s/h", Deadline: durationpb.New(-time.Second)})
			return err
		}, codes.InvalidArgument, "deadline", "is -1s: 0s to 8760h0m0s"},
		{"drain with a novel", func() error {
			_, err := a.hosts.DrainHost(ctx, &sluicev1.DrainHostRequest{Name: "s/h", Reason: strings.Repeat("x", 1001)})
			return err
		}, codes.InvalidArgument, "reason", "at most 1000"},
	} {
		t.Run(c.name, func(t *testing.T) {
			before := a.jobsPoolsHosts()
			err := c.call()
			if c.field != "" {
				requireViolation(t, err, c.code, c.field, c.text)
			} else {
				require.Equal(t, c.code, status.Code(err), "%v", err)
				require.Contains(t, err.Error(), c.text)
			}
			require.Equal(t, before, a.jobsPoolsHosts())
		})
	}
}

// jobsPoolsHosts lists what a request could have changed. What cycles change goes on meanwhile.
func (a *apiTest) jobsPoolsHosts() []string {
	s := a.Snapshot()
	var all []string
	for j := range s.Jobs(0) {
		all = append(all, fmt.Sprintf("%s %d %v", j.Spec.Name, j.Version, j.Stopping))
	}
	for p := range s.Pools() {
		all = append(all, fmt.Sprintf("%s %d", p.Path, p.Version))
	}
	for h := range s.Hosts("") {
		all = append(all, fmt.Sprintf("%s %v", h.ID, h.Draining))
	}
	return all
}

// reads lets a job read one input.
func reads(in *sluicev1.DataInput) func(*sluicev1.JobSpec) {
	return func(s *sluicev1.JobSpec) { s.Locality = &sluicev1.Locality{Inputs: []*sluicev1.DataInput{in}} }
}
