package trace

import "testing"

// BenchmarkBlocks places the blocks of a large file.
func BenchmarkBlocks(b *testing.B) {
	hosts, err := hadoopFleet.build()
	if err != nil {
		b.Fatal(err)
	}
	m := newBlockMap(hosts, 1)
	b.ReportAllocs()
	for b.Loop() {
		m.inputs("path", 10_000*DefaultBlockBytes, DefaultBlockBytes)
	}
}
