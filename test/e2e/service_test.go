//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-scheduler/sluice/cluster"
)

// serveAsked is set in the environment of tasks for which this binary is a small HTTP service.
const serveAsked = "E2E_SERVE"

// serve answers requests on the task's port until it is told to end, and then answers those that are under way.
func serve() int {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, os.Getenv(serveAsked))
	})}
	if os.Getenv(serveAsked) == "broken" {
		return 1
	}
	l, err := net.Listen("tcp", "127.0.0.1:"+os.Getenv("SLUICE_PORT_0"))
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	go func() { _ = server.Serve(l) }()
	<-ctx.Done()
	_ = server.Shutdown(context.Background())
	return 0
}

// caller asks the instances of a service again and again, each time one that it found by discovery at most a second ago.
type caller struct {
	site *site
	stop chan struct{}
	done sync.WaitGroup

	sync.Mutex
	addresses []string
	asked     int
	failures  []string
}

const instances = 20

func (s *site) call(job string) *caller {
	c := &caller{site: s, stop: make(chan struct{}), addresses: s.endpoints(job)}
	every := func(period time.Duration, do func()) {
		c.done.Go(func() {
			for tick := time.NewTicker(period); ; {
				select {
				case <-c.stop:
					tick.Stop()
					return
				case <-tick.C:
					do()
				}
			}
		})
	}
	every(300*time.Millisecond, func() {
		if found := s.endpoints(job); len(found) > 0 { // a scheduler that is away knows nothing
			c.Lock()
			c.addresses = found
			c.Unlock()
		}
	})
	client := &http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	every(8*time.Millisecond, func() {
		c.Lock()
		c.asked++
		address := c.addresses[c.asked%len(c.addresses)]
		c.Unlock()
		answer, err := client.Get("http://" + address)
		if err == nil {
			_, err = io.Copy(io.Discard, answer.Body)
			_ = answer.Body.Close()
		}
		if err != nil {
			c.Lock()
			c.failures = append(c.failures, err.Error())
			c.Unlock()
		}
	})
	return c
}

func (c *caller) end() {
	close(c.stop)
	c.done.Wait()
}

// endpoints returns the addresses of the instances that are ready; none where the scheduler does not answer.
func (s *site) endpoints(job string) (addresses []string) {
	a := s.try("job", "endpoints", job)
	for _, line := range strings.Split(a.out, "\n")[1:] {
		if fields := strings.Fields(line); a.code == 0 && len(fields) > 2 {
			addresses = append(addresses, fields[2])
		}
	}
	return addresses
}

func (s *site) service(version, policy string) string {
	self, err := os.Executable()
	require.NoError(s.t, err)
	return s.file("web-"+version+".yaml", fmt.Sprintf(`
name: web
type: stateless
instances: %d
update: {batch_size: 5, min_healthy_time: 500ms, healthy_deadline: 30s, max_attempts: 1%s}
limits: {max_unavailable_instances: 2}
discovery:
  endpoints: [{name: http, port: {dynamic_index: 0}, protocol: http}]
  drain_delay: 1500ms
task:
  processes:
    - name: main
      argv: [%q]
      environment: {%s: %q}
      health_checks: [{tcp: {port: {dynamic_index: 0}}, effect: readiness, interval: 200ms, timeout: 1s}]
  resources: {cpu: 10m, memory: 16Mi, ports: {dynamic: 1}}
`, instances, policy, self, serveAsked, version))
}

// TestNoRequestFails: a service goes through a rolling update, a drain of half its hosts and an update that fails and is
// taken back, with batch work beside it and the scheduler killed in the middle of each; no request fails, and the history
// says that no more instances were ever taken away than the service bears.
func TestNoRequestFails(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	config := s.file("config.yaml", "scheduler: {checkpoint_every: 1000000000}") // the whole history is kept
	flags := []string{"--hosts", "4", "--config", config}
	dev := s.dev(flags...)
	defer func() {
		if t.Failed() {
			t.Log(s.try("job", "get", "web").out, s.try("task", "list", "web").out)
		}
		dev.finish() // nothing is left on the machine's ports
	}()
	again := func() {
		time.Sleep(time.Second) // into the middle of it
		dev.kill()
		dev = s.dev(flags...)
	}
	s.must("job", "submit", s.service("one", ""))
	eventually(t, func() bool { return len(s.endpoints("web")) == instances }, "not all instances are ready")
	c := s.call("web")
	s.must("job", "submit", s.file("batch.yaml", `
name: batch
instances: 100
task:
  processes: [{shell: sleep 0.3}]
  resources: {cpu: 50m, memory: 16Mi}
`))

	updated := func(want string) func() bool {
		return func() bool { return strings.Contains(s.try("job", "get", "web").out, want) }
	}
	s.must("job", "update", s.service("two", ", order: start_first"))
	again()
	eventually(t, updated("succeeded, 20 of 20 done"), "the update does not end")

	hosts := []string{"local/h0", "local/h1"}
	moving := 0
	for line := range strings.Lines(s.must("task", "list", "web")) {
		f := strings.Fields(line) // task, state, host
		instance, err := strconv.Atoi(strings.TrimPrefix(f[0], "web/"))
		if err == nil && instance < instances && f[1] == "running" && slices.Contains(hosts, f[2]) {
			moving++
		}
	}
	for _, h := range hosts {
		s.must("host", "drain", h, "--move", "--reason", "repair")
	}
	again()
	eventually(t, func() bool { return strings.Count(s.try("host", "list").out, "drained") == len(hosts) }, "the hosts are not drained")

	s.must("job", "update", s.service("broken", ", rollback_on_failure: true, max_failed_instances: 1"))
	again()
	eventually(t, updated("rolled_back"), "the update is not taken back")
	eventually(t, func() bool { return len(s.endpoints("web")) == instances }, "not all instances are ready again")

	c.end()
	require.Empty(t, c.failures)
	require.Greater(t, c.asked, 1000)

	dev.kill()
	taken := s.audit(t, "web")
	dev = s.dev(flags...)
	t.Logf("%d requests; instances taken away: %v", c.asked, taken)
	require.GreaterOrEqual(t, taken[cluster.ReasonUpdated], instances, "all were updated")
	require.Positive(t, moving)
	require.GreaterOrEqual(t, taken[cluster.ReasonDrained], moving, "what was on the drained hosts moved")
}
