package cluster

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestImagesOfATask(t *testing.T) {
	in := func(c *Container) Process { return Process{Container: c} }
	require.Equal(t, []Image{{"web", 5}, {"setup", 1}}, ImagesOf(&TaskSpec{
		Init: []Process{in(&Container{Image: "web", ImageBytes: 5}), in(&Container{Image: "setup", ImageBytes: 1})},
		Processes: []Process{
			in(nil), in(&Container{Image: "web", ImageBytes: 5}), in(&Container{Image: "unknown"}),
			in(&Container{Image: "anew", ImageBytes: 9, ForcePull: true}),
		},
	}))
	require.Zero(t, testing.AllocsPerRun(10, func() { ImagesOf(&TaskSpec{Processes: []Process{{}, {}}}) }))
}

// imaged is a state in which tasks run in images.
type imaged struct {
	*State
	t  *testing.T
	at Time
}

func (s *imaged) emit(e Event) {
	s.t.Helper()
	s.at++
	require.NoError(s.t, s.Apply(Record{Seq: s.Seq() + 1, At: s.at, Event: e}))
}

// run has a task run in the image on the host, and end.
func (s *imaged) run(image string, bytes int64, host HostID) {
	s.t.Helper()
	if s.Host(host) == nil {
		s.emit(&HostReported{ID: host, Machine: Machine{Capabilities: CanContainers}})
	}
	uid := s.NextJob()
	spec := &JobSpec{Name: JobID(uid.String()), Pool: RootPool, Instances: 1}
	spec.Task.Processes = []Process{{Container: &Container{Image: image, ImageBytes: bytes}}}
	s.emit(&JobsSubmitted{Jobs: []NewJob{{UID: uid, Spec: spec}}})
	k := MakeTaskKey(uid, 0)
	s.emit(&Placed{Task: k, Run: 1, Host: host})
	s.emit(&TaskStatus{Task: k, Run: 1, State: TaskStarting})
	s.emit(&TaskStatus{Task: k, Run: 1, State: TaskRunning})
	s.emit(&TaskStatus{Task: k, Run: 1, State: TaskFailed})
}

// hostsOfImage returns the hosts on which tasks in the image run or ran, as far as that is remembered.
func (t *tables) hostsOfImage(name string) []HostID {
	if x := find(t.images, name); x != nil {
		return x.Hosts
	}
	return nil
}

func TestHostsOfImagesAreRememberedAndKept(t *testing.T) {
	s := &imaged{State: NewState(), t: t}
	s.run("unknown", 0, "s/a")
	require.Zero(t, s.Lessons())
	s.run("web", 5, "s/b")
	s.run("web", 7, "s/a")
	require.Equal(t, uint64(2), s.Lessons())
	s.run("web", 5, "s/b")
	require.Equal(t, uint64(2), s.Lessons(), "it had it")
	require.Equal(t, []HostID{"s/b", "s/a"}, s.hostsOfImage("web"))
	require.Empty(t, s.hostsOfImage("unknown"))

	snapshot, _ := s.Snapshot()
	again := NewState()
	for part := range snapshot.Parts() {
		require.NoError(t, again.Apply(Record{Event: part}))
	}
	require.Equal(t, slices.Collect(s.Images()), slices.Collect(again.Images()))

	s.emit(&HostRemoved{ID: "s/b"})
	require.Equal(t, []HostID{"s/a"}, s.hostsOfImage("web"))
	require.Equal(t, []HostID{"s/b", "s/a"}, snapshot.hostsOfImage("web"), "a snapshot does not change")
	require.Equal(t, uint64(3), s.Lessons())
}

func TestMemoryOfImagesIsBounded(t *testing.T) {
	s := &imaged{State: NewState(), t: t}
	s.run("old", 1, "s/0")
	for i := range MaxImageHosts + 2 {
		s.run("wide", 1, HostID(fmt.Sprintf("s/%d", i)))
	}
	require.Len(t, s.hostsOfImage("wide"), MaxImageHosts)
	require.NotContains(t, s.hostsOfImage("wide"), HostID("s/1"), "it came there first")
	require.Contains(t, s.hostsOfImage("wide"), HostID("s/2"))
	for i := range MaxImages - 1 {
		s.run(fmt.Sprintf("another %d", i), 1, "s/0")
	}
	require.Equal(t, MaxImages, len(slices.Collect(s.Images())))
	require.Empty(t, s.hostsOfImage("old"))
	require.NotEmpty(t, s.hostsOfImage("wide"))
}
