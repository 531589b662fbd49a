package ratelimit

import (
	"io/fs"
	"path/filepath"
	"strings"

	"github.com/weirlimit/weir/internal/certfile"
	"github.com/weirlimit/weir/internal/compat/envoy/stats"
)

// certStats counts, at each flush, how often the certificate has been loaded, and
// the files beside it, as the original does for the directory that it watches.
func certStats(scope *stats.Scope, cert *certfile.Certificate, dir string) {
	attempts, files := scope.Counter("load_attempts"), scope.Gauge("num_values")
	scope.Counter("load_failures")
	last := ""
	scope.Generate(func() {
		pair, err := cert.Config().GetCertificate(nil)
		if err != nil || len(pair.Certificate) == 0 || string(pair.Certificate[0]) == last {
			return
		}
		last = string(pair.Certificate[0])
		attempts.Inc()
		files.Set(countFiles(dir))
	})
}

// countFiles returns how many files there are below a directory, without those
// that begin with a dot. What cannot be read is not counted.
func countFiles(dir string) (n uint64) {
	_ = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return nil
		case path != dir && strings.HasPrefix(d.Name(), "."):
			if d.IsDir() {
				return fs.SkipDir
			}
		case !d.IsDir() && n < maxFiles:
			n++
		}
		return nil
	})
	return n
}
