package cycle

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

// Whoever looks a reason up finds it.
func TestHostReasonsAreExplained(t *testing.T) {
	page, err := os.ReadFile("../../docs/jobs.md")
	require.NoError(t, err)
	for _, reason := range verdictReasons[open:] {
		require.Contains(t, string(page), "`"+string(reason)+"`")
	}
}
