package identity

import (
	"net/netip"

	"github.com/weirlimit/weir"
)

// Told returns what the caller knows as observers are told it. It holds until
// Release. A user or tier that has not been found out yet, because no descriptor
// asks for it, is told where a trusted proxy's header states it; no token is
// verified and no key looked up for the sake of being told.
func (c *Caller) Told() weir.Facts { return (*told)(c) }

// told is a caller as weir.Facts: a type of its own, since to ask a Caller for the
// user may verify a token.
type told Caller

func (t *told) caller() *Caller { return (*Caller)(t) }

// Address implements weir.Facts.
func (t *told) Address() netip.Addr { return t.caller().Address() }

// Method implements weir.Facts.
func (t *told) Method() string { return t.caller().Method() }

// Host implements weir.Facts.
func (t *told) Host() string { return t.caller().Host() }

// Path implements weir.Facts: it is "" if the path cannot be read.
func (t *told) Path() string {
	path, _ := t.caller().Path()
	return path
}

// User implements weir.Facts.
func (t *told) User() string {
	if t.known&knownUser != 0 {
		return t.user
	}
	return t.caller().firstClaim(t.r.user, knownUser, false)
}

// Tier implements weir.Facts.
func (t *told) Tier() string {
	if t.known&knownTier != 0 {
		return t.tier
	}
	return t.caller().firstClaim(t.r.tier, knownTier, false)
}

// Agent implements weir.Facts.
func (t *told) Agent() string {
	if lines := t.f.Header["User-Agent"]; len(lines) > 0 {
		return lines[0]
	}
	return ""
}

var _ weir.Facts = (*told)(nil)
