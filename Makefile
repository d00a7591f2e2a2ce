# Bare `make` prints the targets.
GO ?= go
# All commands work without a C compiler, save race.
export CGO_ENABLED ?= 0
# Packages that the unit tests cover.
PACKAGES := ./...
# Further flags for `make test`, such as -v or -run.
TESTFLAGS ?=
# Random tests draw the same each time, so that a commit passes or fails for what is in it. 0 draws anew.
export RAPID_SEED ?= 1

.DEFAULT_GOAL := help
.PHONY: help build test check race e2e bench bench-full fuzz long proto proto-check cover

help: ## print this list
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

build: ## build bin/sluice
	$(GO) build -o bin/sluice ./cmd/sluice

# That make check vets everything spares vetting what it is built from here, too.
test: ## run the tests (no root, no C compiler, no data needed)
	$(GO) test -vet=off -timeout 20m -parallel 4 $(TESTFLAGS) $(PACKAGES)

check: ## vet, lint, format
	scripts/check.sh

# Goroutines that poll timers of one synctest bubble on two threads share one
# context of the race detector, which crashes it (Go 1.26, golang/go#78156). A
# binary on one thread finds the same races, since it goes by what happens before
# what; the packages still run side by side. A process waits for nobody at its end.
race: ## run the tests with the race detector (needs a C compiler)
	CGO_ENABLED=1 GOMAXPROCS=1 GORACE=atexit_sleep_ms=0 \
		$(GO) test -race -short -vet=off -timeout 20m -parallel 4 -p $(shell getconf _NPROCESSORS_ONLN) $(RACED)

# The packages that start goroutines. In tests of the others there is one, and nothing to race with.
RACED = $(shell grep -rlE --include='*.go' '^[[:space:]]*go [a-z]|[.]Go[(][^)]|parts[.]Do\b|t[.]Parallel' . | xargs -n 1 dirname | sort -u)

e2e: build ## run the end-to-end tests with the real binary
	SLUICE_BINARY=$(CURDIR)/bin/sluice $(GO) test -tags e2e -count 1 -timeout 15m -parallel 3 ./test/e2e

bench: ## run the benchmarks, and measure the solvers on small networks
	$(GO) test -run '^$$' -bench . -benchmem $(PACKAGES)
	bench/run.sh short

bench-full: ## measure everything in docs/solver.md, half an hour
	bench/run.sh full

# Every commit plays other scripts, and the same ones each time it is checked.
FUZZ_SEED ?= $(shell git rev-list --count HEAD 2>/dev/null || echo 1)00000
fuzz: ## solvers against each other on random networks, and random requests to the server: a minute and a half
	$(GO) test ./solver/solvertest/difftest -run 'TestSolvers$$' -count 1 -timeout 20m -v -args -scripts 24000 -seed $(FUZZ_SEED)
	$(GO) test ./cluster/serve -run '^$$' -fuzz FuzzRequests -fuzztime 30s

long: ## run the long tests: new seeds and more of them, more instances, ten million requests
	RAPID_SEED=0 RAPID_CHECKS=10000 SLUICE_LONG=1 $(GO) test -count 1 -timeout 2h $(PACKAGES)

proto: ## generate the code of proto/sluice/v1 (needs protoc)
	scripts/proto.sh

proto-check: ## fail if the generated code is not what is committed (needs protoc)
	scripts/proto.sh --check

cover: ## run the tests with coverage; the report goes to coverage.out
	$(GO) test -coverprofile coverage.out $(PACKAGES)
	$(GO) tool cover -func coverage.out | tail -n 1
