package mesostest

import (
	"strconv"

	"github.com/mesos/mesos-go/api/v1/lib/scheduler"
)

// record frames an event for the stream: the number of its bytes in decimal, a newline, the bytes.
func record(e *scheduler.Event, asJSON bool) []byte {
	var body []byte
	if asJSON {
		body = appendJSON(nil, e)
	} else {
		b, err := e.Marshal()
		if err != nil {
			panic(err) // a required field is missing: a mistake in this package
		}
		body = b
	}
	frame := make([]byte, 0, len(body)+12)
	frame = strconv.AppendInt(frame, int64(len(body)), 10)
	frame = append(frame, '\n')
	return append(frame, body...)
}
