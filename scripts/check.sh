#!/bin/sh
# Runs the linters that go.mod pins.
set -eu
cd "$(dirname "$0")/.."

status=0
step() {
	echo "== $*"
	"$@" || status=1
}

step go vet ./...
step go vet -tags e2e ./test/...
step go tool staticcheck ./...
# Writing to a terminal or a buffer may fail; nothing is to be done about it.
step go tool errcheck -exclude scripts/errcheck.txt ./...

echo "== gofumpt"
# What is generated has its generator's format.
unformatted=$(git ls-files -co --exclude-standard '*.go' | grep -v '\.pb\.go$' | xargs go tool gofumpt -l)
if [ -n "$unformatted" ]; then
	echo "not formatted, run: go tool gofumpt -w" $unformatted
	status=1
fi
exit $status
