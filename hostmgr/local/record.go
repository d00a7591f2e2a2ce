//go:build linux

package local

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sluice-scheduler/sluice/cluster"
	"github.com/sluice-scheduler/sluice/hostmgr"
)

// The files in the folder of a run. Who may write which, and when, is argued in the package documentation.
const (
	launchFile  = "launch"  // by the driver before the run is known to anybody: what to run
	lockFile    = "lock"    // locked by the supervisor while it lives
	startedFile = "started" // by the holder of the lock, once: from here on the run may have started
	runningFile = "running" // by the supervisor: the task's process exists
	killFile    = "kill"    // by the driver: the run is to end
	exitFile    = "exit"    // by the holder of the lock, once: how it ended
	errorFile   = "errors"  // stderr of the supervisor
	workFolder  = "work"    // the task's own
	tempFolder  = "tmp"     // the task's TMPDIR
	healthFile  = "health"  // by the supervisor: what the checks say
	scratches   = "scratch" // scratch volumes

	progressFile = tempFolder + "/sluice-progress" // by the task: how far it is
)

type (
	// launchRecord is all that a supervisor needs to know.
	launchRecord struct {
		Launch    hostmgr.Launch
		At        cluster.Time
		Boot      string          // id of the boot of the machine in which the launch was recorded
		Address   string          // of the host
		Init      []processRecord `json:",omitempty"`
		Processes []processRecord
		Volumes   []volumeRecord `json:",omitempty"`
		LogLimit  int64          // of each output
		Cgroup    *cgroupLimits  `json:",omitempty"`
	}
	// processRecord is one process, ready to be started.
	processRecord struct {
		Name string
		Log  string // what the names of its logs begin with
		Argv []string
		Env  []string    // whole environment
		Dir  string      // working directory
		User *credential `json:",omitempty"` // nil: the driver's own
		Main bool
	}
	// credential is a user as the kernel knows it.
	credential struct {
		UID, GID uint32
		Groups   []uint32
	}
	// volumeRecord is a folder that the task finds in its own.
	volumeRecord struct {
		Source string // absolute
		Link   string // in the task's own folder; "" where the task uses Source itself
		Make   bool   // Source is made if it does not exist
		Limit  int64  // bytes that it may hold, 0 = no limit

		Folders []string `json:",omitempty"` // in it, that are made if they do not exist
	}
	// healthRecord is what the checks of the task say.
	healthRecord struct {
		Health  cluster.Health
		Message string
		At      cluster.Time
	}
	// startedRecord tells whom to look for when the supervisor is gone. It may be empty: it is written after the file
	// was created.
	startedRecord struct {
		Supervisor int    // its process id, which is also its session
		PIDs       string // the namespace in which that number means something
	}
	runningRecord struct {
		PID int // of the task's first process, which is also its process group
		At  cluster.Time
	}
	killRecord struct {
		Grace   time.Duration // from the moment at which the supervisor sees it
		Command []string      `json:",omitempty"` // to run first
		Reason  string        `json:",omitempty"` // for the command
	}
	exitRecord struct {
		State    cluster.TaskState
		ExitCode int32
		Signal   int32
		Reason   cluster.Reason
		Message  string
		At       cluster.Time
		Lacks    bool `json:",omitempty"` // it was for something that the machine has run out of
	}
)

// durability says whether a record must survive the machine, or only the processes on it.
type durability bool

const (
	synced   durability = true
	unsynced durability = false
)

// writeRecord makes v the content of a file, all at once.
func writeRecord(dir, name string, v any, d durability) error {
	data, err := json.Marshal(v)
	if err != nil {
		return err
	}
	path := filepath.Join(dir, name)
	if err := writeNew(path+".new", data, d); err != nil {
		return err
	}
	if err := os.Rename(path+".new", path); err != nil {
		return err
	}
	if d == synced {
		return syncDir(dir)
	}
	return nil
}

// overwriteRecord puts v in the place of what a record holds, with one write and without any more room.
func overwriteRecord(dir, name string, v any) error {
	data, err := json.Marshal(v)
	if err != nil {
		return err
	}
	f, err := os.OpenFile(filepath.Join(dir, name), os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	info, err := f.Stat()
	if err == nil {
		data = append(data, bytes.Repeat([]byte{' '}, max(0, int(info.Size())-len(data)))...)
		_, err = f.Write(data)
	}
	return errors.Join(err, f.Close())
}

// writeNew overwrites what there is, and does not make it empty before: room that was kept for it is not given back.
func writeNew(path string, data []byte, d durability) (err error) {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if _, err := f.Write(data); err != nil {
		return err
	}
	if err := f.Truncate(int64(len(data))); err != nil {
		return err
	}
	if d == synced {
		return f.Sync()
	}
	return nil
}

// recordRoom is how many bytes are kept for a record that has to be written whatever happens; most are much smaller.
const recordRoom = 4 << 10

// keepRoom takes room on the disk for the records that a run runs and with which it ends, and makes the files without which no
// supervisor starts and nobody may write these: one that has filled the disk can be ended all the same. A file system that cannot keep
// room for a file has none kept.
func keepRoom(dir string) error {
	for _, name := range []string{lockFile, errorFile} {
		if err := writeNew(filepath.Join(dir, name), nil, unsynced); err != nil {
			return err
		}
	}
	for _, name := range []string{runningFile, killFile, exitFile} {
		f, err := os.OpenFile(filepath.Join(dir, name+".new"), os.O_WRONLY|os.O_CREATE, 0o600)
		if err != nil {
			return err
		}
		err = unix.EINTR
		for errors.Is(err, unix.EINTR) {
			err = unix.Fallocate(int(f.Fd()), unix.FALLOC_FL_KEEP_SIZE, 0, recordRoom)
		}
		if trouble(err) == 0 {
			err = nil
		}
		if err := errors.Join(err, f.Close()); err != nil {
			return err
		}
	}
	return nil
}

// syncDir makes the names in a folder durable.
func syncDir(dir string) (err error) {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	return f.Sync()
}

// errDamaged: a record is not what was written.
var errDamaged = errors.New("damaged")

// readRecord reads what writeRecord wrote. A record that does not exist is nil without an error.
func readRecord[T any](dir, name string) (*T, error) {
	data, err := os.ReadFile(filepath.Join(dir, name))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	v := new(T)
	if err := json.Unmarshal(data, v); err != nil {
		return nil, fmt.Errorf("%s is %w: %w", filepath.Join(dir, name), errDamaged, err)
	}
	return v, nil
}

// readLaunch reads what is to be run. A run has that from the beginning, so without it its folder is damaged.
func readLaunch(dir string) (*launchRecord, error) {
	launch, err := readRecord[launchRecord](dir, launchFile)
	if err == nil && launch == nil {
		err = fmt.Errorf("%s is %w: it does not hold the launch of the run", dir, errDamaged)
	}
	return launch, err
}

// readExit reads how a run ended, nil if it has not. It is recorded last: of a run whose record is damaged nothing is left.
func readExit(dir string) (*exitRecord, error) {
	exit, err := readRecord[exitRecord](dir, exitFile)
	if errors.Is(err, errDamaged) {
		lost := supervisorLost("the record of its end is damaged")
		lost.At = now()
		return &lost, nil
	}
	return exit, err
}

func exists(dir, name string) bool {
	_, err := os.Lstat(filepath.Join(dir, name))
	return err == nil
}

func now() cluster.Time { return cluster.Time(time.Now().UnixNano()) }

// bootID names the current boot of the machine.
func bootID() (string, error) {
	id, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	return string(id), err
}
