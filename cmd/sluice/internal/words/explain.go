package words

import (
	"fmt"
	"io"
	"strings"

	sluicev1 "github.com/sluice-scheduler/sluice/proto/sluice/v1"
)

// Explanation writes why a task waits, is where it is, or was stopped, as text of several lines.
func Explanation(w io.Writer, res *sluicev1.ExplainTaskResponse) {
	fmt.Fprintf(w, "task %s is %s\n", Task(res.GetTask()), TaskState(res.GetTask().GetState()))
	if s := strings.TrimSpace(res.GetSummary()); s != "" {
		fmt.Fprintln(w, s)
	}
	preempted(w, res.GetPreempted())
	switch x := res.GetExplanation().(type) {
	case *sluicev1.ExplainTaskResponse_Waiting:
		blocked(w, x.Waiting.GetCheapestBlocked())
	case *sluicev1.ExplainTaskResponse_Placed:
		fmt.Fprintf(w, "\ncost on %s: %s\n", x.Placed.GetHost(), cost(x.Placed.GetCostMs(), x.Placed.GetTerms()))
		for _, alt := range x.Placed.GetAlternatives() {
			fmt.Fprintf(w, "next best %s: %s\n", alt.GetHost(), cost(alt.GetCostMs(), alt.GetTerms()))
		}
	}
}

// preempted says for whom the task had to leave, and what that cost.
func preempted(w io.Writer, p *sluicev1.PreemptionExplanation) {
	if p == nil {
		return
	}
	if p.GetBeneficiaryPool() == "" {
		fmt.Fprintf(w, "\nasked to leave because others use what it had, which costs %d ms\n", p.GetCostMs())
		return
	}
	whom := "a task" // of a job that the caller may not see, or that is gone
	if p.GetBeneficiaryJob() != "" {
		whom = fmt.Sprintf("%s/%d", p.GetBeneficiaryJob(), p.GetBeneficiaryInstance())
	}
	fmt.Fprintf(w, "\nasked to leave for %s of pool %s, which costs %d ms\n", whom, p.GetBeneficiaryPool(), p.GetCostMs())
	for _, alt := range p.GetAlternatives() {
		fmt.Fprintf(w, "next best: room on %s for %d ms\n", alt.GetHost(), alt.GetCostMs())
	}
}

// blocked adds the price of the best place to what the summary says in words.
func blocked(w io.Writer, b *sluicev1.BlockedArc) {
	if b != nil {
		fmt.Fprintf(w, "\nbest place if it were open: %s, blocked by %s, cost %s\n", b.GetHost(), b.GetBlockedBy(), cost(b.GetCostMs(), b.GetTerms()))
	}
}

// cost writes a price with its terms.
func cost(ms int64, terms []*sluicev1.CostTerm) string {
	var parts []string
	for _, t := range terms {
		parts = append(parts, fmt.Sprintf("%s %d", t.GetName(), t.GetCostMs()))
	}
	if len(parts) == 0 {
		return fmt.Sprintf("%d ms", ms)
	}
	return fmt.Sprintf("%d ms (%s)", ms, strings.Join(parts, " + "))
}
