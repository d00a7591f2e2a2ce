//go:build linux

package local

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/sluice-scheduler/sluice/cluster"
	"github.com/sluice-scheduler/sluice/hostmgr"
)

// task launches a task as the n-th run.
func (f *fixture) task(n int, task cluster.TaskSpec, change func(*hostmgr.Launch)) cluster.RunID {
	f.Helper()
	return f.shell(n, "", func(l *hostmgr.Launch) {
		l.Task = task
		if change != nil {
			change(l)
		}
	})
}

func sh(name, text string) cluster.Process { return cluster.Process{Name: name, Shell: text} }

// log reads the stdout of a process.
func (f *fixture) log(id cluster.RunID, process string) string {
	f.Helper()
	log, err := f.OpenLog(f.Context(), hostmgr.LogRequest{Run: id, Process: process})
	require.NoError(f, err)
	data, err := io.ReadAll(log)
	require.NoError(f, err)
	require.NoError(f, log.Close())
	return string(data)
}

func TestInitStepsRunInOrder(t *testing.T) {
	f := newFixture(t, nil)
	id := f.task(0, cluster.TaskSpec{
		Init:      []cluster.Process{sh("one", "echo 1 >> order; echo from one; sleep 1000 &"), sh("two", "cat order; echo 2 >> order")},
		Processes: []cluster.Process{sh("work", "echo 3 >> order; cat order")},
	}, nil)
	s := f.ended(id)
	require.Equal(t, cluster.TaskSucceeded, s.State, "%+v", s)
	require.Equal(t, "1\n2\n3\n", f.output(id, 0))
	require.Equal(t, "from one\n", f.log(id, "one"))
	require.Equal(t, "1\n", f.log(id, "two"))
	require.Equal(t, "1\n2\n3\n", f.log(id, "work"))
	_, err := f.OpenLog(t.Context(), hostmgr.LogRequest{Run: id, Process: "three"})
	require.ErrorIs(t, err, hostmgr.ErrUnknownProcess)
	require.ErrorContains(t, err, `"work", "one", "two"`)
	var states []cluster.TaskState
	for _, s := range f.sink.Statuses(id) {
		states = append(states, s.State)
	}
	require.Equal(t, []cluster.TaskState{cluster.TaskLaunching, cluster.TaskStarting, cluster.TaskRunning, cluster.TaskSucceeded}, states)
}

func TestInitStepFails(t *testing.T) {
	f := newFixture(t, nil)
	id := f.task(0, cluster.TaskSpec{
		Init:      []cluster.Process{sh("one", "exit 3"), sh("two", "touch two")},
		Processes: []cluster.Process{sh("work", "touch work")},
	}, nil)
	s := f.ended(id)
	require.Equal(t, cluster.TaskFailed, s.State)
	require.Equal(t, cluster.ReasonExited, s.Reason)
	require.EqualValues(t, 3, s.ExitCode)
	require.Equal(t, `init step "one" ended with exit code 3`, s.Message)
	require.NoFileExists(t, filepath.Join(f.state.run(id.String()), workFolder, "two"))
	require.NoFileExists(t, filepath.Join(f.state.run(id.String()), workFolder, "work"))
}

// TestKillOfAnInitStep: what is killed while its init steps run says so.
func TestKillOfAnInitStep(t *testing.T) {
	f := newFixture(t, nil)
	id := f.task(0, cluster.TaskSpec{
		Init:      []cluster.Process{sh("one", "echo up; exec sleep 1000")},
		Processes: []cluster.Process{sh("work", "touch work")},
	}, nil)
	eventually(t, "the step runs", func() bool { return f.log(id, "one") == "up\n" })
	require.NoError(t, f.Kill(t.Context(), id, 0))
	s := f.ended(id)
	require.Equal(t, cluster.TaskKilled, s.State)
	require.Equal(t, "killed while it was prepared", s.Message)
	require.NoFileExists(t, filepath.Join(f.state.run(id.String()), workFolder, "work"))
}

// TestWhichCannotBeStarted: of several it is said which one could not be started.
func TestWhichCannotBeStarted(t *testing.T) {
	f := newFixture(t, nil)
	bad := cluster.Process{Name: "bad", Command: []string{"./no-such-program"}}
	s := f.ended(f.task(0, cluster.TaskSpec{Processes: []cluster.Process{sh("work", "sleep 1000"), bad}}, nil))
	require.Equal(t, `process "bad": start ./no-such-program: no such file or directory`, s.Message)
	s = f.ended(f.task(1, cluster.TaskSpec{Init: []cluster.Process{bad}, Processes: []cluster.Process{sh("work", "true")}}, nil))
	require.Equal(t, `init step "bad": start ./no-such-program: no such file or directory`, s.Message)
}

// TestMainProcess: the end of the main process is that of the task, and the others are asked to end, and made to.
func TestMainProcess(t *testing.T) {
	f := newFixture(t, nil)
	first := sh("main", "while [ ! -e polite ] || [ ! -e deaf ]; do sleep 0.01; done; exit 7")
	first.Main = true
	id := f.task(0, cluster.TaskSpec{
		Processes: []cluster.Process{
			sh("polite", "trap 'echo goodbye; exit 0' TERM; touch polite; while :; do sleep 0.01; done"), first,
			sh("deaf", "trap '' TERM; touch deaf; while :; do sleep 0.01; done"),
		},
		KillGrace: 100 * time.Millisecond,
	}, nil)
	s := f.ended(id)
	require.Equal(t, cluster.TaskFailed, s.State, "%+v", s)
	require.EqualValues(t, 7, s.ExitCode)
	require.Equal(t, `process "main" ended with exit code 7`, s.Message)
	require.Equal(t, "goodbye\n", f.log(id, "polite"))
}

// TestKillAfterTheMainProcess ends the others sooner. The task has succeeded.
func TestKillAfterTheMainProcess(t *testing.T) {
	f := newFixture(t, nil)
	first := sh("main", "while [ ! -e deaf ]; do sleep 0.01; done")
	first.Main = true
	id := f.task(0, cluster.TaskSpec{
		Processes: []cluster.Process{first, sh("deaf", "trap 'echo no' TERM; touch deaf; while :; do sleep 0.01; done")},
		KillGrace: time.Hour,
	}, nil)
	eventually(t, "the other one is asked to end", func() bool { return f.log(id, "deaf") == "no\n" })
	require.NoError(t, f.Kill(t.Context(), id, 0))
	require.Equal(t, cluster.TaskSucceeded, f.ended(id).State)
}

func TestAllProcesses(t *testing.T) {
	f := newFixture(t, nil)
	good := f.task(0, cluster.TaskSpec{Processes: []cluster.Process{sh("a", "exit 0"), sh("b", "sleep 0.1; echo b; exit 0")}}, nil)
	bad := f.task(1, cluster.TaskSpec{Processes: []cluster.Process{sh("a", "exit 0"), sh("b", "sleep 0.1; exit 4"), sh("c", "exit 0")}}, nil)
	none := f.task(2, cluster.TaskSpec{Processes: []cluster.Process{sh("a", "sleep 1000"), {Name: "b", Command: []string{"no-such-program"}}}}, nil)
	require.Equal(t, cluster.TaskSucceeded, f.ended(good).State)
	require.Equal(t, "b\n", f.log(good, "b"))
	s := f.ended(bad)
	require.Equal(t, cluster.TaskFailed, s.State)
	require.EqualValues(t, 4, s.ExitCode)
	s = f.ended(none)
	require.Equal(t, cluster.ReasonLaunchFailed, s.Reason, "a process that cannot be started ends those that were")
	require.Contains(t, s.Message, "no-such-program")
}

func TestKillOfSeveral(t *testing.T) {
	f := newFixture(t, nil)
	spec := cluster.TaskSpec{
		Init:      []cluster.Process{sh("slow", "touch begun; exec sleep 1000")},
		Processes: []cluster.Process{sh("a", "exec sleep 1000"), sh("b", "exec sleep 1000")},
	}
	early := f.task(0, spec, nil)
	eventually(t, "init step runs", func() bool { return exists(filepath.Join(f.state.run(early.String()), workFolder), "begun") })
	eventually(t, "the driver knows of it", func() bool { return f.status(early).State == cluster.TaskStarting })
	require.NoError(t, f.Kill(t.Context(), early, time.Minute))
	s := f.ended(early)
	require.Equal(t, cluster.TaskKilled, s.State, "%+v", s)

	spec.Init = nil
	late := f.task(1, spec, nil)
	eventually(t, "it runs", func() bool { return f.status(late).State == cluster.TaskRunning })
	require.NoError(t, f.Kill(t.Context(), late, time.Minute))
	s = f.ended(late)
	require.Equal(t, cluster.TaskKilled, s.State)
	require.EqualValues(t, 15, s.Signal)
}

func TestPortsAndVariables(t *testing.T) {
	f := newFixture(t, func(c *Config) { c.Hosts, c.Address = 3, "127.0.0.2" })
	var taken []cluster.PortRange
	for _, h := range f.sink.Hosts() {
		require.Len(t, h.Ports, 1)
		require.Equal(t, "127.0.0.2", h.Address)
		for _, other := range taken {
			require.True(t, other.Last < h.Ports[0].First || h.Ports[0].Last < other.First, "hosts share ports")
		}
		taken = append(taken, h.Ports[0])
	}
	id := f.task(4, cluster.TaskSpec{
		Ports: cluster.PortRequest{Numbers: []uint16{80}, Dynamic: 2, Names: []string{"http", "ad-min"}},
		Processes: []cluster.Process{{
			Command: []string{"sh", "-c", `echo "$1 $WHERE $SLUICE_PORT_0 $SLUICE_PORT_AD_MIN"`, "sh", "run ${SLUICE_RUN_ID} ${OTHER} ${SLUICE_NONE}"},
			Env:     []cluster.KeyValue{{Key: "WHERE", Value: "${SLUICE_HOST_ADDRESS}:${SLUICE_PORT_HTTP}"}},
		}},
	}, func(l *hostmgr.Launch) { l.Ports = []uint16{80, 21000, 21001} })
	require.Equal(t, cluster.TaskSucceeded, f.ended(id).State)
	require.Equal(t, "run 3.4.2 ${OTHER} ${SLUICE_NONE} 127.0.0.2:21000 21000 21001\n", f.output(id, 0))
}

func TestOtherUser(t *testing.T) {
	nobody, err := user.Lookup("nobody")
	if os.Geteuid() != 0 || err != nil {
		t.Skip("running as another user needs root and a user named nobody")
	}
	dir, err := os.MkdirTemp("", "sluice-user")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
	require.NoError(t, os.Chmod(dir, 0o755))
	f := newFixture(t, func(c *Config) { c.Dir = filepath.Join(dir, "state") })
	require.NotZero(t, f.Capabilities()&cluster.CanUsers)
	p := sh("", "id -u; echo $USER; touch here; touch $SLUICE_RUN_DIR/deep/too; touch $TMPDIR/there && echo done; cat "+filepath.Join(f.state.run("3.0.2"), launchFile))
	p.User, p.WorkDir = "nobody", "deep/data/sub"
	id := f.task(0, cluster.TaskSpec{Processes: []cluster.Process{p}, Volumes: []cluster.Volume{{Name: "data", MountPath: "deep/data"}}}, nil)
	s := f.ended(id)
	require.EqualValues(t, 1, s.ExitCode, "it cannot read the record of the launch: %+v", s)
	require.Equal(t, nobody.Uid+"\nnobody\ndone\n", f.output(id, 0))

	// Where he cannot get to the folder of the run, it says which one keeps him out.
	require.NoError(t, os.Chmod(dir, 0o700))
	s = f.ended(f.task(1, cluster.TaskSpec{Processes: []cluster.Process{p}}, nil))
	require.Equal(t, cluster.ReasonLaunchFailed, s.Reason)
	require.Contains(t, s.Message, "permission denied: its user may not pass through the folder "+dir)

	p.User = "no-such-user"
	require.ErrorContains(t, f.Launch(t.Context(), hostmgr.Launch{
		Run: cluster.RunID{Task: 9, Run: 1}, Host: "h0", Task: cluster.TaskSpec{Processes: []cluster.Process{p}},
	}), `user "no-such-user" is not known`)
}

func TestVolumes(t *testing.T) {
	f := newFixture(t, nil)
	shared := t.TempDir()
	spec := func(text string) cluster.TaskSpec {
		return cluster.TaskSpec{
			Processes: []cluster.Process{sh("", text)},
			Volumes: []cluster.Volume{
				{Name: "data-{instance}", MountPath: "data"},
				{HostPath: shared, MountPath: "a/shared"},
				{HostPath: shared, MountPath: shared},
				{ScratchBytes: 1 << 20, MountPath: "scratch"},
			},
		}
	}
	writes := f.task(0, spec("echo kept > data/file; echo shared > a/shared/file; echo gone > scratch/file; ls scratch"), nil)
	require.Equal(t, cluster.TaskSucceeded, f.ended(writes).State)
	require.Equal(t, "file\n", f.output(writes, 0))
	require.NoDirExists(t, filepath.Join(f.state.run(writes.String()), scratches), "a scratch folder ends with its run")
	f.reopen()
	again := f.task(0, spec("cat data/file a/shared/file "+shared+"/file; ls scratch | wc -l"), func(l *hostmgr.Launch) { l.Run.Run = 9 })
	require.Equal(t, cluster.TaskSucceeded, f.ended(again).State)
	require.Equal(t, "kept\nshared\nshared\n0\n", f.output(again, 0))
	other := f.task(1, spec("ls data | wc -l"), nil)
	require.Equal(t, cluster.TaskSucceeded, f.ended(other).State)
	require.Equal(t, "0\n", f.output(other, 0), "another instance has another volume")
	elsewhere := f.task(0, spec("ls data | wc -l"), func(l *hostmgr.Launch) { l.Run.Run, l.Host = 10, "h0" })
	require.Equal(t, cluster.TaskSucceeded, f.ended(elsewhere).State)
	require.Equal(t, "0\n", f.output(elsewhere, 0), "another host has another volume")
	require.NoError(t, os.MkdirAll(filepath.Join(f.config.Dir, "volumes", "data-7"), 0o700))
	before := f.task(7, spec("cd data; pwd -P"), nil)
	require.Equal(t, cluster.TaskSucceeded, f.ended(before).State)
	require.Equal(t, filepath.Join(f.config.Dir, "volumes", "data-7")+"\n", f.output(before, 0), "a volume of format 2 is found again")

	// A process may begin in a volume, and a scratch folder may hold another, in whatever order they are listed.
	within := func(n int, folder string) hostmgr.Status {
		p := sh("", "pwd -P; echo here > file; cd $SLUICE_RUN_DIR; cat data/*/file; touch scratch/deep/file")
		p.WorkDir = folder
		id := f.task(n, cluster.TaskSpec{Processes: []cluster.Process{p}, Volumes: []cluster.Volume{
			{Name: "within", MountPath: "data"}, {ScratchBytes: 1, MountPath: "scratch/deep"}, {ScratchBytes: 1, MountPath: "scratch"},
		}}, nil)
		s := f.ended(id)
		require.Equal(t, f.state.volume("h1", "within")+strings.TrimPrefix(folder, "data")+"\nhere\n", f.output(id, 0), "%+v", s)
		return s
	}
	for n, folder := range []string{"data/sub", "data/sub", "data"} {
		require.Equal(t, cluster.TaskSucceeded, within(3+n, folder).State)
	}
	require.NoError(t, os.Symlink(shared, f.state.volume("h1", "within")+"/out"))
	leads := sh("", "true")
	leads.WorkDir = "data/out/new"
	out := f.task(6, cluster.TaskSpec{Processes: []cluster.Process{leads}, Volumes: []cluster.Volume{{Name: "within", MountPath: "data"}}}, nil)
	require.Contains(t, f.ended(out).Message, "escapes")
	require.NoDirExists(t, shared+"/new", "what a task has left in a volume leads to nothing outside")
	require.ErrorContains(t, f.Launch(t.Context(), hostmgr.Launch{
		Run: cluster.RunID{Task: 9, Run: 1}, Host: "h0", Task: cluster.TaskSpec{
			Processes: []cluster.Process{sh("", "true")},
			Volumes:   []cluster.Volume{{ScratchBytes: 1, MountPath: "data/cache"}, {Name: "within", MountPath: "data"}},
		},
	}), `volumes[0] at "data/cache" cannot be mounted`, "it would stay in the volume")

	missing := f.task(2, cluster.TaskSpec{
		Processes: []cluster.Process{sh("", "true")}, Volumes: []cluster.Volume{{HostPath: shared + "/none", MountPath: "x"}},
	}, nil)
	s := f.ended(missing)
	require.Equal(t, cluster.ReasonLaunchFailed, s.Reason)
	require.Contains(t, s.Message, "/none does not exist on this host")
	for _, v := range []cluster.Volume{{Name: "x", MountPath: "/data"}, {Name: "x", MountPath: "d", ReadOnly: true}} {
		require.ErrorContains(t, f.Launch(t.Context(), hostmgr.Launch{
			Run: cluster.RunID{Task: 9, Run: 1}, Host: "h0",
			Task: cluster.TaskSpec{Processes: []cluster.Process{sh("", "true")}, Volumes: []cluster.Volume{v}},
		}), "cannot be mounted")
	}
}

// tarball is an archive with a file, and more without content.
func tarball(t *testing.T, name, content string, more ...tar.Header) []byte {
	var b bytes.Buffer
	zipped := gzip.NewWriter(&b)
	w := tar.NewWriter(zipped)
	require.NoError(t, w.WriteHeader(&tar.Header{Name: name, Mode: 0o755, Size: int64(len(content))}))
	_, err := w.Write([]byte(content))
	require.NoError(t, err)
	for i := range more {
		require.NoError(t, w.WriteHeader(&more[i]))
	}
	require.NoError(t, w.Close())
	require.NoError(t, zipped.Close())
	return b.Bytes()
}

func TestFetch(t *testing.T) {
	var zipped bytes.Buffer
	w := zip.NewWriter(&zipped)
	entry, err := w.Create("in/zip")
	require.NoError(t, err)
	_, err = entry.Write([]byte("from zip"))
	require.NoError(t, err)
	link := &zip.FileHeader{Name: "in/link"}
	link.SetMode(os.ModeSymlink | 0o777)
	entry, err = w.CreateHeader(link)
	require.NoError(t, err)
	_, err = entry.Write([]byte("zip"))
	require.NoError(t, err)
	require.NoError(t, w.Close())
	files := map[string][]byte{
		"/plain": []byte("plain\n"), "/tool": []byte("#!/bin/sh\necho tool\n"), "/a.tgz": tarball(t, "deep/script", "#!/bin/sh\necho script\n",
			tar.Header{Name: "deep/same", Linkname: "deep/script", Typeflag: tar.TypeLink}, tar.Header{Name: "deep/soft", Linkname: "same", Typeflag: tar.TypeSymlink}),
		"/b.zip": zipped.Bytes(), "/evil.tar.gz": tarball(t, "../../../evil", "x"),
		"/pipe.tgz":  tarball(t, "pipe", "", tar.Header{Name: "fifo", Typeflag: tar.TypeFifo}),
		"/steal.tgz": tarball(t, "x", "", tar.Header{Name: "stolen", Linkname: "../launch", Typeflag: tar.TypeLink}),
	}
	damaged := bytes.Clone(files["/a.tgz"])
	damaged[len(damaged)-8] ^= 1 // of the checksum
	files["/damaged.tgz"] = damaged
	stuck := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(out http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/stuck" {
			select {
			case <-stuck:
			case <-r.Context().Done():
			}
		}
		data, ok := files[r.URL.Path]
		if r.URL.Path == "/a.tgz" { // as stores say that have it with its kind
			out.Header().Set("Content-Encoding", "gzip")
		}
		if !ok {
			out.WriteHeader(http.StatusNotFound)
		}
		_, _ = out.Write(data)
	}))
	t.Cleanup(server.Close)
	t.Cleanup(func() { close(stuck) })
	local := filepath.Join(t.TempDir(), "local file")
	require.NoError(t, os.WriteFile(local, []byte("local\n"), 0o600))
	f := newFixture(t, nil)
	fetching := func(n int, items ...cluster.Fetch) cluster.RunID {
		p := sh("", "cat plain sub/named && ./tool && deep/script && deep/same && deep/soft && cat in/zip in/link")
		p.Fetch = items
		return f.task(n, cluster.TaskSpec{Processes: []cluster.Process{p}}, nil)
	}
	good := fetching(0,
		cluster.Fetch{URI: server.URL + "/plain?version=1"}, cluster.Fetch{URI: "file://" + strings.ReplaceAll(local, " ", "%20"), Path: "sub/named"},
		cluster.Fetch{URI: server.URL + "/tool"}, cluster.Fetch{URI: server.URL + "/tool", Executable: true}, cluster.Fetch{URI: server.URL + "/a.tgz", Extract: true},
		cluster.Fetch{URI: server.URL + "/b.zip", Extract: true})
	s := f.ended(good)
	require.Equal(t, cluster.TaskSucceeded, s.State, "%+v", s)
	require.Equal(t, "plain\nlocal\ntool\nscript\nscript\nscript\nfrom zipfrom zip", f.output(good, 0))

	pipe := filepath.Join(t.TempDir(), "pipe")
	require.NoError(t, unix.Mkfifo(pipe, 0o600))
	for n, c := range []struct {
		item cluster.Fetch
		says string
	}{
		{cluster.Fetch{URI: server.URL + "/none"}, "/none: the answer is 404 Not Found"},
		{cluster.Fetch{URI: "file:///no/such/file"}, "no such file"},
		{cluster.Fetch{URI: "file://etc/hosts"}, "fetch file://etc/hosts: it names no file of this machine: write file:///PATH"},
		{cluster.Fetch{URI: "file:hosts"}, "fetch file:hosts: it names no file of this machine"},
		{cluster.Fetch{URI: "file:///tmp"}, "fetch file:///tmp: /tmp is no file"},
		{cluster.Fetch{URI: "file://" + pipe}, "pipe is no file"},
		{cluster.Fetch{URI: "gopher://host/file"}, `this host manager fetches file, http and https, not "gopher"`},
		{cluster.Fetch{URI: server.URL + "/plain", Extract: true}, "is no archive"},
		{cluster.Fetch{URI: server.URL + "/evil.tar.gz", Extract: true}, "escapes"},
		{cluster.Fetch{URI: server.URL + "/steal.tgz", Extract: true}, "escapes"},
		{cluster.Fetch{URI: server.URL + "/pipe.tgz", Extract: true}, "is no file, folder or link"},
		{cluster.Fetch{URI: server.URL + "/damaged.tgz", Extract: true}, "/damaged.tgz: gzip: invalid checksum"},
	} {
		s := f.ended(fetching(n+1, c.item))
		require.Equal(t, cluster.ReasonLaunchFailed, s.Reason, "%+v", s)
		require.Contains(t, s.Message, c.says)
	}
	require.NoFileExists(t, filepath.Join(f.state.dir, "evil"))

	waiting := fetching(20, cluster.Fetch{URI: server.URL + "/stuck"})
	eventually(t, "it fetches", func() bool { return f.status(waiting).State == cluster.TaskStarting })
	require.NoError(t, f.Kill(t.Context(), waiting, time.Minute))
	require.Equal(t, cluster.TaskKilled, f.ended(waiting).State)
}

// TestSilentServer: what a server stops to send fails, before its answer and within; one that is slow and goes on does not.
func TestSilentServer(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		write := func() {
			_, _ = io.WriteString(w, "x")
			_ = http.NewResponseController(w).Flush()
		}
		switch r.URL.Path {
		case "/stops":
			write()
			fallthrough
		case "/mute":
			<-r.Context().Done()
		case "/slow":
			for range 5 {
				time.Sleep(500 * time.Millisecond)
				write()
			}
		}
	}))
	defer server.Close()
	get := func(path string, stall time.Duration) (string, error) {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL+path, nil)
		require.NoError(t, err)
		body, err := download(request, stall)
		if err != nil {
			return "", err
		}
		defer func() { require.NoError(t, body.Close()) }()
		data, err := io.ReadAll(body)
		return string(data), err
	}
	for _, path := range []string{"/mute", "/stops"} {
		_, err := get(path, 50*time.Millisecond)
		require.ErrorContains(t, err, "the server has sent nothing for 50ms", path)
	}
	data, err := get("/slow", 2*time.Second)
	require.NoError(t, err)
	require.Equal(t, "xxxxx", data)
}

// TestFetchThroughAProxy: files come by the way that the host manager's environment names, of which the task learns nothing.
func TestFetchThroughAProxy(t *testing.T) {
	proxy := httptest.NewServer(http.HandlerFunc(func(out http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(out, r.URL.String())
	}))
	t.Cleanup(proxy.Close)
	t.Setenv("http_proxy", proxy.URL)
	t.Setenv("no_proxy", "")
	f := newFixture(t, nil)
	p := sh("", "cat file; env | grep -ci _proxy=")
	p.Fetch = []cluster.Fetch{{URI: "http://elsewhere.test/file"}}
	id := f.task(0, cluster.TaskSpec{Processes: []cluster.Process{p}}, nil)
	f.ended(id)
	require.Equal(t, "http://elsewhere.test/file0\n", f.output(id, 0), "%+v", f.status(id))
}

// every returns a check that is done as often as possible.
func every(c cluster.HealthCheck) cluster.HealthCheck {
	c.Interval, c.Timeout, c.Failures, c.Successes = 20*time.Millisecond, 2*time.Second, 2, 2
	return c
}

// is waits until the last report of a run's health is this one.
func (f *fixture) is(id cluster.RunID, health cluster.Health) hostmgr.Health {
	f.Helper()
	var last hostmgr.Health
	eventually(f.T, id.String()+" is "+health.String(), func() bool {
		all := f.sink.Health(id)
		if len(all) > 0 {
			last = all[len(all)-1]
		}
		return last.Health == health
	})
	return last
}

func TestReadiness(t *testing.T) {
	f := newFixture(t, nil)
	p := sh("web", "exec sleep 1000")
	p.Checks = []cluster.HealthCheck{every(cluster.HealthCheck{Command: []string{"test", "-e", "ready-${SLUICE_INSTANCE}"}, Effect: cluster.Readiness})}
	id := f.task(5, cluster.TaskSpec{Processes: []cluster.Process{p}}, nil)
	h := f.is(id, cluster.HealthUnready)
	require.Contains(t, h.Message, `process "web": `)
	require.Contains(t, h.Message, "checks in a row have failed, the last one: it ended with exit code 1")
	mark := filepath.Join(f.state.run(id.String()), workFolder, "ready-5")
	require.NoError(t, os.WriteFile(mark, nil, 0o600))
	require.Empty(t, f.is(id, cluster.HealthReady).Message)
	f.reopen()
	f.is(id, cluster.HealthReady) // a new driver tells it anew
	require.NoError(t, os.Remove(mark))
	f.is(id, cluster.HealthUnready)
	require.Equal(t, cluster.TaskRunning, f.status(id).State, "who is not ready goes on")
}

func TestLiveness(t *testing.T) {
	f := newFixture(t, nil)
	p := sh("web", "trap 'echo asked; exit 0' TERM; while :; do sleep 0.01; done")
	p.Checks = []cluster.HealthCheck{every(cluster.HealthCheck{Command: []string{"test", "!", "-e", "dead"}})}
	spec := cluster.TaskSpec{Processes: []cluster.Process{sh("other", "exec sleep 1000"), p}, KillGrace: time.Minute}
	id := f.task(0, spec, nil)
	f.is(id, cluster.HealthReady)
	require.NoError(t, os.WriteFile(filepath.Join(f.state.run(id.String()), workFolder, "dead"), nil, 0o600))
	s := f.ended(id)
	require.Equal(t, cluster.TaskFailed, s.State)
	require.Equal(t, cluster.ReasonUnhealthy, s.Reason)
	require.Contains(t, s.Message, `process "web": 2 checks in a row have failed`)
	require.Equal(t, "asked\n", f.log(id, "web"))

	spec.Processes[1].Checks[0].Command = []string{"sleep", "1000"}
	spec.Processes[1].Checks[0].Timeout = 30 * time.Millisecond
	s = f.ended(f.task(1, spec, nil))
	require.Equal(t, cluster.ReasonUnhealthy, s.Reason)
	require.Contains(t, s.Message, "it took longer than 30ms")
}

// TestCheckDuringAKill: a check that a kill has ended does not make a task unhealthy, which then would have less time to end.
func TestCheckDuringAKill(t *testing.T) {
	f := newFixture(t, nil)
	p := sh("", "trap 'sleep 0.3; exit 3' TERM; while :; do sleep 0.01; done")
	p.Checks = []cluster.HealthCheck{every(cluster.HealthCheck{Command: []string{"sh", "-c", "touch checking; exec sleep 1000"}})}
	p.Checks[0].Failures, p.Checks[0].Timeout = 1, time.Hour
	id := f.task(0, cluster.TaskSpec{Processes: []cluster.Process{p}, KillGrace: 10 * time.Millisecond}, nil)
	eventually(t, "it is checked", func() bool { return exists(filepath.Join(f.state.run(id.String()), workFolder), "checking") })
	require.NoError(t, f.Kill(t.Context(), id, time.Hour))
	s := f.ended(id)
	require.Equal(t, cluster.TaskKilled, s.State)
	require.EqualValues(t, 3, s.ExitCode, "%+v", s)
	require.Empty(t, s.Message)
}

// TestCheckWithoutMeans: a machine that cannot carry a check out says nothing of the task.
func TestCheckWithoutMeans(t *testing.T) {
	s := &supervisor{dir: t.TempDir(), posts: make(chan func()), over: make(chan struct{})}
	close(s.over)
	p := &probe{HealthCheck: cluster.HealthCheck{Failures: 1, Successes: 1, Interval: time.Hour, Effect: cluster.Readiness}, rec: &processRecord{}}
	s.checks = []*probe{p}
	s.result(p, nil)
	for range 3 {
		s.result(p, fmt.Errorf("start sh: %w", unix.EAGAIN))
	}
	require.Equal(t, cluster.HealthReady, s.health.Health)
	s.result(p, errors.New("it ended with exit code 1"))
	require.Equal(t, cluster.HealthUnready, s.health.Health)
}

// TestReadinessDoesNotWaitForLiveness: what says whether a task is alive may begin late, and says nothing of when it serves.
func TestReadinessDoesNotWaitForLiveness(t *testing.T) {
	s := &supervisor{dir: t.TempDir(), posts: make(chan func()), over: make(chan struct{})}
	close(s.over)
	check := func(effect cluster.HealthEffect) *probe {
		p := &probe{HealthCheck: cluster.HealthCheck{Failures: 1, Successes: 1, Interval: time.Hour, Effect: effect}, rec: &processRecord{}}
		s.checks = append(s.checks, p)
		return p
	}
	late, one, both := check(cluster.Liveness), check(cluster.Readiness), check(cluster.LivenessAndReadiness)
	s.result(one, nil)
	require.Equal(t, cluster.HealthUnknown, s.health.Health, "one that says whether it serves has not been done")
	s.result(both, nil)
	require.Equal(t, cluster.HealthReady, s.health.Health)
	s.result(late, nil)
	require.Equal(t, cluster.HealthReady, s.health.Health)
}

func TestPortChecks(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(out http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/health" || r.Header.Get("X-Check") != "1" || r.Host != "service" {
			out.WriteHeader(http.StatusTeapot)
		}
	}))
	t.Cleanup(server.Close)
	_, number, err := net.SplitHostPort(server.Listener.Addr().String())
	require.NoError(t, err)
	port, err := strconv.ParseUint(number, 10, 16)
	require.NoError(t, err)
	free, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	nobody := uint16(free.Addr().(*net.TCPAddr).Port)
	require.NoError(t, free.Close())

	f := newFixture(t, nil)
	checked := func(n int, c cluster.HealthCheck, port uint16, want cluster.Health) hostmgr.Health {
		p := sh("", "exec sleep 1000")
		c.Effect = cluster.Readiness
		p.Checks = []cluster.HealthCheck{every(c)}
		id := f.task(n, cluster.TaskSpec{
			Ports: cluster.PortRequest{Dynamic: 1, Names: []string{"http"}}, Processes: []cluster.Process{p},
		}, func(l *hostmgr.Launch) { l.Ports = []uint16{port} })
		h := f.is(id, want)
		require.NoError(t, f.driver.Kill(t.Context(), id, 0)) // the next one has the port
		f.ended(id)
		return h
	}
	headers := []cluster.KeyValue{{Key: "Host", Value: "service"}, {Key: "X-Check", Value: "1"}}
	named := cluster.PortRef{Name: "http"}
	checked(0, cluster.HealthCheck{TCP: &named}, uint16(port), cluster.HealthReady)
	checked(1, cluster.HealthCheck{TCP: &cluster.PortRef{Number: uint16(port)}}, nobody, cluster.HealthReady)
	checked(2, cluster.HealthCheck{HTTP: &cluster.HTTPCheck{Path: "/health", Headers: headers}}, uint16(port), cluster.HealthReady)
	h := checked(3, cluster.HealthCheck{HTTP: &cluster.HTTPCheck{Port: named, Headers: headers}}, uint16(port), cluster.HealthUnready)
	require.Contains(t, h.Message, "the answer is 418")
	h = checked(4, cluster.HealthCheck{TCP: &named}, nobody, cluster.HealthUnready)
	require.Contains(t, h.Message, "connection refused")
}

// TestCrashOfASupervisorOfSeveral: whatever the processes and checks of a task have become, nothing of it is left.
func TestCrashOfASupervisorOfSeveral(t *testing.T) {
	f := newFixture(t, nil)
	p := sh("a", "exec sleep 1000")
	p.Checks = []cluster.HealthCheck{every(cluster.HealthCheck{Command: []string{"true"}})}
	id := f.task(0, cluster.TaskSpec{Processes: []cluster.Process{p, sh("b", "setsid sleep 1000 & exec sleep 1000")}}, nil)
	f.is(id, cluster.HealthReady)
	crash, err := os.FindProcess(f.supervisorOf(id))
	require.NoError(t, err)
	require.NoError(t, crash.Kill())
	s := f.ended(id)
	require.Equal(t, cluster.TaskLost, s.State, "%+v", s)
	eventually(t, "nothing is left", func() bool { return len(marked(t, f.config.Dir)) == 0 })
}

// TestPortsOfRunsThatGoOn: no other host gives them out when the machine is divided anew.
func TestPortsOfRunsThatGoOn(t *testing.T) {
	f := newFixture(t, func(c *Config) { c.Ports = cluster.PortRange{First: 1000, Last: 1009} })
	id := f.shell(0, "echo ready; exec sleep 1000", func(l *hostmgr.Launch) { l.Ports = []uint16{1009, 1007} })
	f.says(id, "ready\n")
	f.reopen()
	require.Equal(t, []cluster.PortRange{{First: 1005, Last: 1009}}, f.sink.Hosts()[1].Ports, "its own host has them")
	f.config.Hosts = 1
	f.reopen()
	require.Equal(t, []cluster.PortRange{{First: 1000, Last: 1006}, {First: 1008, Last: 1008}}, f.sink.Hosts()[0].Ports)
	require.NoError(t, f.driver.Kill(t.Context(), id, 0))
	f.ended(id)
	eventually(t, "the host has the ports", func() bool {
		return slices.Equal(f.sink.Hosts()[0].Ports, []cluster.PortRange{{First: 1000, Last: 1009}})
	})
}

// TestPortOfAnEarlierRun: the scheduler does not know any more that it has the port.
func TestPortOfAnEarlierRun(t *testing.T) {
	f := newFixture(t, nil)
	with := func(ports ...uint16) func(*hostmgr.Launch) { return func(l *hostmgr.Launch) { l.Ports = ports } }
	id := f.shell(0, "echo ready; exec sleep 1000", with(20_007, 20_008))
	f.says(id, "ready\n")
	next := hostmgr.Launch{
		Run: cluster.RunID{Task: cluster.MakeTaskKey(4, 0), Run: 1}, Host: "h1", Ports: []uint16{20_009, 20_008},
		Task: cluster.TaskSpec{Processes: []cluster.Process{{Command: []string{"true"}}}},
	}
	err := f.Launch(t.Context(), next)
	require.ErrorIs(t, err, hostmgr.ErrRefused)
	require.ErrorContains(t, err, "run 3.0.2 has port 20008 and has not ended yet")
	require.NoError(t, f.driver.Kill(t.Context(), id, 0))
	f.ended(id)
	require.NoError(t, f.Launch(t.Context(), next))
	f.ended(next.Run)
}

func TestPortsOf(t *testing.T) {
	c := Config{Hosts: 3, Ports: cluster.PortRange{First: 1000, Last: 1009}}
	require.Equal(t, "[{1000 1002}] [{1003 1005}] [{1006 1008}]", fmt.Sprint(portsOf(c, 0), portsOf(c, 1), portsOf(c, 2)))
	c.Hosts = 20
	require.Empty(t, portsOf(c, 0))
}
