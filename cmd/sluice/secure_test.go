//go:build linux

package main

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-scheduler/sluice/cmd/sluice/internal/config"
	"github.com/sluice-scheduler/sluice/cmd/sluice/internal/pki"
)

// Whose certificate was revoked is told that it is not trusted, also where the scheduler has hung up before that was read.
func TestWhoIsRefusedIsToldSo(t *testing.T) {
	noSettings(t)
	dir := filepath.Join(t.TempDir(), "tls")
	in := func(name string) string { return filepath.Join(dir, name) }
	require.NoError(t, initTLS(dir, []string{"localhost"}, 1))
	files, err := pki.NewServer(pki.ServerFiles{
		Cert: in("scheduler.pem"), Key: in("scheduler-key.pem"), ClientCA: in("ca.pem"), CRL: in("crl.pem"),
	})
	require.NoError(t, err)
	listener, err := tls.Listen("tcp", "127.0.0.1:0", files.Config())
	require.NoError(t, err)
	defer func() { _ = listener.Close() }()
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			_ = conn.(*tls.Conn).Handshake()
			_ = conn.Close()
		}
	}()
	server := strings.Replace(listener.Addr().String(), "127.0.0.1", "localhost", 1)
	for range 12 {
		a := try(t, "", "--server", server, "--ca", in("ca.pem"), "--cert", in("revoked.pem"), "--key", in("revoked-key.pem"), "whoami")
		require.Equal(t, exitUnavailable, a.code)
		require.Contains(t, a.err, "do not trust each other")
	}

	// TLS has one word for what is not valid any more and for what is not yet.
	require.NoError(t, pki.Issue(dir, pki.Request{Name: "old", Days: 0}))
	a := try(t, "", "--server", server, "--ca", in("ca.pem"), "--cert", in("old.pem"), "--key", in("old-key.pem"), "whoami")
	require.Equal(t, exitUnavailable, a.code)
	require.Contains(t, a.err, "refuses the certificate of this command: pki: the certificate "+in("old.pem")+" expired at ")
	require.ErrorContains(t, pki.Outdated(in("admin.pem"), time.Now().AddDate(0, 0, -1)), "and the clock of this machine is at")
	require.NoError(t, pki.Outdated(in("admin.pem"), time.Now()))
}

// "tls init" leaves settings that are in its folder as they are, and makes nothing beside them.
func TestTLSInitReplacesNoSettings(t *testing.T) {
	noSettings(t)
	dir := t.TempDir()
	settings := filepath.Join(dir, "scheduler.yaml")
	require.NoError(t, os.WriteFile(settings, []byte("log: {level: debug}\n"), 0o600))
	a := try(t, "", "tls", "init", dir)
	require.Equal(t, exitFailure, a.code)
	require.Contains(t, a.err, settings+" is there already")
	content, err := os.ReadFile(settings)
	require.NoError(t, err)
	require.Equal(t, "log: {level: debug}\n", string(content))
	require.NoFileExists(t, filepath.Join(dir, "ca.pem"))
}

// The files of "tls init" are a cluster: scheduler, host manager and operator trust each other, and nobody else is let in.
func TestClusterWithIdentity(t *testing.T) {
	noSettings(t)
	dir := filepath.Join(t.TempDir(), "tls")
	in := func(name string) string { return filepath.Join(dir, name) }
	a := try(t, "", "tls", "init", dir)
	require.Equal(t, exitOK, a.code, a.err)
	require.Equal(t, exitFailure, try(t, "", "tls", "init", dir).code, "nothing is replaced")
	for line, want := range map[string]string{
		"init x --days 0":               "--days 0: 1 to 3650",
		"init x --host ,":               `--host "": a name`,
		"init x --host=":                "--host: at least one",
		"issue " + dir + " x --days -1": "--days -1: 1 to 3650",
		"issue absent x":                "sluice tls init",
		"revoke " + dir + " absent":     "absent: no such file",
	} {
		a := try(t, "", append([]string{"tls"}, strings.Fields(line)...)...)
		require.Equal(t, exitUsage, a.code, line)
		require.Contains(t, a.err, want, line)
	}
	require.NoDirExists(t, "x")
	other := filepath.Join(t.TempDir(), "other")
	for _, c := range [][2]string{
		{"init " + other, `"scheduler_config": "` + other + `/scheduler.yaml"`},
		{"issue " + other + " joe --days 9", `"days": 9`},
		{"revoke " + other + " " + other + "/joe.pem", `"list": "` + other + `/crl.pem"`},
	} {
		a := try(t, "", append([]string{"tls", "-o", "json"}, strings.Fields(c[0])...)...)
		require.Equal(t, exitOK, a.code, a.err)
		require.True(t, json.Valid([]byte(a.out)), a.out)
		require.Contains(t, a.out, c[1])
	}

	scheduler := start(t, "--config", in("scheduler.yaml"), "scheduler", "--listen", "127.0.0.1:0", "--http-listen", "127.0.0.1:0", "--state-dir", t.TempDir())
	server := scheduler.says(t, `API on (\S+),`)
	page := scheduler.says(t, `metrics on (https://\S+),`)
	local := start(t, "--config", in("local.yaml"), "hostmgr", "local", "--hosts", "2", "--state-dir", t.TempDir(), "--server", server)
	plain := try(t, "", "--server", server, "whoami")
	require.Equal(t, exitUnavailable, plain.code)
	require.Contains(t, plain.err, "has TLS: name its authority with --ca or SLUICE_TLS_CA")
	web := try(t, "", "--config", in("admin.yaml"), "--server", strings.TrimSuffix(strings.TrimPrefix(page, "https://"), "/metrics"), "whoami")
	require.Equal(t, exitUnavailable, web.code)
	require.Contains(t, web.err, "is not the API of a scheduler: name its address with --server or SLUICE_SERVER")
	as := func(user string, args ...string) answer {
		return try(t, "", append([]string{"--config", in(user + ".yaml"), "--server", server}, args...)...)
	}
	a = as("admin", "whoami")
	require.Equal(t, exitOK, a.code, a.err)
	require.Regexp(t, `(?s)user: +admin\ngroups: +operators\nroles: +operator in root\n`, a.out)

	// A user of his own, by certificate and by token.
	require.Equal(t, exitOK, try(t, "", "tls", "issue", dir, "ann", "--group", "staff").code)
	require.NoError(t, writeSettings(in("ann.yaml"), map[string]any{"tls": map[string]any{
		"ca": in("ca.pem"), "cert": in("ann.pem"), "key": in("ann-key.pem"),
	}}))
	job := filepath.Join(t.TempDir(), "job.yaml")
	require.NoError(t, os.WriteFile(job, []byte("name: hello\ntask:\n  processes: [{argv: [/bin/true]}]\n  resources: {cpu: 100m, memory: 16Mi}\n"), 0o600))
	a = as("ann", "job", "submit", job)
	require.Equal(t, exitRefused, a.code)
	require.Contains(t, a.err, "the role submitter")
	a = as("admin", "role", "grant", "submitter", "--group", "staff")
	require.Equal(t, exitOK, a.code, a.err)
	a = as("ann", "job", "submit", job, "--wait")
	require.Equal(t, exitOK, a.code, a.err)
	token := in("ann.token")
	a = as("ann", "token", "create", "--out", token)
	require.Equal(t, exitOK, a.code, a.err)
	require.NoError(t, writeSettings(in("token.yaml"), map[string]any{"token_file": token, "tls": map[string]any{"ca": in("ca.pem")}}))
	a = as("token", "job", "list")
	require.Equal(t, exitOK, a.code, a.err)
	require.Contains(t, a.out, "hello")

	// Nobody, and who is revoked.
	require.NoError(t, writeSettings(in("nobody.yaml"), map[string]any{"tls": map[string]any{"ca": in("ca.pem")}}))
	a = as("nobody", "job", "list")
	require.Equal(t, exitRefused, a.code)
	require.Contains(t, a.err, "client certificate")
	require.Equal(t, exitOK, try(t, "", "tls", "issue", dir, "eve").code)
	require.NoError(t, writeSettings(in("eve.yaml"), map[string]any{"tls": map[string]any{
		"ca": in("ca.pem"), "cert": in("eve.pem"), "key": in("eve-key.pem"),
	}}))
	require.Equal(t, exitOK, as("eve", "whoami").code)
	require.Equal(t, exitOK, try(t, "", "tls", "revoke", dir, in("eve.pem")).code)
	require.Eventually(t, func() bool { return as("eve", "whoami").code != exitOK }, 20*time.Second, 100*time.Millisecond)
	require.NotEqual(t, exitOK, try(t, "", "--server", server, "job", "list").code, "nor is anybody served without TLS")

	// The pages ask, too.
	require.Equal(t, http.StatusUnauthorized, get(t, page, dir, ""))
	require.Equal(t, http.StatusForbidden, get(t, regexp.MustCompile(`/metrics`).ReplaceAllString(page, "/debug/pprof/"), dir, "ann"))
	require.Equal(t, http.StatusOK, get(t, page, dir, "admin"))
	console := strings.TrimSuffix(page, "metrics")
	require.Equal(t, http.StatusUnauthorized, get(t, console, dir, ""))
	require.Equal(t, http.StatusOK, get(t, console+"jobs/hello", dir, "ann"))
	require.Equal(t, http.StatusNotFound, get(t, console+"jobs/absent", dir, "ann"))
	require.Equal(t, http.StatusOK, get(t, console+"style.css", dir, ""))
	local.stop(t)
	scheduler.stop(t)
}

// A host manager whose certificate or token is replaced in its file goes on when the one before has ended, on the connection that was made
// with it too.
func TestAHostManagerShowsWhatItsFileHolds(t *testing.T) {
	noSettings(t)
	t.Setenv("SLUICE_LOCAL_USAGE_INTERVAL", "100ms")
	dir := filepath.Join(t.TempDir(), "tls")
	in := func(name string) string { return filepath.Join(dir, name) }
	require.NoError(t, initTLS(dir, []string{"localhost", "127.0.0.1"}, 1))
	scheduler := start(t, "--config", in("scheduler.yaml"), "scheduler", "--listen", "127.0.0.1:0", "--http-listen", "127.0.0.1:0", "--state-dir", t.TempDir())
	server := scheduler.says(t, `API on (\S+),`)
	as := func(args ...string) string {
		a := try(t, "", append([]string{"--config", in("admin.yaml"), "--server", server}, args...)...)
		require.Equal(t, exitOK, a.code, a.err)
		return a.out
	}
	token := func() string {
		as("token", "create", "--user", "other", "--group", "host-managers", "--out", in("new.token"))
		require.NoError(t, os.Rename(in("new.token"), in("other.token")))
		return regexp.MustCompile(`(?m)^\w+`).FindString(strings.SplitN(as("token", "list", "--user", "other"), "\n", 2)[1])
	}
	old := token()
	local := start(t, "--config", in("local.yaml"), "hostmgr", "local", "--hosts", "1", "--state-dir", t.TempDir(), "--server", server)
	other := start(t, "--ca", in("ca.pem"), "--token-file", in("other.token"), "--server", server, "hostmgr", "local",
		"--shard", "other", "--hosts", "1", "--ports", "19000-19009", "--state-dir", t.TempDir())
	local.says(t, "connected to the scheduler")
	other.says(t, "connected to the scheduler")

	for _, file := range []string{"local.pem", "local-key.pem"} {
		require.NoError(t, os.Rename(in(file), in("old-"+file)))
	}
	require.NoError(t, pki.Issue(dir, pki.Request{Name: "local", Groups: []string{"host-managers"}, Days: 1}))
	_, err := pki.Revoke(dir, in("old-local.pem"))
	require.NoError(t, err)
	token()
	as("token", "revoke", old)
	as("job", "run", "speaks", "--instances", "4", "--cpu", "10m", "--memory", "1Mi", "--", "sleep", "300") // of which its host managers tell
	local.says(t, `(?s)connected.*no connection .*revoked.*connected to the scheduler`)
	other.says(t, `(?s)connected.*no connection .*revoked.*connected to the scheduler`)
	as("job", "stop", "speaks", "--wait")

	// Metrics tell when all that ends.
	conf, err := pki.Client(pki.ClientFiles{CA: in("ca.pem"), Cert: in("admin.pem"), Key: in("admin-key.pem")})
	require.NoError(t, err)
	res, err := (&http.Client{Transport: &http.Transport{TLSClientConfig: conf}}).Get(scheduler.says(t, `metrics on (https://\S+),`))
	require.NoError(t, err)
	body, err := io.ReadAll(res.Body)
	require.NoError(t, errors.Join(err, res.Body.Close()))
	for line, days := range map[string]int{"certificate_expires": 1, `shard_credentials_expire{shard="local"}`: 1, `shard_credentials_expire{shard="other"}`: 30} {
		m := regexp.MustCompile(`(?m)^sluice_` + line + ` (\S+)$`).FindSubmatch(body)
		require.NotNil(t, m, line)
		at, err := strconv.ParseFloat(string(m[1]), 64)
		require.NoError(t, err)
		require.WithinDuration(t, time.Now().AddDate(0, 0, days), time.Unix(int64(at), 0), 2*time.Hour, line)
	}
	local.stop(t)
	other.stop(t)
	scheduler.stop(t)
}

// Masters, too, are shown the certificate that is in its file when they are connected to.
func TestMastersAreShownWhatTheFileHolds(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "tls")
	in := func(name string) string { return filepath.Join(dir, name) }
	require.NoError(t, initTLS(dir, []string{"localhost"}, 1))
	secure, err := mesosTLS(config.MesosTLS{CA: in("ca.pem"), Cert: in("local.pem"), Key: in("local-key.pem")})
	require.NoError(t, err)
	asked := &tls.CertificateRequestInfo{Version: tls.VersionTLS12, SignatureSchemes: []tls.SignatureScheme{tls.ECDSAWithP256AndSHA256}}
	shown := func() string {
		own, err := secure.GetClientCertificate(asked)
		require.NoError(t, err)
		return own.Leaf.Subject.CommonName
	}
	require.Equal(t, "local", shown())
	require.NoError(t, os.Rename(in("admin-key.pem"), in("local-key.pem")))
	require.NoError(t, os.Rename(in("admin.pem"), in("local.pem")))
	require.Eventually(t, func() bool { return shown() == "admin" }, time.Minute, 50*time.Millisecond)
	_, err = mesosTLS(config.MesosTLS{Cert: in("absent.pem"), Key: in("local-key.pem")})
	require.ErrorContains(t, err, "mesos.tls.cert: ")
	require.ErrorContains(t, err, "absent.pem: no such file")
}

// get asks for a page with the certificate of a user, "" for none, and returns the status.
func get(t *testing.T, url, dir, user string) int {
	t.Helper()
	pool := x509.NewCertPool()
	ca, err := os.ReadFile(filepath.Join(dir, "ca.pem"))
	require.NoError(t, err)
	require.True(t, pool.AppendCertsFromPEM(ca))
	conf := &tls.Config{RootCAs: pool}
	if user != "" {
		conf, err = pki.Client(pki.ClientFiles{CA: filepath.Join(dir, "ca.pem"), Cert: filepath.Join(dir, user+".pem"), Key: filepath.Join(dir, user+"-key.pem")})
		require.NoError(t, err)
	}
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: conf}}
	defer client.CloseIdleConnections()
	res, err := client.Get(url)
	require.NoError(t, err)
	require.NoError(t, res.Body.Close())
	return res.StatusCode
}

func TestIdentityIsNeeded(t *testing.T) {
	noSettings(t)
	a := try(t, "", "scheduler")
	require.Equal(t, exitUsage, a.code)
	require.Contains(t, a.err, "sluice tls init")
	for args, want := range map[string][]string{
		"scheduler.tls":                        {"dev", "--config", "scheduler: {tls: {cert: /x, key: /y, client_ca: /z}}"},
		"client_ca":                            {"scheduler", "--config", "scheduler: {tls: {cert: /x}}"},
		"leave one out":                        {"scheduler", "--insecure", "--config", "scheduler: {tls: {cert: /x, key: /y, client_ca: /z}}"},
		"neither user:N":                       {"scheduler", "--config", "scheduler: {operators: root}"},
		"set tls.ca (--ca, SLUICE_TLS_CA) too": {"job", "list", "--config", "token_file: /x"},
		"tls.key":                              {"job", "list", "--config", "tls: {ca: /x, cert: /y}"},
		"set tls.ca":                           {"job", "list", "--config", "server: 10.0.0.1:7461"},
		"set scheduler":                        {"scheduler", "--insecure", "--config", "scheduler: {listen: \"0.0.0.0:1\"}"},
	} {
		file := filepath.Join(t.TempDir(), "config.yaml")
		if args == "neither user:N" { // is looked at when there are certificates
			dir := filepath.Join(t.TempDir(), "tls")
			require.NoError(t, initTLS(dir, []string{"localhost"}, 1))
			settings, err := os.ReadFile(filepath.Join(dir, "scheduler.yaml"))
			require.NoError(t, err)
			require.NoError(t, os.WriteFile(file, append(settings, []byte("  operators: root\n")...), 0o600))
		} else {
			require.NoError(t, os.WriteFile(file, []byte(want[len(want)-1]), 0o600))
		}
		a := try(t, "", append(want[:len(want)-1], file)...)
		require.Equal(t, exitUsage, a.code, "%v: %s", want, a.err)
		require.Contains(t, a.err, args)
	}
}

// Tasks verify the certificate of who they call, so they are told a name that it has.
func TestTasksAreToldANameOfTheCertificate(t *testing.T) {
	for name, tt := range map[string]struct {
		hosts           []string
		advertise, want string
	}{
		"its address":     {[]string{"scheduler.example.com", "127.0.0.1"}, "", "127.0.0.1"},
		"its name":        {[]string{"*.example.com", "scheduler.example.com", "10.0.0.1"}, "", "scheduler.example.com"},
		"another address": {[]string{"10.0.0.1"}, "", "10.0.0.1"},
		"what was set":    {[]string{"scheduler.example.com"}, "gate.example.com:1", "gate.example.com"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "tls")
			require.NoError(t, initTLS(dir, tt.hosts, 1))
			c := config.Scheduler{Advertise: tt.advertise}
			c.TLS.Cert, c.TLS.Key = filepath.Join(dir, "scheduler.pem"), filepath.Join(dir, "scheduler-key.pem")
			c.TLS.ClientCA = filepath.Join(dir, "ca.pem")
			var s server
			_, _, err := s.secure(c)
			require.NoError(t, err)
			s.api, err = net.Listen("tcp", "127.0.0.1:0")
			require.NoError(t, err)
			defer func() { _ = s.api.Close() }()
			r, err := s.reach(c)
			require.NoError(t, err)
			host, _, err := net.SplitHostPort(r.Address)
			require.NoError(t, err)
			require.Equal(t, tt.want, host)
		})
	}
}

// Where the audit log cannot be written, as on a full disk, the scheduler's own log says so.
func TestALineOfTheAuditThatIsLost(t *testing.T) {
	var said bytes.Buffer
	s := &server{log: newLogger(&said, config.Log{Level: "info"})}
	audit, err := s.openAudit(config.Scheduler{AuditLog: "/dev/full"}, "")
	require.NoError(t, err)
	defer func() { require.NoError(t, s.audit.Close()) }()
	audit.Info("call")
	require.Contains(t, said.String(), "a line of the audit log is lost")
	require.Contains(t, said.String(), "/dev/full: no space left on device")
}

func TestFormOfTheLog(t *testing.T) {
	for form, want := range map[string]string{"text": `level=WARN msg="too late" shard=a`, "json": `"level":"WARN","msg":"too late","shard":"a"}`} {
		var said bytes.Buffer
		log := newLogger(&said, config.Log{Level: "warn", Format: form})
		log.Info("in time")
		log.Warn("too late", "shard", "a")
		require.Contains(t, said.String(), want)
		require.Equal(t, 1, strings.Count(said.String(), "\n"))
	}
}
