package serve

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"path"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/sluice-scheduler/sluice/cluster"
	sluicev1 "github.com/sluice-scheduler/sluice/proto/sluice/v1"
)

// Bounds of secrets.
const (
	maxSecrets     = 32
	maxSecretBytes = 64 << 10
	maxSecretsSize = 256 << 10 // of a job together
	maxSecretPath  = 255
)

// keyBytes is the length of a key: AES-256. A sealed value is longer than the value by its nonce and its tag.
const (
	keyBytes       = 32
	sealedOverhead = 12 + 16
)

// Keyring seals secrets: AES-256 in Galois counter mode, with a random nonce for each and the job's uid and the secret's
// name as associated data, so that a sealed value is good for its place only. New ones are sealed with the first key; the
// others open what was sealed before. Nil has no keys.
type Keyring struct{ keys []sealer }

type sealer struct {
	id string
	cipher.AEAD
	credentials []byte // key that credentials of controllers are made with
	digests     []byte // key that digests of requests with secrets are made with
}

// ParseKeyring reads keys, one on a line: an id, a colon, and 32 bytes in base64. Lines that are empty or begin with "#"
// are skipped.
func ParseKeyring(text string) (*Keyring, error) {
	ring := &Keyring{}
	number := 0
	for line := range strings.Lines(text) {
		number++
		if line = strings.TrimSpace(line); line == "" || line[0] == '#' {
			continue
		}
		id, encoded, ok := strings.Cut(line, ":")
		raw, err := base64.StdEncoding.DecodeString(encoded)
		if !ok || id == "" || err != nil || len(raw) != keyBytes {
			return nil, fmt.Errorf("serve: line %d of the keys is not ID:KEY, with a key of %d bytes in base64: `echo k1:$(head -c %d /dev/urandom | base64)` makes one",
				number, keyBytes, keyBytes)
		}
		if ring.find(id) != nil {
			return nil, fmt.Errorf("serve: line %d of the keys: there are two keys %q", number, id)
		}
		block, err := aes.NewCipher(raw)
		if err != nil {
			return nil, err
		}
		aead, err := cipher.NewGCM(block)
		if err != nil {
			return nil, err
		}
		credentials, err := hkdf.Key(sha256.New, raw, nil, "sluice controller credentials", sha256.Size)
		if err != nil {
			return nil, err
		}
		digests, err := hkdf.Key(sha256.New, raw, nil, "sluice request digests", sha256.Size)
		if err != nil {
			return nil, err
		}
		ring.keys = append(ring.keys, sealer{id, aead, credentials, digests})
	}
	if len(ring.keys) == 0 {
		return nil, errors.New("serve: there is no key: a line ID:KEY")
	}
	return ring, nil
}

func (r *Keyring) find(id string) *sealer {
	if r == nil {
		return nil
	}
	for i := range r.keys {
		if r.keys[i].id == id {
			return &r.keys[i]
		}
	}
	return nil
}

// associated is what a sealed value is bound to.
func associated(job cluster.JobUID, name string) []byte {
	return fmt.Appendf(nil, "sluice/%d/%s", job, name)
}

// seal puts a value into a secret.
func (r *Keyring) seal(job cluster.JobUID, s *cluster.Secret, value []byte) {
	k := &r.keys[0]
	nonce := make([]byte, k.NonceSize())
	_, _ = rand.Read(nonce) // never fails
	s.Key, s.Sealed = k.id, k.Seal(nonce, nonce, value, associated(job, s.Name))
}

// open returns the value of a secret.
func (r *Keyring) open(job cluster.JobUID, s *cluster.Secret) ([]byte, error) {
	k := r.find(s.Key)
	if k == nil {
		return nil, fmt.Errorf("serve: secret %q is sealed with key %q, which is not there: scheduler.secret_key_file has to hold it", s.Name, s.Key)
	}
	if len(s.Sealed) < k.NonceSize() {
		return nil, fmt.Errorf("serve: secret %q is damaged", s.Name)
	}
	value, err := k.Open(nil, s.Sealed[:k.NonceSize()], s.Sealed[k.NonceSize():], associated(job, s.Name))
	if err != nil {
		return nil, fmt.Errorf("serve: secret %q cannot be opened with key %q: it is damaged, or the key is another one", s.Name, s.Key)
	}
	return value, nil
}

// check makes sure that every secret of the jobs can be opened.
func (r *Keyring) check(in *cluster.State) error {
	for j := range in.Jobs(0) {
		for i := range j.Spec.Secrets {
			if _, err := r.open(j.UID, &j.Spec.Secrets[i]); err != nil {
				return fmt.Errorf("job %s: %w", j.Spec.Name, err)
			}
		}
	}
	return nil
}

// files opens the secrets of a job for one of its runs, by the present spec or an earlier one: those that the spec names, where it wants
// them, with the values of now. This is the only place where their values are in the clear again.
func (r *Keyring) files(j *cluster.Job, spec *cluster.JobSpec) ([]*sluicev1.SecretFile, error) {
	var all []*sluicev1.SecretFile
	for i := range spec.Secrets {
		s := secretOf(j.Spec, spec.Secrets[i].Name)
		if s == nil || spec.Secrets[i].Path == "" {
			continue // it was left out since, or then
		}
		value, err := r.open(j.UID, s)
		if err != nil {
			return nil, err
		}
		all = append(all, &sluicev1.SecretFile{Path: spec.Secrets[i].Path, Value: value})
	}
	return all, nil
}

// sealInto seals the values that a request gives for the secrets of spec. A secret without a value keeps the one that it
// has in old; nil: there is none yet. p is what the spec was made from.
func (r *Keyring) sealInto(job cluster.JobUID, spec, old *cluster.JobSpec, p *sluicev1.JobSpec, at string) error {
	var v violations
	total := 0
	for i := range spec.Secrets {
		s := &spec.Secrets[i]
		if value := p.GetSecrets()[i].GetValue(); len(value) > 0 {
			r.seal(job, s, value)
			total += len(s.Sealed) - sealedOverhead
			continue
		}
		was := secretOf(old, s.Name)
		if was == nil {
			v.Invalid(child(item(child(at, "secrets"), i), "value"), "is required: the job has no secret %s whose value it could keep", quote(s.Name))
			continue
		}
		s.Key, s.Sealed = was.Key, was.Sealed
		total += len(s.Sealed) - sealedOverhead
	}
	if total > maxSecretsSize {
		v.Invalid(child(at, "secrets"), "have %d bytes together, with the values that the job keeps: at most %d", total, maxSecretsSize)
	}
	return v.Err()
}

// keepSecrets keeps with the spec that an update brings a job to those secrets that it leaves out and that the present spec has, by which
// there may be runs, or the one which the update may be rolled back to. u is nil if only the number of instances changes: nothing is left
// out then.
func keepSecrets(j *cluster.Job, spec *cluster.JobSpec, u *cluster.Update) {
	for _, s := range j.Spec.Secrets {
		back := u == nil || s.Path != ""
		if !back {
			from := secretOf(j.SpecOf(u.From), s.Name)
			back = from != nil && from.Path != ""
		}
		if back && secretOf(spec, s.Name) == nil {
			s.Path = ""
			spec.Secrets = append(spec.Secrets, s)
		}
	}
}

// sameSecrets reports whether a request gives no value that differs from what the job has.
func (r *Keyring) sameSecrets(j *cluster.Job, p *sluicev1.JobSpec) bool {
	for _, s := range p.GetSecrets() {
		if len(s.GetValue()) == 0 {
			continue
		}
		was := secretOf(j.Spec, s.GetName())
		if was == nil {
			return false
		}
		value, err := r.open(j.UID, was)
		if err != nil || !bytes.Equal(value, s.GetValue()) {
			return false
		}
	}
	return true
}

func secretOf(spec *cluster.JobSpec, name string) *cluster.Secret {
	if spec == nil {
		return nil
	}
	return cluster.SecretOf(spec.Secrets, name)
}

// secretsFrom converts secrets, without their values.
func secretsFrom(list []*sluicev1.Secret, at string, v *violations) []cluster.Secret {
	if len(list) > maxSecrets {
		v.Invalid(at, "has %d entries: at most %d", len(list), maxSecrets)
		return nil
	}
	var all []cluster.Secret
	total := 0
	names, paths := map[string]bool{}, map[string]bool{}
	for i, p := range list {
		where := item(at, i)
		checkName(p.GetName(), child(where, "name"), v)
		if names[p.GetName()] {
			v.Invalid(child(where, "name"), "is %s, as that of another secret: names are unique", quote(p.GetName()))
		}
		names[p.GetName()] = true
		to := p.GetPath()
		checkText(to, child(where, "path"), maxSecretPath, v)
		if to == "" || path.IsAbs(to) || path.Clean(to) != to || to == "." || to == ".." || strings.HasPrefix(to, "../") || strings.ContainsRune(to, 0) {
			v.Invalid(child(where, "path"), "is %s: a path such as db/password, relative to the folder of the secrets", quote(to))
		}
		if to == apiFolder || strings.HasPrefix(to, apiFolder+"/") {
			v.Invalid(child(where, "path"), "is %s, which is kept for what a controller calls the API with", quote(to))
		}
		for other := range paths { // which does not change, whatever the order
			if other == to || strings.HasPrefix(other, to+"/") || strings.HasPrefix(to, other+"/") {
				v.Invalid(child(where, "path"), "is %s, which is that of another secret, or is above or below it", quote(to))
				break
			}
		}
		paths[to] = true
		if total += len(p.GetValue()); len(p.GetValue()) > maxSecretBytes || total > maxSecretsSize {
			v.Invalid(child(where, "value"), "is too long: %d bytes at most, and %d of all secrets of a job", maxSecretBytes, maxSecretsSize)
		}
		all = append(all, cluster.Secret{Name: p.GetName(), Path: to})
	}
	return all
}

// secretsTo is the reverse of secretsFrom. There is no value in it, as there never is.
func secretsTo(list []cluster.Secret) []*sluicev1.Secret {
	var all []*sluicev1.Secret
	for i := range list {
		if list[i].Path != "" {
			all = append(all, &sluicev1.Secret{Name: list[i].Name, Path: list[i].Path})
		}
	}
	return all
}

// checkSecrets refuses secrets, and credentials, where there is no key for them.
func (a *api) checkSecrets(spec *sluicev1.JobSpec, at string, v *violations) {
	if len(spec.GetSecrets()) > 0 && a.s.config.Secrets == nil {
		v.Unsupported(child(at, "secrets"), "this server has no key to keep secrets with: scheduler.secret_key_file gives it one")
	}
	if spec.GetController().GetApiAccess() && a.s.config.Secrets == nil && a.s.identified() {
		v.Unsupported(child(at, "controller.api_access"), "this server has no key to make credentials with: scheduler.secret_key_file gives it one")
	}
}

// reseal seals every secret with the first key that is not sealed with it yet, so that the other keys can go, and returns
// how many there were.
func (a *clusterService) reseal(tx *Tx) (count int, err error) {
	ring := a.s.config.Secrets
	if ring == nil {
		return 0, status.Error(codes.FailedPrecondition, "this server has no key to keep secrets with: scheduler.secret_key_file gives it one")
	}
	var events []cluster.Event
	for j := range tx.State().Jobs(0) {
		var fresh []cluster.Secret
		stale := false
		for _, s := range j.Spec.Secrets {
			if s.Key != ring.keys[0].id {
				value, err := ring.open(j.UID, &s)
				if err != nil {
					return 0, err
				}
				ring.seal(j.UID, &s, value)
				stale = true
				count++
			}
			fresh = append(fresh, s)
		}
		if stale {
			events = append(events, &cluster.SecretsResealed{Job: j.UID, Secrets: fresh})
		}
	}
	for _, e := range events {
		if err := tx.Emit(e); err != nil {
			return 0, err
		}
	}
	return count, nil
}
