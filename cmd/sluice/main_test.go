package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"

	"github.com/sluice-scheduler/sluice/cmd/sluice/internal/config"
	"github.com/sluice-scheduler/sluice/hostmgr/local"
	sluicev1 "github.com/sluice-scheduler/sluice/proto/sluice/v1"
)

// output is a buffer that may be read while a command writes to it.
type output struct {
	mu sync.Mutex
	b  strings.Builder
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.String()
}

func TestMain(m *testing.M) {
	local.Supervise()                            // the test binary supervises the tasks of the dev that it runs
	time.Local = time.FixedZone("HERE", 2*60*60) // before there is anybody who looks at it
	os.Exit(m.Run())
}

// answer is what a command line left.
type answer struct {
	code     int
	out, err string
}

// try runs a command line in this process, with no settings but the given environment.
func try(t *testing.T, in string, args ...string) answer {
	t.Helper()
	var out, errOut bytes.Buffer
	code := run(t.Context(), args, strings.NewReader(in), &out, &errOut)
	return answer{code, out.String(), errOut.String()}
}

func noSettings(t *testing.T) {
	t.Helper()
	t.Setenv("XDG_CONFIG_HOME", t.TempDir())
	t.Setenv("XDG_STATE_HOME", t.TempDir())
	t.Setenv("SLUICE_CONFIG", "")
}

func TestUsageErrors(t *testing.T) {
	noSettings(t)
	for line, want := range map[string]string{
		"jub":                                  `unknown command "jub": did you mean "job"?`,
		"job sumbit":                           `unknown command "sumbit": did you mean "submit"?`,
		"job lst":                              `unknown command "lst": did you mean "list"?`,
		"ver":                                  `unknown command "ver": did you mean "version"?`,
		"job submit":                           "FILE is missing",
		"job submit a b":                       `unexpected argument "b"`,
		"job get":                              "NAME is missing",
		"job wait":                             "NAME is missing",
		"job submit ''":                        "FILE is empty",
		"job get ''":                           "NAME is empty",
		"job wait a ''":                        "NAME is empty",
		"job watch ''":                         "NAME is empty",
		"job stop ''":                          "NAME is empty",
		"task list ''":                         "JOB is empty",
		"tls init ''":                          "DIR is empty",
		"pool usage ''":                        "PATH is empty",
		"pool usage a b":                       `unexpected argument "b"`,
		"job submit a.yaml --idempotency-key=": "--idempotency-key: is empty",
		"job run a --idempotency-key= -- true": "--idempotency-key: is empty",
		"job list --state=":                    "--state: is empty",
		"job list --label a=1 --pool=":         "--pool: is empty",
		"job watch --owner=":                   "--owner: is empty",
		"task list --host=":                    "--host: is empty",
		"host list --rack=":                    "--rack: is empty",
		"volume list --host=":                  "--host: is empty",
		"token list --user=":                   "--user: is empty",
		"job list x":                           `unexpected argument "x"`,
		"job list --colour":                    "unknown flag: --colour",
		"job list --limit x":                   `--limit: "x" has to be a whole number`,
		"job list --limit 99999999999":         "--limit: 99999999999 is too large",
		"sim --generate --horizon 5":           "--horizon: \"5\" has to be a time with a unit",
		"job list --state lost":                `--state: "lost" is none of failed, initialized, killed, killing, pending, running, succeeded`,
		"job list --order size":                `--order: "size" is none of create_time, name, priority`,
		"task get hello":                       `"hello" is not JOB/INSTANCE, such as hello/0`,
		"task get hello/x":                     "is not JOB/INSTANCE",
		"task get /1":                          "is not JOB/INSTANCE",
		"task get hello/4294967296":            "is not JOB/INSTANCE",
		"task list a b":                        `unexpected argument "b"`,
		"task list --state lots":               `--state: "lots" is none of`,
		"task logs hello/0 --stream all":       `--stream "all" is none of both, stdout, stderr`,
		"job stop":                             "NAME is missing, or a flag that selects jobs",
		"job stop --dry-run":                   "NAME is missing, or a flag that selects jobs",
		"job stop --wait":                      "NAME is missing, or a flag that selects jobs",
		"job delete --stop":                    "NAME is missing, or a flag that selects jobs",
		"job stop a --pool root":               "give names of jobs, or flags that select jobs, not both",
		"job stop a --dry-run":                 "--dry-run lists what flags select: give some in place of NAME",
		"job stop --pool=":                     "--pool: is empty",
		"job stop --label=":                    "\"--label\" flag:  must be formatted as key=value",
		"job stop --pool root/a --owner=":      "--owner: is empty",
		"job stop --state=":                    "--state: is empty",
		"job delete --prefix=":                 "--prefix: is empty",
		"job delete --type=":                   "--type: is empty",
		"job stop --label app":                 "app must be formatted as key=value",
		"job stop --label a=1,a=2":             `invalid argument "a=1,a=2" for "--label" flag: a is given twice`,
		"job run x --label a=1 --label a=1 -- true":                   "a is given twice",
		"host list --attribute a=1,b=2,a=3":                           "a is given twice",
		"job stop --state lost":                                       `--state: "lost" is none of`,
		"job stop --pool root --expected-version 3":                   "--expected-version is about one job",
		"job list --type cron":                                        `--type: "cron" is none of batch, daemon, stateful, stateless`,
		"job run":                                                     "NAME is missing",
		"job run -- true":                                             "NAME is missing",
		"job run a":                                                   "COMMAND is missing: give it after --",
		"job run a --":                                                "COMMAND is missing: give it after --",
		"job run a true":                                              `unexpected argument "true": the command comes after --`,
		"job run a b -- true":                                         `unexpected argument "b": the command comes after --`,
		"job run a --cpu -1 -- true":                                  `--cpu: "-1" is negative`,
		"job run a --cpu 1x -- true":                                  `--cpu: "1x" is not an amount such as 2, 0.5 or 500m`,
		"job run a --memory 1X -- true":                               `--memory: "1X": unknown unit "X"`,
		"job run a --gpu 1.5 -- true":                                 `--gpu: "1.5" is neither whole devices nor a part of one`,
		"job run a --env A -- true":                                   `--env: "A" is not KEY=VALUE`,
		"job run a --env A=1 --env A=2 -- true":                       "--env: A is given twice",
		"job run a --type cron -- true":                               `--type: "cron" is none of batch, daemon, stateful, stateless`,
		"job run a --instances x -- true":                             `--instances: "x" has to be a whole number`,
		"job run a --pool= -- true":                                   "--pool: is empty",
		"job run a --dry-run -o json -- true":                         "--output is for other forms: --dry-run prints a job file",
		"job logs":                                                    "NAME is missing",
		"job logs a --stream all":                                     `--stream "all" is none of both, stdout, stderr`,
		"job logs a --instances 5-3":                                  `--instances: "5-3" is not a number`,
		"job logs a --instances=":                                     "--instances: is empty",
		"pool create":                                                 "PATH is missing",
		"pool update":                                                 "--file is missing",
		"pool mapping set":                                            "--file is missing",
		"pool drain":                                                  "PATH is missing",
		"pool create root/a --file x":                                 "give no PATH",
		"host list --state gone":                                      `--state: "gone" is none of`,
		"count-files":                                                 "DIR is missing",
		"count-files . --shares 0":                                    "--share 0 has to be from 0 to one less than --shares, 0",
		"count-files . --share 2":                                     "--share 2 has to be",
		"job list --server nowhere":                                   "is not an address such as 127.0.0.1:7461",
		"job list -o xml":                                             `"xml" is none of table, json, yaml`,
		"config print --config nowhere":                               "nowhere",
		"dev --state-dir here":                                        `"here" is not an absolute path`,
		"dev --hosts many":                                            `local.hosts: "many" is not a value such as 8`,
		"dev --host-cpu 1x":                                           `local.cpu: "1x" is not an amount`,
		"dev --listen :7461":                                          "only loopback addresses",
		"scheduler --insecure --solver magic":                         `--solver: `,
		"scheduler --insecure --cost-model magic":                     `--cost-model: `,
		"hostmgr local --hosts -1":                                    "local.hosts: is too small: 1 or more",
		"sim --generate --hosts -3":                                   "--hosts is -3: it cannot be negative",
		"sim --generate --span -1s":                                   "--span is -1s: it cannot be negative",
		"sim --generate --load -0.5":                                  "--load is -0.5: it cannot be negative",
		"sim --format csv --jobs x --limit -1":                        "--limit is -1: it cannot be negative",
		"sim --format csv --jobs x --arrivals order --demand -1":      "--demand is -1: it cannot be negative",
		"sim --generate --model magic":                                `--model: models: no cost model "magic"`,
		"sim --generate --compare sjf,magic":                          `--compare: models: no cost model "magic"`,
		"sim --format magic --jobs x":                                 `format "magic" is not known`,
		"sim --format csv --jobs x --hosts 3":                         "x: no such file",
		"cluster cost-model set sjf sjf":                              `unexpected argument "sjf"`,
		"cluster snapshot -":                                          "a snapshot is a file, give its name",
		"cluster restore -":                                           "a snapshot is a file, give its name",
		"help nope":                                                   `unknown command "nope"`,
		"help job gat":                                                `unknown command "gat": did you mean "get"?`,
		"help job get x":                                              `unknown command "x"`,
		"completion tcsh":                                             `unknown command "tcsh"`,
		"completion bash x":                                           `unexpected argument "x"`,
		"job submit nowhere.yaml":                                     "nowhere.yaml",
		"job update nowhere.yaml":                                     "nowhere.yaml",
		"pool update --file nowhere.yaml":                             "nowhere.yaml",
		"pool create --file nowhere.yaml":                             "nowhere.yaml",
		"job graph a --dot -o json":                                   "--output is for other forms: --dot is text for Graphviz",
		"job scale a -12":                                             "-12: no argument is a negative number",
		"job scale a -- -12":                                          `INSTANCES: "-12" has to be a whole number from 1 to 100000`,
		"pool usage --from 2026-02-01 --to 2026-01-31":                "--from: is 2026-02-01, after --to, which is 2026-01-31",
		"pool usage --from 2999-01-01":                                "--from: is 2999-01-01, after --to, which is 2",
		"job scale a 0":                                               `INSTANCES: "0" has to be a whole number from 1 to 100000`,
		"job scale a 100001":                                          `INSTANCES: "100001" has to be a whole number from 1 to 100000`,
		"job scale a 99999999999":                                     `INSTANCES: "99999999999" has to be a whole number from 1 to 100000`,
		"graph export -o json":                                        "--output is for other forms: --format says in which form",
		"bench solver 1k-90 --suite short":                            "--suite runs a list of workloads: leave it out, or name none",
		"bench solver --lemon networksimplex":                         "--lemon goes with --peer lemon",
		"bench instances . --seed 3":                                  "--seed goes with --families",
		"sim --generate --hosts 1 --span 1s --html -":                 "--html: \"-\" is for standard input",
		"sim --generate --hosts 1 --span 1s --placements -":           "--placements: \"-\" is for standard input",
		"token create --out -":                                        "--out: \"-\" is for standard input",
		"bench cycle --planner greedy --solver ssp":                   "--solver goes with --planner flow",
		"bench quality --pods a --machines b --model sjf --model sjf": "--model: sjf is there twice: give it once",
		"job restart a --rolling --instances=":                        "--instances: is empty: leave it out, or name one",
		"token create --job=":                                         "--job: is empty",
		"cluster cost-model set sjf --pool=":                          "--pool: is empty",
		"cluster cost-model set sjf --type=":                          "--type: is empty",
		"tls issue nowhere a --host=":                                 "--host: is empty: leave it out, or name one",
		"tls issue nowhere a --group=":                                "--group: is empty: leave it out, or name one",
		"task stop a/0 --grace 1s":                                    "unknown flag: --grace",
		"task restart a/0 --expected-run x":                           `--expected-run: "x" has to be a whole number`,
	} {
		t.Run(line, func(t *testing.T) {
			args := strings.Fields(line)
			for i := range args {
				args[i] = strings.Trim(args[i], "'")
			}
			a := try(t, "", args...)
			require.Equal(t, exitUsage, a.code, a.err)
			require.Contains(t, a.err, want)
			require.Empty(t, a.out)
		})
	}
}

// A help names what a flag takes by one word: pflag takes what is between back quotes for it.
func TestWordsForWhatFlagsTake(t *testing.T) {
	var look func(cmd *cobra.Command)
	look = func(cmd *cobra.Command) {
		cmd.Flags().VisitAll(func(f *pflag.Flag) {
			word, _ := pflag.UnquoteUsage(f)
			require.NotContains(t, word, " ", "%s --%s", cmd.CommandPath(), f.Name)
		})
		for _, c := range cmd.Commands() {
			look(c)
		}
	}
	look(newRootCommand(&app{}))
}

// A dimension that is misspelt is a named resource for the scheduler: only who reads the file can tell.
func TestMisspeltDimensions(t *testing.T) {
	noSettings(t)
	file := "path: root/a\nresources:\n"
	for _, name := range []string{"cpu_milli", "cpu_mili", "network", "licence", "memory"} {
		file += "- {dimension: " + name + ", reservation: 1}\n"
	}
	a := try(t, file, "pool", "create", "--file", "-", "--server", "127.0.0.1:1")
	require.Equal(t, exitUnavailable, a.code)
	require.Contains(t, a.err, `sluice: resources[1].dimension: "cpu_mili" is taken for the name of a named resource: did you mean "cpu_milli"?`)
	require.Contains(t, a.err, `sluice: resources[2].dimension: "network" is taken for the name of a named resource: did you mean "network_bytes_per_second"?`)
	require.Equal(t, 2, strings.Count(a.err, "did you mean"))
	a = try(t, "path: root/b\n---\n"+file, "pool", "create", "--file", "-", "--server", "127.0.0.1:1")
	require.Contains(t, a.err, `sluice: pool "root/a": resources[1].dimension: `)
}

func TestBindingsAreGivenWithFlags(t *testing.T) {
	noSettings(t)
	for _, text := range []string{"loadspread; batch = coco", "batch = coco", "coco(devils=sort); batch = sjf", "loadspread + 0.5 sjf; batch=coco"} {
		a := try(t, "", "cluster", "cost-model", "set", text)
		require.Equal(t, exitUsage, a.code, text)
		require.Contains(t, a.err, "--pool and --type", text)
	}
	sum, err := weightedModels("0.5 sjf + coco(devils=c++ a;b)") // what is in parentheses separates nothing
	require.NoError(t, err)
	require.Len(t, sum, 2)
	require.Equal(t, "coco(devils=c++ a;b)", sum[1].GetName())

	m, err := weightedModel("0.5 coco(devils=sort scan)") // which has settings, and binds nothing
	require.NoError(t, err)
	require.Equal(t, []any{"coco(devils=sort scan)", int64(500)}, []any{m.GetName(), m.GetWeightMilli()})
	_, err = weightedModel("0.0016 sjf")
	require.ErrorContains(t, err, "three decimals")
}

func TestFilesAreCheckedBeforeTheSchedulerIsAsked(t *testing.T) {
	noSettings(t)
	a := try(t, "nmae: x\n", "job", "submit", "-")
	require.Equal(t, answer{exitUsage, "", "sluice: standard input:1:1: unknown key \"nmae\": did you mean \"name\"?\n"}, a)
	a = try(t, "name: a\n---\nname: b\n", "job", "update", "-")
	require.Equal(t, answer{exitUsage, "", "sluice: an update takes a file with one job\n"}, a)
}

func TestNobodyListens(t *testing.T) {
	noSettings(t)
	a := try(t, "", "job", "list", "--server", "127.0.0.1:1")
	require.Equal(t, exitUnavailable, a.code)
	require.Equal(t, "sluice: no scheduler answers at 127.0.0.1:1: start one with `sluice dev`, or name its address with --server or SLUICE_SERVER\n", a.err)
}

// TestASchedulerThatEnds: one that took the connection and was killed before it spoke is one that is not there.
func TestASchedulerThatEnds(t *testing.T) {
	noSettings(t)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer func() { require.NoError(t, listener.Close()) }()
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			_ = conn.Close()
		}
	}()
	a := try(t, "", "--server", listener.Addr().String(), "whoami")
	require.Equal(t, exitUnavailable, a.code)
	require.Contains(t, a.err, "no scheduler answers at")
}

func TestConfigPrint(t *testing.T) {
	noSettings(t)
	t.Setenv("SLUICE_LOCAL_HOSTS", "3")
	a := try(t, "", "config", "print", "--server", "localhost:1")
	require.Zero(t, a.code)
	require.Regexp(t, `(?m)^server +localhost:1 +flag --server$`, a.out)
	require.Regexp(t, `(?m)^local.hosts +3 +environment SLUICE_LOCAL_HOSTS$`, a.out)
	a = try(t, "", "config", "print", "-o", "json")
	require.Contains(t, a.out, "\"key\": \"local.hosts\",\n    \"value\": \"3\"")
	a = try(t, "", "config", "print", "-o", "yaml")
	require.Contains(t, a.out, "- key: local.hosts\n  value: \"3\"\n")
}

// TestOutputThatFails: whoever writes a table or a help to a full disk is told.
func TestOutputThatFails(t *testing.T) {
	noSettings(t)
	for _, line := range []string{"config print", "config print -o json", "version", "completion bash", "", "--help", "job", "job list --help", "help job"} {
		var errOut bytes.Buffer
		require.Equal(t, exitFailure, run(t.Context(), strings.Fields(line), nil, full{}, &errOut), line)
		require.Equal(t, "sluice: no space left on device\n", errOut.String(), line)
	}
}

// What only says how commands are used does so whatever the settings are.
func TestHelpNeedsNoSettings(t *testing.T) {
	t.Setenv("SLUICE_SERVER", "far.example:7461") // without TLS
	for _, line := range []string{"", "--help", "help", "help job run", "job", "completion bash", "__complete job r"} {
		got := try(t, "", strings.Fields(line)...)
		require.Zero(t, got.code, "%s: %s", line, got.err)
		require.NotEmpty(t, got.out, line)
	}
	require.Equal(t, exitUsage, try(t, "", "job", "list").code)
}

type full struct{}

func (full) Write([]byte) (int, error) { return 0, syscall.ENOSPC }

func TestVersion(t *testing.T) {
	noSettings(t)
	require.Equal(t, try(t, "", "--version").out, try(t, "", "version").out)
	require.Contains(t, try(t, "", "version", "-o", "json").out, `"version": "dev"`)
}

// What is set for calls to some scheduler is in the way of no command that calls none.
func TestCallerIsNotAskedInVain(t *testing.T) {
	noSettings(t)
	network := "p min 2 1\nn 1 1\nn 2 -1\na 1 2 0 1 5\n"
	for _, set := range []string{"SLUICE_SERVER=scheduler.example.org:7461", "SLUICE_SERVER=localhost", "SLUICE_TOKEN_FILE=/none", "SLUICE_TLS_CERT=/none"} {
		name, value, _ := strings.Cut(set, "=")
		t.Run(set, func(t *testing.T) {
			t.Setenv(name, value)
			for _, line := range []string{"version", "solve -", "sim --generate --hosts 2 --span 1s", "job run a --dry-run -- true", "tls init " + t.TempDir() + "/tls"} {
				a := try(t, network, strings.Fields(line)...)
				require.Equal(t, exitOK, a.code, "%s: %s", line, a.err)
			}
			for _, line := range []string{"job list", "hostmgr local", "config print"} {
				a := try(t, "", strings.Fields(line)...)
				require.Equal(t, exitUsage, a.code, line)
				require.Contains(t, a.err, "(from environment "+name+")")
			}
		})
	}
}

// What a wrong address or missing TLS has to do with the settings is told by commands, and by a host manager, which goes on trying.
func TestWhatIsWrongWithTheAddress(t *testing.T) {
	noSettings(t)
	dir := filepath.Join(t.TempDir(), "tls")
	require.NoError(t, initTLS(dir, []string{"localhost"}, 1))
	web, secure := httptest.NewServer(http.NotFoundHandler()), httptest.NewUnstartedServer(http.NotFoundHandler())
	secure.Config.ErrorLog = log.New(io.Discard, "", 0)
	secure.StartTLS()
	defer web.Close()
	defer secure.Close()
	for _, c := range []struct{ server, ca, want string }{
		{serveFake(t, func(grpc.ServiceRegistrar) {}), "ca.pem", "has no TLS, and tls.ca asks for it: leave out --ca, SLUICE_TLS_CA or the file's tls.ca"},
		{web.Listener.Addr().String(), "", "is not the API of a scheduler: name its address with --server or SLUICE_SERVER"},
		{secure.Listener.Addr().String(), "", "has TLS: name its authority with --ca or SLUICE_TLS_CA"},
		{secure.Listener.Addr().String(), "ca.pem", "do not trust each other"},
	} {
		settings := config.Config{Server: c.server, Reconnect: time.Second}
		if c.ca != "" {
			settings.TLS.CA = filepath.Join(dir, c.ca)
		}
		a := &app{err: io.Discard, config: &config.Loaded{Config: settings}}
		_, err := a.connect(t.Context())
		require.ErrorContains(t, err, c.want)
		require.Equal(t, exitUnavailable, codeOf(err))
		conn, err := a.dialScheduler()
		require.NoError(t, err)
		_, err = sluicev1.NewHostManagerServiceClient(conn).Control(t.Context())
		require.ErrorContains(t, err, c.want)
		require.NoError(t, conn.Close())
	}
}

func TestEveryCommandExplainsItself(t *testing.T) {
	var visit func(*cobra.Command)
	visit = func(c *cobra.Command) {
		require.NotEmpty(t, c.Short, c.CommandPath())
		require.NotContains(t, c.Short, "\n")
		if c.Name() != "completion" && c.Name() != "help" {
			for _, sub := range c.Commands() {
				visit(sub)
			}
		}
	}
	visit(newRootCommand(&app{}))
	for _, shell := range []string{"bash", "zsh", "fish"} {
		noSettings(t)
		require.Contains(t, try(t, "", "completion", shell).out, "sluice")
	}
}

func TestInterruptedCommandsSaySo(t *testing.T) {
	noSettings(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for line, want := range map[string]string{
		"job list --server 127.0.0.1:1":             "sluice: interrupted\n",
		"job list --server 127.0.0.1:1,127.0.0.1:2": "sluice: interrupted\n",
		"bench cycle --hosts 9 --tasks 200":         "sluice: interrupted\n",
		"bench solver 1k-90":                        "sluice: interrupted\n",
		"bench instances --families":                "sluice: interrupted: what is shown is what was measured by then\n",
	} {
		var out, errOut bytes.Buffer
		require.Equal(t, exitInterrupted, run(ctx, strings.Fields(line), nil, &out, &errOut), line)
		require.Equal(t, want, errOut.String(), line)
	}
}

// The page about the command line tells the same exit codes as the help.
func TestExitCodesAreDocumented(t *testing.T) {
	page, err := os.ReadFile("../../docs/cli.md")
	require.NoError(t, err)
	for _, code := range []int{
		exitOK, exitFailure, exitUsage, exitNotFound, exitJobFailed, exitUnavailable, exitRefused, exitConflict, exitInterrupted,
	} {
		require.Regexp(t, fmt.Sprintf(`(?m)^  %d +\S`, code), rootHelp)
		require.Contains(t, string(page), fmt.Sprintf("\n| %d | ", code))
	}
}
