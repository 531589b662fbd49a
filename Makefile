# Run `make` alone to list the targets.

GO       ?= go

VERSION  ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo unknown)
COMMIT   := $(shell git rev-parse HEAD 2>/dev/null)
# The time of the commit, not of the build: two builds of a commit are one.
DATE     := $(shell TZ=UTC git log -1 --format=%cd --date=format-local:%Y-%m-%dT%H:%M:%SZ 2>/dev/null)
LDFLAGS  := -s -w -X main.version=$(VERSION) -X main.commit=$(COMMIT) -X main.date=$(DATE)
STATIC   := $(GO) tool -modfile=tools/go.mod staticcheck
PACKAGES := ./...

.DEFAULT_GOAL := help
.PHONY: help run build test lab lab-waiting lab-counting lab-counted lab-shared lab-twice race lint vulncheck fuzz families soak mutants house bench release packages release-tools release-files proto dashboard site docs rename servers

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "%-9s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

run: ## serve examples/rules.yaml on the embedded store
	$(GO) run ./cmd/weir serve --rules examples/rules.yaml

build: ## build bin/weir
	CGO_ENABLED=0 $(GO) build -trimpath -ldflags '$(LDFLAGS)' -o bin/weir ./cmd/weir

# What runs where. A package that no list names runs in `make test`, whole, beside others.
# Seconds are those of a whole run alone on two cores; a list changes with them, and
# `make test` stays below six minutes there.
#
# The packages of CORE run under the race detector too, in short form. Those of STORES
# (redis 54, memcached 12, shared 250) run in short form in `make test`, one after the
# other, and whole in `make lab`. Those of LAB run in `make lab` alone: weir 91, server 82,
# fleet 65, envoy 64, postgres 62, hostile 59, rabbitmq 37, grpcserver 26, sqlite 25, kafka 23,
# ratelimit 17, xds 15, deploytest 14. Those of ALONE run one after the other, as
# they start many processes.
CORE   := . algorithm internal/admit rules shed store/memory store/internal/%
STORES := store/memcached store/redis store/shared store/region
LAB    := cmd/weir internal/compat/envoy/xds internal/compat/ratelimit internal/grpcserver internal/insight/analytics/postgres \
	internal/insight/analytics/sqlite internal/insight/queue/% internal/node lab/deploytest lab/envoy lab/fleet lab/hostile lab/howto
ALONE  := cmd/weir lab/envoy lab/fleet lab/hostile lab/howto
# The packages of ONCE and WAITING run in `make lab` under the race detector alone, whole:
# no test of theirs does less with it. Those of WAITING wait for servers more than they
# count, and run beside each other. A package is in neither where a test does less with the
# detector (sqlite) or takes several times as long (ratelimit, postgres, shared): it runs
# whole without and short with it.
ONCE    := internal/node store/memcached store/redis store/region
WAITING := internal/compat/envoy/xds internal/grpcserver internal/insight/queue/%
# The race detector needs a C compiler. It sees nothing of the command that the packages
# of STARTERS start, and those of READERS have no goroutines. It leaves out SQLite,
# which is C code translated to Go: a test of analytics takes several times as long
# with it. GORACE: a process that ends would wait for a second for what is left of its
# goroutines, in each of 80 packages.
STARTERS := cmd/weir lab/deploytest lab/envoy lab/fleet lab/hostile lab/howto
READERS  := internal/arch internal/protocol lab/house lab/mutants
RACE     := -race -gcflags=modernc.org/...=-race=false -vet=off
export GORACE := atexit_sleep_ms=100

MODULE  := github.com/weirlimit/weir
paths    = $(patsubst $(MODULE)/.,$(MODULE),$(addprefix $(MODULE)/,$(1)))
ALL      = $(shell $(GO) list $(PACKAGES))
only     = $(filter $(call paths,$(1)),$(ALL))
but      = $(filter-out $(call paths,$(1)),$(ALL))
TWICE    = $(filter-out $(call paths,$(ONCE) $(WAITING)),$(call only,$(STORES) $(LAB)))

test: export WEIR_REQUIRE_SERVERS := 1
test: servers ## before each change lands: unit tests, conformance, race of the core; six minutes
	$(GO) test -parallel 8 -shuffle=on -timeout 10m $(call but,$(STORES) $(LAB))
	$(GO) test -p 1 -short -shuffle=on -timeout 10m $(call only,$(STORES))
	$(GO) test $(RACE) -short -timeout 10m $(call only,$(CORE))

lab: servers bin/envoy ## what make test leaves out: whole stores, real servers and browsers, mutants, race of the rest
	$(MAKE) -j2 --output-sync=line lab-waiting lab-counting
	$(MAKE) -j2 --output-sync=line lab-shared lab-twice

# What waits for servers more than it counts runs beside what counts, which gets the
# processor time that the others leave. The shared store, which takes longest, runs beside
# one package at a time: under more load a store's calls are late.
lab-waiting: export WEIR_REQUIRE_SERVERS := 1
lab-waiting:
	$(GO) test -p 1 -vet=off -shuffle=on -timeout 10m $(call only,$(ALONE))
	$(GO) test -p 1 $(RACE) -shuffle=on -timeout 10m $(call only,$(ONCE))
	$(GO) test $(RACE) -shuffle=on -timeout 10m $(call only,$(WAITING))

lab-shared: export WEIR_REQUIRE_SERVERS := 1
lab-shared:
	$(GO) test -vet=off -shuffle=on -timeout 10m $(call only,store/shared)
	$(GO) test $(RACE) -short -timeout 10m $(call only,store/shared)

lab-twice: export WEIR_REQUIRE_SERVERS := 1
lab-twice:
	$(GO) test -p 1 -vet=off -shuffle=on -timeout 10m $(filter-out $(call paths,$(ALONE) store/shared),$(TWICE))
	$(GO) test -p 1 $(RACE) -short -timeout 10m $(filter-out $(call paths,$(STARTERS) store/shared),$(TWICE))

lab-counting:
	nice $(MAKE) lab-counted

lab-counted: export WEIR_REQUIRE_SERVERS := 1
lab-counted:
	$(GO) test $(RACE) -short -timeout 10m $(call but,$(CORE) $(STARTERS) $(READERS) $(STORES) $(LAB))
	$(GO) run ./lab/mutants
	$(MAKE) tools/site/node_modules/.package-lock.json
	cd tools/site/chromium && $(GO) vet ./... && $(GO) test -vet=off ./...
	cd internal/insight/dashboard/chromium && $(GO) vet ./... && $(GO) test -vet=off -timeout 20m ./...
	cd client/browser/chromium && $(GO) vet ./... && $(GO) test -vet=off ./...
	cd lab/bench && $(GO) vet ./... && $(GO) test -p 1 -vet=off -short ./...
	cd examples/middleware && $(GO) vet ./... && $(GO) test -p 1 -vet=off ./...
	# Never from the cache, which does not see the files of this module that these read.
	cd tools && $(GO) vet ./... && $(GO) test -count=1 -vet=off ./...
	cd tools/helm && $(GO) vet ./... && $(GO) test -count=1 -vet=off ./...
	cd tools/compose && $(GO) vet ./... && $(GO) test -count=1 -vet=off ./...

# goreleaser takes the commit from a checkout that has a remote only: the variables name one.
release: TAG := $(filter v%,$(filter-out %-dirty,$(shell git describe --tags --exact-match --dirty 2>/dev/null)))
release: export GIT_CONFIG_COUNT := 1
release: export GIT_CONFIG_KEY_0 := remote.origin.url
release: export GIT_CONFIG_VALUE_0 := https://$(MODULE)
release: release-tools release-files ## build binaries, archives, packages, SBOMs and an image into dist/, named by the tag v1.2.3 of the commit
	PATH="$(CURDIR)/bin:$$PATH" goreleaser release --clean $(if $(TAG),--skip=publish,--snapshot) $(RELEASE_FLAGS)
	cp cmd/weir/schema/*.schema.json $(or $(DIST),dist)/
	cd client/python && hatchling build -d $(abspath $(or $(DIST),dist))
	cd $(or $(DIST),dist) && sha256sum weirlimit-* >>$$(echo *_checksums.txt)
	bin/image -dist $(or $(DIST),dist) -created $(DATE) -chart deploy/helm/weir LICENSE bin/release/THIRD-PARTY

packages: ## build the packages and the image of this platform, install them here and try them (root)
	scripts/servers.sh man:man-db rpm2cpio:rpm2cpio cpio:cpio systemd-analyze:systemd debootstrap:debootstrap
	cd tools/release && $(GO) mod tidy -diff && $(GO) vet ./... && WEIR_REQUIRE_SERVERS=1 $(GO) test -vet=off -count=1 -timeout 20m ./...

release-tools:
	scripts/servers.sh hatchling:python3-hatchling help2man:help2man
	$(GO) -C tools/release build -o ../../bin/ github.com/goreleaser/goreleaser/v2 github.com/CycloneDX/cyclonedx-gomod/cmd/cyclonedx-gomod ./image

# What packages hold beside the binary.
release-files: build
	rm -rf bin/release && mkdir -p bin/release/completions
	scripts/man.sh bin/weir bin/release/man
	bin/weir completion bash >bin/release/completions/weir.bash
	bin/weir completion zsh >bin/release/completions/_weir
	bin/weir completion fish >bin/release/completions/weir.fish
	bin/weir completion powershell >bin/release/completions/weir.ps1
	$(GO) -C tools run ./licenses -texts ../bin/release/THIRD-PARTY

race: servers bin/envoy ## run every test under the race detector
	WEIR_REQUIRE_SERVERS=1 $(GO) test $(RACE) -shuffle=on -timeout 30m $(PACKAGES)

lint: ## gofmt, vet, staticcheck, actionlint, a 32-bit build, go.mod in order
	@test -z "$$(gofmt -l .)" || { echo "not gofmt-ed:"; gofmt -l .; exit 1; }
	$(GO) vet $(PACKAGES)
	$(STATIC) $(PACKAGES)
	$(GO) tool -modfile=tools/go.mod actionlint
	GOARCH=386 CGO_ENABLED=0 $(GO) build $(PACKAGES)
	$(GO) mod tidy -diff
	cd lab/bench && $(GO) mod tidy -diff
	cd examples/middleware && $(GO) mod tidy -diff
	cd client/browser/chromium && $(GO) mod tidy -diff
	cd tools && $(GO) mod tidy -diff
	cd tools/helm && $(GO) mod tidy -diff
	cd tools/compose && $(GO) mod tidy -diff
	cd tools/site/chromium && $(GO) mod tidy -diff
	cd internal/insight/dashboard/chromium && $(GO) mod tidy -diff

vulncheck: ## known vulnerabilities of the code that the binary calls (asks vuln.go.dev)
	$(GO) tool -modfile=tools/go.mod govulncheck $(VULNFLAGS) ./cmd/weir

fuzz: ## fuzz every target for FUZZTIME (default 30s) each
	scripts/fuzz.sh $(or $(FUZZTIME),30s)

families: servers bin/envoy bin/readers ## the long forms of the nets under each family of promises
	WEIR_SOAK=1 WEIR_REQUIRE_SERVERS=1 $(GO) test -p 1 -count=1 -timeout 6h -run 'TestFamily|TestShared' $(PACKAGES)
	WEIR_SOAK=1 WEIR_REQUIRE_SERVERS=1 $(GO) test -p 1 -count=1 -timeout 3h -skip 'TestFamily' ./algorithm ./store/memory ./store/redis
	cd internal/insight/dashboard/chromium && WEIR_SOAK=1 WEIR_REQUIRE_SERVERS=1 $(GO) test -count=1 -timeout 1h -run 'TestFamily' ./...

soak: servers bin/envoy ## the long forms of the tests: minutes to hours
	WEIR_SOAK=1 WEIR_REQUIRE_SERVERS=1 $(GO) test -count=1 -timeout 3h -v -run 'Soak|Oracle|Theorem|Simulation|Breakages' $(PACKAGES)
	WEIR_SOAK=1 WEIR_REQUIRE_SERVERS=1 $(GO) test -count=1 -timeout 1h -v ./lab/hostile
	WEIR_SOAK=1 GOMEMLIMIT=9GiB $(GO) test -count=1 -timeout 3h -v ./internal/protocol

mutants: export WEIR_REQUIRE_SERVERS := 1
mutants: servers ## break each promise of the core and see a test fail
	$(GO) run ./lab/mutants

house: ## print the figures of the house rules
	@$(GO) run ./lab/house

bench: ## compare with other limiters, in one run
	cd lab/bench && $(GO) run ./cmd/compare

proto: ## make the Go code of proto/ anew (needs protoc: apt-get install protobuf-compiler)
	scripts/proto.sh

dashboard: internal/insight/dashboard/web/node_modules/.package-lock.json ## build the dashboard's files in internal/insight/dashboard/dist anew (needs npm)
	npm --prefix internal/insight/dashboard/web run check
	npm --prefix internal/insight/dashboard/web run build

site: tools/site/node_modules/.package-lock.json ## build the documentation site of docs/ in tools/site/dist (needs npm)
	npm --prefix tools/site run build

%/node_modules/.package-lock.json: %/package-lock.json
	npm --prefix $* ci --no-audit --no-fund

docs: ## make the generated documents anew
	$(GO) generate ./...

rename: ## rename the module: make rename MODULE=example.org/weir
	scripts/rename.sh "$(MODULE)"

servers:
	scripts/servers.sh nginx:nginx redis-server:redis-server memcached:memcached curl:curl h2load:nghttp2-client \
		node:nodejs python3:python3 tsc:node-typescript chromium:chromium wrk:wrk faketime:faketime gcc:gcc,libc6-dev protoc:protobuf-compiler haproxy:haproxy \
		redis-cli:redis-tools redis-benchmark:redis-tools npm:npm rabbitmq-server:rabbitmq-server \
		prometheus:prometheus promtool:prometheus postgres:postgresql hatchling:python3-hatchling pip3:python3-pip \
		python3.requests,httpx,trio:python3-requests,python3-httpx,python3-trio
	$(GO) -C tools/caddy build -o ../../bin/caddy github.com/caddyserver/caddy/v2/cmd/caddy
	$(GO) -C tools/ratelimit build -o ../../bin/ratelimit github.com/envoyproxy/ratelimit/src/service_cmd
	$(MAKE) internal/insight/dashboard/web/node_modules/.package-lock.json tools/express/node_modules/.package-lock.json tools/fetch/node_modules/.package-lock.json

bin/envoy: tools/envoy/requirements.txt
	scripts/envoy.sh $@

bin/readers: $(addprefix lab/readers/servers/,package-lock.json requirements.txt pom.xml)
	scripts/servers.sh php:php-cli java:default-jdk-headless mvn:maven python3.venv:python3-venv
	scripts/readers.sh $@
