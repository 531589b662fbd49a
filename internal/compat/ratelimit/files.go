package ratelimit

import (
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/weirlimit/weir/internal/compat/envoy"
	"github.com/weirlimit/weir/internal/compat/envoy/settings"
	"github.com/weirlimit/weir/internal/compat/envoy/stats"
	"github.com/weirlimit/weir/internal/regular"
)

// maxFiles bounds the files of one set of rules.
const maxFiles = 10_000

// tree reads the files below a directory, each named by its path with dots for
// slashes.
type tree struct {
	root string
	// prefix is what names begin with that count. Empty means all.
	prefix     string
	ignoreDots bool
	log        *slog.Logger
	attempts   *stats.Counter
	failures   *stats.Counter
	values     *stats.Gauge
}

func newTree(s *settings.Settings, scope *stats.Scope, log *slog.Logger) *tree {
	t := &tree{ignoreDots: s.RuntimeIgnoreDotFiles, log: log,
		attempts: scope.Counter("load_attempts"), failures: scope.Counter("load_failures"), values: scope.Gauge("num_values")}
	t.root = filepath.Join(s.RuntimeRoot, s.RuntimeSubdirectory)
	if s.RuntimeWatchRoot {
		t.prefix = s.RuntimeAppDirectory + "."
	} else {
		t.root = filepath.Join(t.root, s.RuntimeAppDirectory)
	}
	return t
}

// readFiles reads the rules files.
func (t *tree) readFiles() *reading {
	r := &reading{tree: t, named: map[string]*envoy.File{}}
	// Through a link, if the directory is one.
	root, err := filepath.EvalSymlinks(t.root)
	if err != nil {
		r.addFailure(t.root, err)
	} else {
		r.directory(root, "")
	}
	return r
}

// countReading counts and logs what was read.
func (t *tree) countReading(r *reading) {
	for _, f := range r.failures {
		t.failures.Inc()
		t.log.Warn("runtime: error processing "+f.path, "err", f.err)
	}
	t.attempts.Inc()
	t.values.Set(uint64(len(r.named)))
}

type reading struct {
	*tree
	// named are the files of any kind, nil for those that do not count.
	named map[string]*envoy.File
	// failures are what could not be read, and was left out.
	failures []failure
}

type failure struct {
	path string
	err  error
}

// files returns those that count, in the order of their names.
func (r *reading) files() (all []envoy.File) {
	for _, name := range slices.Sorted(maps.Keys(r.named)) {
		if f := r.named[name]; f != nil {
			all = append(all, *f)
		}
	}
	return all
}

func (r *reading) addFailure(path string, err error) {
	r.failures = append(r.failures, failure{path, err})
}

func (r *reading) directory(path, name string) {
	entries, err := os.ReadDir(path)
	if err != nil {
		r.addFailure(path, err)
		return
	}
	for _, e := range entries {
		base := e.Name()
		// Kubernetes keeps what it mounts in directories that begin so, and
		// links to it.
		if strings.HasPrefix(base, "..") || r.ignoreDots && strings.HasPrefix(base, ".") {
			continue
		}
		full, named := filepath.Join(path, base), name+strings.ReplaceAll(base, "/", ".")
		switch {
		case e.IsDir():
			r.directory(full, named+".")
		case len(r.named) >= maxFiles:
			r.addFailure(full, fmt.Errorf("more than %d files", maxFiles))
			return
		default:
			if err := r.addFile(full, base, named); err != nil {
				r.addFailure(full, err)
			}
		}
	}
}

// addFile takes a file. Of two that have one name, a/b.yaml and a.b.yaml, the later
// counts.
func (r *reading) addFile(path, base, name string) error {
	var f *envoy.File
	if strings.HasPrefix(name, r.prefix) && isRules(base) {
		// One that is too large comes a byte too large, for the service to refuse by name.
		data, err := regular.ReadPrefix(path, envoy.MaxFileBytes+1)
		if err != nil {
			return err
		}
		f = &envoy.File{Name: name, Content: data}
	}
	r.named[name] = f
	return nil
}

// isRules reports whether a file of that name holds rules.
func isRules(name string) bool {
	return strings.HasSuffix(name, ".yaml") || strings.HasSuffix(name, ".yml")
}
