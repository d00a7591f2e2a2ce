//go:build linux

package local

import (
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/sluice-scheduler/sluice/cluster"
	"github.com/sluice-scheduler/sluice/hostmgr"
)

func TestFindSecrets(t *testing.T) {
	_, problem := findSecrets(Config{Dir: "/x", SecretsDir: "/proc"})
	require.ErrorContains(t, problem, "not on a file system in memory")
	_, problem = findSecrets(Config{Dir: "/x", SecretsDir: "/nowhere"})
	require.ErrorContains(t, problem, "/nowhere")
}

// The folder that root has for himself is not one for the users of tasks.
func TestSecretsAreWhereUsersGet(t *testing.T) {
	own, err := os.MkdirTemp("/dev/shm", "sluice-test")
	if err != nil {
		t.Skipf("no file system in memory: %v", err)
	}
	defer func() { _ = os.Remove(own) }()
	t.Setenv("XDG_RUNTIME_DIR", own)
	in, problem := findSecrets(Config{Dir: "/x"})
	require.NoError(t, problem)
	want := own
	if os.Getuid() == 0 {
		want = "/dev/shm"
	}
	require.Equal(t, want, filepath.Dir(in))
	again, _ := findSecrets(Config{Dir: "/x/y/../"})
	require.Equal(t, in, again, "a folder of state that is spelt otherwise")
}

func TestPathsOfSecretsStayInside(t *testing.T) {
	for _, path := range []string{"", "/etc/passwd", "..", "../x", "a/../../x", "a//b", "./a", "."} {
		require.Error(t, checkSecrets([]hostmgr.SecretFile{{Path: path}}), path)
	}
	require.NoError(t, checkSecrets([]hostmgr.SecretFile{{Path: "a/b"}}))
}

// The folder of the secrets is one that nobody else can write to, or has put something in the place of.
func TestTheFolderOfSecretsIsOnesOwn(t *testing.T) {
	dir := t.TempDir()
	d := &driver{secrets: filepath.Join(dir, "secrets")}
	require.NoError(t, d.makeSecretsRoot())
	require.NoError(t, d.makeSecretsRoot(), "it is there")
	for _, mode := range []os.FileMode{0o731, 0o713} {
		require.NoError(t, os.Chmod(d.secrets, mode))
		require.ErrorContains(t, d.makeSecretsRoot(), "somebody else", mode)
	}
	require.NoError(t, os.Remove(d.secrets))
	require.NoError(t, os.Symlink(dir, d.secrets))
	require.ErrorContains(t, d.makeSecretsRoot(), "somebody else")
	require.NoError(t, os.Remove(d.secrets))
	require.NoError(t, os.WriteFile(d.secrets, nil, 0o711))
	require.ErrorContains(t, d.makeSecretsRoot(), "somebody else")
}

// The files are of one user: a task whose processes run as several has none.
func TestSecretsAreForOneUser(t *testing.T) {
	if _, err := user.Lookup("nobody"); err != nil {
		t.Skip("there is no user named nobody")
	}
	process := func(user string) cluster.Process { return cluster.Process{User: user} }
	for _, c := range []struct {
		init, main []string
		several    bool
	}{
		{nil, []string{"", ""}, false},
		{nil, []string{"root", "root"}, false},
		{[]string{"root"}, []string{"root"}, false},
		{nil, []string{"root", "nobody"}, true},
		{[]string{"nobody"}, []string{"root"}, true},
		{nil, []string{"root", ""}, true},
		{nil, []string{"", "root"}, true},
	} {
		l := &hostmgr.Launch{Secrets: []hostmgr.SecretFile{{Path: "a"}}}
		for _, u := range c.init {
			l.Task.Init = append(l.Task.Init, process(u))
		}
		for _, u := range c.main {
			l.Task.Processes = append(l.Task.Processes, process(u))
		}
		sole, several, err := soleUser(l)
		require.NoError(t, err)
		require.Equal(t, c.several, several, "%+v", c)
		require.Equal(t, !c.several && c.main[0] == "root", sole != nil, "%+v", c)
		if c.several {
			require.ErrorContains(t, (&driver{}).writeSecrets(l), "one user")
		}
	}
}

// The files of a run are on a file system in memory, for its user alone, and in no record; they go when it has ended.
func TestSecretsOfARun(t *testing.T) {
	f := newFixture(t, nil)
	if f.secrets == "" {
		t.Skipf("secrets need a file system in memory: %v", f.secretsProblem)
	}
	require.NotZero(t, f.Capabilities()&cluster.CanSecrets)
	const value = "hush-canary"
	give := func(l *hostmgr.Launch) {
		l.Secrets = []hostmgr.SecretFile{{Path: "db/password", Value: []byte(value)}}
	}
	id := f.shell(1, `stat -c %a "$SLUICE_SECRETS_DIR/db/password"; tr a-z A-Z <"$SLUICE_SECRETS_DIR/db/password"; echo; exec sleep 60`, give)
	f.says(id, "400\nHUSH-CANARY\n")
	stays := filepath.Join(f.secretsOf(id), "db", "password")
	require.FileExists(t, stays)
	require.NoError(t, filepath.WalkDir(f.config.Dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() {
			return err
		}
		content, err := os.ReadFile(path)
		require.NotContains(t, string(content), value, path)
		require.NotContains(t, string(content), "aHVzaC1jYW5hcnk", path) // in base64
		return err
	}))

	// A driver that comes back leaves what runs its files, and takes a repeated launch for the same one.
	stray := filepath.Join(f.secrets, "stray")
	require.NoError(t, os.Mkdir(stray, 0o700))
	f.reopen()
	require.FileExists(t, stays)
	require.NoDirExists(t, stray)
	f.shell(1, `stat -c %a "$SLUICE_SECRETS_DIR/db/password"; tr a-z A-Z <"$SLUICE_SECRETS_DIR/db/password"; echo; exec sleep 60`, give)
	require.NoError(t, f.Kill(t.Context(), id, 0))
	f.ended(id)
	require.NoDirExists(t, f.secretsOf(id))
	f.reopen()
	require.NoDirExists(t, f.secrets, "it is made when it is needed")
}

// The files of a run go with its end also where the driver has its secrets in another folder since.
func TestSecretsInTheFolderOfBefore(t *testing.T) {
	other, err := os.MkdirTemp("/dev/shm", "other-")
	if err != nil {
		t.Skip("secrets need a file system in memory: ", err)
	}
	t.Cleanup(func() { require.NoError(t, removeAll(other)) })
	f := newFixture(t, func(c *Config) { c.SecretsDir = other })
	if f.secrets == "" {
		t.Skipf("secrets need a file system in memory: %v", f.secretsProblem)
	}
	give := func(l *hostmgr.Launch) { l.Secrets = []hostmgr.SecretFile{{Path: "password", Value: []byte("hush")}} }
	meanwhile := f.shell(1, `cat "$SLUICE_SECRETS_DIR/password"; exec sleep 1000`, give)
	later := f.shell(2, `cat "$SLUICE_SECRETS_DIR/password"; exec sleep 1000`, give)
	f.says(meanwhile, "hush")
	f.says(later, "hush")
	before, pid := f.secrets, f.processOf(meanwhile)
	require.NoError(t, f.Close())
	require.NoError(t, unix.Kill(pid, unix.SIGKILL))
	eventually(t, "it ends", func() bool { return exists(f.state.run(meanwhile.String()), exitFile) })
	f.config.SecretsDir = ""
	f.sink.Forget()
	f.start()
	require.NoDirExists(t, filepath.Join(before, meanwhile.String()))
	require.DirExists(t, filepath.Join(before, later.String()))
	require.NoError(t, f.Kill(t.Context(), later, 0))
	f.ended(later)
	require.NoDirExists(t, filepath.Join(before, later.String()))
}

// A launch that an earlier driver recorded is given back where the memory with its secrets has gone since, as with a container, or
// when a user has logged out.
func TestSecretsThatAreGone(t *testing.T) {
	f := newFixture(t, nil)
	if f.secrets == "" {
		t.Skipf("secrets need a file system in memory: %v", f.secretsProblem)
	}
	for range cap(f.starting) {
		f.starting <- struct{}{} // none begins
	}
	id := f.shell(1, "exit 7", func(l *hostmgr.Launch) { l.Secrets = []hostmgr.SecretFile{{Path: "password", Value: []byte("hush")}} })
	require.NoError(t, f.Close())
	require.NoError(t, removeAll(f.secrets))
	f.sink.Forget()
	f.start()
	s := f.ended(id)
	require.Equal(t, cluster.ReasonLaunchRefused, s.Reason, "%+v", s)
	require.Contains(t, s.Message, "its secrets are gone")
}

func TestWithoutMemoryThereAreNoSecrets(t *testing.T) {
	f := newFixture(t, func(c *Config) { c.SecretsDir = "/proc" })
	require.Zero(t, f.Capabilities()&cluster.CanSecrets)
	for _, h := range f.sink.Hosts() {
		require.Contains(t, strings.Join(h.Machine.Notes, " "), "tasks with secrets do not run here")
	}
}

// The users of tasks get through to the files of their runs, whatever the umask.
func TestTheFolderOfSecretsLetsUsersThrough(t *testing.T) {
	d := &driver{secrets: filepath.Join(t.TempDir(), "secrets")}
	umask := unix.Umask(0o077)
	err := d.makeSecretsRoot()
	unix.Umask(umask)
	require.NoError(t, err)
	info, err := os.Stat(d.secrets)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o711), info.Mode().Perm())
}

// Where the folder for secrets is full, the launch is given back, and says that it is not the disk.
func TestTheFolderOfSecretsIsFull(t *testing.T) {
	small, _ := smallDisk(t)
	f := newFixture(t, func(c *Config) { c.SecretsDir = small })
	err := f.Launch(t.Context(), hostmgr.Launch{
		Run: cluster.RunID{Task: 1, Run: 1}, Host: "h0",
		Task:    cluster.TaskSpec{Processes: []cluster.Process{{Command: []string{"true"}}}},
		Secrets: []hostmgr.SecretFile{{Path: "large", Value: make([]byte, 2<<20)}},
	})
	require.ErrorIs(t, err, hostmgr.ErrRefused)
	require.ErrorContains(t, err, "the folder for secrets: no space left on device")
	require.NoDirExists(t, f.secretsOf(cluster.RunID{Task: 1, Run: 1}))
}
