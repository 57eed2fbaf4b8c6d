STATICCHECK := honnef.co/go/tools/cmd/staticcheck@v0.8.2
GOVULNCHECK := golang.org/x/vuln/cmd/govulncheck@v1.8.0
ACTIONLINT  := github.com/rhysd/actionlint/cmd/actionlint@v1.7.12
GORELEASER  := github.com/goreleaser/goreleaser/v2@v2.18.2
FUZZTIME    ?= 10s
CHAOS_FOR   ?= 600
MODEL_STEPS ?= 200000
PACKAGES    ?= 3
VERSION     ?= v0.1.0
MODULES     := $(patsubst %/,%,$(dir $(shell git ls-files '*go.mod')))

# The root module needs no other one, and is checked by its own go.mod, as its users get it. The
# others find each other by go.work here; release-check checks them by their own.
test lint cover fuzz model chaos interop run generate generated vet staticcheck: export GOWORK := off

.DEFAULT_GOAL := help

# Checks come in order, the quick ones first.
.NOTPARALLEL:

.PHONY: help
help: ## show what there is to make
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-19s %s\n", $$1, $$2 }' Makefile

.PHONY: test
test: lint ## check everything and run all tests, after installing what they need
	go test -race -timeout 30m -p $(PACKAGES) ./...

.PHONY: cover
cover: ## run the tests of the root package's code and print how much of it they reach
	@mkdir -p .cache
	go test -p $(PACKAGES) -coverpkg . -coverprofile .cache/cover.out . ./qlesstest ./tests/api ./tests/worker
	@go tool cover -func .cache/cover.out | tail -n 1

.PHONY: lint
lint: install format tidied vet staticcheck luacheck generated ## all checks but the tests

.PHONY: run
run: ## run the quickstart
	go run ./examples/quickstart

.PHONY: outbox
outbox: ## check and test the outbox, which is a module of its own and needs PostgreSQL
	@.ci/install postgres
	cd outbox && go vet ./... && go run $(STATICCHECK) ./... && go test -race ./...

.PHONY: examples
examples: ## check and test the examples that are modules of their own, one of which needs Sidekiq
	@.ci/install sidekiq
	set -e; for example in moving service; do \
		(cd examples/$$example && go vet ./... && go run $(STATICCHECK) ./... && go test -race ./...); \
	done

.PHONY: gateway
gateway: ## check and test the servers for other protocols, which are a module of their own
	cd gateway && go vet ./... && go run $(STATICCHECK) ./... && go test -race ./...

.PHONY: cmd
cmd: ## check and test the command line, which is a module of its own
	cd cmd && go vet ./... && go run $(STATICCHECK) ./... && go test -race ./...

.PHONY: qlessprom
qlessprom: ## check and test the metrics for Prometheus, a module of their own, and deploy/
	cd qlessprom && go vet ./... && go run $(STATICCHECK) ./... && go test -race ./...

.PHONY: qlessotel
qlessotel: ## check and test the instrumentation for OpenTelemetry, which is a module of its own
	cd qlessotel && go vet ./... && go run $(STATICCHECK) ./... && go test -race ./...

.PHONY: tracing
tracing: ## check and test traces that cross modules
	cd tests/tracing && go vet ./... && go run $(STATICCHECK) ./... && go test -race ./...

.PHONY: web-browser
web-browser: ## check the dashboard in Chromium, which .ci/run leaves out for its length
	@.ci/install browser || echo "left out: some of the tests in a browser, which lack a tool"
	cd web/browsertest && go vet ./... && go run $(STATICCHECK) ./... && go test -race -timeout 20m -parallel 4 ./...

.PHONY: screenshots
screenshots: ## take the pictures of the dashboard: some in docs/images, of all pages in .cache/album
	mkdir -p .cache/album
	cd web/browsertest && go test -count 1 -run '^Test(Pictures|Album)$$' \
	  -pictures -album $(CURDIR)/.cache/album .

.PHONY: generate
generate: ## write lua/qless.lua and commands_gen.go from the other scripts
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

.PHONY: chaos
chaos: ## kill, stop and cut off workers and servers, in rounds for CHAOS_FOR (600) seconds
	@.ci/install
	@end=$$(($$(date +%s) + $(CHAOS_FOR))); while [ $$(date +%s) -lt $$end ]; do \
		go test -count 1 -timeout 30m -p 1 ./tests/chaos ./tests/cluster ./tests/network || exit 1; \
	done

.PHONY: interop
interop: ## share a Redis with clients of other languages, after installing them
	@.ci/install interop
	go test -race -tags interop ./tests/interop
	go test -race -tags interop -run '^TestSharedWithOtherClients$$' ./compat/workqueue
	cd gateway && GOWORK=auto go vet -tags interop ./mixed && \
		GOWORK=auto go test -race -tags interop ./mixed

.PHONY: wake-model
wake-model: ## check the wake-up protocol with spin, after installing it
	@.ci/install model
	@tests/model/spin

.PHONY: instructions
instructions: ## check that no operation costs the server more instructions, after installing valgrind
	@.ci/install instructions || { echo "left out: valgrind can't be had"; exit 0; }; \
		$(MAKE) --no-print-directory -C bench check

.PHONY: instructions-update
instructions-update: ## write what each operation costs now to bench/results
	@.ci/install instructions
	@$(MAKE) --no-print-directory -C bench update

.PHONY: test-servers
test-servers: ## fetch every server people run, and run the tests on each, with RESP2 and RESP3
	@tests/servers/matrix.sh

PLATFORMS := linux/amd64 linux/arm64 darwin/amd64 darwin/arm64 windows/amd64 windows/arm64

.PHONY: cross
cross: ## compile the command line for every platform that a release has programs for
	@set -e; for platform in $(PLATFORMS); do \
		echo "go build ./qless for $$platform"; \
		(cd cmd && CGO_ENABLED=0 GOOS=$${platform%/*} GOARCH=$${platform#*/} \
			go build -o /dev/null ./qless); \
	done

.PHONY: workflows
workflows: ## check what GitHub and GoReleaser are to do, if the checkers can be fetched
	go run $(ACTIONLINT) .github/workflows/*.yml
	@mkdir -p .cache/bin
	@GOBIN=$(CURDIR)/.cache/bin go install $(GORELEASER) || { echo "left out: goreleaser can't be had"; exit 0; }; \
		.cache/bin/goreleaser check

.PHONY: image
image: ## build the program of the image as docker build does, from the last commit
	@.ci/image

.PHONY: release
release: ## make the commit and the tags of VERSION, after all tests; push nothing
	@.ci/release $(VERSION)

.PHONY: release-check
release-check: ## release to a copy, and install each module from there as a stranger does
	@.ci/release --check $(VERSION)

.PHONY: install
install: ## install the programs that the tests need
	@.ci/install

.PHONY: format
format:
	@echo gofmt -l .
	@unformatted=$$(gofmt -l $$(git ls-files '*.go')) && test -z "$$unformatted" || \
		{ echo "not formatted, run gofmt -w on: $$unformatted" >&2; exit 1; }

.PHONY: vet
vet:
	go vet ./...
	go vet -tags interop ./...

.PHONY: tidy
tidy: ## tidy every go.mod, with the other modules as they are here
	@.ci/tidy

.PHONY: tidied
tidied:
	@.ci/tidy -diff

.PHONY: staticcheck
staticcheck:
	go run $(STATICCHECK) ./...

# Status 3 says that there is a vulnerability. Any other failure is that of a machine without network.
.PHONY: vuln
vuln: ## look for known vulnerabilities in all modules, if the network can be reached
	@mkdir -p .cache/bin
	@GOBIN=$(CURDIR)/.cache/bin go install $(GOVULNCHECK) || { echo "left out: govulncheck can't be had"; exit 0; }; \
		found=0; for module in $(MODULES); do \
			echo "govulncheck ./... in $$module"; \
			status=0; (cd $$module && $(CURDIR)/.cache/bin/govulncheck -test ./...) || status=$$?; \
			case $$status in 0) ;; 3) found=1;; *) echo "left out: govulncheck could not look";; esac; \
		done; exit $$found

# The generator refuses names that are not defined: see internal/luasrc.
.PHONY: luacheck
luacheck:
	luacheck -q --no-color lua/prologue.lua lua/commands lua/lib doctor/lua --config .luacheckrc

.PHONY: generated
generated:
	@mkdir -p .cache
	go run ./internal/cmd/luabundle -script .cache/qless.lua -facts .cache/commands_gen.go
	@cmp .cache/qless.lua lua/qless.lua && cmp .cache/commands_gen.go commands_gen.go || \
		{ echo "the generated files are old: make generate" >&2; exit 1; }
