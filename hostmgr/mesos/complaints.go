package mesos

import "sync"

// complaints remembers what was logged, so that what happens again and again is not logged again and again.
type complaints struct {
	mu   sync.Mutex
	seen map[string]bool
}

// maxComplaints bounds what is remembered. When it is full it begins anew.
const maxComplaints = 1000

// first reports whether the text is new.
func (c *complaints) first(text string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.seen[text] {
		return false
	}
	if c.seen == nil || len(c.seen) >= maxComplaints {
		c.seen = map[string]bool{}
	}
	c.seen[text] = true
	return true
}
