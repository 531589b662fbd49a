package forwardauth

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"net/textproto"
	"strings"

	"github.com/weirlimit/weir/answer"
	"github.com/weirlimit/weir/identity"
	"github.com/weirlimit/weir/internal/frontend/authorize"
)

// Options configures a [Handler].
type Options struct {
	// Authorize decides. Its Limiter is required, and so is an Identity that
	// trusts somebody: nobody else can ask.
	Authorize authorize.Options
	// Prefix is the path that proxies ask at. Zero means "/auth".
	Prefix string
	// ClientHeader is the header in which trusted proxies name the client, the
	// one of identity.ProxyOptions: a question without it is answered 400, as
	// everybody would be one client. Zero means that there is none to miss.
	ClientHeader string
}

// Handler answers proxies, an http.Handler. Safe for concurrent use.
type Handler struct {
	opt          Options
	auth         *authorize.Authorizer
	clientHeader string // canonical
	names        []string
}

// New returns a handler. It returns an error when a required option is missing
// or one is out of range.
func New(opt Options) (*Handler, error) {
	opt.Prefix = cmp.Or(opt.Prefix, "/auth")
	if err := checkPrefix(opt.Prefix); err != nil {
		return nil, err
	}
	if opt.Authorize.Identity == nil {
		return nil, errors.New("forwardauth: no proxy is trusted: set Options.Authorize.Identity to a resolver with trusted proxies")
	}
	a, err := authorize.New(opt.Authorize)
	if err != nil {
		return nil, fmt.Errorf("forwardauth: %w", err)
	}
	return &Handler{opt: opt, auth: a, clientHeader: textproto.CanonicalMIMEHeaderKey(opt.ClientHeader), names: Parameters()}, nil
}

// checkPrefix reports a prefix that no request has as it stands.
func checkPrefix(prefix string) error {
	canon, err := identity.Canonical(prefix, identity.PathOptions{})
	if err == nil && (canon != prefix || prefix == "/") {
		err = errors.New("it must be a path of at least one segment, without a slash at its end")
	}
	if err != nil {
		return fmt.Errorf("forwardauth: prefix %q: %w", prefix, err)
	}
	return nil
}

// ServesTarget reports whether a request target, as net/http has it in RequestURI, is
// the handler's.
func (h *Handler) ServesTarget(target string) bool {
	_, ok := h.cutPrefix(target)
	return ok
}

// cutPrefix returns what stands behind the prefix in a request target.
func (h *Handler) cutPrefix(target string) (string, bool) {
	if target == "" {
		return "", false
	}
	if target[0] != '/' {
		var err error
		if target, _, err = cutURL(target); err != nil {
			return "", false
		}
	}
	rest, ok := strings.CutPrefix(target, h.opt.Prefix)
	return rest, ok && (rest == "" || strings.IndexByte("/?:*", rest[0]) >= 0)
}

// ServeHTTP implements http.Handler. The body of a question is not read.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.ProtoMajor == 1 && r.ContentLength != 0 {
		// Else net/http waits for the body before it sends the answer, and one that
		// a proxy announces, handing on its client's Content-Length, may never come.
		w.Header().Set("Connection", "close")
	}
	rest, ok := h.cutPrefix(r.RequestURI)
	if !ok {
		answer.Problem{Status: http.StatusNotFound, Detail: "proxies ask at " + h.opt.Prefix}.Write(w)
		return
	}
	q, err := h.question(r, rest)
	if err != nil {
		h.auth.Report("a proxy's question cannot be answered", err)
		answer.Problem{Status: http.StatusBadRequest, Detail: err.Error()}.Write(w)
		return
	}
	if v := h.auth.Decide(r.Context(), w, q); v.Outcome != authorize.Allowed {
		return
	}
	head := w.Header()
	head["Cache-Control"] = noStore
	head["Content-Length"] = zero
	w.WriteHeader(http.StatusOK)
}

// Shared by all answers: their length is their capacity, so that adding to them
// copies them.
var noStore, zero = []string{"no-store"}, []string{"0"}

// question reads what r asks. rest is what stands behind the prefix.
func (h *Handler) question(r *http.Request, rest string) (*authorize.Question, error) {
	q := &authorize.Question{}
	q.Peer = peerAddress(r)
	if !h.auth.TrustsPeer(q) {
		return nil, fmt.Errorf("%s is not a trusted proxy: list it in identity.proxies.trusted (--trusted-proxies)", describePeer(r))
	}
	text, target := splitParameters(rest)
	p, err := h.parseParameters(text)
	switch {
	case err != nil:
	case target == "" || target[0] == '?':
		if q.Facts, err = factsOfFields(r, p.from); err == nil && len(target) > 1 && target[1:] != q.Query {
			err = fmt.Errorf("a query means nothing here: parameters stand behind a colon, %s:deny=403&fail=open", h.opt.Prefix)
		}
	case p.from != nil:
		err = fmt.Errorf("parameter from: the path behind %s is the request, header fields are not used", h.opt.Prefix)
	default:
		q.Facts = factsOf(r, original{r.Method, target, r.Host})
	}
	if err != nil {
		return nil, err
	}
	if h.clientHeader != "" && len(r.Header[h.clientHeader]) == 0 {
		return nil, fmt.Errorf("the proxy does not name the client: it must send %s", h.clientHeader)
	}
	q.Parameters = p.Parameters
	return q, nil
}

// describePeer names the peer of r for a person.
func describePeer(r *http.Request) string {
	if p := peerAddress(r); p.IsValid() {
		return p.Unmap().WithZone("").String()
	}
	return "whoever is on this Unix socket"
}

// splitParameters takes what stands behind the prefix apart: parameters; the target of the
// request that is asked about, a query alone where header fields tell of it.
func splitParameters(rest string) (text, target string) {
	if rest == "" || rest[0] != ':' {
		return "", rest
	}
	rest = rest[1:]
	if end := strings.IndexAny(rest, "/?*"); end >= 0 {
		return rest[:end], rest[end:]
	}
	return rest, ""
}
