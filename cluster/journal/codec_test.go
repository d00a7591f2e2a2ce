package journal

import (
	"encoding/hex"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/fxamacker/cbor/v2"
	"github.com/stretchr/testify/require"

	"github.com/sluice-scheduler/sluice/cluster"
	"github.com/sluice-scheduler/sluice/cluster/store"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// filler sets every field of a value to something that is not zero and differs from its neighbours.
type filler struct{ n int64 }

func (f *filler) fill(v reflect.Value, depth int) {
	f.n++
	switch v.Kind() {
	case reflect.Bool:
		v.SetBool(true)
	case reflect.String:
		v.SetString(fmt.Sprintf("s%d", f.n))
	case reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64, reflect.Int:
		v.SetInt(-f.n)
	case reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64, reflect.Uint:
		v.SetUint(uint64(f.n % 256))
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		f.fill(v.Elem(), depth)
	case reflect.Array:
		for i := range v.Len() {
			f.fill(v.Index(i), depth)
		}
	case reflect.Slice:
		if depth > 6 { // constraints contain constraints
			return
		}
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		f.fill(v.Index(0), depth+1)
	case reflect.Struct:
		for i := range v.NumField() {
			field := v.Field(i)
			if v.Type().Field(i).Anonymous && field.Kind() == reflect.Pointer { // stored as if it were embedded itself
				field.Set(reflect.New(field.Type().Elem()))
				field = field.Elem()
			}
			f.fill(field, depth+1)
		}
	default:
		panic(fmt.Sprintf("%v is not a type that is stored", v.Type()))
	}
}

// filledRecords returns one record of each kind with all fields set.
func filledRecords() []cluster.Record {
	var records []cluster.Record
	for _, e := range cluster.EventKinds() {
		if e == nil {
			continue
		}
		(&filler{}).fill(reflect.ValueOf(e).Elem(), 0)
		seq := uint64(len(records) + 1)
		records = append(records, cluster.Record{Seq: seq, At: cluster.Time(1e18 + seq), Event: e})
	}
	return records
}

func TestEveryKindComesBackAsItWas(t *testing.T) {
	records := filledRecords()
	blob, err := encodeBatch(records)
	require.NoError(t, err)
	got, err := decodeBatch(blob)
	require.NoError(t, err)
	require.Equal(t, records, got)

	for i := range records { // and with nothing set
		records[i].Event = reflect.New(reflect.TypeOf(records[i].Event).Elem()).Interface().(cluster.Event)
	}
	blob, err = encodeBatch(records)
	require.NoError(t, err)
	got, err = decodeBatch(blob)
	require.NoError(t, err)
	require.Equal(t, records, got)
}

// TestEventsHaveNothingHidden holds the events to types whose whole content is encoded.
func TestEventsHaveNothingHidden(t *testing.T) {
	seen := map[reflect.Type]bool{}
	var walk func(path string, typ reflect.Type)
	walk = func(path string, typ reflect.Type) {
		switch typ.Kind() {
		case reflect.Pointer, reflect.Slice, reflect.Array:
			walk(path, typ.Elem())
		case reflect.Struct:
			if seen[typ] {
				return
			}
			seen[typ] = true
			for i := range typ.NumField() {
				f := typ.Field(i)
				require.True(t, f.IsExported(), "%s.%s is not exported and would be lost", path, f.Name)
				require.NotContains(t, f.Tag.Get("cbor"), "-", "%s.%s is skipped", path, f.Name)
				require.Empty(t, f.Tag.Get("json"), "%s.%s: the journal would take its name from the json tag", path, f.Name)
				walk(path+"."+f.Name, f.Type)
			}
		case reflect.Map, reflect.Interface, reflect.Func, reflect.Chan, reflect.UnsafePointer:
			require.Fail(t, "cannot be stored", "%s is a %v", path, typ)
		}
	}
	for _, e := range cluster.EventKinds() {
		if e != nil {
			walk(reflect.TypeOf(e).Elem().Name(), reflect.TypeOf(e).Elem())
		}
	}
	require.True(t, seen[reflect.TypeFor[cluster.JobSpec]()])
}

// TestGolden notices every change of what is stored. Fields that were added are stored from now on and are zero in
// what is old: run with -update. If a field was renamed or removed, or a number means something else now, old stores
// would be misread: formatVersion must grow, and what is old must be converted or refused.
func TestGolden(t *testing.T) {
	path := filepath.Join("testdata", "events.golden")
	var b strings.Builder
	for _, r := range filledRecords() {
		blob, err := encodeBatch([]cluster.Record{r})
		require.NoError(t, err)
		text, _, err := cbor.DiagnoseFirst(blob[len(blob)-eventSize(t, r):])
		require.NoError(t, err)
		fmt.Fprintf(&b, "%d %T\n%s\n%x\n\n", kindNumbers[reflect.TypeOf(r.Event).Elem()], r.Event, text, blob)
	}
	if *update {
		require.NoError(t, os.MkdirAll("testdata", 0o755))
		require.NoError(t, os.WriteFile(path, []byte(b.String()), 0o644))
	}
	golden, err := os.ReadFile(path)
	require.NoError(t, err)
	for entry := range strings.SplitSeq(strings.TrimSpace(string(golden)), "\n\n") {
		lines := strings.Split(entry, "\n")
		require.Len(t, lines, 3)
		blob, err := hex.DecodeString(lines[2])
		require.NoError(t, err)
		_, err = decodeBatch(blob)
		require.NoError(t, err, "%s: what is stored already cannot be read any more", lines[0])
	}
	require.Equal(t, string(golden), b.String(), "what is stored has changed: see the comment of this test")
}

func eventSize(t *testing.T, r cluster.Record) int {
	event, err := encoding.Marshal(r.Event)
	require.NoError(t, err)
	return len(event)
}

func TestNewerEvents(t *testing.T) {
	encode := func(kind uint64, event any) []byte {
		var b []byte
		for _, v := range []any{1, 1, 5, kind, event} {
			data, err := encoding.Marshal(v)
			require.NoError(t, err)
			b = append(b, data...)
		}
		return b
	}
	_, err := decodeBatch(encode(6, map[string]any{"Job": 3}))
	require.NoError(t, err)
	_, err = decodeBatch(encode(6, map[string]any{"Job": 3, "Mood": "fine"}))
	require.ErrorIs(t, err, store.ErrNewer)
	require.ErrorContains(t, err, "record 1")
	_, err = decodeBatch(encode(5, map[string]any{"Spec": map[string]any{"Mood": "fine"}}))
	require.ErrorIs(t, err, store.ErrNewer)
	_, err = decodeBatch(encode(1000, map[string]any{}))
	require.ErrorIs(t, err, store.ErrNewer)
	_, err = decodeBatch(encode(0, map[string]any{}))
	require.ErrorIs(t, err, store.ErrDamaged)
	_, err = decodeBatch(encode(6, map[string]any{"Job": "three"}))
	require.ErrorIs(t, err, store.ErrDamaged)
	_, err = decodeBatch(append(encode(6, map[string]any{"Job": 3}), 0))
	require.ErrorIs(t, err, store.ErrDamaged)
}

// FuzzDecode: whatever the bytes, an error or records, and never more memory than they are worth.
func FuzzDecode(f *testing.F) {
	for _, r := range filledRecords() {
		blob, err := encodeBatch([]cluster.Record{r})
		require.NoError(f, err)
		f.Add(blob)
	}
	f.Add([]byte{1, 0x1b, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0})
	f.Fuzz(func(t *testing.T, blob []byte) {
		records, err := decodeBatch(blob)
		if err != nil {
			return
		}
		again, err := encodeBatch(records)
		require.NoError(t, err)
		decoded, err := decodeBatch(again)
		require.NoError(t, err)
		require.Equal(t, records, decoded)
	})
}
