package mesostest

import (
	"math"
	"slices"
	"strings"

	mesos "github.com/mesos/mesos-go/api/v1/lib"
)

// validateResources tells why a master takes none of a list of resources, whatever is to be done with them.
func validateResources(list []mesos.Resource) error {
	if err := validateForms(list); err != nil {
		return refuse("Invalid resources: %s", err)
	}
	gpus := int64(0)
	for i := range list {
		r := &list[i]
		if r.Name == "gpus" {
			gpus += pieceOf(*r).milli
		}
		if err := validateDisk(r); err != nil {
			return refuse("Invalid DiskInfo: %s", err)
		}
		if n := len(r.Reservations); r.Revocable != nil && n > 0 && r.Reservations[n-1].GetType() == mesos.Resource_ReservationInfo_DYNAMIC {
			return refuse("Invalid ReservationInfo: Dynamically reserved resource cannot be created from revocable resources")
		}
	}
	if gpus%1000 != 0 {
		return refuse("Invalid 'gpus' resource: The 'gpus' resource must be an unsigned integer")
	}
	return nil
}

// validateForms tells what is wrong with the form of resources.
func validateForms(list []mesos.Resource) error {
	for i := range list {
		r := &list[i]
		if err := validateResource(r); err != nil {
			return refuse("Resource '%s' is invalid: %s", bagOf([]mesos.Resource{*r}).text(r.AllocationInfo.GetRole()), err)
		}
	}
	return nil
}

// validateResource tells what is wrong with the form of one resource.
func validateResource(r *mesos.Resource) error {
	is := [...]bool{r.Scalar != nil, r.Ranges != nil, r.Set != nil}
	switch {
	case r.Name == "":
		return refuse("Empty resource name")
	case r.GetType() == mesos.SCALAR && is != [...]bool{true, false, false}:
		return refuse("Invalid scalar resource")
	case r.GetType() == mesos.RANGES && is != [...]bool{false, true, false}:
		return refuse("Invalid ranges resource")
	case r.GetType() == mesos.SET && is != [...]bool{false, false, true}:
		return refuse("Invalid set resource")
	case r.Scalar != nil && r.Scalar.Value != 0 && math.Round(r.Scalar.Value*1000) <= 0:
		return refuse("Invalid scalar resource: value <= 0")
	case r.Disk != nil && r.Name != "disk":
		return refuse("DiskInfo should not be set for %s resource", r.Name)
	case r.Shared != nil && r.Disk.GetPersistence() == nil:
		return refuse("Only persistent volumes can be shared")
	}
	for i, x := range r.Ranges.GetRange() {
		if x.Begin > x.End {
			return refuse("Invalid ranges resource: begin > end")
		}
		for _, y := range r.Ranges.Range[i+1:] {
			if x.Begin <= y.Begin && y.Begin <= x.End {
				return refuse("Invalid ranges resource: overlapping ranges")
			}
		}
	}
	for i, item := range r.Set.GetItem() {
		if slices.Contains(r.Set.Item[:i], item) {
			return refuse("Invalid set resource: duplicated elements")
		}
	}
	return validateReservations(r)
}

// validateReservations tells what is wrong with the stack of a resource's reservations: each refines the one before.
func validateReservations(r *mesos.Resource) error {
	if len(r.Reservations) > 1 && (r.Role != nil || r.Reservation != nil) {
		return refuse("Invalid resource format: 'Resource.role' and 'Resource.reservation' must not be set if there is more than one reservation")
	}
	if len(r.Reservations) == 1 && r.Role != nil && *r.Role != r.Reservations[0].GetRole() {
		return refuse("Invalid resource format: 'Resource.role' field with '%s' does not match the role '%s' in 'Resource.reservations'",
			*r.Role, r.Reservations[0].GetRole())
	}
	for i, x := range r.Reservations {
		switch {
		case x.Type == nil:
			return refuse("Invalid reservation: 'Resource.ReservationInfo.type' field must be set.")
		case x.Role == nil:
			return refuse("Invalid reservation: 'Resource.ReservationInfo.role' field must be set.")
		case *x.Role == "*":
			return refuse(`Invalid reservation: role "*" cannot be reserved`)
		case i > 0 && x.GetType() == mesos.Resource_ReservationInfo_STATIC:
			return refuse("Invalid refined reservation: A refined reservation cannot be STATIC")
		case i > 0 && !strings.HasPrefix(*x.Role, r.Reservations[i-1].GetRole()+"/"):
			return refuse("Invalid refined reservation: role '%s' is not a refinement of '%s'", *x.Role, r.Reservations[i-1].GetRole())
		}
		if err := validateRole(*x.Role); err != nil {
			return err
		}
	}
	return nil
}

// validateDisk tells what is wrong with what a resource says of its disk.
func validateDisk(r *mesos.Resource) error {
	d := r.Disk
	switch {
	case d == nil:
	case d.Persistence == nil && d.Volume != nil:
		return refuse("Non-persistent volume not supported")
	case d.Persistence == nil && d.Source == nil:
		return refuse("DiskInfo is set but empty")
	case d.Persistence == nil:
	case r.Revocable != nil:
		return refuse("Persistent volumes cannot be created from revocable resources")
	case len(r.Reservations) == 0 && (r.Role == nil || *r.Role == "*"):
		return refuse("Persistent volumes cannot be created from unreserved resources")
	case d.Volume == nil:
		return refuse("Expecting 'volume' to be set for persistent volume")
	case d.Volume.HostPath != nil:
		return refuse("Expecting 'host_path' to be unset for persistent volume")
	default:
		if err := validateID(d.Persistence.ID); err != nil {
			return refuse("Invalid persistence ID for persistent volume: %s", err)
		}
	}
	return nil
}

// validateUse tells why one task or executor cannot use resources together that are valid each by itself.
func validateUse(list []mesos.Resource) error {
	volumes := map[[2]string]bool{}
	for i := range list {
		p := pieceOf(list[i])
		if id := p.kind.Disk.GetPersistence().GetID(); id != "" {
			key := [2]string{p.reservedFor(), id}
			if volumes[key] {
				return refuse("Persistence ID '%s' is not unique", id)
			}
			volumes[key] = true
		}
		for j := range list[:i] {
			if x, y := &list[i], &list[j]; x.Name == y.Name && (x.Revocable == nil) != (y.Revocable == nil) {
				return refuse("Cannot use both revocable and non-revocable '%s' at the same time", x.Name)
			}
		}
	}
	return nil
}

// validateOperation tells why the master refuses an operation, whatever the offers hold.
func (w *accepted) validateOperation(op *mesos.Offer_Operation) error {
	var list []mesos.Resource
	switch op.Type {
	case mesos.Offer_Operation_RESERVE:
		list = op.Reserve.GetResources()
	case mesos.Offer_Operation_UNRESERVE:
		list = op.Unreserve.GetResources()
	case mesos.Offer_Operation_CREATE:
		list = op.Create.GetVolumes()
	case mesos.Offer_Operation_DESTROY:
		list = op.Destroy.GetVolumes()
	}
	if err := validateResources(list); err != nil {
		return err
	}
	if len(list) == 0 {
		return refuse("Invalid resources: The resources have multiple resource providers: ")
	}
	for i := range list {
		if err := w.validateOperand(op.Type, &list[i]); err != nil {
			return err
		}
	}
	return nil
}

// validateOperand tells why one resource cannot be reserved, or whatever the operation is.
func (w *accepted) validateOperand(what mesos.Offer_Operation_Type, r *mesos.Resource) error {
	p := pieceOf(*r)
	text := bag{p}.text(w.role)
	dynamic := false
	var last mesos.Resource_ReservationInfo
	if n := len(p.kind.Reservations); n > 0 {
		last = p.kind.Reservations[n-1]
		dynamic = last.GetType() == mesos.Resource_ReservationInfo_DYNAMIC
	}
	persistence := r.Disk.GetPersistence()
	volume := what == mesos.Offer_Operation_CREATE || what == mesos.Offer_Operation_DESTROY
	mine := w.f.info.Principal
	switch {
	case !volume && !dynamic:
		return refuse("Resource %s is not dynamically reserved", text)
	case what == mesos.Offer_Operation_RESERVE && mine != nil && last.Principal == nil:
		return refuse("A reserve operation was attempted by principal '%s', but there is a reserved resource in the request with no principal set", *mine)
	case what == mesos.Offer_Operation_RESERVE && mine != nil && *last.Principal != *mine:
		return refuse("A reserve operation was attempted by authenticated principal '%s', which does not match a reserved resource in the request with principal '%s'",
			*mine, *last.Principal)
	case what == mesos.Offer_Operation_RESERVE && last.GetRole() != w.role:
		return refuse("A reserve operation was attempted for a resource with role '%s', but the resource was allocated to role '%s'", last.GetRole(), w.role)
	case what == mesos.Offer_Operation_UNRESERVE && persistence != nil:
		return refuse("A dynamically reserved persistent volume %s cannot be unreserved directly. Please destroy the persistent volume first then unreserve the resource", text)
	case volume && persistence == nil:
		return refuse("Not a persistent volume: 'persistence' is not set in DiskInfo")
	case volume && r.Disk.Volume.GetMode() == mesos.RO:
		return refuse("Not a persistent volume: Read-only persistent volume not supported")
	case what == mesos.Offer_Operation_CREATE && mine != nil && persistence.Principal == nil:
		return refuse("Create volume operation attempted by principal '%s', but there is a volume in the operation with no principal set in 'disk.persistence'", *mine)
	case what == mesos.Offer_Operation_CREATE && mine != nil && *persistence.Principal != *mine:
		return refuse("Create volume operation attempted by authenticated principal '%s', which does not match a volume in the operation with principal '%s' set in 'disk.persistence'",
			*mine, *persistence.Principal)
	}
	return nil
}

// validateContainer tells why the master refuses what a task says of its command, checks and container.
func validateContainer(info *mesos.TaskInfo) error {
	if h := info.HealthCheck; h != nil {
		if err := validateCheck(h.Type.String(), h.Command, h.HTTP.GetPath(), h.HTTP != nil, h.TCP != nil,
			h.DelaySeconds, h.GracePeriodSeconds, h.IntervalSeconds, h.TimeoutSeconds); err != nil {
			return refuse("Task uses invalid health check: %s", err)
		}
	}
	if k := info.Check; k != nil {
		var command *mesos.CommandInfo
		if k.Command != nil {
			command = &k.Command.Command
		}
		if err := validateCheck(k.Type.String(), command, k.HTTP.GetPath(), k.HTTP != nil, k.TCP != nil,
			k.DelaySeconds, k.IntervalSeconds, k.TimeoutSeconds); err != nil {
			return refuse("Task uses invalid check: %s", err)
		}
	}
	if t := info.MaxCompletionTime; t != nil && t.Nanoseconds < 0 {
		return refuse("Task's `max_completion_time` must be non-negative")
	}
	for _, v := range info.Command.GetEnvironment().GetVariables() {
		if (v.Value == nil) == (v.GetType() == mesos.Environment_Variable_VALUE) {
			return refuse("Task's `CommandInfo` is invalid: Environment variable '%s' of type 'VALUE' must have a value set", v.Name)
		}
	}
	for _, v := range info.Container.GetVolumes() {
		if err := validateVolume(&v); err != nil {
			return refuse("Task's `ContainerInfo` is invalid: Invalid volume: %s", err)
		}
	}
	if info.Container != nil && info.Container.GetType() == mesos.ContainerInfo_DOCKER {
		docker := info.Container.Docker
		if docker == nil {
			return refuse("Task's `ContainerInfo` is invalid: DockerInfo 'docker' is not set for DOCKER typed ContainerInfo")
		}
		if slices.ContainsFunc(docker.Parameters, func(p mesos.Parameter) bool { return p.Key == "name" }) {
			return refuse("Task's `ContainerInfo` is invalid: Parameter in DockerInfo must not be 'name'")
		}
	}
	return nil
}

func validateVolume(v *mesos.Volume) error {
	if n := count(v.HostPath != nil, v.Image != nil, v.Source != nil); n != 1 {
		return refuse("Only one of them should be set: 'host_path', 'image' and 'source'")
	}
	from := v.GetSource()
	if from == nil {
		return nil
	}
	field, set := "", false
	switch from.Type {
	case mesos.Volume_Source_DOCKER_VOLUME:
		field, set = "docker_volume", from.DockerVolume != nil
	case mesos.Volume_Source_HOST_PATH:
		field, set = "host_path", from.HostPath != nil
	case mesos.Volume_Source_SANDBOX_PATH:
		field, set = "sandbox_path", from.SandboxPath != nil
	case mesos.Volume_Source_SECRET:
		field, set = "secret", from.Secret != nil
	default:
		return refuse("'source.type' is unknown")
	}
	if !set {
		return refuse("'source.%s' is not set for %v volume", field, from.Type)
	}
	return nil
}

func validateCheck(kind string, command *mesos.CommandInfo, path string, http, tcp bool, seconds ...*float64) error {
	switch {
	case kind == "COMMAND" && (command == nil || command.Value == nil), kind == "HTTP" && !http, kind == "TCP" && !tcp, kind == "UNKNOWN":
		return refuse("%s check is not complete", kind)
	case path != "" && !strings.HasPrefix(path, "/"):
		return refuse("The path '%s' of HTTP check must start with '/'", path)
	}
	for _, s := range seconds {
		if s != nil && *s < 0 {
			return refuse("Expecting times to be non-negative")
		}
	}
	return nil
}

func count(all ...bool) (n int) {
	for _, is := range all {
		if is {
			n++
		}
	}
	return n
}
