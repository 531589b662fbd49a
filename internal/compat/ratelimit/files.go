package ratelimit

import (
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sort"
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

// read returns the rules files in the order of their names. What cannot be read
// is logged and left out; whole says that there was no such thing.
func (t *tree) read() (files []envoy.File, whole bool) {
	r := reading{tree: t, whole: true, named: map[string]int{}}
	// Through a link, if the directory is one.
	root, err := filepath.EvalSymlinks(t.root)
	if err != nil {
		r.failed(t.root, err)
	} else {
		r.directory(root, "")
	}
	t.attempts.Inc()
	t.values.Set(uint64(len(r.named)))
	sort.Slice(r.files, func(i, j int) bool { return r.files[i].Name < r.files[j].Name })
	return r.files, r.whole
}

type reading struct {
	*tree
	files []envoy.File
	// named are the files of any kind, and where in files those are that count:
	// elsewhere it is -1.
	named map[string]int
	whole bool
}

func (r *reading) failed(path string, err error) {
	r.whole = false
	r.failures.Inc()
	r.log.Warn("runtime: error processing "+path, "err", err)
}

func (r *reading) directory(path, name string) {
	entries, err := os.ReadDir(path)
	if err != nil {
		r.failed(path, err)
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
			r.failed(full, fmt.Errorf("more than %d files", maxFiles))
			return
		default:
			if err := r.file(full, base, named); err != nil {
				r.failed(full, err)
			}
		}
	}
}

// file takes a file. Of two that have one name, a/b.yaml and a.b.yaml, the later
// counts.
func (r *reading) file(path, base, name string) error {
	at, known := r.named[name]
	if !known {
		at = -1
	}
	if strings.HasPrefix(name, r.prefix) && isRules(base) {
		// One that is too large comes a byte too large, for the service to refuse by name.
		data, err := regular.ReadPrefix(path, envoy.MaxFileBytes+1)
		if err != nil {
			return err
		}
		f := envoy.File{Name: name, Content: data}
		if at >= 0 {
			r.files[at] = f
		} else {
			at = len(r.files)
			r.files = append(r.files, f)
		}
	}
	r.named[name] = at
	return nil
}

// isRules reports whether a file of that name holds rules.
func isRules(name string) bool {
	return strings.HasSuffix(name, ".yaml") || strings.HasSuffix(name, ".yml")
}
