package serve

import (
	"context"

	sluicev1 "github.com/sluice-scheduler/sluice/proto/sluice/v1"
)

// RotateKey implements sluicev1.ClusterServiceServer.
func (a *clusterService) RotateKey(ctx context.Context, _ *sluicev1.RotateKeyRequest) (*sluicev1.RotateKeyResponse, error) {
	answer := &sluicev1.RotateKeyResponse{}
	err := a.do(ctx, func(tx *Tx) error {
		count, err := a.reseal(tx)
		answer.Secrets = uint32(count)
		return err
	})
	if err != nil {
		return nil, err
	}
	answer.Key = a.s.config.Secrets.keys[0].id
	return answer, nil
}
