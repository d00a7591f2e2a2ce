package serve

import (
	"context"

	"github.com/sluice-scheduler/sluice/cluster"
	sluicev1 "github.com/sluice-scheduler/sluice/proto/sluice/v1"
)

// SetMode implements sluicev1.ClusterServiceServer.
func (a *clusterService) SetMode(ctx context.Context, r *sluicev1.SetModeRequest) (*sluicev1.SetModeResponse, error) {
	mode := modeFrom(r.Mode)
	err := a.do(ctx, func(tx *Tx) error {
		mode.Restored = tx.State().Mode().Restored
		if tx.State().Mode() == mode {
			return nil
		}
		return tx.Emit(&cluster.ModeSet{Mode: mode})
	})
	if err != nil {
		return nil, err
	}
	return &sluicev1.SetModeResponse{Mode: modeTo(mode)}, nil
}

func modeFrom(p *sluicev1.ClusterMode) cluster.Mode {
	return cluster.Mode{ReadOnly: p.GetReadOnly(), SchedulingStopped: p.GetSchedulingStopped(), KillingStopped: p.GetKillingStopped()}
}

func modeTo(m cluster.Mode) *sluicev1.ClusterMode {
	return &sluicev1.ClusterMode{ReadOnly: m.ReadOnly, SchedulingStopped: m.SchedulingStopped, KillingStopped: m.KillingStopped}
}
