//go:build linux

package local

import (
	"bytes"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
	"pgregory.net/rapid"

	"github.com/sluice-scheduler/sluice/cluster"
	"github.com/sluice-scheduler/sluice/hostmgr"
)

// TestLogLaws: whatever is written in whatever pieces, what is kept is the end of it, no more than the limit, at least
// half of it, and it is found at the offsets of the whole.
func TestLogLaws(t *testing.T) {
	base := t.TempDir()
	rapid.Check(t, func(rt *rapid.T) {
		dir, err := os.MkdirTemp(base, "")
		require.NoError(rt, err)
		limit := rapid.Int64Range(2, 64).Draw(rt, "limit")
		w := &logWriter{prefix: filepath.Join(dir, "stdout."), half: limit / 2}
		folder, err := os.OpenRoot(dir)
		require.NoError(rt, err)
		over := make(chan struct{})
		close(over)
		read := func(offset int64) (string, int64) {
			l := &logReader{ctx: t.Context(), closing: t.Context(), folder: folder, prefix: "stdout.", offset: offset, ended: over}
			defer l.closeSegment()
			data, err := io.ReadAll(l)
			require.NoError(rt, err)
			return string(data), l.offset
		}
		var all string
		for i, n := range rapid.SliceOf(rapid.IntRange(0, 100)).Draw(rt, "pieces") {
			piece := strings.Repeat(string(rune('a'+i%26)), n)
			w.write([]byte(piece))
			all += piece
			kept, end := read(0)
			require.Equal(rt, len(all), int(end))
			require.True(rt, strings.HasSuffix(all, kept))
			require.LessOrEqual(rt, int64(len(kept)), limit)
			require.GreaterOrEqual(rt, len(kept), min(len(all), int(limit/2)))
			offset := rapid.IntRange(0, len(all)).Draw(rt, "offset")
			part, _ := read(int64(offset))
			require.Equal(rt, all[max(offset, len(all)-len(kept)):], part)
			behind := rapid.SampledFrom([]int64{int64(len(all)), 1e6, 1 << 50, math.MaxInt64}).Draw(rt, "behind the end")
			part, end = read(behind)
			require.Empty(rt, part)
			require.Equal(rt, behind, end)
		}
		require.NoError(rt, folder.Close())
	})
}

// TestLogOnAFullDisk: what cannot be written takes nothing away of what was.
func TestLogOnAFullDisk(t *testing.T) {
	dir := t.TempDir()
	w := &logWriter{prefix: filepath.Join(dir, "stdout."), half: 8}
	w.write([]byte("aaaaaaaabbbb"))
	for range 3 {
		require.NoError(t, w.file.Close())
		full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
		require.NoError(t, err)
		w.file = full
		w.write([]byte("lost"))
		w.rotate()
	}
	w.write([]byte("cc"))
	folder, err := os.OpenRoot(dir)
	require.NoError(t, err)
	over := make(chan struct{})
	close(over)
	l := &logReader{ctx: t.Context(), closing: t.Context(), folder: folder, prefix: "stdout.", ended: over}
	data, err := io.ReadAll(l)
	require.NoError(t, err)
	require.Equal(t, "aaaaaaaabbbbcc", string(data))
	require.EqualValues(t, 12+3*4+2, l.Offset())
	w.write([]byte("ddeeeeeeee"))
	require.NoError(t, w.file.Close())
	left, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, left, 3, "the two halves: bbbb and ccdd, eeeeeeee")
	require.NoError(t, l.Close())
}

// TestLogRotates: a task that writes more than its limit keeps the newest, and followers miss nothing that was kept.
func TestLogRotates(t *testing.T) {
	f := newFixture(t, nil)
	id := f.shell(0, "i=0; while [ $i -lt 4000 ]; do echo $i; i=$((i+1)); done", func(l *hostmgr.Launch) { l.Task.LogLimitBytes = 8 << 10 })
	require.Equal(t, cluster.TaskSucceeded, f.ended(id).State)
	var all bytes.Buffer
	for i := range 4000 {
		fmt.Fprintln(&all, i)
	}
	kept := f.output(id, 0)
	require.True(t, strings.HasSuffix(all.String(), kept))
	require.LessOrEqual(t, len(kept), 8<<10)
	require.GreaterOrEqual(t, len(kept), 4<<10)
	require.Equal(t, all.String()[all.Len()-100:], f.output(id, int64(all.Len()-100)))
	require.LessOrEqual(t, size(f.state.run(id.String())), int64(8<<10+4<<10), "what is dropped is gone")
}

func TestFollowOverRotation(t *testing.T) {
	f := newFixture(t, nil)
	gate := filepath.Join(t.TempDir(), "gate")
	line := strings.Repeat("x", 1023)
	// After each kilobyte the task waits until it has been read, so that nothing is dropped unread.
	id := f.shell(0, `for i in 1 2 3 4 5 6 7 8 9; do echo `+line+`; while [ ! -e '`+gate+`'$i ]; do sleep 0.005; done; done`, func(l *hostmgr.Launch) { l.Task.LogLimitBytes = 4 << 10 })
	log, err := f.OpenLog(t.Context(), hostmgr.LogRequest{Run: id, Follow: true})
	require.NoError(t, err)
	part := make([]byte, 1024)
	for i := range 9 {
		_, err := io.ReadFull(log, part)
		require.NoError(t, err)
		require.Equal(t, line+"\n", string(part))
		require.NoError(t, os.WriteFile(fmt.Sprint(gate, i+1), nil, 0o600))
	}
	rest, err := io.ReadAll(log)
	require.NoError(t, err)
	require.Empty(t, rest)
	require.NoError(t, log.Close())
}

// TestForeignWriter: a process outside of the task that holds its output open does not hold up its end.
func TestForeignWriter(t *testing.T) {
	f := newFixture(t, nil)
	gate := filepath.Join(t.TempDir(), "gate")
	require.NoError(t, unix.Mkfifo(gate, 0o600))
	id := f.shell(0, "echo ready; read x < '"+gate+"'; echo last", nil)
	f.says(id, "ready\n")
	pid := f.processOf(id)
	held, err := os.OpenFile(fmt.Sprintf("/proc/%d/fd/1", pid), os.O_WRONLY, 0)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(gate, []byte("on\n"), 0o600))
	f.ended(id)
	require.Equal(t, "ready\nlast\n", f.output(id, 0))
	require.NoError(t, held.Close())
}
