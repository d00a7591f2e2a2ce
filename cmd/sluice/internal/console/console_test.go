package console

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"fmt"
	"html"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/sluice-scheduler/sluice/cluster"
	"github.com/sluice-scheduler/sluice/cluster/cycle"
	"github.com/sluice-scheduler/sluice/cluster/journal"
	"github.com/sluice-scheduler/sluice/cluster/serve"
	"github.com/sluice-scheduler/sluice/costmodels/loadspread"
	"github.com/sluice-scheduler/sluice/costmodels/models"
	sluicev1 "github.com/sluice-scheduler/sluice/proto/sluice/v1"
	"github.com/sluice-scheduler/sluice/solver"
	"github.com/sluice-scheduler/sluice/solver/ssp"
)

// consoleTest is a console of a scheduler that works, without a host manager.
type consoleTest struct {
	*Console
	guarded   http.Handler
	scheduler *serve.Scheduler
	stop      func()
}

// newTest asks who calls, unless anybody may; the group ops operates it.
func newTest(t *testing.T, anybody bool) *consoleTest {
	t.Helper()
	config := serve.Config{
		Journal: journal.NewMemory(),
		State:   cluster.NewState(),
		Planner: cycle.New(loadspread.Model{}, func() solver.Solver { return ssp.New() }),
		Costs:   serve.CostModels{Configured: "loadspread", Names: models.Names(), New: models.New},
		Members: func(context.Context) []*sluicev1.Member {
			return []*sluicev1.Member{
				{Name: "n1", Role: sluicev1.Member_ROLE_LEADER, Record: 7, PeerAddress: "there:1"},
				{Name: "n2", Role: sluicev1.Member_ROLE_STANDBY, Record: 5},
				{Name: "n<3>"},
			}
		},
		// Hosts made up by a test have no shard; they stay as they are.
		UnreachableAfter: time.Hour,
	}
	if !anybody {
		config.Identity = &serve.Identity{Roles: []cluster.RoleBinding{{Role: cluster.Operator, Group: "ops", Pool: cluster.RootPool}}}
	}
	s, err := serve.New(config)
	require.NoError(t, err)
	c := New(serve.NewServer(s, serve.About{Version: "test"}, grpc.Creds(Credentials())))
	ctx, cancel := context.WithCancel(context.Background())
	serving, stop := context.WithCancel(ctx)
	ended := make(chan error, 2)
	go func() { ended <- s.Run(ctx) }()
	go func() { ended <- c.Serve(serving) }()
	t.Cleanup(func() {
		cancel()
		require.NoError(t, <-ended)
		require.NoError(t, <-ended)
	})
	return &consoleTest{c, Guard(c, anybody, "127.0.0.1:1"), s, stop}
}

// ServeHTTP implements [http.Handler], as the scheduler serves it.
func (c *consoleTest) ServeHTTP(w http.ResponseWriter, r *http.Request) { c.guarded.ServeHTTP(w, r) }

func (c *consoleTest) emit(t *testing.T, events ...cluster.Event) {
	t.Helper()
	require.NoError(t, c.scheduler.Do(t.Context(), func(tx *serve.Tx) error {
		for _, e := range events {
			if err := tx.Emit(e); err != nil {
				return err
			}
		}
		return nil
	}))
}

// as has a request made by the holder of a certificate, "" for nobody.
func as(r *http.Request, user string, groups ...string) *http.Request {
	if user != "" {
		r.TLS = &tls.ConnectionState{VerifiedChains: [][]*x509.Certificate{{{
			Subject: pkix.Name{CommonName: user, Organization: groups}, NotAfter: time.Now().Add(time.Hour),
		}}}}
	}
	return r
}

func request(path string) *http.Request {
	r := httptest.NewRequest(http.MethodGet, path, nil)
	r.Host = "localhost:7462"
	return r
}

// get returns the status and the text of the page that a user sees.
func (c *consoleTest) get(t *testing.T, r *http.Request) (int, string) {
	t.Helper()
	w := httptest.NewRecorder()
	c.ServeHTTP(w, r)
	require.NotContains(t, w.Body.String(), "goroutine ")
	if w.Code < 300 || w.Code >= 400 {
		require.Contains(t, w.Header().Get("Content-Security-Policy"), "default-src 'none'")
		require.Equal(t, "nosniff", w.Header().Get("X-Content-Type-Options"))
	}
	return w.Code, w.Body.String()
}

// sees returns the page that the user sees, which is one.
func (c *consoleTest) sees(t *testing.T, path, user string, groups ...string) string {
	t.Helper()
	code, body := c.get(t, as(request(path), user, groups...))
	require.Equal(t, http.StatusOK, code, "%s: %s", path, body)
	return body
}

// api returns clients that call as the user.
func (c *consoleTest) api(t *testing.T, user string, groups ...string) *visit {
	t.Helper()
	v, err := c.visit(t.Context(), as(request("/"), user, groups...))
	require.NoError(t, err)
	t.Cleanup(v.close)
	return v
}

func (v *visit) submit(t *testing.T, spec *sluicev1.JobSpec) {
	t.Helper()
	_, err := v.jobs.SubmitJob(v.ctx, &sluicev1.SubmitJobRequest{Spec: spec})
	require.NoError(t, err)
}

func (v *visit) createPool(t *testing.T, spec *sluicev1.PoolSpec) {
	t.Helper()
	_, err := v.pools.CreatePool(v.ctx, &sluicev1.CreatePoolRequest{Spec: spec})
	require.NoError(t, err)
}

func sleeper(name string, instances uint32, cores int64) *sluicev1.JobSpec {
	return &sluicev1.JobSpec{
		Name: name, Instances: proto.Uint32(instances), Pool: "root/default",
		Task: &sluicev1.TaskSpec{
			Processes: []*sluicev1.ProcessSpec{{Command: &sluicev1.ProcessSpec_Argv{Argv: &sluicev1.Argv{Args: []string{"sleep", "1"}}}}},
			Resources: &sluicev1.ResourceRequest{CpuMilli: 1000 * cores, MemoryBytes: 1 << 20},
		},
	}
}

func hostOf(name string, cores int64) *cluster.HostReported {
	var capacity cluster.Resources
	capacity.Fixed[cluster.CPU], capacity.Fixed[cluster.Memory] = 1000*cores, cores<<30
	return &cluster.HostReported{ID: cluster.HostID(name), Machine: cluster.Machine{Rack: "r1", Zone: "z1", Capacity: capacity, Notes: []string{"no <script> limits"}}}
}

// filled is a cluster with something on every page, some of it with names that are no text of ours.
func filled(t *testing.T, anybody bool) *consoleTest {
	t.Helper()
	c := newTest(t, anybody)
	keeper := hostOf("s/a", 4)
	keeper.Machine.Volumes = []cluster.HeldVolume{{Name: "data-0", Bytes: 1 << 30}}
	c.emit(t, keeper, hostOf("s/<script>b?c#d%2F", 4))
	v := c.api(t, "olga", "ops")
	v.createPool(t, &sluicev1.PoolSpec{Path: "root/batch", Description: "<script>pool</script>"})
	spec := sleeper("many", 130, 1)
	spec.Labels = map[string]string{"team": "<script>label</script>"}
	spec.Task.Processes[0].GetArgv().Args = []string{"echo", "\u202e; rm x"}
	v.submit(t, spec)
	v.submit(t, sleeper("large", 1, 1000))
	changed := sleeper("large", 1, 1000)
	changed.Labels = map[string]string{"b": "c"}
	_, err := v.jobs.UpdateJob(v.ctx, &sluicev1.UpdateJobRequest{Spec: changed, ExpectedVersion: 1, Description: "<script>change</script>"})
	require.NoError(t, err)
	_, err = v.hosts.DrainHost(v.ctx, &sluicev1.DrainHostRequest{Name: "s/a", Reason: "<script>drain</script>"})
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		res, err := v.tasks.ExplainTask(v.ctx, &sluicev1.ExplainTaskRequest{Job: "large"})
		return err == nil && res.GetWaiting().GetCycle() > 0
	}, 10*time.Second, 10*time.Millisecond)
	return c
}

func TestPagesShowWhatTheAPITells(t *testing.T) {
	c := filled(t, false)
	for path, wants := range map[string][]string{
		"/": {
			"Overview", `<dt>jobs</dt><dd><a href="/jobs">2</a>: <a href="/jobs?state=pending">1 pending</a>, <a href="/jobs?state=running">1 running</a></dd>`, `<dt>tasks</dt><dd><a href="/tasks">131</a>: <a href="/tasks?state=pending">`, `<dt>hosts</dt><dd><a href="/hosts">2</a>: <a href="/hosts?state=up">1 up</a>, <a href="/hosts?state=dra`, `<td class="empty number"><span class="none">–</span></td>`, `<meter aria-hidden="true" min="0" max="8000" value="`,
			"API address", `<th scope="row">n2</th><td data-name="Role">stands by</td>`, "n&lt;3&gt;", "does not answer", "Hosts that take no work", "Phases of cycle", `<span class="user">olga</span>`, `<meta http-equiv="refresh" content="10">`,
		},
		"/jobs": {
			`<th scope="row"><a href="/jobs/many">many</a></th>`, `<td data-name="Pool"><a href="/pools/root/default">root/default</a></td>`,
			`<td data-name="Tasks"><a href="/jobs/many">130</a>: <a href="/jobs/many?state=pending">1`, `<td class="number" data-name="Priority">0</td>`,
		},
		"/tasks":             {`<a href="/tasks/many/0">many/0</a>`, "Next page", `aria-current="true">Tasks</a>`},
		"/jobs?prefix=la":    {"large", `<input name="prefix" value="la">`},
		"/jobs?state=":       {"large", "many", "Jobs by name", `<option value="">name</option><option>newest</option>`},
		"/jobs?label=a=b":    {"There is no such job: filter by less"},
		"/jobs?pool=root":    {"large", "many"},
		"/jobs/many":         {"Job many", "team=&lt;script&gt;label", "name: many", `\u202e; rm x`, `<a href="/tasks/many/99">many/99</a>`, "Next page"},
		"/jobs/large?state=": {"Changes of version 2", `<th scope="row">labels.b</th><td class="empty"><span class="none">–</span></td><td data-name="To">c</td>`},
		"/jobs/large":        {`<dt>tasks</dt><dd><a href="/jobs/large">1</a>: <a href="/jobs/large?state=pending">1 pending</a></dd>`, `<th scope="row">2</th>`, `<td class="number" data-name="Changes">1</td><td data-name="Description">&lt;script&gt;change`, "no host fits: draining (1 of 2 hosts), cpu_milli (1)"},
		"/tasks/large/0":     {"Task large/0", `<span class="state pending">pending</span>`, "task large/0 is pending", "has too little cpu_milli", "has no output of run 1"},
		"/pools":             {"root/batch", "&lt;script&gt;pool", `<a href="/jobs?pool=root%2Fdefault">2</a>`, "Entitlement"},
		"/pools/root":        {"Pools below", "Nothing has run here for as long.", "cpu_milli: root is entitled to", "Refused", `<td data-name="Of entitlement"><meter aria-hidden="true" min="0" max="`},
		"/pools/root/batch":  {"Pool root/batch", `<a href="/tasks?pool=root%2Fbatch">Tasks of this pool</a>`},
		"/tasks?pool=root":   {"many/0"},
		"/hosts":             {"&lt;script&gt;b?c#d%2F", `<a href="/hosts/s/%3Cscript%3Eb%3Fc%23d%252F">`, "&lt;script&gt;drain", "/4Gi"},
		"/hosts?state=up":    {"&lt;script&gt;b?c#d%2F"},
		"/hosts/s/a":         {"Host s/a", `<span class="state drain`, "no &lt;script&gt; limits", "Capacity"},

		"/hosts/s/a?state=failed": {"Volumes", `<th scope="row">data-0</th><td data-name="Host"><a href="/hosts/s/a">s/a</a></td><td data-name="Size">1Gi</td>`},
		"/volumes":                {`<th scope="row">data-0</th>`, `aria-current="true">Hosts</a>`},
		"/volumes?host=s%2F%3Cscript%3Eb%3Fc%23d%252F": {"No host keeps a persistent volume"},

		"/hosts/s/%3Cscript%3Eb%3Fc%23d%252F": {"Host s/&lt;script&gt;b?c#d%2F", "many/"},
	} {
		body := c.sees(t, path, "olga", "ops")
		for _, want := range wants {
			require.Contains(t, body, want, path)
		}
		require.Equal(t, 1, strings.Count(body, "<script"), "%s has ours and no other", path)
	}
	require.NotContains(t, c.sees(t, "/jobs?prefix=la", "olga", "ops"), "many")
	require.Regexp(t, `Explanation</h2>[\s\S]*Output</h2>[\s\S]*Events</h2>`, c.sees(t, "/tasks/large/0", "olga", "ops"))
	newest := c.sees(t, "/jobs?order=newest", "olga", "ops")
	require.Regexp(t, `<option selected>newest</option>[\s\S]*Jobs, the newest first[\s\S]*/jobs/large[\s\S]*/jobs/many`, newest)
	c.api(t, "olga", "ops").submit(t, &sluicev1.JobSpec{Name: "first", Priority: 3, Pool: "root/default", Task: sleeper("", 1, 1).Task})
	require.Regexp(t, `the highest priority first[\s\S]*/jobs/first[\s\S]*/jobs/many`, c.sees(t, "/jobs?order=priority", "olga", "ops"))
	still := c.sees(t, "/jobs?refresh=0&prefix=la", "olga", "ops")
	require.NotContains(t, still, "http-equiv")
	require.NotContains(t, still, "<script")
	require.NotContains(t, still, "data-refresh")
	require.Contains(t, still, `<a href="/jobs?prefix=la">switch on</a>`)
	require.Contains(t, still, `<input type="hidden" name="refresh" value="0">`)
	require.Contains(t, c.sees(t, styleName, ""), "prefers-color-scheme", "who is not known is shown that in good order, too")
}

// Browsers run the script that asks for a page anew as it is written, and no other. Without scripts the page is asked for anew, too.
func TestOneScript(t *testing.T) {
	c := newTest(t, false)
	w := httptest.NewRecorder()
	c.ServeHTTP(w, as(request("/jobs"), "olga", "ops"))
	before, rest, _ := strings.Cut(w.Body.String(), "<script>")
	written, after, found := strings.Cut(rest, "</script>")
	require.True(t, found)
	require.Equal(t, string(script), written)
	sum := sha256.Sum256([]byte(written))
	require.Contains(t, w.Header().Get("Content-Security-Policy"), "; script-src 'sha256-"+base64.StdEncoding.EncodeToString(sum[:])+"'; connect-src 'self'; ")
	require.NotContains(t, before, "http-equiv")
	require.Contains(t, after, `<noscript><meta http-equiv="refresh" content="10"></noscript>`)
	require.Contains(t, after, `<body data-refresh="10">`)
	require.Contains(t, after, `<main id="content">`, "the script knows by it what is no page of ours")
	require.Regexp(t, `As of \d\d:\d\d:\d\d \S+\. <span id="refresh" role="status">Refreshes every 10 s</span>`, after)
}

// The page of a service says where it is reached, as soon as an instance is ready.
func TestEndpoints(t *testing.T) {
	c := newTest(t, true)
	at := hostOf("s/a", 4)
	at.Machine.Ports = []cluster.PortRange{{First: 7000, Last: 7009}}
	at.Machine.Address, at.Machine.Capabilities = "2001:db8::5", cluster.CanPorts
	c.emit(t, at)
	web := sleeper("web", 2, 1)
	web.Type = sluicev1.JobType_JOB_TYPE_STATELESS
	web.Task.Resources.Ports = &sluicev1.PortRequest{Dynamic: 1}
	web.Discovery = &sluicev1.DiscoveryPolicy{Endpoints: []*sluicev1.DiscoveryEndpoint{{Name: "http", Port: &sluicev1.PortRef{Kind: &sluicev1.PortRef_DynamicIndex{}}}}}
	c.api(t, "").submit(t, web)
	require.Contains(t, c.sees(t, "/jobs/web", ""), "No instance is ready")
	require.Eventually(t, func() bool { return strings.Contains(c.sees(t, "/jobs/web?state=placed", ""), "/tasks/web/1") }, 10*time.Second, 10*time.Millisecond)
	second := cluster.MakeTaskKey(1, 1)
	c.emit(t, &cluster.TaskStatus{Task: second, Run: 1, State: cluster.TaskLaunching}, &cluster.TaskStatus{Task: second, Run: 1, State: cluster.TaskRunning})
	require.Regexp(t, `<h2>Endpoints</h2>[\s\S]*<a href="/tasks/web/1">1</a></th><td data-name="Endpoint">http</td><td data-name="Address">\[2001:db8::5\]:70`, c.sees(t, "/jobs/web", ""))
}

// Every link of every page leads to a page, and none of them elsewhere.
func TestEveryLinkLeadsToAPage(t *testing.T) {
	c := filled(t, false)
	links := regexp.MustCompile(`(?:href|action|src)="([^"]*)"`)
	seen, todo := map[string]bool{"/": true}, []string{"/"}
	still := func(path string) bool { return strings.Contains(path, "refresh=0") }
	for len(todo) > 0 {
		path := todo[0]
		todo = todo[1:]
		code, body := c.get(t, as(request(path), "olga", "ops"))
		require.Equal(t, http.StatusOK, code, "%s: %s", path, body)
		require.Equal(t, still(path), !strings.Contains(body, "http-equiv") && !strings.HasPrefix(path, "/style.css"), path)
		for _, m := range links.FindAllStringSubmatch(body, -1) {
			to, err := url.Parse(html.UnescapeString(m[1]))
			require.NoError(t, err, "%s on %s", m[1], path)
			require.True(t, to.Host == "" && to.Scheme == "", "%s on %s leads elsewhere", m[1], path)
			to.Fragment = ""
			if still(path) && to.Path != "" && to.Path != "/style.css" && !strings.Contains(body, `<a href="`+m[1]+`">switch on</a>`) {
				require.Equal(t, 1, strings.Count(to.RawQuery, "refresh=0"), "%s on %s does not keep still", m[1], path)
			}
			if next := to.String(); next != "" && !seen[next] {
				require.True(t, strings.HasPrefix(next, "/"), "%s on %s", m[1], path)
				seen[next] = true
				todo = append(todo, next)
			}
		}
	}
	for _, path := range []string{"/jobs/many", "/tasks/many/129", "/tasks/large/0", "/pools/root/batch", "/hosts/s/a", "/volumes"} {
		require.True(t, seen[path], path)
	}
}

// Where there is nothing, pages say what would bring something.
func TestEmptyPagesSayWhatToDo(t *testing.T) {
	c := newTest(t, false)
	for path, want := range map[string]string{
		"/": "`sluice hostmgr local`", "/jobs?order=newest&state=": "`sluice job submit FILE`", "/tasks?refresh=0": "`sluice job submit FILE`",
		"/hosts": "`sluice hostmgr local`", "/hosts?rack=r": "There is no such host: filter by less", "/tasks?state=failed": "There is no such task: filter by less",
	} {
		require.Contains(t, c.sees(t, path, "olga", "ops"), `<p class="none">`, path)
		require.Contains(t, c.sees(t, path, "olga", "ops"), want, path)
	}
	c.emit(t, hostOf("s/a", 4))
	require.Contains(t, c.sees(t, "/hosts/s/a", "olga", "ops"), "No task that you may see is here.")
	require.Contains(t, c.sees(t, "/pools", "whoever"), "`sluice role grant`")
}

// All hosts of a large cluster are listed, page after page, and each is found by its name.
func TestTenThousandHosts(t *testing.T) {
	const all = 10_000
	c := newTest(t, true)
	events := make([]cluster.Event, all)
	for i := range events {
		h := hostOf(fmt.Sprintf("s/h%04d", i), 64)
		h.Machine.Rack = fmt.Sprintf("r%d", i/40)
		events[i] = h
	}
	c.emit(t, events...)
	require.Contains(t, c.sees(t, "/", ""), `<a href="/hosts">10000</a>: <a href="/hosts?state=up">10000 up</a>`)
	listed := 0
	more := regexp.MustCompile(`<a href="([^"]*)">Next page</a>`)
	for path := "/hosts"; path != ""; {
		body := c.sees(t, path, "")
		require.Less(t, len(body), 64<<10)
		listed += strings.Count(body, `<th scope="row"><a href="/hosts/s/h`)
		if next := more.FindStringSubmatch(body); next != nil {
			path = html.UnescapeString(next[1])
		} else {
			path = ""
		}
	}
	require.Equal(t, all, listed)
	for path, want := range map[string]int{"/hosts?rack=r249": 40, "/hosts?name=s/h9876&rack=": 1, "/hosts?name=s/h": 0} {
		require.Equal(t, want, strings.Count(c.sees(t, path, ""), `<th scope="row"><a href="/hosts/s/h`), path)
	}
}

// What the API keeps from somebody, pages keep from him, as if it were not there.
func TestPagesShowNothingOfOthers(t *testing.T) {
	c := newTest(t, false)
	c.emit(t, hostOf("s/a", 4))
	olga := c.api(t, "olga", "ops")
	olga.createPool(t, &sluicev1.PoolSpec{Path: "root/hers"})
	olga.createPool(t, &sluicev1.PoolSpec{Path: "root/theirs"})
	c.emit(t, &cluster.RoleGranted{Binding: cluster.RoleBinding{Role: cluster.Submitter, User: "ann", Pool: "root/hers"}})
	ours, theirs := sleeper("mine", 2, 1), sleeper("confidential", 2, 1)
	ours.Pool, theirs.Pool = "root/hers", "root/theirs"
	c.api(t, "ann").submit(t, ours)
	olga.submit(t, theirs)
	require.Eventually(t, func() bool {
		return strings.Contains(c.sees(t, "/hosts/s/a", "olga", "ops"), "confidential/1")
	}, 10*time.Second, 10*time.Millisecond)
	for _, path := range []string{"/", "/jobs", "/tasks", "/jobs/mine", "/tasks/mine/0", "/pools", "/pools/root/hers", "/hosts", "/hosts/s/a"} {
		body := c.sees(t, path, "ann")
		require.NotContains(t, body, "confidential", path)
		require.NotContains(t, body, "theirs", path)
	}
	require.Contains(t, c.sees(t, "/hosts/s/a", "ann"), "mine/0")
	for _, pair := range [][2]string{
		{"/jobs/confidential", "/jobs/confidentiam"}, {"/tasks/confidential/0", "/tasks/confidentiam/0"}, {"/pools/root/theirs", "/pools/root/theirt"},
	} {
		code, hidden := c.get(t, as(request(pair[0]), "ann"))
		require.Equal(t, http.StatusNotFound, code)
		code, absent := c.get(t, as(request(pair[1]), "ann"))
		require.Equal(t, http.StatusNotFound, code)
		require.Equal(t, absent, strings.NewReplacer("confidential", "confidentiam", "theirs", "theirt").Replace(hidden))
	}
}

func TestErrorsArePages(t *testing.T) {
	c := filled(t, false)
	long := strings.Repeat("x", 8000)
	for path, want := range map[string]struct {
		code int
		text string
	}{
		"/nowhere":               {http.StatusNotFound, "there is no such page"},
		"/jobs/":                 {http.StatusNotFound, "there is no such page"},
		"/jobs/absent":           {http.StatusNotFound, "job &#34;absent&#34;: there is no such job"},
		"/tasks/many/130":        {http.StatusNotFound, "there is no instance 130"},
		"/tasks/many/x":          {http.StatusNotFound, "is not the number of an instance"},
		"/tasks/many/4294967296": {http.StatusNotFound, "is not the number of an instance"},
		"/pools/root/absent":     {http.StatusNotFound, "absent"},
		"/hosts/s/absent":        {http.StatusNotFound, "absent"},
		"/volumes?host=s/absent": {http.StatusNotFound, "absent"},
		"/jobs?state=gone":       {http.StatusBadRequest, "state: &#34;gone&#34; is none of failed"},
		"/jobs?order=size":       {http.StatusBadRequest, "order: &#34;size&#34; is none of newest, priority"},
		"/jobs?label=x":          {http.StatusBadRequest, "is not key=value"},
		"/jobs?page=" + long:     {http.StatusBadRequest, "page_token: "},
		"/jobs?pool=root/absent": {http.StatusNotFound, "there is no such pool"},
		"/tasks?pool=root/none":  {http.StatusNotFound, "there is no such pool"},
		"/jobs/%ff":              {http.StatusBadRequest, "the address is not UTF-8"},
		"/jobs?prefix=%ff":       {http.StatusBadRequest, "the address is not UTF-8"},
	} {
		code, body := c.get(t, as(request(path), "olga", "ops"))
		require.Equal(t, want.code, code, path)
		require.Contains(t, body, want.text, path)
		require.NotContains(t, body, "http-equiv", "what is wrong stays wrong")
	}
	_, body := c.get(t, as(request("/nowhere?refresh=0"), "olga", "ops"))
	require.Contains(t, body, `<a href="/tasks?refresh=0">`)
	for _, path := range []string{
		"/jobs/a%2Fb", "/jobs/%00", "/jobs/%ff", "/jobs/日本", "/jobs/" + long, "/jobs/..", "/jobs/%2e%2e", "/tasks/a%2Fb/0", "/tasks/-/-1", "/tasks/many/%30x",
		"/hosts/%2F%2F", "/hosts/s/a/b/c", "/pools/root%2Fbatch/x", "/pools/%3Cscript%3E", "/jobs?page=%ff&pool=%00", "/jobs?state=%ff", "/jobs?label=%00=%ff",
		"/hosts?state=&shard=%ff", "//example.com/..", "/hosts?page=a&page=b", "/jobs?%", "/tasks/many/0?page=" + long,
	} {
		code, body := c.get(t, as(request(path), "olga", "ops"))
		require.True(t, code >= 300 && code < 500, "%s: %d %s", path, code, body)
		require.NotContains(t, body, "<script>", path)
	}
	w := httptest.NewRecorder()
	c.ServeHTTP(w, as(httptest.NewRequest(http.MethodPost, "/jobs", nil), "olga", "ops"))
	require.Equal(t, http.StatusMethodNotAllowed, w.Code)
	require.Equal(t, "GET, HEAD", w.Header().Get("Allow"))

	code, body := c.get(t, as(request("/"), "nobody"))
	require.Equal(t, http.StatusForbidden, code)
	require.Contains(t, body, "user &#34;nobody&#34; may not")
	c.stop()
	require.Eventually(t, func() bool {
		code, body = c.get(t, as(request("/jobs"), "olga", "ops"))
		return code == http.StatusServiceUnavailable
	}, 10*time.Second, 10*time.Millisecond)
	require.Contains(t, body, "http-equiv", "another one may come to answer")
	code, body = c.get(t, as(request("/jobs?refresh=0"), "olga", "ops"))
	require.Equal(t, http.StatusServiceUnavailable, code)
	require.NotContains(t, body, "http-equiv", "it was switched off")
	require.Contains(t, body, `<a href="/tasks?refresh=0">`)
	late := httptest.NewRecorder()
	fail(late, request("/"), httpStatus(status.FromContextError(context.DeadlineExceeded).Err()), "late")
	require.Equal(t, http.StatusGatewayTimeout, late.Code)
	require.Contains(t, late.Body.String(), "http-equiv", "it may be in time again")
}

func TestWhoIsAsked(t *testing.T) {
	c := newTest(t, false)
	secret := strings.Repeat("a", 64)
	c.emit(t,
		&cluster.TokenCreated{Token: cluster.Token{
			ID: "t1", Hash: sha256.Sum256([]byte(secret)), User: "vera", Expires: cluster.Time(time.Now().Add(time.Hour).UnixNano()),
		}},
		&cluster.RoleGranted{Binding: cluster.RoleBinding{Role: cluster.Viewer, User: "vera", Pool: cluster.RootPool}},
	)
	shows := func(path, header string) *httptest.ResponseRecorder {
		r := request(path)
		if header != "" {
			r.Header.Set("Authorization", header)
		}
		w := httptest.NewRecorder()
		c.ServeHTTP(w, r)
		return w
	}
	basic := func(name, password string) string {
		return "Basic " + base64.StdEncoding.EncodeToString([]byte(name+":"+password))
	}
	for _, header := range []string{basic("whoever", "sluice_t1_"+secret), "Bearer sluice_t1_" + secret} {
		w := shows("/", header)
		require.Equal(t, http.StatusOK, w.Code, w.Body)
		require.Contains(t, w.Body.String(), `<span class="user">vera</span>`)
	}
	for i, header := range []string{"", "Digest x", "Bearer é\x01", "Basic " + strings.Repeat("x", 15000), basic("vera", "sluice_t1_x")} {
		for _, path := range []string{"/", "/jobs/absent", "/nowhere"} {
			w := shows(path, header)
			if i == 4 && path == "/nowhere" {
				continue // too many by then
			}
			require.Contains(t, []int{http.StatusUnauthorized, http.StatusTooManyRequests}, w.Code, "%s by %.20q: %s", path, header, w.Body)
			if w.Code == http.StatusUnauthorized {
				require.Equal(t, `Basic realm="sluice", charset="UTF-8"`, w.Header().Get("WWW-Authenticate"))
				require.Contains(t, w.Body.String(), "a token is shown as the password")
			}
		}
	}
	// Guesses are counted where they come from, for a while.
	locked := shows("/", "Bearer sluice_t1_"+secret)
	require.Equal(t, http.StatusTooManyRequests, locked.Code)
	require.Contains(t, locked.Body.String(), "http-equiv", "it will be let in again")
	r := request("/")
	r.RemoteAddr = "[2001:db8::1]:5"
	r.Header.Set("Authorization", "Bearer sluice_t1_"+secret)
	code, _ := c.get(t, r)
	require.Equal(t, http.StatusOK, code)
}

// Where nobody is asked who he is, a page of somebody else's whose name was made to lead here reads nothing.
func TestNamesOfThisMachine(t *testing.T) {
	c := filled(t, true)
	for name, want := range map[string]int{
		"localhost": 200, "LOCALHOST:80": 200, "127.0.0.1:7462": 200, "[::1]:7462": 200, "[::1]": 200, "evil.example": 421, "localhost.evil.example:80": 421, "": 421,
	} {
		r := request("/jobs")
		r.Host = name
		code, body := c.get(t, r)
		require.Equal(t, want, code, name)
		require.Equal(t, want == 200, strings.Contains(body, "many"), name)
	}
	guarded := newTest(t, false)
	r := as(request("/"), "olga", "ops")
	r.Host = "scheduler.example.com"
	code, _ := guarded.get(t, r)
	require.Equal(t, http.StatusOK, code)
}

// Whoever stands by says so on a page, which is asked for anew until it leads.
func TestStandby(t *testing.T) {
	pages := Standby(func() string { return "n1 stands by: n<2> leads" })
	for _, path := range []string{"/", "/jobs/a"} {
		w := httptest.NewRecorder()
		pages.ServeHTTP(w, request(path))
		require.Equal(t, http.StatusServiceUnavailable, w.Code)
		require.Contains(t, w.Body.String(), "n1 stands by: n&lt;2&gt; leads")
		require.Contains(t, w.Body.String(), `http-equiv="refresh"`)
		require.Contains(t, w.Body.String(), `<main id="content">`)
	}
	w := httptest.NewRecorder()
	pages.ServeHTTP(w, request(styleName))
	require.Equal(t, style, w.Body.Bytes())
}

// What is counted beside states, and what a newer API may count, leads nowhere.
func TestCountsLeadToWhatIsCounted(t *testing.T) {
	require.Equal(t, cell{Counts: []cell{{Text: "0", To: "/hosts"}}}, countsOf("0", "/hosts", hostStates, sluicev1.HostState_value))
	require.Equal(t, cell{Counts: []cell{
		{Text: "4", To: "/jobs/a"}, {Text: "3 running", To: "/jobs/a?state=running"}, {Text: "1 failed", To: "/jobs/a?state=failed"}, {Text: "2 ready"},
	}}, taskCounts("4: 3 running, 1 failed, 2 ready", "a"))
}

// A pool that borrows has more than all that it is entitled to; one that is entitled to nothing has no part of it.
func TestPartsOfEntitlements(t *testing.T) {
	dimensions := []*sluicev1.PoolDimensionStatus{{Dimension: "cpu_milli", Allocation: 3000, Entitlement: 2000}, {Dimension: "gpu_milli", Allocation: 1000}}
	parts := poolParts([]*sluicev1.Pool{{Spec: &sluicev1.PoolSpec{Path: "root/a"}, Dimensions: dimensions[:1]}, {Dimensions: dimensions[1:]}})
	rows := parts[1].Table.Rows
	require.Equal(t, cell{Text: "150 %", Meter: &meter{Value: 2000, Max: 2000}}, rows[0][len(rows[0])-1])
	require.True(t, rows[1][len(rows[1])-1].Empty())
	require.Len(t, parts[1].Table.Columns, len(rows[0]))
}

// The end of an output begins with a line, and commands nothing.
func TestEndOfAnOutput(t *testing.T) {
	var whole, late tail
	whole.take(&sluicev1.TaskLogsResponse{Data: []byte("a\x1b[31m\tb\xff\r\n")})
	require.Equal(t, `a\x1b[31m`+"\tb\uFFFD"+`\r`+"\n", whole.text())
	late.take(&sluicev1.TaskLogsResponse{Offset: 7})
	late.take(&sluicev1.TaskLogsResponse{Offset: 7, Data: []byte("rest of a line\nb\n")})
	require.Equal(t, "b\n", late.text())
	var long tail
	for i := range 3000 {
		long.take(&sluicev1.TaskLogsResponse{Data: fmt.Appendf(nil, "line %d\n", i)})
	}
	require.LessOrEqual(t, len(long.text()), outputShown)
	require.True(t, strings.HasPrefix(long.text(), "line ") && bytes.HasSuffix([]byte(long.text()), []byte("line 2999\n")))
}
