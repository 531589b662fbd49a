package weir

import (
	"fmt"
)

// Adjustment says what becomes of a request's charge once its answer is known.
// The charge is made before the request is let through and adjusted after, so
// that however many requests are under way at once, no more pass than the limit
// allows. Front ends that see no answer leave the charge as it is.
type Adjustment struct {
	// CountOn are the codes that count; what was charged for a request of
	// another code is given back, but for ClientGone. Empty means all.
	CountOn Codes
	// RefundOn are codes that do not count, though CountOn has them.
	RefundOn Codes
	// Per, if above zero, makes the limit count the bytes of the response's body:
	// so many make a unit, a part counts whole.
	Per int64
	// Header, if not empty, makes the limit count the number that the field of the
	// response states. Not with Per.
	//
	// With either, what is charged before the response is an estimate. The difference
	// is charged, whether it is there or not, or given back.
	Header string
}

func (s *Adjustment) checkForLimit(l *Limit) error {
	switch t := l.Algorithm.Traits(); {
	case s == nil:
		return nil
	case t&Leases != 0:
		return fmt.Errorf("limit %q: a concurrency limit ends with its request: it cannot be adjusted by the response", l.Name)
	case t&Sketches != 0:
		return fmt.Errorf("limit %q: an approximate limit gives nothing back: it cannot be adjusted by the response", l.Name)
	case t&Shapes != 0:
		return fmt.Errorf("limit %q: a queue has made its requests wait already: it cannot be adjusted by the response", l.Name)
	case s.Per < 0 || s.Per > MaxCost:
		return fmt.Errorf("limit %q: bytes per unit %d must be between 1 and 2^53", l.Name, s.Per)
	case s.Per > 0 && s.Header != "":
		return fmt.Errorf("limit %q: counts bytes or the header field %s, not both", l.Name, s.Header)
	}
	return nil
}

// finalCost returns what the request that was charged spent costs after all.
func (s *Adjustment) finalCost(res *Result, spent int64) int64 {
	least := int64(0)
	switch {
	case res.Code == ClientGone: // else clients that hang up in time would never be counted
		least = spent
	case !s.CountOn.Empty() && !s.CountOn.Has(res.Code), s.RefundOn.Has(res.Code):
		return 0
	}
	switch {
	case s.Per > 0:
		n := max(res.Bytes, 0)
		units := n / s.Per
		if n%s.Per > 0 {
			units++
		}
		return min(max(units, least), MaxCost)
	case s.Header != "":
		if res.Number == nil {
			return spent
		}
		// What an upstream does not say, or says wrongly, changes nothing.
		if n, ok := res.Number(s.Header); ok && n >= 0 {
			return min(max(n, least), MaxCost)
		}
	}
	return spent
}

// adjustment returns by what o is settled, nil for none. A pool is adjusted by the
// limit that borrowed from it.
func (o *Op) adjustment() *Adjustment {
	if !o.Charged || o.Verb == Refund || o.Role == Ban {
		return nil
	}
	return o.Written().Adjustment
}

// NeedsResult reports whether the last decision charged a limit that is to be
// told how the request ended, see [Limiter.Adjust].
func (r *Request) NeedsResult() bool {
	for i := range r.ops {
		if r.ops[i].adjustment() != nil {
			return true
		}
	}
	return false
}
