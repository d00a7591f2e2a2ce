package main

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"google.golang.org/protobuf/encoding/protojson"

	"github.com/sluice-scheduler/sluice/cmd/sluice/internal/words"
	sluicev1 "github.com/sluice-scheduler/sluice/proto/sluice/v1"
)

// difference is a field that differs between two specs; "" where it is not set.
type difference struct {
	Field string `json:"field"`
	From  string `json:"from,omitempty"`
	To    string `json:"to,omitempty"`
}

// specDiff lists the fields in which two specs differ, by path.
func specDiff(from, to *sluicev1.JobSpec) []difference {
	a, b := leaves(from), leaves(to)
	paths := map[string]bool{}
	for p := range a {
		paths[p] = true
	}
	for p := range b {
		paths[p] = true
	}
	all := []difference{} // none is a list, too
	for _, p := range slices.Sorted(maps.Keys(paths)) {
		if a[p] != b[p] {
			all = append(all, difference{p, a[p], b[p]})
		}
	}
	return all
}

// secretsGiven lists the secrets that a spec has values for. The scheduler shows no value, so they may be those that the job has.
func secretsGiven(spec *sluicev1.JobSpec) (all []difference) {
	for i, s := range spec.GetSecrets() {
		if len(s.GetValue()) > 0 {
			all = append(all, difference{fmt.Sprintf("secrets[%d].value", i), "the value that is kept", "the value that is given"})
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

func writeDiff(w io.Writer, all []difference) error {
	if len(all) == 0 {
		fmt.Fprintln(w, "nothing would change")
	}
	for _, d := range all {
		sign, text := "~", words.Visible(d.From, "")+" -> "+words.Visible(d.To, "")
		from, to := strings.Split(d.From, "\n"), strings.Split(d.To, "\n")
		switch {
		case d.From == "":
			sign, text = "+", words.Visible(d.To, "")
			from, to = nil, strings.Split(strings.TrimSuffix(d.To, "\n"), "\n")
		case d.To == "":
			sign, text = "-", words.Visible(d.From, "")
			from, to = strings.Split(strings.TrimSuffix(d.From, "\n"), "\n"), nil
		}
		if strings.Contains(d.From+d.To, "\n") {
			fmt.Fprintf(w, "%s %s:\n", sign, words.Visible(d.Field, ""))
			writeLines(w, from, to)
		} else {
			fmt.Fprintf(w, "%s %s: %s\n", sign, words.Visible(d.Field, ""), text)
		}
	}
	return nil
}

// writeLines shows two texts without the lines that both begin or end with.
func writeLines(w io.Writer, from, to []string) {
	for len(from) > 0 && len(to) > 0 && from[0] == to[0] {
		from, to = from[1:], to[1:]
	}
	for len(from) > 0 && len(to) > 0 && from[len(from)-1] == to[len(to)-1] {
		from, to = from[:len(from)-1], to[:len(to)-1]
	}
	for _, line := range from {
		fmt.Fprintf(w, "    - %s\n", words.Visible(line, "\t"))
	}
	for _, line := range to {
		fmt.Fprintf(w, "    + %s\n", words.Visible(line, "\t"))
	}
}
