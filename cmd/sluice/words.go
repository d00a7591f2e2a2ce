package main

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	sluicev1 "github.com/sluice-scheduler/sluice/proto/sluice/v1"
)

// bytesWord writes bytes with the largest 1024-based unit that keeps them exact, or else with one decimal place.
func bytesWord(n int64) string {
	units := []string{"", "Ki", "Mi", "Gi", "Ti", "Pi"}
	i, v := 0, float64(n)
	for (v >= 1024 || v <= -1024) && i < len(units)-1 {
		v /= 1024
		i++
	}
	return strings.TrimSuffix(strconv.FormatFloat(v, 'f', 1, 64), ".0") + units[i]
}

// milliWord writes thousandths as a decimal number.
func milliWord(n int64) string { return strconv.FormatFloat(float64(n)/1000, 'f', -1, 64) }

// resourcesWord writes a vector in the units of job files.
func resourcesWord(r *sluicev1.ResourceVector) string {
	var parts []string
	add := func(name string, n int64, word func(int64) string) {
		if n != 0 {
			parts = append(parts, name+"="+word(n))
		}
	}
	plain := func(n int64) string { return strconv.FormatInt(n, 10) }
	add("cpu", r.GetCpuMilli(), milliWord)
	add("memory", r.GetMemoryBytes(), bytesWord)
	add("disk", r.GetDiskBytes(), bytesWord)
	add("gpu", r.GetGpuMilli(), milliWord)
	add("ports", r.GetPorts(), plain)
	add("network_per_second", r.GetNetworkBytesPerSecond(), bytesWord)
	for _, name := range slices.Sorted(maps.Keys(r.GetNamed())) {
		add(name, r.GetNamed()[name], plain)
	}
	return strings.Join(parts, " ")
}

// labelsWord writes labels in the order of their keys.
func labelsWord(labels map[string]string) string {
	var parts []string
	for _, k := range slices.Sorted(maps.Keys(labels)) {
		parts = append(parts, k+"="+labels[k])
	}
	return strings.Join(parts, ",")
}

// timeWord writes an instant, "" where there is none.
func timeWord(t *timestamppb.Timestamp) string {
	if t == nil {
		return ""
	}
	return t.AsTime().Local().Format("2006-01-02 15:04:05 MST")
}

// momentWord is timeWord to the millisecond.
func momentWord(t *timestamppb.Timestamp) string {
	if t == nil {
		return ""
	}
	return t.AsTime().Local().Format("2006-01-02 15:04:05.000 MST")
}

// spanWord writes how long it is from one instant to another, or to now where there is no other.
func spanWord(from, to *timestamppb.Timestamp) string {
	if from == nil {
		return ""
	}
	end := time.Now()
	if to != nil {
		end = to.AsTime()
	}
	d := max(0, end.Sub(from.AsTime()))
	switch {
	case d < 10*time.Second:
		return d.Round(100 * time.Millisecond).String()
	case d < time.Hour:
		return d.Round(time.Second).String()
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh%dm", int(d.Hours()), int(d.Minutes())%60)
	default:
		return fmt.Sprintf("%dd%dh", int(d.Hours())/24, int(d.Hours())%24)
	}
}

// stateWord writes the value of an enumeration in lower case without the enumeration's name.
func stateWord(s fmt.Stringer, prefix string) string {
	return strings.ToLower(strings.TrimPrefix(s.String(), prefix))
}

func jobStateWord(s sluicev1.JobState) string   { return stateWord(s, "JOB_STATE_") }
func taskStateWord(s sluicev1.TaskState) string { return stateWord(s, "TASK_STATE_") }
func hostStateWord(s sluicev1.HostState) string { return stateWord(s, "HOST_STATE_") }
func poolStateWord(s sluicev1.PoolState) string { return stateWord(s, "POOL_STATE_") }

// parseStates reads what stateWord writes, in the values of a flag.
func parseStates[E ~int32](flag string, words []string, prefix string, values map[string]int32) ([]E, error) {
	var states []E
	for _, w := range words {
		n, ok := values[prefix+strings.ToUpper(w)]
		if !ok || n == 0 {
			var all []string
			for _, name := range slices.Sorted(maps.Keys(values)) {
				if values[name] != 0 {
					all = append(all, strings.ToLower(strings.TrimPrefix(name, prefix)))
				}
			}
			return nil, exitError{exitUsage, fmt.Errorf("--%s: %q is none of %s", flag, w, strings.Join(all, ", "))}
		}
		states = append(states, E(n))
	}
	return states, nil
}
