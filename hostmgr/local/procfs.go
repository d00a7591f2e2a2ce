//go:build linux

package local

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
)

// process is one line of /proc: what the kernel tells about a process.
type process struct {
	pid, parent, session int
	ended                bool  // a zombie
	ticks                int64 // of processor time used by itself
	reaped               int64 // the same, of its children that have ended and been waited for
	pages                int64 // resident
}

// processes reads all processes of this machine that can be seen. Complexity: one small file per process.
func processes() ([]process, error) {
	dir, err := os.Open("/proc")
	if err != nil {
		return nil, err
	}
	names, err := dir.Readdirnames(-1)
	if err := errors.Join(err, dir.Close()); err != nil {
		return nil, err
	}
	var all []process
	for _, name := range names {
		pid, err := strconv.Atoi(name)
		if err != nil {
			continue
		}
		stat, err := os.ReadFile("/proc/" + name + "/stat")
		if err != nil {
			continue // it has ended meanwhile
		}
		if p, err := parseStat(pid, stat); err == nil {
			all = append(all, p)
		}
	}
	return all, nil
}

// The fields of /proc/PID/stat that follow the name, counted from the state (field 3 in proc(5)).
const (
	statState   = 0
	statParent  = 1
	statSession = 3
	statTicks   = 11 // utime, stime, cutime, cstime
	statPages   = 21
)

func parseStat(pid int, stat []byte) (process, error) {
	// The name is in parentheses and may contain anything, parentheses too.
	f := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	if len(f) <= statPages {
		return process{}, fmt.Errorf("local: /proc/%d/stat has %d fields after the name", pid, len(f))
	}
	n := func(i int) int64 {
		v, _ := strconv.ParseInt(string(f[i]), 10, 64) // the kernel wrote it; 0 is a safe answer
		return v
	}
	return process{
		pid:     pid,
		parent:  int(n(statParent)),
		session: int(n(statSession)),
		ended:   f[statState][0] == 'Z' || f[statState][0] == 'X',
		ticks:   n(statTicks) + n(statTicks+1),
		reaped:  n(statTicks+2) + n(statTicks+3),
		pages:   n(statPages),
	}, nil
}

// hasEnv reports whether a process was started with a variable in its environment, given as KEY=VALUE.
func hasEnv(pid int, variable string) bool {
	key, value, _ := strings.Cut(variable, "=")
	return envOf(pid, key) == value
}

// envOf returns a variable with which a process was started, "" if that cannot be seen.
func envOf(pid int, key string) string {
	env, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
	if err != nil {
		return ""
	}
	for v := range bytes.SplitSeq(env, []byte{0}) {
		if value, ok := strings.CutPrefix(string(v), key+"="); ok {
			return value
		}
	}
	return ""
}

// pidNamespace names the namespace in which this process sees process ids.
func pidNamespace() string {
	name, err := os.Readlink("/proc/self/ns/pid")
	if err != nil {
		return ""
	}
	return name
}
