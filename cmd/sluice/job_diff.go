package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/sluice-scheduler/sluice/cmd/sluice/internal/words"
	sluicev1 "github.com/sluice-scheduler/sluice/proto/sluice/v1"
)

// secretsGiven lists the secrets that a spec has values for. The scheduler shows no value, so they may be those that the job has.
func secretsGiven(spec *sluicev1.JobSpec) (all []words.Difference) {
	for i, s := range spec.GetSecrets() {
		if len(s.GetValue()) > 0 {
			all = append(all, words.Difference{
				Field: fmt.Sprintf("secrets[%d].value", i), From: "the value that is kept", To: "the value that is given",
			})
		}
	}
	return all
}

func writeDiff(w io.Writer, all []words.Difference) error {
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
