// Package arch proves that imports point down.
package arch

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"strings"
	"testing"
)

// floors says which floor a package stands on. Imports point down only, and
// packages on one floor do not import each other.
//
// Do not edit this table to make a build pass: move the code.
var floors = []struct {
	folder string
	floor  int
}{
	{"algorithm", 1},
	{"sketch", 1},
	{"proto/weir/v1", 1},
	{"store/memory", 2},
	{"store/redis", 2},
	{"store/memcached", 2},
	{"store/tier", 2},
	{"rules", 2},
	{"answer", 2},
	{"identity", 2},
	{"reserve", 2},
	{"metrics", 2},
	{"telemetry", 2},
	{"shed", 2},
	{"overlay", 2},
	{"client", 2},
	{"event", 2},
	{"middleware/http", 3},
	{"middleware/grpc", 3},
	{"client/grpc", 3},
	{"replay/accesslog", 2},
	{"replay/facts", 3},
	{"queue/kafka", 3},
	{"queue/nats", 3},
	{"queue/rabbitmq", 3},
	{"frontend/envoy/stats", 3},
	{"frontend/envoy/settings", 3},
	{"frontend/envoy/xds", 3},
	{"frontend/envoy/counter", 3},
	{"frontend/envoy", 4},
	{"frontend/httpapi", 4},
	{"frontend/rls", 4},
	{"frontend/grpcapi", 4},
	{"frontend/authorize", 3},
	{"frontend/gateway", 4},
	{"frontend/forwardauth", 4},
	{"frontend/extauthz", 4},
	{"frontend/resp", 4},
	{"replay", 4},
	{"analytics", 4},
	{"analytics/sqlite", 5},
	{"analytics/postgres", 5},
	{"analytics/verdict", 2},
	{"analytics/accuracy", 3},
	{"analytics/advice", 3},
	{"dashboard", 5},
	{"server", 6},
	{"server/ratelimit", 6},
	{"cmd/weir", 7},
}

// libraryOnly lists the packages that import the standard library and this
// module only.
var libraryOnly = []string{"", "algorithm", "sketch", "store/memory"}

type pkg struct {
	ImportPath string
	Imports    []string
	Module     struct{ Path string }
}

func TestImportsPointDown(t *testing.T) {
	packages := list(t)
	module := packages[0].Module.Path
	folder := func(path string) string { return strings.TrimPrefix(strings.TrimPrefix(path, module), "/") }
	for _, p := range packages {
		from := folder(p.ImportPath)
		if strings.HasPrefix(from, "internal/") || strings.HasPrefix(from, "examples/") {
			continue
		}
		fromFloor, ok := floorOf(from)
		if !ok {
			t.Errorf("%s stands on no floor: give it a line in the table", from)
			continue
		}
		for _, path := range p.Imports {
			if !strings.HasPrefix(path, module) {
				continue
			}
			to := folder(path)
			if strings.HasPrefix(to, "internal/") {
				continue
			}
			toFloor, ok := floorOf(to)
			if ok && toFloor >= fromFloor {
				t.Errorf("%s (floor %d) imports %s (floor %d): imports must point down", from, fromFloor, to, toFloor)
			}
		}
	}
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

// floorOf returns the floor of a folder: its own line, or that of the nearest
// folder above it. The root is floor 0.
func floorOf(folder string) (int, bool) {
	if folder == "" {
		return 0, true
	}
	for {
		for _, f := range floors {
			if f.folder == folder {
				return f.floor, true
			}
		}
		i := strings.LastIndexByte(folder, '/')
		if i < 0 {
			return 0, false
		}
		folder = folder[:i]
	}
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
