package identity

import "github.com/weirlimit/weir"

// Facts returns what is known of the caller, for observers. It is valid until Release. A
// user or tier that no descriptor has asked for yet is read from a trusted proxy's header
// only: no token is verified and no key looked up for it.
func (c *Caller) Facts() weir.Facts { return facts{c} }

// facts is a caller as weir.Facts: a type of its own, since to ask a Caller for the
// user may verify a token.
type facts struct{ *Caller }

// Path implements weir.Facts: it is "" if the path cannot be read.
func (t facts) Path() string { return t.readPath() }

// User implements weir.Facts.
func (t facts) User() string {
	if t.known&knownUser != 0 {
		return t.user
	}
	return t.r.user.firstValue(t.Caller, knownUser, false)
}

// Tier implements weir.Facts.
func (t facts) Tier() string {
	if t.known&knownTier != 0 {
		return t.tier
	}
	return t.r.tier.firstValue(t.Caller, knownTier, false)
}

// Agent implements weir.Facts.
func (t facts) Agent() string {
	if lines := t.f.Header["User-Agent"]; len(lines) > 0 {
		return lines[0]
	}
	return ""
}
