package identity

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
)

// claimant is where a user or a tier comes from, or where a credential is sent.
type claimant struct {
	kind kind
	name string
}

// claimants are asked in order.
type claimants []claimant

// ofFile is the source that a file of keys is.
var ofFile = map[string]string{"user": "api_key", "tier": "keys"}

// claimants compiles where a user or a tier comes from.
func (r *Resolver) claimants(what string, from []string, opt *Options) (claimants, error) {
	var all claimants
	for _, text := range from {
		word, arg, _ := strings.Cut(text, ":")
		switch {
		case word == "header" && isToken(arg):
			if len(opt.Proxies.Trusted) == 0 && !opt.Proxies.Unix {
				return nil, fmt.Errorf("%s: %s is never trusted: list the proxies that set it in proxies.trusted", what, text)
			}
			all = append(all, claimant{fromHeader, http.CanonicalHeaderKey(arg)})
		case word == "jwt" && arg != "":
			if r.tokens == nil {
				return nil, fmt.Errorf("%s: %s: no token is believed: set identity.jwt (Options.JWT)", what, text)
			}
			all = append(all, claimant{fromJWT, arg})
		case what == "user" && text == "api_key", what == "tier" && text == "keys":
			if opt.Keys == nil {
				return nil, fmt.Errorf("%s: %s needs a file of API keys: set identity.api_key.file (Options.Keys)", what, text)
			}
			all = append(all, claimant{fromAPIKey, ""})
		default:
			return nil, fmt.Errorf("%s: %q is not a source of a verified %s, choose jwt:CLAIM, header:NAME or %s", what, text, what, ofFile[what])
		}
	}
	return all, nil
}

// value returns the value of the first claimant that has one, "" where it is
// not clear who the request is from.
func (from claimants) value(c *Caller, what known) string {
	if len(from) == 0 || c.Check() != nil {
		return ""
	}
	if v := from.first(c, what, true); v != "" {
		return v
	}
	if what == knownUser && c.claims != nil && slices.ContainsFunc(from, func(f claimant) bool { return f.kind == fromJWT }) {
		c.r.reports.fail(c, tokenNoUser)
	}
	return ""
}

// first returns the value of the first claimant that has one. Unless it may ask, it
// is "" where it depends on a token or a key that nobody has asked for yet, and a field
// on several lines says nothing.
func (from claimants) first(c *Caller, what known, mayAsk bool) string {
	for _, f := range from {
		v := ""
		switch f.kind {
		case fromHeader:
			if c.believed && (mayAsk || len(c.f.Header[f.name]) == 1) {
				v = header(c.f.Header, f.name)
			}
		case fromJWT:
			if !mayAsk && c.known&knownToken == 0 {
				return ""
			}
			v = c.r.tokens.claim(c, f.name)
		case fromAPIKey:
			if !mayAsk && (c.known&knownKey == 0 || what == knownTier && c.known&knownUser == 0) {
				return ""
			}
			v = c.r.keys.claim(c, what)
		}
		if v != "" {
			return c.text.fit(v)
		}
	}
	return ""
}
