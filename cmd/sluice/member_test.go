//go:build linux

package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-scheduler/sluice/cmd/sluice/internal/pki"
)

// memberHost is where members listen: where there are many loopback addresses, one that no connection comes from, as those take ports that
// are free, too.
func memberHost() string {
	if runtime.GOOS == "linux" {
		return "127.0.1.2"
	}
	return "127.0.0.1"
}

// freeAddresses returns addresses that were free a moment ago. All are held until the last one is known, as the kernel may give one twice.
func freeAddresses(t *testing.T, count int) []string {
	t.Helper()
	addresses := make([]string, count)
	for i := range addresses {
		l, err := net.Listen("tcp", memberHost()+":0")
		require.NoError(t, err)
		defer func() { require.NoError(t, l.Close()) }()
		addresses[i] = l.Addr().String()
	}
	return addresses
}

// Three schedulers with TLS: they trust each other by the certificates that clients trust, and nobody else is let in between.
func TestMembersWithIdentity(t *testing.T) {
	noSettings(t)
	dir := filepath.Join(t.TempDir(), "tls")
	in := func(name string) string { return filepath.Join(dir, name) }
	require.NoError(t, initTLS(dir, []string{"localhost", memberHost()}, 1))
	addresses := freeAddresses(t, 9)
	peers, apis, pages := addresses[:3], addresses[3:6], addresses[6:]
	members := make([]*process, 3)
	begin := func(i int) {
		settings := in(fmt.Sprintf("n%d.yaml", i))
		require.NoError(t, os.WriteFile(settings, []byte(fmt.Sprintf(`
scheduler:
  member: n%d
  peers: n0=%s,n1=%s,n2=%s
  listen: %s
  http_listen: %s
  state_dir: %s
  tls: {cert: %s, key: %s, client_ca: %s, crl: %s}
`, i, peers[0], peers[1], peers[2], apis[i], pages[i], in(fmt.Sprintf("state%d", i)), in("scheduler.pem"), in("scheduler-key.pem"), in("ca.pem"), in("crl.pem"))), 0o600))
		members[i] = start(t, "--config", settings, "scheduler")
	}
	for i := range members {
		begin(i)
	}
	as := func(user string, args ...string) []string {
		return append([]string{"--server", strings.Join(apis, ","), "--ca", in("ca.pem"), "--cert", in(user + ".pem"), "--key", in(user + "-key.pem")}, args...)
	}
	shows(t, `(?s)leads .*stands by.*stands by|stands by.* leads.*stands by|stands by.*stands by.* leads`, as("admin", "cluster", "members")...)
	leads := -1
	for i, p := range members {
		if strings.Contains(p.out.String(), "this member leads") {
			leads = i
		}
	}
	require.GreaterOrEqual(t, leads, 0)

	// Whoever asks one that stands by is told who leads, and so are browsers and monitors.
	other := (leads + 1) % 3
	alone := as("admin", "job", "list")
	alone[1] = apis[other]
	var a answer
	require.Eventually(t, func() bool { // the address comes a moment after the name
		a = try(t, "", alone...)
		return strings.Contains(a.err, ", at ")
	}, time.Minute, 20*time.Millisecond)
	require.Equal(t, exitUnavailable, a.code)
	require.Regexp(t, fmt.Sprintf(`^sluice: member n%d stands by: n%d leads, at %s\n$`, other, leads, apis[leads]), a.err)
	conf, err := pki.Client(pki.ClientFiles{CA: in("ca.pem"), Cert: in("admin.pem"), Key: in("admin-key.pem")})
	require.NoError(t, err)
	browser := &http.Client{Transport: &http.Transport{TLSClientConfig: conf}}
	for path, want := range map[string]string{"/": "leads, at " + apis[leads], "/metrics": "sluice_leader 0"} {
		res, err := browser.Get("https://" + pages[other] + path)
		require.NoError(t, err)
		body, err := io.ReadAll(res.Body)
		require.NoError(t, errors.Join(err, res.Body.Close()))
		require.Contains(t, string(body), want)
	}

	// A user's certificate, or none, is no member's.
	for _, user := range []string{"admin", ""} {
		own := &tls.Config{RootCAs: conf.RootCAs, ServerName: "127.0.0.1"}
		if user != "" {
			own.GetClientCertificate = conf.GetClientCertificate
		}
		conn, err := tls.Dial("tcp", peers[leads], own)
		if err == nil {
			require.NoError(t, conn.SetDeadline(time.Now().Add(time.Minute)))
			_, _ = conn.Write([]byte(`{"Protocol":"sluice-replica/1","From":"n` + fmt.Sprint(other) + `","To":"n` + fmt.Sprint(leads) + `","Ask":{}}` + "\n"))
			_, err = conn.Read(make([]byte, 1))
		}
		require.ErrorContains(t, err, "tls: ", "%q", user)
	}

	spec := "name: hello\ntask:\n  processes: [{shell: 'true'}]\n  resources: {cpu: 10m, memory: 1Mi}\n"
	submit := try(t, spec, as("admin", "job", "submit", "-")...)
	require.Equal(t, exitOK, submit.code, submit.err)
	members[leads].stop(t)
	shows(t, `hello`, as("admin", "job", "list")...)
	begin(leads)
	shows(t, `(?s)leads.*stands by|stands by.*leads`, as("admin", "cluster", "members")...)
	for _, m := range members {
		m.stop(t)
	}
	a = try(t, "", as("admin", "job", "list")...)
	require.Equal(t, exitUnavailable, a.code)
	require.Contains(t, a.err, "none of the schedulers at "+strings.Join(apis, ",")+" answers and leads")
}

// Both ends of a connection find out within seconds that the other machine is gone: a member that gets a snapshot can elect nobody meanwhile.
func TestConnectionsToMachinesThatAreGone(t *testing.T) {
	l, err := listen("127.0.0.1:0", "--listen", apiPart)
	require.NoError(t, err)
	defer func() { require.NoError(t, l.Close()) }()
	from, err := dial(t.Context(), "tcp", l.Addr().String())
	require.NoError(t, err)
	defer func() { require.NoError(t, from.Close()) }()
	to, err := l.Accept()
	require.NoError(t, err)
	defer func() { require.NoError(t, to.Close()) }()
	limited := reflect.ValueOf(to).Elem().FieldByName("Conn").Interface().(net.Conn)
	for _, c := range []net.Conn{from, limited} {
		raw, err := c.(*net.TCPConn).SyscallConn()
		require.NoError(t, err)
		require.NoError(t, raw.Control(func(fd uintptr) {
			for option, want := range map[int]int{syscall.TCP_KEEPIDLE: 2, syscall.TCP_KEEPINTVL: 1, syscall.TCP_KEEPCNT: 3} {
				got, err := syscall.GetsockoptInt(int(fd), syscall.IPPROTO_TCP, option)
				require.NoError(t, err)
				require.Equal(t, want, got)
			}
		}))
	}
}

// What cannot be a member says so and does not begin.
func TestWhoCannotBeAMember(t *testing.T) {
	noSettings(t)
	dir := filepath.Join(t.TempDir(), "tls")
	in := func(name string) string { return filepath.Join(dir, name) }
	require.NoError(t, initTLS(dir, []string{"localhost"}, 1))
	settings := func(address, cert string) string {
		path := filepath.Join(t.TempDir(), "settings.yaml")
		require.NoError(t, os.WriteFile(path, []byte(fmt.Sprintf(
			"scheduler: {member: n1, peers: 'n1=%s', listen: 'localhost:0', http_listen: 'localhost:0', state_dir: %s, tls: {cert: %s, key: %s, client_ca: %s}}\n",
			address, filepath.Join(filepath.Dir(path), "state"), in(cert+".pem"), in(cert+"-key.pem"), in("ca.pem"))), 0o600))
		return path
	}
	for name, c := range map[string]struct{ address, cert, want string }{
		"another name":         {"127.0.0.1:1", "scheduler", "scheduler.tls.cert: the other members would not know this one by it: x509: "},
		"a user's certificate": {"localhost:1", "admin", "scheduler.tls.cert: the other members would not know this one by it: x509: "},
	} {
		a := try(t, "", "--config", settings(c.address, c.cert), "scheduler")
		require.Equal(t, exitUsage, a.code, name)
		require.Contains(t, a.err, c.want, name)
	}
	for key, c := range map[string]struct {
		value, want string
		code        int
	}{
		"cost_model":      {"none", "--cost-model: ", exitUsage},
		"solver":          {"none", "--solver: ", exitUsage},
		"secret_key_file": {in("keys"), "scheduler.secret_key_file: ", exitUsage},
		"audit_log":       {in("none/audit.log"), "scheduler.audit_log chooses another file", exitFailure},
	} {
		// Another one never comes, so that nobody leads.
		path := settings("localhost:1,n2=localhost:2", "scheduler")
		text, err := os.ReadFile(path)
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(path, []byte(strings.Replace(string(text), "{", "{peer_listen: 'localhost:0', "+key+": "+c.value+", ", 1)), 0o600))
		var out, errOut bytes.Buffer
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		code := run(ctx, []string{"--config", path, "scheduler"}, strings.NewReader(""), &out, &errOut)
		cancel()
		require.Equal(t, c.code, code, "%s: %s", key, &errOut)
		require.Contains(t, errOut.String(), c.want, key)
	}
	plain := filepath.Join(t.TempDir(), "settings.yaml")
	require.NoError(t, os.WriteFile(plain, []byte("scheduler: {member: n1, peers: 'n1=localhost:1'}\n"), 0o600))
	a := try(t, "", "--config", plain, "dev", "--listen", "127.0.0.1:0", "--http-listen", "127.0.0.1:0")
	require.Equal(t, exitUsage, a.code)
	require.Contains(t, a.err, "dev is alone: leave scheduler.member")
}
