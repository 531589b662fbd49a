package analytics

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"time"

	"github.com/weirlimit/weir/answer"
)

const (
	// maxAnswerTime bounds how long an answer is worked on.
	maxAnswerTime = 30 * time.Second
	prefix        = "/v1/analytics/"
)

// question is what a path answers.
type question struct {
	path   string
	takes  takes
	report func(ctx context.Context, s *Service, a *ask) (any, error)
}

// on is a question that is answered from one state of the rows.
func on[T any](path string, t takes, report func(*reader) T) question {
	return onLater(path, t, func(r *reader) func() (T, error) {
		out := report(r)
		return func() (T, error) { return out, nil }
	})
}

// onLater is a question whose answer is computed of what was read, which needs no
// connection, of which a database in memory has one.
func onLater[T any](path string, t takes, report func(*reader) func() (T, error)) question {
	return question{path, t, func(ctx context.Context, s *Service, a *ask) (any, error) {
		var compute func() (T, error)
		err := s.db.View(ctx, asTx(func(in *statements) {
			r := &reader{ask: a, statements: in, opt: &s.opt, hint: s.db.Dialect().ByClient, uncounted: s.Uncounted()}
			r.loadLimits()
			compute = report(r)
		}))
		if err != nil {
			return nil, err
		}
		return compute()
	}}
}

// ruleTakes and clientTakes are those of one rule and of one client, which two paths have each.
var (
	ruleTakes   = takes{filters: []string{"domain", "rule", "limit", "algorithm"}, step: true, ranged: true}
	clientTakes = takes{filters: append([]string{"key"}, limitFilters...), step: true, clients: true, ranged: true}
)

var questions = []question{
	on("overview", takes{filters: allFilters, top: 5, ranged: true}, reportOverview),
	on("series", takes{filters: allFilters, by: []string{"outcome", "rule", "limit", "domain", "node", "region", "request"}, step: true, top: 10, ranged: true}, reportSeries),
	on("top", takes{filters: limitFilters, by: []string{"path", "tier", "agent", "network", "address", "user"}, top: 50, clients: true, ranged: true}, reportTop),
	on("rules", takes{filters: limitFilters, sort: []string{"refused", "decisions", "share", "keys"}, top: 500, ranged: true}, reportRules),
	on("rule", ruleTakes, reportRule),
	on("rules/{domain}/{rule}", ruleTakes, reportRule),
	on("rates", takes{filters: clientFilters, top: 200, clients: true, ranged: true}, reportRates),
	on("clients", takes{filters: append([]string{"verdict"}, clientFilters...), clients: true, top: 50, ranged: true,
		sort: []string{"refused", "decisions", "overshoot", "early", "last", "units"}}, reportClients),
	on("client", clientTakes, reportClient),
	on("clients/{key}", clientTakes, reportClient),
	onLater("accuracy", takes{filters: append([]string{"key"}, limitFilters...), clients: true, ranged: true}, reportAccuracy),
	onLater("replay", takes{filters: []string{"domain", "rule", "limit", "key"}, edits: true, step: true, top: 20, ranged: true}, reportReplay),
	on("upstream", takes{filters: originFilters, step: true, ranged: true}, reportUpstream),
	on("latency", takes{filters: originFilters, step: true, ranged: true}, reportLatency),
	on("filters", takes{filters: limitFilters, top: 200, ranged: true}, reportFilters),
	{"system", takes{}, func(ctx context.Context, s *Service, _ *ask) (any, error) { return s.system(ctx) }},
}

// Handler answers GET /v1/analytics/... Who may ask is the caller's concern. Safe for
// concurrent use.
func (s *Service) Handler() http.Handler {
	m := http.NewServeMux()
	for _, q := range questions {
		m.Handle("GET "+prefix+q.path, s.handle(q))
	}
	return s.guarded(m)
}

// Paths returns what the handler serves, as patterns of net/http.
func Paths() []string {
	var paths []string
	for _, q := range questions {
		paths = append(paths, "GET "+prefix+q.path)
	}
	return paths
}

// guarded answers what the paths do not know as they answer.
func (s *Service) guarded(m *http.ServeMux) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, pattern := m.Handler(r); pattern == "" {
			// Which of the two it is the mux knows.
			probe := &statusOnly{header: http.Header{}}
			m.ServeHTTP(probe, r)
			if allow := probe.header.Get("Allow"); allow != "" {
				w.Header().Set("Allow", allow)
			}
			status := max(probe.status, http.StatusNotFound)
			problem(w, status, http.StatusText(status), "")
			return
		}
		m.ServeHTTP(w, r)
	})
}

// statusOnly keeps the status of an answer.
type statusOnly struct {
	header http.Header
	status int
}

func (s *statusOnly) Header() http.Header         { return s.header }
func (s *statusOnly) Write(b []byte) (int, error) { return len(b), nil }
func (s *statusOnly) WriteHeader(status int)      { s.status = status }

// handle answers a question.
func (s *Service) handle(q question) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		a, err := parse(r.URL.RawQuery, q.takes, s.opt.Now(), &s.opt)
		if err == nil {
			err = a.takePath(r)
		}
		if err != nil {
			s.failed(w, err)
			return
		}
		ctx, cancel := context.WithTimeout(r.Context(), maxAnswerTime)
		defer cancel()
		out, err := q.report(ctx, s, a)
		if err != nil && errors.Is(ctx.Err(), context.DeadlineExceeded) {
			err = errors.Join(ctx.Err(), err) // which databases call by other names
		}
		if err != nil {
			s.failed(w, err)
			return
		}
		sendJSON(w, out)
	})
}

// failed answers an error: what was asked is wrong, or the database is.
func (s *Service) failed(w http.ResponseWriter, err error) {
	if p, ok := errors.AsType[*paramError](err); ok {
		problem(w, http.StatusBadRequest, p.what, p.name)
		return
	}
	if !errors.Is(err, context.Canceled) && !s.outage.IsReported() && s.faults.IsDue() {
		s.opt.Log.Warn("query failed", "err", err)
	}
	detail := "the database does not answer; see the log"
	if errors.Is(err, context.DeadlineExceeded) {
		detail = "the database has not answered in " + maxAnswerTime.String() + ": give a shorter range, or see the log"
	}
	w.Header().Set("Retry-After", "1")
	problem(w, http.StatusServiceUnavailable, detail, "")
}

// problem answers with a problem document.
func problem(w http.ResponseWriter, status int, detail, parameter string) {
	p := answer.Problem{Status: status, Detail: detail}
	if parameter != "" {
		p.Detail = parameter + ": " + detail
		p.Errors = []answer.FieldError{{Detail: detail, Parameter: parameter}}
	}
	p.Write(w)
}

func sendJSON(w http.ResponseWriter, v any) {
	body, err := json.Marshal(v)
	if err != nil {
		panic("analytics: an answer cannot be written: " + err.Error())
	}
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Content-Length", strconv.Itoa(len(body)+1))
	// Whoever asked and has left gets nothing.
	_, _ = w.Write(append(body, '\n'))
}

// takePath reads the words of the path.
func (a *ask) takePath(r *http.Request) error {
	for name, list := range map[string]*[]string{"domain": &a.domains, "rule": &a.rules, "key": &a.keys} {
		v := r.PathValue(name)
		switch {
		case v == "":
			continue
		case *list != nil:
			return &paramError{name, "is in the path already"}
		case len(v) > maxValue:
			return &paramError{name, "has " + strconv.Itoa(len(v)) + " bytes: at most " + strconv.Itoa(maxValue) + " are read"}
		}
		*list = []string{text(v)}
	}
	return nil
}
