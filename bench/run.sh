#!/bin/sh
# Runs declared workloads and keeps the results with machine and commit.
#
#   bench/run.sh short   a few minutes, 1,000 hosts
#   bench/run.sh full    everything in docs/solver.md, about a quarter of an hour
#   bench/run.sh cycle   whole cycles with a journal that syncs, some minutes
#
# ALGORITHMS, CLOCK, PEER and LIMIT (of each run) may be set; PEER is lemon where
# that is installed, else empty. With SLUICE_DATA the known DIMACS instances are
# measured, too.
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

# cycle NAME ARGUMENT... measures whole cycles and keeps the table with machine and commit.
cycle() {
	name=cycle-$1
	shift
	{
		echo "$(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -1), $(nproc) cores; commit $(git rev-parse --short=12 HEAD), $(date -u +%F); sluice bench cycle $*"
		echo
		"$binary" bench cycle --disk --clock "${CLOCK:-wall}" "$@"
	} >"$results/$name.txt"
	cat "$results/$name.txt"
}

peers() {
	[ -z "$peer" ] || echo "--peer=$peer --lemon=networksimplex"
}

case $suite in
short)
	# shellcheck disable=SC2046 # the flags are words
	run short solver --suite short --limit "${LIMIT:-30s}" $(peers)
	;;
full)
	pictures=$(dirname "$binary")/pictures
	# shellcheck disable=SC2046
	run full solver --suite full --limit "${LIMIT:-75s}" --svg "$pictures" $(peers)
	run growth solver --suite growth --limit 5s --svg "$pictures/growth"
	run scale solver --suite scale --limit "${LIMIT:-75s}"
	if [ -n "${SLUICE_DATA:-}" ]; then
		# shellcheck disable=SC2046
		run instances instances "$SLUICE_DATA/mcf-instances" --repeats 3 $(peers)
	fi
	for table in full growth scale instances; do
		[ ! -e "$results/$table.md" ] || place "$table"
	done
	mkdir -p docs/pictures
	for plot in 12k-90-cycles 12k-100-cycles 12k-110-cycles 12k-merged-110-cycles size; do
		cp "$pictures/$plot.svg" docs/pictures/
	done
	cp "$pictures"/growth/sweep-*.svg docs/pictures/
	;;
cycle)
	for load in 0.5 0.9 1.0 1.1; do
		cycle "12k-$load" --hosts 12500 --tasks 150000 --utilisation "$load"
	done
	for planner in flow greedy; do
		cycle "12k-preferences-$planner" --hosts 12500 --tasks 150000 --utilisation 1.0 --preferences 8 --model sluice --cycles 20 --planner "$planner"
	done
	cycle 10k-pending-10k --hosts 10000 --tasks 130000 --classes 5000 --utilisation 1.083 --churn 0.008 --cycles 20
	cycle 10k-pending-1m --hosts 10000 --tasks 1120000 --classes 5000 --utilisation 9.333 --churn 0.001 --cycles 20
	;;
*)
	echo "usage: bench/run.sh short|full|cycle" >&2
	exit 2
	;;
esac
