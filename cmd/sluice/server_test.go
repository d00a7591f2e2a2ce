package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// A folder by mistake would have what two parts know in one place; who has worked in one for both goes on.
func TestFoldersOfOthers(t *testing.T) {
	noSettings(t)
	for mark, lines := range map[string][][]string{
		schedulerMark: {{"hostmgr", "local"}, {"hostmgr", "mesos"}},
		localMark:     {{"scheduler", "--insecure"}, {"dev"}, {"hostmgr", "mesos"}},
		mesosMark:     {{"scheduler", "--insecure"}, {"dev"}, {"hostmgr", "local"}},
	} {
		dir := t.TempDir()
		require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(dir, mark)), 0o700))
		require.NoError(t, os.WriteFile(filepath.Join(dir, mark), nil, 0o600))
		for _, line := range lines {
			a := try(t, "", append(line, "--state-dir", dir)...)
			require.Equal(t, exitUsage, a.code, "%s: %v", mark, line)
			require.Contains(t, a.err, dir+" is the state folder of ", "%s: %v", mark, line)
		}
		require.NoError(t, ownFolder(dir, mark))
	}
}
