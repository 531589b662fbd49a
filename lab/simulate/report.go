package main

// A Report is what was played, what it says of the whole fleet, and what this machine is
// able to. It is the same for the same options, but for Machine.
type Report struct {
	Fleet  Fleet  `json:"fleet"`
	Played Played `json:"played"`
	// Modes are what was measured in the slice.
	Modes []Mode `json:"modes"`
	// Whole are the figures of the whole fleet that follow from those of the slice.
	Whole []Whole `json:"extrapolated"`
	// Machine is what was measured on this machine.
	Machine Machine `json:"machine"`
}

// A Fleet is what was asked for.
type Fleet struct {
	Rules        string  `json:"rules"`
	Nodes        int64   `json:"nodes"`
	Users        int64   `json:"users"`
	Rate         int64   `json:"requests_per_second"`
	Zipf         float64 `json:"zipf_exponent"`
	StoreLatency float64 `json:"store_latency_seconds"`
}

// Played is the slice.
type Played struct {
	Seed uint64 `json:"seed"`
	// Every: one of so many users was played.
	Every int64 `json:"one_user_of"`
	Users int64 `json:"users"`
	// Touched is how many of them sent something.
	Touched  int64   `json:"users_with_requests"`
	Requests int64   `json:"requests"`
	Seconds  float64 `json:"virtual_seconds"`
	// Share is how much of the fleet's requests the slice stands for.
	Share float64 `json:"share_of_requests"`
	// Busiest is the requests a second of the most active user played.
	Busiest float64 `json:"busiest_user_requests_per_second"`
	// Entries says in words what a request has, LeftOut names the limits that were not
	// played, Common those by which users share a counter.
	Entries string   `json:"entries"`
	LeftOut []string `json:"limits_left_out,omitempty"`
	Common  []string `json:"limits_that_users_share,omitempty"`
	// Small are limits of which a node's share is too small to count it on the node.
	Small []string `json:"limits_too_small_to_divide,omitempty"`
	// Unlimited is how many requests met no limit.
	Unlimited int64 `json:"unlimited_requests"`
}

// A Mode is what came of the slice in one way to count. Allowed less those of exact is
// TooMany less Missing.
type Mode struct {
	// Mode is "exact": one node that gets all requests, or a mode of consistency, or
	// "rules": as the rules say.
	Mode     string `json:"mode"`
	Requests int64  `json:"requests"`
	Allowed  int64  `json:"allowed"`
	Refused  int64  `json:"refused"`
	// TooMany are the requests of each user that were allowed beyond those of exact, and
	// Missing those that were missing, added up; WorstMany is the most of one user.
	TooMany   int64 `json:"too_many"`
	Missing   int64 `json:"too_few"`
	WorstMany int64 `json:"too_many_of_one_user"`
	// OnNode is how many requests were decided without waiting for the store, Calls how
	// many calls all of them took, Returns how many of those gave units back, and Renewals
	// the calls by which nodes register.
	OnNode   int64 `json:"decided_on_node"`
	Calls    int64 `json:"store_calls"`
	Returns  int64 `json:"store_calls_that_return_units"`
	Renewals int64 `json:"registration_calls"`
	// Degraded were decided by on_store_error, as the store was late.
	Degraded uint64 `json:"degraded"`
	// HeldKeys and HeldBytes are the most that a node held of fetched units.
	HeldKeys  int64 `json:"held_keys_per_node"`
	HeldBytes int64 `json:"held_bytes_per_node"`
}

// Whole is a mode in the whole fleet.
type Whole struct {
	Mode string `json:"mode"`
	// Calls is the calls of the shared store in a second, InFlight how many are in flight.
	Calls    float64 `json:"store_calls_per_second"`
	InFlight float64 `json:"store_calls_in_flight"`
	// HeldKeys and HeldBytes are what a node would hold of fetched units, if it may.
	HeldKeys  int64 `json:"held_keys_per_node"`
	HeldBytes int64 `json:"held_bytes_per_node"`
}

// Machine is what decisions and counters take of a machine.
type Machine struct {
	Costs []Cost `json:"costs"`
	// BytesPerUser is the memory of the embedded store for the counters of a user at the end
	// of the time played, measured with so many: what is as if never counted is forgotten.
	// BytesAtOnce is that of a user who has sent one request just now. What follows is
	// computed from the one for the users of the fleet who come in the time played, and from
	// the other for all of them at once.
	BytesPerUser  float64 `json:"bytes_per_user"`
	BytesAtOnce   float64 `json:"bytes_per_user_at_once"`
	MeasuredUsers int64   `json:"measured_users"`
	ActiveUsers   int64   `json:"extrapolated_active_users"`
	ActiveBytes   float64 `json:"extrapolated_bytes_for_active_users"`
	AllBytes      float64 `json:"extrapolated_bytes_for_all_users_at_once"`
}

// A Cost is what decisions take of this machine.
type Cost struct {
	Mode        string  `json:"mode"`
	Nanoseconds float64 `json:"nanoseconds_per_decision"`
	PerCore     float64 `json:"decisions_per_second_per_core"`
	Cores       float64 `json:"extrapolated_cores"`
}

// compare says what came of a play, against exact.
func compare(mode string, f *fleet, e *exact) Mode {
	m := f.counts
	m.Mode, m.Requests, m.Refused, m.Allowed = mode, f.requests, f.refused, f.requests-f.refused
	for i, n := range f.admitted {
		over := int64(n - e.admitted[i])
		m.TooMany, m.Missing = m.TooMany+max(over, 0), m.Missing+max(-over, 0)
		m.WorstMany = max(m.WorstMany, over)
	}
	for _, n := range f.nodes {
		m.Degraded += n.store.Stats().Degraded
	}
	return m
}

// extrapolate computes what a mode is in the whole fleet. Calls come with requests; but
// of those that give units back a node makes one at a time, with several that are there.
func (r *Report) extrapolate(m *Mode, lead float64) Whole {
	w := Whole{Mode: m.Mode, HeldKeys: m.HeldKeys * r.Played.Every, HeldBytes: m.HeldBytes * r.Played.Every}
	rate := float64(r.Fleet.Rate) / float64(max(m.Requests, 1))
	returns := float64(m.Returns) * rate
	if r.Fleet.StoreLatency > 0 {
		returns = min(returns, float64(r.Fleet.Nodes)/r.Fleet.StoreLatency)
	}
	w.Calls = float64(m.Calls-m.Returns)*rate + returns
	w.Calls += float64(m.Renewals) / (r.Played.Seconds + lead)
	w.InFlight = w.Calls * r.Fleet.StoreLatency
	return w
}

// estimateMemory computes the memory for users of the fleet.
func (r *Report) estimateMemory(e *exact) {
	r.Machine = e.memory
	m := &r.Machine
	m.ActiveUsers = min(e.touched*r.Played.Every, r.Fleet.Users)
	m.ActiveBytes, m.AllBytes = m.BytesPerUser*float64(m.ActiveUsers), m.BytesAtOnce*float64(r.Fleet.Users)
}
