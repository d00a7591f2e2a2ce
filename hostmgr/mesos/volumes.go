package mesos

import (
	"fmt"
	"strings"

	api "github.com/mesos/mesos-go/api/v1/lib"

	"github.com/sluice-scheduler/sluice/cluster"
	"github.com/sluice-scheduler/sluice/hostmgr"
)

// mounts returns the disks of the persistent volumes of a run, and what makes those that the agent does not have yet. A
// volume is disk that is reserved to the role, so a role other than "*" is needed. It stays when the run ends.
func (b *batch) mounts(l *hostmgr.Launch) (disks []api.Resource, prepare []api.Offer_Operation, err error) {
	for i, v := range l.Task.Volumes {
		if v.Name == "" {
			continue
		}
		id := strings.ReplaceAll(v.Name, cluster.InstanceMark, fmt.Sprint(l.Run.Task.Instance()))
		disk, there := b.supply.takeVolume(id)
		if !there {
			var operations []api.Offer_Operation
			if disk, operations, err = b.create(id, i, l); err != nil {
				return nil, nil, err
			}
			prepare = append(prepare, operations...)
		}
		mounted := *disk.Disk
		mounted.Volume = &api.Volume{ContainerPath: v.MountPath, Mode: mode(v.ReadOnly)}
		if len(l.Task.Processes) > 1 {
			mounted.Volume = &api.Volume{ContainerPath: sharedPath(i), Mode: mode(false)}
		}
		disk.Disk = &mounted
		disks = append(disks, disk)
	}
	return disks, prepare, nil
}

// create makes a volume out of free disk: RESERVE where it is not reserved yet, and CREATE.
func (b *batch) create(id string, i int, l *hostmgr.Launch) (disk api.Resource, operations []api.Offer_Operation, err error) {
	if b.role == "*" {
		return disk, nil, fmt.Errorf("%w: volume %q: persistent volumes need a role other than \"*\", to which their disk is reserved", errNeverFits, id)
	}
	var size quantity
	size.amount.Fixed[cluster.Disk] = b.d.config.VolumeBytes
	taken, err := b.supply.take(size)
	if err != nil {
		return disk, nil, err
	}
	for _, r := range taken[1:] { // parts with different reservations cannot be one volume
		b.supply.left = append(b.supply.left, pieces([]api.Resource{r})...)
	}
	disk = taken[0]
	if len(disk.Reservations) == 0 {
		reservation := api.Resource_ReservationInfo{Type: api.Resource_ReservationInfo_DYNAMIC.Enum(), Role: text(b.role)}
		if b.d.config.Principal != "" {
			reservation.Principal = text(b.d.config.Principal)
		}
		disk.Reservations = append(disk.Reservations, reservation)
		operations = append(operations, api.Offer_Operation{
			Type: api.Offer_Operation_RESERVE, Reserve: &api.Offer_Operation_Reserve{Resources: []api.Resource{disk}},
		})
	}
	persistence := &api.Resource_DiskInfo_Persistence{ID: id}
	if b.d.config.Principal != "" {
		persistence.Principal = text(b.d.config.Principal)
	}
	disk.Disk = &api.Resource_DiskInfo{Persistence: persistence, Volume: &api.Volume{ContainerPath: "volume", Mode: mode(false)}}
	operations = append(operations, api.Offer_Operation{
		Type: api.Offer_Operation_CREATE, Create: &api.Offer_Operation_Create{Volumes: []api.Resource{disk}},
	})
	return disk, operations, nil
}
