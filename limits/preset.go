package limits

import "github.com/weirlimit/weir"

// Preset is limits that requests meet as a whole, beside what rules say of their descriptors,
// and that are switched while they are in use: those of load shedding.
type Preset struct {
	// By are keys of entries that tell whose a request is: of those that it has, in whatever
	// descriptor, the first counts. A request with none of them is nobody's.
	By []string
	// PerClient are the limits of each client, Common those of all requests together.
	PerClient, Common []Switched
	// Unknown and Leaseless count, as Allowed, the requests that met no limit per client as
	// it was not known whose they were, or none on how many run at once for want of a lease:
	// nothing would tell when they end.
	Unknown, Leaseless *weir.Counters
}

// Switched is a limit of a preset.
type Switched struct {
	// Limits are by the priority of requests; the last is also that of all below.
	Limits []*weir.Limit
	// Key is what requests count under in common.
	Key string
	// Role returns the role in which the limit is met at present, false where it is not.
	Role func() (weir.Role, bool)
}

// matchRequest appends the ops by which r meets the preset. The cost of a request is charged to the
// limits, but of one on how many run at once it takes one place, whatever it costs.
func (p *Preset) matchRequest(dst []weir.Op, r *weir.Request) []weir.Op {
	dst = p.matchClient(dst, r)
	for i := range p.Common {
		s := &p.Common[i]
		if role, ok := s.Role(); ok {
			dst = s.appendOp(dst, role, s.Key, descriptorCost(r, &weir.Descriptor{}), onlyPeeks(r), r)
		}
	}
	return dst
}

// matchClient appends the ops of the limits per client.
func (p *Preset) matchClient(dst []weir.Op, r *weir.Request) []weir.Op {
	asks := r.IsDeciding() && (r.Verb == weir.Spend || r.Verb == weir.Force)
	var client *weir.Entry
	key, at, from := "", 0, len(dst)
	for i := range p.PerClient {
		s := &p.PerClient[i]
		role, ok := s.Role()
		holds := s.Limits[0].Traits()&weir.Leases != 0
		if holds && r.Verb == weir.Refund {
			role, ok = weir.Enforce, true // what was taken before a switch is given back after it
		}
		if !ok {
			continue
		}
		if client == nil {
			if at, client = p.findClient(r); client == nil {
				if asks {
					p.Unknown.Add(weir.Allowed)
				}
				return dst
			}
			key = r.Key(client.Key, client.Value)
		}
		switch d := &r.Descriptors[at]; {
		case !holds:
			dst = s.appendOp(dst, role, key, descriptorCost(r, d), d.Peek, r)
		case r.Lease != "" || r.NewLease || r.Verb == weir.Peek || d.Peek:
			dst = s.appendOp(dst, role, key, 1, d.Peek, r)
		case asks:
			p.Leaseless.Add(weir.Allowed)
		}
	}
	for i := from; i < len(dst); i++ {
		dst[i].Descriptor = uint16(at)
	}
	return dst
}

// findClient returns the entry that tells whose r is, and the place of its descriptor; nil if
// there is none.
func (p *Preset) findClient(r *weir.Request) (at int, e *weir.Entry) {
	for _, key := range p.By {
		for i := range r.Descriptors {
			for j := range r.Descriptors[i].Entries {
				if e := &r.Descriptors[i].Entries[j]; e.Key == key && e.Value != "" {
					return i, e
				}
			}
		}
	}
	return 0, nil
}

// appendOp appends the op of the limit, which has no parts.
func (s *Switched) appendOp(dst []weir.Op, role weir.Role, key string, cost int64, peek bool, r *weir.Request) []weir.Op {
	at := len(dst)
	dst = s.Limits[min(max(r.Priority, 0), len(s.Limits)-1)].Append(dst, key, cost, r)
	dst[at].Role = role
	if peek {
		dst[at].Verb = weir.Peek
	}
	return dst
}

// onlyPeeks reports whether r only looks, in all its descriptors.
func onlyPeeks(r *weir.Request) bool {
	for i := range r.Descriptors {
		if !r.Descriptors[i].Peek {
			return false
		}
	}
	return len(r.Descriptors) > 0
}
