//go:build linux

package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// A forecast begins with the cluster as it is, or as it was when a snapshot was made, and needs no scheduler for that.
func TestForecast(t *testing.T) {
	noSettings(t)
	finish := startDev(t, t.TempDir(), "--hosts", "2")
	naps := `name: nap
instances: 9
task:
  processes: [{argv: [sleep, "3600"]}]
  resources: {cpu: 1, memory: 16Mi}
---
name: never
task:
  processes: [{argv: [sleep, "1"]}]
  resources: {cpu: 3, memory: 16Mi}
`
	require.Contains(t, try(t, "", "cluster", "forecast").out, "nothing waits")
	require.Zero(t, try(t, naps, "job", "submit", "-").code)
	shows(t, `4 running`, "job", "list")
	shows(t, `(?m)^nap +root/default +5 +(9m5\ds|10m0s) +(19m5\ds|20m0s) +(29m5\ds|30m[01]s)\nnever +root/default +1 +- +- +-$`,
		"cluster", "forecast", "--run-time", "10m")
	file := filepath.Join(t.TempDir(), "snapshot")
	require.Zero(t, try(t, "", "cluster", "snapshot", file).code)
	require.Zero(t, finish())

	a := try(t, "", "cluster", "forecast", "--snapshot", file, "--run-time", "30m", "--horizon", "45m", "--model", "binpack", "-o", "json")
	require.Zero(t, a.code, a.err)
	var answer forecastAnswer
	require.NoError(t, json.Unmarshal([]byte(a.out), &answer))
	require.Equal(t, "binpack", answer.Model)
	require.Equal(t, 2, answer.UnknownJobs)
	require.Len(t, answer.Jobs, 2)
	nap := answer.Jobs[0]
	require.Equal(t, 5, nap.Waiting)
	require.InDelta(t, 1800, *nap.FirstStart, 30)
	require.Nil(t, nap.AllStarted, "beyond the horizon")
	require.Nil(t, nap.Ended)
	require.Nil(t, answer.Jobs[1].FirstStart, "no host is so large")
	require.Contains(t, try(t, "", "cluster", "forecast", "--snapshot", file, "--run-time", "0").out, "taken to run for ever")

	// Before it is submitted: one that goes before the others, and one that is a mistake.
	urgent := `name: urgent
priority: 10
secrets: [{name: key, value: aHVzaA==, path: key}]
task:
  processes: [{argv: [sleep, "1"]}]
  resources: {cpu: 1, memory: 16Mi}
`
	a = try(t, urgent, "cluster", "forecast", "--snapshot", file, "--submit", "-", "--run-time", "30m", "-o", "json")
	require.Zero(t, a.code, a.err)
	require.NoError(t, json.Unmarshal([]byte(a.out), &answer))
	require.Len(t, answer.Jobs, 3)
	require.Equal(t, "urgent", answer.Jobs[2].Job)
	require.Less(t, *answer.Jobs[2].FirstStart, *answer.Jobs[0].AllStarted)
	a = try(t, strings.Replace(urgent, "priority: 10", "pool: root/nowhere", 1), "cluster", "forecast", "--snapshot", file, "--submit", "-")
	require.Equal(t, exitRefused, a.code)
	require.Equal(t, "sluice: specs[0].pool: is \"root/nowhere\": there is no such pool\n", a.err)

	// Jobs that are there already: nothing is done with the one, and the other is updated.
	again := strings.Replace(naps, `sleep, "1"`, `sleep, "2"`, 1)
	a = try(t, again, "cluster", "forecast", "--snapshot", file, "--submit", "-")
	require.Zero(t, a.code, a.err)
	require.Contains(t, a.err, "sluice: job nap is there already, with the same contents: nothing is changed\n")
	require.Contains(t, a.err, "sluice: job never is there already, and is taken to be updated to version 2, as by `sluice job update`; "+
		"shown is what waits now, and not what the update replaces later\n")

	broken := filepath.Join(t.TempDir(), "broken")
	require.NoError(t, os.WriteFile(broken, []byte("{}\n"), 0o600))
	for text, args := range map[string][]string{
		"--run-time is -1s: at least 0":        {"--run-time", "-1s"},
		"--horizon is 0s: more than 0":         {"--horizon", "0"},
		`--model: models: no cost model "nix"`: {"--model", "nix"},
		"no such file or directory":            {"--snapshot", filepath.Join(t.TempDir(), "none")},
		broken + ": ":                          {"--snapshot", broken},
	} {
		a := try(t, "", append([]string{"cluster", "forecast"}, args...)...)
		require.Equal(t, exitUsage, a.code, text)
		require.Contains(t, a.err, text)
	}
}
