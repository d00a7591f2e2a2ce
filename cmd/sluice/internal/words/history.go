package words

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"google.golang.org/protobuf/encoding/protojson"

	sluicev1 "github.com/sluice-scheduler/sluice/proto/sluice/v1"
)

// HistoryTable lists versions of a job, newest first, with how many fields each changed of the one before, where that is there, too.
func HistoryTable(versions []*sluicev1.JobVersion) Table {
	var rows [][]string
	for i, v := range versions {
		changes := ""
		if i+1 < len(versions) {
			changes = strconv.Itoa(len(SpecDiff(versions[i+1].GetSpec(), v.GetSpec())))
		}
		rows = append(rows, []string{strconv.FormatUint(v.GetVersion(), 10), Time(v.GetCreateTime()), changes, v.GetDescription()})
	}
	return Table{"VERSION SINCE CHANGES DESCRIPTION", rows}
}

// Difference is a field that differs between two specs; "" where it is not set.
type Difference struct {
	Field string `json:"field"`
	From  string `json:"from,omitempty"`
	To    string `json:"to,omitempty"`
}

// SpecDiff lists the fields in which two specs differ, by path.
func SpecDiff(from, to *sluicev1.JobSpec) []Difference {
	a, b := leaves(from), leaves(to)
	paths := map[string]bool{}
	for p := range a {
		paths[p] = true
	}
	for p := range b {
		paths[p] = true
	}
	all := []Difference{} // none is a list, too
	for _, p := range slices.Sorted(maps.Keys(paths)) {
		if a[p] != b[p] {
			all = append(all, Difference{p, a[p], b[p]})
		}
	}
	return all
}

// leaves returns the values of a spec by their paths.
func leaves(spec *sluicev1.JobSpec) map[string]string {
	out := map[string]string{}
	raw, err := protojson.MarshalOptions{UseProtoNames: true}.Marshal(spec)
	if err != nil {
		return out // what was decoded can be encoded
	}
	var tree any
	_ = json.Unmarshal(raw, &tree) // it was just written
	var walk func(path string, v any)
	walk = func(path string, v any) {
		switch v := v.(type) {
		case map[string]any:
			for k, child := range v { // in any order: paths are unique
				walk(path+"."+k, child)
			}
		case []any:
			for i, child := range v {
				walk(fmt.Sprintf("%s[%d]", path, i), child)
			}
		default:
			out[path[1:]] = fmt.Sprint(v)
		}
	}
	walk("", tree)
	return out
}
