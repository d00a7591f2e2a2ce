package trace

import (
	"bytes"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// fuzz feeds one reader with damaged samples. It must not panic, must name the file in its error, and whatever it yields
// must keep what Source, Job and Host promise.
func fuzz(f *testing.F, format string, hosts bool) {
	var kind sample
	for _, s := range samples {
		if s.format == format && s.hosts == hosts {
			f.Add(s.text(f))
			f.Add(pack(f, s.text(f)))
			kind = s
		}
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		if hosts {
			fuzzHosts(t, kind, text)
			return
		}
		if _, err := kind.read(t, bytes.NewReader(text)); err != nil {
			require.True(t, strings.HasPrefix(err.Error(), "trace: "+kind.file), err.Error())
		}
	})
}

func fuzzHosts(t *testing.T, kind sample, text []byte) {
	format, err := lookup(kind.format)
	require.NoError(t, err)
	read, err := format.hosts(kind.file, bytes.NewReader(text))
	if err == nil {
		read, err = finishHosts(kind.file, read)
	}
	if err != nil {
		require.True(t, strings.HasPrefix(err.Error(), "trace: "), err.Error())
		return
	}
	for i := range read {
		h := &read[i]
		require.True(t, isHostName(h.Name) && (i == 0 || read[i-1].Name < h.Name), h.Name)
		require.Equal(t, int64(len(h.GPUs))*1000, h.Capacity.Fixed[3])
		for _, a := range h.Capacity.Fixed {
			require.True(t, a >= 0 && a <= maxAmount)
		}
	}
}

func FuzzAlibaba2017(f *testing.F)      { fuzz(f, "alibaba-2017", false) }
func FuzzAlibaba2017Hosts(f *testing.F) { fuzz(f, "alibaba-2017", true) }
func FuzzAlibaba2018(f *testing.F)      { fuzz(f, "alibaba-2018", true) }
func FuzzAlibabaTasks(f *testing.F)     { fuzz(f, "alibaba-2018", false) }
func FuzzAzure(f *testing.F)            { fuzz(f, "azure-vm", false) }
func FuzzBatchJobs(f *testing.F)        { fuzz(f, "batch-jobs", false) }
func FuzzBorg(f *testing.F)             { fuzz(f, "google-2019", false) }
func FuzzBorgMachines(f *testing.F)     { fuzz(f, "google-2019", true) }
func FuzzCoflow(f *testing.F)           { fuzz(f, "coflow", false) }
func FuzzCSV(f *testing.F)              { fuzz(f, "csv", false) }
func FuzzCSVHosts(f *testing.F)         { fuzz(f, "csv", true) }
func FuzzDLRM(f *testing.F)             { fuzz(f, "dlrm", false) }
func FuzzGoogleEvents(f *testing.F)     { fuzz(f, "google-2011-events", false) }
func FuzzGoogleMachines(f *testing.F)   { fuzz(f, "google-2011", true) }
func FuzzGoogleSubtrace(f *testing.F)   { fuzz(f, "google-2011", false) }
func FuzzHelios(f *testing.F)           { fuzz(f, "helios", false) }
func FuzzHeliosHosts(f *testing.F)      { fuzz(f, "helios", true) }
func FuzzOpenbNodes(f *testing.F)       { fuzz(f, "openb", true) }
func FuzzOpenbPods(f *testing.F)        { fuzz(f, "openb", false) }
func FuzzPAI(f *testing.F)              { fuzz(f, "pai-2020", true) }
func FuzzPAITasks(f *testing.F)         { fuzz(f, "pai-2020", false) }
func FuzzPhilly(f *testing.F)           { fuzz(f, "philly", false) }
func FuzzPhillyMachines(f *testing.F)   { fuzz(f, "philly", true) }
func FuzzServices(f *testing.F)         { fuzz(f, "bytedance-services", false) }
func FuzzServiceHosts(f *testing.F)     { fuzz(f, "bytedance-services", true) }
func FuzzSpot(f *testing.F)             { fuzz(f, "spot-2026", true) }
func FuzzSpotJobs(f *testing.F)         { fuzz(f, "spot-2026", false) }
func FuzzSWF(f *testing.F)              { fuzz(f, "swf", false) }
func FuzzSWFHosts(f *testing.F)         { fuzz(f, "swf", true) }
func FuzzSWIM(f *testing.F)             { fuzz(f, "swim", false) }
