package cluster

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/tidwall/btree"
)

// A receipt is kept for a day by the times of events, whatever becomes of the jobs. The bounds are for the memory and the
// checkpoints of a cluster that is asked for more than that: some 25 MB, and 20 MB of jobs in large requests. A cluster that
// is asked for something once a second stays below the first all day. Beyond them the oldest go sooner: a repetition follows
// within minutes as a rule, and to refuse new work for the sake of old receipts would be worse.
const (
	ReceiptLife    = 24 * time.Hour
	MaxReceipts    = 100_000
	MaxReceiptJobs = 1_000_000 // in all receipts together
)

// RequestKey is an idempotency key and who asks under it: the keys of two callers have nothing to do with each other.
type RequestKey struct {
	User string `cbor:",omitempty"` // "" where nobody is asked who he is
	Job  JobUID `cbor:",omitempty"` // all that the caller's token is good for; 0: no such bound
	Key  string
}

// id returns a text that no other key has.
func (k RequestKey) id() string { return strconv.Quote(k.User) + " " + k.Job.String() + " " + k.Key }

// Receipt says that a request was carried out, and what the answer was, so that the same request under the same key gets it
// again and another one is refused. Immutable.
type Receipt struct {
	For RequestKey
	// Digest is of the request. None: it was carried out before there were receipts, and is known by its jobs only.
	Digest  []byte      `cbor:",omitempty"`
	Keyring string      `cbor:",omitempty"` // id of the key that the digest was made with, as that of secrets is; "": with none
	At      Time        // when it was answered
	Jobs    []JobAnswer // in the order of the request
}

// JobAnswer is what was answered of a job.
type JobAnswer struct {
	UID      JobUID
	Version  uint64
	Revision uint64
	Created  bool `cbor:",omitempty"` // by this request
}

// age orders receipts by their time.
func (r *Receipt) age() string { return fmt.Sprintf("%020d %s", r.At, r.For.id()) }

// receiptTable holds the receipts by RequestKey.id and by age.
type receiptTable struct {
	byKey, byAge *btree.Map[string, *Receipt]
	jobs         int // in all of them
}

func newReceiptTable() receiptTable {
	return receiptTable{byKey: btree.NewMap[string, *Receipt](degree), byAge: btree.NewMap[string, *Receipt](degree)}
}

func (t *receiptTable) copy() receiptTable {
	return receiptTable{byKey: t.byKey.Copy(), byAge: t.byAge.Copy(), jobs: t.jobs}
}

// set adds a receipt in the place of one for the same key.
func (t *receiptTable) set(r *Receipt) {
	if old := find(t.byKey, r.For.id()); old != nil {
		t.remove(old)
	}
	t.byKey.Set(r.For.id(), r)
	t.byAge.Set(r.age(), r)
	t.jobs += len(r.Jobs)
}

func (t *receiptTable) remove(r *Receipt) {
	t.byKey.Delete(r.For.id())
	t.byAge.Delete(r.age())
	t.jobs -= len(r.Jobs)
}

// Receipt returns what was answered under a key, nil if nothing was, the receipt was dropped or it is a day old by now. One
// without a digest has no age.
func (t *tables) Receipt(k RequestKey, now Time) *Receipt {
	r := find(t.receipts.byKey, k.id())
	if r != nil && r.Digest != nil && now.Sub(r.At) >= ReceiptLife {
		return nil // it is dropped with the next one that comes
	}
	return r
}

// keepReceipt adds a receipt and drops those that are a day old or too many. Complexity: O(log receipts) for each.
func (s *State) keepReceipt(at Time, r Receipt) error {
	if r.For.Key == "" || len(r.Digest) == 0 || len(r.Jobs) == 0 {
		return errors.New("a receipt lacks its key, its digest or its jobs")
	}
	if old := s.Receipt(r.For, at); old != nil && old.Digest != nil {
		return fmt.Errorf("there is a receipt for key %q", r.For.Key)
	}
	r.At = at
	t := &s.receipts
	t.set(&r)
	for _, oldest, ok := t.byAge.Min(); ok; _, oldest, ok = t.byAge.Min() {
		if at.Sub(oldest.At) < ReceiptLife && t.byKey.Len() <= MaxReceipts && t.jobs <= MaxReceiptJobs {
			break
		}
		t.remove(oldest)
	}
	return nil
}

// adoptKey makes a receipt for the key that a job had itself before there were receipts. Who asked is not known: as a rule
// its owner. The jobs of one request came at the same time.
func (s *State) adoptKey(j *Job, key string) {
	if key == "" {
		return
	}
	r := Receipt{For: RequestKey{User: j.Spec.Owner, Key: key}, At: j.Submitted}
	if old := s.Receipt(r.For, j.Submitted); old != nil && old.At == j.Submitted {
		r.Jobs = slices.Clone(old.Jobs)
	}
	r.Jobs = append(r.Jobs, JobAnswer{UID: j.UID, Version: 1, Revision: j.Revision, Created: true})
	s.receipts.set(&r)
}
