package rules

import "time"

// The types of this file are the grammar of a rules file. Field tags are the
// keys; the JSON Schema and its descriptions are made from them.

// fileSpec is a rules file: the rules of one domain.
type fileSpec struct {
	Node *node `yaml:"-"`
	// The domain that requests name to be decided by these rules.
	Domain string `yaml:"domain"`
	// Settings for every limit of the domain that does not say otherwise.
	Defaults *defaultsSpec `yaml:"defaults"`
	// Pools that elastic limits can share, by name.
	Pools ordered[*limitSpec] `yaml:"pools"`
	// Values that are never limited, by the key of the entry that holds them.
	Allow ordered[words] `yaml:"allow"`
	// Values that are always refused, by the key of the entry that holds them. It wins over allow.
	Deny ordered[words] `yaml:"deny"`
	// What requests are matched against.
	Descriptors []*descriptorSpec `yaml:"descriptors"`
}

// defaultsSpec holds the settings of a domain.
type defaultsSpec struct {
	Node     *node `yaml:"-"`
	settings `yaml:",inline"`
}

// descriptorSpec matches one entry of a request's descriptor, and limits it.
type descriptorSpec struct {
	Node *node `yaml:"-"`
	// Key of the entry.
	Key string `yaml:"key"`
	// Value of the entry; each * in it stands for any text. Without it every value matches, each with a counter of its own.
	Value string `yaml:"value"`
	// Name of the limit in metrics, headers and explanations.
	Name string `yaml:"name"`
	// The limit, in the original format.
	RateLimit *limitSpec `yaml:"rate_limit"`
	// The limit, such as 100/minute or 100/10m; for a concurrency limit, how many at once.
	Limit *limitSpec `yaml:"limit"`
	// Several limits, all of which must allow a request; a request that one refuses is counted by none.
	Limits []*limitSpec `yaml:"limits"`
	// Other limits by the value of another entry, such as the client's plan.
	Tiers *tiersSpec `yaml:"tiers"`
	// Other limits for single values of this entry, or for patterns of them.
	Overrides ordered[limitList] `yaml:"overrides"`
	// Values of this entry that are not limited here: exact, with *, or as CIDR.
	Allow words `yaml:"allow"`
	// Values of this entry that are always refused: exact, with *, or as CIDR. It wins over allow.
	Deny words `yaml:"deny"`
	// Count what would be refused and refuse nothing.
	ShadowMode *bool `yaml:"shadow_mode"`
	// Envoy's quota mode: in compatible mode, a request is refused only if all quota limits refuse it. Here each refuses.
	QuotaMode bool `yaml:"quota_mode"`
	// Put all values of the path in the metric; kept for Envoy's files.
	DetailedMetric bool `yaml:"detailed_metric"`
	// Put this entry's value in the metric; kept for Envoy's files.
	ValueToMetric bool `yaml:"value_to_metric"`
	// Let all values that match the wildcard share one counter.
	ShareThreshold bool `yaml:"share_threshold"`
	// What compatible mode tells Envoy about requests that pass; kept for Envoy's files.
	Metadata *metadataSpec `yaml:"metadata"`
	// Rules for the next entry of the request's descriptor.
	Descriptors []*descriptorSpec `yaml:"descriptors"`
	settings    `yaml:",inline"`
}

// limitSpec is one limit. It can be written as 100/minute alone.
type limitSpec struct {
	Node *node `yaml:"-"`
	// How many per period: 100/minute, 100/10m; for a concurrency limit, how many at once. 0 refuses everything.
	Limit *rateText `yaml:"limit"`
	// How many per unit. 0 refuses everything.
	RequestsPerUnit *int64 `yaml:"requests_per_unit"`
	// The unit of time that requests are counted over.
	Unit *unitWord `yaml:"unit"`
	// How many units make a period.
	UnitMultiplier *int64 `yaml:"unit_multiplier"`
	// The period, such as 10m, in place of a unit.
	Period *span `yaml:"period"`
	// No limit at all.
	Unlimited bool `yaml:"unlimited"`
	// Name in metrics, headers and explanations.
	Name string `yaml:"name"`
	// Names of limits that do not apply to requests that meet this one.
	Replaces names `yaml:"replaces"`
	// Count on all nodes together, or on each node alone.
	Scope    *string `yaml:"scope" enum:"global,node"`
	settings `yaml:",inline"`
}

// settings can be given for a limit, for a descriptor with all its limits, and
// for a domain.
type settings struct {
	// How requests are counted. Without it sliding_window.
	Algorithm *string `yaml:"algorithm"`
	// How many pass at once (token_bucket, leaky_bucket), or may wait (leaky_queue). Without it as many as the limit counts.
	Burst *int64 `yaml:"burst"`
	// The number of sub-windows (sliding_subwindows). Without it 60.
	Precision *int64 `yaml:"precision"`
	// How the oldest sub-window is weighed (sliding_subwindows).
	Form *string `yaml:"form" enum:"strict,weighted,lenient"`
	// Shifts the windows (fixed_window).
	Phase *span `yaml:"phase"`
	// Where windows begin (fixed_window): with the epoch, with the first request, or with the calendar's days, weeks, months, years.
	Anchor *string `yaml:"anchor" enum:"epoch,first_request,calendar"`
	// The time zone of calendar windows, such as Europe/Berlin. Without it UTC.
	TimeZone *string `yaml:"time_zone"`
	// The longest that a request may be made to wait (leaky_queue).
	MaxDelay *span `yaml:"max_delay"`
	// How many pass without delay after a pause (leaky_queue).
	Free *int64 `yaml:"free"`
	// The largest count that is kept as a log (sliding_log). Without it 10,000.
	MaxLog *int64 `yaml:"max_log"`
	// The size of the sketch (approximate).
	Sketch *sketchSpec `yaml:"sketch"`
	// How long a permit is held unless renewed (concurrency).
	TTL *span `yaml:"ttl"`
	// What a breach does: hard refuses, soft lets exceed more pass with a mark, elastic borrows
	// from a pool, shadow counts and refuses nothing. Without it hard.
	Mode *string `yaml:"mode" enum:"hard,soft,elastic,shadow"`
	// How far above the limit requests still pass, marked (mode soft).
	Exceed *percent `yaml:"exceed"`
	// What is borrowed from above the limit (mode elastic): the name of a pool, or its limit.
	Pool *poolSpec `yaml:"pool"`
	// How many units a period one key may spend of its own and the pool together (mode elastic).
	Ceiling *int64 `yaml:"ceiling"`
	// The share of keys that the limit is enforced for, such as 10%: always the same ones.
	// For the others it is a shadow.
	Rollout *percent `yaml:"rollout"`
	// Charge refused requests too.
	Penalize *bool `yaml:"penalize"`
	// Keep the limit from the responses to clients: its name, its numbers and what is left.
	Hidden *bool `yaml:"hidden"`
	// Refuse a key outright after so many refusals: {after: 5, for: 15m}.
	Ban *banSpec `yaml:"ban"`
	// What requests of priority 0, 1, 2 ... may not use: units, or shares of the burst, such
	// as [0, 20%, 50%]. Not with concurrency.
	Headroom []share `yaml:"headroom"`
	// The priority that requests have here at best; 0 is the highest.
	Priority *int64 `yaml:"priority"`
	// What a request costs here, whatever it says itself.
	Cost *int64 `yaml:"cost"`
	// Which answers count: statuses such as 401, classes such as 4xx, ranges, or unreachable. What any other answer was charged is given back.
	CountOn words `yaml:"count_on"`
	// Which answers do not count, such as 5xx and unreachable: what they were charged is given back.
	RefundOn words `yaml:"refund_on"`
	// What is counted once the answer is known: response_bytes, or response_header:NAME for the number in that field. Until then cost is charged.
	CostFrom *string `yaml:"cost_from"`
	// How many bytes make a unit (cost_from: response_bytes), such as 1KiB. Without it 1.
	CostPer *size `yaml:"cost_per"`
	// How nodes that share a store count together.
	Consistency *consistencySpec `yaml:"consistency"`
	// What is decided while the shared store does not answer. Without it local.
	OnStoreError *string `yaml:"on_store_error" enum:"allow,deny,local,last_known"`
	// Whether a changed limit keeps what was spent, or starts afresh.
	OnChange *string `yaml:"on_change" enum:"keep,reset"`
	// Whether a node remembers refusals of a shared store.
	DenyCache *string `yaml:"deny_cache" enum:"auto,on,off"`
}

// tiersSpec chooses a limit by another entry of the request.
type tiersSpec struct {
	Node *node `yaml:"-"`
	// The key of the entry that names the tier. It may follow this entry in its descriptor or stand in another one.
	By string `yaml:"by"`
	// The limits of each tier, by name or pattern.
	Limits ordered[limitList] `yaml:"limits"`
}

// sketchSpec sizes an approximate limit: by load and error, or directly.
type sketchSpec struct {
	Node *node `yaml:"-"`
	// How many units all keys together spend in a period.
	Expect int64 `yaml:"expect"`
	// The over-count that is tolerated, as a share of the limit.
	Error *percent `yaml:"error"`
	// Columns of the count-min sketch, a power of two.
	Width int64 `yaml:"width"`
	// Rows of the count-min sketch.
	Depth int64 `yaml:"depth"`
	// Bits of the Bloom filter.
	BloomBits int64 `yaml:"bloom_bits"`
	// Hash functions of the Bloom filter.
	BloomHashes int64 `yaml:"bloom_hashes"`
	// Sub-windows of the period.
	Generations int64 `yaml:"generations"`
}

// banSpec refuses a key outright for a while.
type banSpec struct {
	Node *node `yaml:"-"`
	// How many refusals bring the ban.
	After int64 `yaml:"after"`
	// How long it lasts.
	For *span `yaml:"for"`
}

// poolSpec names a pool, or is one.
type poolSpec struct {
	ref   string
	limit *limitSpec
}

// consistencySpec says how nodes that share a store count together. It can be
// written as its mode alone.
type consistencySpec struct {
	Node *node `yaml:"-"`
	// One call to the store for every decision, tokens fetched ahead, write-back with a bound, or each node alone.
	Mode string `yaml:"mode" enum:"strict,leased,eventual,local"`
	// How long fetched tokens are good for (leased).
	LeaseTTL *autoSpan `yaml:"lease_ttl"`
	// Whether a lease counts against the burst (leased).
	Burst string `yaml:"burst" enum:"exact,loose"`
	// How many leases of each node the remaining units are cut into (leased). Without it 4.
	Share int64 `yaml:"share"`
	// How much too much may be admitted at worst: a share of the limit, or units (eventual).
	MaxOvershoot *share `yaml:"max_overshoot"`
	// How often nodes tell the store (eventual).
	SyncInterval *span `yaml:"sync_interval"`
	// Whether the first request of a key asks the store (eventual).
	Cold string `yaml:"cold" enum:"sync,optimistic"`
}

// The scalars of the grammar.
type (
	// span is a duration such as 10m.
	span time.Duration
	// autoSpan is a duration, or auto, which is zero.
	autoSpan time.Duration
	// unitWord is the length of a unit such as minute.
	unitWord time.Duration
	// percent is a share such as 10%.
	percent int64
	// share is a number of units, or a percentage.
	share struct {
		units, percent int64
		isPercent      bool
	}
	// size is a number of bytes such as 1KiB.
	size int64
	// words is a list of text, or a single one.
	words []word
	word  struct {
		text string
		node *node
	}
	// names is a list of names, or of blocks with the key name.
	names []string
	// limitList is a limit or a list of limits.
	limitList []*limitSpec
	// metadataSpec is any block.
	metadataSpec struct{}
	// ordered is a block of free keys, in the order of the file.
	ordered[T any] []keyed[T]
	keyed[T any]   struct {
		name  string
		node  *node
		value T
	}
)

// pathStepOf returns what the file adds to the paths of what is in it.
func (*fileSpec) pathStepOf(n *node) string {
	if domain := scalarText(n.valueOf("domain")); domain != "" {
		return quoteStep(domain)
	}
	return ""
}

func (*descriptorSpec) pathStepOf(n *node) string {
	if scalarText(n.valueOf("key")) == "" {
		return ""
	}
	return pathStep(scalarText(n.valueOf("key")), scalarText(n.valueOf("value")))
}

func scalarText(n *node) string {
	if n == nil || n.kind != scalar {
		return ""
	}
	return n.text
}
