package models

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/sluice-scheduler/sluice/cluster"
	"github.com/sluice-scheduler/sluice/costmodels"
	"github.com/sluice-scheduler/sluice/costmodels/compose"
)

func parsePolicy(text string) (costmodels.Model, error) {
	pieces, err := costmodels.Cut(text, ';')
	if err != nil {
		return nil, err
	}
	base, err := parseSum(pieces[0])
	if err != nil {
		return nil, err
	}
	var bindings []compose.Binding
	seen := map[string]bool{}
	for _, piece := range pieces[1:] {
		target, sum, ok := strings.Cut(piece, "=")
		if !ok {
			return nil, fmt.Errorf("%q binds nothing: write POOL = MODEL or TYPE = MODEL", piece)
		}
		b, err := parseTarget(strings.TrimSpace(target))
		if err != nil {
			return nil, err
		}
		if b.Model, err = parseSum(sum); err != nil {
			return nil, err
		}
		key := fmt.Sprint(b.Pool, b.Typed, b.Type)
		if seen[key] {
			return nil, fmt.Errorf("%q is bound twice", strings.TrimSpace(target))
		}
		seen[key] = true
		bindings = append(bindings, b)
	}
	if len(bindings) == 0 {
		return base, nil
	}
	return compose.NewChoice(base, bindings), nil
}

// parseTarget reads a pool, a type of job, or both.
func parseTarget(text string) (compose.Binding, error) {
	var b compose.Binding
	pool, kind, both := strings.Cut(text, ":")
	if !both && pool != string(cluster.RootPool) && !strings.HasPrefix(pool, string(cluster.RootPool)+"/") {
		pool, kind = "", pool
	}
	b.Pool = cluster.PoolPath(pool)
	noName := func(part string) bool { return part == "" || strings.ContainsAny(part, " \t") }
	sound := pool == "" || !slices.ContainsFunc(strings.Split(pool, "/"), noName)
	if sound && kind == "" && !both {
		return b, nil
	}
	var all []string
	for t := cluster.Batch; t <= cluster.Daemon; t++ {
		word := strings.ToLower(t.String())
		if sound && word == kind {
			b.Type, b.Typed = t, true
			return b, nil
		}
		all = append(all, word)
	}
	return b, fmt.Errorf("%q is no pool (such as root/batch) and no type of job: %s", text, strings.Join(all, ", "))
}

func parseSum(text string) (costmodels.Model, error) {
	pieces, err := costmodels.Cut(text, '+')
	if err != nil {
		return nil, err
	}
	var sum compose.Sum
	for _, piece := range pieces {
		part, err := parsePart(piece)
		if err != nil {
			return nil, err
		}
		sum = append(sum, part)
	}
	if len(sum) == 1 && sum[0].Weight == compose.One {
		return sum[0].Model, nil
	}
	return sum, nil
}

func parsePart(text string) (compose.Part, error) {
	part := compose.Part{Weight: compose.One}
	name, settings, has := strings.Cut(text, "(")
	if weight, rest, ok := strings.Cut(strings.TrimSpace(name), " "); ok {
		w, err := parseWeight(weight)
		if err != nil {
			return part, err
		}
		part.Weight, name = w, rest
	}
	name = strings.TrimSpace(name)
	if name == "" {
		return part, errors.New("a cost model is missing: there are " + strings.Join(Names(), ", "))
	}
	model, err := named(name)
	if err != nil || !has {
		part.Model = model
		return part, err
	}
	inside, after, _ := strings.Cut(settings, ")")
	if strings.TrimSpace(after) != "" {
		return part, fmt.Errorf("%q: nothing may follow the settings of %s but + or ;", strings.TrimSpace(after), name)
	}
	if part.Model, err = configure(model, inside); err != nil {
		return part, fmt.Errorf("%s: %w", name, err)
	}
	return part, nil
}

// parseWeight reads a decimal number with up to three digits after the point, in thousandths.
func parseWeight(text string) (int64, error) {
	whole, part, point := strings.Cut(text, ".")
	w, err := strconv.ParseUint(whole+(part + "000")[:3], 10, 32)
	if err != nil || len(part) > 3 || point && part == "" || whole == "" || w == 0 || w > compose.MaxWeight {
		return 0, fmt.Errorf("%q is no weight: want a number from 0.001 to %d, such as 0.5", text, compose.MaxWeight/compose.One)
	}
	return int64(w), nil
}
