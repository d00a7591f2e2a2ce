package console

import (
	"fmt"
	"strings"
	"time"

	"github.com/sluice-scheduler/sluice/cmd/sluice/internal/words"
	sluicev1 "github.com/sluice-scheduler/sluice/proto/sluice/v1"
)

const (
	// usageDays is for how many days before today the page of a pool shows what jobs used.
	usageDays = 30
	// ownersShown is of how many owners, as many as the API gives at a time.
	ownersShown = 1000
)

// pools shows the tree of pools, and what each may have.
func pools(v *visit) (*page, error) { return poolTree(v, "") }

func poolTree(v *visit, below string) (*page, error) {
	res, err := v.pools.ListPools(v.ctx, &sluicev1.ListPoolsRequest{Path: below, PageToken: v.request.URL.Query().Get("page")})
	if err != nil {
		return nil, err
	}
	p := &page{Title: "Pools", Parts: poolParts(res.GetPools())}
	p.Parts[len(p.Parts)-1].More = next(v.request.URL, res.GetNextPageToken())
	return p, nil
}

// poolParts lists pools, and what each has of each dimension.
func poolParts(all []*sluicev1.Pool) []part {
	list := tableOf("Pools by path", words.PoolTable(all), links{"PATH": "/pools"}, "There is no pool that you may see: `sluice role grant` lets people see some.")
	amounts := words.Table{Heading: "PATH " + words.PoolAmounts(nil).Heading}
	var dimensions []*sluicev1.PoolDimensionStatus
	for i, p := range all {
		list.Rows[i][2].To = filtered("/jobs", "pool", p.GetSpec().GetPath())
		dimensions = append(dimensions, p.GetDimensions()...)
		for _, row := range words.PoolAmounts(p.GetDimensions()).Rows {
			amounts.Rows = append(amounts.Rows, append([]string{p.GetSpec().GetPath()}, row...))
		}
	}
	parts := []part{{Table: list}}
	if len(amounts.Rows) > 0 {
		parts = append(parts, part{
			Heading: "Amounts",
			Table: withParts(tableOf("What each may have, in the unit of the dimension, which pool's bound binds, and how much of its entitlement is allocated",
				amounts, links{"PATH": "/pools"}, ""), dimensions),
		})
	}
	return parts
}

// withParts adds to amounts of pools, a row for each dimension, which part of the entitlement is allocated; more than all of it is borrowed.
func withParts(t *table, dimensions []*sluicev1.PoolDimensionStatus) *table {
	t.Columns = append(t.Columns, column{Name: "Of entitlement"})
	for i, d := range dimensions {
		t.Rows[i] = append(t.Rows[i], partOf(d.GetAllocation(), d.GetEntitlement()))
	}
	return t
}

// pool shows a pool, what binds it, and the pools below it.
func pool(v *visit) (*page, error) {
	path := v.request.PathValue("path")
	if path == "" {
		return pools(v)
	}
	res, err := v.pools.GetPool(v.ctx, &sluicev1.GetPoolRequest{Path: path})
	if err != nil {
		return nil, err
	}
	below, err := v.pools.ListPools(v.ctx, &sluicev1.ListPoolsRequest{Path: path, PageToken: v.request.URL.Query().Get("page")})
	if err != nil {
		return nil, err
	}
	used, err := usage(v, path)
	if err != nil {
		return nil, err
	}
	got := res.GetPool()
	p := &page{Title: "Pool " + path, Above: []link{{"Pools", "/pools"}}}
	p.Parts = append(p.Parts, part{
		Properties: propertiesOf(words.PoolProperties(got)), More: &link{"Jobs of this pool", filtered("/jobs", "pool", path)},
	}, part{
		More: &link{"Tasks of this pool", filtered("/tasks", "pool", path)},
	})
	if d := got.GetDimensions(); len(d) > 0 {
		var bounds []string
		for _, x := range d {
			if len(x.GetBoundChain()) > 0 {
				bounds = append(bounds, x.GetDimension()+": "+words.Bounds(x.GetBoundChain()))
			}
		}
		p.Parts = append(p.Parts,
			part{Heading: "Amounts", Table: withParts(tableOf("In the unit of the dimension, and how much of the entitlement is allocated", words.PoolAmounts(d), nil, ""), d), Text: strings.Join(bounds, "\n")},
			part{Heading: "Tasks by tier", Table: tableOf(strings.ToUpper(words.PoolTasksCaption[:1])+words.PoolTasksCaption[1:], words.PoolTasks(d), nil, "")},
		)
	}
	p.Parts = append(p.Parts, used)
	var children []*sluicev1.Pool
	for _, x := range below.GetPools() {
		if x.GetSpec().GetPath() != path {
			children = append(children, x)
		}
	}
	if len(children) > 0 {
		parts := poolParts(children)
		parts[0].Heading = "Pools below"
		parts[len(parts)-1].More = next(v.request.URL, below.GetNextPageToken())
		p.Parts = append(p.Parts, parts...)
	}
	return p, nil
}

// usage shows what jobs of each owner had in a pool and those below it.
func usage(v *visit, path string) (part, error) {
	size := uint32(ownersShown)
	res, err := v.pools.ListUsage(v.ctx, &sluicev1.ListUsageRequest{
		Pool: path, FromDay: time.Now().UTC().AddDate(0, 0, -usageDays).Format(time.DateOnly), PageSize: &size,
		GroupBy: []sluicev1.ListUsageRequest_Group{sluicev1.ListUsageRequest_GROUP_OWNER},
	})
	if err != nil {
		return part{}, err
	}
	caption := fmt.Sprintf("Of the last %d days, by owner; lost is CPU of runs that came to nothing", usageDays)
	if res.GetNextPageToken() != "" {
		caption += fmt.Sprintf("; the first %d owners", ownersShown)
	}
	return part{Heading: "Usage", Table: tableOf(caption, words.UsageTable(res.GetEntries(), false, false, true), nil, "Nothing has run here for as long.")}, nil
}
