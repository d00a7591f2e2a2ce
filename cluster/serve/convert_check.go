package serve

import (
	"strings"
	"time"

	"github.com/sluice-scheduler/sluice/cluster"
	sluicev1 "github.com/sluice-scheduler/sluice/proto/sluice/v1"
)

var healthEffects = choice[cluster.HealthEffect, sluicev1.HealthCheck_Effect]{
	{cluster.LivenessAndReadiness, sluicev1.HealthCheck_LIVENESS_AND_READINESS},
	{cluster.Liveness, sluicev1.HealthCheck_LIVENESS},
	{cluster.Readiness, sluicev1.HealthCheck_READINESS},
}

func checksFrom(list []*sluicev1.HealthCheck, path string, v *violations) []cluster.HealthCheck {
	if len(list) > maxChecks {
		v.Invalid(path, "has %d entries: at most %d", len(list), maxChecks)
		return nil
	}
	var all []cluster.HealthCheck
	for i, p := range list {
		all = append(all, checkFrom(p, item(path, i), v))
	}
	return all
}

func checkFrom(p *sluicev1.HealthCheck, path string, v *violations) cluster.HealthCheck {
	c := cluster.HealthCheck{
		Effect:    healthEffects.from(p.GetEffect()),
		Delay:     durationFrom(p.GetInitialDelay(), 0, maxCheckTime, child(path, "initial_delay"), v),
		Interval:  durationOr(p.GetInterval(), defaultInterval, 100*time.Millisecond, maxCheckTime, child(path, "interval"), v),
		Timeout:   durationOr(p.GetTimeout(), defaultTimeout, time.Millisecond, maxCheckTime, child(path, "timeout"), v),
		Failures:  defaultFailures,
		Successes: defaultSuccesses,
	}
	if p.FailureThreshold != nil {
		c.Failures = *p.FailureThreshold
		checkRange(int64(c.Failures), 1, maxThreshold, "in a row", child(path, "failure_threshold"), v)
	}
	if p.SuccessThreshold != nil {
		c.Successes = *p.SuccessThreshold
		checkRange(int64(c.Successes), 1, maxThreshold, "in a row", child(path, "success_threshold"), v)
	}
	switch k := p.GetCheck().(type) {
	case *sluicev1.HealthCheck_Command:
		c.Command = argvFrom(k.Command, child(path, "command.args"), v)
	case *sluicev1.HealthCheck_Http:
		c.HTTP = httpCheckFrom(k.Http, child(path, "http"), v)
	case *sluicev1.HealthCheck_Tcp:
		port := portRefFrom(k.Tcp.GetPort(), child(path, "tcp.port"), v)
		c.TCP = &port
	default:
		v.Invalid(path, "needs something to check: command, http or tcp")
	}
	return c
}

func httpCheckFrom(p *sluicev1.HttpCheck, path string, v *violations) *cluster.HTTPCheck {
	c := &cluster.HTTPCheck{
		Port: portRefFrom(p.GetPort(), child(path, "port"), v),
		Path: p.GetPath(), Scheme: p.GetScheme(),
		Headers: pairsFrom(p.GetHeaders(), func(k, value string) {
			if k == "" || strings.ContainsAny(k, ": \r\n\x00") || strings.ContainsAny(value, "\r\n\x00") {
				v.Invalid(entry(child(path, "headers"), k), "is not a header of HTTP")
			}
		}),
	}
	if c.Path != "" && (c.Path[0] != '/' || strings.ContainsAny(c.Path, " \r\n\x00") || len(c.Path) > maxPath) {
		v.Invalid(child(path, "path"), "is %s: a path that begins with /", quote(c.Path))
	}
	if c.Scheme != "" && c.Scheme != "http" && c.Scheme != "https" {
		v.Invalid(child(path, "scheme"), "is %s: http or https", quote(c.Scheme))
	}
	return c
}

// portRefFrom converts a reference to a port. One that is refused comes out as a fixed number, which needs no asking for: nothing more
// is to be said of it.
func portRefFrom(p *sluicev1.PortRef, path string, v *violations) cluster.PortRef {
	switch k := p.GetKind().(type) {
	case *sluicev1.PortRef_Number:
		checkRange(int64(k.Number), 1, 65535, "", child(path, "number"), v)
		return cluster.PortRef{Number: uint16(min(max(k.Number, 1), 65535))}
	case *sluicev1.PortRef_Name:
		if k.Name != "" {
			return cluster.PortRef{Name: k.Name}
		}
		v.Invalid(child(path, "name"), "is empty: a name of resources.ports.dynamic_names")
	case *sluicev1.PortRef_DynamicIndex:
		if k.DynamicIndex < maxPorts {
			return cluster.PortRef{Index: uint16(k.DynamicIndex)}
		}
		checkRange(int64(k.DynamicIndex), 0, maxPorts-1, "from 0", child(path, "dynamic_index"), v)
	default:
		v.Invalid(path, "is required: a number, a name or a dynamic_index")
	}
	return cluster.PortRef{Number: 1}
}
