# make help says what there is. make check is what has to hold before a change is handed in.

SHELL       := bash
.SHELLFLAGS := -euo pipefail -c
MAKEFLAGS   += --no-print-directory
.DEFAULT_GOAL := help
.NOTPARALLEL:

GO       ?= go
FUZZTIME ?= 5s
BENCH    ?= .
ROUNDS   ?= 300
TIME     ?= 1m
CHAOS    ?= 2m
VERSION  ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo unknown)

# The tools of tools/go.mod, built from source on first use and kept in Go's build cache.
TOOL     := $(GO) tool -modfile=$(CURDIR)/tools/go.mod
BUF      ?= $(TOOL) buf
GOLANGCI ?= $(TOOL) golangci-lint

# The protocol as it was last accepted: an image without comments. It is a file and not a commit, so that a shallow clone
# has it and so that it says the same before a first release as after it.
BASELINE := plugin/proto/v1.binpb

# The product's module last, so that its tests are what a run ends with.
EXAMPLES = $(patsubst %/go.mod,%,$(wildcard examples/*/go.mod))
MODULES  = $(EXAMPLES) .

.PHONY: help
help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-16s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

.PHONY: build
build: ## Write bin/toolhost
	$(GO) build -trimpath -ldflags '-X main.version=$(VERSION)' -o bin/toolhost ./cmd/host

.PHONY: test
test: ## Run the tests of the product's module
	$(GO) test ./...

.PHONY: check
check: format vet lint proto generated tidy race ## Check all that has to hold, the tests with the race detector last

.PHONY: format
format: ## Check the format of Go and proto files
	@unformatted=$$(gofmt -l .); if [[ -n $$unformatted ]]; then \
		printf 'not formatted, run make fmt:\n%s\n' "$$unformatted" >&2; exit 1; fi
	$(BUF) format --diff --exit-code

.PHONY: vet
vet: ## Run go vet on every module
	@$(foreach m,$(MODULES),echo '$(GO) -C $(m) vet ./...' && $(GO) -C $(m) vet ./... &&) true

.PHONY: lint
lint: ## Run golangci-lint on every module
	$(GOLANGCI) config verify
	@$(foreach m,$(MODULES),echo 'golangci-lint run $(m)' && (cd $(m) && $(GOLANGCI) run ./...) &&) true

.PHONY: proto
proto: ## Lint the protocol and compare it with what was accepted
	$(BUF) lint
	$(BUF) breaking --against $(BASELINE)

.PHONY: generated
generated: ## Generate everything again, in a copy, and compare
	@copy=$$(mktemp -d) && trap 'rm -rf "$$copy"' EXIT && \
	git ls-files -z --cached --others --exclude-standard | \
		while IFS= read -r -d '' f; do if [[ -e $$f ]]; then printf '%s\0' "$$f"; fi; done | \
		tar --null -T - -cf - | tar -xf - -C "$$copy" && \
	cd "$$copy" && git init --quiet && git add --all && \
	$(MAKE) generate && git add --intent-to-add --all && \
	if ! git --no-pager diff --exit-code; then \
		echo 'generated files differ, run make generate' >&2; exit 1; fi

.PHONY: tidy
tidy: ## Check that go.mod and go.sum of every module are tidy
	@$(foreach m,$(MODULES) tools,echo '$(GO) -C $(m) mod tidy -diff' && $(GO) -C $(m) mod tidy -diff &&) true

# The race detector looks at how goroutines meet, which neither a hundred examples nor full loads show better than fewer:
# make test has them whole. A process with it sleeps for a second before it ends, unless it is told not to, and the tests
# start hundreds, each of which signs with a curve whose arithmetic has no goroutines. vet has run before.
RACE = -race -short -vet=off -gcflags='crypto/internal/fips140/nistec/...=-race=false'

.PHONY: race
race: export GORACE = atexit_sleep_ms=0
race: export RAPID_CHECKS = 25
race: ## Run the tests of every module with the race detector
	@$(foreach m,$(MODULES),echo '$(GO) -C $(m) test -race ./...' && $(GO) -C $(m) test $(RACE) ./... &&) true

.PHONY: bench
bench: ## Print what plugins and calls cost, as ratios to bare go-plugin; BENCH= chooses
	$(GO) test -run '^$$' -bench '$(BENCH)' -benchtime 1x ./internal/bench

.PHONY: sandbox
sandbox: ## Print what a hostile plugin can do with and without confinement
	@table=$$(mktemp) && trap 'rm -f "$$table"' EXIT && \
	TOOLHOST_HOSTILE_TABLE=$$table $(GO) test ./internal/hostile -run Law46HostilePlugin -count 1 >&2 && cat "$$table"

.PHONY: conformance
conformance: ## Hold toolhost serve against the judges of its protocol, which come from npm
	internal/conformance/run

.PHONY: fuzz
fuzz: ## Run every fuzz target for FUZZTIME, 5s if not said
	@$(GO) test -list '^Fuzz' ./... | \
		awk '/^Fuzz/ { found[n++] = $$1 } /^ok/ { for (i = 0; i < n; i++) print $$2, found[i]; n = 0 }' | \
		while read -r pkg target; do \
			echo "$$pkg $$target"; \
			$(GO) test -run '^$$' -fuzz "^$$target\$$" -fuzztime $(FUZZTIME) "$$pkg" < /dev/null; \
		done

.PHONY: chaos
chaos: ## Do everything to calls, plugins and hosts at random, for some minutes; ROUNDS= and CHAOS= choose
	$(GO) test ./internal/laws -run TestMachine -rapid.checks=$(ROUNDS) -rapid.steps=60 -timeout 60m
	TOOLHOST_CHAOS=$(CHAOS) $(GO) test ./internal/chaos -count 1 -v -timeout 60m

.PHONY: neighbour
neighbour: ## Change files beside somebody who swaps them, for a minute; TIME= chooses
	TOOLHOST_NEIGHBOUR=$(TIME) $(GO) test ./service/filesystem -run HostileNeighbour -count 1 -v -timeout 60m

.PHONY: generate
generate: ## Write all generated files; refuses a breaking change of the protocol
	@if [[ -e $(BASELINE) ]]; then set -x; $(BUF) breaking --against $(BASELINE); fi
	find plugin/proto -name '*.pb.go' -delete
	$(BUF) generate
	$(BUF) build --exclude-source-info --output $(BASELINE)
	$(GO) generate ./...

.PHONY: proto-accept
proto-accept: ## Accept a breaking change of the protocol; before its first release only
	rm -f $(BASELINE)
	$(MAKE) generate

.PHONY: fmt
fmt: ## Format Go and proto files
	@$(foreach m,$(MODULES),(cd $(m) && $(GOLANGCI) fmt ./...) &&) true
	$(BUF) format --write

.PHONY: clean
clean: ## Remove bin/
	rm -rf bin
