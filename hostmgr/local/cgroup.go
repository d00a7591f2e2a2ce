//go:build linux

package local

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// cgroupLimits is the control group of one run.
type cgroupLimits struct {
	Path        string
	CPUMilli    int64 // 0 = no limit
	MemoryBytes int64 // 0 = no limit
}

// cpuPeriod is the kernel's default period for cpu.max, in microseconds.
const cpuPeriod = 100_000

// create makes the group with its limits and opens its folder, so that a process can be started in it.
func (c *cgroupLimits) create() (*os.File, error) {
	if err := os.Mkdir(c.Path, 0o755); err != nil && !errors.Is(err, os.ErrExist) {
		return nil, fmt.Errorf("local: make the control group: %w", err)
	}
	set := func(file string, value string) error {
		if err := os.WriteFile(filepath.Join(c.Path, file), []byte(value), 0o644); err != nil {
			return fmt.Errorf("local: limit the run: %w", err)
		}
		return nil
	}
	if c.CPUMilli > 0 {
		quota := max(c.CPUMilli*cpuPeriod/1000, 1000) // the kernel takes no less than a millisecond
		if err := set("cpu.max", fmt.Sprintf("%d %d", quota, cpuPeriod)); err != nil {
			return nil, err
		}
	}
	if c.MemoryBytes > 0 {
		if err := set("memory.max", strconv.FormatInt(c.MemoryBytes, 10)); err != nil {
			return nil, err
		}
		_ = set("memory.oom.group", "1") // the task ends as a whole, not one process at a time
		_ = set("memory.swap.max", "0")  // does not exist where swap is not accounted
	}
	return os.Open(c.Path)
}

// outOfMemory reports whether the kernel has killed a process of the group for using too much memory.
func (c *cgroupLimits) outOfMemory() bool { return c.value("memory.events", "oom_kill") > 0 }

// remove kills what is in the group and removes it. A group that does not exist is no error.
func (c *cgroupLimits) remove() error {
	_ = os.WriteFile(filepath.Join(c.Path, "cgroup.kill"), []byte("1"), 0o644) // absent before Linux 5.14
	for attempt := 0; ; attempt++ {
		err := removeGroup(c.Path)
		switch {
		case err == nil || errors.Is(err, unix.ENOENT):
			return nil
		case !errors.Is(err, unix.EBUSY) || attempt == 100:
			return fmt.Errorf("local: remove control group %s: %w", c.Path, err)
		}
		time.Sleep(10 * time.Millisecond) // what was killed is still ending
	}
}

// removeGroup removes a group after those that the task has made in it.
func removeGroup(path string) error {
	entries, _ := os.ReadDir(path) // what keeps us from that keeps us from removing it
	for _, e := range entries {
		if e.IsDir() {
			_ = removeGroup(filepath.Join(path, e.Name())) // shows in what follows
		}
	}
	return unix.Rmdir(path)
}

// value reads a number from a file of the group: the one after key, or the only one if key is "". 0 if there is none.
func (c *cgroupLimits) value(file, key string) int64 {
	data, err := os.ReadFile(filepath.Join(c.Path, file))
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(data)) {
		f := strings.Fields(line)
		if len(f) > 0 && (key == "" || len(f) == 2 && f[0] == key) {
			n, _ := strconv.ParseInt(f[len(f)-1], 10, 64) // "max" counts as none
			return n
		}
	}
	return 0
}

// neededControllers enforce the limits that a run asks for.
var neededControllers = []string{"cpu", "memory"}

// findCgroup returns a folder in which control groups with limits can be made, or the reason why there is none.
func findCgroup(configured string) (parent string, problem error) {
	parent = configured
	if parent == "" {
		own, err := ownCgroup()
		if err != nil {
			return "", err
		}
		parent = own
	}
	has := func(file string) bool {
		data, err := os.ReadFile(filepath.Join(parent, file))
		names := strings.Fields(string(data))
		return err == nil && !slices.ContainsFunc(neededControllers, func(c string) bool { return !slices.Contains(names, c) })
	}
	if !has("cgroup.controllers") {
		return "", fmt.Errorf("control group %s does not have the controllers %s", parent, strings.Join(neededControllers, " and "))
	}
	if !has("cgroup.subtree_control") {
		enable := "+" + strings.Join(neededControllers, " +")
		if err := os.WriteFile(filepath.Join(parent, "cgroup.subtree_control"), []byte(enable), 0o644); err != nil {
			return "", fmt.Errorf("control group %s may not be divided: %w", parent, err)
		}
	}
	if err := unix.Access(parent, unix.W_OK); err != nil {
		return "", fmt.Errorf("control group %s may not be written: %w", parent, err)
	}
	return parent, nil
}

// ownCgroup returns the folder of the control group in which this process is.
func ownCgroup() (string, error) {
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return "", err
	}
	groups, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return "", err
	}
	return cgroupFolder(mounts, groups)
}

// cgroupFolder finds the folder in the formats of proc(5), mountinfo, and cgroups(7), /proc/PID/cgroup.
func cgroupFolder(mounts, groups []byte) (string, error) {
	var mount string
	for lines := bufio.NewScanner(bytes.NewReader(mounts)); lines.Scan(); {
		before, after, _ := strings.Cut(lines.Text(), " - ")
		if f := strings.Fields(before); strings.HasPrefix(after, "cgroup2 ") && len(f) > 4 {
			mount = f[4]
		}
	}
	if mount == "" {
		return "", errors.New("control groups of version 2 are not mounted")
	}
	for lines := bufio.NewScanner(bytes.NewReader(groups)); lines.Scan(); {
		if path, ok := strings.CutPrefix(lines.Text(), "0::"); ok {
			return filepath.Join(mount, path), nil
		}
	}
	return "", errors.New("this process is in no control group of version 2")
}
