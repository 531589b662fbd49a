package node

import (
	"context"
	"log/slog"
	"sync"

	"github.com/weirlimit/weir/internal/certfile"
	"github.com/weirlimit/weir/internal/config"
	"github.com/weirlimit/weir/metrics"
)

// certificates are those of all listeners. They are opened before the node runs; what
// follows is safe for concurrent use.
type certificates struct {
	log *slog.Logger
	all []*certfile.Certificate
}

// openCertificate is [config.TLS.OpenCertificate], and keeps what it opened.
func (c *certificates) openCertificate(files config.TLS, client string) (*certfile.Certificate, error) {
	f, err := files.OpenCertificate(client, c.log)
	if err != nil || f == nil {
		return nil, err
	}
	c.all = append(c.all, f)
	return f, nil
}

// reloadFiles reads all files again. A broken one is logged, and the last good one stays.
func (c *certificates) reloadFiles() {
	for _, f := range c.all {
		f.Reload()
	}
}

// watchFiles follows the files until ctx ends.
func (c *certificates) watchFiles(ctx context.Context) {
	var watchers sync.WaitGroup
	for _, f := range c.all {
		watchers.Go(func() { f.Watch(ctx) })
	}
	watchers.Wait()
}

// metrics says when the certificates end.
func (c *certificates) metrics() []metrics.Certificate {
	out := make([]metrics.Certificate, len(c.all))
	for i, f := range c.all {
		out[i] = metrics.Certificate{File: f.File(), Expires: f.Expires()}
	}
	return out
}
