package serve

import (
	"strings"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// supported lists, for each message that a client may send, the fields that the server acts on. The API describes more
// than that; a field that is not listed is refused wherever it is set, so that nothing is ever accepted and ignored,
// also when a field is added to the API and forgotten here. Values may be restricted further (validate.go).
var supported = fieldSet(map[string]string{
	"SubmitJobRequest":       "spec idempotency_key",
	"SubmitJobsRequest":      "specs idempotency_key",
	"GetJobRequest":          "name",
	"ListJobsRequest":        "filter order descending page_size page_token",
	"StopJobRequest":         "name expected_version cascade",
	"DeleteJobRequest":       "name expected_version",
	"UpdateJobRequest":       "spec expected_version idempotency_key description dry_run",
	"RestartJobRequest":      "name expected_version instances",
	"ControlUpdateRequest":   "name action to_version",
	"ListJobVersionsRequest": "name page_size page_token",
	"ListEndpointsRequest":   "job endpoint page_size page_token",
	"WatchJobsRequest":       "filter after_revision include_tasks",
	"PlanJobsRequest":        "specs cost_model",
	"JobFilter":              "names name_prefix pool states owner labels types",

	"JobSpec": "name type pool owner labels instances task overrides priority preemptible " +
		"constraints spread depends_on restart kill_grace gang limits preemption estimated_run_time groups ttl_after_finish " +
		"revocable secrets update discovery controller speculation progress locality",
	"Secret":            "name path value",
	"ControllerPolicy":  "api_access",
	"SpeculationPolicy": "idempotent max_copies_percent",
	"ProgressPolicy":    "interval",
	"Locality":          "inputs host_wait rack_wait",
	"DataInput":         "name bytes replicas instances",
	"Place":             "host rack zone",
	"UpdatePolicy": "batch_size batch_percent order in_place canaries max_failed_instances max_attempts rollback_on_failure " +
		"start_paused min_healthy_time healthy_deadline placement_deadline",
	"DiscoveryPolicy":   "endpoints drain_delay",
	"DiscoveryEndpoint": "name port protocol",
	"GangPolicy":        "minimum launch_timeout",
	"JobLimits":         "max_running_instances max_unavailable_instances max_run_time deadline max_preempted_per_cycle",
	"PreemptionPolicy":  "action grace on_preempt",
	"Dependency":        "job condition",
	"RestartPolicy":     "max_failures backoff_initial backoff_max",
	"TaskSpec":          "init processes resources labels volumes log_limit_bytes",
	"ProcessSpec":       "name argv shell environment working_directory container resources health_checks main user fetch",
	"ContainerSpec":     "runtime image image_bytes force_pull parameters",
	"FetchItem":         "uri path executable extract",
	"HealthCheck":       "command http tcp effect initial_delay interval timeout failure_threshold success_threshold",
	"HttpCheck":         "port path scheme headers",
	"TcpCheck":          "port",
	"PortRef":           "number name dynamic_index",
	"VolumeMount":       "volume host_path scratch_bytes mount_path read_only",
	"InstanceOverride":  "instances task environment",
	"InstanceRange":     "first last",
	"Argv":              "args",
	"ResourceRequest":   "cpu_milli memory_bytes disk_bytes gpu ports network_bytes_per_second named",
	"GpuRequest":        "count milli models",
	"PortRequest":       "numbers dynamic dynamic_names",
	"ConstraintRule":    "expression soft",
	"SoftRule":          "timeout penalty",
	"SpreadRule":        "domain max_per_domain selector soft max_skew",
	"Constraint":        "label all_of any_of",
	"ConstraintList":    "operands",
	"LabelConstraint":   "kind key value comparison requirement domain",

	"GetTaskRequest":        "job instance explain",
	"ListTasksRequest":      "job states host page_size page_token explain pool",
	"TaskLogsRequest":       "job instance run copy process stream follow tail_bytes tail_lines stdout_offset stderr_offset",
	"RestartTaskRequest":    "job instance expected_run",
	"StopTaskRequest":       "job instance expected_run",
	"ExplainTaskRequest":    "job instance",
	"ForgetTaskDataRequest": "job instance expected_run",
	"ListTaskEventsRequest": "job instance run page_size page_token",

	"CreatePoolRequest":      "spec",
	"GetPoolRequest":         "path",
	"ListPoolsRequest":       "path page_size page_token",
	"ListUsageRequest":       "from_day to_day pool owner group_by page_size page_token",
	"UpdatePoolRequest":      "spec expected_version",
	"DeletePoolRequest":      "path expected_version",
	"SetCostModelRequest":    "binding",
	"CostModelBinding":       "pool job_type models shadow shadow_every",
	"WeightedCostModel":      "name weight_milli",
	"ExportGraphRequest":     "format job instance",
	"SetQueueMappingRequest": "mapping",
	"QueueMapping":           "rules version",
	"QueueMappingRule":       "user group labels pool reject",
	"DrainPoolRequest":       "path resume",
	"PoolSpec": "path description resources order division preemption_policy access limits ageing_interval labels " +
		"host_selector",
	"PoolResource": "dimension reservation limit share mode",
	"PoolLimits": "max_running_jobs max_pending_jobs max_running_jobs_per_user max_pending_jobs_per_user " +
		"max_running_jobs_per_group max_pending_jobs_per_group controller_percent revocable_percent max_preempted_per_cycle",
	"AccessRule": "permission users groups",

	"SetModeRequest":   "mode",
	"RotateKeyRequest": "",
	"ClusterMode":      "read_only scheduling_stopped killing_stopped",

	"CreateTokenRequest": "user groups lifetime job note",
	"ListTokensRequest":  "user page_size page_token",
	"RevokeTokenRequest": "id",
	"ListRolesRequest":   "page_size page_token",
	"GrantRoleRequest":   "binding",
	"RevokeRoleRequest":  "binding",
	"RoleBinding":        "role user group pool",

	"ListHostsRequest":  "shard states rack zone attributes page_size page_token",
	"GetHostRequest":    "name",
	"DrainHostRequest":  "name reason move deadline",
	"ResumeHostRequest": "name",
	"ForgetHostRequest": "name",

	"ListVolumesRequest":  "host page_size page_token",
	"GetVolumeRequest":    "name host",
	"DeleteVolumeRequest": "name host",
})

func fieldSet(messages map[string]string) map[protoreflect.FullName]bool {
	set := map[protoreflect.FullName]bool{}
	for message, fields := range messages {
		for _, f := range strings.Fields(fields) {
			set[protoreflect.FullName(apiPackage+"."+message+"."+f)] = true
		}
	}
	return set
}

// apiPackage is the protobuf package whose messages the table above covers.
const apiPackage = "sluice.v1"

// maxDepth bounds how deep the messages of a request may nest.
const maxDepth = 64

// inspect reports every field of m that the server does not know, could not decode, or does not support.
func inspect(m protoreflect.Message, path string, v *violations) { inspectDepth(m, path, 0, v) }

func inspectDepth(m protoreflect.Message, path string, depth int, v *violations) {
	if depth > maxDepth {
		v.Invalid(path, "is nested more than %d levels deep", maxDepth)
		return
	}
	inspectUnknown(m, path, v)
	if m.Descriptor().ParentFile().Package() != apiPackage {
		return // a well-known type: its value is checked where it is used
	}
	fields := m.Descriptor().Fields()
	for i := range fields.Len() { // not Range, whose order is random
		f := fields.Get(i)
		if v.Full() || !m.Has(f) {
			continue
		}
		at := child(path, string(f.Name()))
		switch {
		case !supported[f.FullName()]:
			v.Unsupported(at, "this server does not support it yet: leave it out")
		case f.IsMap(): // no map of the API has messages or enums as values
		case f.Enum() != nil:
			inspectEnum(f, m.Get(f), at, v)
		case f.Message() == nil:
		case f.IsList():
			for k, list := 0, m.Get(f).List(); k < list.Len() && !v.Full(); k++ {
				inspectDepth(list.Get(k).Message(), item(at, k), depth+1, v)
			}
		default:
			inspectDepth(m.Get(f).Message(), at, depth+1, v)
		}
	}
}

// inspectEnum reports values that have no name: they would pass for the default, or match nothing. In a list, all of which are
// filters, the value that stands for an unset field matches nothing either, and each record is held against all of the list.
func inspectEnum(f protoreflect.FieldDescriptor, value protoreflect.Value, path string, v *violations) {
	check := func(n protoreflect.EnumNumber, at string) {
		if f.Enum().Values().ByNumber(n) == nil {
			v.Unsupported(at, "is %d: this server knows no %s of that number", n, f.Enum().Name())
		}
	}
	if !f.IsList() {
		check(value.Enum(), path)
		return
	}
	list := value.List()
	if most := f.Enum().Values().Len(); list.Len() > most {
		v.Invalid(path, "has %d entries: at most %d, each value once", list.Len(), most)
		return
	}
	for k := 0; k < list.Len() && !v.Full(); k++ {
		n := list.Get(k).Enum()
		if n == 0 {
			v.Invalid(item(path, k), "is %s, which nothing has: leave it out, or the whole list for any", f.Enum().Values().ByNumber(0).Name())
			continue
		}
		check(n, item(path, k))
	}
}

// inspectUnknown reports the fields that the message keeps undecoded: those with numbers that the server does not know or
// with another encoding.
func inspectUnknown(m protoreflect.Message, path string, v *violations) {
	for raw := m.GetUnknown(); len(raw) > 0 && !v.Full(); {
		number, _, n := protowire.ConsumeField(raw)
		if n < 0 {
			v.Invalid(path, "is not a valid protobuf message")
			return
		}
		raw = raw[n:]
		if f := m.Descriptor().Fields().ByNumber(number); f != nil {
			v.Invalid(child(path, string(f.Name())), "is not encoded as a field of its type is")
			continue
		}
		v.Unsupported(path, "has a field number %d that this server does not know: the client is newer than the server", number)
	}
}
