package cluster

import (
	"fmt"
	"slices"
)

// Secret is a value that a job's tasks find in a file. The State never holds the value itself.
type Secret struct {
	Name   string
	Path   string // of the file, below the folder that VarSecretsDir names; "": kept for a spec that may come back, and delivered to nobody
	Key    string // id of the key that it is sealed with
	Sealed []byte
}

// VarSecretsDir names the folder with the secrets of a task, where its host manager can tell.
const VarSecretsDir = "SLUICE_SECRETS_DIR"

// resealSecrets replaces the sealed values of a job's secrets, name by name.
func (s *State) resealSecrets(e *SecretsResealed) error {
	old := s.Job(e.Job)
	if old == nil || len(old.Spec.Secrets) != len(e.Secrets) || !sealed(e.Secrets) {
		return fmt.Errorf("job %d has other secrets", e.Job)
	}
	spec := *old.Spec
	for i := range e.Secrets {
		if e.Secrets[i].Name != spec.Secrets[i].Name || e.Secrets[i].Path != spec.Secrets[i].Path {
			return fmt.Errorf("job %d has other secrets", e.Job)
		}
	}
	spec.Secrets = e.Secrets
	j := *old
	j.Spec = &spec
	s.jobs.Set(uint64(j.UID), &j)
	s.changes.Jobs = append(s.changes.Jobs, j.UID)
	return nil
}

// SecretOf returns the secret of that name, nil if there is none.
func SecretOf(list []Secret, name string) *Secret {
	for i := range list {
		if list[i].Name == name {
			return &list[i]
		}
	}
	return nil
}

// PathOf returns the path of the secret of that name, "" if no run is given it.
func PathOf(list []Secret, name string) string {
	if s := SecretOf(list, name); s != nil {
		return s.Path
	}
	return ""
}

// samePlaces reports whether runs are given secrets of the same names at the same paths.
func samePlaces(a, b []Secret) bool {
	covers := func(a, b []Secret) bool {
		return !slices.ContainsFunc(b, func(s Secret) bool { return PathOf(a, s.Name) != s.Path })
	}
	return covers(a, b) && covers(b, a)
}

// sealed reports whether every secret is, as one that reaches the journal has to be.
func sealed(list []Secret) bool {
	for i := range list {
		if len(list[i].Sealed) == 0 || list[i].Key == "" {
			return false
		}
	}
	return true
}

// withoutValues returns what an earlier spec keeps of its secrets: tasks are given the present values, and no others are kept.
func withoutValues(list []Secret) []Secret {
	list = slices.Clone(list)
	for i := range list {
		list[i].Key, list[i].Sealed = "", nil
	}
	return list
}
