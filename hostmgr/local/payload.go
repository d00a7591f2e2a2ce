//go:build linux

package local

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/sluice-scheduler/sluice/cluster"
	"github.com/sluice-scheduler/sluice/hostmgr"
)

// Capabilities implements [hostmgr.Capable]. Another user needs the rights of root.
func (d *driver) Capabilities() cluster.Capabilities {
	can := cluster.CanGroups | cluster.CanFetch | cluster.CanHealthChecks | cluster.CanVolumes | cluster.CanHostPaths |
		cluster.CanScratch | cluster.CanPorts | cluster.CanWarn
	if d.secrets != "" {
		can |= cluster.CanSecrets
	}
	if os.Geteuid() == 0 {
		can |= cluster.CanUsers
	}
	return can
}

// check refuses payloads that no processes can be made of.
func check(l *hostmgr.Launch) error {
	if len(l.Task.Processes) == 0 {
		return errors.New("local: launch: there is no process, and so no command")
	}
	if l.Task.LogLimitBytes < 0 {
		return fmt.Errorf("local: launch: log limit of %d bytes is negative", l.Task.LogLimitBytes)
	}
	if err := checkSecrets(l.Secrets); err != nil {
		return err
	}
	for i := range l.Task.Init {
		if err := checkProcess(l, &l.Task.Init[i], fmt.Sprintf("init[%d]", i)); err != nil {
			return err
		}
	}
	for i := range l.Task.Processes {
		if err := checkProcess(l, &l.Task.Processes[i], fmt.Sprintf("processes[%d]", i)); err != nil {
			return err
		}
	}
	for i, v := range l.Task.Volumes {
		if v.Name != "" && (filepath.Base(v.Name) != v.Name || !filepath.IsLocal(v.Name) || v.Name == ".") {
			return fmt.Errorf("local: launch: volumes[%d]: %q cannot name a volume: it leads to another folder", i, v.Name)
		}
		if l.Task.VolumeNeeds(i)&cluster.CanMount != 0 || v.MountPath != v.HostPath && !filepath.IsLocal(v.MountPath) {
			return fmt.Errorf("local: launch: volumes[%d] at %q cannot be mounted by this host manager: give a path inside the run's own folder and outside of other volumes, without read-only", i, v.MountPath)
		}
	}
	return nil
}

func checkProcess(l *hostmgr.Launch, p *cluster.Process, at string) error {
	if argv := p.Argv(); len(argv) == 0 || argv[0] == "" {
		return fmt.Errorf("local: launch: %s: the command is empty", at)
	}
	if strings.ContainsAny(p.Name, "/\x00") {
		return fmt.Errorf("local: launch: %s: %q cannot name a log", at, p.Name)
	}
	for i, arg := range p.Argv() {
		if strings.ContainsRune(arg, 0) {
			return fmt.Errorf("local: launch: %s: command[%d] contains a zero byte", at, i)
		}
	}
	for i, kv := range slices.Concat(l.Env, p.Env) {
		if kv.Key == "" || strings.ContainsAny(kv.Key, "=\x00") || strings.ContainsRune(kv.Value, 0) {
			return fmt.Errorf("local: launch: %s: env[%d] %q is not a name without '=' and a value without zero bytes", at, i, kv.Key)
		}
	}
	if p.WorkDir != "" && !filepath.IsAbs(p.WorkDir) && !filepath.IsLocal(p.WorkDir) || strings.ContainsRune(p.WorkDir, 0) {
		return fmt.Errorf("local: launch: %s: work dir %q is neither an absolute path nor one inside the run's own folder", at, p.WorkDir)
	}
	if p.Container != nil {
		return fmt.Errorf("local: launch: %s: this host manager runs no containers", at)
	}
	for i := range p.Fetch {
		target := p.Fetch[i].Target()
		if !filepath.IsLocal(target) {
			return fmt.Errorf("local: launch: %s: fetch[%d] goes to %q, which is not inside the run's own folder", at, i, target)
		}
		for _, v := range l.Task.Volumes {
			if _, ok := inside(target, v.MountPath); ok {
				return fmt.Errorf("local: launch: %s: fetch[%d] goes to %q, which is in the volume at %q: fetch it beside, and have an init step copy it",
					at, i, target, v.MountPath)
			}
		}
	}
	if _, err := findUser(p.User); err != nil {
		return fmt.Errorf("local: launch: %s: %w", at, err)
	}
	return nil
}

// account is a user of this machine; nil stands for the driver's own.
type account struct {
	credential
	name, home string
}

// findUser looks a user up by name or number, nil for "".
func findUser(name string) (*account, error) {
	if name == "" {
		return nil, nil
	}
	u, err := user.Lookup(name)
	if err != nil {
		if u, err = user.LookupId(name); err != nil {
			return nil, fmt.Errorf("user %q is not known on this machine", name)
		}
	}
	groups, err := u.GroupIds()
	if err != nil {
		return nil, fmt.Errorf("user %q: %w", name, err)
	}
	a := &account{name: u.Username, home: u.HomeDir}
	for _, id := range append([]string{u.Uid, u.Gid}, groups...) {
		n, err := strconv.ParseUint(id, 10, 32)
		if err != nil {
			return nil, fmt.Errorf("user %q: %w", name, err)
		}
		a.Groups = append(a.Groups, uint32(n))
	}
	a.UID, a.GID, a.Groups = a.Groups[0], a.Groups[1], a.Groups[2:]
	return a, nil
}

// processRecords makes the processes of a list ready to be started.
func (d *driver) processRecords(l *hostmgr.Launch, list []cluster.Process, dir string) ([]processRecord, error) {
	var all []processRecord
	logged, err := l.ProcessName("")
	if err != nil {
		return nil, err
	}
	for i := range list {
		p := &list[i]
		owner, err := findUser(p.User)
		if err != nil {
			return nil, err
		}
		rec := processRecord{
			Name: p.Name, Argv: p.Argv(), Env: d.environment(l, p, owner, dir), Dir: workDir(p.WorkDir, dir), Main: p.Main,
		}
		if p.Shell == "" {
			rec.Argv = l.Expand(p.Command, d.config.Address)
		}
		rec.Log = logPrefix(p.Name, logged)
		if owner != nil {
			rec.User = &owner.credential
		}
		all = append(all, rec)
	}
	return all, nil
}

// logPrefix is what the names of a process's logs begin with: nothing for the process that is read where none is named.
func logPrefix(name, logged string) string {
	if name == logged {
		return ""
	}
	return name + "."
}

// volumeRecords lists the volumes of a task, those that others are in before these.
func (d *driver) volumeRecords(l *hostmgr.Launch, dir string) []volumeRecord {
	var all []volumeRecord
	for i, v := range l.Task.Volumes {
		rec := volumeRecord{Link: filepath.Join(dir, workFolder, v.MountPath)}
		switch {
		case v.Name != "":
			name := v.NameFor(l.Run.Task.Instance())
			rec.Source, rec.Make = d.state.volume(l.Host, name), true
		case v.HostPath != "":
			rec.Source = v.HostPath
			if v.MountPath == v.HostPath {
				rec.Link = ""
			}
		default:
			rec.Source, rec.Make, rec.Limit = filepath.Join(dir, scratches, strconv.Itoa(i)), true, v.ScratchBytes
		}
		for _, p := range slices.Concat(l.Task.Init, l.Task.Processes) {
			if within, ok := inside(p.WorkDir, v.MountPath); ok && rec.Make {
				rec.Folders = append(rec.Folders, within)
			}
		}
		all = append(all, rec)
	}
	slices.SortFunc(all, func(a, b volumeRecord) int { return strings.Compare(a.Link, b.Link) })
	return all
}

// inside returns the path within a folder, of one that is in it.
func inside(path, folder string) (within string, ok bool) {
	within, err := filepath.Rel(folder, path)
	return within, err == nil && filepath.IsLocal(within)
}

// ownFolders lists what there has to be in a task's own folder from the beginning: where its processes begin, and what leads to
// its volumes. What is in a volume comes with it.
func ownFolders(task *cluster.TaskSpec) []string {
	var all []string
	add := func(path string) {
		inVolume := slices.ContainsFunc(task.Volumes, func(v cluster.Volume) bool { _, ok := inside(path, v.MountPath); return ok })
		if filepath.IsLocal(path) && !inVolume {
			all = append(all, path)
		}
	}
	for _, p := range slices.Concat(task.Init, task.Processes) {
		add(p.WorkDir)
	}
	for _, v := range task.Volumes {
		add(filepath.Dir(v.MountPath))
	}
	return all
}

// workDir returns where a process begins: an absolute path as it is, another inside the run's own folder, where it is
// made.
func workDir(named, dir string) string {
	if filepath.IsAbs(named) {
		return named
	}
	return filepath.Join(dir, workFolder, named)
}

// inherited variables make up the base environment of a process, where the driver has them itself.
var inherited = []string{"HOME", "LANG", "LC_ALL", "LOGNAME", "TZ", "USER"}

const defaultPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// environment returns all variables of a process: the base, those that tell it who it is, and the job's own, which win.
func (d *driver) environment(l *hostmgr.Launch, p *cluster.Process, owner *account, dir string) []string {
	var env []string
	at := map[string]int{}
	set := func(key, value string) {
		if i, ok := at[key]; ok {
			env[i] = key + "=" + value
			return
		}
		at[key] = len(env)
		env = append(env, key+"="+value)
	}
	set("PATH", cmp.Or(os.Getenv("PATH"), defaultPath))
	for _, key := range inherited {
		if value, ok := os.LookupEnv(key); ok {
			set(key, value)
		}
	}
	if owner != nil {
		set("HOME", owner.home)
		set("USER", owner.name)
		set("LOGNAME", owner.name)
	}
	set("TMPDIR", filepath.Join(dir, tempFolder))
	set(runDirVariable, runDirValue(dir))
	if l.Progress > 0 {
		set(cluster.VarProgressFile, filepath.Join(dir, progressFile))
	}
	for _, kv := range l.Environment(p, d.config.Address) {
		set(kv.Key, kv.Value)
	}
	return env
}

// runDirVariable names the task's own folder. Because no other run has the same value, it also marks the task's
// processes; see leftovers.
const runDirVariable = "SLUICE_RUN_DIR"

func runDirValue(dir string) string { return filepath.Join(dir, workFolder) }
