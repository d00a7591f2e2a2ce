package filecount

import (
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
)

func folder(t *testing.T) string {
	dir := t.TempDir()
	for i := range 23 {
		path := filepath.Join(dir, strconv.Itoa(i%4), strconv.Itoa(i))
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
		require.NoError(t, os.WriteFile(path, make([]byte, i), 0o600))
	}
	require.NoError(t, os.Symlink("nowhere", filepath.Join(dir, "link")))
	return dir
}

func TestSharesAddUp(t *testing.T) {
	dir := folder(t)
	whole, err := Share(dir, 0, 1)
	require.NoError(t, err)
	require.EqualValues(t, 23, whole.Files)
	require.EqualValues(t, 22*23/2, whole.Bytes)
	for _, shares := range []int{2, 7, 30} {
		var sum Total
		for i := range shares {
			s, err := Share(dir, i, shares)
			require.NoError(t, err)
			require.LessOrEqual(t, s.Files, int64(23/shares+1))
			read, err := Parse(s.String() + "\n")
			require.NoError(t, err)
			sum.Add(read)
		}
		require.Equal(t, whole, sum)
	}
}

func TestDigestSeesContentAndName(t *testing.T) {
	dir := folder(t)
	before, err := Share(dir, 0, 1)
	require.NoError(t, err)
	path := filepath.Join(dir, "3", "7")
	require.NoError(t, os.WriteFile(path, []byte("1234567"), 0o600))
	content, err := Share(dir, 0, 1)
	require.NoError(t, err)
	require.Equal(t, before.Bytes, content.Bytes)
	require.NotEqual(t, before.Digest, content.Digest)
	require.NoError(t, os.Rename(path, path+"x"))
	renamed, err := Share(dir, 0, 1)
	require.NoError(t, err)
	require.NotEqual(t, content.Digest, renamed.Digest)
}

func TestErrors(t *testing.T) {
	_, err := Share(filepath.Join(t.TempDir(), "none"), 0, 1)
	require.ErrorIs(t, err, os.ErrNotExist)
	for _, s := range []string{"", "files=1", "files=1 bytes=2 digest=zz", "files=1 bytes=2 digest=00", "files=x bytes=2 digest=00"} {
		_, err := Parse(s)
		require.Error(t, err, s)
	}
}
