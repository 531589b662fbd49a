package identity

import (
	"cmp"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"slices"
	"strings"
)

// User returns the verified user, "" if there is none.
func (c *Caller) User() string {
	if c.known&knownUser == 0 {
		c.known |= knownUser
		c.user = c.r.user.readValue(c, knownUser)
	}
	return c.user
}

// Tier returns the tier of the client, "" if there is none.
func (c *Caller) Tier() string {
	if c.known&knownTier == 0 {
		c.known |= knownTier
		c.tier = c.r.tier.readValue(c, knownTier)
	}
	return c.tier
}

// APIKey returns what stands for the API key of the request, in 32 hexadecimal
// digits: 128 bits of its HMAC. It is "" if there is no key, or if there is a
// file of keys and it is not in it.
func (c *Caller) APIKey() string {
	c.r.keys.identify(c)
	return c.apiKey
}

// readValue returns the value of the first claimant that has one, "" where it is
// not clear who the request is from.
func (from claimants) readValue(c *Caller, what known) string {
	if len(from) == 0 || c.Check() != nil {
		return ""
	}
	if v := from.firstValue(c, what, true); v != "" {
		return v
	}
	if what == knownUser && c.claims != nil && slices.ContainsFunc(from, func(f claimant) bool { return f.kind == fromJWT }) {
		c.r.reports.recordFailure(c, tokenNoUser)
	}
	return ""
}

// firstValue returns the value of the first claimant that has one. Unless it may ask, it
// is "" where it depends on a token or a key that nobody has asked for yet, and a field
// on several lines says nothing.
func (from claimants) firstValue(c *Caller, what known, mayAsk bool) string {
	for _, f := range from {
		v := ""
		switch f.kind {
		case fromHeader:
			if c.believed && (mayAsk || len(c.f.Header[f.name]) == 1) {
				v = headerValue(c.f.Header, f.name)
			}
		case fromJWT:
			if !mayAsk && c.known&knownToken == 0 {
				return ""
			}
			v = c.r.tokens.readClaim(c, f.name)
		case fromAPIKey:
			if !mayAsk && (c.known&knownKey == 0 || what == knownTier && c.known&knownUser == 0) {
				return ""
			}
			v = c.r.keys.readClaim(c, what)
		}
		if v != "" {
			return c.text.fitToKey(v)
		}
	}
	return ""
}

// party is somebody whom a request may be from, and the kind of credential that says so.
type party struct {
	user, tier string
	by         kind
	late       bool // his token is
}

// findParties returns whom the request may be from, if that may be several: the users that
// credentials of several kinds prove, and the user of a token that is right but for its
// time, who has no tier and stands beside whom else it is from. An upstream may serve each.
func (c *Caller) findParties() []party {
	if c.known&knownParties != 0 {
		return c.parties
	}
	c.known |= knownParties
	c.parties = c.parties[:0]
	first, from := c.User(), c.r.user
	if len(c.late) == 0 && !slices.ContainsFunc(from, func(f claimant) bool { return f.kind != from[0].kind }) {
		return nil
	}
	c.r.tokens.readClaim(c, "")
	c.r.keys.identify(c)
	add := func(one party) {
		if !slices.ContainsFunc(c.parties, func(p party) bool { return p.user == one.user }) {
			c.parties = append(c.parties, one)
		}
	}
	var known [numKinds]bool // kinds of credentials of which a user is
	late := ""
	for i, f := range from {
		if known[f.kind] {
			continue
		}
		if user := from[i:i+1].firstValue(c, knownUser, true); user != "" {
			known[f.kind] = true
			add(party{user: user, tier: c.tierOfUser(user, f.kind), by: f.kind})
		} else if f.kind == fromJWT {
			late = cmp.Or(late, c.text.fitToKey(c.late[f.name]))
		}
	}
	if late != "" {
		if first == "" {
			add(party{tier: c.Tier()})
		}
		add(party{user: late, late: true})
	}
	return c.parties
}

// tierOfUser returns the tier of a user whom a credential of a kind proves, by what that says
// and the file of keys.
func (c *Caller) tierOfUser(user string, by kind) string {
	was := c.found
	c.user, c.believed = user, by == fromHeader
	if by != fromJWT {
		c.claims = nil
	}
	if by != fromAPIKey {
		c.keyRow = nil
	}
	tier := c.r.tier.firstValue(c, knownTier, true)
	c.found = was
	return tier
}

// identify finds out the request's API key.
func (k *apiKeys) identify(c *Caller) {
	if c.known&knownKey != 0 || k == nil {
		return
	}
	c.known |= knownKey
	if c.Check() != nil || c.key == "" {
		return
	}
	key := c.key
	isToken := key == c.token && isJWS(key) // a key only where there is no other
	if len(key) > maxKey {
		if !isToken {
			c.r.reports.recordFailure(c, keyTooLong)
		}
		return
	}
	if k.table != nil {
		// The digest's place in a map tells nothing of the key, whose digest alone
		// an attacker cannot choose; no part of a key is compared.
		if c.keyRow = k.table.Key(sha256.Sum256([]byte(key))); c.keyRow == nil {
			if !isToken {
				c.r.reports.recordFailure(c, keyUnknown)
			}
			return
		}
		if len(key) < minKey {
			c.r.reports.reportShortKey(c)
		}
	}
	d := c.keySealer.seal(k.secret, key)
	c.apiKey = c.text.keepAppended(d.appendTo(c.text.buf))
}

// readClaim returns the user of the request's API key; or its tier, else that of
// the request's user.
func (k *apiKeys) readClaim(c *Caller, what known) string {
	k.identify(c)
	switch row := c.keyRow; {
	case row != nil && what == knownUser:
		return row.User
	case row != nil && row.Tier != "":
		return row.Tier
	case what == knownTier:
		return k.table.TierOf(c.User())
	}
	return ""
}

// readClaim returns a claim of the request's verified token, "" if there is none.
func (t *tokens) readClaim(c *Caller, name string) string {
	if t == nil {
		return ""
	}
	if c.known&knownToken == 0 {
		c.known |= knownToken
		if c.Check() == nil && c.token != "" {
			all, why := t.verify(c.token)
			if why == believed {
				c.claims = all
			} else if c.late = all; !(c.key == c.token && !isJWS(c.key)) { // else it is an API key
				c.r.reports.recordFailure(c, why)
			}
		}
	}
	return c.claims[name]
}

// unverifiedClaim returns a claim of the request's token, which nobody has verified.
func unverifiedClaim(c *Caller, name string) string {
	token := ""
	if c.r.tokens == nil {
		token, _ = readBearer(c)
	} else if c.Check() == nil {
		token = c.token
	}
	if len(token) > maxToken || !isJWS(token) {
		return ""
	}
	_, rest, _ := strings.Cut(token, ".")
	payload, _, _ := strings.Cut(rest, ".")
	b, err := base64.RawURLEncoding.Strict().DecodeString(payload)
	if err != nil {
		return ""
	}
	var all map[string]json.RawMessage
	if json.Unmarshal(b, &all) != nil {
		return ""
	}
	return claimText(all[name])
}
