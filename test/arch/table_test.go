package arch

// row is one package of the module: what it may import besides the standard library. Paths of this module are relative
// to its root; others are prefixes of import paths. Tests may import more.
type row struct {
	pkg     string
	imports []string
	kind    kind
}

// kind says what a package may do.
type kind uint8

const (
	// pure packages are deterministic: no clock, no shared source of randomness, no files, no network, no log.
	pure kind = iota
	// shell packages meet the world.
	shell
	// support packages are for tests and benchmarks.
	support
)

const (
	autolimit  = "github.com/KimMachineGun/automemlimit/memlimit"
	badger     = "github.com/dgraph-io/badger/v4"
	btree      = "github.com/tidwall/btree"
	cbor       = "github.com/fxamacker/cbor/v2"
	cobra      = "github.com/spf13/cobra"
	errgroup   = "golang.org/x/sync/errgroup"
	genproto   = "google.golang.org/genproto/googleapis/rpc"
	gonum      = "gonum.org/v1/gonum"
	grpc       = "google.golang.org/grpc"
	hclog      = "github.com/hashicorp/go-hclog"
	logr       = "github.com/go-logr/logr"
	mesosGo    = "github.com/mesos/mesos-go/api/v1/lib"
	netutil    = "golang.org/x/net/netutil"
	otel       = "go.opentelemetry.io/otel"
	otelgrpc   = "go.opentelemetry.io/contrib/instrumentation/google.golang.org/grpc/otelgrpc"
	pflag      = "github.com/spf13/pflag"
	prometheus = "github.com/prometheus/client_golang/prometheus"
	protobuf   = "google.golang.org/protobuf"
	raft       = "github.com/hashicorp/raft"
	rapid      = "pgregory.net/rapid"
	ratelimit  = "golang.org/x/time/rate"
	term       = "golang.org/x/term"
	testify    = "github.com/stretchr/testify"
	unix       = "golang.org/x/sys/unix"
	viper      = "github.com/spf13/viper"
	yaml       = "github.com/goccy/go-yaml" // reads files, with the place of each error
	yamlOut    = "go.yaml.in/yaml/v3"       // prints
	zookeeper  = "github.com/go-zookeeper/zk"

	api = "proto/sluice/v1"
)

// table lists every package. A new one gets its row in the commit that adds it.
var table = []row{
	{"flowgraph", []string{"flowgraph/hugepage", "flowgraph/prefetch"}, pure},
	{"flowgraph/dimacs", []string{"flowgraph"}, pure},
	// The pages that memory is made of change no result.
	{"flowgraph/hugepage", []string{unix}, pure},
	// Nor does what is in the cache.
	{"flowgraph/prefetch", nil, pure},
	{"flowgraph/view", []string{"flowgraph", gonum}, pure},

	{"solver", []string{"flowgraph"}, pure},
	{"solver/ssp", []string{"flowgraph", "solver"}, pure},
	{"solver/netsimplex", []string{"flowgraph", "solver", "solver/parts", "solver/radixheap"}, pure},
	{"solver/repair", []string{"flowgraph", "flowgraph/hugepage", "flowgraph/prefetch", "solver", "solver/netsimplex", "solver/radixheap"}, pure},
	{"solver/residual", []string{"flowgraph", "solver"}, pure},
	{"solver/costscaling", []string{"flowgraph", "solver", "solver/residual"}, pure},
	{"solver/relax", []string{"flowgraph", "flowgraph/prefetch", "solver", "solver/radixheap", "solver/residual"}, pure},
	{"solver/highs", []string{"flowgraph", "solver", "github.com/lanl/highs"}, pure},
	{"solver/parts", nil, pure},
	{"solver/radixheap", nil, pure},
	{"solver/assignment", []string{"flowgraph", "flowgraph/hugepage", "flowgraph/prefetch", "solver", "solver/parts"}, pure},
	{"solver/auto", []string{
		"flowgraph", "solver", "solver/assignment", "solver/costscaling", "solver/netsimplex", "solver/parts", "solver/radixheap", "solver/relax",
		"solver/repair",
	}, pure},
	{"solver/registry", []string{
		"solver", "solver/ssp", "solver/netsimplex", "solver/repair", "solver/auto", "solver/costscaling", "solver/relax", "solver/highs",
	}, pure},
	{"solver/solvertest", []string{"flowgraph", "solver", "solver/ssp", testify, rapid}, support},
	{"solver/solvertest/difftest", []string{"flowgraph", "solver", "solver/solvertest"}, support},

	{"cluster", []string{"cluster/radix", btree}, pure},
	{"cluster/radix", nil, pure},
	{"cluster/rules", []string{"cluster"}, pure},
	{"cluster/rules/rulestest", []string{"cluster", "cluster/rules", testify}, support},
	{"cluster/access", []string{"cluster"}, pure},
	{"cluster/verify", []string{"cluster", "cluster/cycle", "cluster/pool"}, pure},
	{"cluster/pool", []string{"cluster"}, pure},
	{"cluster/knowledge", []string{"cluster"}, pure},
	{"costmodels", []string{"cluster", "flowgraph"}, pure},
	{"costmodels/binpack", []string{"cluster", "flowgraph", "costmodels"}, pure},
	{"costmodels/coco", []string{"cluster", "flowgraph", "costmodels"}, pure},
	{"costmodels/delay", []string{"cluster", "flowgraph", "costmodels"}, pure},
	{"costmodels/fragmentation", []string{"cluster", "flowgraph", "costmodels"}, pure},
	{"costmodels/loadspread", []string{"cluster", "flowgraph", "costmodels"}, pure},
	{"costmodels/network", []string{"cluster", "flowgraph", "costmodels"}, pure},
	{"costmodels/quincy", []string{"cluster", "flowgraph", "costmodels"}, pure},
	{"costmodels/random", []string{"cluster", "flowgraph", "costmodels"}, pure},
	{"costmodels/sjf", []string{"cluster", "flowgraph", "costmodels"}, pure},
	{"costmodels/trivial", []string{"cluster", "flowgraph", "costmodels"}, pure},
	{"costmodels/whare", []string{"cluster", "flowgraph", "costmodels"}, pure},
	{"costmodels/sluice", []string{
		"cluster", "flowgraph", "costmodels", "costmodels/fragmentation", "costmodels/loadspread", "costmodels/quincy",
	}, pure},
	{"costmodels/compose", []string{"cluster", "flowgraph", "costmodels"}, pure},
	{"costmodels/guard", []string{"cluster", "flowgraph", "costmodels"}, pure},
	{"costmodels/models", []string{
		"cluster", "costmodels", "costmodels/binpack", "costmodels/coco", "costmodels/compose", "costmodels/delay",
		"costmodels/fragmentation", "costmodels/loadspread", "costmodels/network", "costmodels/quincy", "costmodels/random",
		"costmodels/sjf", "costmodels/sluice", "costmodels/trivial", "costmodels/whare",
	}, pure},
	{"costmodels/modeltest", []string{"cluster", "flowgraph", "costmodels", testify, rapid}, support},
	{"cluster/cycle", []string{
		"cluster", "cluster/pool", "cluster/radix", "costmodels", "costmodels/guard", "costmodels/trivial", "flowgraph", "solver", btree,
	}, pure},

	{"cluster/cycle/netview", []string{"cluster", "cluster/cycle", "flowgraph", "flowgraph/dimacs", "flowgraph/view"}, pure},

	{"cluster/store", []string{badger, protobuf}, shell},
	{"cluster/journal", []string{"cluster", "cluster/store", badger, cbor}, shell},
	{"cluster/journal/journaltest", []string{"cluster", "cluster/journal", testify, rapid}, support},
	{"cluster/replica", []string{"cluster", "cluster/journal", "cluster/store", badger, errgroup, hclog, raft}, shell},
	{api, []string{protobuf, grpc}, shell},
	{"cluster/serve", []string{
		"cluster", "cluster/access", "cluster/cycle", "cluster/cycle/netview", "cluster/knowledge", "cluster/pool", "cluster/rules", "cluster/verify", "costmodels",
		"solver", api, protobuf, grpc,
		genproto, otel, otelgrpc, prometheus, errgroup, ratelimit,
	}, shell},

	{"hostmgr", []string{"cluster", api, protobuf, grpc, errgroup}, shell},
	{"hostmgr/local", []string{"cluster", "hostmgr", unix}, shell},
	{"hostmgr/fleet", []string{"cluster", "hostmgr"}, pure},
	{"hostmgr/mesos", []string{"cluster", "cluster/store", "hostmgr", badger, cbor, mesosGo, protobuf, zookeeper}, shell},
	{"hostmgr/mesos/mesostest", []string{grpc, mesosGo}, support},
	{"hostmgr/drivertest", []string{"cluster", "hostmgr", testify}, support},

	{"cluster/sim", []string{
		"cluster", "cluster/cycle", "cluster/journal", "cluster/knowledge", "cluster/pool", "cluster/rules",
		"cluster/sim/check", "cluster/sim/trace", "cluster/verify", "costmodels", "hostmgr", "hostmgr/fleet", "solver",
	}, pure},
	{"cluster/sim/check", []string{"cluster"}, pure},
	{"cluster/sim/trace", []string{"cluster"}, shell},
	{"cluster/sim/report", []string{"cluster/sim"}, shell},

	{"bench", []string{"bench/peer", "flowgraph", "flowgraph/dimacs", "flowgraph/prefetch", "solver", "solver/registry", unix, yaml}, shell},
	{"bench/families", []string{"flowgraph"}, shell},
	{"bench/gap", []string{"cluster", "cluster/cycle", "costmodels", "flowgraph", "solver", "github.com/lanl/highs"}, shell},
	{"bench/peer", []string{"flowgraph", "solver", "solver/registry"}, shell},
	{"bench/quality", []string{"cluster", "cluster/cycle", "cluster/sim/trace", "costmodels", "solver"}, shell},

	{"cmd/sluice/internal/jobfile", []string{api, protobuf, yaml}, shell},
	{"cmd/sluice/internal/config", []string{
		"cluster", "cmd/sluice/internal/jobfile", "costmodels/models", "solver/registry", pflag, viper,
	}, shell},
	{"cmd/sluice/internal/filecount", nil, shell},
	{"cmd/sluice/internal/pki", nil, shell},
	{"cmd/sluice/internal/words", []string{api, genproto, grpc, protobuf}, shell},
	{"cmd/sluice/internal/console", []string{"cmd/sluice/internal/jobfile", "cmd/sluice/internal/words", api, grpc}, shell},
	{"cmd/sluice", []string{
		"cmd/sluice/internal/jobfile", "cmd/sluice/internal/config", "cmd/sluice/internal/filecount", "cmd/sluice/internal/pki",
		"cmd/sluice/internal/words", "cmd/sluice/internal/console",
		"cluster", "cluster/cycle", "cluster/journal", "cluster/knowledge", "cluster/replica", "cluster/serve", "cluster/store", "costmodels/models", "flowgraph",
		"flowgraph/dimacs", "hostmgr", "hostmgr/local", "hostmgr/mesos", "solver", "solver/registry", "bench", "bench/families", "bench/gap", "bench/peer", "bench/quality",
		"cluster/sim", "cluster/sim/report", "cluster/sim/trace", api,
		autolimit, cobra, pflag, yaml, yamlOut, term, errgroup, netutil, genproto, grpc, logr, otel, protobuf,
	}, shell},

	{"test/arch", nil, support},
	{"test/e2e", nil, support},
}
