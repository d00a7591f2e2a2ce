package knowledge

// Shards returns of how many shards the estimate knows what was measured.
func (s *Slack) Shards() int { return len(s.shards) }
