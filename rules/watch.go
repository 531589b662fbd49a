package rules

import (
	"context"

	"github.com/weirlimit/weir/internal/filewatch"
)

// Watch reloads the rules when their files change, until ctx ends, and then
// returns nil. It sees files written in place and renamed over, the swap of a
// Kubernetes ConfigMap's ..data, and the swap of any symbolic link on the way
// to the files. What it is not told of, as on network file systems, it finds
// by looking every Options.Poll. Files that did not change are not compiled
// again.
func (l *Live) Watch(ctx context.Context) error {
	if l.paths == nil {
		return nil
	}
	w := filewatch.New(filewatch.Options{Settle: l.opt.Settle, Poll: l.opt.Poll, Log: l.opt.Logger, Name: "rules files"})
	defer w.Close()
	for {
		w.Follow(l.paths...)
		// The error is in the status and the log.
		_ = l.loadFiles(false)
		if _, err := w.Wait(ctx); err != nil {
			return nil
		}
	}
}
