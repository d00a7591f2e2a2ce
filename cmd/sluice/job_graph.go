package main

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/sluice-scheduler/sluice/cmd/sluice/internal/words"
	sluicev1 "github.com/sluice-scheduler/sluice/proto/sluice/v1"
)

func newJobGraphCommand(a *app) *cobra.Command {
	var dot bool
	cmd := &cobra.Command{
		Use:   "graph NAME",
		Short: "Show the jobs that a job waits for, and those that wait for it",
		Long: `Show the jobs that depend on each other, of which NAME is one.

The tree has the jobs that wait for none at its roots, and below each job those
that wait for it, with the end that they wait for. With --dot it is a graph for
Graphviz; with -o json or yaml the jobs as the API gives them.`,
		Args: wants("NAME"),
		PreRunE: func(cmd *cobra.Command, _ []string) error {
			if dot {
				return noOutput(cmd, "--dot is text for Graphviz")
			}
			return nil
		},
		RunE: a.connected(func(cmd *cobra.Command, c *client, args []string) error {
			if _, err := call(cmd.Context(), c, c.jobs.GetJob, &sluicev1.GetJobRequest{Name: args[0]}); err != nil {
				return err
			}
			req, all := &sluicev1.ListJobsRequest{}, jobGraph{}
			_, err := pages(0, func(size uint32, token string) (int, string, error) {
				req.PageSize, req.PageToken = &size, token
				res, err := call(cmd.Context(), c, c.jobs.ListJobs, req)
				for _, j := range res.GetJobs() {
					all[j.GetName()] = j
				}
				return len(res.GetJobs()), res.GetNextPageToken(), err
			})
			if err != nil {
				return err
			}
			around := all.around(args[0])
			if dot {
				return a.showTable(func(w io.Writer) error { around.dot(w); return nil })
			}
			return a.show(&sluicev1.ListJobsResponse{Jobs: around.sorted()}, around.tree)
		}),
	}
	cmd.Flags().BoolVar(&dot, "dot", false, "print a graph for Graphviz")
	return cmd
}

// jobGraph is jobs by name, with what they depend on.
type jobGraph map[string]*sluicev1.Job

// around returns the jobs that are connected with one by dependencies, in either direction.
func (g jobGraph) around(name string) jobGraph {
	next := map[string][]string{}
	for _, j := range g {
		for _, d := range j.GetSpec().GetDependsOn() {
			next[j.GetName()] = append(next[j.GetName()], d.GetJob())
			next[d.GetJob()] = append(next[d.GetJob()], j.GetName())
		}
	}
	found := jobGraph{}
	for todo := []string{name}; len(todo) > 0; todo = todo[1:] {
		if j := g[todo[0]]; j != nil && found[todo[0]] == nil {
			found[todo[0]] = j
			todo = append(todo, next[todo[0]]...)
		}
	}
	return found
}

func (g jobGraph) sorted() []*sluicev1.Job {
	var all []*sluicev1.Job
	for _, j := range g {
		all = append(all, j)
	}
	slices.SortFunc(all, func(a, b *sluicev1.Job) int { return strings.Compare(a.GetName(), b.GetName()) })
	return all
}

// tree prints every job below those that it waits for. What is below a job is printed where it comes first. Complexity: what it prints.
func (g jobGraph) tree(w io.Writer) {
	printed := map[string]bool{}
	type edge struct {
		below *sluicev1.Job
		on    *sluicev1.Dependency
	}
	waits, all := map[string][]edge{}, g.sorted()
	for _, j := range all {
		for _, d := range j.GetSpec().GetDependsOn() {
			waits[d.GetJob()] = append(waits[d.GetJob()], edge{j, d})
		}
	}
	var show func(j *sluicev1.Job, on, indent string)
	show = func(j *sluicev1.Job, on, indent string) {
		again := printed[j.GetName()]
		printed[j.GetName()] = true
		line := fmt.Sprintf("%s%s%s  %s", indent, on, j.GetName(), words.JobState(j.GetState()))
		if m := j.GetMessage(); m != "" {
			line += ": " + words.Visible(m, "")
		}
		if again {
			line += "  (see above)"
		}
		fmt.Fprintln(w, line)
		if again {
			return
		}
		for _, e := range waits[j.GetName()] {
			show(e.below, "on "+conditionWord(e.on)+": ", indent+"  ")
		}
	}
	for _, j := range all {
		if !slices.ContainsFunc(j.GetSpec().GetDependsOn(), func(d *sluicev1.Dependency) bool { return g[d.GetJob()] != nil }) {
			show(j, "", "")
		}
	}
}

// dot prints the graph in the language of Graphviz, with an edge from each job to those that wait for it.
func (g jobGraph) dot(w io.Writer) {
	fmt.Fprintln(w, "digraph jobs {")
	for _, j := range g.sorted() {
		fmt.Fprintf(w, "  %q [label=%q];\n", j.GetName(), j.GetName()+"\n"+words.JobState(j.GetState()))
		for _, d := range j.GetSpec().GetDependsOn() {
			fmt.Fprintf(w, "  %q -> %q [label=%q];\n", d.GetJob(), j.GetName(), conditionWord(d))
		}
	}
	fmt.Fprintln(w, "}")
}

func conditionWord(d *sluicev1.Dependency) string {
	return strings.ToLower(d.GetCondition().String())
}
