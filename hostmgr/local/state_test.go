//go:build linux

package local

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/sluice-scheduler/sluice/cluster"
	"github.com/sluice-scheduler/sluice/hostmgr"
	"github.com/sluice-scheduler/sluice/hostmgr/drivertest"
)

func TestStateFolderIsOwned(t *testing.T) {
	f := newFixture(t, nil)
	second := newDriver(t, f.config)
	require.ErrorContains(t, second.Start(t.Context(), f.sink), f.config.Dir+" is in use by another driver of this process")
	require.NoError(t, second.Close())

	other := newCrashTest(t, crashPlan{Served: 1})
	held, err := openState(other.state)
	require.NoError(t, err)
	cmd := other.command()
	words, err := cmd.CombinedOutput()
	require.Error(t, err, "another process does not get the folder")
	require.Contains(t, string(words), fmt.Sprintf("%s is in use by process %d", other.state, os.Getpid()))
	require.NoError(t, held.close())
	other.finish()
}

func TestLockHolder(t *testing.T) {
	f := newFixture(t, nil)
	id := f.shell(0, "echo ready; exec sleep 1000", nil)
	f.says(id, "ready\n")
	_, err := tryLock(filepath.Join(f.state.run(id.String()), lockFile))
	require.ErrorIs(t, err, errHeld)
	cmdline, err := os.ReadFile("/proc/" + strconv.Itoa(f.supervisorOf(id)) + "/cmdline")
	require.NoError(t, err)
	require.Equal(t, "sluice\x00"+superviseArgument+"\x00"+f.state.run(id.String())+"\x00", string(cmdline))
	none, err := lockHolder(filepath.Join(t.TempDir(), "none"))
	require.NoError(t, err)
	require.Zero(t, none)
}

func TestStateFormat(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	open := func() error {
		s, err := openState(dir)
		if err == nil {
			require.NoError(t, s.close())
		}
		return err
	}
	require.NoError(t, open())
	require.NoError(t, open())
	for _, other := range []int{1, 4} {
		require.NoError(t, writeRecord(dir, "format", formatRecord{Format: other}, unsynced))
		require.ErrorContains(t, open(), fmt.Sprintf("has format %d, this version knows 2 and 3 only", other))
	}
	require.NoError(t, os.WriteFile(filepath.Join(dir, "format"), []byte(`{"Format":2,"Cluster":""}`), 0o600))
	require.NoError(t, open(), "the format of before is taken over")
	f, err := readRecord[formatRecord](dir, "format")
	require.NoError(t, err)
	require.Equal(t, formatRecord{3}, *f)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "format"), []byte("{"), 0o600))
	require.ErrorContains(t, open(), "format is damaged")
	require.ErrorContains(t, open(), "remove it, and start again over the same folder")
	require.NoError(t, os.Remove(filepath.Join(dir, "format")))
	require.NoError(t, open())
}

// What runs belongs to the folder that it was started in: neither over a copy of that nor where it was moved to is it found again.
func TestStateElsewhere(t *testing.T) {
	f := newFixture(t, nil)
	id := f.shell(1, "echo up; sleep 1000", nil)
	f.says(id, "up\n")
	require.NoError(t, f.Close())
	refused := func(dir, why string) {
		c := f.config
		c.Dir = dir
		d := newDriver(t, c)
		require.ErrorContains(t, d.Start(t.Context(), drivertest.NewRecorder()), why)
	}
	copied, moved, linked := f.config.Dir+"-copied", f.config.Dir+"-moved", f.config.Dir+"-linked"
	require.NoError(t, os.CopyFS(copied, os.DirFS(f.config.Dir)))
	refused(copied, "is a copy: run 3.1.2 is in "+f.config.Dir)

	require.NoError(t, os.Rename(f.config.Dir, moved))
	refused(moved, "was moved: run 3.1.2 goes on, and writes to "+f.config.Dir)
	require.NoError(t, os.Rename(moved, f.config.Dir))

	require.NoError(t, os.Symlink(f.config.Dir, linked))
	home := f.config.Dir
	f.config.Dir = linked
	f.sink.Forget()
	f.start()
	require.Equal(t, cluster.TaskRunning, f.status(id).State)
	require.NoError(t, f.Close())
	f.config.Dir = home
	f.sink.Forget()
	f.start()
	require.Equal(t, cluster.TaskRunning, f.status(id).State)
}

func TestStateDamaged(t *testing.T) {
	f := newFixture(t, nil)
	id := f.shell(0, "true", nil)
	f.ended(id)
	require.NoError(t, f.Close())
	damaged := func(damage func(dir string) error) hostmgr.Driver {
		state := filepath.Join(t.TempDir(), "state")
		require.NoError(t, os.CopyFS(state, os.DirFS(f.config.Dir)))
		require.NoError(t, damage(filepath.Join(state, "runs", id.String())))
		return newDriver(t, Config{Dir: state})
	}
	d := damaged(func(dir string) error { return os.Rename(dir, filepath.Join(filepath.Dir(dir), "stranger")) })
	require.ErrorContains(t, d.Start(t.Context(), drivertest.NewRecorder()), "stranger is not the folder of a run: move it out of there, and start again")
	d = damaged(func(dir string) error { return os.WriteFile(filepath.Join(dir, exitFile), []byte("x"), 0o600) })
	require.NoError(t, d.Start(t.Context(), drivertest.NewRecorder()))
	require.Equal(t, cluster.TaskLost, d.Inventory()[0].State)
	require.Contains(t, d.Inventory()[0].Message, "the record of its end is damaged")
	require.NoError(t, d.Close())
	f.sink.Forget()
	f.start()
}

// TestRunningDamaged: the record that a run runs says so also if it cannot be read.
func TestRunningDamaged(t *testing.T) {
	f := newFixture(t, nil)
	id := f.shell(0, "sleep 1000", nil)
	f.processOf(id)
	require.NoError(t, f.Close())
	require.NoError(t, os.Truncate(filepath.Join(f.state.run(id.String()), runningFile), 5))
	f.sink.Forget()
	f.start()
	eventually(t, "it runs", func() bool { return f.status(id).State == cluster.TaskRunning })
}

// TestLaunchDamaged: a run whose launch cannot be read any more keeps no driver from the others. It is followed while it has a
// supervisor, and what is left of one without is killed.
func TestLaunchDamaged(t *testing.T) {
	for name, damage := range map[string]func(dir string) error{
		"cut":     func(dir string) error { return os.Truncate(filepath.Join(dir, launchFile), 20) },
		"removed": func(dir string) error { return os.Remove(filepath.Join(dir, launchFile)) },
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, nil)
			goOn := filepath.Join(t.TempDir(), "go on")
			follow := f.shell(0, "until [ -e '"+goOn+"' ]; do sleep 0.01; done; exit 3", nil)
			kill := f.shell(1, "sleep 1000", nil)
			lost := f.shell(2, "sleep 1000", nil)
			other := f.shell(3, "true", nil)
			for _, id := range []cluster.RunID{follow, kill, lost} {
				f.processOf(id)
				require.NoError(t, damage(f.state.run(id.String())))
			}
			supervisor := f.supervisorOf(lost)
			require.NoError(t, f.Close())
			require.NoError(t, unix.Kill(supervisor, unix.SIGKILL))
			f.driver = newDriver(t, f.config)
			require.NoError(t, f.Start(t.Context(), drivertest.NewRecorder())) // not the fixture's, which wants to know the hosts
			f.acknowledge()
			require.Equal(t, cluster.TaskLost, f.ended(lost).State)
			require.NoError(t, os.WriteFile(goOn, nil, 0o600))
			require.EqualValues(t, 3, f.ended(follow).ExitCode)
			require.NoError(t, f.Kill(t.Context(), kill, 0))
			require.Equal(t, cluster.TaskKilled, f.ended(kill).State)
			require.Equal(t, cluster.TaskSucceeded, f.ended(other).State)
		})
	}
}

// TestLaunchMissing: a run that has not begun, and whose launch is not there any more, is given back.
func TestLaunchMissing(t *testing.T) {
	f := newFixture(t, nil)
	require.NoError(t, f.Close())
	const id = "3.1.2"
	dir := filepath.Join(f.config.Dir, "runs", id)
	require.NoError(t, os.Mkdir(dir, 0o700))
	f.driver = newDriver(t, f.config)
	require.NoError(t, f.Start(t.Context(), drivertest.NewRecorder()))
	f.acknowledge()
	run, err := cluster.ParseRunID(id)
	require.NoError(t, err)
	s := f.ended(run)
	require.Equal(t, cluster.ReasonLaunchRefused, s.Reason, "%+v", s)
	require.Contains(t, s.Message, dir+" is damaged: it does not hold the launch of the run")
	require.NoFileExists(t, filepath.Join(dir, startedFile))
}

func TestSurplus(t *testing.T) {
	hours := func(n int) cluster.Time { return cluster.Time(time.Duration(n) * time.Hour) }
	all := func() []*kept {
		var out []*kept
		for i := range 5 { // the i-th ended in hour i and has i bytes
			out = append(out, &kept{id: cluster.RunID{Task: cluster.TaskKey(9 - i), Run: 1}, ended: hours(i), bytes: int64(i)})
		}
		return out
	}
	cases := []struct {
		retention Retention
		gone      int
	}{
		{Retention{Runs: 5, Bytes: 10, Age: 5 * time.Hour}, 0},
		{Retention{Runs: 3, Bytes: 10, Age: 5 * time.Hour}, 2},
		{Retention{Runs: 5, Bytes: 9, Age: 5 * time.Hour}, 2}, // 4 + 3 + 2 fit, with 1 more they do not
		{Retention{Runs: 5, Bytes: 10, Age: 2 * time.Hour}, 3},
		{Retention{Runs: -1, Bytes: 10, Age: 5 * time.Hour}, 5},
		{Retention{Runs: 5, Bytes: 3, Age: 5 * time.Hour}, 5},
	}
	for _, c := range cases {
		gone := c.retention.surplus(all(), hours(5))
		require.Len(t, gone, c.gone, "%+v", c.retention)
		for i, k := range gone {
			require.Equal(t, hours(i), k.ended, "the oldest go first")
		}
	}
	var gone []cluster.Time
	for _, k := range (Retention{Runs: 2, Bytes: 10, Age: 5 * time.Hour}).surplus(all(), hours(2)) {
		gone = append(gone, k.ended)
	}
	require.Equal(t, []cluster.Time{hours(3), hours(4), hours(0)}, gone, "those of before the clock was set back go before")
}

func TestRetention(t *testing.T) {
	f := newFixture(t, func(c *Config) { c.Retention.Runs = 2 })
	var ids []cluster.RunID
	for i := range 4 {
		ids = append(ids, f.shell(i, "echo run; mkdir sealed; touch sealed/file; chmod 0 sealed", nil))
		f.ended(ids[i])
		f.Release(ids[i])
	}
	gone := func(id cluster.RunID) bool {
		log, err := f.OpenLog(t.Context(), hostmgr.LogRequest{Run: id})
		if err == nil {
			require.NoError(t, log.Close())
		}
		return errors.Is(err, hostmgr.ErrUnknownRun)
	}
	eventually(t, "the oldest are dropped", func() bool { return gone(ids[0]) && gone(ids[1]) })
	_, err := f.OpenLog(t.Context(), hostmgr.LogRequest{Run: ids[0]})
	require.ErrorContains(t, err, "kept for as long as local.retention", "who asks is told why")
	require.Equal(t, "run\n", f.output(ids[3], 0))
	l := hostmgr.Launch{Run: ids[3], Host: "h0", Task: cluster.TaskSpec{Processes: []cluster.Process{{Command: []string{"true"}}}}}
	require.ErrorIs(t, f.Launch(t.Context(), l), hostmgr.ErrRefused, "it has ended, and its scheduler does not know that")
	f.reopen()
	require.Empty(t, f.Inventory())
	require.Equal(t, "run\n", f.output(ids[2], 0), "what is kept is kept by the next driver too")
	eventually(t, "what was dropped is removed", func() bool {
		entries, err := os.ReadDir(f.state.temp(""))
		return err == nil && len(entries) == 0
	})
}

// TestOutputOfTheLarge: a run that takes more than all that is kept may loses neither its output nor that of others.
func TestOutputOfTheLarge(t *testing.T) {
	f := newFixture(t, func(c *Config) { c.Retention.Bytes = 64 << 10 })
	small := f.shell(0, "echo small", nil)
	large := f.shell(1, "echo large; head -c 100000 /dev/zero > file; mkdir sealed; touch sealed/file; chmod 0 sealed", nil)
	for _, id := range []cluster.RunID{small, large} {
		f.ended(id)
		f.Release(id)
	}
	eventually(t, "the large one is measured", func() bool {
		f.mu.Lock()
		defer f.mu.Unlock()
		k := f.released[large]
		return k == nil || k.bytes >= 0
	})
	require.Equal(t, "small\n", f.output(small, 0))
	require.Equal(t, "large\n", f.output(large, 0))
	require.NoDirExists(t, filepath.Join(f.state.releasedRun(large.String()), workFolder))
	require.DirExists(t, filepath.Join(f.state.releasedRun(small.String()), workFolder))
}

// TestStartOverWhatStays: a folder that cannot be removed, for what a task has left in it, does not keep the driver from starting.
func TestStartOverWhatStays(t *testing.T) {
	f := newFixture(t, nil)
	require.NoError(t, f.Close())
	stays, goes := filepath.Join(f.state.temp(removedPrefix+"1"), workFolder, "mounted"), f.state.temp(removedPrefix+"2")
	require.NoError(t, os.MkdirAll(stays, 0o700))
	require.NoError(t, os.Mkdir(goes, 0o700))
	if err := unix.Mount("tmpfs", stays, "tmpfs", 0, "size=64k"); err != nil {
		t.Skip("nothing can be mounted here: ", err)
	}
	t.Cleanup(func() { require.NoError(t, unix.Unmount(stays, unix.MNT_DETACH)) })
	f.start()
	require.DirExists(t, stays)
	require.NoDirExists(t, goes)
}

// TestMountsAreNotEmptied: what a task has mounted in its folder, and left there, is not removed with the folder.
func TestMountsAreNotEmptied(t *testing.T) {
	dir, other := filepath.Join(t.TempDir(), "a folder"), t.TempDir()
	at := filepath.Join(dir, workFolder, "mounted")
	require.NoError(t, os.MkdirAll(at, 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(other, "kept"), nil, 0o600))
	if err := unix.Mount(other, at, "", unix.MS_BIND, ""); err != nil {
		t.Skip("nothing can be mounted here: ", err)
	}
	t.Cleanup(func() { _ = unix.Unmount(at, unix.MNT_DETACH) }) // if that has not been done
	link := filepath.Join(t.TempDir(), "link")
	require.NoError(t, os.Symlink(filepath.Dir(dir), link))
	for _, name := range []string{dir, filepath.Join(link, "a folder")} {
		require.ErrorContains(t, removeAll(name), "something is mounted at ")
	}
	require.NoError(t, unix.Unmount(at, 0))
	require.FileExists(t, filepath.Join(other, "kept"))
	require.NoError(t, removeAll(dir))
	require.NoDirExists(t, dir)
}

func TestConfigValidate(t *testing.T) {
	require.NoError(t, Config{Dir: "/state"}.Validate())
	bad := Config{
		Dir: "state", Hosts: 20_000, Racks: -1, Cgroup: "group", LogLimitBytes: 5, UsageInterval: 1,
		Capacity:  cluster.NewResources([cluster.NumDimensions]int64{cluster.CPU: -1}, cluster.Amount{Name: "licenses", Value: -2}),
		Retention: Retention{Runs: -2, Bytes: -1},
	}
	_, err := New(bad)
	for _, part := range []string{
		`state folder "state"`, "hosts is 20000", "racks is -1", `cgroup "group"`, "log limit is 5", "usage interval is 1ns",
		"capacity cpu_milli is -1", "capacity licenses is -2", "retention of -2 runs", "retention by bytes",
	} {
		require.ErrorContains(t, err, part)
	}
}

// smallDisk returns a folder that has a file system of its own, and how many blocks of that are free.
func smallDisk(t *testing.T) (small string, free func() uint64) {
	small = t.TempDir()
	if err := unix.Mount("tmpfs", small, "tmpfs", 0, "size=1m"); err != nil {
		t.Skip("a small file system cannot be mounted here: ", err)
	}
	t.Cleanup(func() { require.NoError(t, unix.Unmount(small, unix.MNT_DETACH)) })
	return small, func() uint64 {
		var fs unix.Statfs_t
		require.NoError(t, unix.Statfs(small, &fs))
		return fs.Bfree
	}
}

// TestFullDisk: a task that has filled the disk can be killed, and what it left goes.
func TestFullDisk(t *testing.T) {
	small, free := smallDisk(t)
	f := newFixture(t, func(c *Config) { c.Dir, c.Retention.Bytes = filepath.Join(small, "state"), 1 })
	id := f.shell(0, "cat /dev/zero > full; while :; do head -c 4096 /dev/zero >> more; sleep 0.01; done", nil)
	eventually(t, "the disk is full", func() bool { return free() == 0 })
	require.NoError(t, f.Kill(t.Context(), id, 0))
	require.Equal(t, cluster.TaskKilled, f.ended(id).State)
	f.Release(id)
	eventually(t, "the disk has room", func() bool { return free() > 100 })
	require.Equal(t, cluster.TaskSucceeded, f.ended(f.shell(1, "true", nil)).State)
}

// TestKillSoonerOnAFullDisk: a task that has filled the disk, and does not heed a kill, can be killed sooner.
func TestKillSoonerOnAFullDisk(t *testing.T) {
	small, free := smallDisk(t)
	f := newFixture(t, func(c *Config) { c.Dir = filepath.Join(small, "state") })
	id := f.shell(0, "trap '' TERM; cat /dev/zero > full; while :; do head -c 4096 /dev/zero >> more; sleep 0.01; done", nil)
	eventually(t, "the disk is full", func() bool { return free() == 0 })
	require.NoError(t, f.KillAfter(t.Context(), id, time.Hour, []string{"sleep", "1000"}, "a reason"))
	eventually(t, "the disk is full again", func() bool { return free() == 0 })
	for _, grace := range []time.Duration{time.Minute, 0} {
		require.NoError(t, f.Kill(t.Context(), id, grace))
		kill, err := readRecord[killRecord](f.state.run(id.String()), killFile)
		require.NoError(t, err)
		require.Equal(t, &killRecord{Grace: grace}, kill)
	}
	require.Equal(t, cluster.TaskKilled, f.ended(id).State)
}

// TestFullOfFiles: launches that were recorded before the disk could have no more files end, as launches that are given back.
func TestFullOfFiles(t *testing.T) {
	refused := 0
	for files := 100; refused == 0 && files > 80; files-- { // whether the last ones lack some depends on who is quicker
		refused = fillWithRuns(t, files)
	}
	require.NotZero(t, refused)
}

// fillWithRuns launches until a disk has all the files that it can have, and kills what was launched. It returns how many of these were given back.
func fillWithRuns(t *testing.T, files int) (refused int) {
	small, _ := smallDisk(t)
	f := newFixture(t, func(c *Config) { c.Dir = filepath.Join(small, "state") })
	require.NoError(t, unix.Mount("tmpfs", small, "tmpfs", unix.MS_REMOUNT, fmt.Sprint("nr_inodes=", files)))
	l := hostmgr.Launch{Host: "h0", Task: cluster.TaskSpec{Processes: []cluster.Process{{Command: []string{"sleep", "1000"}}}}}
	var launched []cluster.RunID
	for i := uint32(0); ; i++ {
		l.Run = cluster.RunID{Task: cluster.MakeTaskKey(1, i), Run: 1}
		if err := f.Launch(t.Context(), l); err != nil {
			require.ErrorIs(t, err, hostmgr.ErrRefused)
			break
		}
		launched = append(launched, l.Run)
	}
	require.NotEmpty(t, launched)
	for _, id := range launched {
		eventually(t, "it runs or has ended", func() bool {
			_, err := os.Stat(filepath.Join(f.state.run(id.String()), runningFile))
			return err == nil || exists(f.state.run(id.String()), exitFile)
		})
		require.NoError(t, f.Kill(t.Context(), id, 0))
		if s := f.ended(id); s.State != cluster.TaskKilled {
			require.Equal(t, cluster.ReasonLaunchRefused, s.Reason, s.Message)
			require.Contains(t, s.Message, "no space left on device")
			refused++
		}
	}
	return refused
}

// TestFullOfKept: where ended runs fill the disk, the oldest give way to what is to run, whatever the retention says.
func TestFullOfKept(t *testing.T) {
	small, free := smallDisk(t)
	f := newFixture(t, func(c *Config) { c.Dir = filepath.Join(small, "state") })
	for i := range 3 {
		id := f.shell(i, "head -c 100000 /dev/zero > part", nil)
		f.ended(id)
		f.Release(id)
	}
	id := f.shell(3, "cat /dev/zero > full", nil)
	require.Equal(t, cluster.TaskFailed, f.ended(id).State)
	f.Release(id)
	require.Zero(t, free())
	l := hostmgr.Launch{Run: cluster.RunID{Task: 1, Run: 1}, Host: "h0", Task: cluster.TaskSpec{Processes: []cluster.Process{{Command: []string{"true"}}}}}
	require.ErrorIs(t, f.Launch(t.Context(), l), hostmgr.ErrRefused)
	eventually(t, "the disk has room", func() bool { return free() > meansBytes/4096 })
	l.Run.Run++
	require.NoError(t, f.Launch(t.Context(), l))
	require.Equal(t, cluster.TaskSucceeded, f.ended(l.Run).State)
	require.Empty(t, f.output(id, 0), "the newest is kept as long as others make room enough")
}

// TestKeptRoom: the records that end a run are written where room was kept for them.
func TestKeptRoom(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, keepRoom(dir))
	for _, name := range []string{killFile, exitFile} {
		kept, err := os.Stat(filepath.Join(dir, name+".new"))
		require.NoError(t, err)
		require.NoError(t, writeRecord(dir, name, killRecord{Reason: "first"}, synced))
		written, err := os.Stat(filepath.Join(dir, name))
		require.NoError(t, err)
		require.True(t, os.SameFile(kept, written))
	}
	require.NoError(t, os.WriteFile(filepath.Join(dir, killFile+".new"), bytes.Repeat([]byte("x"), 100), 0o600))
	require.NoError(t, writeRecord(dir, killFile, killRecord{Reason: "again"}, unsynced))
	kill, err := readRecord[killRecord](dir, killFile)
	require.NoError(t, err)
	require.Equal(t, "again", kill.Reason, "what was left of an attempt is gone")
}

// What is in a folder counts once: links to elsewhere do not.
func TestSizeOfAFolder(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(dir, "sub"), 0o700))
	for name, text := range map[string]string{"a": "123", "sub/b": "4567"} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	require.NoError(t, os.Symlink("a", filepath.Join(dir, "link")))
	require.EqualValues(t, 7, size(dir))
}
