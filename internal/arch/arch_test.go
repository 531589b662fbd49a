// Package arch proves that imports point down.
package arch

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// floors lists the packages of the product by floor, the lowest first. An import points
// to a lower floor, never sideways. The packages that only tests import (internal/testing,
// lab, internal/arch) stand on none.
//
// Do not edit this table to make a build pass: move the code.
var floors = [][]string{
	{"internal/figures", "internal/micros", "internal/neighbor", "internal/terminal", "params"},
	{
		"", "internal/address", "internal/background", "internal/bodies", "internal/documents", "internal/faults",
		"internal/storecalls", "internal/backoff", "internal/breaker", "internal/cooldown", "internal/retryafter",
		"internal/lateness", "internal/memlimit", "internal/recorder",
		"internal/filewatch", "internal/redact", "internal/regular", "internal/sketch", "internal/spell", "internal/yamldoc", "internal/compat/envoy/settings",
		"internal/insight/analytics/verdict", "internal/replay/accesslog", "proto/weir/v1", "store/internal/clock",
	},
	{"internal/bytesize", "internal/checks", "internal/pattern", "internal/period", "internal/proxyprotocol"},
	{"limits"},
	{
		"algorithm", "answer", "identity", "metrics", "store/memory", "internal/certfile", "internal/telemetry",
		"internal/admit", "internal/grpcstatus", "internal/wire",
		"store/internal/transport", "internal/compat/envoy/counter", "internal/compat/envoy/stats",
		"internal/insight/event",
	},
	{"internal/once"},
	{
		"client", "credentials", "middleware/grpc", "reserve", "rules", "shed", "store/memcached", "store/redis",
		"store/internal/lot", "internal/guesses", "internal/history", "internal/listen", "internal/overlay",
		"internal/compat/envoy", "internal/compat/envoy/xds", "internal/frontend/rls", "internal/insight/analytics/accuracy",
		"internal/insight/analytics/advice", "internal/insight/analytics/rows", "internal/insight/broker", "internal/insight/live",
		"internal/replay/facts",
	},
	{"internal/reasons"},
	{
		"client/grpc", "internal/words", "middleware/http", "store/internal/leased", "store/internal/eventual", "store/internal/outage", "store/internal/permit", "store/region", "store/storetest", "internal/grpcserver",
		"internal/frontend/authorize", "internal/frontend/grpcapi", "internal/frontend/httpapi", "internal/remote",
		"internal/frontend/resp", "internal/insight/analytics/count", "internal/insight/analytics/postgres",
		"internal/insight/analytics/query", "internal/insight/analytics/retention", "internal/insight/analytics/sqlite",
		"internal/insight/dashboard", "internal/insight/queue/kafka",
		"internal/insight/queue/rabbitmq", "internal/insight/top", "internal/replay",
		"internal/replay/cases",
	},
	{
		"internal/compat/ratelimit", "internal/frontend/extauthz", "internal/frontend/forwardauth",
		"internal/frontend/gateway", "internal/insight/analytics/report", "store/shared",
	},
	{
		"internal/insight/analytics",
	},
	{
		"internal/config",
	},
	{
		"internal/check",
	},
	{
		"internal/node",
	},
	{
		"internal/demo",
	},
	{
		"cmd/weir",
	},
}

// forTests lists the folders whose packages only tests import.
var forTests = []string{"internal/arch", "internal/protocol", "internal/testing", "lab"}

// libraryOnly lists the packages that import the standard library and this
// module only.
var libraryOnly = []string{"", "algorithm", "internal/sketch", "internal/memlimit", "store/memory"}

type pkg struct {
	ImportPath string
	Imports    []string
	Module     struct{ Path string }
}

func TestImportsPointDown(t *testing.T) {
	packages := list(t)
	floor := map[string]int{}
	for n, folders := range floors {
		for _, folder := range folders {
			floor[folder] = n
		}
	}
	for _, p := range packages {
		from := p.folder()
		at, ok := floor[from]
		if ok == isForTests(from) {
			t.Errorf("%q is to stand on one floor, or to be for tests only", from)
			continue
		}
		delete(floor, from)
		for _, path := range p.Imports {
			to, ours := strings.CutPrefix(path, p.Module.Path)
			to = strings.TrimPrefix(to, "/")
			if !ours || !ok {
				continue
			}
			if isForTests(to) {
				t.Errorf("%s imports %s, which is for tests only", from, to)
			} else if n := floorOf(to); n >= at {
				t.Errorf("%s (floor %d) imports %s (floor %d): imports must point down", from, at, to, n)
			}
		}
	}
	for folder := range floor {
		t.Errorf("there is no package %s", folder)
	}
}

// isForTests reports whether a folder's package is imported by tests only.
func isForTests(folder string) bool {
	return slices.ContainsFunc(forTests, func(top string) bool { return folder == top || strings.HasPrefix(folder, top+"/") })
}

// floorOf returns the floor of a package, or one above all.
func floorOf(folder string) int {
	for n, folders := range floors {
		if slices.Contains(folders, folder) {
			return n
		}
	}
	return len(floors)
}

func TestCoreUsesTheStandardLibraryOnly(t *testing.T) {
	packages := list(t)
	module := packages[0].Module.Path
	for _, p := range packages {
		for _, core := range libraryOnly {
			if p.ImportPath != strings.TrimSuffix(module+"/"+core, "/") {
				continue
			}
			for _, path := range p.Imports {
				if first, _, _ := strings.Cut(path, "/"); strings.Contains(first, ".") && !strings.HasPrefix(path, module) {
					t.Errorf("%s imports %s: the core uses the standard library only", p.ImportPath, path)
				}
			}
		}
	}
}

// TestMiddlewareLinksLittle: who limits one route need not link what verifies tokens or
// reads YAML.
func TestMiddlewareLinksLittle(t *testing.T) {
	for _, folder := range []string{"middleware/http", "middleware/grpc"} {
		out, err := exec.Command("go", "list", "-deps", "../../"+folder).Output()
		if err != nil {
			t.Fatalf("go list: %v", err)
		}
		if deps := string(out); strings.Contains(deps, "jose") || strings.Contains(deps, "yaml") || !strings.Contains(deps, "/identity\n") {
			t.Errorf("%s links a library for tokens or YAML, or not identity: leave tokens to package credentials", folder)
		}
	}
}

// folder returns the package's folder, "" for the root.
func (p *pkg) folder() string {
	return strings.TrimPrefix(strings.TrimPrefix(p.ImportPath, p.Module.Path), "/")
}

func list(t *testing.T) []pkg {
	t.Helper()
	out, err := exec.Command("go", "list", "-json=ImportPath,Imports,Module", "../../...").Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	var packages []pkg
	for dec := json.NewDecoder(bytes.NewReader(out)); ; {
		var p pkg
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			return packages
		} else if err != nil {
			t.Fatal(err)
		}
		packages = append(packages, p)
	}
}
