package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"

	"github.com/sluice-scheduler/sluice/cmd/sluice/internal/words"
	sluicev1 "github.com/sluice-scheduler/sluice/proto/sluice/v1"
)

// changedSecrets lists the secrets of a spec whose values are not those that the job has. The scheduler shows no value, but says whether one
// of them alone would make another version: where the last update did not come to its end each would.
func (c *client) changedSecrets(ctx context.Context, now *sluicev1.Job, spec *sluicev1.JobSpec) (all []words.Difference, err error) {
	for i, s := range spec.GetSecrets() {
		if len(s.GetValue()) == 0 {
			continue
		}
		d := words.Difference{Field: fmt.Sprintf("secrets[%d].value", i), To: "the value that is given"}
		alone := proto.CloneOf(now.GetSpec())
		k := slices.IndexFunc(alone.GetSecrets(), func(was *sluicev1.Secret) bool { return was.GetName() == s.GetName() })
		if k >= 0 {
			d.From = "the value that is kept"
			alone.Secrets[k].Value = s.GetValue()
			res, err := call(ctx, c, c.jobs.UpdateJob, &sluicev1.UpdateJobRequest{Spec: alone, ExpectedVersion: now.GetVersion(), DryRun: true})
			if err != nil {
				return nil, err
			}
			if res.GetJob().GetVersion() == now.GetVersion() {
				continue
			}
		}
		all = append(all, d)
	}
	return all, nil
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
