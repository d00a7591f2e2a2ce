#!/bin/sh
# Runs declared workloads and keeps the results with machine and commit.
#
#   bench/run.sh short      a few minutes, 1,000 hosts
#   bench/run.sh full       everything in docs/solver.md: the next six, half an hour
#   bench/run.sh workloads  the declared workloads against LEMON; most of that time
#   bench/run.sh growth     by hosts, tasks, classes and changes: two minutes
#   bench/run.sh scale      50,000 hosts: a minute
#   bench/run.sh instances  known DIMACS instances against LEMON: a minute
#   bench/run.sh families   families of networks against both algorithms of LEMON: two minutes
#   bench/run.sh shapes     what the differential tests draw against LEMON: a minute
#   bench/run.sh cycle      whole cycles with a journal that syncs, some minutes
#   bench/run.sh replays    what the flow is worth: replays with it and without, a quarter of an hour
#   bench/run.sh quality    how well GPUs are packed, a quarter of an hour
#   bench/run.sh gap        plans against a mixed-integer program (needs HiGHS): seconds
#
# ALGORITHMS, CLOCK, PEER and LIMIT (of each run) may be set; PEER is lemon where
# that is installed, else empty. The known instances are those under SLUICE_DATA.
set -eu
cd "$(dirname "$0")/.."

suite=${1:-short}
installed=
if command -v g++ >/dev/null && [ -e /usr/include/lemon/network_simplex.h ]; then
	installed=lemon
fi
peer=${PEER-$installed}
results=bench/results
binary=$(mktemp -d)/sluice
go build -o "$binary" ./cmd/sluice
mkdir -p "$results"

# run NAME ARGUMENT... prints a table and keeps it beside the report.
run() {
	name=$1
	shift
	"$binary" bench "$@" --algorithms "${ALGORITHMS:-auto}" --clock "${CLOCK:-wall}" \
		--report "$results/$name.json" --report "$results/$name.md" >"$results/$name.txt"
	cat "$results/$name.txt"
}

# place NAME puts a table between its marks in the documentation.
place() {
	awk -v file="$results/$1.md" -v begin="<!-- $1 -->" -v end="<!-- end of $1 -->" '
		$0 == end { skip = 0 }
		!skip { print }
		$0 == begin { while ((getline line < file) > 0) print line; skip = 1 }
	' docs/solver.md >"$results/solver.md" && mv "$results/solver.md" docs/solver.md
}

# keep NAME ARGUMENT... runs sluice and keeps what it prints with machine and commit.
keep() {
	name=$1
	shift
	{
		echo "$(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -1), $(nproc) cores; commit $(git rev-parse --short=12 HEAD), $(date -u +%F); sluice $*" |
			sed "s|${SLUICE_DATA:-//}|\$SLUICE_DATA|g"
		echo
		"$binary" "$@"
	} >"$results/$name.txt"
	cat "$results/$name.txt"
}

# cycle NAME ARGUMENT... measures whole cycles.
cycle() {
	name=cycle-$1
	shift
	keep "$name" bench cycle --disk --clock "${CLOCK:-wall}" "$@"
}

# replay NAME ARGUMENT... plays a workload with the flow and without, and checks every plan.
replay() {
	name=replay-$1
	shift
	keep "$name" sim --verify --planner flow,greedy "$@"
}

# peers [ALGORITHMS] are the flags that ask for the peer.
peers() {
	[ -z "$peer" ] || echo "--peer=$peer --lemon=${1:-networksimplex}"
}

drawn=$(dirname "$binary")
mkdir -p docs/pictures

# step NAME makes one table, and its pictures, and puts them into the documentation.
step() {
	case $1 in
	# shellcheck disable=SC2046 # the flags are words
	workloads)
		run full solver --suite full --limit "${LIMIT:-75s}" --svg "$drawn/pictures" $(peers)
		for plot in 12k-90-cycles 12k-100-cycles 12k-110-cycles 12k-merged-110-cycles size; do
			cp "$drawn/pictures/$plot.svg" docs/pictures/
		done
		place full
		return
		;;
	growth)
		run growth solver --suite growth --limit "${LIMIT:-5s}" --svg "$drawn/growth"
		cp "$drawn"/growth/sweep-*.svg docs/pictures/
		;;
	scale)
		run scale solver --suite scale --limit "${LIMIT:-75s}"
		;;
	# shellcheck disable=SC2046
	instances)
		run instances instances "${SLUICE_DATA:?names the folder with mcf-instances}/mcf-instances" --repeats 3 $(peers)
		;;
	# shellcheck disable=SC2046
	families)
		run families instances --families --repeats 3 $(peers networksimplex,costscaling)
		;;
	# shellcheck disable=SC2046
	shapes)
		mkdir -p "$drawn/shapes"
		go test ./solver/solvertest/difftest -run TestLarge -count 1 -args -export "$drawn/shapes"
		run shapes instances "$drawn/shapes" --repeats 15 $(peers)
		;;
	esac
	place "$1"
}

case $suite in
short)
	# shellcheck disable=SC2046
	run short solver --suite short --limit "${LIMIT:-30s}" $(peers)
	;;
full)
	for name in workloads growth scale; do
		step $name
	done
	[ -z "${SLUICE_DATA:-}" ] || step instances
	step families
	step shapes
	;;
workloads | growth | scale | instances | families | shapes)
	step "$suite"
	;;
cycle)
	for load in 0.5 0.9 1.0 1.1; do
		cycle "12k-$load" --hosts 12500 --tasks 150000 --utilisation "$load"
	done
	for load in 0.9 1.0 1.1; do
		for planner in flow greedy; do
			cycle "12k-preferences-$load-$planner" --hosts 12500 --tasks 150000 --utilisation "$load" --preferences 8 --model sluice --cycles 20 --planner "$planner"
		done
	done
	for planner in flow greedy; do
		cycle "apart-$planner" --hosts 400 --tasks 7200 --classes 1 --apart 18 --utilisation 1 --churn 1 --cycles 20 --planner "$planner"
	done
	cycle 12k-pools-1.2 --hosts 12500 --tasks 150000 --utilisation 1.2 --pools 24
	cycle 10k-pools-1.2 --hosts 10000 --tasks 200000 --classes 5000 --utilisation 1.2 --pools 8 --cycles 40
	cycle 10k-cold-0.95 --hosts 10000 --tasks 120000 --classes 5000 --utilisation 0.95 --cold --cycles 20
	cycle 10k-pending-10k --hosts 10000 --tasks 130000 --classes 5000 --utilisation 1.083 --churn 0.008 --cycles 20
	cycle 10k-pending-1m --hosts 10000 --tasks 1120000 --classes 5000 --utilisation 9.333 --churn 0.001 --cycles 20
	;;
replays)
	for load in 0.9 1.1; do
		replay "made-up-$load" --generate --hosts 60 --load "$load" --seed 3 --horizon 10m
	done
	traces=${SLUICE_DATA:?names the folder with traces}/traces
	for load in 0.7 0.95 1.1; do
		set -- --format swim --jobs "$traces/swim-facebook-2010/FB-2010_samples_24_times_1hr_withInputPaths_0.tsv.gz" \
			--block-size 17179869184 --every 10 --hosts 300 --offered-load "$load"
		replay "swim-$load" "$@" --model quincy
		keep "locality-$load" sim --verify --compare quincy,delay,loadspread "$@"
	done
	openb=$traces/alibaba-gpu-2023
	replay openb-0.9 --format openb --jobs "$openb/openb_pod_list_default.csv.gz" --machines "$openb/openb_node_list_all_node.csv" --offered-load 0.9
	for list in default cpu250 gpushare100 gpuspec33 multigpu50; do
		replay "openb-$list" --format openb --jobs "$openb/openb_pod_list_$list.csv.gz" --machines "$openb/openb_node_list_all_node.csv" \
			--arrivals order --no-departures --demand 1.1
	done
	replay philly --format philly --jobs "$traces/philly-gpu/philly_vcs_a.csv.gz" --hosts 20 --host-gpus 8 --limit 2000
	replay google --format google-2011 --jobs "$traces/google-2011/GOOG_subtrace.tr.gz" --machines "$traces/google-2011/machines.csv.gz" --every 20
	replay services --format bytedance-services --jobs "$traces/bytedance-services/M3.json.gz"
	replay batch-jobs --format batch-jobs --jobs "$traces/batch-jobs-cloudsimpy/jobs.csv.gz" --every 20
	replay dlrm --format dlrm --jobs "$traces/alibaba-gpu-2025-dlrm/disaggregated_DLRM_trace.csv.gz" --every 40 --hosts 150 --horizon 100h
	replay dlrm-whole --format dlrm --jobs "$traces/alibaba-gpu-2025-dlrm/disaggregated_DLRM_trace.csv.gz"
	;;
quality)
	openb=${SLUICE_DATA:?names the folder with traces}/traces/alibaba-gpu-2023
	for list in default gpushare100 gpuspec33 multigpu50; do
		keep "quality-$list" bench quality --batch --model sluice --model fragmentation \
			--pods "$openb/openb_pod_list_$list.csv.gz" --machines "$openb/openb_node_list_all_node.csv"
	done
	;;
gap)
	CGO_ENABLED=1 CGO_CFLAGS="-I/usr/include/highs ${CGO_CFLAGS:-}" go build -tags highs -o "$binary" ./cmd/sluice
	keep gap bench gap
	;;
*)
	echo "usage: bench/run.sh short|full|workloads|growth|scale|instances|families|shapes|cycle|replays|quality|gap" >&2
	exit 2
	;;
esac
