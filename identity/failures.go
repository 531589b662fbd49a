package identity

import (
	"cmp"
	"log/slog"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/weirlimit/weir/internal/faults"
)

// failure is why what a request says of its sender is not believed. Zero is none.
type failure uint8

const (
	believed failure = iota
	unclearCredential
	unclearField
	tokenMalformed
	tokenTooLong
	tokenAlgorithm
	tokenUnknownKey
	tokenNoKeys
	tokenSignature
	tokenExpired
	tokenNoExpiry
	tokenNotYetValid
	tokenIssuedInFuture
	tokenIssuer
	tokenAudience
	tokenNoUser
	keyUnknown
	keyTooLong
	pathDots
	pathHost
	pathBackslash
	pathParameters
	pathEncodedSlash
	pathEmptySegments
	pathUnreadable
	trailerDropped
	numFailures
)

var failureWords = [numFailures]struct{ kind, reason string }{
	unclearCredential:   {"credential", "unclear"},
	unclearField:        {"header", "unclear"},
	tokenMalformed:      {"jwt", "malformed"},
	tokenTooLong:        {"jwt", "too_long"},
	tokenAlgorithm:      {"jwt", "algorithm"},
	tokenUnknownKey:     {"jwt", "unknown_key"},
	tokenNoKeys:         {"jwt", "no_keys"},
	tokenSignature:      {"jwt", "bad_signature"},
	tokenExpired:        {"jwt", "expired"},
	tokenNoExpiry:       {"jwt", "no_expiry"},
	tokenNotYetValid:    {"jwt", "not_yet_valid"},
	tokenIssuedInFuture: {"jwt", "issued_in_future"},
	tokenIssuer:         {"jwt", "wrong_issuer"},
	tokenAudience:       {"jwt", "wrong_audience"},
	tokenNoUser:         {"jwt", "no_user"},
	keyUnknown:          {"api_key", "unknown"},
	keyTooLong:          {"api_key", "too_long"},
	pathDots:            {"path", "dot_segment"},
	pathHost:            {"path", "two_slashes_first"},
	pathBackslash:       {"path", "backslash"},
	pathParameters:      {"path", "parameters"},
	pathEncodedSlash:    {"path", "encoded_slash"},
	pathEmptySegments:   {"path", "empty_segments"},
	pathUnreadable:      {"path", "unreadable"},
	trailerDropped:      {"trailer", "dropped"},
}

// Failure is how often credentials were not believed, or paths not read, for one reason.
type Failure struct {
	// Kind is jwt, api_key, credential (more than one, or not in its form), header
	// (of a trusted proxy, more than one), path (of a request that is refused, as servers
	// read it in more than one way) or trailer (see [Caller.DropTrailers]). Reason is a word.
	Kind, Reason string
	Count        uint64
}

// Failures returns how often credentials were not believed, and paths not read, since the start: each kind
// and reason, also those that have not occurred.
func (r *Resolver) Failures() []Failure {
	var all []Failure
	for f := believed + 1; f < numFailures; f++ {
		all = append(all, Failure{failureWords[f].kind, failureWords[f].reason, r.reports.failures[f].Load()})
	}
	return all
}

// UntrustedField is how many requests had a header field that names another client,
// from a peer that is not trusted to.
type UntrustedField struct {
	Field    string
	Requests uint64
}

// UntrustedFields returns how many requests of peers that are not trusted had fields
// that only trusted proxies may set, each field that is looked for.
func (r *Resolver) UntrustedFields() []UntrustedField {
	all := make([]UntrustedField, len(r.reports.fields))
	for i, name := range r.reports.fields {
		all[i] = UntrustedField{name, r.reports.untrusted[i].Load()}
	}
	return all
}

// forwardingFields are the header fields by which proxies name a client, or what it
// asked for. Those that name an address come first.
var forwardingFields = []string{
	"X-Forwarded-For", "Forwarded", "X-Real-Ip", "Cf-Connecting-Ip", "True-Client-Ip",
	"X-Client-Ip", "X-Cluster-Client-Ip", "Fastly-Client-Ip",
	"X-Forwarded-Host", "X-Forwarded-Proto",
}

// addressFields is how many of forwardingFields name an address.
const addressFields = 8

// reports counts and logs what requests say in vain. Safe for concurrent use.
type reports struct {
	log      *slog.Logger
	faults   *faults.Log // of credentials
	paths    *faults.Log
	short    *faults.Log // of API keys
	networks faults.Networks
	failures [numFailures]atomic.Uint64
	// fields are forwardingFields, and those that the configuration names beside them.
	fields    []string
	untrusted []atomic.Uint64
	// initials are the first bytes of the fields.
	initials [256]bool
}

// newReports returns the reports of r, whose other parts are set.
func newReports(r *Resolver, log *slog.Logger) *reports {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	p := &reports{log: log, faults: faults.New(log), paths: faults.New(log), short: faults.New(log), fields: slices.Clone(forwardingFields)}
	add := func(name string) {
		if name != "" && !slices.Contains(p.fields, name) {
			p.fields = append(p.fields, name)
		}
	}
	add(r.proxies.header)
	for _, f := range slices.Concat(r.user, r.tier) {
		if f.kind == fromHeader {
			add(f.name)
		}
	}
	p.untrusted = make([]atomic.Uint64, len(p.fields))
	for _, name := range p.fields {
		p.initials[name[0]] = true
	}
	return p
}

// recordFailure counts why c is not believed, and logs it at most once a second.
func (p *reports) recordFailure(c *Caller, f failure) {
	p.failures[f].Add(1)
	if failureWords[f].kind == "path" {
		if !p.paths.IsDue() {
			return
		}
		p.log.Warn("path refused, as servers read it in more than one way; the response says what a route can allow", "reason", failureWords[f].reason, "client", c.Address())
		return
	}
	if !p.faults.IsDue() {
		return
	}
	p.log.Warn("credential rejected; the caller is treated as unauthenticated", "kind", failureWords[f].kind, "reason", failureWords[f].reason, "client", c.Address())
}

// reportShortKey warns once that the known API key of c is short, at most once a second
// for all keys. It does not log the key.
func (p *reports) reportShortKey(c *Caller) {
	if !c.keyRow.warned.Load() && p.short.IsDue() && c.keyRow.warned.CompareAndSwap(false, true) {
		p.log.Warn("API key has fewer than 16 bytes and can be guessed; replace it by a random one (openssl rand -hex 16)", "user", c.keyRow.User, "client", c.Address())
	}
}

// anyField reports whether a header has one of the fields. A small map, which Go keeps
// in one group of slots, is walked in less time than it is asked for each of them.
func (p *reports) anyField(header http.Header) bool {
	const small = 8
	if len(header) <= small {
		for name := range header {
			if name != "" && p.initials[name[0]] && slices.Contains(p.fields, name) {
				return true
			}
		}
		return false
	}
	for _, name := range p.fields {
		if _, ok := header[name]; ok {
			return true
		}
	}
	return false
}

// reportUntrusted counts the fields by which a peer that is not trusted names another
// client, and logs them once for each network.
func (p *reports) reportUntrusted(c *Caller) {
	if !p.anyField(c.f.Header) {
		return
	}
	first := ""
	for i, name := range p.fields {
		if lines, ok := c.f.Header[name]; ok && !(c.f.Carried && isOfCarrier(name, lines, c.f.Peer)) {
			p.untrusted[i].Add(1)
			if first == "" {
				first = name
			}
		}
	}
	if first != "" {
		if log := p.networks.Log(p.log, c.f.Peer); log != nil {
			log.Warn("header field of an untrusted proxy ignored; all clients behind this peer are counted as one; if it is a proxy of yours, and no client, set the flag",
				"field", first, "flag", trustingFlag(c, first))
		}
	}
}

// isOfCarrier reports whether Envoy adds such a field to every request: the peer to
// X-Forwarded-For, or for one on loopback its own address, and X-Forwarded-Proto.
func isOfCarrier(name string, lines []string, peer netip.Addr) bool {
	if name == "X-Forwarded-Proto" || len(lines) == 0 {
		return true
	}
	only, err := netip.ParseAddr(strings.TrimSpace(lines[0]))
	return len(lines) == 1 && err == nil && (only.Unmap() == peer.Unmap() || peer.Unmap().IsLoopback())
}

// trustingFlag returns the flag by which the peer is believed when it sets a field. A
// client can set them too, and must not be what an operator copies: where the peer may
// well be one, on the internet or before whoever carries requests, the flag does not
// name it.
func trustingFlag(c *Caller, field string) string {
	flag := "--trusted-unix"
	if at := c.f.Peer.Unmap(); at.IsValid() {
		flag = "--trusted-proxies ADDRESS-OF-YOUR-PROXY"
		if !c.f.Carried && (at.IsPrivate() || at.IsLoopback() || at.IsLinkLocalUnicast()) {
			flag = "--trusted-proxies " + c.f.Peer.String()
		}
	}
	named := cmp.Or(c.r.proxies.header, forwardingFields[0])
	if field != named && slices.Contains(forwardingFields[:addressFields], field) {
		flag += " --client-ip-header " + field
	}
	return flag
}
