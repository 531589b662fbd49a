package client

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/checks"
	"github.com/weirlimit/weir/internal/retryafter"
)

// HTTPOptions configures [NewHTTP].
type HTTPOptions struct {
	// URL of the service, http://HOST:PORT or https://, with the path it is served
	// under if there is one. Zero means "http://localhost:8080".
	URL string
	// Header is sent with each request, for a proxy before the service, or with its
	// admin token as Authorization where it trusts nobody else. Zero means none.
	Header http.Header
	// Transport sends the requests. Nil means one of its own, which keeps 64
	// connections open.
	Transport http.RoundTripper
}

// NewHTTP returns the way over the HTTP API. It returns an error when the URL
// cannot be used.
func NewHTTP(opt HTTPOptions) (Wire, error) {
	if opt.URL == "" {
		opt.URL = "http://localhost:8080"
	}
	base, err := url.Parse(opt.URL)
	switch {
	case err != nil:
		return nil, fmt.Errorf("client: %w", err)
	case base.Scheme != "http" && base.Scheme != "https", base.Host == "", base.RawQuery != "", base.Fragment != "":
		return nil, fmt.Errorf("client: URL %q: write it as http://HOST:PORT", opt.URL)
	}
	w := &httpWire{base: strings.TrimRight(base.String(), "/"), header: opt.Header, transport: opt.Transport}
	if w.transport == nil {
		w.transport = &http.Transport{
			Proxy:               http.ProxyFromEnvironment,
			DialContext:         (&net.Dialer{Timeout: 5 * time.Second}).DialContext,
			TLSHandshakeTimeout: 5 * time.Second,
			MaxIdleConnsPerHost: 64, IdleConnTimeout: 90 * time.Second,
			MaxResponseHeaderBytes: 64 << 10, ForceAttemptHTTP2: true,
			DisableCompression: true,
			// A connection whose other end is gone would else be tried for minutes.
			HTTP2: &http.HTTP2Config{SendPingTimeout: 5 * time.Second, PingTimeout: 5 * time.Second},
		}
	}
	return w, nil
}

type httpWire struct {
	base      string
	header    http.Header
	transport http.RoundTripper
}

// Sizes of answers, in bytes. One decision that met 64 descriptors' limits has
// some 20 KiB.
const (
	maxAnswer      = 1 << 20
	maxBatchAnswer = 32 << 20
	maxProblem     = 64 << 10
)

func (w *httpWire) Decide(ctx context.Context, list []Check, peek bool) ([]Decision, error) {
	path := "/v1/check"
	if peek {
		path = "/v1/peek"
	}
	if len(list) == 1 {
		one, err := w.askDecision(ctx, path, list[0])
		if err != nil {
			return nil, err
		}
		return []Decision{one}, nil
	}
	bodies := make([]checkBody, len(list))
	for i := range list {
		bodies[i] = encodeCheck(&list[i])
	}
	var batch struct {
		Results []decision `json:"results"`
	}
	if err := w.postQuestion(ctx, path, "", map[string][]checkBody{"checks": bodies}, maxBatchAnswer, &batch); err != nil {
		return nil, err
	}
	if len(batch.Results) != len(list) {
		return nil, fmt.Errorf("weir: %d results for %d checks", len(batch.Results), len(list))
	}
	out := make([]Decision, len(list))
	for i := range out {
		var err error
		if out[i], err = batch.Results[i].decode(); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func (w *httpWire) Reserve(ctx context.Context, c Check) (Decision, string, time.Time, error) {
	var res struct {
		decision
		Handle  string    `json:"handle"`
		Expires time.Time `json:"expires"`
	}
	if err := w.postQuestion(ctx, "/v1/reserve", c.IdempotencyKey, encodeCheck(&c), maxAnswer, &res); err != nil {
		return Decision{}, "", time.Time{}, err
	}
	d, err := res.decode()
	if err == nil && d.Allowed && res.Handle == "" {
		err = errors.New("weir: a reservation without a handle")
	}
	if err != nil {
		return Decision{}, "", time.Time{}, err
	}
	return d, res.Handle, res.Expires, nil
}

func (w *httpWire) Settle(ctx context.Context, handle string, actual int64) (Settlement, error) {
	path, body := "/v1/cancel", settling{Handle: handle}
	if actual >= 0 {
		path, body.Actual = "/v1/commit", &actual
	}
	var s struct {
		Reserved *int64 `json:"reserved"`
		Actual   int64  `json:"actual"`
	}
	if err := w.postQuestion(ctx, path, "", body, maxAnswer, &s); err != nil {
		return Settlement{}, err
	}
	if s.Reserved == nil {
		return Settlement{}, errors.New("weir: response without the reserved amount")
	}
	return Settlement{Reserved: *s.Reserved, Actual: s.Actual}, nil
}

func (w *httpWire) Acquire(ctx context.Context, c Check) (Decision, error) {
	return w.askDecision(ctx, "/v1/acquire", c)
}

func (w *httpWire) Renew(ctx context.Context, c Check) (Decision, error) {
	return w.askDecision(ctx, "/v1/renew", c)
}

func (w *httpWire) Release(ctx context.Context, c Check) (bool, error) {
	var res struct {
		Released *bool `json:"released"`
	}
	if err := w.postQuestion(ctx, "/v1/release", "", encodeCheck(&c), maxAnswer, &res); err != nil {
		return false, err
	}
	if res.Released == nil {
		return false, errors.New("weir: response without the release of the lease")
	}
	return *res.Released, nil
}

func (w *httpWire) Close() error {
	if t, ok := w.transport.(interface{ CloseIdleConnections() }); ok {
		t.CloseIdleConnections()
	}
	return nil
}

// askDecision asks one check that is answered by a decision.
func (w *httpWire) askDecision(ctx context.Context, path string, c Check) (Decision, error) {
	var d decision
	if err := w.postQuestion(ctx, path, c.IdempotencyKey, encodeCheck(&c), maxAnswer, &d); err != nil {
		return Decision{}, err
	}
	return d.decode()
}

// postQuestion sends a question, under an idempotency key if there is one, and reads the answer into v.
func (w *httpWire) postQuestion(ctx context.Context, path, key string, question any, most int64, v any) error {
	body, err := json.Marshal(question)
	if err != nil {
		return fmt.Errorf("weir: %w", err)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, w.base+path, bytes.NewReader(body))
	if err != nil {
		return fmt.Errorf("weir: %w", err)
	}
	maps.Copy(req.Header, w.header)
	req.Header.Set("Content-Type", "application/json")
	if key != "" { // with which the transport may send it again, on another connection
		req.Header.Set("Idempotency-Key", strconv.Quote(key))
	}
	// No http.Client: it would follow redirects, which repeat what must be asked
	// once.
	res, err := w.transport.RoundTrip(req)
	if err != nil {
		return fmt.Errorf("weir: %w", err)
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return problemOf(res)
	}
	data, err := io.ReadAll(io.LimitReader(res.Body, most+1))
	switch {
	case err != nil:
		return fmt.Errorf("weir: response of %s: %w", path, err)
	case int64(len(data)) > most:
		return fmt.Errorf("weir: response of %s has more than %d bytes", path, most)
	}
	if err := json.Unmarshal(data, v); err != nil {
		return fmt.Errorf("weir: response of %s is not from Weir: %w", path, err)
	}
	return nil
}

// problemOf returns what an answer that is no decision means.
func problemOf(res *http.Response) error {
	var p struct {
		Title    string `json:"title"`
		Code     string `json:"code"`
		Detail   string `json:"detail"`
		Reserved *int64 `json:"reserved"`
		Actual   *int64 `json:"actual"`
	}
	// What does not read is told by the status alone.
	data, _ := io.ReadAll(io.LimitReader(res.Body, maxProblem))
	_ = json.Unmarshal(data, &p)
	detail := cmp.Or(p.Detail, p.Title, "the service answered "+res.Status)
	switch s := res.StatusCode; {
	case s == http.StatusTooManyRequests || s == http.StatusServiceUnavailable:
		if wait, ok := retryafter.Parse(res, time.Now()); ok {
			return &Busy{RetryAfter: wait, Detail: detail}
		}
	case !strings.HasPrefix(res.Header.Get("Content-Type"), "application/problem+json"):
		// Somebody before the service, who does not know whether it would answer.
	case s == http.StatusBadRequest, s == http.StatusConflict, s == http.StatusGone, s == http.StatusRequestEntityTooLarge,
		s == http.StatusMisdirectedRequest,
		s == http.StatusUnprocessableEntity, s == http.StatusNotImplemented:
		out := &Error{Status: s, Code: p.Code, Detail: detail}
		if p.Reserved != nil && p.Actual != nil {
			out.Settled = &Settlement{*p.Reserved, *p.Actual}
		}
		return out
	}
	return fmt.Errorf("weir: %s (status %d)", detail, res.StatusCode)
}

// checkBody is a check as the API reads it.
type checkBody struct {
	Domain      string           `json:"domain,omitempty"`
	Descriptors []descriptorBody `json:"descriptors"`
	Cost        int64            `json:"cost,omitempty"`
	Priority    int              `json:"priority,omitempty"`
	Lease       string           `json:"lease,omitempty"`
}

type descriptorBody struct {
	Entries []weir.Entry `json:"entries"`
	Cost    int64        `json:"cost,omitempty"`
	Peek    bool         `json:"peek,omitempty"`
}

// settling is a commit as the API reads it, or without Actual a cancel.
type settling struct {
	Handle string `json:"handle"`
	Actual *int64 `json:"actual,omitempty"`
}

func encodeCheck(c *Check) checkBody {
	ds := make([]descriptorBody, len(c.Descriptors))
	for i, d := range c.Descriptors {
		if d.Entries == nil {
			d.Entries = []weir.Entry{} // null is no list
		}
		ds[i] = descriptorBody{d.Entries, d.Cost, d.Peek}
	}
	return checkBody{c.Domain, ds, c.Cost, c.Priority, c.Lease}
}

// decision is a decision as the API writes it.
type decision struct {
	Allowed    *bool     `json:"allowed"`
	Soft       bool      `json:"soft"`
	Borrowed   bool      `json:"borrowed"`
	Repeated   bool      `json:"repeated"`
	Delay      seconds   `json:"delay"`
	Limit      *limit    `json:"limit"`
	Remaining  *int64    `json:"remaining"`
	RetryAfter *seconds  `json:"retry_after"`
	ResetAfter *seconds  `json:"reset_after"`
	Limits     []outcome `json:"limits"`
	Guarantee  struct {
		Degraded bool `json:"degraded"`
	} `json:"guarantee"`
}

type limit struct {
	Name      string  `json:"name"`
	Count     int64   `json:"count"`
	Burst     int64   `json:"burst"`
	Period    seconds `json:"period"`
	Algorithm string  `json:"algorithm"`
}

type outcome struct {
	Limit      *limit   `json:"limit"`
	Role       string   `json:"role"`
	Cost       int64    `json:"cost"`
	Allowed    bool     `json:"allowed"`
	Charged    bool     `json:"charged"`
	Remaining  int64    `json:"remaining"`
	RetryAfter *seconds `json:"retry_after"`
	ResetAfter *seconds `json:"reset_after"`
}

// decode returns the decision, or an error if it is none: {} must not refuse.
func (d *decision) decode() (Decision, error) {
	if d.Allowed == nil {
		return Decision{}, errors.New("weir: response without an outcome")
	}
	out := Decision{
		Allowed: *d.Allowed, Delay: time.Duration(d.Delay), RetryAfter: d.RetryAfter.orNever(),
		Limit: d.Limit.decode(), Remaining: -1, ResetAfter: d.ResetAfter.orNever(),
		Soft: d.Soft, Borrowed: d.Borrowed, Repeated: d.Repeated, Degraded: d.Guarantee.Degraded,
	}
	if d.Remaining != nil {
		out.Remaining = *d.Remaining
	}
	if len(d.Limits) > 0 {
		out.Limits = make([]Outcome, len(d.Limits))
	}
	for i, o := range d.Limits {
		out.Limits[i] = Outcome{
			Limit: o.Limit.decode(), Role: o.Role, Cost: o.Cost, Allowed: o.Allowed, Charged: o.Charged,
			Remaining: o.Remaining, RetryAfter: o.RetryAfter.orNever(), ResetAfter: o.ResetAfter.orNever(),
		}
	}
	return out, nil
}

func (l *limit) decode() *Limit {
	if l == nil {
		return nil
	}
	return &Limit{Name: l.Name, Count: l.Count, Burst: l.Burst, Period: time.Duration(l.Period), Algorithm: l.Algorithm}
}

// seconds reads a JSON number of seconds exactly, to the nanosecond.
type seconds time.Duration

func (s *seconds) UnmarshalJSON(b []byte) error {
	whole, frac, _ := strings.Cut(string(b), ".")
	n, err := strconv.ParseUint(whole, 10, 63)
	if err != nil {
		return fmt.Errorf("%q is no number of seconds", b)
	}
	if n > math.MaxInt64/uint64(time.Second)-1 {
		*s = math.MaxInt64
		return nil
	}
	d := time.Duration(n) * time.Second
	for i, unit := 0, time.Second/10; i < len(frac); i, unit = i+1, unit/10 {
		if frac[i] < '0' || frac[i] > '9' {
			return fmt.Errorf("%q is no number of seconds", b)
		}
		d += time.Duration(frac[i]-'0') * unit
	}
	*s = seconds(d)
	return nil
}

// orNever returns what is told, and weir.Never for null.
func (s *seconds) orNever() time.Duration {
	if s == nil {
		return weir.Never
	}
	return time.Duration(*s)
}

// maxChecks is how many checks can be asked at once.
const maxChecks = checks.MaxRequests
