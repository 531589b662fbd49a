package node

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/backoff"
	"github.com/weirlimit/weir/internal/documents"
	"github.com/weirlimit/weir/internal/frontend/httpapi"
	"github.com/weirlimit/weir/internal/redact"
	"github.com/weirlimit/weir/metrics"
	"github.com/weirlimit/weir/store/memcached"
	"github.com/weirlimit/weir/store/redis"
	"github.com/weirlimit/weir/store/shared"
)

// startServe is the value of --store-start with which a node starts without its
// store.
const startServe = "serve"

// theStore is the setting of the store that this node shares with others.
const theStore = "--store"

// openEvery is how long a node waits before it tries again to open its store.
const openEvery = time.Second

// A lateStore is a shared store that may not be there when the node starts. Until it
// was opened every call fails at once, so that limits are decided by their failure
// policies. Safe for concurrent use.
type lateStore[S weir.Store] struct {
	name string
	log  *slog.Logger
	// calls measures, failure says why a call failed.
	calls   *metrics.Calls
	failure func(error) metrics.Failure
	// follow is nil while nobody is followed.
	follow atomic.Pointer[followCall]

	store  atomic.Pointer[S]
	cancel context.CancelFunc
	done   sync.WaitGroup
}

// newLate returns the store that name names before it is opened. failure says why a call
// of it failed.
func newLate[S weir.Store](name string, log *slog.Logger, failure func(error) metrics.Failure) *lateStore[S] {
	return &lateStore[S]{name: name, log: log, calls: metrics.NewCalls(), failure: failure, cancel: func() {}}
}

// start opens the store, as setting has it. If it cannot be reached and late says so, it
// goes on trying; what a store that was reached says is wrong is an error all the same.
func (s *lateStore[S]) start(setting string, late bool, open func(context.Context) (S, error), unreachable func(error) bool) error {
	try := func(ctx context.Context) error {
		opened, err := open(ctx)
		if err == nil {
			s.store.Store(&opened)
		}
		return err
	}
	err := try(context.Background())
	switch {
	case err == nil:
		return nil
	case !unreachable(err):
		return fmt.Errorf("%s: %w", setting, err)
	case !late:
		return fmt.Errorf("%s: %w; to start without it and decide by on_store_error until it is there give --store-start serve", setting, err)
	case setting == theStore:
		s.log.Warn("started without the store; decisions follow on_store_error until it is reached", "store", s.name, "err", err)
	default:
		s.log.Warn("started without another region; admission is bounded by max_overshoot until it is reached", "setting", setting, "store", s.name, "err", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	s.cancel = cancel
	s.done.Go(func() {
		began := time.Now()
		failed := func(err error) { s.log.Warn("store unavailable; will retry", "store", s.name, "err", err) }
		if backoff.Sleep(ctx, openEvery) && openAtLast(ctx, openEvery, err.Error(), try, failed) {
			s.log.Info("store reached", "store", s.name, "after", time.Since(began).Round(time.Millisecond))
		}
	})
	return nil
}

// logReached logs at the start what was reached, if it was.
func (s *lateStore[S]) logReached(opened openedStore, log *slog.Logger) {
	store, err := s.get()
	if err != nil || opened.shared == nil {
		return
	}
	version := ""
	if v, ok := any(store).(interface{ Version() string }); ok {
		version = v.Version()
	}
	log.Info("store reached", "store", s.name, "version", version, "nodes", opened.shared().Nodes)
}

// reached reports whether the store was opened.
func (s *lateStore[S]) reached() bool { return s.store.Load() != nil }

// errNotReached is what calls fail by until then.
var errNotReached = errors.New("the store was not reached since this node started")

// get returns the store, once it was opened.
func (s *lateStore[S]) get() (S, error) {
	if found := s.store.Load(); found != nil {
		return *found, nil
	}
	var none S
	return none, errNotReached
}

// followCall is told of a call that decides so many limits. It returns the context to
// make it in, and what is told the kind of its failure, empty for none, when it ends;
// nil for a call of nobody who is followed.
type followCall func(ctx context.Context, limits int) (context.Context, func(failure string))

// followBy has calls followed from now on.
func (s *lateStore[S]) followBy(f followCall) { s.follow.Store(&f) }

// begin is called before a call of so many limits.
func (s *lateStore[S]) begin(ctx context.Context, limits int) (context.Context, func(failure string)) {
	f := s.follow.Load()
	if f == nil {
		return ctx, nil
	}
	return (*f)(ctx, limits)
}

// note measures a call that has ended. report is what begin returned.
func (s *lateStore[S]) note(took time.Duration, err error, report func(failure string)) {
	why, word := metrics.NoFailure, ""
	if err != nil {
		why = s.failure(err)
		word = why.String()
	}
	s.calls.Observe(took, why)
	if report != nil {
		report(word)
	}
}

// countFailure counts a decision that is made without the store, or another call without an
// answer.
func (s *lateStore[S]) countFailure(err error) { s.calls.CountFailure(s.failure(err)) }

// netFailure tells failures of the network, and of what waits for it.
func netFailure(err error) metrics.Failure {
	var netErr net.Error
	switch {
	case errors.Is(err, shared.ErrOpen):
		return metrics.FailedOpen
	case errors.Is(err, shared.ErrBusy):
		return metrics.FailedBusy
	case errors.Is(err, context.Canceled):
		return metrics.FailedCanceled
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &netErr) && netErr.Timeout():
		return metrics.FailedTimeout
	case errors.As(err, &netErr), errors.Is(err, io.EOF):
		return metrics.FailedUnreachable
	}
	return metrics.FailedOther
}

// redisFailure tells why a call of Redis failed.
func redisFailure(err error) metrics.Failure {
	switch {
	case errors.Is(err, redis.ErrBusy):
		return metrics.FailedBusy
	case redis.Refused(err):
		return metrics.FailedRefused
	case redis.Lost(err):
		return metrics.FailedUnreachable
	}
	return netFailure(err)
}

// Take implements weir.Store. Only what no queue drives calls it.
func (s *lateStore[S]) Take(ctx context.Context, ops []weir.Op) error {
	store, err := s.get()
	if err != nil {
		return err
	}
	return store.Take(ctx, ops)
}

// TakeOne implements weir.Store.
func (s *lateStore[S]) TakeOne(ctx context.Context, key string, l *weir.Limit, cost int64) (weir.Decision, error) {
	store, err := s.get()
	if err != nil {
		return weir.Decision{}, err
	}
	return store.TakeOne(ctx, key, l, cost)
}

// Close implements weir.Store.
func (s *lateStore[S]) Close() error {
	s.cancel()
	s.done.Wait()
	if store, err := s.get(); err == nil {
		return store.Close()
	}
	return nil
}

// drivenRedis is driven by the queues of store/shared and store/region.
type drivenRedis struct {
	lateRedis
	*shared.LateStore
}

// drivenMemcached is driven by the queue of store/shared.
type drivenMemcached struct {
	*lateStore[*memcached.Store]
	*shared.LateStore
}

// lateRedis also keeps documents and looks at keys.
type lateRedis struct{ *lateStore[*redis.Store] }

var (
	_ documents.Board = lateRedis{}
	_ httpapi.Keyring = lateRedis{}
	_ weir.Store      = (*lateStore[*memcached.Store])(nil)
)

// stats is what the store says of itself, nothing before it was reached.
func (s lateRedis) stats() metrics.Redis {
	store, err := s.get()
	if err != nil {
		return metrics.Redis{}
	}
	st := store.Stats()
	return metrics.Redis{
		Requests: st.Calls, Scripts: st.Scripts, Reloads: st.Reloads, Waiting: st.InFlight,
		RolledBack: st.Rollbacks, Kept: st.Lost, Moved: st.Moved, Servers: st.Servers, Lost: st.LostServers, LostSlots: st.LostSlots,
	}
}

// ReadDocument implements documents.Board.
func (s lateRedis) ReadDocument(ctx context.Context, name string, known int64) (d documents.Document, err error) {
	store, err := s.get()
	if err == nil {
		d, err = store.ReadDocument(ctx, name, known)
	}
	return d, s.countDocument(err)
}

// SwapDocument implements documents.Board.
func (s lateRedis) SwapDocument(ctx context.Context, name string, was int64, d documents.Document) (documents.Document, error) {
	store, err := s.get()
	if err == nil {
		d, err = store.SwapDocument(ctx, name, was, d)
	}
	return d, s.countDocument(err)
}

// countDocument returns err of a call for a document, which it counts if there was no answer.
func (s lateRedis) countDocument(err error) error {
	if err != nil && !errors.Is(err, documents.ErrChanged) {
		s.countFailure(err)
	}
	return err
}

// Inspect implements httpapi.Keyring.
func (s lateRedis) Inspect(ctx context.Context, key string, l *weir.Limit) ([]int64, bool, error) {
	store, err := s.get()
	if err != nil {
		return nil, false, err
	}
	return store.Inspect(ctx, key, l)
}

// Forget implements httpapi.Keyring.
func (s lateRedis) Forget(ctx context.Context, key string, l *weir.Limit) (bool, error) {
	store, err := s.get()
	if err != nil {
		return false, err
	}
	return store.Forget(ctx, key, l)
}

// openDriven opens the Redis that url names, as setting has it, with options that have a
// Logger. See lateStore.start.
func openDriven(setting, url string, mayServe bool, opt redis.Options) (drivenRedis, error) {
	shards, tuning, err := redis.Layout(url, opt)
	if err != nil {
		return drivenRedis{}, fmt.Errorf("%s: %w", setting, err)
	}
	late := newLate[*redis.Store](redact.URL(url), opt.Logger, redisFailure)
	tuning.Begun, tuning.Ended, tuning.Failed = late.begin, late.note, late.countFailure
	driver := shared.NewLateStore(shards, tuning)
	open := func(ctx context.Context) (*redis.Store, error) {
		s, err := redis.Open(ctx, url, opt)
		if err == nil {
			driver.Reach(s)
		}
		return s, err
	}
	if err := late.start(setting, mayServe, open, redis.Unreachable); err != nil {
		return drivenRedis{}, err
	}
	return drivenRedis{lateRedis{late}, driver}, nil
}
