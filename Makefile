# Run `make` alone to list the targets.

GO       ?= go

VERSION  ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo unknown)
LDFLAGS  := -s -w -X main.version=$(VERSION)
STATIC   := $(GO) tool -modfile=tools/go.mod staticcheck
PACKAGES := ./...

.DEFAULT_GOAL := help
.PHONY: help run build test race lint fuzz families soak mutants house bench proto dashboard docs rename servers

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "%-9s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

run: ## serve examples/rules.yaml on the embedded store
	$(GO) run ./cmd/weir serve --rules examples/rules.yaml

build: ## build bin/weir
	CGO_ENABLED=0 $(GO) build -trimpath -ldflags '$(LDFLAGS)' -o bin/weir ./cmd/weir

# One package after the other: they start servers and load every core themselves,
# and would take each other's time. The race detector needs a C compiler; it sees
# nothing of the command that the packages of STARTERS start, and those of READERS
# only read source code. It leaves out SQLite, which is C code translated to Go: a
# test of analytics takes several times as long with it. The packages of COMPUTERS
# start nothing and mostly work on one core: they run beside each other, and first, so
# that most of the module is compiled on all cores. What the first pass has vetted the
# second does not vet.
RACE      := -race -gcflags=modernc.org/...=-race=false
COMPUTERS := algorithm internal/insight/analytics/advice internal/insight/analytics/verdict internal/insight/event internal/frontend/httpapi internal/insight/broker internal/testing/traffic internal/overlay internal/replay rules shed internal/sketch store/memory
STARTERS  := cmd/weir lab/deploytest lab/fleet lab/hostile
READERS   := internal/arch lab/mutants
paths      = $(patsubst %,github.com/weirlimit/weir/%,$(1))
ALL        = $(shell $(GO) list $(PACKAGES))
TOGETHER   = $(filter $(call paths,$(COMPUTERS)),$(ALL))
ALONE      = $(filter-out $(TOGETHER),$(ALL))
RACED      = $(filter-out $(call paths,$(STARTERS) $(READERS)),$(ALONE))

test: servers ## install the servers that tests start, then run every test
	$(if $(TOGETHER),WEIR_REQUIRE_SERVERS=1 $(GO) test -shuffle=on -timeout 10m $(TOGETHER))
	$(if $(ALONE),WEIR_REQUIRE_SERVERS=1 $(GO) test -p 1 -shuffle=on -timeout 10m $(ALONE))
	$(if $(TOGETHER),WEIR_REQUIRE_SERVERS=1 $(GO) test $(RACE) -vet=off -short -timeout 10m $(TOGETHER))
	$(if $(RACED),WEIR_REQUIRE_SERVERS=1 $(GO) test -p 1 $(RACE) -vet=off -short -timeout 10m $(RACED))
	cd lab/bench && $(GO) vet ./... && WEIR_REQUIRE_SERVERS=1 $(GO) test -p 1 -short ./...
	cd examples/middleware && $(GO) vet ./... && $(GO) test -p 1 ./...
	cd tools/helm && $(GO) vet ./... && $(GO) test ./...
	cd client/browser/chromium && $(GO) vet ./... && WEIR_REQUIRE_SERVERS=1 $(GO) test ./...
	cd internal/insight/dashboard/chromium && $(GO) vet ./... && WEIR_REQUIRE_SERVERS=1 $(GO) test -timeout 20m ./...

race: servers ## run every test under the race detector
	WEIR_REQUIRE_SERVERS=1 $(GO) test $(RACE) -shuffle=on -timeout 30m $(PACKAGES)

lint: ## gofmt, vet, staticcheck, a 32-bit build, go.mod in order
	@test -z "$$(gofmt -l .)" || { echo "not gofmt-ed:"; gofmt -l .; exit 1; }
	$(GO) vet $(PACKAGES)
	$(STATIC) $(PACKAGES)
	GOARCH=386 CGO_ENABLED=0 $(GO) build $(PACKAGES)
	$(GO) mod tidy -diff
	cd lab/bench && $(GO) mod tidy -diff
	cd examples/middleware && $(GO) mod tidy -diff
	cd client/browser/chromium && $(GO) mod tidy -diff
	cd tools/helm && $(GO) mod tidy -diff
	cd internal/insight/dashboard/chromium && $(GO) mod tidy -diff

fuzz: ## fuzz every target for FUZZTIME (default 30s) each
	scripts/fuzz.sh $(or $(FUZZTIME),30s)

families: servers ## the long forms of the nets under each family of promises
	WEIR_SOAK=1 WEIR_REQUIRE_SERVERS=1 $(GO) test -p 1 -count=1 -timeout 3h -run 'TestFamily|TestShared' $(PACKAGES)
	cd internal/insight/dashboard/chromium && WEIR_SOAK=1 WEIR_REQUIRE_SERVERS=1 $(GO) test -count=1 -timeout 1h -run 'TestFamily' ./...

soak: servers ## the long forms of the tests: minutes to hours
	WEIR_SOAK=1 WEIR_REQUIRE_SERVERS=1 $(GO) test -count=1 -timeout 3h -v -run 'Soak|Oracle|Theorem' $(PACKAGES)
	WEIR_SOAK=1 WEIR_REQUIRE_SERVERS=1 $(GO) test -count=1 -timeout 1h -v ./lab/hostile

mutants: ## break the code in every known way and see a test fail
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

internal/insight/dashboard/web/node_modules/.package-lock.json: internal/insight/dashboard/web/package-lock.json
	npm --prefix internal/insight/dashboard/web ci --no-audit --no-fund

docs: ## make the generated documents anew
	$(GO) generate ./...

rename: ## rename the module: make rename MODULE=example.org/weir
	scripts/rename.sh "$(MODULE)"

servers:
	scripts/servers.sh nginx:nginx redis-server:redis-server memcached:memcached curl:curl h2load:nghttp2-client \
		node:nodejs python3:python3 tsc:node-typescript chromium:chromium wrk:wrk faketime:faketime gcc:gcc,libc6-dev protoc:protobuf-compiler haproxy:haproxy \
		redis-cli:redis-tools redis-benchmark:redis-tools npm:npm rabbitmq-server:rabbitmq-server \
		prometheus:prometheus promtool:prometheus postgres:postgresql
	$(GO) -C tools/caddy build -o ../../bin/caddy github.com/caddyserver/caddy/v2/cmd/caddy
	$(MAKE) internal/insight/dashboard/web/node_modules/.package-lock.json
