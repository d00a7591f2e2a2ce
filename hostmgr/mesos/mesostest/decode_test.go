package mesostest_test

import (
	"github.com/mesos/mesos-go/api/v1/lib/scheduler"
	"github.com/stretchr/testify/require"

	"github.com/sluice-scheduler/sluice/hostmgr/mesos/mesostest"
)

// fromProtobuf decodes an event and writes it as the master would in JSON.
func fromProtobuf(t require.TestingT, raw []byte) object {
	e := new(scheduler.Event)
	require.NoError(t, e.Unmarshal(raw))
	return parseJSON(mesostest.JSON(e))
}
