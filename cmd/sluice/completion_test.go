//go:build linux

package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// A shell completes what the scheduler knows by its names, and offers files only where a file belongs.
func TestCompletion(t *testing.T) {
	noSettings(t)
	dir := t.TempDir()
	scheduler := start(t, "scheduler", "--insecure", "--listen", "127.0.0.1:0", "--http-listen", "127.0.0.1:0", "--state-dir", dir)
	server := scheduler.says(t, `API on (\S+),`)
	for _, line := range []string{"pool create root/a", "pool create root/b", "job run one --pool root/a --instances 11 -- true", "job run other --pool root/b -- true"} {
		a := try(t, "", append([]string{"--server", server}, strings.Fields(line)...)...)
		require.Equal(t, exitOK, a.code, a.err)
	}
	const none, files = ":4", ":0"
	for line, want := range map[string]string{
		"job get |":              "one other " + none,
		"job get on|":            "one " + none,
		"job get one |":          none,
		"job stop one |":         "other " + none,
		"job run |":              none,
		"job submit |":           files,
		"job list |":             none,
		"job list --pool root/|": "root/a root/b root/default " + none,
		"job list --state r|":    "running " + none,
		"job list --type d|":     "daemon " + none,
		"task list |":            "one other " + none,
		"task list --state lo|":  "lost " + none,
		"task explain o|":        "one/ other/ :6",
		"task explain one/1|":    "one/1 one/10 " + none,
		"task explain absent/|":  none,
		"pool get root/a|":       "root/a " + none,
		"pool create |":          files,
		"host drain |":           none,
		"volume get |":           none,
		"token create --job o|":  "one other " + none,
		"cluster restore |":      files,
		"job list -o |":          "table json yaml " + none,
	} {
		line := strings.TrimSuffix(line, "|")
		words := strings.Fields(line)
		if strings.HasSuffix(line, " ") {
			words = append(words, "")
		}
		a := try(t, "", append([]string{"__complete", "--server", server}, words...)...)
		require.Equal(t, exitOK, a.code, a.err)
		var found []string
		for l := range strings.Lines(a.out) {
			name, _, _ := strings.Cut(strings.TrimSpace(l), "\t")
			if strings.HasPrefix(name, words[len(words)-1]) || name[0] == ':' { // as the shell does
				found = append(found, name)
			}
		}
		require.Equal(t, want, strings.Join(found, " "), line)
	}
	scheduler.stop(t)
	a := try(t, "", "__complete", "--server", server, "job", "get", "")
	require.Equal(t, answer{exitOK, none + "\n", "Completion ended with directive: ShellCompDirectiveNoFileComp\n"}, a, "nobody answers")
}
