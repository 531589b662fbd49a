// Package httpapi is the way in over HTTP and JSON.
//
// POST /shouldAllowRequest asks about one client and answers
// {"allowed":true} or {"allowed":false}. The paths under /v1 say more, about
// any descriptors: check, peek, reserve, commit, cancel, acquire, renew, release, and
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
	"context"
	_ "embed"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/answer"
	"github.com/weirlimit/weir/internal/bodies"
	"github.com/weirlimit/weir/internal/faults"
	"github.com/weirlimit/weir/internal/guesses"
	"github.com/weirlimit/weir/internal/once"
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
	// Rulebook and Overlay serve operators' paths. Overlay must be the Limiter's own
	// rules. Nil means that all operators' paths answer 501.
	Rulebook Rulebook
	Overlay  *overlay.Overlay
	// Keyring serves /v1/admin/reset and adds to /v1/admin/inspect. Nil means
	// that reset answers 501.
	Keyring Keyring
	// Clients returns who is shown by a name in events: what operators' paths take as
	// client. Nil means that this service knows nobody.
	Clients func(name string) []KnownClient
	// EntryForm returns the form in which front ends write a value of the entry with a
	// key, or an error where they write no such value: what operators do to an entry of
	// another form is done to this one. See identity.Resolver.EntryForm. Nil means that
	// every form is taken for one that is sent.
	EntryForm func(key, value string) (string, error)
	// IsSent reports whether front ends send a descriptor of entries of the keys by
	// themselves, in Domain; isAnywhere: one with the last of them. Nil means that all are sent.
	IsSent func(keys []string, isAnywhere bool) bool
	// Shed serves /v1/admin/shed. Nil means that it answers 501.
	Shed *shed.Shedder
	// Priority is that of checks that name none, 0 the highest. Zero means the
	// highest.
	Priority int
	// Strict makes it an error where the rules do not have what is asked, unless the
	// request says otherwise.
	Strict bool
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
	mux       *http.ServeMux
	paths     map[string]bool // those served
	admin     map[string]bool // those for operators
	operators *operators
	most      int64 // requests at a time
	inFlight  atomic.Int64
}

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
	opt.Bodies = cmp.Or(opt.Bodies, bodies.New(0))
	a := &API{mux: http.NewServeMux(), paths: map[string]bool{}, admin: map[string]bool{},
		operators: &operators{opt.AdminToken, opt.Guesses}, most: int64(opt.MaxInFlight)}
	a.addParts(&opt)
	a.mux.HandleFunc("/", notFound)
	return a, nil
}

// addParts adds what each part of the API serves.
func (a *API) addParts(opt *Options) {
	answers := &responder{opt.Bodies, opt.BodyTimeout, faults.New(opt.Log)}
	checks := &queries{answers, opt.Limiter, opt.Domain, opt.Priority, opt.Strict, once.NewCalls()}
	a.addRoutes(routes{"/openapi.json": {"GET": openAPI}})
	a.addRoutes((&decisions{checks}).routes())
	a.addRoutes((&reservations{checks, opt.Reserver}).routes())

	keys := &keys{checks, opt.Rulebook, opt.Overlay, opt.Keyring, opt.Clients, &coverage{opt.Overlay, opt.Domain, opt.EntryForm, opt.IsSent}}
	overrides := &overrides{keys, opt.Overlay, a.operators}
	hasParts := opt.Overlay != nil && opt.Rulebook != nil
	for _, part := range []routes{
		keys.routes(),
		overrides.routes(),
		(&counters{keys, overrides, a.operators}).routes(),
		(&modes{answers, opt.Overlay, a.operators, opt.Domain}).routes(),
		(&auditLog{answers, opt.Overlay}).routes(),
		(&shedding{answers, opt.Shed, opt.Overlay, a.operators}).routes(),
		(&rulebook{checks, opt.Overlay, opt.Rulebook, keys.coverage}).routes(),
	} {
		for path, ms := range part {
			a.admin[path] = true
			for m, h := range ms {
				ms[m] = a.operators.guardHandler(needs(hasParts, "this service runs without bans, overrides and modes", h))
			}
		}
		a.addRoutes(part)
	}
}

func (a *API) addRoutes(r routes) {
	for path, ms := range r {
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
}

// ServesPath reports whether path is one of the API's.
func (a *API) ServesPath(path string) bool { return a.paths[path] }

// Paths returns all paths that the API serves, sorted.
func (a *API) Paths() []string { return slices.Sorted(maps.Keys(a.paths)) }

// ServeHTTP implements http.Handler.
func (a *API) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if a.inFlight.Add(1) > a.most {
		a.inFlight.Add(-1)
		answer.Problem{
			Type: answer.ReducedCapacity, Title: "Too many requests at once", Status: http.StatusServiceUnavailable,
			Detail: fmt.Sprintf("%d requests are under way", a.most), RetryAfter: 1,
		}.Write(w)
		return
	}
	defer a.inFlight.Add(-1)
	a.mux.ServeHTTP(w, r)
}

// AdminHandler returns a handler of the operators' paths alone, for a port of their
// own. Without a token it answers only to loopback.
func (a *API) AdminHandler() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !a.admin[r.URL.Path] {
			notFound(w, r)
			return
		}
		a.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), localKey{}, true)))
	})
}

// document is the OpenAPI 3.1 description of this package's paths.
//
//go:embed openapi.json
var document []byte

func openAPI(w http.ResponseWriter, _ *http.Request) {
	h := w.Header()
	h["Content-Type"] = jsonType
	h["Content-Length"] = []string{strconv.Itoa(len(document))}
	// An error here means that the client has gone.
	_, _ = w.Write(document)
}
