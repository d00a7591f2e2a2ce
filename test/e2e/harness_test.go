//go:build e2e

package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// patience bounds every wait: it is long because machines may be slow, and only reached when something is wrong.
const patience = 90 * time.Second

var binary string

func TestMain(m *testing.M) {
	os.Exit(testMain(m))
}

func testMain(m *testing.M) int {
	if os.Getenv(serveAsked) != "" {
		return serve()
	}
	if binary = os.Getenv("SLUICE_BINARY"); binary != "" {
		return m.Run()
	}
	dir, err := os.MkdirTemp("", "sluice-e2e")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer func() { _ = os.RemoveAll(dir) }()
	binary = filepath.Join(dir, "sluice")
	build := exec.Command("go", "build", "-o", binary, "../../cmd/sluice")
	build.Stderr = os.Stderr
	if err := build.Run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return m.Run()
}

// site is a place where processes of one cluster run: a state folder and addresses that survive restarts.
type site struct {
	t        *testing.T
	dir      string
	api, web string
}

func newSite(t *testing.T) *site {
	t.Helper()
	return &site{t: t, dir: t.TempDir(), api: freeAddress(t), web: freeAddress(t)}
}

// given is the addresses that freeAddress has returned.
var given sync.Map

// freeAddress returns an address that was free a moment ago and can be taken again and again. It returns none twice: the kernel may.
func freeAddress(t *testing.T) string {
	t.Helper()
	for {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		require.NoError(t, l.Close())
		if _, again := given.LoadOrStore(l.Addr().String(), true); !again {
			return l.Addr().String()
		}
	}
}

func (s *site) path(name string) string { return filepath.Join(s.dir, name) }

// command prepares the binary with an environment in which no settings of the machine count.
func (s *site) command(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, binary, args...)
	cmd.Env = append(os.Environ(), "SLUICE_SERVER="+s.api, "XDG_CONFIG_HOME="+s.path("config"), "XDG_STATE_HOME="+s.path("home"))
	cmd.Dir = s.dir
	return cmd
}

// answer is what a finished command left.
type answer struct {
	out, err string
	code     int
}

// try runs a command to its end.
func (s *site) try(args ...string) answer {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	var out, errOut bytes.Buffer
	cmd := s.command(ctx, args...)
	cmd.Stdout, cmd.Stderr = &out, &errOut
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		require.NoError(s.t, err, "sluice %v", args)
	}
	return answer{out.String(), errOut.String(), cmd.ProcessState.ExitCode()}
}

// must runs a command that has to succeed and returns its standard output.
func (s *site) must(args ...string) string {
	s.t.Helper()
	a := s.try(args...)
	require.Zero(s.t, a.code, "sluice %v: %s%s", args, a.out, a.err)
	return a.out
}

// get runs a command with -o json and decodes its answer.
func get[T any](s *site, args ...string) T {
	s.t.Helper()
	var v T
	out := s.must(append(args, "-o", "json")...)
	require.NoError(s.t, json.Unmarshal([]byte(out), &v), out)
	return v
}

// file writes a file for the test.
func (s *site) file(name, content string) string {
	s.t.Helper()
	require.NoError(s.t, os.WriteFile(s.path(name), []byte(content), 0o600))
	return s.path(name)
}

// process is a command that runs beside the test. Its output goes to files: a pipe would tie it to the test's life.
type process struct {
	t    *testing.T
	name string
	cmd  *exec.Cmd
	out  string // path of its output
	done chan struct{}
}

var started int

// start runs a command beside the test and ends it with the test.
func (s *site) start(args ...string) *process {
	s.t.Helper()
	started++
	p := &process{t: s.t, name: strings.Join(args, " "), out: s.path(fmt.Sprintf("output-%d", started)), done: make(chan struct{})}
	f, err := os.Create(p.out)
	require.NoError(s.t, err)
	defer func() { require.NoError(s.t, f.Close()) }()
	p.cmd = s.command(context.Background(), args...)
	p.cmd.Stdout, p.cmd.Stderr = f, f
	require.NoError(s.t, p.cmd.Start())
	go func() {
		_ = p.cmd.Wait() // the code is read from the state
		close(p.done)
	}()
	s.t.Cleanup(func() {
		if s.t.Failed() {
			s.t.Logf("output of sluice %s:\n%s", p.name, p.output())
		}
		_ = p.cmd.Process.Kill()
		<-p.done
	})
	return p
}

func (p *process) output() string {
	b, err := os.ReadFile(p.out)
	if err != nil {
		return err.Error()
	}
	return string(b)
}

// signal sends a signal and, if it ends the process, wait gives the exit code.
func (p *process) signal(sig syscall.Signal) {
	p.t.Helper()
	require.NoError(p.t, p.cmd.Process.Signal(sig))
}

func (p *process) wait() int {
	p.t.Helper()
	select {
	case <-p.done:
	case <-time.After(patience):
		require.FailNow(p.t, "does not end", "sluice %s", p.name)
	}
	return p.cmd.ProcessState.ExitCode()
}

// kill ends the process without a chance to do anything.
func (p *process) kill() {
	p.t.Helper()
	p.signal(syscall.SIGKILL)
	p.wait()
}

// says waits until the output of the process holds text.
func (p *process) says(text string) {
	p.t.Helper()
	eventually(p.t, func() bool {
		select {
		case <-p.done:
			require.Contains(p.t, p.output(), text, "sluice %s has ended", p.name)
		default:
		}
		return strings.Contains(p.output(), text)
	}, "sluice %s says %q", p.name, text)
}

// eventually waits for a condition.
func eventually(t *testing.T, condition func() bool, what string, args ...any) {
	t.Helper()
	for deadline := time.Now().Add(patience); !condition(); time.Sleep(20 * time.Millisecond) {
		require.Truef(t, time.Now().Before(deadline), "never: "+what, args...)
	}
}

// dev starts everything in one process, with hosts of a size that does not depend on the machine, and waits until it
// takes work.
func (s *site) dev(args ...string) *process {
	s.t.Helper()
	p := s.devUnready(args...)
	p.says("In a second terminal")
	return p
}

func (s *site) devUnready(args ...string) *process {
	s.t.Helper()
	return s.start(append([]string{
		"dev", "--listen", s.api, "--http-listen", s.web, "--state-dir", s.path("state"), "--host-cpu", "4", "--host-memory", "4Gi",
	}, args...)...)
}

// finish ends a dev as Ctrl-C does.
func (p *process) finish() {
	p.t.Helper()
	p.signal(syscall.SIGINT)
	require.Zero(p.t, p.wait(), p.output())
}

// taskList is what `task list` answers.
type taskList struct {
	Tasks []struct {
		Job      string
		Instance int
		Run      int
		State    string
		Host     string
		Failures int
		Result   struct {
			ExitCode *int `json:"exit_code"`
		}
	}
}

// lines returns the lines of a file that may not exist yet.
func lines(t *testing.T, path string) []string {
	t.Helper()
	b, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	require.NoError(t, err)
	return strings.Split(strings.TrimSuffix(string(b), "\n"), "\n")[:bytes.Count(b, []byte("\n"))]
}
