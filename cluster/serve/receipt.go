package serve

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"slices"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	"github.com/sluice-scheduler/sluice/cluster"
	sluicev1 "github.com/sluice-scheduler/sluice/proto/sluice/v1"
)

// keyedRequest is what may be repeated under an idempotency key.
type keyedRequest interface {
	proto.Message
	GetIdempotencyKey() string
}

// keyed is what a call is known by when it is repeated.
type keyed struct {
	key     cluster.RequestKey // no Key: it came under none
	content []byte
	secret  bool             // there are values of secrets in content
	receipt *cluster.Receipt // of the same request, where one was found
}

// note takes down what came under a key, as the client sent it: the groups that adopt fills in may be others at the next
// time. A request that would change nothing needs no key.
func (c *call) note(message proto.Message) error {
	r, ok := message.(keyedRequest)
	update, _ := message.(*sluicev1.UpdateJobRequest)
	if !ok || r.GetIdempotencyKey() == "" || tries(message) {
		return nil
	}
	content, err := proto.MarshalOptions{Deterministic: true}.MarshalAppend([]byte(r.ProtoReflect().Descriptor().FullName()+"\n"), r)
	if err != nil {
		return err
	}
	specs := slices.Concat(specsOf(message), []*sluicev1.JobSpec{update.GetSpec()})
	c.keyed = keyed{
		key:     cluster.RequestKey{User: c.who.User, Job: c.who.Job, Key: r.GetIdempotencyKey()},
		content: content,
		secret: slices.ContainsFunc(specs, func(p *sluicev1.JobSpec) bool {
			return slices.ContainsFunc(p.GetSecrets(), func(s *sluicev1.Secret) bool { return len(s.GetValue()) > 0 })
		}),
	}
	return nil
}

// digest names content. Where there are secrets in it, it is made with a key of the ring: whoever reads the journal could try
// values otherwise. Nil: the ring does not have the key.
func (r *Keyring) digest(id string, content []byte) []byte {
	if id == "" {
		sum := sha256.Sum256(content)
		return sum[:]
	}
	k := r.find(id)
	if k == nil {
		return nil
	}
	mac := hmac.New(sha256.New, k.digests)
	_, _ = mac.Write(content) // never fails
	return mac.Sum(nil)
}

// find looks for the receipt of the same request, and refuses the key of another one.
func (k *keyed) find(in reading, ring *Keyring, now cluster.Time) error {
	r := in.Receipt(k.key, now)
	if k.key.Key == "" || k.receipt != nil || r == nil || r.Digest == nil {
		return nil
	}
	digest := ring.digest(r.Keyring, k.content)
	switch {
	case digest == nil:
		return fieldError(codes.AlreadyExists, "idempotency_key",
			"is %s: it was used for a request that cannot be compared without the key %s of scheduler.secret_key_file: choose another one",
			quote(k.key.Key), quote(r.Keyring))
	case !hmac.Equal(digest, r.Digest):
		return keyConflict(k.key.Key)
	}
	k.receipt = r
	return nil
}

func keyConflict(key string) error {
	return fieldError(codes.AlreadyExists, "idempotency_key", "is %s: it was used for another request: choose another one", quote(key))
}

// once runs a change in the writer, which returns what to answer of its jobs. Where the same request was answered before, it
// changes nothing and returns that answer, and again is true. What it returns is durable together with the change.
func (a *api) once(ctx context.Context, change func(*Tx) ([]cluster.JobAnswer, error)) (_ []cluster.JobAnswer, again bool, _ error) {
	k, ring := &callOf(ctx).keyed, a.s.config.Secrets
	if k.receipt != nil {
		return k.receipt.Jobs, true, nil
	}
	var jobs []cluster.JobAnswer
	found := false
	err := a.do(ctx, func(tx *Tx) (err error) {
		if err := k.find(tx.State(), ring, tx.Now()); err != nil {
			return err
		}
		if k.receipt != nil {
			jobs, found = k.receipt.Jobs, true
			return nil
		}
		if jobs, err = change(tx); err != nil || k.key.Key == "" {
			return err
		}
		r := cluster.Receipt{For: k.key, Jobs: jobs}
		if k.secret {
			r.Keyring = ring.keys[0].id
		}
		r.Digest = ring.digest(r.Keyring, k.content)
		return tx.Emit(&cluster.RequestAnswered{Receipt: r})
	})
	if err != nil { // the call may have ended before the change, which sets the answer still
		return nil, false, err
	}
	return jobs, found, nil
}
