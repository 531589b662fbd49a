package node

import (
	"log/slog"
	"net/url"
	"strings"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/config"
	"github.com/weirlimit/weir/internal/documents"
	"github.com/weirlimit/weir/internal/frontend/httpapi"
	"github.com/weirlimit/weir/internal/sketch"
	"github.com/weirlimit/weir/metrics"
	"github.com/weirlimit/weir/params"
	"github.com/weirlimit/weir/store/memory"
)

// openStore opens the store that a URL names.
type openStore func(conf *config.Config, log *slog.Logger) (openedStore, error)

// openedStore is a store and what else it can do.
type openedStore struct {
	weir.Store
	// name is that of its kind.
	name string
	// keyring looks at single keys. Nil if the store cannot.
	keyring httpapi.Keyring
	// stats is what the memory of this process says of itself, sketch of an
	// approximate limit.
	stats  func() metrics.Store
	sketch func(*weir.Limit) (sketch.Stats, bool)
	// board keeps bans and overrides, for all nodes if fleet. Nil if the store
	// keeps no documents.
	board documents.Board
	fleet bool
	// shared is what is said of a store that nodes share. Nil if none is.
	shared func() metrics.Shared
	// calls measures the calls of that store, redis is what a store on Redis says of
	// itself. Nil if there is none.
	calls *metrics.Calls
	redis func() metrics.Redis
	// check says why a limit cannot be served: that of its kind.
	check func(*weir.Limit) error
	// restarts says why a limit counts from zero where an earlier version of it has
	// counted, see rules.Options.
	restarts func(l, old *weir.Limit) string
	// alignedOnly: it keeps windows aligned to the epoch only.
	alignedOnly bool
	// follow has the calls of a store that nodes share followed. Nil if none is.
	follow func(followCall)
}

// degraded says that the store which nodes share does not answer, "" while it does.
func (s *openedStore) degraded() string {
	if s.shared == nil || s.shared().Up {
		return ""
	}
	return "degraded: the shared store is unavailable; decisions follow on_store_error"
}

// restartsOf returns why limits count from zero on nodes that share a store whose own
// word on that is shared.
func restartsOf(shared func(l, old *weir.Limit) string) func(l, old *weir.Limit) string {
	return func(l, old *weir.Limit) string {
		switch {
		case countsAlone(l) && countsAlone(old):
			return memory.Restarts(l, old)
		case countsAlone(l) || countsAlone(old):
			return "a node and the shared store count apart"
		}
		return shared(l, old)
	}
}

// countsAlone reports whether each node counts l on its own.
func countsAlone(l *weir.Limit) bool { return l.Consistency.Mode == params.ConsistencyLocal }

// timeoutOf returns the parameter timeout of a store's URL, whose other readers
// have checked it; zero if there is none.
func timeoutOf(text string) time.Duration {
	_, query, _ := strings.Cut(text, "?")
	values, err := url.ParseQuery(query)
	if err != nil {
		return 0
	}
	d, err := time.ParseDuration(values.Get("timeout"))
	if err != nil {
		return 0
	}
	return d
}

// storeMetrics translates what the memory store says of itself.
func storeMetrics(s memory.Stats) metrics.Store {
	return metrics.Store{
		Keys:        uint64(s.Keys),
		Bytes:       uint64(s.Bytes),
		Bound:       uint64(s.MaxBytes),
		Approximate: uint64(s.ApproximateBytes),
		Overflowed:  s.Overflowed,
		Full:        s.Overflows > 0,
	}
}
