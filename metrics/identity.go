package metrics

// Identity is what requests said in vain of whom they are from.
type Identity struct {
	Failures  []IdentityFailure
	Untrusted []UntrustedField
}

// IdentityFailure is how many credentials were not believed, or paths not read, for one
// reason.
type IdentityFailure struct {
	Kind, Reason string
	Count        uint64
}

// UntrustedField is how many requests had a header field that only trusted proxies may
// set, from other peers.
type UntrustedField struct {
	Field    string
	Requests uint64
}

func (i Identity) collect(out sink) {
	failures := out.counters("weir_identity_failures_total", "Rejected credentials, paths and trailers, by kind (jwt, api_key, credential: several or malformed, header: of a trusted proxy, path: of a request refused with 400, trailer: not forwarded) and reason.", "kind", "reason")
	for _, f := range i.Failures {
		failures.count(f.Count, f.Kind, f.Reason)
	}
	untrusted := out.counters("weir_untrusted_forwarded_total", "Requests with a header field that only trusted proxies may set, from other peers.", "field")
	for _, f := range i.Untrusted {
		untrusted.count(f.Requests, f.Field)
	}
}
