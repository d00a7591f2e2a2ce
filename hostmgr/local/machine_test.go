//go:build linux

package local

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/sluice-scheduler/sluice/cluster"
	"github.com/sluice-scheduler/sluice/hostmgr"
)

func TestHosts(t *testing.T) {
	f := newFixture(t, func(c *Config) {
		c.Hosts, c.Racks, c.Rack, c.Zone = 3, 2, "b-", "here"
		c.Capacity.Fixed[cluster.CPU] = 64_000
		c.Capacity.Named = []cluster.Amount{{Name: "licence", Value: 2}}
		c.Attributes = []cluster.KeyValue{{Key: "disk", Value: "ssd"}}
	})
	machine, err := measure(f.config.Dir)
	require.NoError(t, err)
	hosts := f.sink.Hosts()
	require.Len(t, hosts, 3)
	for i, h := range hosts {
		require.Equal(t, []string{"h0", "h1", "h2"}[i], h.Name)
		require.Equal(t, []string{"b-0", "b-1", "b-0"}[i], h.Rack)
		require.Equal(t, "here", h.Zone)
		require.Equal(t, []cluster.KeyValue{
			{Key: "arch", Value: runtime.GOARCH}, {Key: "local", Value: "true"}, {Key: "os", Value: "linux"}, {Key: "disk", Value: "ssd"},
		}, h.Attributes)
		require.EqualValues(t, 2, h.Capacity.In("licence"))
		require.EqualValues(t, 64_000, h.Capacity.Fixed[cluster.CPU], "what the configuration claims")
		require.Equal(t, machine[cluster.Memory]/3, h.Capacity.Fixed[cluster.Memory])
		require.Equal(t, machine[cluster.Disk]/3, h.Capacity.Fixed[cluster.Disk])
	}
}

func TestParseStat(t *testing.T) {
	const numbers = " S 7 8 9 0 -1 4194304 1 2 3 4 50 6 70 8 20 0 1 0 12345 1000000 321 18446744073709551615" +
		" 23 24 25 0 0 0 0 0 0 0 0 0 17 1 0 0 0 0 0 42 43 44 45 46 47 48 0"
	for _, name := range []string{"sh", "a b", ") S 1 (", "()"} {
		p, err := parseStat(42, []byte("42 ("+name+")"+numbers))
		require.NoError(t, err)
		require.Equal(t, process{pid: 42, parent: 7, session: 9, ticks: 56, reaped: 78, pages: 321}, p)
	}
	_, err := parseStat(42, []byte("42 (sh) S 1"))
	require.Error(t, err)
	begins, err := parseStat(42, []byte("42 (sh)"+strings.Replace(numbers, " 47 48 ", " 0 0 ", 1)))
	require.NoError(t, err)
	require.True(t, begins.begins)
	kernel, err := parseStat(42, []byte("42 (sh)"+strings.NewReplacer(" 47 48 ", " 0 0 ", " 4194304 ", " 2129984 ").Replace(numbers)))
	require.NoError(t, err)
	require.False(t, kernel.begins)
	zombie, err := parseStat(42, []byte("42 (sh)"+strings.Replace(numbers, "S", "Z", 1)))
	require.NoError(t, err)
	require.True(t, zombie.ended)
}

func TestLeftovers(t *testing.T) {
	// Numbers that no process of this machine can have, so that no environment is found.
	const s = 1 << 23
	member := process{pid: s + 1, session: s}
	ended := process{pid: s + 2, session: s, ended: true}
	stranger := process{pid: s + 3, session: s + 3}
	require.Equal(t, []int{s + 1}, leftovers([]process{member, ended, stranger}, s, "X=1"))
	reused := process{pid: s, session: s}
	require.Empty(t, leftovers([]process{member, ended, stranger, reused}, s, "X=1"), "the number belongs to another session now")
	require.Empty(t, leftovers([]process{{pid: s + 1}}, 0, "X=1"), "no session is known")
}

func TestUsageOf(t *testing.T) {
	page := int64(os.Getpagesize())
	half := 0.5
	a, b := &run{id: cluster.RunID{Run: 1}, dir: t.TempDir(), told: told{interval: time.Second}}, &run{id: cluster.RunID{Run: 2}}
	require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(a.dir, progressFile)), 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(a.dir, progressFile), []byte("0.5"), 0o600))
	runs := map[int]*run{10: a, 20: b}
	all := func(scale int64) []process {
		return []process{
			{pid: 1, ticks: 1000 * scale, pages: 9},
			{pid: 10, parent: 1, ticks: 500 * scale, reaped: 7 * scale, pages: 100}, // a supervisor counts for what it has reaped only
			{pid: 12, parent: 11, ticks: 3 * scale, pages: 2},
			{pid: 11, parent: 10, ticks: 10 * scale, reaped: 20 * scale, pages: 5},
			{pid: 20, parent: 1},
			{pid: 21, parent: 20, ticks: 100, pages: 1},
			{pid: 30, parent: 31, ticks: 5}, // seen while their parents changed
			{pid: 31, parent: 30, ticks: 5},
		}
	}
	start := time.Unix(1000, 0)
	require.Empty(t, usageOf(runs, all(1), start), "there is no time yet to average over")
	usage := usageOf(runs, all(3), start.Add(2*time.Second))
	used := func(cpu, memory int64) (r cluster.Resources) {
		r.Fixed[cluster.CPU], r.Fixed[cluster.Memory] = cpu, memory
		return r
	}
	require.ElementsMatch(t, []hostmgr.Usage{
		{Run: a.id, Used: used(2*(7+10+20+3)*10/2, 7*page), Progress: &half},
		{Run: b.id, Used: used(0, page)},
	}, usage)
}

func TestUsageIsReported(t *testing.T) {
	f := newFixture(t, func(c *Config) { c.UsageInterval = 100 * time.Millisecond })
	busy := f.shell(0, "while :; do (:); done", nil) // most of the work is done by children that end at once
	eventually(t, "usage is reported", func() bool {
		for _, u := range f.sink.Usage(busy) {
			if u.Used.Fixed[cluster.CPU] > 0 && u.Used.Fixed[cluster.Memory] > 0 {
				return true
			}
		}
		return false
	})
}

func TestCgroupFolder(t *testing.T) {
	const mounts = `24 1 0:22 / /sys/fs/cgroup rw,nosuid - tmpfs tmpfs rw
31 24 0:26 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory
`
	const unified = mounts + "32 24 0:27 / /sys/fs/cgroup/unified rw,nosuid - cgroup2 cgroup2 rw,nsdelegate\n"
	folder, err := cgroupFolder([]byte(unified), []byte("4:memory:/x\n0::/user.slice/a.scope\n"))
	require.NoError(t, err)
	require.Equal(t, "/sys/fs/cgroup/unified/user.slice/a.scope", folder)
	_, err = cgroupFolder([]byte(mounts), []byte("0::/\n"))
	require.ErrorContains(t, err, "not mounted")
	_, err = cgroupFolder([]byte(unified), []byte("4:memory:/\n"))
	require.ErrorContains(t, err, "in no control group")
}

// TestFindCgroup uses plain folders: what matters is which files are read and written.
func TestFindCgroup(t *testing.T) {
	write := func(dir, file, text string) {
		require.NoError(t, os.WriteFile(filepath.Join(dir, file), []byte(text), 0o600))
	}
	dir := t.TempDir()
	_, err := findCgroup(dir)
	require.ErrorContains(t, err, "does not have the controllers cpu and memory")
	write(dir, "cgroup.controllers", "cpuset cpu io\n")
	_, err = findCgroup(dir)
	require.ErrorContains(t, err, "does not have the controllers")
	write(dir, "cgroup.controllers", "cpuset cpu io memory\n")
	found, err := findCgroup(dir)
	require.NoError(t, err)
	require.Equal(t, dir, found)
	control, err := os.ReadFile(filepath.Join(dir, "cgroup.subtree_control"))
	require.NoError(t, err)
	require.Equal(t, "+cpu +memory", string(control))
}

func TestCgroupLimits(t *testing.T) {
	c := &cgroupLimits{Path: filepath.Join(t.TempDir(), "group"), CPUMilli: 1500, MemoryBytes: 1 << 20}
	group, err := c.create()
	require.NoError(t, err)
	require.NoError(t, group.Close())
	for file, want := range map[string]string{"cpu.max": "150000 100000", "memory.max": "1048576"} {
		got, err := os.ReadFile(filepath.Join(c.Path, file))
		require.NoError(t, err)
		require.Equal(t, want, string(got))
	}
	require.False(t, c.outOfMemory())
	require.NoError(t, os.WriteFile(filepath.Join(c.Path, "memory.events"), []byte("low 0\noom 3\noom_kill 1\n"), 0o600))
	require.True(t, c.outOfMemory())
}

// inCgroups is a fixture whose tasks run in control groups of their own, where the machine lets us; without controllers, so that no
// limit is tested here.
func inCgroups(t *testing.T) *fixture {
	parent, err := ownCgroup()
	if err == nil {
		probe := cgroupLimits{Path: filepath.Join(parent, "sluice-test-probe")}
		if err = os.Mkdir(probe.Path, 0o755); err == nil {
			err = probe.remove()
		}
	}
	if err != nil {
		t.Skip("control groups cannot be made here: ", err)
	}
	before := neededControllers
	neededControllers = nil
	t.Cleanup(func() { neededControllers = before })
	return newFixture(t, func(c *Config) { c.Cgroup = parent })
}

func TestCgroup(t *testing.T) {
	f := inCgroups(t)
	require.Empty(t, f.sink.Hosts()[0].Notes)
	id := f.shell(0, "sleep 1000 & cat /proc/self/cgroup; exec sleep 1000", nil)
	eventually(t, "output", func() bool { return strings.Contains(f.output(id, 0), "sluice-") })
	group := f.known(id).cgroup
	require.Contains(t, f.output(id, 0), "0::"+"/"+filepath.Base(group.Path))
	require.NoError(t, f.Kill(t.Context(), id, 0))
	f.ended(id)
	require.NoDirExists(t, group.Path)
}

// TestCgroupsOfTheTask: the groups that a task makes below its own, as container runtimes do, go with it, whoever records its end.
func TestCgroupsOfTheTask(t *testing.T) {
	f := inCgroups(t)
	const text = `own="$PARENT/$(sed -n 's/^0:://p' /proc/self/cgroup | xargs basename)"; mkdir -p "$own/a/b" "$own/c"
echo $$ >"$own/a/b/cgroup.procs"; echo made; exec sleep 1000`
	for n, end := range []func(id cluster.RunID){
		func(id cluster.RunID) { require.NoError(t, f.Kill(t.Context(), id, 0)) },
		func(id cluster.RunID) { require.NoError(t, unix.Kill(f.supervisorOf(id), unix.SIGKILL)) },
	} {
		id := f.shell(n, text, func(l *hostmgr.Launch) { l.Env = []cluster.KeyValue{{Key: "PARENT", Value: f.config.Cgroup}} })
		f.says(id, "made\n")
		group := f.known(id).cgroup.Path
		require.DirExists(t, filepath.Join(group, "a", "b"))
		f.processOf(id)
		end(id)
		f.ended(id)
		require.NoDirExists(t, group)
	}
}
