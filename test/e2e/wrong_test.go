//go:build e2e

package e2e

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestWrongInput(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	dev := s.dev()
	before := s.must("job", "list", "-o", "json")
	spec := func(lines string) string {
		return "name: x\ntask:\n  processes: [{argv: [\"true\"]}]\n  resources: {cpu: 1, memory: 1Mi}\n" + lines
	}
	for name, c := range map[string]struct {
		job  string // submitted, if there is one
		args []string
		code int
		want string
	}{
		"unknown key":        {job: spec("priorty: 3\n"), code: 2, want: `:5:1: unknown key "priorty": did you mean "priority"?`},
		"wrong type":         {job: spec("priority: high\n"), code: 2, want: ":5:11: priority: expected a whole number"},
		"no unit":            {job: spec("kill_grace: 5\n"), code: 2, want: "expected a duration such as 10s"},
		"negative":           {job: strings.Replace(spec(""), "cpu: 1", "cpu: -1", 1), code: 6, want: "cpu_milli"},
		"absurd":             {job: strings.Replace(spec(""), "memory: 1Mi", "memory: 8000Pi", 1), code: 6, want: "memory_bytes"},
		"too many":           {job: spec("instances: 1000000000\n"), code: 6, want: "spec.instances"},
		"long name":          {job: strings.Replace(spec(""), "name: x", "name: "+strings.Repeat("x", 101), 1), code: 6, want: "spec.name"},
		"unknown pool":       {job: spec("pool: root/none\n"), code: 6, want: "spec.pool"},
		"no patience":        {job: spec("locality: {host_wait: -5s}\n"), code: 6, want: "spec.locality.host_wait"},
		"cycle":              {job: spec("depends_on: [{job: x}]\n"), code: 6, want: "depends_on"},
		"no file":            {args: []string{"job", "submit", "nowhere.yaml"}, code: 2, want: "nowhere.yaml"},
		"no argument":        {args: []string{"job", "submit"}, code: 2, want: "FILE is missing"},
		"unknown command":    {args: []string{"job", "sumbit"}, code: 2, want: `unknown command "sumbit": did you mean "submit"?`},
		"unknown flag":       {args: []string{"job", "list", "--colour"}, code: 2, want: "unknown flag: --colour"},
		"state":              {args: []string{"job", "list", "--state", "lost"}, code: 2, want: `"lost" is none of`},
		"no such job":        {args: []string{"job", "get", "none"}, code: 3, want: "none"},
		"wait for none":      {args: []string{"job", "wait", "none"}, code: 3, want: "job none does not exist"},
		"no such task":       {args: []string{"task", "explain", "none/0"}, code: 3, want: "none"},
		"not a task":         {args: []string{"task", "logs", "none"}, code: 2, want: "JOB/INSTANCE"},
		"no such pool":       {args: []string{"pool", "get", "root/none"}, code: 3, want: "root/none"},
		"pool with a parent": {args: []string{"pool", "create", "root/a/b"}, code: 7, want: "root/a"},
		"no such host":       {args: []string{"host", "drain", "local/h99"}, code: 3, want: "local/h99"},
		"far away":           {args: []string{"job", "list", "--server", "10.0.0.1:7461"}, code: 2, want: "loopback"},
		"output":             {args: []string{"job", "list", "-o", "xml"}, code: 2, want: "none of table, json, yaml"},
		"settings":           {args: []string{"job", "list", "--config", "nowhere.yaml"}, code: 2, want: "nowhere.yaml"},
	} {
		t.Run(name, func(t *testing.T) {
			args := c.args
			if c.job != "" {
				args = []string{"job", "submit", s.file("wrong.yaml", c.job)}
			}
			a := s.try(args...)
			require.Equal(t, c.code, a.code, a.err)
			require.Contains(t, a.err, c.want)
			require.Empty(t, a.out)
			require.NotContains(t, a.err, "rpc error")
		})
	}
	require.Equal(t, before, s.must("job", "list", "-o", "json"))
	dev.finish()
}

func TestNobodyIsThere(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	a := s.try("job", "list")
	require.Equal(t, 5, a.code)
	require.Equal(t, "sluice: no scheduler answers at "+s.api+": start one with `sluice dev`, or name its address with --server or SLUICE_SERVER\n", a.err)
}

func TestSecondInstance(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	dev := s.dev()
	one := func(want string, args ...string) {
		t.Helper()
		a := s.try(append([]string{"dev"}, args...)...)
		require.Equal(t, 1, a.code)
		require.Empty(t, a.out)
		require.Equal(t, 1, strings.Count(a.err, "\n"), a.err)
		require.Contains(t, a.err, want)
	}
	free := []string{"--listen", "127.0.0.1:0", "--http-listen", "127.0.0.1:0"}
	one("the state folder "+s.path("state")+" is in use by another sluice: stop it, or choose another folder with --state-dir",
		append(free, "--state-dir", s.path("state"))...)
	one("the address "+s.api+" is in use, perhaps by another sluice: stop it, or choose another with --listen",
		"--listen", s.api, "--state-dir", s.path("state2"))
	one("the address "+s.web+" is in use, perhaps by another sluice: stop it, or choose another with --http-listen",
		"--listen", "127.0.0.1:0", "--http-listen", s.web, "--state-dir", s.path("state2"))
	require.NoError(t, os.MkdirAll(s.path("mine/journal"), 0o700))
	s.file("mine/journal/letter.txt", "dear")
	one("--state-dir", append(free, "--state-dir", s.path("mine"))...)
	s.must("cluster", "status")
	dev.finish()
}
