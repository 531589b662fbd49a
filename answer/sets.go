package answer

// Names of the sets of header fields.
const (
	// IETF08 is the pair RateLimit and RateLimit-Policy as structured lists,
	// with every enforced limit that the request met.
	// Source: draft-ietf-httpapi-ratelimit-headers, revisions 08 to 11.
	IETF08 = "ietf-08"
	// IETF07 is RateLimit as a structured dictionary of the most restrictive
	// limit, left out while no reset is known, and RateLimit-Policy as a list
	// of those limits that have a window. It excludes IETF08, whose fields have
	// the same names.
	// Source: draft-ietf-httpapi-ratelimit-headers, revision 07.
	IETF07 = "ietf-07"
	// IETF06 is RateLimit-Limit, RateLimit-Remaining and RateLimit-Reset of the
	// most restrictive limit.
	// Source: draft-ietf-httpapi-ratelimit-headers, revisions 00 to 06.
	IETF06 = "ietf-06"
	// XRateLimit is X-RateLimit-Limit and X-RateLimit-Remaining of the most
	// restrictive limit, and X-RateLimit-Retry-After on refusals.
	XRateLimit = "x-ratelimit"
	// XRateLimitReset is XRateLimit and X-RateLimit-Reset.
	XRateLimitReset = "x-ratelimit-reset"
	// None is no fields but Retry-After.
	None = "none"
)

// Sets lists the names that Options.Headers accepts.
func Sets() []string {
	names := make([]string, len(sets))
	for i, s := range sets {
		names[i] = s.name
	}
	return names
}

// value is what a header field tells.
type value uint8

const (
	policyList value = iota // RateLimit-Policy of revision 08
	stateList               // RateLimit of revision 08
	windowList              // RateLimit-Policy of revision 07
	dictionary              // RateLimit of revision 07
	quota                   // of the most restrictive limit, and so on:
	remaining
	reset      // in the writer's style
	retryAfter // seconds, of the refusal
	degraded   // that the decision was made without its usual guarantee
	exposed    // the names of the other fields
)

// decides reports whether the field of a voice with value v tells how much is
// left.
func (v value) decides() bool { return v == stateList || v == dictionary || v == remaining }

// voice is a group of fields that tell of one limiter together: they are kept,
// added to or replaced together.
type voice uint8

const (
	ietfList voice = iota
	ietfDictionary
	ietfFields
	xFields
	alone // on its own
	numVoices
)

// field is one header field of a set.
type field struct {
	// key is the field's name in canonical form.
	key   string
	value value
	voice voice
}

// degradedField is of all sets but None.
var degradedField = field{"X-Ratelimit-Degraded", degraded, alone}

var sets = []struct {
	name   string
	fields []field
}{
	{IETF08, []field{{"Ratelimit-Policy", policyList, ietfList}, {"Ratelimit", stateList, ietfList}, degradedField}},
	{IETF07, []field{{"Ratelimit-Policy", windowList, ietfDictionary}, {"Ratelimit", dictionary, ietfDictionary}, degradedField}},
	{IETF06, []field{{"Ratelimit-Limit", quota, ietfFields}, {"Ratelimit-Remaining", remaining, ietfFields}, {"Ratelimit-Reset", reset, ietfFields}, degradedField}},
	{XRateLimit, []field{{"X-Ratelimit-Limit", quota, xFields}, {"X-Ratelimit-Remaining", remaining, xFields}, {"X-Ratelimit-Retry-After", retryAfter, alone}, degradedField}},
	{XRateLimitReset, []field{{"X-Ratelimit-Limit", quota, xFields}, {"X-Ratelimit-Remaining", remaining, xFields}, {"X-Ratelimit-Reset", reset, xFields}, {"X-Ratelimit-Retry-After", retryAfter, alone}, degradedField}},
	{None, nil},
}

// always are the fields of every writer.
var always = []field{{"Retry-After", retryAfter, alone}}

const exposeKey = "Access-Control-Expose-Headers"

// maxFields is how many fields all sets that can be combined make, with those
// that are not of a set.
const maxFields = 12
