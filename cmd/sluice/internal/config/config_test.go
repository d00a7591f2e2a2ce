package config

import (
	"fmt"
	"os"
	"os/user"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"
)

// TestMain takes away the settings of whoever runs the tests.
func TestMain(m *testing.M) {
	for _, s := range Settings() {
		_ = os.Unsetenv(envName(s.Key))
	}
	os.Exit(m.Run())
}

func load(t *testing.T, file string, env map[string]string, args ...string) (*Loaded, error) {
	t.Helper()
	t.Setenv("XDG_CONFIG_HOME", t.TempDir())
	t.Setenv("SLUICE_CONFIG", "")
	for k, v := range env {
		t.Setenv(k, v)
	}
	path := ""
	if file != "" {
		path = filepath.Join(t.TempDir(), "c.yaml")
		require.NoError(t, os.WriteFile(path, []byte(file), 0o600))
	}
	flags := pflag.NewFlagSet("x", pflag.ContinueOnError)
	AddFlags(flags, "server", "output", "local.hosts", "local.address", "dev.state_dir")
	require.NoError(t, flags.Parse(args))
	l, err := Load(path, flags)
	if err == nil {
		err = l.CheckCaller()
	}
	return l, err
}

func value(t *testing.T, l *Loaded, key string) Value {
	t.Helper()
	for _, v := range l.Values() {
		if v.Key == key {
			return v
		}
	}
	t.Fatalf("no key %q", key)
	return Value{}
}

func TestDefaults(t *testing.T) {
	t.Setenv("XDG_STATE_HOME", "/state")
	l, err := load(t, "", nil)
	require.NoError(t, err)
	require.Equal(t, "127.0.0.1:7461", l.Server)
	require.Equal(t, 8, l.Local.Hosts)
	require.Equal(t, 5*time.Minute, l.Scheduler.LostAfter)
	require.Equal(t, "/state/sluice/dev", l.Dev.StateDir)
	require.Len(t, l.Values(), len(Settings()))
	for _, v := range l.Values() {
		require.Equal(t, "default", v.Source, v.Key)
	}
}

func TestPrecedence(t *testing.T) {
	file := "server: localhost:1\noutput: json\nlocal: {hosts: 3, racks: 1}\nlog: {level: warn}\n"
	env := map[string]string{"SLUICE_SERVER": "localhost:2", "SLUICE_LOCAL_HOSTS": "4"}
	l, err := load(t, file, env, "--server=localhost:3")
	require.NoError(t, err)
	require.Equal(t, "localhost:3", l.Server)
	require.Equal(t, "flag --server", value(t, l, "server").Source)
	require.Equal(t, 4, l.Local.Hosts)
	require.Equal(t, "environment SLUICE_LOCAL_HOSTS", value(t, l, "local.hosts").Source)
	require.Equal(t, "warn", l.Log.Level)
	require.Equal(t, "json", l.Output)
	require.Equal(t, Value{"local.racks", "1", "file " + l.File}, value(t, l, "local.racks"))
}

func TestNothingIsSetInASection(t *testing.T) {
	l, err := load(t, "output: json\nlocal:\n#  hosts: 3\nscheduler: {tls: }\n", nil)
	require.NoError(t, err)
	require.Equal(t, 8, l.Local.Hosts)
	require.Equal(t, "default", value(t, l, "local.hosts").Source)
}

// A slip in the name of a variable is told: nothing else would, since any program may have variables.
func TestStrayVariables(t *testing.T) {
	require.Equal(t, []string{
		"the environment variable SLUICE_LOCL_HOSTS sets nothing: did you mean SLUICE_LOCAL_HOSTS?",
		"the environment variable SLUICE_SCHEDULER_STATEDIR sets nothing: did you mean SLUICE_SCHEDULER_STATE_DIR?",
		"the environment variable SLUICE_SCHEDULER_WHATEVER_THAT_MAY_BE_FOR_US_ALL sets nothing: `sluice config print` lists the keys",
		"the environment variable SLUICE_SERVERS sets nothing: did you mean SLUICE_SERVER?",
	}, strays([]string{
		"SLUICE_SERVERS=x", "SLUICE_SERVER=x", "SLUICE_SCHEDULER_STATEDIR=/x", "SLUICE_LOCL_HOSTS=3", "SLUICE_LOCAL_HOSTS=",
		"SLUICE_SCHEDULER_WHATEVER_THAT_MAY_BE_FOR_US_ALL=", "LOCAL_HOSTS=3", "SLUICE_CONFIG=x",
		// what a task finds
		"SLUICE_JOB=x", "SLUICE_JOB_UID=1", "SLUICE_INSTANCE=0", "SLUICE_TASK_ID=1.0", "SLUICE_RUN=1", "SLUICE_RUN_ID=1.0.1", "SLUICE_HOST=local/h0",
		"SLUICE_HOST_ADDRESS=127.0.0.1", "SLUICE_RUN_DIR=/x", "SLUICE_PORT_0=1", "SLUICE_PORT_HTTP=1", "SLUICE_GANG_RANK=0", "SLUICE_GANG_SIZE=1",
		"SLUICE_GANG_PEERS=", "SLUICE_SECRETS_DIR=/x", "SLUICE_STOP_REASON=x", "SLUICE_TOKEN_FILE=/x", "SLUICE_PROGRESS_FILE=/x", "SLUICE_TLS_CA=/x",
		// what Kubernetes sets beside services that are called sluice and sluice-scheduler
		"SLUICE_SERVICE_HOST=10.0.0.1", "SLUICE_PORT=tcp://10.0.0.1:7461", "SLUICE_SCHEDULER_SERVICE_HOST=10.0.0.1", "SLUICE_SCHEDULER_SERVICE_PORT=7461",
		"SLUICE_SCHEDULER_SERVICE_PORT_API=7461", "SLUICE_SCHEDULER_PORT=tcp://10.0.0.1:7461", "SLUICE_SCHEDULER_PORT_7461_TCP_ADDR=10.0.0.1",
		// of tests
		"SLUICE_DATA=/x", "SLUICE_LONG=1", "SLUICE_SEED=1",
	}))
}

func TestFileByEnvironment(t *testing.T) {
	path := filepath.Join(t.TempDir(), "c.yaml")
	require.NoError(t, os.WriteFile(path, []byte("reconnect: 3s\n"), 0o600))
	l, err := load(t, "", map[string]string{"SLUICE_CONFIG": path})
	require.NoError(t, err)
	require.Equal(t, 3*time.Second, l.Reconnect)
}

// TestFileIsReadOnce: a file may be a pipe, as in --config <(...), of which a second reading gets nothing.
func TestFileIsReadOnce(t *testing.T) {
	r, w, err := os.Pipe()
	require.NoError(t, err)
	defer func() { require.NoError(t, r.Close()) }()
	_, err = w.WriteString("output: json\n")
	require.NoError(t, err)
	require.NoError(t, w.Close())
	l, err := Load(fmt.Sprintf("/dev/fd/%d", r.Fd()), pflag.NewFlagSet("x", pflag.ContinueOnError))
	require.NoError(t, err)
	require.Equal(t, "json", l.Output)
}

func TestCollectors(t *testing.T) {
	for address, good := range map[string]bool{
		"": true, "http://127.0.0.1:4317": true, "https://collector.example.org:443/": true, "http://[::1]:4317": true,
		"127.0.0.1:4317": false, "localhost:4317": false, "http://localhost": false, "http://:4317": false, "http://localhost:99999": false,
		"grpc://localhost:4317": false, "http://localhost:4318/v1/traces": false, "http://user:word@localhost:4317": false, "http://localhost:4317?x": false,
	} {
		l, err := load(t, "scheduler: {traces: '"+address+"'}\n", nil)
		if good {
			require.NoError(t, err, address)
			require.Equal(t, address, l.Scheduler.Traces)
			continue
		}
		require.ErrorContains(t, err, `scheduler.traces: "`+address+`" is not the address of a collector`)
		require.ErrorContains(t, err, "(from file ")
	}
}

// Documents in which there is nothing do not hide the one with the settings.
func TestEmptyDocumentsBeforeTheSettings(t *testing.T) {
	for _, before := range []string{"", "---\n", "---\n---\n", "# a\n---\n\n# b\n---  # c\r\n", "---\n...\n---\n"} {
		l, err := load(t, before+"server: localhost:1\n---\n", nil)
		require.NoError(t, err, before)
		require.Equal(t, "localhost:1", l.Server, before)
	}
	_, err := load(t, "---\n---\nserver: [\n", nil)
	require.ErrorContains(t, err, "line 3")
}

func TestRefusals(t *testing.T) {
	for name, c := range map[string]struct {
		file string
		env  map[string]string
		args []string
		want []string
	}{
		"unknown key":    {file: "servr: x\n", want: []string{`unknown key "servr": did you mean "server"?`}},
		"unknown nested": {file: "local: {colour: x}\n", want: []string{`unknown key "local.colour": `}},
		"none near":      {file: "local: {bar: 1}\n", want: []string{`unknown key "local.bar": ` + "`sluice config print`"}},
		"near nested":    {file: "local: {host: 1}\n", want: []string{`unknown key "local.host": did you mean "local.hosts"?`}},
		"near section":   {file: "locl: {hosts: 1}\n", want: []string{`unknown key "locl.hosts": did you mean "local.hosts"?`}},
		"no section":     {file: "local: 5\n", want: []string{`local: "5" is not keys with values`}},
		"two documents":  {file: "# a\n---\nserver: 127.0.0.1:5\n---\noutput: json\n", want: []string{"holds 2 documents, separated by ---: put all settings into one"}},
		"not yaml":       {file: "server: [\n", want: []string{"config: file "}},
		"wrong type":     {file: "local: {hosts: many}\n", want: []string{`config: local.hosts: "many" is not a value such as 8 (from file `}},
		"all at once": {
			file: "output: xml\nlog: {level: loud, format: xml}\n",
			want: []string{
				`output: "xml" is none of table, json, yaml (from file `, `log.level: "loud" is none of debug, info, warn, error`,
				`log.format: "xml" is none of text, json`,
			},
		},
		"far away": {
			args: []string{"--server=10.1.2.3:5"},
			want: []string{`server: "10.1.2.3:5" is not on this machine`, "set tls.ca (--ca, SLUICE_TLS_CA) (from flag --server)"},
		},
		"url": {
			env:  map[string]string{"SLUICE_SERVER": "https://sched.example.org:7461/"},
			want: []string{`server: "https://sched.example.org:7461/" is a URL, and has to be HOST:PORT: write sched.example.org:7461 (from environment SLUICE_SERVER)`},
		},
		"url without a port": {
			args: []string{"--server=http://localhost"},
			want: []string{`server: "http://localhost" is a URL, and has to be HOST:PORT: write an address such as 127.0.0.1:7461 (from flag --server)`},
		},
		"url to listen at": {
			file: "scheduler: {listen: 'http://[::1]:5'}\n",
			want: []string{`scheduler.listen: "http://[::1]:5" is a URL, and has to be HOST:PORT: write [::1]:5 (from file `},
		},
		"no port":  {args: []string{"--server=localhost"}, want: []string{`"localhost" is not an address such as 127.0.0.1:7461`}},
		"port":     {args: []string{"--server=localhost:99999"}, want: []string{"the port has to be a number"}},
		"folder":   {args: []string{"--state-dir=here"}, want: []string{`dev.state_dir: "here" is not an absolute path`}},
		"duration": {env: map[string]string{"SLUICE_RECONNECT": "0s"}, want: []string{"reconnect: 0s has to be more than 0s (from environment SLUICE_RECONNECT)"}},
		"amount":   {env: map[string]string{"SLUICE_LOCAL_MEMORY": "lots"}, want: []string{`local.memory: "lots" is not a size`}},
		"less":     {env: map[string]string{"SLUICE_LOCAL_CPU": "-1"}, want: []string{"local.cpu: is too small: 0 or more"}},
		"no hosts": {args: []string{"--hosts=0"}, want: []string{"local.hosts: is too small: 1 or more (from flag --hosts)"}},
		"keeps nothing": {
			file: "local: {retention: {runs: 0, size: 0, age: 0s}}\n",
			want: []string{"local.retention.runs: is 0: 1 or more, or -1 to keep none", "local.retention.size: is too small: 1 or more", "local.retention.age: 0s has to be more"},
		},
		"address":  {args: []string{"--address=10.0.0.5:80"}, want: []string{`local.address: "10.0.0.5:80" is no IP address, and no name`}},
		"no ports": {file: "local: {ports: 8080}\n", want: []string{`local.ports: "8080" is no range of 1 to 65535`}},
		"ports":    {env: map[string]string{"SLUICE_LOCAL_PORTS": "3-70000"}, want: []string{`local.ports: "3-70000" is no range`}},
		"resources": {
			env:  map[string]string{"SLUICE_LOCAL_RESOURCES": "licence=two"},
			want: []string{`local.resources: "two" is no amount of licence: 0 to 1125899906842624, in whole units (from environment SLUICE_LOCAL_RESOURCES)`},
		},
		"attributes":        {file: "local: {attributes: ssd}\n", want: []string{`local.attributes: "ssd=" is no attribute with a value, such as disk=ssd`}},
		"rack as attribute": {file: "local: {attributes: 'disk=ssd, rack=r1'}\n", want: []string{`local.attributes: "rack" is said of every host by itself`}},
		"cpu as resource":   {file: "local: {resources: 'cpu_milli=4'}\n", want: []string{`local.resources: "cpu_milli" has a setting of its own`}},
		"network of a job file": {
			file: "local: {resources: 'network_per_second=4'}\n", want: []string{`local.resources: "network_per_second" has a setting of its own`},
		},
		"cpu of a job file": {file: "local: {resources: 'cpu=4'}\n", want: []string{`local.resources: "cpu" has a setting of its own`}},
		"no units": {
			file: "reconnect: 300\nscheduler: {lost_after: 300, keep_finished: 60, learn_every: 1.5}\n",
			want: []string{
				`reconnect: "300" is not a value such as 5m0s (from file `, `scheduler.lost_after: "300" is not`,
				`scheduler.keep_finished: "60" is not`, `scheduler.learn_every: "1.5" is not`,
			},
		},
		"not quite": {
			file: "server: [localhost:1]\nlocal: {hosts: 3.7, racks: 18446744073709551615}\nmesos: {gpus: 2}\nscheduler: {rate: 1e300, burst: true, solver: true}\n",
			want: []string{
				`local.hosts: "3.7" is not a value such as 8`, `local.racks: "18446744073709551615" is not`, `mesos.gpus: "2" is not a value such as false`,
				`scheduler.rate: "1e+300" is not`, `scheduler.burst: "true" is not`, `scheduler.solver: "true" is not`, `server: "[localhost:1]" is not a value such as 127.0.0.1:7461`,
			},
		},
		"no fail-over":  {env: map[string]string{"SLUICE_MESOS_FAILOVER_TIMEOUT": "0"}, want: []string{"mesos.failover_timeout: 0s has to be more than 0s"}},
		"shard":         {env: map[string]string{"SLUICE_LOCAL_SHARD": "a/b"}, want: []string{`local.shard: "a/b" has to be`}},
		"model timeout": {env: map[string]string{"SLUICE_SCHEDULER_MODEL_TIMEOUT": "5ms"}, want: []string{"scheduler.model_timeout: is 5ms: 100ms to 1h0m0s, or 0"}},
		"too much": {
			file: "scheduler: {model_timeout: 61m, slow_task_percent: 100, slow_host_percent: 10001, max_copies_percent: 101}\nlocal: {shard: " + strings.Repeat("s", 64) + "}\n",
			want: []string{
				"scheduler.model_timeout: is 1h1m0s: ", "scheduler.slow_task_percent: is 100, and has to be 1 to 99", "scheduler.slow_host_percent: is 10001, ",
				"scheduler.max_copies_percent: is 101, ", `local.shard: "ssss`,
			},
		},
		"too often": {
			file: "scheduler: {slack_window: 999ms, speculation_interval: 1ns, batch_window: 1000000h}\n",
			want: []string{
				"scheduler.slack_window: is 999ms: 1s or more, or 0 to lend nothing", "scheduler.speculation_interval: is 1ns: 100ms or more, or 0",
				"scheduler.batch_window: is 1000000h0m0s: at most 1m0s",
			},
		},
		"half a certificate": {
			file: "scheduler: {tls: {cert: /c}}\nmesos: {tls: {key: /k}}\n",
			want: []string{"scheduler.tls.cert, scheduler.tls.key and ", "mesos.tls.cert: a certificate and its key belong together"},
		},
		"no key":         {file: "tls: {ca: /a, cert: /c}\n", want: []string{"tls.cert: a certificate and its key belong together", "tls.key (--key, SLUICE_TLS_KEY), or neither (from file "}},
		"no certificate": {env: map[string]string{"SLUICE_TLS_KEY": "/k"}, want: []string{"tls.key: a certificate and its key", "(from environment SLUICE_TLS_KEY)"}},
		"a token in the clear": {
			env:  map[string]string{"SLUICE_TOKEN_FILE": "/t"},
			want: []string{"token_file: a certificate or a token is shown over TLS only; set tls.ca (--ca, SLUICE_TLS_CA) too (from environment SLUICE_TOKEN_FILE)"},
		},
		"not of this machine": {
			file: "scheduler: {listen: '0.0.0.0:1', http_listen: 'h:1', advertise: '10.0.0.1:1'}\n",
			want: []string{`scheduler.listen: "0.0.0.0:1" is not`, `scheduler.http_listen: "h:1" is not`, `scheduler.advertise: "10.0.0.1:1" is not`},
		},
		"one of several servers": {args: []string{"--server=localhost:1, 10.1.2.3:5"}, want: []string{`server: "10.1.2.3:5" is not on this machine`}},
		"members": {
			file: "scheduler: {member: n1, peers: 'n2=localhost:1,n3=localhost:2', election_timeout: 1ms}\n",
			want: []string{`scheduler.peers: scheduler.member is "n1", which is none of them`, "scheduler.election_timeout: is 1ms: 100ms to 1m0s"},
		},
		"no members":       {file: "scheduler: {member: n1}\n", want: []string{"scheduler.peers: scheduler.member and scheduler.peers belong together"}},
		"no member":        {file: "scheduler: {peers: 'n1=localhost:1'}\n", want: []string{"scheduler.peers: scheduler.member and scheduler.peers belong together"}},
		"only addresses":   {file: "scheduler: {member: n1, peers: 'localhost:1,localhost:2'}\n", want: []string{`scheduler.peers: "localhost:1" is no NAME=HOST:PORT`}},
		"twice a member":   {file: "scheduler: {member: n1, peers: 'n1=localhost:1,n1=localhost:2'}\n", want: []string{`scheduler.peers: "n1=localhost:2": its name or its address is there twice`}},
		"twice an address": {file: "scheduler: {member: n1, peers: 'n1=localhost:1,n2=localhost:1'}\n", want: []string{`scheduler.peers: "n2=localhost:1": its name or its address is there twice`}},
		"any port":         {file: "scheduler: {member: n1, peers: 'n1=localhost:0'}\n", want: []string{`scheduler.peers: "localhost:0": the others have to know the port`}},
		"a far member":     {file: "scheduler: {member: n1, peers: 'n1=10.0.0.1:1', peer_listen: '0.0.0.0:1'}\n", want: []string{`scheduler.peers: "10.0.0.1:1" is not on this machine`, `scheduler.peer_listen: "0.0.0.0:1" is not`}},
		"listens to nobody": {
			file: "scheduler: {peer_listen: 'localhost:1'}\n", want: []string{"scheduler.peers: scheduler.peer_listen is set, and there are none"},
		},
		"a crowd": {
			file: "scheduler: {member: a, peers: 'a=localhost:1,b=localhost:2,c=localhost:3,d=localhost:4,e=localhost:5,f=localhost:6,g=localhost:7,h=localhost:8,i=localhost:9,j=localhost:10'}\n",
			want: []string{"scheduler.peers: 10 members are too many"},
		},
		"none of them": {file: "dev: {driver: x}\nlocal: {secrets_dir: x}\n", want: []string{`dev.driver: "x" is none of`, `local.secrets_dir: "x" is not an absolute`}},
		"checkpoint":   {env: map[string]string{"SLUICE_SCHEDULER_CHECKPOINT_EVERY": "0"}, want: []string{"scheduler.checkpoint_every: is too small: 1 or more"}},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := load(t, c.file, c.env, c.args...)
			for _, want := range c.want {
				require.ErrorContains(t, err, want)
			}
		})
	}
}

// No number or duration may be less than nothing. Of runs that are kept it stands for none.
func TestNothingIsNegative(t *testing.T) {
	env, keys := map[string]string{}, []string{}
	for _, s := range Settings() {
		value := ""
		switch s.Default.(type) {
		case time.Duration:
			value = "-1s"
		case int, int64, uint64:
			value = "-1"
		}
		if value != "" && s.Key != "local.retention.runs" {
			env["SLUICE_"+strings.ToUpper(strings.ReplaceAll(s.Key, ".", "_"))] = value
			keys = append(keys, s.Key)
		}
	}
	_, err := load(t, "", env)
	for _, key := range keys {
		require.ErrorContains(t, err, "config: "+key+": ")
	}
}

func TestMissingFileIsAnErrorWhereItIsNamed(t *testing.T) {
	_, err := load(t, "", map[string]string{"SLUICE_CONFIG": "/does/not/exist.yaml"})
	require.ErrorContains(t, err, "/does/not/exist.yaml")
}

// Every field of Config has to be reachable by a key and the other way round.
func TestSettingsCoverConfig(t *testing.T) {
	var count func(reflect.Type) int
	count = func(x reflect.Type) int {
		if x.Kind() != reflect.Struct {
			return 1
		}
		n := 0
		for i := range x.NumField() {
			n += count(x.Field(i).Type)
		}
		return n
	}
	require.Equal(t, count(reflect.TypeFor[Config]()), len(Settings()))
	for _, s := range Settings() {
		require.NotEmpty(t, s.Usage, s.Key)
		require.NotNil(t, s.Default, s.Key)
	}
}

// The page about the command line has a row for every setting, as it is here.
func TestSettingsAreDocumented(t *testing.T) {
	t.Setenv("XDG_STATE_HOME", "/state")
	page, err := os.ReadFile("../../../../docs/cli.md")
	require.NoError(t, err)
	code := func(s string) string {
		if s == "" {
			return ""
		}
		return "`" + s + "`"
	}
	for _, s := range Settings() {
		value := strings.Replace(fmt.Sprint(s.Default), "/state/sluice", "…", 1)
		flag := ""
		if s.Flag != "" {
			flag = code("--" + s.Flag)
		}
		if s.Short != "" {
			flag = code("-"+s.Short) + ", " + flag
		}
		row := fmt.Sprintf("| %s | %s | %s | %s |\n", code(s.Key), code(value), flag, s.Usage)
		require.True(t, strings.Contains(string(page), row), "docs/cli.md has no row\n%s", row)
	}
}

// Without HOME, as in a service of the system, state is kept in the user's home and not among temporary files.
func TestStateWithoutHome(t *testing.T) {
	t.Setenv("XDG_STATE_HOME", "")
	t.Setenv("HOME", "")
	self, err := user.Current()
	require.NoError(t, err)
	require.Equal(t, filepath.Join(self.HomeDir, ".local", "state", "sluice"), stateHome())
}
