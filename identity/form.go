package identity

import (
	"errors"
	"net/netip"
	"strings"
)

// EntryForm returns the form in which plans of r write a value of the entry with
// the given key, a source of [Sources]: "GET" for method "get", "/login" for path
// "//login/", "2001:db8::/64" for remote_address "2001:db8::1". A rule for any
// other form of the value matches no request. It is an error when no request has
// such a value at all. Values of other keys are free text, which is returned as
// it is.
func (r *Resolver) EntryForm(key, value string) (string, error) {
	word, bits, hasBits := strings.Cut(key, "/")
	if word == "remote_address" {
		w := r.width
		if hasBits {
			s, err := r.addressSource(bits)
			if err != nil {
				return "", err
			}
			w = s.width
		}
		return r.addressForm(value, w)
	}
	var form []byte
	var err error
	switch key {
	case "path":
		form, _, err = r.paths.appendPath(nil, value, nil)
	case "method":
		form, err = appendMethod(nil, value)
	case "host":
		if value == "unknown" {
			return value, nil
		}
		form, err = appendHost(nil, value)
	case "api_key":
		if r.keys != nil && !isSealed(value) {
			return "", errors.New("an API key is counted as 32 hexadecimal digits of its HMAC, not as it is sent")
		}
		form = []byte(value)
	default:
		form = []byte(value)
		switch word, _, _ := strings.Cut(key, ":"); word {
		case "header", "cookie":
			if _, err = r.parseSource(key, nil); err != nil {
				break
			}
			// As those of a request are read.
			if form = []byte(trimSpace(value)); word == "cookie" {
				value, _, _ = strings.Cut(value, ";")
				form = []byte(cookieValue(value))
			}
		}
	}
	if err != nil {
		return "", err
	}
	return fitToKey(string(form)), nil
}

// addressForm is EntryForm for an address, or for a prefix that stands for a
// client of width w.
func (r *Resolver) addressForm(value string, w width) (string, error) {
	if value == "unknown" {
		return value, nil
	}
	if p, err := netip.ParsePrefix(value); err == nil {
		form := string(w.appendTo(nil, translated(p.Addr().Unmap().WithZone(""), r.nat64)))
		if q, err := netip.ParsePrefix(form); err == nil && q == p.Masked() {
			return form, nil
		}
		return "", errors.New("a client is counted by its address, not by a range of them")
	}
	a, err := netip.ParseAddr(value)
	if err != nil {
		return "", errors.New("it is not a whole IP address")
	}
	return string(w.appendTo(nil, translated(a.Unmap().WithZone(""), r.nat64))), nil
}

// isSealed reports whether a value has the form of what stands for an API key.
func isSealed(value string) bool {
	return len(value) == 32 && strings.Trim(value, "0123456789abcdef") == ""
}
