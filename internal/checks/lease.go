package checks

import (
	"encoding/base64"
	"strings"

	"github.com/weirlimit/weir"
)

// MaxWrittenLease is the longest lease that says what it was acquired by, in bytes.
const MaxWrittenLease = 8 << 10

// leaseForm is how such a lease begins. Another layout gets another.
const leaseForm = "lease1."

// NoLeaseText is what is wrong with descriptors that are missing beside such a name.
const NoLeaseText = "is missing: a lease that its client named does not say what it was acquired by"

// WriteLease returns the lease of r as whoever acquired it is told: its name and what r
// asks, so that any node can release and renew it by this alone. It is neither signed nor
// encrypted: who may ask may release what the descriptors tell. It is the name alone where
// it would be longer than MaxWrittenLease.
func WriteLease(r *weir.Request) string {
	b := AppendRequest(AppendText(nil, r.Lease), r)
	if lease := leaseForm + base64.RawURLEncoding.EncodeToString(b); len(lease) <= MaxWrittenLease {
		return lease
	}
	return r.Lease
}

// ReadLease returns what a lease was acquired by, under its name, or nil if it is a name
// alone.
func ReadLease(lease string) *weir.Request {
	text, ok := strings.CutPrefix(lease, leaseForm)
	if !ok || len(lease) > MaxWrittenLease {
		return nil
	}
	b, err := base64.RawURLEncoding.Strict().DecodeString(text)
	if err != nil {
		return nil
	}
	s := Scanner{Left: b}
	name := s.Text()
	r := s.Request()
	r.Lease = name
	if s.Bad || len(s.Left) > 0 || name == "" || len(name) > MaxLease || !withinBounds(r) {
		return nil
	}
	return r
}

// withinBounds reports whether r may be asked.
func withinBounds(r *weir.Request) bool {
	if len(r.Domain) > MaxDomain || r.Cost < 0 || r.Cost > weir.MaxCost || r.Priority < 0 || r.Priority > MaxPriority || len(r.Descriptors) == 0 {
		return false
	}
	for _, d := range r.Descriptors {
		if d.Cost < 0 || d.Cost > weir.MaxCost || len(d.Entries) == 0 || len(d.Entries) > MaxEntries {
			return false
		}
		for _, e := range d.Entries {
			if e.Key == "" || len(e.Key) > MaxKey || len(e.Value) > MaxValue {
				return false
			}
		}
	}
	return true
}
