package identity

import (
	"fmt"
	"net/http"
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
				return nil, fmt.Errorf("%s: %s: no token is believed: set identity.jwt (Options.Token)", what, text)
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

// credentials compiles where a credential is sent.
func credentials(what string, from []string) (claimants, error) {
	var all claimants
	for _, text := range from {
		word, arg, _ := strings.Cut(text, ":")
		switch {
		case word != text && trimMarks(arg) == "":
			return nil, fmt.Errorf("%s: the name in %q needs an ASCII letter or digit: %s", what, text, marks)
		case text == "bearer":
			all = append(all, claimant{fromBearer, ""})
		case word == "header" && isToken(arg):
			all = append(all, claimant{fromHeader, http.CanonicalHeaderKey(arg)})
		case word == "cookie" && isToken(arg):
			all = append(all, claimant{fromCookie, arg})
		case word == "query" && arg != "":
			all = append(all, claimant{fromQuery, arg})
		default:
			return nil, fmt.Errorf("%s: %q is not where a credential is sent, choose bearer, header:NAME, cookie:NAME or query:NAME", what, text)
		}
	}
	return all, nil
}
