//go:build linux

package main

import (
	"fmt"
	"html"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The console of a dev shows what its tasks have written, and every link leads to a page.
func TestConsole(t *testing.T) {
	noSettings(t)
	dev := start(t, "dev", "--listen", "127.0.0.1:0", "--http-listen", "127.0.0.1:0", "--state-dir", t.TempDir(), "--host-cpu", "2", "--host-memory", "1Gi")
	console := strings.TrimSuffix(dev.says(t, `console: +(\S+)\n`), "/")
	dev.says(t, "Ctrl-C")
	t.Setenv("SLUICE_SERVER", dev.says(t, `API: +(\S+)\n`))
	a := try(t, "name: hello\ninstances: 3\nlabels: {a: <script>}\ntask:\n"+
		"  processes: [{shell: 'printf \"\\n<script>alert($SLUICE_INSTANCE)</script>\\033[31m\\n\"; echo err >&2'}]\n"+
		"  resources: {cpu: 100m, memory: 16Mi}\n", "job", "submit", "-", "--wait")
	require.Equal(t, exitOK, a.code, a.err)
	a = try(t, "name: large\ntask:\n  processes: [{argv: [/bin/true]}]\n  resources: {cpu: 1000, memory: 16Mi}\n", "job", "submit", "-")
	require.Equal(t, exitOK, a.code, a.err)

	pages := map[string]string{"/": ""}
	links := regexp.MustCompile(`(?:href|action|src)="([^"]*)"`)
	for todo := []string{"/"}; len(todo) > 0; todo = todo[1:] {
		res, err := http.Get(console + todo[0])
		require.NoError(t, err)
		body, err := io.ReadAll(res.Body)
		require.NoError(t, err)
		require.NoError(t, res.Body.Close())
		require.Equal(t, http.StatusOK, res.StatusCode, "%s: %s", todo[0], body)
		require.LessOrEqual(t, strings.Count(string(body), "<script"), 1, "that of the console")
		pages[todo[0]] = string(body)
		for _, m := range links.FindAllStringSubmatch(string(body), -1) {
			to, err := url.Parse(html.UnescapeString(m[1]))
			require.NoError(t, err)
			require.True(t, to.Host == "" && to.Scheme == "", "%s leads elsewhere", m[1])
			if _, known := pages[to.RequestURI()]; !known && to.Path != "" {
				pages[to.RequestURI()] = ""
				todo = append(todo, to.RequestURI())
			}
		}
	}
	require.Contains(t, pages["/tasks/hello/2"], "aria-label=\"Standard output\" tabindex=\"0\">\n\n&lt;script&gt;alert(2)&lt;/script&gt;"+`\x1b[31m`+"\n</pre>")
	require.Contains(t, pages["/tasks/hello/2"], "aria-label=\"Standard error\" tabindex=\"0\">\nerr\n</pre>")
	require.Contains(t, pages["/tasks/hello/2"], "exit code 0")
	explained := try(t, "", "task", "explain", "large/0")
	require.Equal(t, exitOK, explained.code)
	require.Contains(t, html.UnescapeString(pages["/tasks/large/0"]), explained.out)
	for _, want := range []string{"Of the last 30 days, by owner", "CPU hours", "GiB hours", `<td class="number" data-name="Succeeded">3</td>`} {
		require.Contains(t, pages["/pools/root/default"], want)
	}
	onHosts := ""
	for i := range 8 {
		onHosts += pages[fmt.Sprintf("/hosts/local/h%d", i)]
	}
	require.Contains(t, onHosts, `<option value="">here now</option>`)
	require.NotContains(t, onHosts, "/tasks/hello/", "those have ended")
	require.Contains(t, pages["/hosts"], `<a href="/hosts/local/h7">local/h7</a>`)

	// Nobody is asked who he is, so that no page answers under a name that may be somebody else's.
	for _, path := range []string{"/", "/metrics", "/debug/pprof/", "/debug/pprof/cmdline"} {
		for name, want := range map[string]int{"localhost": http.StatusOK, "evil.example": http.StatusMisdirectedRequest} {
			r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, console+path, nil)
			require.NoError(t, err)
			r.Host = name
			res, err := http.DefaultClient.Do(r)
			require.NoError(t, err)
			require.NoError(t, res.Body.Close())
			require.Equal(t, want, res.StatusCode, "%s of %s", path, name)
			require.Equal(t, "nosniff", res.Header.Get("X-Content-Type-Options"), path)
		}
	}
	dev.stop(t)
}
