package journal

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"testing"

	"github.com/dgraph-io/badger/v4/pb"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"github.com/sluice-scheduler/sluice/cluster/store"
)

// What Badger wrote into MANIFEST before its disk failed, and did not do, is undone at the next start; that a table is gone is damage all the
// same.
func TestChangesThatWereNotDone(t *testing.T) {
	const gone = 99
	add := func(id uint64) *pb.ManifestChange {
		return &pb.ManifestChange{Id: id, Op: pb.ManifestChange_CREATE, Level: 6, Compression: 1}
	}
	remove := func(id uint64) *pb.ManifestChange { return &pb.ManifestChange{Id: id, Op: pb.ManifestChange_DELETE} }
	for name, c := range map[string]struct {
		sets  func(table uint64) [][]*pb.ManifestChange
		still bool // the table is there
		want  error
	}{
		"a memory table":            {func(uint64) [][]*pb.ManifestChange { return [][]*pb.ManifestChange{{add(gone)}} }, true, nil},
		"several times":             {func(uint64) [][]*pb.ManifestChange { return [][]*pb.ManifestChange{{add(gone)}, {add(gone + 1)}} }, true, nil},
		"a table instead of others": {func(t uint64) [][]*pb.ManifestChange { return [][]*pb.ManifestChange{{remove(t), add(gone)}} }, true, nil},
		"tables instead of others": {func(t uint64) [][]*pb.ManifestChange {
			return [][]*pb.ManifestChange{{add(gone), remove(t), add(gone + 1)}}
		}, true, nil},
		"a table is gone": {func(uint64) [][]*pb.ManifestChange { return nil }, false, store.ErrDamaged},
		"a table is gone that took another's place": {func(t uint64) [][]*pb.ManifestChange { return [][]*pb.ManifestChange{{remove(t), add(gone)}} }, false, store.ErrDamaged},
	} {
		t.Run(name, func(t *testing.T) {
			dir := filled(t, 3)
			tables, err := filepath.Glob(filepath.Join(dir, "*.sst"))
			require.NoError(t, err)
			require.Len(t, tables, 1)
			var table uint64
			_, err = fmt.Sscanf(filepath.Base(tables[0]), "%d.sst", &table)
			require.NoError(t, err)
			f, err := os.OpenFile(filepath.Join(dir, "MANIFEST"), os.O_WRONLY|os.O_APPEND, 0)
			require.NoError(t, err)
			for _, changes := range c.sets(table) {
				set, err := proto.Marshal(&pb.ManifestChangeSet{Changes: changes})
				require.NoError(t, err)
				head := binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(nil, uint32(len(set))), crc32.Checksum(set, crc32.MakeTable(crc32.Castagnoli)))
				_, err = f.Write(append(head, set...))
				require.NoError(t, err)
			}
			require.NoError(t, f.Close())
			if !c.still {
				require.NoError(t, os.Remove(tables[0]))
			}
			for range 2 {
				j, err := Open(dir, store.Options{})
				require.ErrorIs(t, err, c.want)
				if err != nil {
					return
				}
				state, err := Load(j)
				require.NoError(t, err)
				require.EqualValues(t, 6, state.Seq())
				require.NoError(t, j.Close())
			}
		})
	}
}
