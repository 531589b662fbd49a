// Package httpapi is the way in over HTTP and JSON.
//
// POST /shouldAllowRequest asks about one client and answers
// {"allowed":true} or {"allowed":false}. The paths under /v1 say more, about
// any descriptors: check, peek, reserve, commit, cancel, acquire, release, and
// for operators inspect, reset, grant, ban, allow, override, mode, modes, audit,
// shed, rules and explain.
// /openapi.json describes all of them.
//
// A decision is not an error: whether a request was allowed or refused, the
// answer's status is 200. Bad input is answered by a problem document
// (RFC 9457) with a pointer to the field, and nothing has been counted then.
// When the store does not answer the status is 503.
package httpapi

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/answer"
	"github.com/weirlimit/weir/internal/bodies"
	"github.com/weirlimit/weir/internal/faults"
	"github.com/weirlimit/weir/internal/guesses"
	"github.com/weirlimit/weir/internal/overlay"
	"github.com/weirlimit/weir/reserve"
	"github.com/weirlimit/weir/shed"
)

// Options configures an [API].
type Options struct {
	// Limiter decides. Required.
	Limiter *weir.Limiter
	// Domain is the domain that /shouldAllowRequest asks. Zero means "api".
	Domain string
	// MaxInFlight is how many requests are served at a time; those above it
	// are answered 503. Zero means 4096.
	MaxInFlight int
	// BodyTimeout is how long a client may take to send a body. Zero means ten
	// seconds.
	BodyTimeout time.Duration
	// Reserver serves /v1/reserve, /v1/commit and /v1/cancel. Nil means that
	// they answer 501.
	Reserver *reserve.Reserver
	// Rulebook serves /v1/rules and adds to /v1/explain. Nil means that
	// /v1/rules answers 501.
	Rulebook Rulebook
	// Keyring serves /v1/admin/reset and adds to /v1/admin/inspect. Nil means
	// that reset answers 501.
	Keyring Keyring
	// Overlay serves /v1/admin/ban, allow, override, mode, modes and audit: the
	// Limiter's own rules, which must be it. Nil means that they answer 501.
	Overlay *overlay.Overlay
	// Clients returns who is shown by a name in events: what operators' paths take as
	// client. Nil means that this service knows nobody.
	Clients func(name string) []KnownClient
	// EntryForm returns the form in which front ends write a value of the entry with a
	// key, or an error where they write no such value: what operators do to an entry of
	// another form is answered with it. See identity.Resolver.EntryForm. Nil means that
	// every form is taken for one that is sent.
	EntryForm func(key, value string) (string, error)
	// Shed serves /v1/admin/shed. Nil means that it answers 501.
	Shed *shed.Shedder
	// Priority is that of checks that name none, 0 the highest. Zero means the
	// highest.
	Priority int
	// Bodies bounds what unfinished bodies may hold together, with those of other
	// front ends. Nil means 64 MiB for this API alone.
	Bodies *bodies.Budget
	// AdminToken is what operators show as Authorization: Bearer TOKEN, at
	// least 16 bytes. Zero means that operators' paths are served to loopback
	// alone, and only by the handler of Admin.
	AdminToken string
	// Guesses bounds wrong admin tokens. Nil means that they are not bounded.
	Guesses *guesses.Bound
	// Log is told of what operators change, and of store errors, at most one a
	// second. Nil means nobody.
	Log *slog.Logger
}

// API serves the paths of this package. Safe for concurrent use.
type API struct {
	opt      Options
	limiter  *weir.Limiter
	mux      *http.ServeMux
	paths    map[string]bool // those served
	admin    map[string]bool // those for operators
	inFlight atomic.Int64
	faults   *faults.Log
}

// Sizes of bodies, in bytes.
const (
	maxSmallBody = 64 << 10
	maxBatchBody = 1 << 20
)

const minToken = 16

// New returns the API. It returns an error when a required option is missing
// or one is out of range.
func New(opt Options) (*API, error) {
	switch {
	case opt.Limiter == nil:
		return nil, errors.New("httpapi: no limiter: set Options.Limiter")
	case opt.MaxInFlight < 0:
		return nil, fmt.Errorf("httpapi: max in flight %d must not be negative", opt.MaxInFlight)
	case opt.BodyTimeout < 0:
		return nil, fmt.Errorf("httpapi: body timeout %s must not be negative", opt.BodyTimeout)
	case opt.AdminToken != "" && len(opt.AdminToken) < minToken:
		return nil, fmt.Errorf("httpapi: admin token has %d bytes, at least %d are needed", len(opt.AdminToken), minToken)
	case opt.Priority < 0 || opt.Priority > maxPriority:
		return nil, fmt.Errorf("httpapi: priority %d must be between 0 and %d", opt.Priority, maxPriority)
	case len(opt.Domain) > maxDomain:
		return nil, fmt.Errorf("httpapi: domain has %d bytes, at most %d are allowed", len(opt.Domain), maxDomain)
	}
	opt.Domain = cmp.Or(opt.Domain, "api")
	opt.MaxInFlight = cmp.Or(opt.MaxInFlight, 4096)
	opt.BodyTimeout = cmp.Or(opt.BodyTimeout, 10*time.Second)
	if opt.Bodies == nil {
		opt.Bodies = bodies.New(0)
	}
	if opt.Log == nil {
		opt.Log = slog.New(slog.DiscardHandler)
	}
	a := &API{opt: opt, limiter: opt.Limiter, faults: faults.New(opt.Log), mux: http.NewServeMux(), paths: map[string]bool{}, admin: map[string]bool{}}
	a.routes()
	return a, nil
}

func (a *API) routes() {
	post := func(path string, h http.HandlerFunc) { a.handle(path, methods{"POST": h}) }
	reserving := func(h http.HandlerFunc) http.HandlerFunc { return needs(a.opt.Reserver != nil, "reservations", h) }
	const single, batch = maxSmallBody, maxBatchBody
	post("/shouldAllowRequest", a.reads(single, a.shouldAllow))
	post("/v1/check", a.asks(batch, mayPeek|mayLease|mayHaveChecks|mayStrict, a.check))
	post("/v1/peek", a.asks(batch, mayPeek|mayLease|mayHaveChecks|mayStrict, a.peek))
	post("/v1/acquire", a.asks(single, mayLease|mayStrict|mustSpend, a.acquire))
	post("/v1/release", a.asks(single, mayLease|mustLease, a.releaseLease))
	post("/v1/reserve", reserving(a.asks(single, mayStrict|mustSpend, a.reserve)))
	post("/v1/commit", reserving(a.reads(single, a.settle(false))))
	post("/v1/cancel", reserving(a.reads(single, a.settle(true))))
	a.handle("/openapi.json", methods{"GET": openAPI})
	shedding := func(h http.HandlerFunc) http.HandlerFunc {
		return a.operator(needs(a.opt.Shed != nil, "load shedding: give its configuration a section shed", h))
	}
	withOverlay := func(h http.HandlerFunc) http.HandlerFunc {
		return a.operator(needs(a.opt.Overlay != nil, "bans, overrides and modes", h))
	}
	for path, ms := range map[string]methods{
		"/v1/admin/inspect":  {"POST": a.keyed(0, nil)},
		"/v1/admin/reset":    {"POST": a.keyed(mayReason, a.reset)},
		"/v1/admin/grant":    {"POST": a.keyed(mayReason|mayUnits, a.grant)},
		"/v1/admin/ban":      {"POST": a.keyed(mayReason|maySeconds|mayDomain, a.ban)},
		"/v1/admin/allow":    {"POST": a.keyed(mayReason|maySeconds, a.allow)},
		"/v1/admin/override": {"POST": a.keyed(mayReason|mayRate, a.override)},
		"/v1/admin/mode":     {"POST": withOverlay(a.reads(single, a.setMode))},
		"/v1/admin/modes":    {"GET": withOverlay(a.modes)},
		"/v1/admin/audit":    {"GET": withOverlay(a.audit)},
		"/v1/admin/shed":     {"GET": shedding(a.shedState), "PATCH": shedding(a.reads(single, a.setShed))},
		"/v1/rules":          {"GET": a.operator(needs(a.opt.Rulebook != nil, "a rulebook", a.rules))},
		"/v1/explain":        {"POST": a.operator(a.reads(single, a.explain))},
	} {
		a.admin[path] = true
		a.handle(path, ms)
	}
	a.mux.HandleFunc("/", notFound)
}

func notFound(w http.ResponseWriter, _ *http.Request) {
	answer.Problem{Status: http.StatusNotFound, Detail: "no such path; /openapi.json lists those that there are"}.Write(w)
}

// needs returns h, or if have is false a handler that says what is missing.
func needs(have bool, what string, h http.HandlerFunc) http.HandlerFunc {
	if have {
		return h
	}
	return func(w http.ResponseWriter, _ *http.Request) {
		answer.Problem{Status: http.StatusNotImplemented, Detail: "this service runs without " + what}.Write(w)
	}
}

// methods are what answers on one path.
type methods map[string]http.HandlerFunc

func (a *API) handle(path string, ms methods) {
	a.paths[path] = true
	names := slices.Sorted(maps.Keys(ms))
	for _, m := range names {
		a.mux.HandleFunc(m+" "+path, ms[m])
	}
	a.mux.HandleFunc(path, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Allow", strings.Join(names, ", "))
		answer.Problem{Status: http.StatusMethodNotAllowed, Detail: "use " + strings.Join(names, " or ")}.Write(w)
	})
}

// Serves reports whether path is one of the API's.
func (a *API) Serves(path string) bool { return a.paths[path] }

// Paths returns all paths that the API serves, sorted.
func (a *API) Paths() []string { return slices.Sorted(maps.Keys(a.paths)) }

// ServeHTTP implements http.Handler.
func (a *API) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if a.inFlight.Add(1) > int64(a.opt.MaxInFlight) {
		a.inFlight.Add(-1)
		answer.Problem{
			Type: answer.ReducedCapacity, Title: "Too many requests at once", Status: http.StatusServiceUnavailable,
			Detail: fmt.Sprintf("%d requests are under way", a.opt.MaxInFlight), RetryAfter: 1,
		}.Write(w)
		return
	}
	defer a.inFlight.Add(-1)
	a.mux.ServeHTTP(w, r)
}

// call is what one request to the API needs; kept for reuse.
type call struct {
	body    []byte
	reader  reader
	out     []byte
	entries []weir.Entry
	query   query
	share   bodies.Share
}

var calls = sync.Pool{New: func() any { return &call{body: make([]byte, 0, 1024)} }}

// batchCalls are those that have grown large: batches are answered in several
// times the bytes in which they ask, and to grow into them each time cost as much
// as the decisions. Who takes one takes its size from the budget of bodies, so that
// a flood of batches leaves no more behind than the budget has.
var batchCalls = sync.Pool{New: func() any { return new(call) }}

// Bounds on what is kept, in bytes.
const (
	keepSmall = 2 * maxSmallBody
	keepBatch = 4 * maxBatchBody
)

// callFor returns a call for r, whose body may have so many bytes.
func callFor(r *http.Request, most int) *call {
	if most > maxSmallBody && r.ContentLength > maxSmallBody/4 {
		return batchCalls.Get().(*call)
	}
	return calls.Get().(*call)
}

// A handle answers a request whose body is in c. An error that it returns is answered
// by [API.fail].
type handle func(c *call, w http.ResponseWriter, r *http.Request) error

// reads returns the handler of a path with bodies of so many bytes at most.
func (a *API) reads(most int, h handle) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		c := callFor(r, most)
		defer c.release()
		if !c.read(a, w, r, most) {
			return
		}
		defer c.query.release(a)
		if err := h(c, w, r); err != nil {
			a.fail(w, err)
		}
	}
}

// asks is reads for bodies that are checks of a shape.
func (a *API) asks(most int, s shape, h handle) http.HandlerFunc {
	return a.reads(most, func(c *call, w http.ResponseWriter, r *http.Request) error {
		a.readQuery(c, s)
		if s&mustSpend != 0 {
			c.query.mustSpend(&c.reader)
		}
		a.checkStrict(c)
		if err := c.reader.fault(); err != nil {
			return err
		}
		return h(c, w, r)
	})
}

// size returns how many bytes the buffers of c take.
func (c *call) size() int {
	const entry = 32 // bytes
	return cap(c.body) + cap(c.reader.unescaped) + cap(c.out) + entry*cap(c.entries)
}

// release gives c back unless it has grown too large.
func (c *call) release() {
	c.share.End()
	clear(c.entries)
	switch size := c.size(); {
	case size <= keepSmall:
		calls.Put(c)
	case size <= keepBatch:
		batchCalls.Put(c)
	}
}

// read reads the body into c and makes c.reader ready for it. It answers the
// request and returns false if there is nothing to go on with.
func (c *call) read(a *API, w http.ResponseWriter, r *http.Request, most int) bool {
	if r.ContentLength > int64(most) {
		tooLarge(w, r, most)
		return false
	}
	// Not every server has deadlines to set; those that do not bound the time
	// a body takes by other means.
	_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(a.opt.BodyTimeout))
	c.share = a.opt.Bodies.Share()
	if !c.share.Grow(c.size()) {
		*c = call{body: make([]byte, 0, 1024), share: c.share}
	}
	b := c.body[:0]
	for {
		if len(b) == cap(b) {
			// Growing keeps the old buffer until it is copied. What is read is
			// answered in about as many bytes.
			if !c.share.Grow(max(c.size(), 3*cap(b))) {
				a.crowded(w, r)
				return false
			}
			b = append(b, 0)[:len(b)]
		}
		n, err := r.Body.Read(b[len(b):min(cap(b), most+1)])
		b = b[:len(b)+n]
		c.body = b
		switch {
		case len(b) > most:
			tooLarge(w, r, most)
			return false
		case err == io.EOF:
			c.reader.reset(b)
			return true
		case errors.Is(err, os.ErrDeadlineExceeded):
			answer.Problem{Status: http.StatusRequestTimeout, Detail: "the body did not arrive in time"}.Write(w)
			return false
		case err != nil:
			answer.Problem{Status: http.StatusBadRequest, Detail: "the body did not arrive in full"}.Write(w)
			return false
		}
	}
}

var errNoRoom = errors.New("unfinished bodies hold as much memory as they may")

// crowded answers that large bodies hold all that they may together.
func (a *API) crowded(w http.ResponseWriter, r *http.Request) {
	dropBody(w, r)
	a.opt.Bodies.Refuse()
	a.faults.Report("request refused", errNoRoom)
	answer.Problem{
		Type: answer.ReducedCapacity, Title: "Too many large requests at once", Status: http.StatusServiceUnavailable,
		Detail: "the bodies under way hold all the memory that they may; smaller requests are answered", RetryAfter: 1,
	}.Write(w)
}

// dropBody makes the answer one that is sent without waiting for the rest of the body:
// over HTTP/1 net/http waits for up to 256 KiB of it unless the connection ends. Over
// HTTP/2 nothing waits, and other streams of the connection go on.
func dropBody(w http.ResponseWriter, r *http.Request) {
	if r.ProtoMajor < 2 {
		w.Header().Set("Connection", "close")
	}
}

func tooLarge(w http.ResponseWriter, r *http.Request, most int) {
	dropBody(w, r)
	answer.Problem{
		Status: http.StatusRequestEntityTooLarge,
		Detail: fmt.Sprintf("the body may have at most %d bytes", most),
		Errors: []answer.FieldError{{Detail: "too large", Pointer: "#"}},
	}.Write(w)
}
