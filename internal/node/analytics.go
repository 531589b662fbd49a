package node

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/weirlimit/weir/answer"
	"github.com/weirlimit/weir/internal/config"
	"github.com/weirlimit/weir/internal/insight/analytics"
	"github.com/weirlimit/weir/internal/insight/analytics/postgres"
	"github.com/weirlimit/weir/internal/insight/analytics/rows"
	"github.com/weirlimit/weir/internal/insight/analytics/sqlite"
	"github.com/weirlimit/weir/internal/insight/event"
)

// openDatabase opens the database at a URL. A database that is reached is made ready. With
// an error what is returned is nothing to use or to close.
type openDatabase func(ctx context.Context, url string) (rows.Database, error)

// database is how a database is opened that keeps what events tell.
type database struct {
	open openDatabase
	// late reports whether what went wrong may pass by itself. Nil means nothing may.
	late func(error) bool
}

// analyticsService runs the service on a database that may come later. Safe for concurrent use.
type analyticsService struct {
	conf   *config.Analytics
	kind   database
	source event.Source
	log    *slog.Logger
	// register is given the service's metrics.
	register func(prometheus.Collector) error

	db rows.Database // nil until it was opened
	// service is nil until then.
	service atomic.Pointer[answering]
	// stopped is why nothing is counted any more, nil while it is.
	stopped atomic.Pointer[error]

	running sync.WaitGroup
	stop    context.CancelFunc // nil until run
	ended   sync.Once
}

// answering is a service and its handler.
type answering struct {
	*analytics.Service
	handler http.Handler
}

const (
	// openWithin bounds one attempt to open a database, openAgain is after how long it
	// is made again.
	openWithin, openAgain = 10 * time.Second, 2 * time.Second
	// countWithin is how long what is left may take to be counted at the end.
	countWithin = 5 * time.Second
)

// newAnalyticsService opens the database. One in memory is opened when it runs, and one that
// is away is tried again; other errors are returned.
func newAnalyticsService(conf *config.Analytics, source event.Source, log *slog.Logger, register func(prometheus.Collector) error) (*analyticsService, error) {
	kind, err := conf.DatabaseKind()
	if err != nil {
		return nil, err
	}
	a := &analyticsService{conf: conf, kind: databases[kind], source: source, log: log, register: register}
	if c := analytics.SourceCollector(source); c != nil {
		if err := register(c); err != nil {
			return nil, errors.Join(err, a.close())
		}
	}
	if conf.URL == config.AnalyticsMemory {
		return a, nil
	}
	if err := a.openDatabase(context.Background()); err != nil {
		if a.kind.late == nil || !a.kind.late(err) {
			return nil, fmt.Errorf("--analytics: %w", errors.Join(err, a.close()))
		}
		log.Warn("started without the analytics database; will retry, events wait in the queue", "err", err)
	}
	return a, nil
}

// openDatabase opens the database and makes the service.
func (a *analyticsService) openDatabase(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, openWithin)
	defer cancel()
	if a.db == nil {
		db, err := a.kind.open(ctx, a.conf.URL)
		if err != nil {
			return err
		}
		a.db = db
	}
	service, err := analytics.New(a.db, a.conf.Options(a.log))
	if err == nil {
		err = a.register(service.Collector())
	}
	if err != nil {
		return err
	}
	a.service.Store(&answering{service, service.Handler()})
	return nil
}

// ServeHTTP implements http.Handler.
func (a *analyticsService) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s := a.service.Load()
	if s == nil {
		answer.Problem{Status: http.StatusServiceUnavailable, Detail: "the database of analytics is not open yet", RetryAfter: 1}.Write(w)
		return
	}
	s.handler.ServeHTTP(w, r)
}

// findAlarm says what is not counted, empty where all is.
func (a *analyticsService) findAlarm() string {
	s := a.service.Load()
	switch {
	case s == nil && a.conf.URL != config.AnalyticsMemory:
		return "no decision is counted yet: the database of analytics is not open"
	case s == nil:
		return ""
	}
	if err := a.stopped.Load(); err != nil {
		return "decisions are not counted any more: " + (*err).Error()
	}
	if u := s.Uncounted(); u != nil {
		return fmt.Sprintf("decisions since %s are not counted yet: %s", u.Since.Format(clock), u.Reason)
	}
	return ""
}

// isReady reports whether the database is open.
func (a *analyticsService) isReady() bool { return a.service.Load() != nil }

// startCounting begins to count.
func (a *analyticsService) startCounting() {
	ctx, stop := context.WithCancel(context.Background())
	a.stop = stop
	a.running.Go(func() {
		if !a.isReady() && !a.openLate(ctx) {
			return
		}
		if err := a.service.Load().Run(ctx, a.source); err != nil && ctx.Err() == nil {
			a.log.Error("event counting stopped", "err", err)
			a.stopped.Store(&err)
		}
	})
}

// openLate opens the database, however often that has to be tried, until ctx ends.
func (a *analyticsService) openLate(ctx context.Context) bool {
	awaited := a.conf.URL != config.AnalyticsMemory
	opened := openAtLast(ctx, openAgain, "", a.openDatabase, func(err error) {
		awaited = true
		a.log.Warn("analytics database unavailable; will retry", "err", err)
	})
	if opened && awaited {
		a.log.Info("analytics database opened")
	}
	return opened
}

// endCounting ends counting: at once, or after what a local queue holds, for some seconds at
// most, when that was closed. Events that are not counted then stay with the queue.
func (a *analyticsService) endCounting(local bool) {
	a.ended.Do(func() {
		if a.stop == nil {
			return
		}
		if local {
			defer time.AfterFunc(countWithin, a.stop).Stop()
		} else {
			a.stop()
		}
		a.running.Wait()
		a.stop()
	})
}

// close ends everything. Nobody asks any more.
func (a *analyticsService) close() error {
	a.endCounting(false)
	err := a.source.Close()
	if a.db != nil {
		err = errors.Join(err, a.db.Close())
	}
	return err
}

// analyticsPath is where questions are asked.
const analyticsPath = "/v1/analytics/"

// openAnalytics makes what keeps events, from the queue that they go to.
func (s *Server) openAnalytics() (err error) {
	if s.events == nil || !s.conf.KeepsEvents() {
		return nil
	}
	var source event.Source = s.events.local
	if s.events.local == nil {
		kind, err := config.FindQueueKind("--events", s.conf.Events.URL)
		if err != nil {
			return err
		}
		if source, err = queues[kind].consume(s.conf.Events.URL, s.log); err != nil {
			return fmt.Errorf("--events: %w", err)
		}
	}
	if s.analytics, err = newAnalyticsService(&s.conf.Analytics, source, s.log, s.metrics.Register); err == nil {
		s.closers = append(s.closers, s.analytics.close)
	}
	return err
}

// endAnalytics counts what is left when nothing more comes.
func (s *Server) endAnalytics() {
	local := s.events.local
	if local != nil {
		_ = local.Close() // it has no errors
	}
	s.analytics.endCounting(local != nil)
}

// analyticsHandler answers questions.
func (s *Server) analyticsHandler() http.Handler {
	if s.analytics == nil {
		return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			why := "nothing is kept: see --analytics"
			if e := &s.conf.Events; e.URL != config.Off && !e.IsLocal() && s.conf.Analytics.URL == config.AnalyticsMemory {
				why = "events go to a queue: ask the weir analytics that takes them out of it, or give --analytics sqlite:PATH or postgres://..."
			}
			answer.Problem{Status: http.StatusNotFound, Code: "DISABLED", Detail: why}.Write(w)
		})
	}
	return sameOrigin(s.analytics)
}

// openSQLite opens sqlite:PATH, which sqlite:///PATH is too, or one in memory.
func openSQLite(ctx context.Context, url string) (rows.Database, error) {
	if url == config.AnalyticsMemory {
		return sqlite.Open(ctx, sqlite.Memory)
	}
	return sqlite.Open(ctx, strings.TrimPrefix(strings.TrimPrefix(url, "sqlite:"), "//"))
}

func openPostgres(ctx context.Context, url string) (rows.Database, error) {
	return postgres.Open(ctx, url)
}

// postgresLate reports whether a PostgreSQL is away, or on its way: what it says of
// passwords, names and tables does not pass by itself.
func postgresLate(err error) bool {
	if _, ok := errors.AsType[*pgconn.ParseConfigError](err); ok || errors.Is(err, rows.ErrNewer) {
		return false
	}
	if pgErr, ok := errors.AsType[*pgconn.PgError](err); ok {
		// Connection exceptions, insufficient resources, operator intervention.
		return slices.Contains([]string{"08", "53", "57"}, pgErr.Code[:min(len(pgErr.Code), 2)])
	}
	return true
}
