package hostmgr

import (
	"crypto/sha256"
	"encoding/json"
)

// Fingerprint tells payloads apart.
type Fingerprint [sha256.Size]byte

// Fingerprint returns a digest of the payload, without what the run is told. What is empty and what is absent count as the
// same: the one becomes the other on its way through a protocol or a file.
func (l *Launch) Fingerprint() Fingerprint {
	var tree any
	payload := *l
	payload.Told = nil
	data, err := json.Marshal(&payload)
	if err == nil {
		err = json.Unmarshal(data, &tree)
	}
	if err == nil {
		data, err = json.Marshal(withoutEmpty(tree)) // which sorts the keys
	}
	if err != nil {
		panic(err) // a launch is made of numbers, texts, and lists of them
	}
	return sha256.Sum256(data)
}

// withoutEmpty drops what is null or an empty list from all objects in a tree.
func withoutEmpty(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for key, member := range v {
			list, isList := member.([]any)
			if member == nil || isList && len(list) == 0 {
				delete(v, key)
				continue
			}
			v[key] = withoutEmpty(member)
		}
	case []any:
		for i := range v {
			v[i] = withoutEmpty(v[i])
		}
	}
	return v
}
