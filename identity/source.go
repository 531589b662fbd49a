package identity

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"github.com/weirlimit/weir/internal/spell"
)

// kind is where a value comes from.
type kind uint8

const (
	fromAddress kind = iota
	fromUser
	fromTier
	fromClient
	fromMethod
	fromPath
	fromHost
	fromHeader
	fromCookie
	fromQuery
	fromValue
	fromParam // a segment of the path of a route
	fromAPIKey
	fromBearer
	fromJWT
	fromUnverifiedJWT
	numKinds
)

// source is a compiled EntryFrom.From.
type source struct {
	kind kind
	// name of the header, cookie and so on; the text of a value.
	name string
	// width of an address.
	width width
	// segment of the path, from 0, of a param.
	segment int
	// fold: see EntryFrom.
	fold bool
}

// words are the sources without an argument, prefixes those with one.
var (
	words = map[string]kind{
		"remote_address": fromAddress, "user": fromUser, "api_key": fromAPIKey, "tier": fromTier, "client": fromClient,
		"method": fromMethod, "path": fromPath, "host": fromHost,
	}
	prefixes = map[string]kind{
		"header": fromHeader, "cookie": fromCookie, "query": fromQuery, "value": fromValue, "param": fromParam,
		"jwt": fromJWT, "unverified_jwt": fromUnverifiedJWT,
	}
)

// Sources lists the words that EntryFrom.From accepts; those that end in a
// colon take a name behind it.
func Sources() []string {
	return []string{
		"remote_address", "user", "api_key", "tier", "client", "method", "path", "host", "route",
		"header:", "cookie:", "query:", "jwt:", "unverified_jwt:", "param:", "value:",
	}
}

// marks is why a name needs a letter or digit.
const marks = "servers differ in what they make of the rest"

// CheckSource reports what is wrong with text as a source of requests in general, of no
// route. Whether something is configured that gives it a value, [Resolver.Unknown] says.
func CheckSource(text string) error {
	s, err := new(Resolver).compileSource(text, nil)
	if err == nil && s.kind == fromValue {
		return errValueKey(text)
	}
	return err
}

// errValueKey is the error for a key that is a text like any other: nothing says that it
// is meant as a source.
func errValueKey(key string) error { return fmt.Errorf("%q is a value, not what a request has", key) }

// verified reports whether a stranger cannot make the value up or leave it out
// as he likes.
func (r *Resolver) verified(s *source) bool {
	switch s.kind {
	case fromUser, fromTier, fromJWT:
		return true
	case fromAPIKey:
		return r.keys.table != nil
	}
	return false
}

// parseSource compiles the text of a source that can have a value. route is the one
// that the plan belongs to, or nil.
func (r *Resolver) parseSource(text string, route *Route) (source, error) {
	s, err := r.compileSource(text, route)
	if err != nil {
		return source{}, err
	}
	return s, r.checkSource(&s, text)
}

// compileSource is parseSource, whatever is configured.
func (r *Resolver) compileSource(text string, route *Route) (source, error) {
	word, arg, hasArg := strings.Cut(text, ":")
	if k, ok := words[word]; ok && !hasArg {
		return source{kind: k, width: r.width}, nil
	}
	if bits, ok := strings.CutPrefix(text, "remote_address/"); ok {
		return r.addressSource(bits)
	}
	if word == "route" && !hasArg {
		if route == nil {
			return source{}, fmt.Errorf("source %q is the name of a route, and this plan belongs to none", text)
		}
		return source{kind: fromValue, name: fitToKey(route.nameOrPath())}, nil
	}
	k, ok := prefixes[word]
	if !ok || !hasArg {
		return source{}, fmt.Errorf("unknown source %q (%s)", text, spell.Cure(text, Sources()))
	}
	if arg == "" {
		return source{}, fmt.Errorf("source %q needs a name behind the colon", text)
	}
	s := source{kind: k, name: arg}
	if (k == fromHeader || k == fromCookie || k == fromQuery) && trimMarks(arg) == "" {
		return source{}, fmt.Errorf("source %q: the name needs an ASCII letter or digit: %s", text, marks)
	}
	switch k {
	case fromHeader:
		if !isToken(arg) {
			return source{}, fmt.Errorf("source %q: %q is not the name of a header", text, arg)
		}
		s.name = http.CanonicalHeaderKey(arg)
	case fromCookie:
		if !isToken(arg) {
			return source{}, fmt.Errorf("source %q: %q is not the name of a cookie", text, arg)
		}
	case fromValue:
		s.name = fitToKey(arg)
	case fromParam:
		if route == nil {
			return source{}, fmt.Errorf("source %q is a segment of a route's path, and this plan belongs to no route", text)
		}
		if s.segment = route.paramSegment(arg); s.segment < 0 {
			return source{}, fmt.Errorf("source %q: the path %s has no segment {%s}", text, route.Path, arg)
		}
	}
	return s, nil
}

// addressSource compiles remote_address/BITS. Up to 32 bits are those of an
// IPv4 address and up to 128 those of an IPv6 one; the other family keeps its
// width.
func (r *Resolver) addressSource(bits string) (source, error) {
	n, err := strconv.Atoi(bits)
	if err != nil || n <= 0 {
		return source{}, fmt.Errorf("source \"remote_address/%s\": %q is not a number of bits", bits, bits)
	}
	s := source{kind: fromAddress, width: r.width}
	if n <= maxIPv4 {
		s.width.v4 = n
	} else {
		s.width.v6 = n
	}
	if s.width, err = newWidth(s.width.v4, s.width.v6); err != nil {
		return s, fmt.Errorf("source \"remote_address/%s\": %w", bits, err)
	}
	return s, nil
}

// checkSource reports a source that can never have a value, as nothing is configured
// that gives one: a limit on it would never hold.
func (r *Resolver) checkSource(s *source, text string) error {
	switch {
	case s.kind == fromUser && len(r.user) == 0:
		return fmt.Errorf("source %q: no request has a user: set identity.user (Options.User)", text)
	case s.kind == fromAPIKey && r.keys == nil:
		return fmt.Errorf("source %q: no request has an API key: set identity.api_key.from (Options.APIKey)", text)
	case s.kind == fromJWT && r.tokens == nil:
		return fmt.Errorf("source %q: no token is believed: set identity.jwt (Options.Token)", text)
	case s.kind == fromTier && len(r.tier) == 0:
		return fmt.Errorf("source %q: no request has a tier: set identity.tier (Options.Tier)", text)
	}
	return nil
}
