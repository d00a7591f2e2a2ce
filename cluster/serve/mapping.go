package serve

import (
	"context"
	"strings"

	"google.golang.org/grpc/codes"

	"github.com/sluice-scheduler/sluice/cluster"
	sluicev1 "github.com/sluice-scheduler/sluice/proto/sluice/v1"
)

const maxMappingRules = 1000

// GetQueueMapping implements sluicev1.PoolServiceServer.
func (a *poolService) GetQueueMapping(context.Context, *sluicev1.GetQueueMappingRequest) (*sluicev1.GetQueueMappingResponse, error) {
	return &sluicev1.GetQueueMappingResponse{Mapping: mappingTo(a.s.Snapshot().Mapping())}, nil
}

// SetQueueMapping implements sluicev1.PoolServiceServer. Jobs that were submitted before stay where they are.
func (a *poolService) SetQueueMapping(ctx context.Context, r *sluicev1.SetQueueMappingRequest) (*sluicev1.SetQueueMappingResponse, error) {
	rules := mappingFrom(r.Mapping, "mapping", new(violations))
	var set *sluicev1.QueueMapping
	err := a.do(ctx, func(tx *Tx) error {
		var version uint64
		if old := tx.State().Mapping(); old != nil {
			version = old.Version
		}
		if version != r.GetMapping().GetVersion() {
			return fieldError(codes.Aborted, "mapping.version", "is %d: the mapping has version %d: get it and decide anew",
				r.GetMapping().GetVersion(), version)
		}
		if err := tx.Emit(&cluster.QueueMappingSet{Rules: rules}); err != nil {
			return err
		}
		set = mappingTo(tx.State().Mapping())
		return nil
	})
	if err != nil {
		return nil, err
	}
	return &sluicev1.SetQueueMappingResponse{Mapping: set}, nil
}

// mappingFrom converts the rules. Pools need not exist yet: what a rule leads to is looked up when a job matches.
func mappingFrom(p *sluicev1.QueueMapping, path string, v *violations) []cluster.QueueRule {
	if p == nil {
		v.Invalid(path, "is required")
		return nil
	}
	if len(p.Rules) > maxMappingRules {
		v.Invalid(child(path, "rules"), "has %d entries: at most %d", len(p.Rules), maxMappingRules)
		return nil
	}
	var rules []cluster.QueueRule
	for i, r := range p.Rules {
		at := item(child(path, "rules"), i)
		checkText(r.User, child(at, "user"), maxOwner, v)
		checkText(r.Group, child(at, "group"), maxOwner, v)
		rule := cluster.QueueRule{User: r.User, Group: r.Group, Labels: labelsFrom(r.Labels, child(at, "labels"), v)}
		switch target := r.Target.(type) {
		case *sluicev1.QueueMappingRule_Pool:
			rule.Pool = target.Pool
			// Any name that a pool can have shows whether the path around the templates is good.
			checkPoolPath(strings.NewReplacer("{user}", "x", "{group}", "x").Replace(target.Pool), child(at, "pool"), v)
		case *sluicev1.QueueMappingRule_Reject:
			if rule.Reject = target.Reject; !target.Reject {
				v.Invalid(child(at, "reject"), "is false: true, or name a pool")
			}
		default:
			v.Invalid(at, "leads nowhere: name a pool, or set reject")
		}
		rules = append(rules, rule)
	}
	return rules
}

// mappingTo is the reverse of mappingFrom; a mapping that was never set has no rules and version 0.
func mappingTo(m *cluster.QueueMapping) *sluicev1.QueueMapping {
	p := &sluicev1.QueueMapping{}
	if m == nil {
		return p
	}
	p.Version = m.Version
	for _, r := range m.Rules {
		rule := &sluicev1.QueueMappingRule{User: r.User, Group: r.Group, Labels: pairsTo(r.Labels)}
		if r.Reject {
			rule.Target = &sluicev1.QueueMappingRule_Reject{Reject: true}
		} else {
			rule.Target = &sluicev1.QueueMappingRule_Pool{Pool: r.Pool}
		}
		p.Rules = append(p.Rules, rule)
	}
	return p
}

// mapped returns the pool of a job that names none: what the queue mapping says if it has rules, else the default pool. It
// reports if there is none, and then returns "".
func mapped(in poolTable, spec *cluster.JobSpec, path string, v *violations) cluster.PoolPath {
	m := in.Mapping()
	if m == nil || len(m.Rules) == 0 {
		switch {
		case in.Pool(cluster.DefaultPool) == nil:
			v.Invalid(path, "is required: there is no pool %q to go to without", cluster.DefaultPool)
		case !in.IsLeaf(cluster.DefaultPool):
			v.Invalid(path, "is required: pool %q, to go to without, has pools below it", cluster.DefaultPool)
		default:
			return cluster.DefaultPool
		}
		return ""
	}
	switch pool, rule := m.Pool(spec); {
	case rule < 0:
		v.Invalid(path, "is required: no rule of the queue mapping matches the job")
	case m.Rules[rule].Reject:
		v.Invalid(path, "is required: rule %d of the queue mapping refuses the job", rule)
	case pool == "":
		v.Invalid(path, "is required: rule %d of the queue mapping leads to %s, and the job has no such name", rule, quote(m.Rules[rule].Pool))
	default:
		return pool
	}
	return ""
}

// poolTable is what is needed of a State or a Snapshot to find a pool.
type poolTable interface {
	Pool(cluster.PoolPath) *cluster.Pool
	IsLeaf(cluster.PoolPath) bool
	Mapping() *cluster.QueueMapping
}

// resolvePool finds the pool of a job: the one that its spec names, or the one that it is mapped to. It reports if there is
// none that takes the job.
func resolvePool(in poolTable, spec *cluster.JobSpec, path string, v *violations) cluster.PoolPath {
	named := spec.Pool
	if named == "" {
		if named = mapped(in, spec, path, v); named == "" {
			return ""
		}
	}
	is := quote(string(named))
	if m := in.Mapping(); spec.Pool == "" && m != nil && len(m.Rules) > 0 {
		is += " by the queue mapping"
	}
	switch {
	case in.Pool(named) == nil:
		v.Invalid(path, "is %s: there is no such pool", is)
	case !in.IsLeaf(named):
		v.Invalid(path, "is %s: it has pools below it, and jobs go to the lowest ones only", is)
	case draining(in, named) != nil:
		v.Premature(path, "is %s: %s is draining and takes no new jobs", is, quote(string(draining(in, named).Path)))
	}
	return named
}
