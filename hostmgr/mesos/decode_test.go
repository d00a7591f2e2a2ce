package mesos

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http/httputil"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"testing/iotest"

	api "github.com/mesos/mesos-go/api/v1/lib"
	"github.com/mesos/mesos-go/api/v1/lib/scheduler"
	"github.com/stretchr/testify/require"

	"github.com/sluice-scheduler/sluice/hostmgr/mesos/mesostest"
)

// eventsOf reads a whole stream.
func eventsOf(in io.Reader, asJSON bool) (events []*scheduler.Event, bad int, end error) {
	r := newEventReader((&Config{JSON: asJSON}).codec(), in)
	for {
		e, err := r.next()
		switch {
		case errors.Is(err, errRecord):
			bad++
		case err != nil:
			return events, bad, err
		default:
			events = append(events, e)
		}
	}
}

// TestRecordedStreams: every byte stream that a real master sent decodes, whatever the pieces in which it arrives.
func TestRecordedStreams(t *testing.T) {
	root := os.Getenv("SLUICE_DATA")
	if root == "" {
		t.Skip("SLUICE_DATA is not set: there are no recordings of a real master to read")
	}
	files, err := filepath.Glob(filepath.Join(root, "mesos-recordings", "*", "*"))
	require.NoError(t, err)
	streams, all := 0, 0
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			continue // a folder
		}
		asJSON := !strings.Contains(file, "protobuf")
		var open func() io.Reader
		switch {
		case strings.HasSuffix(file, ".response.recordio"):
			open = func() io.Reader { return bytes.NewReader(data) }
		case strings.HasSuffix(file, ".raw-chunked"):
			open = func() io.Reader { return httputil.NewChunkedReader(bytes.NewReader(data)) }
		default:
			continue
		}
		streams++
		events, bad, end := eventsOf(open(), asJSON)
		require.Zero(t, bad, file)
		if end != io.EOF { // where the master died, or the recording was broken off
			require.True(t, errors.Is(end, errFraming) || errors.Is(end, io.ErrUnexpectedEOF), "%s: %v", file, end)
		}
		require.NotEmpty(t, events, file)
		for i, e := range events {
			require.NotEqual(t, scheduler.Event_UNKNOWN, e.Type, "%s: event %d", file, i)
		}
		slowly, bad, _ := eventsOf(iotest.OneByteReader(open()), asJSON)
		require.Zero(t, bad)
		require.Equal(t, events, slowly, file)
		all += len(events)
	}
	require.NotZero(t, streams, "there are no recorded streams")
	t.Logf("%d events in %d streams", all, streams)
}

func framed(records ...string) string {
	var b strings.Builder
	for _, r := range records {
		fmt.Fprintf(&b, "%d\n%s", len(r), r)
	}
	return b.String()
}

func TestStreams(t *testing.T) {
	const beat = `{"type":"HEARTBEAT"}`
	for name, c := range map[string]struct {
		in          string
		events, bad int
		end         error
	}{
		"nothing":           {"", 0, 0, io.EOF},
		"two records":       {framed(beat, beat), 2, 0, io.EOF},
		"length in bytes":   {framed(`{"type":"ERROR","error":{"message":"ü"}}`, beat), 2, 0, io.EOF},
		"empty records":     {"0\n0\n" + framed(beat) + "0\n", 1, 0, io.EOF},
		"unknown type":      {framed(`{"type":"SONG","song":{}}`, beat), 2, 0, io.EOF},
		"unknown fields":    {framed(`{"type":"HEARTBEAT","weather":{"rain":[1,2]}}`), 1, 0, io.EOF},
		"no JSON":           {framed(`{"type":`, `[]`, `null`, beat), 1, 3, io.EOF},
		"cut in a record":   {framed(beat) + "20\n" + beat[:7], 1, 0, errFraming},
		"cut in a length":   {framed(beat) + "2", 1, 0, errFraming},
		"10 GB":             {"10000000000\n" + beat, 0, 0, errFraming},
		"more than 2^63":    {"9223372036854775808\n" + beat, 0, 0, errFraming},
		"more than 2^64":    {"99999999999999999999\n" + beat, 0, 0, errFraming},
		"negative":          {"-1\n" + beat, 0, 0, errFraming},
		"no number":         {"twenty\n" + beat, 0, 0, errFraming},
		"a long line":       {strings.Repeat("1", 1<<20), 0, 0, errFraming},
		"an answer between": {framed(beat) + "HTTP/1.1 202 Accepted\r\n\r\n" + framed(beat), 1, 0, errFraming},
	} {
		t.Run(name, func(t *testing.T) {
			events, bad, end := eventsOf(strings.NewReader(c.in), true)
			require.ErrorIs(t, end, c.end)
			require.Len(t, events, c.events)
			require.Equal(t, c.bad, bad)
		})
	}
}

// TestWordsOfANewerMaster: an event is taken in without what this release does not know.
func TestWordsOfANewerMaster(t *testing.T) {
	events, bad, end := eventsOf(strings.NewReader(framed(
		`{"type":"SUBSCRIBED","subscribed":{"framework_id":{"value":"f"},"heartbeat_interval_seconds":15.0,"master_info":{"id":"m","ip":1,"port":5050,`+
			`"capabilities":[{"type":"AGENT_UPDATE"},{"type":"MIND_READING"}]}}}`,
		`{"type":"UPDATE","update":{"status":{"task_id":{"value":"t"},"state":"TASK_LOST","reason":"REASON_FULL_MOON","message":"m",`+
			`"unreachable_time":{"nanoseconds":1795231943861821953}}}}`,
	)), true)
	require.Equal(t, io.EOF, end)
	require.Zero(t, bad)
	require.Len(t, events, 2)
	require.Equal(t, "f", events[0].Subscribed.FrameworkID.Value)
	require.Len(t, events[0].Subscribed.MasterInfo.Capabilities, 1)
	s := events[1].Update.Status
	require.Equal(t, "TASK_LOST", s.GetState().String())
	require.Nil(t, s.Reason)
	require.Equal(t, int64(1795231943861821953), s.UnreachableTime.Nanoseconds)
}

// TestMalformedProtobuf: no record makes the decoder panic or read on into the next.
func TestMalformedProtobuf(t *testing.T) {
	good, err := (&scheduler.Event{Type: scheduler.Event_HEARTBEAT}).Marshal()
	require.NoError(t, err)
	offers, err := (&scheduler.Event{Type: scheduler.Event_ERROR, Error: &scheduler.Event_Error{Message: "m"}}).Marshal()
	require.NoError(t, err)
	for at := range offers {
		for _, b := range []byte{0x00, 0x7f, 0x80, 0xff} {
			broken := bytes.Clone(offers)
			broken[at] = b
			events, bad, end := eventsOf(strings.NewReader(framed(string(broken), string(broken[:at]), string(good))), false)
			require.Equal(t, io.EOF, end)
			require.GreaterOrEqual(t, len(events)+bad, 2-map[bool]int{true: 1}[at == 0])
			require.Equal(t, scheduler.Event_HEARTBEAT, events[len(events)-1].Type)
		}
	}
}

// TestOffersBesideOneThatMakesNoSense are read, with the id of that one, as far as it goes.
func TestOffersBesideOneThatMakesNoSense(t *testing.T) {
	offer := func(id string) api.Offer {
		return api.Offer{
			ID: api.OfferID{Value: id}, FrameworkID: api.FrameworkID{Value: "f"}, AgentID: api.AgentID{Value: "a"}, Hostname: "h",
			Resources: []api.Resource{mesostest.Scalar("cpus", 4)},
		}
	}
	event := &scheduler.Event{Type: scheduler.Event_OFFERS, Offers: &scheduler.Event_Offers{Offers: []api.Offer{offer("o-1"), offer("o-2"), offer("o-3")}}}
	whole, err := event.Marshal()
	require.NoError(t, err)
	ids := func(record string, asJSON bool) (ids, known []string) {
		r := newEventReader((&Config{JSON: asJSON}).codec(), strings.NewReader(framed(record)))
		e, err := r.next()
		require.ErrorIs(t, err, errRecord)
		require.Equal(t, scheduler.Event_OFFERS, e.Type)
		for _, o := range e.Offers.Offers {
			ids = append(ids, o.ID.Value)
			if o.AgentID.Value != "" {
				require.Equal(t, offer(o.ID.Value), o)
				known = append(known, o.ID.Value)
			}
		}
		return ids, known
	}
	second := bytes.Index(whole, []byte("o-2"))
	damaged := bytes.Clone(whole)
	at := second + bytes.IndexByte(whole[second:], 'h') - 1 // the length of the hostname
	damaged[at] = 0x7f
	all, known := ids(string(damaged), false)
	require.Equal(t, []string{"o-1", "o-2", "o-3"}, all)
	require.Equal(t, []string{"o-1", "o-3"}, known)

	text, err := event.MarshalJSON()
	require.NoError(t, err)
	all, known = ids(strings.Replace(string(text), `"hostname":"h"`, `"hostname":7`, 1), true)
	require.Equal(t, []string{"o-1", "o-2", "o-3"}, all)
	require.Equal(t, []string{"o-2", "o-3"}, known)
	all, _ = ids(strings.Replace(string(text), `"value":"o-1"`, `"value":7`, 1), true)
	require.Equal(t, []string{"", "o-2", "o-3"}, all)
}

// TestALengthCostsNoMemory: what a length announces is not set aside before it comes.
func TestALengthCostsNoMemory(t *testing.T) {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range 100 {
		_, _, end := eventsOf(strings.NewReader(fmt.Sprint(maxRecord, "\n{")), true)
		require.ErrorIs(t, end, errFraming)
	}
	runtime.ReadMemStats(&after)
	require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(maxRecord))
}

// TestAnEventOfAllAgents: one that is not read would come again with each subscription.
func TestAnEventOfAllAgents(t *testing.T) {
	const agents, offer = 50_000, 4 << 10
	n, err := newRecordReader(strings.NewReader(fmt.Sprintln(agents * offer))).readLength()
	require.NoError(t, err)
	require.EqualValues(t, agents*offer, n)
}
