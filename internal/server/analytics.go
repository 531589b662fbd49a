package server

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
	"github.com/weirlimit/weir/internal/insight/analytics"
	"github.com/weirlimit/weir/internal/insight/analytics/postgres"
	"github.com/weirlimit/weir/internal/insight/analytics/rows"
	"github.com/weirlimit/weir/internal/insight/analytics/sqlite"
	"github.com/weirlimit/weir/internal/insight/event"
	"github.com/weirlimit/weir/internal/redact"
)

// Analytics configures what is kept of events and asked about.
type Analytics struct {
	URL               string        `yaml:"url" name:"analytics" default:"memory:" placeholder:"URL" help:"Database of analytics and the dashboard. It keeps events for /v1/analytics/ on the admin port: memory:, sqlite:PATH or postgres://USER:PASSWORD@HOST:PORT/DATABASE, see docs/reference/analytics.md; off keeps nothing. memory: keeps the events of this process alone: where they go to a queue it means off, as other processes would miss what is taken out of it."`
	KeepMinutes       time.Duration `yaml:"retention_minutes" name:"analytics-retention-minutes" kong:"-" was:"analytics-keep-minutes" default:"0s" placeholder:"DURATION" least:"1h" or:"0" help:"Retention of counts by the minute. 0 means 168h, a week; 24h in memory."`
	KeepHours         time.Duration `yaml:"retention_hours" name:"analytics-retention-hours" kong:"-" was:"analytics-keep-hours" default:"0s" placeholder:"DURATION" least:"1h" or:"0" help:"Retention of counts by the hour. 0 means 2160h, 90 days; 24h in memory."`
	KeepDays          time.Duration `yaml:"retention_days" name:"analytics-retention-days" kong:"-" was:"analytics-keep-days" default:"0s" placeholder:"DURATION" least:"1h" or:"0" help:"Retention of counts by the day. 0 means 26280h, three years; 24h in memory."`
	KeepClientMinutes time.Duration `yaml:"retention_client_minutes" name:"analytics-retention-client-minutes" kong:"-" was:"analytics-keep-client-minutes" default:"0s" placeholder:"DURATION" least:"1h" or:"0" help:"Retention of clients by the minute. 0 means 48h; 24h in memory."`
	KeepClientHours   time.Duration `yaml:"retention_client_hours" name:"analytics-retention-client-hours" kong:"-" was:"analytics-keep-client-hours" default:"0s" placeholder:"DURATION" least:"1h" or:"0" help:"Retention of clients by the hour. 0 means 720h, 30 days; 24h in memory."`
	MaxClients        int64         `yaml:"max_clients" name:"analytics-max-clients" kong:"-" default:"0" placeholder:"N" least:"10" most:"100000" or:"0" help:"Most clients of a limit in a minute or an hour. 10 to 100000; the others are merged. 0 means 1000; 200 in memory."`
	MaxBytes          Bytes         `yaml:"max_bytes" name:"analytics-max-bytes" kong:"-" default:"0" placeholder:"BYTES" help:"Most bytes of all rows; above it the oldest are deleted. 0 means 8GiB in a file, 128MiB in memory, and no bound in PostgreSQL."`
}

// openDatabase opens the database at a URL. A database that is reached is made ready. With
// an error what is returned is nothing to use or to close.
type openDatabase func(ctx context.Context, url string) (rows.Database, error)

// databaseKind is a database that keeps what events tell.
type databaseKind struct {
	open openDatabase
	// late reports whether what went wrong may pass by itself. Nil means nothing may.
	late func(error) bool
}

// analyticsMemory keeps rows in this process.
const analyticsMemory = "memory:"

// kind returns the database that the URL names.
func (a *Analytics) kind() (databaseKind, error) {
	const flag = "--analytics (analytics.url)"
	if rest, ok := strings.CutPrefix(a.URL, analyticsMemory); ok && rest != "" {
		return databaseKind{}, fmt.Errorf("%s: memory: takes nothing: leave %q out", flag, rest)
	}
	return kindOf(flag, "sqlite:weir.db, or memory: or off", a.URL, databases)
}

// options returns what the service is made with.
func (a *Analytics) options(log *slog.Logger) analytics.Options {
	return analytics.Options{Log: log, Bounds: rows.Bounds{
		KeepMinutes: a.KeepMinutes, KeepHours: a.KeepHours, KeepDays: a.KeepDays,
		KeepClientMinutes: a.KeepClientMinutes, KeepClientHours: a.KeepClientHours,
		MaxClients: int(a.MaxClients), MaxBytes: int64(a.MaxBytes),
	}}
}

// check reports what is wrong with a that can be seen without opening anything.
func (a *Analytics) check() error {
	if a.URL == eventsOff {
		return nil
	}
	_, err := a.kind()
	return err
}

// analyticsService runs the service on a database that may come later. Safe for concurrent use.
type analyticsService struct {
	conf   *Analytics
	kind   databaseKind
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
func newAnalyticsService(conf *Analytics, source event.Source, log *slog.Logger, register func(prometheus.Collector) error) (*analyticsService, error) {
	kind, err := conf.kind()
	if err != nil {
		return nil, err
	}
	a := &analyticsService{conf: conf, kind: kind, source: source, log: log, register: register}
	if c := analytics.SourceCollector(source); c != nil {
		if err := register(c); err != nil {
			return nil, errors.Join(err, a.close())
		}
	}
	if conf.URL == analyticsMemory {
		return a, nil
	}
	if err := a.open(context.Background()); err != nil {
		if kind.late == nil || !kind.late(err) {
			return nil, fmt.Errorf("--analytics: %w", errors.Join(err, a.close()))
		}
		log.Warn("started without the analytics database; will retry, events wait in the queue", "err", err)
	}
	return a, nil
}

// open opens the database and makes the service.
func (a *analyticsService) open(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, openWithin)
	defer cancel()
	if a.db == nil {
		db, err := a.kind.open(ctx, a.conf.URL)
		if err != nil {
			return err
		}
		a.db = db
	}
	service, err := analytics.New(a.db, a.conf.options(a.log))
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
		w.Header().Set("Retry-After", "1")
		answer.Problem{Status: http.StatusServiceUnavailable, Detail: "the database of analytics is not open yet"}.Write(w)
		return
	}
	s.handler.ServeHTTP(w, r)
}

// alarm says what is not counted, empty where all is.
func (a *analyticsService) alarm() string {
	s := a.service.Load()
	switch {
	case s == nil && a.conf.URL != analyticsMemory:
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

// ready reports whether the database is open.
func (a *analyticsService) ready() bool { return a.service.Load() != nil }

// run begins to count.
func (a *analyticsService) run() {
	ctx, stop := context.WithCancel(context.Background())
	a.stop = stop
	a.running.Go(func() {
		if !a.ready() && !a.openLate(ctx) {
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
	awaited := a.conf.URL != analyticsMemory
	opened := openAtLast(ctx, openAgain, "", a.open, func(err error) {
		awaited = true
		a.log.Warn("analytics database unavailable; will retry", "err", err)
	})
	if opened && awaited {
		a.log.Info("analytics database opened")
	}
	return opened
}

// end ends counting: at once, or after what a local queue holds, for some seconds at
// most, when that was closed. Events that are not counted then stay with the queue.
func (a *analyticsService) end(local bool) {
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
	a.end(false)
	err := a.source.Close()
	if a.db != nil {
		err = errors.Join(err, a.db.Close())
	}
	return err
}

// analyticsPath is where questions are asked.
const analyticsPath = "/v1/analytics/"

// checkAnalytics reports what makes no sense in the section analytics.
func (c *Config) checkAnalytics() error {
	if c.Events.URL == eventsOff && c.Analytics.URL != eventsOff && c.Analytics.URL != analyticsMemory {
		return fmt.Errorf("--analytics %s has nothing to keep: leave --events off out", redact.URL(c.Analytics.URL))
	}
	return c.Analytics.check()
}

// openAnalytics makes what keeps events, from the queue that they go to.
func (s *Server) openAnalytics() (err error) {
	if s.events == nil || !s.conf.keeps() {
		return nil
	}
	var source event.Source = s.events.local
	if s.events.local == nil {
		kind, err := queueOf("--events", s.conf.Events.URL)
		if err != nil {
			return err
		}
		if source, err = kind.consume(s.conf.Events.URL, s.log); err != nil {
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
	s.analytics.end(local != nil)
}

// analyticsHandler answers questions.
func (s *Server) analyticsHandler() http.Handler {
	if s.analytics == nil {
		return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			why := "nothing is kept: see --analytics"
			if e := &s.conf.Events; e.URL != eventsOff && !e.here() && s.conf.Analytics.URL == analyticsMemory {
				why = "events go to a queue: ask the weir analytics that takes them out of it, or give --analytics sqlite:PATH or postgres://..."
			}
			answer.Problem{Status: http.StatusNotFound, Detail: why}.Write(w)
		})
	}
	return http.NewCrossOriginProtection().Handler(s.analytics)
}

// openSQLite opens sqlite:PATH, which sqlite:///PATH is too, or one in memory.
func openSQLite(ctx context.Context, url string) (rows.Database, error) {
	if url == analyticsMemory {
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
