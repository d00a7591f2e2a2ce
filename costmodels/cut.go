package costmodels

import (
	"fmt"
	"strings"
)

// Cut cuts a policy, as configurations spell it, at a separator that is in no parentheses, and trims the pieces. It fails where the
// parentheses do not match.
func Cut(policy string, separator byte) (pieces []string, err error) {
	depth, from := 0, 0
	for i := range len(policy) {
		switch policy[i] {
		case '(':
			depth++
		case ')':
			depth--
		case separator:
			if depth == 0 {
				pieces, from = append(pieces, strings.TrimSpace(policy[from:i])), i+1
			}
		}
		if depth < 0 || depth > 1 {
			return nil, fmt.Errorf("%q: the parentheses do not match", policy)
		}
	}
	if depth != 0 {
		return nil, fmt.Errorf("%q: the parentheses do not match", policy)
	}
	return append(pieces, strings.TrimSpace(policy[from:])), nil
}
