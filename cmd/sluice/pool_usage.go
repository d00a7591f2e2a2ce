package main

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/sluice-scheduler/sluice/cmd/sluice/internal/words"
	sluicev1 "github.com/sluice-scheduler/sluice/proto/sluice/v1"
)

const poolUsageHelp = `Show what jobs had, for the time that their tasks ran, in a pool and those below it,
or in all. LOST is the part of CPU that came to nothing: of batch jobs, runs that
failed, were lost, left before they were done, or were overtaken by a copy. Days are
those of UTC, and the last 400 are kept.

  sluice pool usage --by owner --from 30d
  sluice pool usage root/batch --by day,pool --from 2026-01-01 --to 2026-01-31`

// usageGroups are what entries can be told apart by.
var usageGroups = map[string]sluicev1.ListUsageRequest_Group{
	"day": sluicev1.ListUsageRequest_GROUP_DAY, "pool": sluicev1.ListUsageRequest_GROUP_POOL, "owner": sluicev1.ListUsageRequest_GROUP_OWNER,
}

func newPoolUsageCommand(a *app) *cobra.Command {
	r := &sluicev1.ListUsageRequest{}
	var from, to string
	var by []string
	cmd := &cobra.Command{
		Use:   "usage [PATH]",
		Short: "Show what jobs used, by day, pool and owner",
		Long:  poolUsageHelp,
		Args:  mayWant("PATH"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := filled(cmd, "by", "from", "to", "owner"); err != nil {
				return err
			}
			if len(args) > 0 {
				r.Pool = args[0]
			}
			var wrong []error
			r.FromDay, wrong = usageDay("from", from, wrong)
			r.ToDay, wrong = usageDay("to", to, wrong)
			if len(wrong) == 0 && r.FromDay > r.ToDay {
				wrong = append(wrong, fmt.Errorf("--from: is %s, after --to, which is %s", r.FromDay, r.ToDay))
			}
			r.GroupBy, wrong = usageGroup(by, wrong)
			if len(wrong) > 0 {
				return usageError(cmd, together(wrong...))
			}
			return a.connected(func(cmd *cobra.Command, c *client, _ []string) error {
				all := &sluicev1.ListUsageResponse{}
				_, err := pages(0, func(size uint32, token string) (int, string, error) {
					r.PageSize, r.PageToken = &size, token
					res, err := call(cmd.Context(), c, c.pools.ListUsage, r)
					all.Entries, all.KeptFromDay = append(all.Entries, res.GetEntries()...), res.GetKeptFromDay()
					return len(res.GetEntries()), res.GetNextPageToken(), err
				})
				if err != nil {
					return err
				}
				if day := all.GetKeptFromDay(); day != "" {
					fmt.Fprintf(a.err, "sluice: what was used before %s is not kept any more\n", day)
				}
				return a.show(all, func(w io.Writer) {
					table(w, words.UsageTable(all.GetEntries(), slices.Contains(by, "day"), slices.Contains(by, "pool"), slices.Contains(by, "owner")))
				})
			})(cmd, nil)
		},
	}
	cmd.Flags().StringVar(&from, "from", "30d", "first day, as 2026-01-31, or how many days back, as 30d")
	cmd.Flags().StringVar(&to, "to", "0d", "last day, likewise")
	cmd.Flags().StringSliceVar(&by, "by", []string{"pool", "owner"}, "what lines are told apart by: day, pool, owner, joined by commas")
	cmd.Flags().StringVar(&r.Owner, "owner", "", "only of jobs of this owner")
	return cmd
}

// usageDay reads a day, or how many days back it is.
func usageDay(flag, s string, wrong []error) (string, []error) {
	if back, ok := strings.CutSuffix(s, "d"); ok {
		if n, err := strconv.ParseUint(back, 10, 16); err == nil {
			return time.Now().UTC().AddDate(0, 0, -int(n)).Format(time.DateOnly), wrong
		}
	} else if _, err := time.Parse(time.DateOnly, s); err == nil {
		return s, wrong
	}
	return "", append(wrong, fmt.Errorf("--%s: %q is no day such as 2026-01-31, and no number of days back such as 30d", flag, s))
}

// usageGroup reads what lines are told apart by.
func usageGroup(by []string, wrong []error) (groups []sluicev1.ListUsageRequest_Group, _ []error) {
	for _, name := range by {
		group, known := usageGroups[name]
		if !known {
			wrong = append(wrong, fmt.Errorf("--by: %q is none of day, pool, owner", name))
		}
		groups = append(groups, group)
	}
	return groups, wrong
}
