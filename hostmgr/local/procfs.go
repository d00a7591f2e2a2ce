//go:build linux

package local

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// process is one line of /proc: what the kernel tells about a process.
type process struct {
	pid, parent, session int
	ended                bool  // a zombie
	stopped              bool  // by a signal
	begins               bool  // executes a program whose environment is not there yet
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
		if p, err := readStat(pid); err == nil { // otherwise it has ended meanwhile
			all = append(all, p)
		}
	}
	return all, nil
}

func readStat(pid int) (process, error) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return process{}, err
	}
	return parseStat(pid, stat)
}

// The fields of /proc/PID/stat that follow the name, counted from the state (field 3 in proc(5)).
const (
	statState   = 0
	statParent  = 1
	statSession = 3
	statFlags   = 6
	statTicks   = 11 // utime, stime, cutime, cstime
	statPages   = 21
	statEnvEnd  = 48 // address; 0 also to those who may not read the environment
)

const kernelThread = 0x200000 // of the flags

func parseStat(pid int, stat []byte) (process, error) {
	// The name is in parentheses and may contain anything, parentheses too.
	f := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	if len(f) <= statEnvEnd {
		return process{}, fmt.Errorf("local: /proc/%d/stat has %d fields after the name", pid, len(f))
	}
	n := func(i int) int64 {
		v, _ := strconv.ParseInt(string(f[i]), 10, 64) // the kernel wrote it; 0 is a safe answer
		return v
	}
	ended := f[statState][0] == 'Z' || f[statState][0] == 'X'
	return process{
		pid:     pid,
		parent:  int(n(statParent)),
		session: int(n(statSession)),
		ended:   ended,
		stopped: f[statState][0] == 'T',
		begins:  !ended && n(statFlags)&kernelThread == 0 && n(statEnvEnd) == 0,
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

// envOf returns a variable with which a process was started, "" if that cannot be seen. For a process that has just executed a program it
// waits, a second at most, until its environment is there.
func envOf(pid int, key string) string {
	seen := false // that the program has begun
	for range 1000 {
		env, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
		if err != nil {
			return ""
		}
		for v := range bytes.SplitSeq(env, []byte{0}) {
			if value, ok := strings.CutPrefix(string(v), key+"="); ok {
				return value
			}
		}
		if len(env) > 0 || seen {
			return ""
		}
		if p, err := readStat(pid); err != nil || !p.begins {
			seen = true // and perhaps between the two looks
			continue
		}
		time.Sleep(time.Millisecond)
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
