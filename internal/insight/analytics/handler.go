package analytics

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"time"

	"github.com/weirlimit/weir/answer"
	"github.com/weirlimit/weir/internal/insight/analytics/query"
	"github.com/weirlimit/weir/internal/insight/analytics/report"
	"github.com/weirlimit/weir/internal/insight/analytics/rows"
)

// maxAnswerTime bounds how long an answer is worked on.
const maxAnswerTime = 30 * time.Second

// Handler answers GET /v1/analytics/... Who may ask is the caller's concern. Safe for
// concurrent use.
func (s *Service) Handler() http.Handler {
	m := http.NewServeMux()
	for _, q := range report.ListQuestions() {
		m.Handle(report.Prefix+q.Path, s.handleQuestion(q))
	}
	m.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) {
		problem(w, http.StatusNotFound, http.StatusText(http.StatusNotFound), "")
	})
	return m
}

// Paths returns what the handler serves, as patterns of net/http.
func Paths() []string {
	var paths []string
	for _, q := range report.ListQuestions() {
		paths = append(paths, "GET "+report.Prefix+q.Path)
	}
	return paths
}

// handleQuestion answers a question.
func (s *Service) handleQuestion(q report.Question) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			w.Header().Set("Allow", "GET, HEAD")
			problem(w, http.StatusMethodNotAllowed, http.StatusText(http.StatusMethodNotAllowed), "")
			return
		}
		a, err := query.ParseParams(r.URL.RawQuery, q.Takes, s.opt.Now(), &s.opt.Bounds)
		if err == nil {
			err = a.ReadPath(r)
		}
		if err != nil {
			s.sendError(w, err)
			return
		}
		ctx, cancel := context.WithTimeout(r.Context(), maxAnswerTime)
		defer cancel()
		out, err := s.answerQuestion(ctx, q, a)
		if err != nil && errors.Is(ctx.Err(), context.DeadlineExceeded) {
			err = errors.Join(ctx.Err(), err) // which databases call by other names
		}
		if err != nil {
			s.sendError(w, err)
			return
		}
		sendJSON(w, out)
	})
}

// answerQuestion makes the answer to a question.
func (s *Service) answerQuestion(ctx context.Context, q report.Question, a *query.Ask) (any, error) {
	if q.Read == nil {
		return s.readSystem(ctx)
	}
	var compute func() (any, error)
	err := rows.ViewRows(ctx, s.db, func(in *rows.Statements) {
		compute = q.Read(query.NewReader(a, in, &s.opt.Bounds, s.db.Dialect().ByClient, s.Uncounted()))
	})
	if err != nil {
		return nil, err
	}
	return compute()
}

// sendError answers an error: what was asked is wrong, or the database is.
func (s *Service) sendError(w http.ResponseWriter, err error) {
	if p, ok := errors.AsType[*query.ParamError](err); ok {
		problem(w, http.StatusBadRequest, p.What, p.Name)
		return
	}
	if !errors.Is(err, context.Canceled) && !s.outage.IsReported() && s.faults.IsDue() {
		s.opt.Log.Warn("query failed", "err", err)
	}
	detail := "the database does not answer; see the log"
	if errors.Is(err, context.DeadlineExceeded) {
		detail = "the database has not answered in " + maxAnswerTime.String() + ": give a shorter range, or see the log"
	}
	answer.Problem{Status: http.StatusServiceUnavailable, Detail: detail, RetryAfter: 1}.Write(w)
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
