STATICCHECK := honnef.co/go/tools/cmd/staticcheck@v0.8.2
GOVULNCHECK := golang.org/x/vuln/cmd/govulncheck@v1.8.0
ACTIONLINT  := github.com/rhysd/actionlint/cmd/actionlint@v1.7.12
GORELEASER  := github.com/goreleaser/goreleaser/v2@v2.18.2
FUZZTIME    ?= 10s
CHAOS_FOR   ?= 600
MODEL_STEPS ?= 200000
MUTATIONS   ?= 300
NEWEST      ?= conformance atomic wake api
PACKAGES    ?= 3
ONLY        ?=
FLAGS       ?=
VERSION     ?= v0.1.0
ROOT        := github.com/qless/qless-go
MODULES     := $(patsubst %/,%,$(dir $(shell git ls-files '*go.mod')))

# The root module needs none of the others, and is checked with its own go.mod, like its users get
# it. The others find each other through go.work; release-copy checks them with their own go.mod.
test test-slow race test-servers newest-redis newest-valkey lint cover fuzz model mutate chaos interop \
	run generate generated vet staticcheck: export GOWORK := off

# The race detector needs a C compiler.
RACE := $(shell command -v $${CC:-gcc} >/dev/null && echo -race)

# The tests in SEQUENTIAL make one call after another. The race detector finds little there: only
# make race uses it. Packages whose tests keep one processor busy for long begin first, and so do
# those in WAITING, which mostly wait.
RUN        := go test -timeout 30m -p $(PACKAGES) -parallel 8
SEQUENTIAL := $(addprefix $(ROOT)/,$(addprefix tests/,api model conformance atomic docs) doctor \
	$(addprefix internal/,cmd/mutate cron luasrc) tests/security)
SLOW       := $(addprefix $(ROOT)/tests/,chaos cluster network)
WAITING    := $(addprefix $(ROOT)/tests/,worker wake)
OTHERS      = $(WAITING) \
	$(filter-out $(SEQUENTIAL) $(SLOW) $(WAITING),$(shell GOWORK=off go list ./...))

# The checks of modules whose tests have the race detector use the same build as these, so that no
# package is compiled twice.
STATICCHECK_RACE := nice go run -exec 'env GOFLAGS=$(RACE)' $(STATICCHECK)

# A program with the race detector waits a second before it exits, by default.
export GORACE := atexit_sleep_ms=0

.DEFAULT_GOAL := help

# Checks run in order, the quick ones first.
.NOTPARALLEL:

.PHONY: help
help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-19s %s\n", $$1, $$2 }' Makefile

.PHONY: test
test: tools generated ## vet the root module and run its quick tests, after installing what they need
	@echo testing $(words $(SEQUENTIAL) $(OTHERS)) packages
	@failed=0; \
		$(RUN) -vet all $(SEQUENTIAL) || failed=1; \
		$(RUN) -vet all $(RACE) $(OTHERS) || failed=1; \
		exit $$failed
	@echo "left out, run by make test-all: linters, slow tests, other modules and servers, browsers"

.PHONY: test-all
test-all: ## run make test, the slow tests and those of all other modules, like CI
	.ci/run

.PHONY: test-slow
test-slow: ## kill, stop and cut off workers and servers, for a short time
	go test $(RACE) -short -timeout 30m -p 1 $(SLOW)

.PHONY: race
race: ## run what make test runs without the race detector; ONLY=Wait for some of the tests
	$(RUN) -race -run '$(ONLY)' $(SEQUENTIAL)

.PHONY: tools
tools: ## install the programs of make test, and say what is left out without them
	@.ci/install || true
	@.ci/tools

.PHONY: cover
cover: ## run the tests of the root package's code, and print its coverage
	@mkdir -p .cache
	go test -p $(PACKAGES) -coverpkg . -coverprofile .cache/cover.out . ./qlesstest ./tests/api ./tests/worker
	@go tool cover -func .cache/cover.out | tail -n 1

.PHONY: lint
lint: tools format tidied vet staticcheck luacheck generated ## run all checks but the tests

.PHONY: run
run: ## run the quickstart
	go run ./examples/quickstart

.PHONY: outbox
outbox: ## check and test the outbox, a module of its own that needs PostgreSQL and MariaDB
	@.ci/install databases
	cd outbox && $(STATICCHECK_RACE) ./... && go test -race -vet all ./...

.PHONY: examples
examples: ## check and test the examples that are modules of their own; one needs Sidekiq
	@.ci/install sidekiq
	cd examples/moving && go run $(STATICCHECK) ./... && go test $(FLAGS) -vet all ./...
	cd examples/service && $(STATICCHECK_RACE) ./... && go test -race -vet all ./...

.PHONY: gateway
gateway: ## check and test the servers for other protocols, a module of their own
	cd gateway && $(STATICCHECK_RACE) ./... && go test -race -vet all ./...

.PHONY: cmd
cmd: ## check and test the command line, a module of its own
	cd cmd && go run $(STATICCHECK) ./... && go test $(FLAGS) -vet all ./...

.PHONY: qlessprom
qlessprom: ## check and test the metrics for Prometheus, a module of their own, and deploy/
	cd qlessprom && $(STATICCHECK_RACE) ./... && go test -race -vet all ./...

.PHONY: qlessotel
qlessotel: ## check and test the instrumentation for OpenTelemetry, a module of its own
	cd qlessotel && $(STATICCHECK_RACE) ./... && go test -race -vet all ./...

.PHONY: tracing
tracing: ## check and test traces that cross modules
	cd tests/tracing && $(STATICCHECK_RACE) ./... && go test -race -vet all ./...

.PHONY: web-browser
web-browser: ## check the dashboard in Chromium, with axe and the HTML checker
	@.ci/install browser || echo "left out: some of the tests in a browser, which lack a tool"
	cd web/browsertest && go run $(STATICCHECK) ./... && \
		go test $(FLAGS) -vet all -timeout 20m ./...

.PHONY: screenshots
screenshots: ## take pictures of the dashboard: some for docs/images, all pages in .cache/album
	mkdir -p .cache/album
	cd web/browsertest && go test -count 1 -run '^Test(Pictures|Album)$$' \
	  -pictures -album $(CURDIR)/.cache/album .

.PHONY: generate
generate: ## write the generated scripts and commands_gen.go from the Lua sources
	go generate ./...

.PHONY: fuzz
fuzz: ## run every fuzz test for FUZZTIME (10s)
	@set -e; for package in $$(go list ./...); do \
		for target in $$(go test -list '^Fuzz' $$package | grep '^Fuzz'); do \
			echo "$$package $$target"; \
			go test -run '^$$' -fuzz "^$$target$$" -fuzztime $(FUZZTIME) $$package; \
		done; \
	done

.PHONY: model
model: ## run the model tester for MODEL_STEPS (200000) random steps
	go test -v -count 1 -timeout 0 -run '^TestSteps' ./tests/model -model.steps $(MODEL_STEPS)

.PHONY: mutate
mutate: ## change MUTATIONS (300) places of the code, one at a time, and name what no test notices
	go run ./internal/cmd/mutate -n $(MUTATIONS) $(FLAGS)

.PHONY: chaos
chaos: ## kill, stop and cut off workers and servers, in rounds for CHAOS_FOR (600) seconds
	@.ci/install
	@end=$$(($$(date +%s) + $(CHAOS_FOR))); while [ $$(date +%s) -lt $$end ]; do \
		go test -count 1 -timeout 30m -p 1 ./tests/chaos ./tests/cluster ./tests/network || exit 1; \
	done

.PHONY: interop
interop: ## share a Redis with clients in other languages, after installing them
	@.ci/install interop
	go test $(RACE) $(FLAGS) -vet all -tags interop ./tests/interop
	go test $(RACE) $(FLAGS) -vet all -tags interop -run '^TestSharedWithOtherClients$$' ./compat/workqueue
	cd gateway && GOWORK=auto go test $(RACE) $(FLAGS) -vet all -tags interop ./mixed

.PHONY: wake-model
wake-model: ## check the wake-up protocol with spin, after installing it
	@.ci/install model
	@tests/model/spin

.PHONY: instructions
instructions: ## check that no operation costs the server more instructions, after installing valgrind
	@.ci/install instructions || { echo "left out: valgrind can't be had"; exit 0; }; \
		$(MAKE) --no-print-directory -C bench check

.PHONY: instructions-update
instructions-update: ## write the present cost of each operation to bench/results
	@.ci/install instructions
	@$(MAKE) --no-print-directory -C bench update

.PHONY: test-servers
test-servers: ## fetch every server people run, and run the tests on each, with RESP2 and RESP3
	@.ci/install interop
	@FRESH=1 tests/servers/matrix.sh

.PHONY: test-newest newest-redis newest-valkey
test-newest: newest-redis newest-valkey ## fetch the newest Redis and Valkey, and run NEWEST on both
newest-redis newest-valkey:
	@FRESH=1 OPTIONAL=1 PROTOCOLS=3 SUITES="$(addprefix ./tests/,$(NEWEST))" \
		tests/servers/matrix.sh $(@:newest-%=%-newest)

PLATFORMS := linux/amd64 linux/arm64 darwin/amd64 darwin/arm64 windows/amd64 windows/arm64

.PHONY: cross
cross: ## compile the command line for every platform of a release
	@set -e; for platform in $(PLATFORMS); do \
		echo "go build ./qless for $$platform"; \
		(cd cmd && CGO_ENABLED=0 GOOS=$${platform%/*} GOARCH=$${platform#*/} \
			go build -o /dev/null ./qless); \
	done

.PHONY: workflows
workflows: ## check the workflows of GitHub and GoReleaser, if the checkers can be fetched
	go run $(ACTIONLINT) .github/workflows/*.yml
	@mkdir -p .cache/bin
	@GOBIN=$(CURDIR)/.cache/bin go install $(GORELEASER) || { echo "left out: goreleaser can't be had"; exit 0; }; \
		.cache/bin/goreleaser check

.PHONY: image
image: ## build the image's program like docker build, from the last commit
	@.ci/image

.PHONY: release
release: ## make the commit and the tags of VERSION, after all tests; push nothing
	@.ci/release $(VERSION)

.PHONY: release-copy
release-copy: ## release to a copy, and install each module from there like a user
	@.ci/release --check $(VERSION)

.PHONY: release-check
release-check: release-copy test-servers ## check a release: its copy, then the tests on every server

.PHONY: format
format:
	@echo gofmt -l .
	@unformatted=$$(gofmt -l $$(git ls-files '*.go')) && test -z "$$unformatted" || \
		{ echo "not formatted, run gofmt -w on: $$unformatted" >&2; exit 1; }

.PHONY: vet
vet:
	go vet $(RACE) ./...

.PHONY: tidy
tidy: ## tidy every go.mod, with the other modules from their folders
	@.ci/tidy

.PHONY: tidied
tidied:
	@.ci/tidy -diff

.PHONY: staticcheck
staticcheck:
	$(STATICCHECK_RACE) ./...

# Status 3 means a vulnerability. Any other failure is due to a missing network.
.PHONY: vuln
vuln: ## look for known vulnerabilities in all modules, if the network can be reached
	@mkdir -p .cache/bin
	@GOBIN=$(CURDIR)/.cache/bin go install $(GOVULNCHECK) || { echo "left out: govulncheck can't be had"; exit 0; }; \
		found=0; for module in $(MODULES); do \
			echo "govulncheck ./... in $$module"; \
			status=0; (cd $$module && $(CURDIR)/.cache/bin/govulncheck -test ./...) || status=$$?; \
			case $$status in 0) ;; 3) found=1;; \
				*) echo "left out: govulncheck could not look, here and in the rest"; break;; esac; \
		done; exit $$found

# The generator refuses undefined names: see internal/luasrc.
.PHONY: luacheck
luacheck:
	@command -v luacheck >/dev/null || { echo "left out: luacheck"; exit 0; }; set -x; \
		luacheck -q --no-color lua/prologue.lua lua/commands lua/lib doctor/lua --config .luacheckrc

.PHONY: generated
generated:
	go run ./internal/cmd/luabundle -to .cache/generated
	@cd .cache/generated && for file in *.go */*.lua; do cmp $$file ../../$$file || \
		{ echo "the generated files are old: make generate" >&2; exit 1; }; done
