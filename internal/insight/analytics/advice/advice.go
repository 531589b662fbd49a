package advice

// Badge is a word for what a limit is like.
type Badge string

// Badges.
const (
	// NeverHit: it refused nothing, and was asked often enough.
	NeverHit Badge = "never_hit"
	// NeverDecides: it refused, and another limit was always the answer.
	NeverDecides Badge = "never_decides"
	// TooTight: it is in the way of clients that look legitimate.
	TooTight Badge = "too_tight"
	// TooLoose: nobody comes near it.
	TooLoose Badge = "too_loose"
	// Flapping: it refuses for a moment, and again, and again.
	Flapping Badge = "flapping"
	// SharedAddress: much of what it refuses comes from addresses that many share.
	SharedAddress Badge = "shared_address"
	// ShadowReady: it is in shadow mode, and would refuse hardly anyone but those who
	// deserve it.
	ShadowReady Badge = "shadow_ready"
)

// Kind is what advice recommends.
type Kind string

// Kinds of advice.
const (
	// Relax: raise the allowance.
	Relax Kind = "relax"
	// Tighten: lower it.
	Tighten Kind = "tighten"
	// TokenBucket: keep the rate and let bursts pass.
	TokenBucket Kind = "token_bucket"
	// RaiseBurst: the same, where the limit is a bucket already.
	RaiseBurst Kind = "raise_burst"
	// KeyByUser: count users instead of addresses.
	KeyByUser Kind = "key_by_user"
	// Remove: it does nothing.
	Remove Kind = "remove"
	// Enforce: end the shadow mode.
	Enforce Kind = "enforce"
)

// Advice is one recommendation.
type Advice struct {
	Kind Kind `json:"kind"`
	// Text is one or two sentences with the figures.
	Text string `json:"text"`
	// Allowance and Burst are what is proposed, zero where nothing is.
	Allowance int64 `json:"allowance,omitempty"`
	Burst     int64 `json:"burst,omitempty"`
}

// Answer is what can be said of a limit.
type Answer struct {
	Badges []Badge  `json:"badges,omitempty"`
	Advice []Advice `json:"advice,omitempty"`
	// NoAdvice says why there is no advice, where there is none.
	NoAdvice string `json:"no_advice_reason,omitempty"`
}
