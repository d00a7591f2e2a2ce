package serve

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"google.golang.org/grpc/codes"

	"github.com/sluice-scheduler/sluice/cluster"
	"github.com/sluice-scheduler/sluice/cluster/access"
	"github.com/sluice-scheduler/sluice/cluster/cycle"
	"github.com/sluice-scheduler/sluice/costmodels"
	sluicev1 "github.com/sluice-scheduler/sluice/proto/sluice/v1"
)

// CostModels are the cost models that can be set at run time. The zero value has none.
type CostModels struct {
	Configured string // in use until something else is set, as the configuration spells it
	Names      []string
	// New returns the model that a policy describes, as the configuration spells it.
	New func(policy string) (costmodels.Model, error)
}

// Merge returns the policy that holds when what was set at run time goes before what is configured.
func (m *CostModels) Merge(set *cluster.CostPolicy) string {
	pieces := cut(m.Configured, ';')
	for _, b := range set.Bindings {
		target := targetOf(b)
		if target == "" {
			pieces[0] = b.Model
			continue
		}
		pieces = slices.DeleteFunc(pieces, func(p string) bool {
			before, _, bound := strings.Cut(p, "=")
			return bound && strings.TrimSpace(before) == target && !strings.Contains(before, "(")
		})
		pieces = append(pieces, target+" = "+b.Model)
	}
	return strings.Join(pieces, "; ")
}

// cut cuts a policy that is in use, and so was parsed.
func cut(policy string, separator byte) []string {
	pieces, err := costmodels.Cut(policy, separator)
	if err != nil {
		return []string{policy}
	}
	return pieces
}

func targetOf(b cluster.CostBinding) string {
	switch {
	case b.Pool == "":
		return b.Type
	case b.Type == "":
		return string(b.Pool)
	default:
		return string(b.Pool) + ":" + b.Type
	}
}

// policy returns what the planner plans by after something was set.
func (m *CostModels) policy(set *cluster.CostPolicy) (*cycle.Policy, error) {
	model, err := m.New(m.Merge(set))
	if err != nil {
		return nil, err
	}
	p := &cycle.Policy{Model: model, ShadowEvery: int(set.ShadowEvery)}
	if set.Shadow != "" {
		if p.Shadow, err = m.New(set.Shadow); err != nil {
			return nil, err
		}
	}
	return p, nil
}

// costPolicy remembers what the planner was last told to plan by.
type costPolicy struct {
	s      *Scheduler
	set    *cluster.CostPolicy
	policy *cycle.Policy
}

// of returns what to plan by, nil for what is configured. What this release cannot read, since another one wrote it, is
// left out and logged.
func (p *costPolicy) of(snapshot *cluster.Snapshot) *cycle.Policy {
	if set := snapshot.CostPolicy(); set != p.set {
		p.set = set
		policy, err := p.s.config.Costs.policy(set)
		if err != nil {
			p.s.log.Error("the cost model that was set cannot be used; planning goes on as before", "error", err)
			return p.policy
		}
		p.policy = policy
	}
	return p.policy
}

// GetCostModels implements sluicev1.ClusterServiceServer.
func (a *clusterService) GetCostModels(ctx context.Context, _ *sluicev1.GetCostModelsRequest) (*sluicev1.GetCostModelsResponse, error) {
	last, _ := a.s.LastCycle()
	in, who := a.s.Snapshot(), callOf(ctx).who
	answer := &sluicev1.GetCostModelsResponse{
		Available: a.s.config.Costs.Names, Bindings: a.bindings(in.CostPolicy()), Fault: last.Stats.Fault,
	}
	answer.Bindings = slices.DeleteFunc(answer.Bindings, func(b *sluicev1.CostModelBinding) bool { return hidden(in, who, cluster.PoolPath(b.Pool)) })
	if answer.Fault != "" {
		answer.Planning = last.Stats.Model
	}
	return answer, nil
}

// costBindings returns what was set at run time for a pool.
func costBindings(in *cluster.State, path cluster.PoolPath) (of []cluster.CostBinding) {
	if set := in.CostPolicy(); set != nil {
		for _, b := range set.Bindings {
			if b.Pool == path {
				of = append(of, b)
			}
		}
	}
	return of
}

// SetCostModel implements sluicev1.ClusterServiceServer. A binding without models is taken back; its pool need not exist any more.
func (a *clusterService) SetCostModel(ctx context.Context, r *sluicev1.SetCostModelRequest) (*sluicev1.SetCostModelResponse, error) {
	var v violations
	e := a.s.config.Costs.from(r.Binding, &v)
	if err := v.Err(); err != nil {
		return nil, err
	}
	var set *cluster.CostPolicy
	err := a.do(ctx, func(tx *Tx) error {
		if e.Binding.Model != "" && e.Binding.Pool != "" && tx.State().Pool(e.Binding.Pool) == nil {
			return fieldError(codes.NotFound, "binding.pool", "is %s: there is no such pool", quote(string(e.Binding.Pool)))
		}
		trial := tx.State().Fork()
		if err := trial.Apply(cluster.Record{Seq: trial.Seq() + 1, Event: e}); err != nil {
			return err
		}
		if _, err := a.s.config.Costs.policy(trial.CostPolicy()); err != nil {
			return fieldError(codes.InvalidArgument, "binding", "cannot be used: %v", err)
		}
		if err := tx.Emit(e); err != nil {
			return err
		}
		set = tx.State().CostPolicy()
		return nil
	})
	if err != nil {
		return nil, err
	}
	return &sluicev1.SetCostModelResponse{Bindings: a.bindings(set)}, nil
}

// maxModels bounds the models of one sum: each of them is asked for every price.
const maxModels = 64

func (m *CostModels) from(b *sluicev1.CostModelBinding, v *violations) *cluster.CostModelSet {
	e := &cluster.CostModelSet{
		Binding: cluster.CostBinding{Pool: cluster.PoolPath(b.GetPool()), Type: b.GetJobType()},
		Shadow:  b.GetShadow(), ShadowEvery: b.GetShadowEvery(),
	}
	if b == nil {
		v.Invalid("binding", "is required")
	}
	if e.Binding.Pool != "" {
		checkPoolPath(b.GetPool(), "binding.pool", v)
	}
	if t := e.Binding.Type; t != "" && !isJobType(t) {
		v.Invalid("binding.job_type", "is %s: batch, stateless, stateful or daemon", quote(t))
	}
	whole := e.Binding.Pool == "" && e.Binding.Type == ""
	switch {
	case !whole && (e.Shadow != "" || e.ShadowEvery != 0):
		v.Invalid("binding.shadow", "belongs to the whole cluster: leave pool and job_type out")
	case e.Shadow != "" && e.ShadowEvery == 0:
		v.Invalid("binding.shadow_every", "is missing: the number of cycles between two plans of the shadow")
	case e.Shadow == "" && e.ShadowEvery != 0:
		v.Invalid("binding.shadow", "is missing: the model that plans every %d cycles", e.ShadowEvery)
	}
	if e.Shadow != "" {
		if _, err := m.New(e.Shadow); err != nil {
			v.Invalid("binding.shadow", "cannot be used: %v", err)
		}
	}
	if n := len(b.GetModels()); n > maxModels {
		v.Invalid("binding.models", "has %d entries: at most %d", n, maxModels)
		return e
	}
	var sum []string
	for i, one := range b.GetModels() {
		at := item("binding.models", i)
		if !oneModel(one.GetName()) {
			v.Invalid(child(at, "name"), "is %s: one model, such as sjf(ageing=10)", quote(one.GetName()))
		} else if _, err := m.New(one.GetName()); err != nil {
			v.Invalid(child(at, "name"), "cannot be used: %v", err)
		}
		w := one.GetWeightMilli()
		if w < 0 || w > 1_000_000 {
			v.Invalid(child(at, "weight_milli"), "is %d: 1 to 1000000; 1000 is the model's own price", w)
		}
		if w == 0 || w == 1000 {
			sum = append(sum, one.GetName())
		} else {
			sum = append(sum, strconv.FormatFloat(float64(w)/1000, 'f', -1, 64)+" "+one.GetName())
		}
	}
	e.Binding.Model = strings.Join(sum, " + ")
	return e
}

func isJobType(name string) bool {
	for _, t := range jobTypes {
		if strings.ToLower(t.domain.String()) == name {
			return true
		}
	}
	return false
}

// oneModel reports whether a name is that of one model, with or without settings, and without a weight.
func oneModel(name string) bool {
	bare, _, _ := strings.Cut(name, "(")
	if strings.ContainsAny(strings.TrimSpace(bare), " =") {
		return false
	}
	for _, separator := range []byte(";+") {
		if pieces, err := costmodels.Cut(name, separator); err != nil || len(pieces) > 1 {
			return false
		}
	}
	return name != ""
}

// bindings describes the policy in use. What stands in one place of the policy is one model of weight 1000, as it is spelled.
func (a *clusterService) bindings(set *cluster.CostPolicy) []*sluicev1.CostModelBinding {
	if set == nil {
		set = &cluster.CostPolicy{}
	}
	var all []*sluicev1.CostModelBinding
	for i, piece := range cut(a.s.config.Costs.Merge(set), ';') {
		b := &sluicev1.CostModelBinding{}
		if i == 0 {
			b.Shadow, b.ShadowEvery = set.Shadow, set.ShadowEvery
		} else {
			b.Pool, b.JobType, piece = boundTo(piece)
		}
		for _, one := range cut(piece, '+') {
			b.Models = append(b.Models, weighted(one))
		}
		all = append(all, b)
	}
	return all
}

// boundTo splits "root/a:batch = sjf".
func boundTo(piece string) (pool, kind, models string) {
	target, models, _ := strings.Cut(piece, "=")
	target = strings.TrimSpace(target)
	if pool, kind, both := strings.Cut(target, ":"); both || strings.HasPrefix(pool, string(cluster.RootPool)) {
		return pool, kind, models
	}
	return "", target, models
}

// weighted splits "0.5 sjf(ageing=10)".
func weighted(text string) *sluicev1.WeightedCostModel {
	m := &sluicev1.WeightedCostModel{Name: text, WeightMilli: 1000}
	if weight, name, ok := strings.Cut(text, " "); ok {
		if w, err := strconv.ParseFloat(weight, 64); err == nil {
			m.Name, m.WeightMilli = strings.TrimSpace(name), int64(w*1000+0.5)
		}
	}
	return m
}

// costModelText names the policy in use, as far as it is not for pools that are hidden from the caller.
func (a *api) costModelText(s *cluster.Snapshot, who *access.Caller) string {
	set := s.CostPolicy()
	text := a.about.CostModel
	if set != nil {
		text = a.s.config.Costs.Merge(set)
	}
	pieces := cut(text, ';')
	all := len(pieces)
	pieces = append(pieces[:1], slices.DeleteFunc(pieces[1:], func(piece string) bool {
		pool, _, _ := boundTo(piece)
		return hidden(s, who, cluster.PoolPath(pool))
	})...)
	if len(pieces) < all {
		text = strings.Join(pieces, "; ")
	}
	if set != nil && set.Shadow != "" {
		text += fmt.Sprintf(" (shadow: %s, every %d cycles)", set.Shadow, set.ShadowEvery)
	}
	return text
}

// hidden reports whether there is such a pool, and not for the caller.
func hidden(in *cluster.Snapshot, who *access.Caller, path cluster.PoolPath) bool {
	return in.Pool(path) != nil && !knowsPool(in, who, path)
}
