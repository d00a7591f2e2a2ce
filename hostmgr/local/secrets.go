//go:build linux

package local

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/sluice-scheduler/sluice/cluster"
	"github.com/sluice-scheduler/sluice/hostmgr"
)

// Secrets are files in memory: never on a disk, not in the launch record, and gone with the machine. The files of a run
// are there before its launch is recorded, so that a run that may start has them, and they go when it has ended. What a
// crash leaves goes at the next start, and what could not be removed when it was looked for again. A run that has not begun when a
// driver comes back, and whose files have gone, as with the memory of a container, is given back.

// findSecrets returns the folder in memory for the runs of this driver's state folder, or why there is none.
func findSecrets(c Config) (string, error) {
	candidates := []string{c.SecretsDir}
	if c.SecretsDir == "" {
		candidates = []string{os.Getenv("XDG_RUNTIME_DIR"), "/dev/shm"}
		if os.Getuid() == 0 { // tasks may run as other users, to whom root's folder is closed
			candidates = candidates[1:]
		}
	}
	problem := errors.New("there is no folder on a file system in memory; local.secrets_dir names one")
	for _, dir := range candidates {
		if dir == "" {
			continue
		}
		var fs unix.Statfs_t
		if err := unix.Statfs(dir, &fs); err != nil {
			problem = fmt.Errorf("folder %s: %w", dir, err)
			continue
		}
		if fs.Type != unix.TMPFS_MAGIC && fs.Type != unix.RAMFS_MAGIC {
			problem = fmt.Errorf("folder %s is not on a file system in memory", dir)
			continue
		}
		if unix.Access(dir, unix.W_OK|unix.X_OK) != nil {
			problem = fmt.Errorf("folder %s cannot be written to", dir)
			continue
		}
		return filepath.Join(dir, fmt.Sprintf("sluice-%d-%s", os.Getuid(), folderID(c.Dir))), nil
	}
	return "", problem
}

// errSecrets: the secrets of a run could not be written.
var errSecrets = errors.New("local: secrets")

func (d *driver) secretsOf(run cluster.RunID) string { return filepath.Join(d.secrets, run.String()) }

// checkSecrets refuses paths that lead out of the folder of the secrets.
func checkSecrets(list []hostmgr.SecretFile) error {
	for i, s := range list {
		if !filepath.IsLocal(s.Path) || filepath.Clean(s.Path) != s.Path || s.Path == "." {
			return fmt.Errorf("local: launch: secrets[%d] goes to %q, which is not inside the folder of the secrets", i, s.Path)
		}
	}
	return nil
}

// writeSecrets makes the files of a run, which only its user can read.
func (d *driver) writeSecrets(l *hostmgr.Launch) error {
	if len(l.Secrets) == 0 {
		return nil
	}
	owner, several, err := soleUser(l)
	if err != nil {
		return err
	}
	if several {
		return errors.New("the processes of a task with secrets have to run as one user")
	}
	dir := d.secretsOf(l.Run)
	if err := d.makeSecretsRoot(); err != nil {
		return err
	}
	if err := removeAll(dir); err != nil { // of an attempt that was not recorded
		return err
	}
	for _, s := range l.Secrets {
		path := filepath.Join(dir, s.Path)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			return err
		}
		if err := os.WriteFile(path, s.Value, 0o400); err != nil {
			return err
		}
	}
	if owner == nil {
		return nil
	}
	return filepath.WalkDir(dir, func(path string, _ os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return os.Chown(path, int(owner.UID), int(owner.GID))
	})
}

// makeSecretsRoot makes the folder of all runs. One that somebody else has made is not used.
func (d *driver) makeSecretsRoot() error {
	if err := os.Mkdir(d.secrets, 0o711); err != nil && !errors.Is(err, os.ErrExist) {
		return err
	}
	var info unix.Stat_t
	if err := unix.Lstat(d.secrets, &info); err != nil {
		return err
	}
	if info.Mode&unix.S_IFMT != unix.S_IFDIR || info.Uid != uint32(os.Getuid()) || info.Mode&0o022 != 0 {
		return fmt.Errorf("%s was made by somebody else: remove it", d.secrets)
	}
	if err := os.Chmod(d.secrets, 0o711); err != nil { // the umask may keep the users of tasks out
		return err
	}
	return nil
}

// soleUser returns the user that all processes run as, nil for the driver's own, and whether there are several.
func soleUser(l *hostmgr.Launch) (sole *account, several bool, err error) {
	first := true
	for _, list := range [][]cluster.Process{l.Task.Init, l.Task.Processes} {
		for i := range list {
			a, err := findUser(list[i].User)
			if err != nil {
				return nil, false, err
			}
			if !first && ((a == nil) != (sole == nil) || a != nil && a.UID != sole.UID) {
				return nil, true, nil
			}
			sole, first = a, false
		}
	}
	return sole, false, nil
}

// secrets returns the folder with the secrets of the run, "" if it has none. A driver of before may have had them elsewhere.
func (l *launchRecord) secrets() string {
	if told := l.Launch.Told; len(l.Launch.Secrets) > 0 && len(told) > 0 && told[0].Key == cluster.VarSecretsDir {
		return told[0].Value
	}
	return ""
}

// dropSecrets removes the files of a run.
func (d *driver) dropSecrets(r *run) (err error) {
	if d.secrets != "" {
		err = removeAll(d.secretsOf(r.id))
	}
	if r.secrets != "" {
		err = errors.Join(err, removeAll(r.secrets))
	}
	return err
}

// sweepSecrets removes the files of runs that have ended or were never recorded.
func (d *driver) sweepSecrets() error {
	for _, r := range d.runs {
		if r.status.State.Terminal() && r.secrets != "" { // which is being set as long as it has none
			if err := removeAll(r.secrets); err != nil {
				return err
			}
		}
	}
	if d.secrets == "" {
		return nil
	}
	entries, err := os.ReadDir(d.secrets)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	for _, e := range entries {
		id, err := cluster.ParseRunID(e.Name())
		if r := d.runs[id]; err == nil && r != nil && !r.status.State.Terminal() {
			continue
		}
		if err := removeAll(filepath.Join(d.secrets, e.Name())); err != nil {
			return err
		}
	}
	return err
}
