//go:build !highs

package gap

// Best fails: this build has no judge.
func Best(*Instance) (Value, error) { return Value{}, ErrNoJudge }
